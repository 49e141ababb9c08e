//! The bytes between a connection and its client: over TCP as they are, or over TLS.
//!
//! What is plain stays as cheap as it was: one look at which of the two it is for each system call.

mod closing;
mod tls;

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub(crate) use self::tls::{Socket, TlsStream};

/// See the module.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Appends up to `max` bytes to `buffer` as soon as there are some, as far as it has room; gives how many, 0 at the
    /// end of the stream. Nothing is read when pending.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            // The future is made for one poll and dropped: reading is cancel-safe.
            Stream::Plain(socket) => pin!(socket.take(max as u64).read_buf(buffer)).poll(cx),
            Stream::Tls(stream) => stream.poll_read(cx, buffer, max),
        }
    }

    /// Writes what is taken at once; `WouldBlock` if that is nothing. TLS keeps some of it until [`Stream::try_flush`].
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

    /// Hands all that was written to the kernel; `WouldBlock` while it does not take the rest.
    #[inline]
    pub(crate) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.try_flush(),
        }
    }

    /// Until the kernel may take more.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_write_ready(cx)
    }

    /// Until the kernel may take more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_writable(cx)).await
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    /// Goes on over `socket`, which is the same one in the hands of another event loop.
    pub(crate) fn go_on_over(&mut self, socket: TcpStream) {
        match self {
            Stream::Plain(before) => *before = socket,
            Stream::Tls(stream) => stream.go_on_over(socket),
        }
    }
}
