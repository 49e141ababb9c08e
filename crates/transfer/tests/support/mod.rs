//! Servers of Redis, if one is installed, and clients of them.
#![allow(clippy::disallowed_methods, dead_code, missing_docs, reason = "tests start processes, and each uses a part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_io::Clock;
use weir_io::real::RealClock;
use weir_transfer::address::Address;
use weir_transfer::import::{Choice, Import};
use weir_transfer::resp::{Connection, Reply};
use weir_transfer::target::Target;

/// A running redis-server in a directory of its own; killed when dropped.
pub struct Redis {
    child: Option<Child>,
    pub port: u16,
    pub dir: PathBuf,
    options: Vec<String>,
}

pub fn is_installed() -> bool {
    let found = Command::new("redis-server").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: no redis-server is installed");
    }
    found
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

impl Redis {
    pub fn start(options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let options = options.iter().map(ToString::to_string).collect();
        let mut redis = Redis { child: None, port: free_port(), dir, options };
        redis.begin();
        redis
    }

    /// Starts it again, with the data that it has saved.
    pub fn begin(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&self.dir)
            .args(&self.options)
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        self.child = Some(child);
        loop {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                stream.write_all(b"PING\r\n").expect("it reads");
                let mut answer = [0; 5];
                if stream.read_exact(&mut answer).is_ok() && [b"+PONG", b"-NOAU"].contains(&&answer) {
                    return;
                }
            }
            // So that the server has the processor to itself.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
    }

    pub fn address(&self) -> Address {
        Address::plain(&format!("127.0.0.1:{}", self.port)).expect("an address")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        // If it cannot be removed, the rest is below `target`.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
}

pub fn import(target: Address, choice: Choice) -> Import {
    let clock: Arc<dyn Clock> = RealClock::new();
    let target = Target::new(target, Arc::clone(&clock));
    Import { target, choice, tally: Arc::default(), whole_bytes_max: 1 << 18, clock }
}

/// A client of a server.
pub struct Client(pub Connection);

impl Client {
    pub async fn new(address: &Address) -> Self {
        let clock: Arc<dyn Clock> = RealClock::new();
        Client(Connection::open(address, &clock).await.expect("it listens"))
    }

    pub async fn ask(&mut self, line: &str) -> Reply {
        let words: Vec<&str> = line.split(' ').collect();
        self.0.ask(&words).await.unwrap_or_else(|failure| panic!("{line}: {failure}"))
    }

    /// Writes keys of every type, in two databases, small and large.
    pub async fn fill(&mut self, large: bool) {
        let count = if large { 40_000 } else { 300 };
        self.ask("SET text hello").await;
        self.ask("SET number 12345").await;
        self.ask("SET ends soon PX 100000000").await;
        self.ask("SETBIT bits 100000 1").await;
        for (name, script) in [
            ("list", "redis.call('rpush', KEYS[1], i, 'value-' .. i)"),
            ("ints", "redis.call('sadd', KEYS[1], i)"),
            ("set", "redis.call('sadd', KEYS[1], 'member-' .. i)"),
            ("hash", "redis.call('hset', KEYS[1], 'field-' .. i, string.rep('v', i % 50))"),
            ("zset", "redis.call('zadd', KEYS[1], i / 7, 'member-' .. i)"),
            ("stream", "redis.call('xadd', KEYS[1], i .. '-0', 'f', i, 'g', 'x')"),
        ] {
            for (key, len) in [(name.to_owned(), 20), (format!("{name}-long"), count)] {
                let script = format!("for i = 1, {len} do {script} end");
                self.0.ask(&["EVAL", &script, "1", &key]).await.expect("a script");
            }
        }
        self.ask("PEXPIREAT list-long 33000000000000").await;
        self.ask("ZADD edges inf a -inf b 1e300 c 0.1 d").await;
        for key in ["stream", "stream-long"] {
            self.ask(&format!("XGROUP CREATE {key} workers 0")).await;
            self.ask(&format!("XGROUP CREATECONSUMER {key} workers idle")).await;
            self.ask(&format!("XREADGROUP GROUP workers w1 COUNT 7 STREAMS {key} >")).await;
            self.ask(&format!("XREADGROUP GROUP workers w2 COUNT 2 STREAMS {key} >")).await;
            self.ask(&format!("XDEL {key} 20-0")).await;
            self.ask(&format!("XGROUP CREATE {key} late $")).await;
        }
        self.ask("SELECT 5").await;
        self.ask("MSET a 1 b 2").await;
        self.ask("SELECT 0").await;
    }
}
