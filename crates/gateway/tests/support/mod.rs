//! A store in memory, and a gateway in front of it on a port of its own.

pub mod authority;
pub mod memory_store;
mod open_door;
pub mod pipelines;
pub mod random;
pub mod strict;
pub mod table;
pub mod tenants;
pub mod troubled;
pub mod world;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::encoding::text::encode as encode_metrics;
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use weir_gateway::Settings;
use weir_gateway::admin::metrics::registry;
use weir_gateway::admin::node::SlowReply;
use weir_gateway::auth::Doorman;
use weir_gateway::listener::{Entrance, Gateway, listen};
use weir_gateway::noisy_neighbour::ProcessorUse;
use weir_gateway::store::Store;
use weir_gateway::tenant::account::Costs;
use weir_gateway::tls::Tls;
use weir_io::real::RealClock;
use weir_io::{Clock, Nanos};
use weir_node::Node;

pub use self::memory_store::{MemoryStore, PANIC_KEY};
pub use self::open_door::OpenDoor;

/// The machine's clock, which can be told to run ahead.
pub struct TestClock {
    real: Arc<RealClock>,
    ahead: AtomicU64,
    /// The moment at which the clock stands still; 0 = it goes. And the wall-clock time at that moment.
    frozen: AtomicU64,
    frozen_unix_ms: AtomicU64,
    /// Wakers that may be due before the machine's clock is, and when.
    sleeping: Mutex<Vec<(Nanos, Waker)>>,
}

impl TestClock {
    pub fn new() -> Arc<Self> {
        let real = RealClock::new();
        let (ahead, frozen, frozen_unix_ms) = Default::default();
        Arc::new(Self { real, ahead, frozen, frozen_unix_ms, sleeping: Mutex::default() })
    }

    /// From now on time passes only when the test advances it.
    pub fn freeze(&self) {
        self.frozen_unix_ms.store(self.real.unix_ms(), Ordering::SeqCst);
        self.frozen.store(self.real.now().max(1), Ordering::SeqCst);
    }

    /// Time goes on.
    pub fn thaw(&self) {
        self.frozen.store(0, Ordering::SeqCst);
        self.advance(0);
    }

    /// Lets `seconds` seconds pass at once.
    pub fn advance(&self, seconds: u64) {
        self.advance_nanos(seconds * 1_000_000_000);
    }

