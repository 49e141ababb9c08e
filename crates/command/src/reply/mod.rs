//! Replies as bytes, in RESP2 or RESP3, gathered for a whole pipeline.
//!
//! Small replies are copied into one buffer. A large value is not copied: it is remembered with its place in the
//! stream and written from where it lies.
//!
//! Every command has exactly one reply, however it ends. [`Replies::begin`] and [`Replies::is_whole`] keep count, so
//! that a handler that wrote less or more than one is found out before a byte of it leaves.

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

/// Most bytes of replies that a connection holds, beside one value (S11). No command comes near it that lets them leave
/// as it goes; one that does not is refused.
pub const OUTPUT_BYTES_MAX: usize = 32 << 20;

/// Values from this size on are written from where they lie: below, copying is cheaper than another piece to write.
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

/// A value that is not copied.
struct Shared {
    /// Where it belongs: in front of the bytes from here on.
    place: usize,
    value: Box<dyn Deref<Target = [u8]> + Send + Sync>,
    /// Bytes that it keeps in memory and that are not written.
    beside: usize,
    /// Somebody else books its memory.
    is_booked: bool,
}

/// Replies not yet written to the socket.
#[derive(Default)]
pub struct Replies {
    /// What the client asked for with `HELLO`.
    pub protocol: Protocol,
    bytes: Vec<u8>,
    /// In ascending order of place.
    shared: Vec<Shared>,
    shared_bytes: usize,
    /// Some of what is shared keeps memory of the store alive.
    holds_values: bool,
    /// Replies that are still to be written until the one begun last is whole: itself, and the elements it announced.
    /// Negative where nothing was begun.
    missing: i64,
    /// Elements of arrays, sets and maps that were announced and nobody has asked about.
    announced: u64,
}

impl Replies {
    /// Bytes that wait to be written.
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

    /// Bytes behind the first `written` that nobody else books.
    pub fn unbooked_bytes(&self, written: usize) -> usize {
        let booked = self.shared.iter().filter(|shared| shared.is_booked).map(|shared| shared.value.len()).sum();
        (self.len() - written).saturating_sub(booked)
    }

    /// Bytes that wait beside the longest value among them: that one is bounded by what a value may be (S11).
    pub fn len_beside_one_value(&self) -> usize {
        self.len() - self.shared.iter().map(|shared| shared.value.len()).max().unwrap_or(0)
    }

    /// Bytes that stay in memory for what is behind the first `written`.
    pub fn kept_bytes(&self, written: usize) -> usize {
        let beside = || self.shared.iter().map(|shared| shared.beside).sum::<usize>();
        if written == self.len() { 0 } else { self.len() - written + beside() }
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces(0, usize::MAX).iter().flat_map(|piece| piece.iter().copied()).collect()
    }

    /// The number, if there is one whole number and nothing else.
    pub fn as_integer(&self) -> Option<i64> {
        parse_i64(self.as_one_piece()?.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
    }

    /// The bytes, if they lie in one piece.
    pub fn as_one_piece(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.bytes)
    }

    /// Up to `max` of the bytes in pieces, without the first `written`.
    pub fn pieces(&self, mut written: usize, mut max: usize) -> Vec<IoSlice<'_>> {
        // A value with what is before and behind it, as most replies that are not in one piece.
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

    /// Copies what is kept where it lies, so that nothing of the store stays alive for it. Marks stay good.
    pub fn own_values(&mut self) {
        if std::mem::take(&mut self.holds_values) {
            for Shared { value, beside, .. } in self.shared.iter_mut().filter(|shared| !shared.is_booked) {
                (*value, *beside) = (Box::new(value.to_vec()), 0);
            }
        }
    }

    /// Copies what is not yet written into one piece, so that a client who reads slowly keeps nothing alive but the
    /// bytes that he is going to get.
    pub fn detach(&mut self, written: usize) {
        let rest = self.pieces(written, usize::MAX);
        let mut bytes = Vec::with_capacity(rest.iter().map(|piece| piece.len()).sum());
        rest.iter().for_each(|piece| bytes.extend_from_slice(piece));
        self.bytes = bytes;
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.holds_values = false;
    }

    /// Everything is written: keeps a modest amount of memory for the next replies.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.shared = Vec::new();
        self.shared_bytes = 0;
        self.holds_values = false;
    }

    /// Takes `buffer` as memory for the bytes. Only while nothing waits to be written.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        debug_assert!(self.bytes.is_empty());
        self.bytes = buffer;
    }

    /// Gives the memory back. Only while nothing waits to be written.
    pub fn reclaim(&mut self) -> Vec<u8> {
        debug_assert!(self.bytes.is_empty());
        std::mem::take(&mut self.bytes)
    }
}
