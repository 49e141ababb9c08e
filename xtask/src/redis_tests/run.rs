//! One unit of Redis' tests against a server of its own.

use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::outcome::Outcome;

/// The engines that are tried.
pub const ENGINES: [&str; 2] = ["lsm", "memory"];

/// What the tool is told, beside where the server is. Replication is not for clients, and the memory limit and the
/// files of a tenant are its operator's; how rows are kept is not asked about, as Weir keeps them in another way.
const FLAGS: [&str; 5] = [
    "--durable",
    "--ignore-encoding",
    "--ignore-digest",
    "--tags",
    "-needs:repl -needs:config-maxmemory -needs:save -large-memory",
];

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(20);
/// How often is looked whether the tool has ended.
const STEP: Duration = Duration::from_millis(100);

/// Where everything is.
pub struct Bench {
    /// Redis' source.
    pub tests: PathBuf,
    pub weir: PathBuf,
    pub port: u16,
    /// For data and what was said.
    pub scratch: PathBuf,
}

/// A process that ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    /// Runs `unit` but for the tests in `skipped`; gives what has become of it, and how many seconds it took.
    pub fn run(&self, unit: &str, engine: &str, seconds: u64, skipped: &[&str]) -> Result<(Outcome, u64), String> {
        let name = format!("{}-{engine}", unit.replace('/', "-"));
        let failed = |what: &str, error: std::io::Error| format!("{unit} on {engine}: {what}: {error}");
        let dir = self.scratch.join(&name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(|error| failed("its directory", error))?;
        let server = self.serve(engine, &dir).map_err(|error| failed("weir serve", error))?;
        let said = dir.join("said.txt");
        let out = File::create(&said).map_err(|error| failed("what is said", error))?;
        let begin = Instant::now();
        let mut tool = Command::new("tclsh");
        tool.args(["tests/test_helper.tcl", "--host", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--single", unit])
            .args(FLAGS);
        skipped.iter().for_each(|test| _ = tool.args(["--skiptest", test]));
        let mut tool = Running(
            tool.current_dir(&self.tests)
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| failed("cannot start tclsh (install the package tcl)", error))?,
        );
        while begin.elapsed().as_secs() < seconds {
            if tool.0.try_wait().map_err(|error| failed("tclsh", error))?.is_some() {
                break;
            }
            std::thread::sleep(STEP);
        }
        drop(tool);
        let took = begin.elapsed().as_secs();
        // The half of the tool that runs the tests ends when nobody listens to it, or nobody answers it.
        drop(server);
        let text = std::fs::read(&said).map_err(|error| failed("what was said", error))?;
        Ok((Outcome::parse(&String::from_utf8_lossy(&text)), took))
    }

    fn serve(&self, engine: &str, dir: &std::path::Path) -> std::io::Result<Running> {
        let at = |port: u16| format!("127.0.0.1:{port}");
        let log = File::create(dir.join("weir.log"))?;
        let server = Command::new(&self.weir)
            .arg("serve")
            .arg("--dir")
            .arg(dir.join("data"))
            .args(["--listen", &at(self.port), "--admin", &at(self.port + 1)])
            .args(["--engine", engine, "--allow-debug"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut server = Running(server);
        let begin = Instant::now();
        while TcpStream::connect(at(self.port)).is_err() {
            if server.0.try_wait()?.is_some() || begin.elapsed() > START {
                let log = dir.join("weir.log");
                return Err(std::io::Error::other(format!("it does not listen: {}", log.display())));
            }
            std::thread::sleep(STEP);
        }
        Ok(server)
    }

    /// Removes what was written.
    pub fn clean(&self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.scratch).map_err(|error| format!("{}: {error}", self.scratch.display()))
    }
}
