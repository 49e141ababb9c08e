//! The bytes that were received and are not served yet.
//!
//! A waiting connection holds no buffer. It borrows one from its thread's pool when there are bytes to read, and gives
//! it back when they are served. The rest, a part of an unfinished request, is kept in memory of its own size.

use std::io;
use std::task::{Context, Poll};

use weir_io::real::COPY_BYTES_MAX;
use zeroize::Zeroize;

use super::frame::PartialRequest;
use crate::pool;
use crate::stream::Stream;

/// The received bytes, and how far they are understood.
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    /// The first byte that is not served yet.
    pub(super) start: usize,
    pub(super) state: PartialRequest,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, state: PartialRequest::new() }
    }

    /// Whether no incomplete request waits for its rest.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of memory that the request at the front needs, as far as that is known: the bytes received, and the rest
    /// of what the client has announced for the next argument.
    pub(super) fn wanted_bytes(&self) -> usize {
        self.bytes.len().max(self.state.wanted_bytes())
    }

    /// The same with the places of its words: short words have places of more bytes than their own.
    pub(super) fn memory_bytes(&self) -> usize {
        self.wanted_bytes() + self.state.memory_bytes()
    }

    /// Reads more bytes as soon as there are some. Returns how many; 0 means the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<io::Result<usize>> {
        self.borrow();
        let result = stream.poll_read(cx, &mut self.bytes, COPY_BYTES_MAX);
        if result.is_pending() {
            self.give_back();
        }
        result
    }

    /// Overwrites the request at the front, of `len` bytes: it held a secret (S4).
    pub(super) fn wipe(&mut self, len: usize) {
        self.bytes[self.start..][..len].zeroize();
        self.state.wipe();
    }

    /// Drops the bytes that were served, and the places of their words.
    pub(super) fn consume(&mut self) {
        if self.state.complete {
            self.state.restart();
        }
        if self.start == self.bytes.len() {
            self.bytes.clear();
        } else if self.start > 0 {
            self.bytes.drain(..self.start);
            if self.bytes.len() < self.start {
                // The memory of a long request is not kept for the beginning of the next one.
                self.bytes.shrink_to(pool::BUFFER_BYTES);
            }
        }
        self.start = 0;
    }

    /// Makes room for more bytes: at most as many as have been received so far, whatever the client announces (S9).
    fn borrow(&mut self) {
        let received = self.bytes.len();
        if received < pool::BUFFER_BYTES / 2 {
            if self.bytes.capacity() < pool::BUFFER_BYTES {
                let mut buffer = pool::take();
                buffer.extend_from_slice(&self.bytes);
                self.bytes = buffer;
            }
        } else if received == self.bytes.capacity() {
            let wanted = self.state.wanted_bytes().saturating_sub(received).max(pool::BUFFER_BYTES);
            self.bytes.reserve_exact(received.min(wanted));
        }
    }

    /// Keeps only the received bytes while the connection waits for the rest.
    fn give_back(&mut self) {
        if self.bytes.len() < pool::BUFFER_BYTES / 2 && self.bytes.capacity() >= pool::BUFFER_BYTES {
            let kept = self.bytes.as_slice().to_vec();
            pool::give(std::mem::replace(&mut self.bytes, kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::frame::{Limits, Progress, Span};
    use crate::resp::parse::parse;

    #[test]
    fn s12_the_places_of_short_words_count() {
        let mut input = Input::new();
        input.bytes = [&b"*2000\r\n"[..], &b"$0\r\n\r\n".repeat(1000)].concat();
        assert_eq!(parse(&input.bytes, &Limits::default(), &mut input.state), Ok(Progress::Incomplete));
        assert_eq!(input.wanted_bytes(), input.bytes.len());
        assert!(input.memory_bytes() >= input.bytes.len() + 1000 * size_of::<Span>());
    }
}
