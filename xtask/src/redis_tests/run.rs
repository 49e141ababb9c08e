//! Runs one unit of Redis' tests, on one engine.
//!
//! The tool starts the servers that its tests need, as it does for Redis: where it looks for `redis-server` it finds a
//! script that starts `weir serve`, and passes on those of the wanted settings that Weir has.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::outcome::Outcome;

/// The engines that are tried.
pub const ENGINES: [&str; 2] = ["lsm", "memory"];

/// The script in the place where the tool looks for a server.
const SERVER: &str = include_str!("redis-server.sh");

/// The tool's arguments, beside the ports of servers. Weir does not offer replication to clients, and the memory limit
/// and the files of a tenant are up to its operator. Encodings of values are not checked, as Weir has other ones.
const FLAGS: [&str; 5] = [
    "--durable",
    "--ignore-encoding",
    "--ignore-digest",
    "--tags",
    "-repl -needs:repl -needs:config-maxmemory -needs:save -large-memory -cluster -aof",
];

/// How many ports the tool may choose from, one for each server.
const PORTS: u16 = 100;

/// Time between two looks whether the tool has ended.
const STEP: Duration = Duration::from_millis(100);

/// The places that a run uses.
pub struct Bench {
    /// Redis' source.
    pub tests: PathBuf,
    pub weir: PathBuf,
    /// The first of [`PORTS`] for servers; operators' are 10,000 above them.
    pub port: u16,
    /// The directory for data and output.
    pub scratch: PathBuf,
}

/// The tool, with the processes that it has started: all of them end when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The processes may have ended by themselves already.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

impl Bench {
    /// Runs `unit` except the tests in `skipped`; gives the outcome, and how many seconds it took.
    pub fn run(&self, unit: &str, engine: &str, seconds: u64, skipped: &[&str]) -> Result<(Outcome, u64), String> {
        let name = format!("{}-{engine}", unit.replace('/', "-"));
        let failed = |what: &str, error: io::Error| format!("{unit} on {engine}: {what}: {error}");
        let dir = self.scratch.join(&name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).map_err(|error| failed("its directory", error))?;
        let said = dir.join("said.txt");
        let out = File::create(&said).map_err(|error| failed("what is said", error))?;
        self.install().map_err(|error| failed("src/redis-server", error))?;
        let begin = Instant::now();
        let mut tool = Command::new("tclsh");
        tool.args(["tests/test_helper.tcl", "--single", unit, "--clients", "1"])
            .args(["--baseport", &self.port.to_string(), "--portcount", &PORTS.to_string()])
            .args(FLAGS)
            .env("WEIR", &self.weir)
            .env("WEIR_ENGINE", engine);
        skipped.iter().for_each(|test| _ = tool.args(["--skiptest", test]));
        let mut tool = Running(
            tool.current_dir(&self.tests)
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(Stdio::null())
                .process_group(0)
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
        let text = std::fs::read(&said).map_err(|error| failed("what was said", error))?;
        Ok((Outcome::parse(&String::from_utf8_lossy(&text)), took))
    }

    /// Puts the script where the tool looks for a server.
    fn install(&self) -> io::Result<()> {
        let path = self.tests.join("src/redis-server");
        std::fs::write(&path, SERVER)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
    }

    /// Removes what was written.
    pub fn clean(&self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.scratch).map_err(|error| format!("{}: {error}", self.scratch.display()))
    }
}
