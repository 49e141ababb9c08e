//! Replies and messages that nobody reads.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Result;
use crate::wire::{self, Client};

/// Listeners that do not read, on each thread.
const LISTENERS: usize = 100;
/// The channel that all of them listen to.
const CHANNEL: &[u8] = b"attack:news";
const MESSAGE: [u8; 1024] = [b'm'; 1024];
const PIPELINE: usize = 64;
/// How often to look for listeners that were cut.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Asks for large replies, and does not read them.
pub(super) fn replies(port: u16, stop: &AtomicBool) -> Result<()> {
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

/// Publishes without end.
pub(super) fn publish(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(port)?;
    while !stop.load(Ordering::Relaxed) {
        (0..PIPELINE).for_each(|_| client.push(&[b"PUBLISH", CHANNEL, &MESSAGE]));
        client.flush()?;
        (0..PIPELINE).try_for_each(|_| client.read().map(drop))?;
    }
    Ok(())
}

/// Listens and never reads; a listener that is cut comes again.
pub(super) fn listen(port: u16, stop: &AtomicBool) -> Result<()> {
    let connect = || -> Result<TcpStream> {
        let mut stream = Client::connect(port)?.into_stream();
        let mut request = Vec::new();
        wire::encode(&mut request, &[b"SUBSCRIBE", CHANNEL]);
        stream.write_all(&request)?;
        Ok(stream)
    };
    let mut listeners = (0..LISTENERS).map(|_| connect()).collect::<Result<Vec<_>>>()?;
    while !stop.load(Ordering::Relaxed) {
        let mut looked: Vec<_> = listeners.iter().map(|stream| PollFd::new(stream, PollFlags::RDHUP)).collect();
        poll(&mut looked, Some(&LOOK_EVERY))?;
        let cut: Vec<bool> = looked.iter().map(|one| !one.revents().is_empty()).collect();
        for (listener, _) in listeners.iter_mut().zip(cut).filter(|(_, cut)| *cut) {
            *listener = connect()?;
        }
    }
    Ok(())
}
