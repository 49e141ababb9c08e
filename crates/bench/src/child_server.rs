//! `weir serve` as a process of its own, on a directory that may outlive it: ended, killed, started again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::meter;
use crate::wire::{self, Client};

/// How long a server may take until it is ready.
const START: Duration = Duration::from_secs(120);

/// A running server; killed when dropped. Its directory stays.
pub struct ChildServer {
    child: Child,
    port: u16,
    admin: u16,
}

impl ChildServer {
    /// Starts `weir` on `dir` and free ports, with the text of a configuration file; the server is ready when this
    /// returns.
    pub fn start(weir: &Path, dir: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let file = config_file(dir);
        fs::write(&file, config)?;
        let mut child = Command::new(weir)
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dir"])
            .arg(dir)
            .arg("--config")
            .arg(&file)
            // What is read of its log is text, whatever the user's own servers write.
            .env("WEIR_LOG", "info")
            .env("WEIR_LOG_FORMAT", "text")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", weir.display()))?;
        let log = child.stderr.take().ok_or("the server has no standard error")?;
        let (ready, is_ready) = mpsc::channel();
        // This thread reads on after the server is ready, so that a full pipe never stops the server.
        thread::spawn(move || {
            let mut said = String::new();
            for line in BufReader::new(log).lines().map_while(std::result::Result::ok) {
                said.push_str(&line);
                said.push('\n');
                if let Some(ports) = ports(&line) {
                    // Nobody listens any more once the server is ready or was given up.
                    let _ = ready.send(Ok(ports));
                    said.clear();
                }
            }
            let _ = ready.send(Err(said));
        });
        let answer = is_ready.recv_timeout(START);
        let mut server = Self { child, port: 0, admin: 0 };
        match answer {
            Ok(Ok((port, admin))) => {
                (server.port, server.admin) = (port, admin);
                Ok(server)
            }
            Ok(Err(said)) => Err(format!("the server ended:\n{said}").into()),
            Err(_) => Err(format!("the server was not ready within {START:?}").into()),
        }
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(self.port)
    }

    /// The port of Redis clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of operators.
    pub fn admin(&self) -> u16 {
        self.admin
    }

    /// The metrics, as text.
    pub fn metrics(&self) -> Result<String> {
        wire::http_get(self.admin, "/metrics")
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Processor seconds so far.
    pub fn cpu_seconds(&self) -> f64 {
        meter::cpu_seconds_of(self.child.id())
    }

    /// Resident memory now, in bytes.
    pub fn rss_bytes(&self) -> u64 {
        meter::rss_bytes_of(self.child.id())
    }

    /// Paths of the regular files that it has open.
    pub fn open_files(&self) -> Result<Vec<PathBuf>> {
        let links = fs::read_dir(format!("/proc/{}/fd", self.child.id()))?;
        // A descriptor may close between the two calls.
        let paths = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
        Ok(paths
            .filter(|path| path.starts_with("/") && !path.starts_with("/dev") && !path.starts_with("/proc"))
            .collect())
    }

    /// Asks the server to end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status} on SIGTERM").into()) }
    }

    /// Ends the server as `kill -9` does.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // Fails harmlessly if the server has ended already.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Removes the directory of a server that has ended.
pub fn remove(dir: &Path) -> Result<()> {
    for result in [fs::remove_dir_all(dir), fs::remove_file(config_file(dir))] {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn config_file(dir: &Path) -> PathBuf {
    dir.with_extension("toml")
}

/// The ports in the line by which the server says that it is ready.
fn ports(line: &str) -> Option<(u16, u16)> {
    let after = |name: &str| {
        let rest = &line[line.find(name)? + name.len()..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    line.contains(" is ready").then(|| Some((after("listen=127.0.0.1:")?, after("metrics=http://127.0.0.1:")?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_are_in_the_line_that_says_ready() {
        let line = "INFO weir: weir 0.1.0 is ready: redis-cli -h 127.0.0.1 -p 7000 data=d listen=127.0.0.1:7000 \
                    metrics=http://127.0.0.1:7001/metrics";
        assert_eq!(ports(line), Some((7000, 7001)));
        assert_eq!(ports("INFO weir: listen=127.0.0.1:7000"), None);
    }
}