    /// Lets `nanos` nanoseconds pass at once.
    pub fn advance_nanos(&self, nanos: u64) {
        let ahead = self.ahead.fetch_add(nanos, Ordering::SeqCst) + nanos;
        // A task that is woken may ask at once to be woken again, so nothing is locked then.
        let (mut due, mut earlier) = (Vec::new(), Vec::new());
        let mut sleeping = self.sleeping.lock().expect("no panic");
        let now = self.now();
        for (at, waker) in std::mem::take(&mut *sleeping) {
            if at <= now {
                due.push(waker);
                continue;
            }
            if self.frozen.load(Ordering::SeqCst) == 0 {
                // This is earlier than the time for which it was registered.
                earlier.push((at.saturating_sub(ahead), waker.clone()));
            }
            sleeping.push((at, waker));
        }
        drop(sleeping);
        earlier.into_iter().for_each(|(at, waker)| self.real.wake_at(at, waker));
        due.into_iter().for_each(Waker::wake);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Nanos {
        let frozen = self.frozen.load(Ordering::SeqCst);
        let now = if frozen == 0 { self.real.now() } else { frozen };
        now + self.ahead.load(Ordering::SeqCst)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        let mut sleeping = self.sleeping.lock().expect("no panic");
        let now = self.now();
        if self.frozen.load(Ordering::SeqCst) == 0 {
            // The machine's clock has woken these.
            sleeping.retain(|(at, _)| *at > now);
            sleeping.push((at, waker.clone()));
            drop(sleeping);
            return self.real.wake_at(at.saturating_sub(self.ahead.load(Ordering::SeqCst)), waker);
        }
        if at <= now {
            // The clock was advanced since the caller looked. (The machine's clock must not wake anybody early: they
            // would ask again for ever.)
            drop(sleeping);
            return waker.wake();
        }
        sleeping.push((at, waker));
    }

    fn unix_ms(&self) -> u64 {
        let frozen = self.frozen.load(Ordering::SeqCst) != 0;
        let now = if frozen { self.frozen_unix_ms.load(Ordering::SeqCst) } else { self.real.unix_ms() };
        now + self.ahead.load(Ordering::SeqCst) / 1_000_000
    }
}

/// A running gateway; ends when dropped.
pub struct Running {
    pub address: SocketAddr,
    pub store: MemoryStore,
    pub clock: Arc<TestClock>,
    served: Served,
}

/// Gives the metrics of a gateway and of a node behind it.
type Scrape = dyn Fn(&Arc<Node>) -> String + Send + Sync;

/// A gateway on a port of its own; ends when dropped.
pub struct Served {
    pub address: SocketAddr,
    /// The address where clients speak TLS, if they can.
    pub secured: Option<SocketAddr>,
    /// The address of [`Served::connect_narrow`].
    narrow: SocketAddr,
    /// [`Observer::seconds`], for any kind of store.
    seconds: Box<dyn Fn() -> u64 + Send + Sync>,
    /// [`Observer::processor_use`], in the same way.
    processor_use: Box<dyn Fn() -> BTreeMap<u32, ProcessorUse> + Send + Sync>,
    /// [`Observer::costs`], in the same way.
    costs: Box<dyn Fn() -> BTreeMap<u32, Costs> + Send + Sync>,
    /// [`Observer::slow_replies`], in the same way.
    slow_replies: Box<dyn Fn(u32) -> Vec<SlowReply> + Send + Sync>,
    /// What a scrape shows, for any kind of store.
    metrics: Box<Scrape>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start<S: Store>(settings: Settings, doorman: Arc<dyn Doorman<S>>, clock: Arc<dyn Clock>) -> Self {
        Self::start_secured(settings, doorman, clock, None)
    }

    /// The same, with another port where clients speak TLS.
    pub fn start_secured<S: Store>(
        settings: Settings,
        doorman: Arc<dyn Doorman<S>>,
        clock: Arc<dyn Clock>,
        tls: Option<Arc<Tls>>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (gateway, secured, narrow) = {
            let _guard = runtime.enter();
            let address = "127.0.0.1:0".parse().expect("an address");
            let listener = listen(address).expect("a free port");
            let mut gateway = Gateway::new(Entrance::plain(listener), settings, doorman, clock).expect("an address");
            let narrow = narrow_socket();
            narrow.bind(address).expect("a free port");
            let listener = narrow.listen(16).expect("a free port");
            let narrow = listener.local_addr().expect("an address");
            gateway.listen_also(Entrance::plain(listener));
            let mut secured = None;
            if let Some(tls) = tls {
                let listener = listen(address).expect("a free port");
                secured = Some(listener.local_addr().expect("an address"));
                gateway.listen_also(Entrance::secured(listener, tls));
            }
            (gateway, secured, narrow)
        };
        let address = gateway.address();
        let (seconds, used, slow) = (gateway.observer(), gateway.observer(), gateway.observer());
        let (costs, counted) = (gateway.observer(), gateway.observer());
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            runtime.block_on(gateway.run(async { drop(ended.await) })).expect("the gateway runs");
        });
        Self {
            address,
            secured,
            narrow,
            seconds: Box::new(move || seconds.seconds()),
            processor_use: Box::new(move || used.processor_use()),
            costs: Box::new(move || costs.costs()),
            slow_replies: Box::new(move |tenant| slow.slow_replies(tenant)),
            metrics: Box::new(move |node| {
                let mut text = String::new();
                encode_metrics(&mut text, &registry(counted.clone(), Arc::clone(node), None, None)).expect("metrics");
                text
            }),
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// The metrics of this gateway and of `node`, which it stands in front of.
    pub fn metrics(&self, node: &Arc<Node>) -> String {
        (self.metrics)(node)
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).expect("the gateway listens"))
    }

    /// A connection for which the kernel keeps next to nothing that was not read: a few kilobytes make the gateway
    /// wait.
    pub fn connect_narrow(&self) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let stream = runtime.block_on(async { narrow_socket().connect(self.narrow).await?.into_std() });
        let stream = stream.expect("the gateway listens");
        stream.set_nonblocking(false).expect("a socket");
        Client::new(stream)
    }
}

