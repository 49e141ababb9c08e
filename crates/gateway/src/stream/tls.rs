//! A TLS session over a socket, with the calls that a connection makes. They take what is there, and never wait.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::net::TcpStream;

/// A TLS session and its socket.
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
}

/// A non-blocking socket with the interface of the standard library.
pub(crate) struct Socket<'a>(pub(crate) &'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// The stream over `socket`, on which `session` has finished its handshake.
    pub(crate) fn new(socket: TcpStream, session: ServerConnection) -> Self {
        Self { socket, session }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub(super) fn go_on_over(&mut self, socket: TcpStream) {
        self.socket = socket;
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            // A record may hold more than the last call had room for.
            match self.take_plaintext(buffer, max) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // As over TCP, a client that goes without a word has ended the stream. A request that was cut off is
                // not served.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
                outcome => return Poll::Ready(outcome),
            }
            match self.session.read_tls(&mut Socket(&self.socket)) {
                Ok(_) => {
                    let processed = self.session.process_new_packets();
                    // The session may have to send an alert, or an answer to new keys. What the kernel does not take
                    // goes out with the next reply.
                    match self.try_flush() {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                        _ => {}
                    }
                    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.socket.poll_read_ready(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Moves decrypted bytes to `buffer`; `WouldBlock` if there are none.
    fn take_plaintext(&mut self, buffer: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        let before = buffer.len();
        let room = max.min(buffer.capacity() - before);
        while buffer.len() - before < room {
            let mut reader = self.session.reader();
            let bytes = match reader.fill_buf() {
                Ok(bytes) if !bytes.is_empty() => bytes,
                // The end, or an error, is found again by the next call, when nothing is in front of it.
                _ if buffer.len() > before => break,
                Ok(_) => break,
                Err(error) => return Err(error),
            };
            let len = bytes.len().min(room - (buffer.len() - before));
            buffer.extend_from_slice(&bytes[..len]);
            reader.consume(len);
        }
        Ok(buffer.len() - before)
    }

    pub(super) fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // A client that does not take what was encrypted gets no more, or it would pile up here.
        self.try_flush()?;
        let len = self.session.writer().write_vectored(pieces)?;
        match self.try_flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(len),
        }
    }

    pub(super) fn say_goodbye(&mut self) {
        self.session.send_close_notify();
        // A client that does not take this sees the connection close.
        let _ = self.try_flush();
    }

    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut Socket(&self.socket))?;
        }
        Ok(())
    }
}
