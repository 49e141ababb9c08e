//! A real server: the binary, as a process, on a directory and ports of its own.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests start processes")]

pub mod programs;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A directory that is removed with the test.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("serve-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // If it cannot be removed, the rest is below `target`.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `weir serve` with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("serve").args(arguments).env_remove("WEIR_LOG").env_remove("WEIR_LOG_FORMAT");
    command
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    log: Arc<Mutex<Vec<u8>>>,
    pub clients: SocketAddr,
    pub admin: SocketAddr,
}

impl Server {
    /// Starts on `dir` and free ports, with the settings `config`; ready when this returns.
    pub fn start(dir: &Dir, config: &str) -> Self {
        Self::start_telling(dir, config, "info")
    }

    /// The same, with a log of this level.
    pub fn start_telling(dir: &Dir, config: &str, level: &str) -> Self {
        Self::start_at(dir, config, level, "127.0.0.1:0")
    }

    /// The same, listening for clients and operators at `address`.
    pub fn start_at(dir: &Dir, config: &str, level: &str, address: &str) -> Self {
        Self::begin(dir, config, level, [address, address], true, &[])
    }

    /// The same, listening for clients where a server that is gone did.
    pub fn start_in_place_of(dir: &Dir, clients: SocketAddr) -> Self {
        Self::begin(dir, "", "info", [&clients.to_string(), "127.0.0.1:0"], true, &[])
    }

    /// The same, with these arguments.
    pub fn start_with(dir: &Dir, arguments: &[&str]) -> Self {
        Self::begin(dir, "", "info", ["127.0.0.1:0"; 2], true, arguments)
    }

    /// The same, with a log that is read until the server is ready, and then closed.
    pub fn start_deaf(dir: &Dir) -> Self {
        Self::begin(dir, "", "info", ["127.0.0.1:0"; 2], false, &[])
    }

    fn begin(
        dir: &Dir,
        config: &str,
        level: &str,
        [listen, admin]: [&str; 2],
        listens: bool,
        arguments: &[&str],
    ) -> Self {
        let file = dir.0.join("weir.toml");
        std::fs::write(&file, config).expect("the test's directory can be written");
        let data = dir.0.join("data");
        let mut child = command(&["--listen", listen, "--admin", admin, "--dir"])
            .arg(&data)
            .arg("--config")
            .arg(&file)
            .args(arguments)
            .env("WEIR_LOG", level)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains("is ready") {
            assert!(log.read_line(&mut said).expect("text") > 0, "it ended before it was ready:\n{said}");
        }
        let told = Arc::new(Mutex::new(said.clone().into_bytes()));
        let (kept, loud) = (Arc::clone(&told), level == "info");
        let listen = move || {
            let mut line = Vec::new();
            while log.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                if loud {
                    // For people who read the test's output.
                    let _ = std::io::stderr().write_all(&line);
                }
                kept.lock().expect("no panic").append(&mut line);
            }
        };
        if listens {
            std::thread::spawn(listen);
        }
        let word = |from: &str, to: char| {
            let rest = said.split(from).nth(1).unwrap_or_else(|| panic!("{from} in {said}"));
            rest.split(to).next().expect("a word").parse().expect("an address")
        };
        Self { clients: word("listen=", ' '), admin: word("metrics=http://", '/'), child, log: told }
    }

    /// The lines that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().expect("no panic")).into_owned()
    }

    /// The same, once the log has `words` this many times: another thread reads what the server writes.
    pub fn log_with(&self, words: &str, times: usize) -> String {
        loop {
            let log = self.log();
            if log.matches(words).count() >= times {
                return log;
            }
            // If the server has ended, this panics.
            expect(&mut self.connect(), b"PING\r\n", b"+PONG\r\n");
        }
    }

    /// `weir` with these arguments, talking to this server; it succeeds. Gives what it said.
    pub fn weir(&self, arguments: &[&str]) -> String {
        let (fine, said) = self.try_weir(arguments);
        assert!(fine, "{arguments:?}: {said}");
        said
    }

    /// The same, whether it succeeds or not.
    pub fn try_weir(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.order(arguments).output().expect("the binary starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).expect("text"))
    }

    /// `weir` with these arguments, talking to this server.
    pub fn order(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).env("WEIR_ADMIN", self.admin.to_string()).stdin(Stdio::null());
        command
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends")
    }

    /// A line of the kernel's status of the process, in bytes: `RssAnon` is memory in use without pages of files;
    /// `VmSize` also has memory that was requested and never touched.
    pub fn memory_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("Linux");
        let line = status.lines().find(|line| line.starts_with(name)).expect("it runs");
        let kibibytes: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        kibibytes << 10
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.clients).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    /// `GET path` at the operators' door: the whole answer.
    pub fn http(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends `request` and expects exactly `reply`.
pub fn expect(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("it reads");
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(reply));
}
