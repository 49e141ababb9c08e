//! What a user can do to a server, by accident or on purpose.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net;
use weir_io::Rng;

use crate::Result;
use crate::child_server::ChildServer;
use crate::data::key;
use crate::wire::{self, Client};

/// Keys that `KEYS *` walks through.
const MANY_KEYS: u64 = 1_000_000;
const PIPELINE: u64 = 64;
const LARGE: usize = 8 << 20;
const HALF_SENT: usize = 10_000;

/// Attacks `port` until told to stop, or until the server has had enough of it.
type Attacker = fn(u16, &AtomicBool) -> Result<()>;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Pipelines of reads and writes on four connections, as fast as they go.
    Flood,
    /// Values of 8 MB, written and read.
    LargeValues,
    /// `KEYS *` over a million keys, again and again.
    Keys,
    /// Ten thousand connections that each sent half a command.
    HalfSent,
    /// Commands that announce a gigabyte.
    Announced,
    /// Large replies that nobody reads.
    Unread,
    /// Connections made and left as fast as they go.
    Storm,
}

impl Attack {
    /// Every attack.
    pub const ALL: [Attack; 7] = [
        Attack::Flood,
        Attack::LargeValues,
        Attack::Keys,
        Attack::HalfSent,
        Attack::Announced,
        Attack::Unread,
        Attack::Storm,
    ];

    /// The name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::Flood => "flood",
            Attack::LargeValues => "large-values",
            Attack::Keys => "keys",
            Attack::HalfSent => "half-sent",
            Attack::Announced => "announced",
            Attack::Unread => "unread",
            Attack::Storm => "storm",
        }
    }

    /// The attack of that name.
    pub fn parse(name: &str) -> Result<Self> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|attack| attack.name() == name);
        found.ok_or_else(|| format!("no attack is called {name}; there are {}", names()).into())
    }

    /// Begins it, until `stop`. The server may cut and refuse attackers: they come again.
    pub(super) fn start(self, port: u16, stop: Arc<AtomicBool>) -> Result<super::Threads> {
        let (count, one): (usize, Attacker) = match self {
            Attack::Flood => (4, flood),
            Attack::LargeValues => (2, large_values),
            Attack::Keys => (1, keys),
            Attack::HalfSent => (1, half_sent),
            Attack::Announced => (2, announced),
            Attack::Unread => (8, unread),
            Attack::Storm => (2, storm),
        };
        let attacker = |stop: Arc<AtomicBool>| {
            move || {
                while !stop.load(Ordering::Relaxed) {
                    if one(port, &stop).is_err() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        };
        Ok((0..count).map(|_| thread::spawn(attacker(Arc::clone(&stop)))).collect())
    }
}

/// A million small keys for [`Attack::Keys`].
pub(super) fn load_keys(server: &ChildServer) -> Result<()> {
    let mut client = server.connect()?;
    for first in (0..MANY_KEYS).step_by(10_000) {
        (first..first + 10_000).for_each(|item| client.push(&[b"SET", &key(1_000_000_000 + item), b"v"]));
        client.flush()?;
        (0..10_000).try_for_each(|_| client.read().map(drop))?;
    }
    Ok(())
}

fn flood(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(port)?;
    let mut rng = Rng::new(9);
    while !stop.load(Ordering::Relaxed) {
        for number in 0..PIPELINE {
            let key = key(2_000_000_000 + rng.below(100_000));
            match number % 2 {
                0 => client.push(&[b"SET", &key, &[b'f'; 200]]),
                _ => client.push(&[b"GET", &key]),
            }
        }
        client.flush()?;
        (0..PIPELINE).try_for_each(|_| client.read().map(drop))?;
    }
    Ok(())
}

fn large_values(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(port)?;
    let value = vec![b'l'; LARGE];
    while !stop.load(Ordering::Relaxed) {
        client.call(&[b"SET", b"large", &value])?;
        client.call(&[b"GET", b"large"])?;
    }
    Ok(())
}

fn keys(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut stream = Client::connect(port)?.into_stream();
    let mut request = Vec::new();
    wire::encode(&mut request, &[b"KEYS", b"*"]);
    wire::encode(&mut request, &[b"PING"]);
    let mut buffer = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&request)?;
        // Thrown away, up to the reply of the PING behind it.
        let mut tail = Vec::new();
        while !tail.ends_with(b"+PONG\r\n") {
            let read = stream.read(&mut buffer)?;
            if read == 0 || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            tail = buffer[read.saturating_sub(7)..read].to_vec();
        }
    }
    Ok(())
}

fn connect(port: u16) -> Result<TcpStream> {
    Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)
}

fn half_sent(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut open = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if open.len() < HALF_SENT {
            let mut stream = connect(port)?;
            stream.write_all(b"*3\r\n$3\r\nSET\r\n$5\r\nab")?;
            open.push(stream);
        } else {
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

fn announced(port: u16, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let mut open = Vec::new();
        for request in
            ["*2\r\n$3\r\nGET\r\n$1073741824\r\n", "*1073741824\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67000000\r\n"]
        {
            let mut stream = connect(port)?;
            stream.write_all(request.as_bytes())?;
            // The server may have hung up by now, which is its right.
            let _ = stream.write_all(&[b'x'; 16 << 10]);
            open.push(stream);
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn unread(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(port)?;
    client.call(&[b"SET", b"unread", &vec![b'u'; 1 << 20]])?;
    let mut stream = client.into_stream();
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    let mut request = Vec::new();
    (0..100).for_each(|_| wire::encode(&mut request, &[b"GET", b"unread"]));
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&request)?;
    }
    Ok(())
}

/// Connects from an address of its own (all of 127.0.0.0/8 is this machine). From a single one, ports run out after a
/// few seconds, and then it is the attacker's side of the kernel that keeps the processors busy, looking for a free
/// one.
fn connect_from(address: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(address, 0))?;
    net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(TcpStream::from(socket))
}

fn storm(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut rng = Rng::new(11);
    while !stop.load(Ordering::Relaxed) {
        let host = rng.below(1 << 16) as u16;
        let mut stream = connect_from(Ipv4Addr::new(127, 1, (host >> 8) as u8, host as u8), port)?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
    }
    Ok(())
}
