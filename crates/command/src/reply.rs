//! Replies as bytes, in RESP2 or RESP3, gathered for a whole pipeline.
//!
//! Small replies are copied into one buffer. A large value is not copied: it is remembered with its place in the
//! stream and written from where it lies.
//!
//! Every command has exactly one reply, however it ends. [`Replies::begin`] and [`Replies::is_whole`] keep count, so
//! that a handler that wrote less or more than one is found out before a byte of it leaves.

use std::io::IoSlice;
use std::ops::{Deref, Range};

use crate::float::push_f64;
use crate::number::{parse_i64, push_i64, push_u64};

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

/// A part of a value.
struct Part<V> {
    value: V,
    range: Range<usize>,
}

impl<V: Deref<Target = [u8]>> Deref for Part<V> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.value[self.range.clone()]
    }
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

    /// `+text`; `text` is one line.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.missing -= 1;
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`, made one line whatever is in it: a line end would be taken for the next reply.
    pub fn error(&mut self, text: &[u8]) {
        let start = self.bytes.len() + 1;
        self.line(b'-', text);
        let end = self.bytes.len() - 2;
        for byte in &mut self.bytes[start..end] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }

    /// A reply that is encoded already.
    pub fn raw(&mut self, reply: &[u8]) {
        self.bytes.extend_from_slice(reply);
    }

    /// One whole reply that is encoded already.
    pub fn answer_with(&mut self, reply: &[u8]) {
        self.missing -= 1;
        self.raw(reply);
    }

    /// Replies that were gathered apart; not copied if they are long. They hold no values of the store.
    pub fn append(&mut self, other: Replies) {
        debug_assert!(other.shared.is_empty());
        self.missing += other.missing;
        if other.bytes.len() < SHARED_BYTES_MIN {
            return self.raw(&other.bytes);
        }
        self.share(other.bytes, 0, false);
    }

    /// One whole reply that was gathered apart; not copied if it is long and in one piece.
    pub fn append_whole(&mut self, other: Replies) {
        self.missing -= 1;
        let bytes = if other.shared.is_empty() { other.bytes } else { other.to_vec() };
        if bytes.len() < SHARED_BYTES_MIN {
            return self.raw(&bytes);
        }
        self.share(bytes, 0, false);
    }

    fn share(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static, beside: usize, is_booked: bool) {
        self.shared_bytes += value.len();
        self.shared.push(Shared { place: self.bytes.len(), value: Box::new(value), beside, is_booked });
    }

    /// Begins a message of `len` elements, of which a command is answered with none, one or several: a push in RESP3,
    /// an array in RESP2. It is no reply, and does not make one whole.
    pub fn begin_push(&mut self, len: usize) {
        self.missing += len as i64;
        self.push_header(len);
    }

    /// Such a message whose elements are encoded already, in two pieces; without a `len` it is a line of its own.
    /// Somebody else books the memory of `rest`, which is not copied if it is long.
    pub fn push(&mut self, len: Option<usize>, front: &[u8], rest: impl Deref<Target = [u8]> + Send + Sync + 'static) {
        if let Some(len) = len {
            self.push_header(len);
        }
        self.raw(front);
        if rest.len() < SHARED_BYTES_MIN {
            return self.raw(&rest);
        }
        self.share(rest, 0, true);
    }

    fn push_header(&mut self, len: usize) {
        self.header(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, len);
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

    /// `:value`
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.missing -= 1;
        self.bytes.push(b':');
        push_i64(&mut self.bytes, value);
        self.end();
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.missing -= 1;
        self.header(b'$', value.len());
        self.bytes.extend_from_slice(value);
        self.end();
    }

    /// A string of any bytes, kept where it lies if it is large.
    #[inline]
    pub fn bulk_value(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static) {
        if value.len() < SHARED_BYTES_MIN {
            return self.bulk(&value);
        }
        self.bulk_shared(value, 0);
    }

    /// A part of a string of any bytes, kept where it lies if it is so large that nothing is gathered behind it: many
    /// small ones, each of which keeps a long value alive, would be more than a connection may hold.
    pub fn bulk_part(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static, range: Range<usize>) {
        if range.len() < FLUSH_BYTES {
            return self.bulk(&value[range]);
        }
        let beside = value.len() - range.len();
        self.bulk_shared(Part { value, range }, beside);
    }

    #[inline]
    fn bulk_shared(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static, beside: usize) {
        self.missing -= 1;
        self.header(b'$', value.len());
        self.holds_values = true;
        self.share(value, beside, false);
        self.end();
    }

    /// The reply to `NAME HELP`: a line for each subcommand.
    pub fn help(&mut self, name: &str, lines: &[&str]) {
        self.array(lines.len() + 1);
        self.simple(&format!("{name} <subcommand> [<arg> ...]. Subcommands are:"));
        lines.iter().for_each(|line| self.simple(line));
    }

    /// Text for people: a verbatim string in RESP3, so that clients show its lines.
    pub fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.missing -= 1;
                self.header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.missing -= 1;
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.missing -= 1;
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// A number with a fraction: a string in RESP2.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        push_f64(&mut text, value);
        self.double_text(&text);
    }

    /// A number with a fraction that is written already: a string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// Begins an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.missing += len as i64 - 1;
        self.header(b'*', len);
    }

    /// Begins a map of `len` pairs; an array of twice as many in RESP2.
    pub fn map(&mut self, len: usize) {
        self.missing += len as i64 * 2 - 1;
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len * 2),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// Begins a set of `len` replies; an array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.missing += len as i64 - 1;
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len);
    }

    /// A command's reply begins here. What is written before it is not touched until [`Replies::replace_with_error`].
    #[inline]
    pub fn begin(&mut self) -> Mark {
        self.missing = 1;
        self.mark()
    }

    /// An element of the reply under way begins, whose wholeness is looked at by itself. Gives what
    /// [`Replies::end_element`] is to be given.
    pub fn begin_element(&mut self) -> i64 {
        std::mem::replace(&mut self.missing, 1)
    }

    /// The element ends, which was one whole reply.
    pub fn end_element(&mut self, missing: i64) {
        self.missing = missing - 1;
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces(0, usize::MAX).iter().flat_map(|piece| piece.iter().copied()).collect()
    }

    /// The number, if there is one whole number and nothing else.
    pub fn as_integer(&self) -> Option<i64> {
        parse_i64(self.as_one_piece()?.strip_prefix(b":")?.strip_suffix(b"\r\n")?)
    }

    /// As if nothing had been written since [`Replies::begin`] gave `mark`.
    pub fn restart(&mut self, mark: Mark) {
        self.rewind(mark);
        self.missing = 1;
    }

    /// Whether exactly one reply, with all of its elements, was written since [`Replies::begin`].
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// The place of the next reply, to come back to with [`Replies::replace_with_error`].
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// Bytes written since `mark`.
    pub fn len_since(&self, mark: Mark) -> usize {
        let shared: usize = self.shared[mark.shared..].iter().map(|shared| shared.value.len()).sum();
        self.bytes.len() - mark.bytes + shared
    }

    /// Takes back what was written between the marks and puts `count` times the error `text` there. Marks behind
    /// `to` are wrong afterwards: so replacing goes from the last to the first, when nobody holds any other mark.
    pub fn replace_with_error(&mut self, from: Mark, to: Mark, count: usize, text: &[u8]) {
        let mut error = Replies::default();
        error.error(text);
        let errors = error.bytes.repeat(count);
        let grown = errors.len() as isize - (to.bytes - from.bytes) as isize;
        self.bytes.splice(from.bytes..to.bytes, errors);
        for shared in self.shared.drain(from.shared..to.shared) {
            self.shared_bytes -= shared.value.len();
        }
        for Shared { place, .. } in &mut self.shared[from.shared..] {
            *place = place.checked_add_signed(grown).expect("a place behind the replaced bytes");
        }
    }

    /// Puts the attribute `name`, a number, in front of the reply that begins at `mark`, which is the last one. Marks
    /// behind `mark` are wrong afterwards.
    pub fn put_attribute(&mut self, mark: Mark, name: &str, value: f64) {
        let mut attribute = Replies { protocol: Protocol::Resp3, ..Replies::default() };
        attribute.bytes.extend_from_slice(b"|1\r\n");
        attribute.bulk(name.as_bytes());
        attribute.double(value);
        let len = attribute.bytes.len();
        self.bytes.splice(mark.bytes..mark.bytes, attribute.bytes);
        self.shared[mark.shared..].iter_mut().for_each(|shared| shared.place += len);
    }

    /// Forgets everything from `mark` on.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        for shared in self.shared.drain(mark.shared..) {
            self.shared_bytes -= shared.value.len();
        }
    }

    /// How many elements of the reply under way are not written yet.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    /// Forgets everything from `mark` on, where so many elements were [missing](Replies::missing).
    pub fn rewind_elements(&mut self, mark: Mark, missing: i64) {
        self.rewind(mark);
        self.missing = missing;
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

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.missing -= 1;
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        self.bytes.push(kind);
        push_u64(&mut self.bytes, len as u64);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// A place between two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    shared: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(replies: &Replies, skip: usize) -> Vec<u8> {
        replies.pieces(skip, usize::MAX).concat_bytes()
    }

    #[test]
    fn an_attribute_stands_in_front_of_the_last_reply_whatever_that_is() {
        let mut replies = Replies { protocol: Protocol::Resp3, ..Replies::default() };
        replies.ok();
        let mark = replies.begin();
        replies.array(2);
        replies.bulk_value(vec![b'v'; SHARED_BYTES_MIN]);
        replies.null();
        let before = written(&replies, 0)[5..].to_vec();
        replies.put_attribute(mark, "ru", 0.25);
        let expected = [b"+OK\r\n|1\r\n$2\r\nru\r\n,0.25\r\n", &before[..]].concat();
        assert!(written(&replies, 0) == expected && replies.is_whole());
    }

    trait ConcatBytes {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl ConcatBytes for Vec<IoSlice<'_>> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|piece| piece.iter().copied()).collect()
        }
    }

    #[test]
    fn both_protocols_say_the_same_in_their_own_way() {
        let mut replies = Replies::default();
        let mut say = |protocol| {
            replies.protocol = protocol;
            replies.map(1);
            replies.bulk(b"k");
            replies.null();
            replies.text("hi");
            replies.integer(-7);
            replies.error(b"ERR a\r\nb");
            let all = String::from_utf8(written(&replies, 0)).expect("text");
            replies.clear();
            all
        };
        assert_eq!(say(Protocol::Resp2), "*2\r\n$1\r\nk\r\n$-1\r\n$2\r\nhi\r\n:-7\r\n-ERR a  b\r\n");
        assert_eq!(say(Protocol::Resp3), "%1\r\n$1\r\nk\r\n_\r\n=6\r\ntxt:hi\r\n:-7\r\n-ERR a  b\r\n");
    }

    #[test]
    fn a_reply_is_whole_when_all_that_it_announced_is_there() {
        let mut replies = Replies::default();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            replies.protocol = protocol;
            let scalars: [&dyn Fn(&mut Replies); 11] = [
                &|replies| replies.ok(),
                &|replies| replies.simple("x"),
                &|replies| replies.error(b"ERR x"),
                &|replies| replies.integer(7),
                &|replies| replies.double(0.5),
                &|replies| replies.null_array(),
                &|replies| replies.bulk(b""),
                &|replies| replies.bulk_value(vec![0; SHARED_BYTES_MIN]),
                &|replies| replies.bulk_part(vec![0; 2 * FLUSH_BYTES], 0..FLUSH_BYTES + 1),
                &|replies| replies.text("x"),
                &|replies| replies.null(),
            ];
            for scalar in scalars {
                replies.begin();
                assert!(!replies.is_whole());
                scalar(&mut replies);
                assert!(replies.is_whole());
                scalar(&mut replies);
                assert!(!replies.is_whole(), "two are no reply");
                replies.begin();
                replies.array(2);
                replies.map(1);
                scalar(&mut replies);
                scalar(&mut replies);
                assert!(!replies.is_whole());
                replies.set(0);
                assert!(replies.is_whole());
                // Gathered apart, as the keys of `KEYS`.
                let mut apart = Replies::default();
                scalar(&mut apart);
                scalar(&mut apart);
                if apart.as_one_piece().is_some() {
                    replies.begin();
                    replies.array(2);
                    replies.append(apart);
                    assert!(replies.is_whole());
                }
            }
        }
    }

    #[test]
    fn values_that_are_let_go_are_written_all_the_same() {
        let large = std::sync::Arc::<[u8]>::from(vec![b'v'; SHARED_BYTES_MIN]);
        let mut replies = Replies::default();
        replies.bulk_value(std::sync::Arc::clone(&large));
        let mark = replies.mark();
        replies.bulk_value(std::sync::Arc::clone(&large));
        let before = written(&replies, 0);
        replies.own_values();
        assert_eq!(std::sync::Arc::strong_count(&large), 1);
        assert!(written(&replies, 0) == before && !replies.holds_values());
        replies.rewind(mark);
        assert_eq!(replies.len(), before.len() / 2);
    }

    #[test]
    fn a_part_of_a_value_keeps_all_of_it_until_it_is_written_or_copied() {
        let value = std::sync::Arc::<[u8]>::from(vec![b'v'; 3 * FLUSH_BYTES]);
        let mut replies = Replies::default();
        replies.bulk_part(std::sync::Arc::clone(&value), 5..FLUSH_BYTES);
        assert_eq!((std::sync::Arc::strong_count(&value), replies.kept_bytes(0)), (1, replies.len()), "it is copied");
        let mark = replies.mark();
        replies.bulk_part(std::sync::Arc::clone(&value), 5..5 + FLUSH_BYTES);
        let len = replies.len();
        assert_eq!(written(&replies, 0).len(), len);
        assert_eq!((replies.kept_bytes(0), replies.kept_bytes(len)), (len + 2 * FLUSH_BYTES, 0));
        replies.rewind(mark);
        assert_eq!(replies.kept_bytes(0), replies.len());
        replies.bulk_part(std::sync::Arc::clone(&value), 0..2 * FLUSH_BYTES);
        replies.own_values();
        assert_eq!((std::sync::Arc::strong_count(&value), replies.kept_bytes(7)), (1, replies.len() - 7));
    }

    #[test]
    fn large_values_are_written_from_where_they_lie_and_can_be_taken_back() {
        let large = vec![b'v'; SHARED_BYTES_MIN];
        let mut replies = Replies::default();
        replies.ok();
        let from = replies.mark();
        replies.bulk_value(large.clone());
        replies.ok();
        let to = replies.mark();
        replies.bulk_value(large.clone());
        assert!(replies.as_one_piece().is_none());
        let header = format!("${}\r\n", large.len());
        let value = [header.as_bytes(), &large, b"\r\n"].concat();
        let all = [b"+OK\r\n", &value[..], b"+OK\r\n", &value].concat();
        assert_eq!(replies.len(), all.len());
        for skip in [0, 3, 5, 9, 20_000, all.len() - 1, all.len()] {
            assert_eq!(written(&replies, skip), all[skip..], "the first {skip} bytes are written already");
            for max in [0, 1, 7, large.len(), all.len()] {
                let end = all.len().min(skip + max);
                assert_eq!(replies.pieces(skip, max).concat_bytes(), all[skip..end], "{max} bytes behind {skip}");
            }
        }
        replies.replace_with_error(from, to, 2, b"ERR x");
        let all = [b"+OK\r\n-ERR x\r\n-ERR x\r\n", &value[..]].concat();
        assert_eq!((written(&replies, 0), replies.len()), (all.clone(), all.len()));
    }
}
