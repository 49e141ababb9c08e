//! The bytes between a connection and its client: over TCP as they are, or over TLS.
//!
//! Plain connections stay as cheap as they were: each system call costs one look at which of the two kinds the stream
//! is.

mod closing;
mod tls;

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;

pub(crate) use self::tls::{Socket, TlsStream};

/// A stream of bytes to and from a client.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Appends up to `max` bytes to `buffer` as soon as there are some, as far as it has room. Returns how many; 0
    /// means the end of the stream. While this is pending, nothing was read.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            // The future is made for one poll and then dropped, which is safe because reading is cancel-safe.
            Stream::Plain(socket) => pin!(socket.take(max as u64).read_buf(buffer)).poll(cx),
            Stream::Tls(stream) => stream.poll_read(cx, buffer, max),
        }
    }

    /// Writes as many bytes as are taken at once; `WouldBlock` if none are. TLS keeps some of them until
    /// [`Stream::try_flush`].
    #[inline]
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.try_write(bytes),
            Stream::Tls(stream) => stream.try_write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// The same with bytes in several pieces.
    #[inline]
    pub(crate) fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.try_write_vectored(pieces),
            Stream::Tls(stream) => stream.try_write_vectored(pieces),
        }
    }

    /// Hands everything that was written to the kernel; `WouldBlock` while the kernel does not take the rest.
    #[inline]
    pub(crate) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.try_flush(),
        }
    }

    /// Waits until the kernel may take more.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(cx)
    }

    /// Waits until the kernel may take more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_writable(cx)).await
    }

    /// Whether the client has ended its side of the stream, as far as the event loop knows. It knows this even if
    /// nobody has read the bytes in front of the end.
    pub(crate) fn is_ended(&self) -> bool {
        let ready = self.socket().ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }

    /// The socket beneath.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// Goes on over `socket`, which is the same socket, now registered with another event loop.
    pub(crate) fn go_on_over(&mut self, socket: TcpStream) {
        match self {
            Stream::Plain(before) => *before = socket,
            Stream::Tls(stream) => stream.go_on_over(socket),
        }
    }
}
