//! The end of a stream that we end.
//!
//! The kernel resets a connection that is closed while bytes of its client wait to be read, and what the client has not
//! taken by then is lost, replies among it that were written before. So nothing more is sent, and what still comes is
//! dropped, until the client closes its side: so many bytes and so long at most.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weir_io::{Clock, Nanos, sleep_until};

use super::Stream;
use crate::pool;

/// What is dropped at most.
const BYTES_MAX: usize = 4 << 20;
/// How long at most.
const LIMIT_NANOS: Nanos = 1_000_000_000;

impl Stream {
    /// Tells the client that nothing more comes, and sees to it that it gets what was written. A client whose own
    /// bytes ended the stream (`by_client`) may have sent more behind them that has not come yet.
    pub(crate) async fn close(&mut self, by_client: bool, clock: &Arc<dyn Clock>) {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => {
                stream.say_goodbye();
                stream.socket_mut()
            }
        };
        // Others who have sent nothing more lose nothing, and are not waited for.
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
