//! Replies as bytes, in RESP2 or RESP3, gathered for a whole pipeline.
//!
//! Small replies are copied into one buffer. A large value is not copied: its place in the stream is remembered, and it
//! is written directly from its own memory.
//!
//! Every command has exactly one reply, however it ends. [`Replies::begin`] and [`Replies::is_whole`] keep count, so
//! that a handler that wrote less or more than one reply is found out before a byte of it leaves.

mod places;
#[cfg(test)]
mod tests;
mod written;

use std::io::IoSlice;
use std::ops::Deref;

pub use self::places::Mark;
use crate::number::parse_i64;

/// Replies are written out when they reach this many bytes, even in the middle of a pipeline or of one long reply.
pub const FLUSH_BYTES: usize = 256 << 10;

/// Most bytes of replies that a connection holds, beside one value (S11). A command that lets its replies leave as it
/// goes never comes near this limit; a command that does not is refused.
pub const OUTPUT_BYTES_MAX: usize = 32 << 20;

/// Values of at least this size are written directly from their own memory. Below, copying is cheaper than another
/// piece to write.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// Spare memory above this is given back once the replies are written.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The version of the protocol that replies are written in (requests are the same in both).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What a connection starts with.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// A value that is shared instead of copied.
struct Shared {
    /// The value belongs in front of the bytes from this place on.
    place: usize,
    value: Box<dyn Deref<Target = [u8]> + Send + Sync>,
    /// How many bytes the value keeps in memory beside those that are written.
    beside: usize,
    /// Other code books the memory of the value.
    is_booked: bool,
}

/// Replies not yet written to the socket.
#[derive(Default)]
pub struct Replies {
    /// The protocol that the client chose with `HELLO`.
    pub protocol: Protocol,
    bytes: Vec<u8>,
    /// The shared values, in ascending order of place.
    shared: Vec<Shared>,
    shared_bytes: usize,
    /// Some shared value keeps memory of the store alive.
    holds_values: bool,
    /// How many replies have yet to be written until the current one is whole: the reply itself, and the elements that
    /// it has announced. Negative if no reply was begun.
    missing: i64,
    /// How many elements of arrays, sets and maps were announced since somebody last asked.
    announced: u64,
}

impl Replies {
    /// How many bytes wait to be written.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn share(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static, beside: usize, is_booked: bool) {
        self.shared_bytes += value.len();
        self.shared.push(Shared { place: self.bytes.len(), value: Box::new(value), beside, is_booked });
    }

    /// How many bytes behind the first `written` are not booked by other code.
    pub fn unbooked_bytes(&self, written: usize) -> usize {
        let booked = self.shared.iter().filter(|shared| shared.is_booked).map(|shared| shared.value.len()).sum();
        (self.len() - written).saturating_sub(booked)
    }

    /// Whether more than [`OUTPUT_BYTES_MAX`] wait beside the longest value. That value is bounded by the limit on a
    /// value's length (S11).
    pub fn is_too_long(&self) -> bool {
        let longest = || self.shared.iter().map(|shared| shared.value.len()).max().unwrap_or(0);
        self.len() > OUTPUT_BYTES_MAX && self.len() - longest() > OUTPUT_BYTES_MAX
    }

    /// How many bytes stay in memory for what is behind the first `written` bytes.
    pub fn kept_bytes(&self, written: usize) -> usize {
        let beside = || self.shared.iter().map(|shared| shared.beside).sum::<usize>();
        if written == self.len() { 0 } else { self.len() - written + beside() }
    }

    /// A copy of all bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces(0, usize::MAX).iter().flat_map(|piece| piece.iter().copied()).collect()
    }

    /// The number, if the replies are a single whole number.
    pub fn as_integer(&self) -> Option<i64> {
        parse_i64(self.as_one_piece()?.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
    }

    /// The bytes, if they are in one piece.
    pub fn as_one_piece(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.bytes)
    }

    /// Up to `max` bytes, in pieces, without the first `written` bytes.
    pub fn pieces(&self, mut written: usize, mut max: usize) -> Vec<IoSlice<'_>> {
        // Most replies that are not in one piece are a value with the bytes before and behind it.
        let mut pieces = Vec::with_capacity(3);
        let mut add = |piece| {
            let piece: &[u8] = piece;
            let skipped = written.min(piece.len());
            written -= skipped;
            let taken = max.min(piece.len() - skipped);
            max -= taken;
            if taken > 0 {
                pieces.push(IoSlice::new(&piece[skipped..skipped + taken]));
            }
        };
        let mut from = 0;
        for Shared { place, value, .. } in &self.shared {
            add(&self.bytes[from..*place]);
            add(value);
            from = *place;
        }
        add(&self.bytes[from..]);
        pieces
    }

    /// Whether [`Replies::detach`] would let go of anything.
    pub fn holds_values(&self) -> bool {
        self.holds_values
    }

    /// Copies the shared values, so that they keep nothing of the store alive. Marks stay valid.
    pub fn own_values(&mut self) {
        if std::mem::take(&mut self.holds_values) {
            for Shared { value, beside, .. } in self.shared.iter_mut().filter(|shared| !shared.is_booked) {
                (*value, *beside) = (Box::new(value.to_vec()), 0);
            }
        }
    }

    /// Copies what is not yet written into one piece, so that a client that reads slowly keeps nothing alive but the
    /// bytes that it is going to get.
    pub fn detach(&mut self, written: usize) {
        let rest = self.pieces(written, usize::MAX);
        let mut bytes = Vec::with_capacity(rest.iter().map(|piece| piece.len()).sum());
        rest.iter().for_each(|piece| bytes.extend_from_slice(piece));
        self.bytes = bytes;
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.holds_values = false;
    }

    /// Everything is written: clears the replies, and keeps a modest amount of memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.holds_values = false;
    }

    /// Takes `buffer` as memory for the bytes. Allowed only while nothing waits to be written.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        debug_assert!(self.bytes.is_empty());
        self.bytes = buffer;
    }

    /// Gives the memory back. Allowed only while nothing waits to be written.
    pub fn reclaim(&mut self) -> Vec<u8> {
        debug_assert!(self.bytes.is_empty());
        std::mem::take(&mut self.bytes)
    }
}
