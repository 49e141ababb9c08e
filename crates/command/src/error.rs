//! Error replies, in Redis' exact words: clients match on them.

#![expect(missing_docs, reason = "the texts say what they are")]

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::ErrorKind;

/// What a command handler returns: its reply is written, or it failed.
pub type Outcome<T = ()> = Result<T, Error>;

/// Most bytes of an error that repeats what was asked. Redis repeats all of it; nobody reads more than this.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Why a command failed: the text of the reply, without the `-` in front of it. Its first word is the code, which
/// clients look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, [u8]>);

impl Error {
    /// # Panics
    /// `text` does not begin with a code.
    pub const fn new(text: &'static str) -> Self {
        assert!(has_code(text.as_bytes()), "an error begins with its code");
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// A text that does not begin with a code gets the code `ERR`; a text that is too long is cut.
    pub fn bytes(mut text: Vec<u8>) -> Self {
        text.truncate(TEXT_BYTES_MAX);
        Error(Cow::Owned(if has_code(&text) { text } else { [b"ERR ", &text[..]].concat() }))
    }

    /// A text that a script has made up: its first word is its code, whatever it is. A text of one word has none, and
    /// gets the code `ERR`.
    pub fn of_script(mut text: Vec<u8>) -> Self {
        if !text.contains(&b' ') {
            return Self::bytes(text);
        }
        text.truncate(TEXT_BYTES_MAX);
        Error(Cow::Owned(text))
    }

    pub fn text(&self) -> &[u8] {
        &self.0
    }

    pub fn arity(full_name: &str) -> Self {
        Self::bytes(format!("ERR wrong number of arguments for '{full_name}' command").into_bytes())
    }

    pub fn suspended(tenant: &str) -> Self {
        Self::bytes(format!("NOPERM tenant {tenant} is suspended").into_bytes())
    }

    /// The first word is the one that Redis uses for a server that accepts no more writes: clients know it.
    pub fn disk_full(max: u64) -> Self {
        let text = format!(
            "OOM the tenant holds the {max} living bytes that it may hold on disk: delete keys, FLUSHALL, or have disk_bytes_max raised"
        );
        Self::bytes(text.into_bytes())
    }

    pub fn expire(name: &str) -> Self {
        Self::bytes(format!("ERR invalid expire time in '{name}' command").into_bytes())
    }

    /// `name` is cut as Redis cuts it, and the arguments are shown up to 128 bytes.
    pub fn unknown_command<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut shown = Vec::new();
        for arg in args {
            if shown.len() >= 128 {
                break;
            }
            let room = 128 - shown.len();
            shown.push(b'\'');
            shown.extend_from_slice(c_text(arg, room));
            shown.extend_from_slice(b"' ");
        }
        Self::bytes(
            [b"ERR unknown command '", c_text(name, 128), b"', with args beginning with: ", &shown[..]].concat(),
        )
    }

    /// The word comes last in the error, and is shown up to a NUL, without line ends at its end.
    pub fn unsupported_option(word: &[u8]) -> Self {
        let word = c_text(word, usize::MAX);
        let end = word.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        Self::bytes([b"ERR Unsupported option ", &word[..end]].concat())
    }

    /// A subcommand that exists, but not with this number of words.
    pub fn subcommand(container: &str, name: &[u8]) -> Self {
        let help = format!("'. Try {} HELP.", container.to_ascii_uppercase());
        let front = &b"ERR unknown subcommand or wrong number of arguments for '"[..];
        Self::bytes([front, c_text(name, 128), help.as_bytes()].concat())
    }

    pub fn unknown_subcommand(container: &str, name: &[u8]) -> Self {
        let help = format!("'. Try {} HELP.", container.to_ascii_uppercase());
        Self::bytes([b"ERR unknown subcommand '", c_text(name, 128), help.as_bytes()].concat())
    }
}

/// Whether `text` begins with a word in capital letters, and has more behind it.
const fn has_code(text: &[u8]) -> bool {
    let mut len = 0;
    while len < text.len() && text[len].is_ascii_uppercase() {
        len += 1;
    }
    len > 0 && len < text.len() && text[len] == b' '
}

/// The front of `text` that C's `%.*s` prints: up to a NUL, and at most `max` bytes.
fn c_text(text: &[u8], max: usize) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..end.min(max)]
}

/// The store failed. The client is told what kind of trouble it is; which file and where is the operator's business,
/// and goes to the log. A write that failed is not acknowledged, though it may turn out to have happened.
impl From<weir_io::Error> for Error {
    fn from(error: weir_io::Error) -> Self {
        tell(&error);
        Self::new(match error.kind() {
            ErrorKind::NoSpace => {
                "MISCONF Errors writing to the log: no space left on the disk. Reading and FLUSHALL still work; the server's operator can drop a tenant or free space"
            }
            ErrorKind::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            ErrorKind::Corruption => "ERR stored data is damaged: the server's log says where",
            ErrorKind::NotFound | ErrorKind::UnexpectedEof => "ERR stored data is missing: the server's log says where",
            ErrorKind::Closed => "ERR storage: it is being closed, try again",
            ErrorKind::Invalid | ErrorKind::AlreadyExists => "ERR storage: this cannot be done",
            ErrorKind::Locked | ErrorKind::Device => "ERR storage: the disk failed, the server's log says how",
        })
    }
}

