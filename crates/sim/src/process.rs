//! A real server, as a process of its own: started, asked over its ports, sent signals, killed.
#![allow(clippy::disallowed_methods, reason = "this runner drives real processes over real sockets")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_node::{EngineKind, LogKind};

/// A server must answer, or have ended, within this time.
const LIMIT: Duration = Duration::from_secs(120);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The `weir` binary.
    pub binary: PathBuf,
    /// Where its data is.
    pub dir: PathBuf,
    /// More arguments for `weir serve`.
    pub arguments: Vec<String>,
}

/// A server process. Killed when dropped.
pub struct Server {
    child: Child,
    /// Where clients connect.
    pub clients: SocketAddr,
    /// Where operators connect.
    pub operators: SocketAddr,
    started: Instant,
}

impl Server {
    /// Starts a server at free ports. It may not answer yet.
    ///
    /// # Errors
    /// The error says in words why the process did not start.
    pub fn start(launch: &Launch) -> Result<Self, String> {
        let [clients, operators] = free_addresses().map_err(|error| format!("no free port: {error}"))?;
        let child = Command::new(&launch.binary)
            .arg("serve")
            .arg("--dir")
            .arg(&launch.dir)
            .args(["--listen", &clients.to_string(), "--admin", &operators.to_string()])
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", launch.binary.display()))?;
        Ok(Self { child, clients, operators, started: Instant::now() })
    }

    /// Waits for the first answer, and returns how long after the start it came.
    ///
    /// # Errors
    /// The server ended, or does not answer.
    pub fn wait_until_it_answers(&mut self) -> Result<Duration, String> {
        while self.started.elapsed() < LIMIT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended instead of starting: {status}"));
            }
            if ping(self.clients).is_ok() {
                return Ok(self.started.elapsed());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("the server did not answer within {LIMIT:?}"))
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// The server has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        kill_process(Pid::from_child(&self.child), signal).map_err(|error| format!("cannot send {signal:?}: {error}"))
    }

    /// Waits for the server's end.
    ///
    /// # Errors
    /// The server does not end.
    pub fn wait_for_end(&mut self) -> Result<ExitStatus, String> {
        let from = Instant::now();
        while from.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("the server did not end within {LIMIT:?}"))
    }

    /// Sends SIGKILL, and waits until the process is gone: then its directory is free.
    pub fn kill(&mut self) {
        // The process may have ended by itself; then there is nothing to kill, and the next start shows it.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Two addresses at a time: taken one by one, the same one might be given twice.
fn free_addresses() -> std::io::Result<[SocketAddr; 2]> {
    let [first, second] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([first.local_addr()?, second.local_addr()?])
}

fn ping(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    if &reply == b"+PONG\r\n" { Ok(()) } else { Err(std::io::Error::other("not a PONG")) }
}

/// A command of the Redis protocol.
pub fn command(parts: &[&str]) -> String {
    let mut text = format!("*{}\r\n", parts.len());
    for part in parts {
        text += &format!("${}\r\n{part}\r\n", part.len());
    }
    text
}

/// The door of one tenant's clients.
#[derive(Clone, Debug)]
pub struct Door {
    /// The server's address.
    pub address: SocketAddr,
    /// The user that they log in as.
    pub user: String,
    /// The user's secret.
    pub secret: String,
}

impl Door {
    /// Opens a connection that is logged in.
    ///
    /// # Errors
    /// The server is gone, or refuses the login.
    pub fn enter(&self) -> std::io::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(command(&["AUTH", &self.user, &self.secret]).as_bytes())?;
        let (mut reader, mut reply) = (BufReader::new(stream), String::new());
        reader.read_line(&mut reply)?;
        if reply == "+OK\r\n" { Ok(reader) } else { Err(std::io::Error::other(format!("AUTH was answered {reply:?}"))) }
    }
}

/// A connection of a Redis client, one command at a time.
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects, and logs in if `login` has a user and a secret.
    ///
    /// # Errors
    /// There is no server, or the secret is wrong.
    pub fn connect(address: SocketAddr, login: Option<(&str, &str)>) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        let mut client = Self(BufReader::new(stream));
        if let Some((user, secret)) = login {
            client.ask(&["AUTH", user, secret])?;
        }
        Ok(client)
    }

    /// The reply to a command, a status, a number or a string, as text; `None` for a missing key.
    ///
    /// # Errors
    /// The server's error, or that the server is gone.
    pub fn ask(&mut self, parts: &[&str]) -> Result<Option<String>, String> {
        let gone = |error: std::io::Error| format!("{} was not answered: {error}", parts[0]);
        self.0.get_mut().write_all(command(parts).as_bytes()).map_err(gone)?;
        let mut head = String::new();
        self.0.read_line(&mut head).map_err(gone)?;
        let head = head.strip_suffix("\r\n").ok_or_else(|| format!("{} was not answered", parts[0]))?;
        let (kind, rest) = head.split_at_checked(1).unwrap_or_default();
        match (kind, rest.parse::<i64>()) {
            ("+", _) | (":", Ok(_)) => Ok(Some(rest.to_owned())),
            ("$", Ok(-1)) => Ok(None),
            ("$", Ok(length)) => {
                let mut body = vec![0; usize::try_from(length).unwrap_or(0) + 2];
                self.0.read_exact(&mut body).map_err(gone)?;
                body.truncate(body.len() - 2);
                String::from_utf8(body).map(Some).map_err(|error| error.to_string())
            }
            _ => Err(format!("{} was answered {head:?}", parts[0])),
        }
    }
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done, with the server's answer.
    Done(String),
    /// Refused, with the reason in words.
    Refused(String),
    /// The server was gone before it answered.
    Cut,
}

/// Creates a tenant with this engine and this log, and returns its secret.
///
/// # Errors
/// The order is refused, or the server is gone.
pub fn create_tenant(
    operators: SocketAddr,
    name: &str,
    (engine, log): (EngineKind, LogKind),
    partitions: u16,
) -> Result<String, String> {
    let body = format!(r#"{{"name":"{name}","engine":"{engine}","log":"{log}","partitions":{partitions}}}"#);
    match order(operators, "POST /v1/tenants", &body) {
        Answer::Done(told) => secret(&told),
        other => Err(format!("the creation of {name} was answered {other:?}")),
    }
}

/// The generated secret in the answer to an order.
///
/// # Errors
/// The answer has none.
pub fn secret(told: &str) -> Result<String, String> {
    let told: serde_json::Value = serde_json::from_str(told).map_err(|error| error.to_string())?;
    told["secret"].as_str().map(ToOwned::to_owned).ok_or_else(|| "no secret was told".to_owned())
}

/// Gives an order at the operators' door: `method path`, with a body of JSON, or an empty one.
pub fn order(address: SocketAddr, head: &str, body: &str) -> Answer {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let Ok(text) = asked() else { return Answer::Cut };
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Answer::Cut };
    match head.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Answer::Done(body.to_owned()),
        status => Answer::Refused(format!("{}: {}", status.unwrap_or("?"), body.trim_end())),
    }
}
