//! What a request looks like while it is read: limits, what has been recognised so far, and the arguments at the end.
//!
//! A request is either an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or one line of words. Its bytes stay
//! in the connection's read buffer; here are only positions in it, so nothing that a client merely *announces* costs
//! memory (S9).

pub(super) use weir_command::{Args, Span};
use zeroize::Zeroize;

/// How much one request may ask for. Checked against what a client announces, before anything is allocated for it.
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
    /// Nobody knows yet who asks: at most [`STRANGER_ARGS_MAX`] arguments of [`STRANGER_BULK_BYTES_MAX`] (S2).
    pub stranger: bool,
}

/// Most arguments of a command before `AUTH`.
pub const STRANGER_ARGS_MAX: usize = 10;
/// Most bytes of an argument before `AUTH`.
pub const STRANGER_BULK_BYTES_MAX: usize = 16 << 10;
/// Whatever is longer is no argument of anybody's, in Redis.
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

/// More arguments than this are not kept as spare memory for the next request.
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
    /// The last call gave a complete request: the next one starts afresh.
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
    /// The request is not complete: call again with more bytes behind the same ones.
    Incomplete,
    /// A request of so many bytes, with at least one argument: see [`PartialRequest::args`].
    Request(usize),
    /// So many bytes that ask for nothing (an empty line, an empty array).
    Nothing(usize),
}

/// Bytes that are not a request. The connection is told (in Redis' own words) and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line of more than 64 KiB that is no array.
    InlineTooLong,
    /// Quotes that do not end, or a closing quote followed by something else than a space.
    UnbalancedQuotes,
    /// The line after `*` does not end.
    ArrayLineTooLong,
    /// The line after `*` is no number, or above the limit.
    ArrayLength,
    /// More than a stranger may say.
    StrangerArrayLength,
    /// The same of one argument.
    StrangerBulkLength,
    /// The line after `$` does not end.
    BulkLineTooLong,
    /// The line after `$` is no number, negative, or above the limit.
    BulkLength,
    /// An element that is no bulk string: requests are flat, so nothing nests (S10).
    ExpectedBulk(u8),
    /// All arguments together are above the limit.
    RequestTooLong,
    /// A web browser or an HTTP client, perhaps tricked into talking to us: closed without an answer (S17).
    Http,
    /// The beginning of a TLS handshake: the client has taken the wrong port.
    Tls,
}

impl ProtocolError {
    /// The reply before the connection closes; `None` where silence is the answer.
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
                // An error is one line: a line end in it would be taken for the next reply.
                let got = if matches!(got, b'\r' | b'\n') { b' ' } else { *got };
                return Some([b"-ERR Protocol error: expected '$', got '".as_slice(), &[got], b"'\r\n"].concat());
            }
            ProtocolError::Tls => b"this port does not speak TLS",
            ProtocolError::Http => return None,
        };
        Some([b"-ERR Protocol error: ".as_slice(), text, b"\r\n"].concat())
    }
}
