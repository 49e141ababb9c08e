//! Closes a stream from the server's side.
//!
//! The kernel resets a connection that is closed while bytes of its client wait to be read. What the client has not
//! taken by then is lost, including replies that were written before. So the server sends nothing more, and drops what
//! still comes, until the client closes its side. Both the bytes and the time of this are limited.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weir_io::{Clock, Nanos, sleep_until};

use super::Stream;
use crate::pool;

/// How many bytes are dropped at most.
const BYTES_MAX: usize = 4 << 20;
/// How long bytes are dropped at most.
const LIMIT_NANOS: Nanos = 1_000_000_000;

impl Stream {
    /// Tells the client that nothing more comes, and makes sure that it gets what was written. A client whose own bytes
    /// ended the stream (`by_client`) may have sent more bytes that have not arrived yet.
    pub(crate) async fn close(&mut self, by_client: bool, clock: &Arc<dyn Clock>) {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => {
                stream.say_goodbye();
                stream.socket_mut()
            }
        };
        // Clients that have sent nothing more lose nothing, so the server does not wait for them.
        if !(by_client || has_unread(socket)) || socket.shutdown().await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            () = drop_the_rest(socket) => {}
            () = sleep_until(clock, clock.now() + LIMIT_NANOS) => {}
        }
    }
}

/// Whether bytes wait to be read.
fn has_unread(socket: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(socket.try_read(&mut byte), Ok(1))
}

/// Reads until the client has closed its side.
async fn drop_the_rest(socket: &TcpStream) {
    let (mut buffer, mut dropped) = (pool::take(), 0);
    buffer.resize(pool::BUFFER_BYTES, 0);
    while dropped < BYTES_MAX && socket.readable().await.is_ok() {
        match socket.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => dropped += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    pool::give(buffer);
}
