//! A server under test: started on an empty directory and a free port, asked with PING until it answers, ended with
//! SIGTERM.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::Result;
use crate::meter;
use crate::tenants::user::User;
use crate::wire::Client;

/// How long a server may take to answer its first PING.
const START_TRIES: u32 = 500;
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Units of each kind that the tenant under load may use in a second: far above any load, so that units are counted and
/// nothing waits.
const UNITS: u64 = 100_000_000;
/// Tenants beside the one under load, awake and idle.
const NEIGHBOURS: usize = 5;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `weir serve`, with its defaults.
    Weir,
    /// The same, with a tenant under load that has a secret and limits, and others beside it.
    WeirTenants,
    /// The same, with a tenant under load whose rows are in memory.
    WeirMemory,
    /// `redis-server` with its append-only file synced every second, and no snapshots beside it.
    Redis,
}

impl Kind {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Weir => "weir",
            Kind::WeirTenants => "weir-tenants",
            Kind::WeirMemory => "weir-memory",
            Kind::Redis => "redis",
        }
    }

    fn command(self, port: u16, admin: u16, dir: &Path, weir: &Path) -> Command {
        let mut command;
        match self {
            Kind::Redis => {
                command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--dir"]).arg(dir);
            }
            Kind::Weir | Kind::WeirTenants | Kind::WeirMemory => {
                command = Command::new(weir);
                command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
                command.args(["--admin", &format!("127.0.0.1:{admin}"), "--dir"]).arg(dir);
            }
        }
        command
    }

    fn version(self, weir: &Path) -> String {
        let program = if self == Kind::Redis { Path::new("redis-server") } else { weir };
        let output = Command::new(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).trim().to_owned()
    }
}

/// A running server; killed, if need be, and its directory removed when dropped.
pub(crate) struct Server {
    kind: Kind,
    child: Child,
    port: u16,
    dir: PathBuf,
    version: String,
    remarks: String,
    /// The user that the load comes from; `None` if no login is needed.
    user: Option<User>,
}

impl Server {
    pub(crate) fn start(kind: Kind, dir: &Path, weir: &Path) -> Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
        let (port, admin) = (free_port()?, free_port()?);
        let mut command = kind.command(port, admin, dir, weir);
        let log_path = dir.with_extension("log");
        let log = fs::File::create(&log_path)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
        let words = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let (version, dir) = (kind.version(weir), dir.to_path_buf());
        let mut server = Self { kind, child, port, dir, version, remarks: words, user: None };
        for _ in 0..START_TRIES {
            if answers(port) {
                match kind {
                    Kind::WeirTenants => server.move_in(admin)?,
                    Kind::WeirMemory => {
                        server.user = Some(User::order_at(admin, &json!({ "name": "loaded", "engine": "memory" }))?);
                        server.remarks += "; as a tenant with --engine memory";
                    }
                    Kind::Weir | Kind::Redis => {}
                }
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                let said = fs::read_to_string(&log_path).unwrap_or_default();
                return Err(format!("{} ended with {status}:\n{said}", kind.name()).into());
            }
            thread::sleep(TRY_EVERY);
        }
        // The log goes with the directory.
        let said = fs::read_to_string(&log_path).unwrap_or_default();
        Err(format!("{} does not answer PING on port {port}:\n{said}", kind.name()).into())
    }

    /// Creates the tenant that the load is to come from, and others beside it.
    fn move_in(&mut self, admin: u16) -> Result<()> {
        let limits = json!({ "rcu": UNITS, "wcu": UNITS });
        for number in 0..NEIGHBOURS {
            User::create_at(admin, &format!("neighbour{number}"), &limits)?.load(self.port, 1, 1)?;
        }
        self.user = Some(User::create_at(admin, "loaded", &limits)?);
        self.remarks += &format!("; as a tenant with --rcu {UNITS} --wcu {UNITS}, beside {NEIGHBOURS} others");
        Ok(())
    }

    /// The login options for `redis-benchmark`.
    pub(crate) fn login_args(&self) -> impl Iterator<Item = &str> {
        self.user.iter().flat_map(User::login_args)
    }

    /// A connection of the user that the load comes from.
    pub(crate) fn connect(&self) -> Result<Client> {
        match &self.user {
            Some(user) => user.connect(self.port),
            None => Client::connect(self.port),
        }
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} ended with {status} on SIGTERM", self.kind.name()).into())
        }
    }

    /// Which it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn remarks(&self) -> String {
        self.remarks.clone()
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        meter::cpu_seconds_of(self.child.id())
    }

    pub(crate) fn rss_peak_bytes(&self) -> u64 {
        meter::rss_peak_bytes_of(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail harmlessly if the server has ended already; the directory holds nothing that anybody needs.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        let _removed = fs::remove_dir_all(&self.dir);
        let _removed = fs::remove_file(self.dir.with_extension("log"));
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether a server on `port` answers PING with PONG.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG\r\n")
    };
    ask().unwrap_or(false)
}
