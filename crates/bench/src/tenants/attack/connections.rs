//! Attacks by connections that are made, left, half done or waiting.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net;
use rustix::process::{Resource, getrlimit};
use weir_io::Rng;

use super::Door;
use crate::Result;
use crate::wire;

const HALF_SENT: usize = 10_000;
/// Clients that wait for a list, if as many files may be open.
const BLOCKED: u64 = 50_000;
/// Open files of this process that are left for other uses.
const FILES_BESIDE: u64 = 1_000;
/// Connections from each address of this machine.
const FROM_EACH_ADDRESS: usize = 5_000;
/// The list that clients wait for.
const AWAITED: &[u8] = b"attack:awaited";

pub(super) fn half_sent(port: u16, stop: &AtomicBool) -> Result<()> {
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

pub(super) fn announced(port: u16, stop: &AtomicBool) -> Result<()> {
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

fn connect(port: u16) -> Result<TcpStream> {
    Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)
}

/// Connects from an address of its own (all of 127.0.0.0/8 is this machine). From a single address ports run out after
/// a few seconds, and then the attacker's side of the kernel keeps the processors busy, looking for a free port.
fn connect_from(address: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(address, 0))?;
    net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(TcpStream::from(socket))
}

pub(super) fn storm(port: u16, stop: &AtomicBool) -> Result<()> {
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

/// Waits for a list that never comes, on as many connections as possible.
pub(super) fn blocked(door: &Door, stop: &AtomicBool) -> Result<()> {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let wanted = files.saturating_sub(FILES_BESIDE).min(BLOCKED) as usize;
    let mut request = door.user.login();
    wire::encode(&mut request, &[b"BLPOP", AWAITED, b"0"]);
    let mut open = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if open.len() >= wanted {
            thread::sleep(Duration::from_millis(10));
            continue;
        }
        let host = (open.len() / FROM_EACH_ADDRESS) as u8;
        let mut stream = connect_from(Ipv4Addr::new(127, 2, 0, host + 1), door.port)?;
        // A connection that the server has no room for stays closed: the server's metrics tell how many it let in.
        let _ = stream.write_all(&request);
        open.push(stream);
    }
    Ok(())
}

/// Pushes to the list that all these clients wait for, and takes the element back in the same transaction.
pub(super) fn tease(door: &Door, stop: &AtomicBool) -> Result<()> {
    let mut client = door.user.connect(door.port)?;
    let commands: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"RPUSH", AWAITED, b"x"], &[b"LPOP", AWAITED], &[b"EXEC"]];
    while !stop.load(Ordering::Relaxed) {
        commands.iter().for_each(|words| client.push(words));
        client.flush()?;
        commands.iter().try_for_each(|_| client.read().map(drop))?;
    }
    Ok(())
}
