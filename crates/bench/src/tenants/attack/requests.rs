//! Requests without end: small ones, large ones, and ones that take long.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_io::Rng;

use crate::Result;
use crate::data::key;
use crate::wire::{self, Client};

const PIPELINE: u64 = 64;
const LARGE: usize = 8 << 20;
/// How often an attacker that waits for a reply checks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn flood(port: u16, stop: &AtomicBool) -> Result<()> {
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

/// Writes and reads values of 8 MB.
pub(super) fn large_values(port: u16, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(port)?;
    let value = vec![b'l'; LARGE];
    while !stop.load(Ordering::Relaxed) {
        client.call(&[b"SET", b"large", &value])?;
        client.call(&[b"GET", b"large"])?;
    }
    Ok(())
}

/// Sends `words` again and again, and throws the replies away.
pub(super) fn again(port: u16, stop: &AtomicBool, words: &[&[u8]]) -> Result<()> {
    const END: &[u8] = b"+PONG\r\n";
    let mut stream = Client::connect(port)?.into_stream();
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let mut request = Vec::new();
    wire::encode(&mut request, words);
    wire::encode(&mut request, &[b"PING"]);
    let mut buffer = vec![0; 1 << 20];
    let mut tail = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&request)?;
        tail.clear();
        // Up to the reply of the PING that follows, which may come in two pieces.
        while !tail.ends_with(END) {
            match stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(read) => {
                    tail.extend_from_slice(&buffer[read.saturating_sub(END.len())..read]);
                    tail.drain(..tail.len().saturating_sub(END.len()));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}
