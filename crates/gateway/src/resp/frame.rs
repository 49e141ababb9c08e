//! A request while it is read: the limits, what has been recognised so far, and the arguments at the end.
//!
//! A request is either an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or one line of words. Its bytes stay
//! in the connection's read buffer. This module keeps only positions in it, so nothing that a client merely *announces*
//! costs memory (S9).

pub(super) use weir_command::{Args, Span};
use zeroize::Zeroize;

/// How much one request may ask for. This is checked against what a client announces, before anything is allocated for
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most arguments of a command, its name included.
    pub args_max: usize,
    /// Most bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Most bytes of a line: an inline command, or the line that announces a length.
    pub line_bytes_max: usize,
    /// Most bytes of a whole request.
    pub request_bytes_max: usize,
    /// The client has not logged in: at most [`STRANGER_ARGS_MAX`] arguments of [`STRANGER_BULK_BYTES_MAX`] (S2).
    pub stranger: bool,
}

/// Most arguments of a command before `AUTH`.
pub const STRANGER_ARGS_MAX: usize = 10;
/// Most bytes of an argument before `AUTH`.
pub const STRANGER_BULK_BYTES_MAX: usize = 16 << 10;
/// Redis accepts no longer argument from anybody.
pub const REDIS_BULK_BYTES_MAX: usize = 512 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            args_max: 1 << 20,
            bulk_bytes_max: 64 << 20,
            line_bytes_max: 64 << 10,
            request_bytes_max: 128 << 20,
            stranger: false,
        }
    }
}

/// Memory for at most this many arguments is kept for the next request.
const SPANS_KEPT_MAX: usize = 1024;

/// What has been recognised of the request at the front of the buffer, so that no byte is looked at twice however the
/// stream is cut. All positions are relative to the request's first byte.
#[derive(Debug, Default)]
pub struct PartialRequest {
    pub(super) spans: Vec<Span>,
    /// Arguments announced and still missing; `None` before the announcement has been read.
    pub(super) missing: Option<usize>,
    /// Length of the argument whose announcement has been read, but not yet its bytes.
    pub(super) bulk_len: Option<usize>,
    /// First byte that is not understood yet.
    pub(super) position: usize,
    /// Bytes from `position` on that are known not to end the line.
    pub(super) scanned: usize,
    /// Words of an inline request, unquoted; array requests leave it empty.
    pub(super) words: Vec<u8>,
    pub(super) inline: bool,
    /// The last call returned a complete request, so the next one starts afresh.
    pub(super) complete: bool,
}

impl PartialRequest {
    /// Ready for the first byte of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The arguments of the request that [`super::parse`] has just completed at the front of `buffer`.
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        debug_assert!(self.complete, "arguments are asked for only when a request is complete");
        Args::new(if self.inline { &self.words } else { buffer }, &self.spans)
    }

    /// Bytes of memory held on behalf of an unfinished request, besides its bytes themselves.
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.capacity()
    }

    /// Bytes the request needs at least before it can be complete: a hint for the next read, never trusted as a size
    /// to allocate.
    pub fn wanted_bytes(&self) -> usize {
        self.position + self.bulk_len.map_or(0, |len| len + 2)
    }

    /// Overwrites the words of an inline request: they held a secret (S4).
    pub(super) fn wipe(&mut self) {
        self.words.zeroize();
        self.spans.clear();
    }

    pub(super) fn restart(&mut self) {
        self.spans.clear();
        self.words.clear();
        if self.spans.capacity() > SPANS_KEPT_MAX {
            self.spans.shrink_to(SPANS_KEPT_MAX);
            self.words.shrink_to(SPANS_KEPT_MAX);
        }
        self.missing = None;
        self.bulk_len = None;
        self.position = 0;
        self.scanned = 0;
        self.inline = false;
        self.complete = false;
    }
}

/// What [`super::parse`] found at the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is not complete: call again with more bytes after the same ones.
    Incomplete,
    /// A request of this many bytes, with at least one argument: see [`PartialRequest::args`].
    Request(usize),
    /// This many bytes ask for nothing (an empty line, an empty array).
    Nothing(usize),
}

/// Bytes that are not a request. The connection is told (in Redis' own words) and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line of more than 64 KiB that is no array.
    InlineTooLong,
    /// Quotes that do not end, or a closing quote that is not followed by a space.
    UnbalancedQuotes,
    /// The line after `*` does not end.
    ArrayLineTooLong,
    /// The line after `*` is not a number, or above the limit.
    ArrayLength,
    /// More arguments than a client may send before it logs in.
    StrangerArrayLength,
    /// A longer argument than a client may send before it logs in.
    StrangerBulkLength,
    /// The line after `$` does not end.
    BulkLineTooLong,
    /// The line after `$` is not a number, or negative, or above the limit.
    BulkLength,
    /// An element that is not a bulk string: requests are flat, so nothing nests (S10).
    ExpectedBulk(u8),
    /// All arguments together are above the limit.
    RequestTooLong,
    /// A web browser or an HTTP client, perhaps tricked into talking to us: closed without an answer (S17).
    Http,
    /// The beginning of a TLS handshake: the client has connected to the wrong port.
    Tls,
}

impl ProtocolError {
    /// The reply before the connection closes; `None` if there is no answer.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let text: &[u8] = match self {
            ProtocolError::InlineTooLong => b"too big inline request",
            ProtocolError::UnbalancedQuotes => b"unbalanced quotes in request",
            ProtocolError::ArrayLineTooLong => b"too big mbulk count string",
            ProtocolError::ArrayLength => b"invalid multibulk length",
            ProtocolError::StrangerArrayLength => b"unauthenticated multibulk length",
            ProtocolError::StrangerBulkLength => b"unauthenticated bulk length",
            ProtocolError::BulkLineTooLong => b"too big bulk count string",
            ProtocolError::BulkLength => b"invalid bulk length",
            ProtocolError::RequestTooLong => b"request too large",
            ProtocolError::ExpectedBulk(got) => {
                // An error is one line: a client would take a line end in it for the end of the reply.
                let got = if matches!(got, b'\r' | b'\n') { b' ' } else { *got };
                return Some([b"-ERR Protocol error: expected '$', got '".as_slice(), &[got], b"'\r\n"].concat());
            }
            ProtocolError::Tls => b"this port does not speak TLS",
            ProtocolError::Http => return None,
        };
        Some([b"-ERR Protocol error: ".as_slice(), text, b"\r\n"].concat())
    }
}
