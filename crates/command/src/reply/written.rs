//! How replies are written: lines, strings, numbers, and headers that announce several elements.

use std::ops::{Deref, Range};

use super::{FLUSH_BYTES, Protocol, Replies, SHARED_BYTES_MIN};
use crate::float::push_f64;
use crate::number::{push_i64, push_u64};

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

impl Replies {
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

    /// `-text`, on one line whatever the text has in it: a line end would be taken for the next reply.
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

    /// Some bytes of the current reply, shared instead of copied if they are many.
    pub fn raw_value(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static) {
        if value.len() < SHARED_BYTES_MIN {
            return self.raw(&value);
        }
        self.holds_values = true;
        self.share(value, 0, false);
    }

    /// One whole reply that is encoded already.
    pub fn answer_with(&mut self, reply: &[u8]) {
        self.missing -= 1;
        self.raw(reply);
    }

    /// Appends replies that were gathered separately, without copying them if they are long. They may hold no values of
    /// the store.
    pub fn append(&mut self, other: Replies) {
        debug_assert!(other.shared.is_empty());
        self.missing += other.missing;
        self.announced += other.announced;
        if other.bytes.len() < SHARED_BYTES_MIN {
            return self.raw(&other.bytes);
        }
        self.share(other.bytes, 0, false);
    }

    /// Begins a message of `len` elements: a push in RESP3, an array in RESP2. A command is answered with none, one or
    /// several such messages. A message is no reply, and does not make a reply whole.
    pub fn begin_push(&mut self, len: usize) {
        self.missing += len as i64;
        self.push_header(len);
    }

    /// Appends a message whose elements are encoded already, in two pieces; without a `len` it is a line of its own.
    /// Other code books the memory of `rest`, which is not copied if it is long.
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

    /// A string of any bytes, shared instead of copied if it is large.
    #[inline]
    pub fn bulk_value(&mut self, value: impl Deref<Target = [u8]> + Send + Sync + 'static) {
        if value.len() < SHARED_BYTES_MIN {
            return self.bulk(&value);
        }
        self.bulk_shared(value, 0);
    }

    /// A part of a string of any bytes. It is shared only if it is so large that nothing more is gathered behind it:
    /// many small parts, each of which keeps a long value alive, would be more than a connection may hold.
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
        self.announce(len);
        self.header(b'*', len);
    }

    /// Begins a map of `len` pairs; an array of twice as many in RESP2.
    pub fn map(&mut self, len: usize) {
        let elements = len.saturating_mul(2);
        self.announce(elements);
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', elements),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// Begins a set of `len` replies; an array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.announce(len);
        self.header(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len);
    }

    /// Begins a reply that has `elements` other replies as its elements. A damaged row may claim to have any number of
    /// parts: numbers saturate, and its reply never becomes whole.
    fn announce(&mut self, elements: usize) {
        let elements = i64::try_from(elements).unwrap_or(i64::MAX);
        self.missing = self.missing.saturating_add(elements - 1);
        self.announced = self.announced.saturating_add_signed(elements);
    }

    /// How many elements of arrays, sets and maps were announced since this was last called, whatever has become of
    /// them. Elements of messages are not counted.
    #[inline]
    pub fn take_announced(&mut self) -> u64 {
        std::mem::take(&mut self.announced)
    }

    /// As [`Replies::take_announced`], without the elements that the current reply has announced and that are not
    /// there: its command has failed before it came to them.
    #[inline]
    pub fn take_written(&mut self) -> u64 {
        self.take_announced().saturating_sub(u64::try_from(self.missing).unwrap_or(0))
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.missing -= 1;
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        // Most headers have one digit, and are appended in one piece.
        if len < 10 {
            return self.bytes.extend_from_slice(&[kind, b'0' + len as u8, b'\r', b'\n']);
        }
        self.bytes.push(kind);
        push_u64(&mut self.bytes, len as u64);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}