/// A socket with the smallest buffers, which also those sockets get that it accepts.
fn narrow_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(1).expect("a socket");
    socket.set_recv_buffer_size(1).expect("a socket");
    socket
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the gateway panicked");
        }
    }
}

impl Running {
    /// A gateway with one tenant and an open door.
    pub fn start(settings: Settings) -> Self {
        Self::start_with(settings, TestClock::new(), |store| Arc::new(OpenDoor::new(store)))
    }

    /// A gateway with the doorman that `doorman` makes, which may ignore the store that it is given.
    pub fn start_with(
        settings: Settings,
        clock: Arc<TestClock>,
        doorman: impl FnOnce(MemoryStore) -> Arc<dyn Doorman<MemoryStore>>,
    ) -> Self {
        let store = MemoryStore::new(&clock);
        let doorman = doorman(store.clone());
        let served = Served::start(settings, doorman, clock.clone());
        Self { address: served.address, store, clock, served }
    }

    pub fn connect(&self) -> Client {
        self.served.connect()
    }

    /// See [`Served::connect_narrow`].
    pub fn connect_narrow(&self) -> Client {
        self.served.connect_narrow()
    }

    /// Seconds that the gateway has counted. All time limits are measured in these.
    pub fn seconds(&self) -> u64 {
        (self.served.seconds)()
    }

    /// What each tenant has used of the gateway's threads.
    pub fn processor_use(&self) -> BTreeMap<u32, ProcessorUse> {
        (self.served.processor_use)()
    }

    /// Thousandths of request units of all commands so far.
    pub fn milli_units(&self) -> u64 {
        (self.served.costs)().values().map(|costs| costs.price.milli_units).sum()
    }

    /// The reply of a tenant to `command` that was slow because the command had to wait. Waits for it, because a reply
    /// is written before it is remembered. Replies that did not wait are passed over: a test that moves the clock may
    /// move it between a reply's computation and its writing, and then such a reply is slow, too.
    pub fn slow_reply_that_waited(&self, tenant: u32, command: &str) -> SlowReply {
        loop {
            let replies = (self.served.slow_replies)(tenant);
            let waited = |reply: &SlowReply| reply.waited.iter().any(|nanos| *nanos > 0);
            if let Some(slow) = replies.into_iter().find(|reply| reply.command == command && waited(reply)) {
                return slow;
            }
            std::thread::yield_now();
        }
    }

    /// Lets this many seconds pass, one after the other, and the gateway sweeps after each. To be called after an
    /// answer from the gateway, because it counts from before it serves anybody.
    pub fn pass(&self, seconds: u64) {
        (0..seconds).for_each(|_| self.stand_still(1));
    }

    /// The gateway has no processor for this many seconds, and has swept once when it has one again.
    pub fn stand_still(&self, seconds: u64) {
        let before = self.seconds();
        self.clock.advance(seconds);
        while self.seconds() == before {
            std::thread::yield_now();
        }
    }

    /// Asks the gateway to end, without waiting for the end.
    pub fn ask_to_end(&mut self) {
        drop(self.served.end.take());
    }
}

/// Time goes on, even if a test has failed, because a server that ends waits for its connections until a time that must
/// come.
impl Drop for Running {
    fn drop(&mut self) {
        self.clock.thaw();
    }
}

/// A raw socket that knows where a reply ends.
pub struct Client<T = TcpStream> {
    pub stream: T,
    buffer: Vec<u8>,
    /// Set when [`Client::until`] has met the end.
    pub is_closed: bool,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self::over(stream)
    }
}

impl<T: Read + Write> Client<T> {
    /// A client over any kind of stream.
    pub fn over(stream: T) -> Self {
        Self { stream, buffer: Vec::new(), is_closed: false }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the peer reads");
    }