/// Logs the first failures, and then fewer and fewer, because a failing disk fails for every command.
fn tell(error: &weir_io::Error) {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let count = TOLD.fetch_add(1, Ordering::Relaxed) + 1;
    if count <= 16 || count.is_power_of_two() {
        tracing::warn!(%error, count, "a command failed");
    } else {
        tracing::debug!(%error, count, "a command failed");
    }
}

/// The node has no units for the command in time: the command did nothing.
impl From<weir_admission::NodeBusy> for Error {
    fn from(busy: weir_admission::NodeBusy) -> Self {
        Self::bytes(format!("THROTTLED {busy}").into_bytes())
    }
}

/// The tenant is above its limits, and gets no units in time: the command did nothing.
impl From<weir_admission::Refused> for Error {
    fn from(refused: weir_admission::Refused) -> Self {
        Self::bytes(format!("THROTTLED {refused}").into_bytes())
    }
}

pub const CROSS_SLOT: Error = Error::new("CROSSSLOT Keys in request don't hash to the same slot");
pub const SYNTAX: Error = Error::new("ERR syntax error");
pub const NOT_AN_INTEGER: Error = Error::new("ERR value is not an integer or out of range");
pub const NOT_A_FLOAT: Error = Error::new("ERR value is not a valid float");
pub const WOULD_OVERFLOW: Error = Error::new("ERR increment or decrement would overflow");
pub const DECREMENT_OVERFLOW: Error = Error::new("ERR decrement would overflow");
pub const NOT_A_NUMBER: Error = Error::new("ERR increment would produce NaN or Infinity");
pub const TOO_LONG: Error = Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub const KEY_TOO_LONG: Error = Error::new("ERR key exceeds maximum allowed size (65536 bytes)");
pub const REPLY_TOO_LONG: Error = Error::new("ERR the reply is longer than 32 MB: ask for less at a time");
pub const OFFSET: Error = Error::new("ERR offset is out of range");
pub const BIT_OFFSET: Error = Error::new("ERR bit offset is not an integer or out of range");
pub const NO_SUCH_KEY: Error = Error::new("ERR no such key");
pub const WRONG_TYPE: Error = Error::new("WRONGTYPE Operation against a key holding the wrong kind of value");
pub const TOO_MANY_LONG: Error =
    Error::new("TRYAGAIN the tenant's commands have more than 256 MiB of long values in hand");
pub const TOO_MANY_RESULTS: Error =
    Error::new("TRYAGAIN the tenant's commands have more than 256 MiB of results in hand");
pub const INVALID_CURSOR: Error = Error::new("ERR invalid cursor");
pub const OLD_CURSOR: Error = Error::new("ERR invalid cursor: too old or unknown, start the scan again at 0");
pub const DB_INDEX: Error = Error::new("ERR DB index is out of range");
pub const NO_PROTO: Error = Error::new("NOPROTO unsupported protocol version");
pub const NO_AUTH: Error = Error::new("NOAUTH Authentication required.");
pub const NO_AUTH_HELLO: Error = Error::new(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
     can be used to authenticate the client and select the RESP protocol version at the same time",
);
pub const NO_SUCH_TENANT: Error = Error::new("NOPERM this tenant does not exist any more");
pub const WRONG_PASS: Error = Error::new("WRONGPASS invalid username-password pair or user is disabled.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_failed_and_not_where() {
        for kind in
            [ErrorKind::NoSpace, ErrorKind::Corruption, ErrorKind::Closed, ErrorKind::Invalid, ErrorKind::Device]
        {
            let text = Error::from(weir_io::Error::new(kind, "sync", "/srv/weir/part-7/log", "EIO").at(4096));
            let text = String::from_utf8_lossy(text.text()).into_owned();
            assert!(text.starts_with("ERR ") || text.starts_with("MISCONF "), "{text}");
            assert!(!text.contains('/') && !text.contains("4096") && !text.contains("EIO"), "{text}");
        }
    }

    #[test]
    fn an_error_has_one_code_and_is_not_longer_than_anybody_reads() {
        for (text, expected) in [
            ("Connection reset by peer", "ERR Connection reset by peer"),
            ("-ERR twice", "ERR -ERR twice"),
            ("ERR once", "ERR once"),
            ("THROTTLED later", "THROTTLED later"),
            ("ERR", "ERR ERR"),
            ("", "ERR "),
        ] {
            assert_eq!(Error::bytes(text.into()).text(), expected.as_bytes());
        }
        assert!(Error::bytes([b"ERR ", &vec![b'x'; 1 << 20][..]].concat()).text().len() <= TEXT_BYTES_MAX + 4);
    }

    #[test]
    fn options_are_shown_as_c_prints_them() {
        for (word, shown) in
            [(&b"x\r\n"[..], &b"x"[..]), (b"a\0b", b"a"), (b"a\rb\n\n", b"a\rb"), (b"\n", b""), (b"", b"")]
        {
            assert_eq!(Error::unsupported_option(word).text(), [b"ERR Unsupported option ", shown].concat());
        }
    }
}