    /// The next reply, as bytes.
    pub fn reply(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = reply_len(&self.buffer) {
                return self.buffer.drain(..len).collect();
            }
            let len = self.read_more().expect("a reply in time");
            assert!(len > 0, "closed in the middle of a reply: {:?}", String::from_utf8_lossy(&self.buffer));
        }
    }

    /// Reads the bytes that are there into the buffer. When a process is stopped and continued, a read with a timeout
    /// is interrupted.
    fn read_more(&mut self) -> std::io::Result<usize> {
        let mut more = [0; 16 << 10];
        loop {
            match self.stream.read(&mut more) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                outcome => {
                    self.buffer.extend_from_slice(&more[..*outcome.as_ref().unwrap_or(&0)]);
                    return outcome;
                }
            }
        }
    }

    /// Everything up to `marker`, without it; or until the peer closes.
    pub fn until(&mut self, marker: &[u8]) -> Vec<u8> {
        let mut seen = 0;
        loop {
            let found = self.buffer[seen..].windows(marker.len()).position(|part| part == marker);
            if let Some(at) = found.map(|at| seen + at) {
                let mut told: Vec<u8> = self.buffer.drain(..at + marker.len()).collect();
                told.truncate(at);
                return told;
            }
            seen = (self.buffer.len() + 1).saturating_sub(marker.len());
            match self.read_more() {
                Ok(len) if len > 0 => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer in time"),
                _ => {
                    self.is_closed = true;
                    return std::mem::take(&mut self.buffer);
                }
            }
        }
    }

    /// Everything until the peer closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.buffer);
        // A reset instead of an orderly end is an end as well, because the peer had unread bytes of ours.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    /// Everything until the peer closes, or the reply to a `PING`.
    pub fn rest_or_pong(&mut self) -> Vec<u8> {
        let mut some = [0; 64];
        // If the peer has closed already, reading says so.
        let _ = self.stream.write_all(b"PING\r\n");
        let len = self.stream.read(&mut some).unwrap_or(0);
        some[..len].to_vec()
    }

    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        self.send(&encode(args));
        self.reply()
    }

    /// Sends words separated by spaces, and returns the reply as text.
    pub fn say(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        String::from_utf8_lossy(&self.ask(&words)).into_owned()
    }
}

pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        out.extend_from_slice(arg.as_ref());
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The length of the reply at the front, if it is complete and every byte of it is valid in RESP2 or RESP3.
pub fn well_formed(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, text) = (bytes[0], &bytes[1..line]);
    let number = || {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let plain = digits == b"0" || digits.first().is_some_and(|first| matches!(first, b'1'..=b'9'));
        std::str::from_utf8(text).ok().filter(|_| plain)?.parse::<i64>().ok()
    };
    let mut end = line + 2;
    let children = match kind {
        b'+' | b'-' => return (!text.contains(&b'\n') && !text.contains(&b'\r')).then_some(end),
        b':' => return number().map(|_| end),
        b'_' => return text.is_empty().then_some(end),
        b'#' => return matches!(text, b"t" | b"f").then_some(end),
        b',' => return (!text.is_empty()).then_some(end),
        b'$' | b'*' if text == b"-1" => return Some(end),
        b'$' | b'=' => {
            let len = usize::try_from(number()?).ok()?;
            return (bytes.get(end + len..end + len + 2)? == b"\r\n").then_some(end + len + 2);
        }
        b'*' | b'~' | b'>' => number().filter(|&len| len >= 0)?,
        b'%' => number().filter(|&len| len >= 0)? * 2,
        _ => return None,
    };
    for _ in 0..children {
        end += well_formed(&bytes[end..])?;
    }
    Some(end)
}

/// The length of the reply at the front, if it is complete.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let number = || std::str::from_utf8(&bytes[1..line]).ok()?.parse::<i64>().ok();
    let mut end = line + 2;
    let children = match bytes[0] {
        b'$' | b'=' => {
            let len = number()?;
            end += usize::try_from(len).map_or(0, |len| len + 2);
            return (bytes.len() >= end).then_some(end);
        }
        b'*' | b'~' | b'>' => number()?.max(0),
        b'%' => number()? * 2,
        _ => 0,
    };
    for _ in 0..children {
        end += reply_len(&bytes[end..])?;
    }
    Some(end)
}
