//! Replies of a server, read from a connection.

use std::fmt;
use std::io::{BufRead, Error, ErrorKind, Result};

/// The deepest nesting of arrays that is read: the runs ask for nothing deeper.
const DEPTH_MAX: usize = 8;

/// A reply of the server.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status, a number or an error, with its first byte.
    Line(Vec<u8>),
    /// A string; `None` for nil.
    Bulk(Option<Vec<u8>>),
    /// An array; `None` for nil.
    Array(Option<Vec<Reply>>),
}

impl Reply {
    /// Reads the next reply.
    ///
    /// # Errors
    /// The connection has ended, or the bytes are no reply.
    pub fn read(from: &mut impl BufRead) -> Result<Self> {
        Self::read_within(from, DEPTH_MAX)
    }

    fn read_within(from: &mut impl BufRead, depth: usize) -> Result<Self> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        let len = || {
            let text = std::str::from_utf8(line.get(1..).unwrap_or_default()).ok();
            let len = text.and_then(|text| text.parse::<i64>().ok()).ok_or_else(|| malformed(line))?;
            Ok::<_, Error>(usize::try_from(len).ok())
        };
        match line.first() {
            Some(b'+' | b'-' | b':') => Ok(Reply::Line(line.to_vec())),
            Some(b'$') => {
                let Some(len) = len()? else { return Ok(Reply::Bulk(None)) };
                let mut bytes = vec![0; len + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(len);
                Ok(Reply::Bulk(Some(bytes)))
            }
            Some(b'*') if depth > 0 => {
                let Some(len) = len()? else { return Ok(Reply::Array(None)) };
                let elements = (0..len).map(|_| Self::read_within(from, depth - 1));
                Ok(Reply::Array(Some(elements.collect::<Result<_>>()?)))
            }
            _ => Err(malformed(line)),
        }
    }

    /// Its text, if it is a string, a status, a number or an error; empty otherwise.
    pub fn text(&self) -> String {
        match self {
            Reply::Line(line) => String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned(),
            Reply::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Bulk(None) | Reply::Array(_) => String::new(),
        }
    }

    /// The error message, if it is an error.
    pub fn error(&self) -> Option<String> {
        matches!(self, Reply::Line(line) if line.first() == Some(&b'-')).then(|| self.text())
    }

    /// The first error in it, however deep.
    pub fn any_error(&self) -> Option<String> {
        match self {
            Reply::Array(Some(elements)) => elements.iter().find_map(Reply::any_error),
            _ => self.error(),
        }
    }

    /// Its elements; empty if it is no array.
    pub fn elements(&self) -> &[Reply] {
        match self {
            Reply::Array(Some(elements)) => elements,
            _ => &[],
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Line(line) => write!(f, "{}", line.escape_ascii()),
            Reply::Bulk(Some(bytes)) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Bulk(None) => write!(f, "none"),
            Reply::Array(Some(elements)) => f.debug_list().entries(elements).finish(),
            Reply::Array(None) => write!(f, "no array"),
        }
    }
}

fn malformed(line: &[u8]) -> Error {
    Error::other(format!("no reply: {}", line.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_one_after_the_other() {
        let mut bytes = &b"+OK\r\n*3\r\n$2\r\n\r\n\r\n:7\r\n*1\r\n-ERR no\r\n$-1\r\n+half"[..];
        assert_eq!(Reply::read(&mut bytes).expect("a status").text(), "OK");
        let array = Reply::read(&mut bytes).expect("an array");
        assert_eq!(array.elements()[0], Reply::Bulk(Some(b"\r\n".to_vec())));
        assert_eq!((array.elements()[1].text(), array.error()), ("7".to_owned(), None));
        assert_eq!(array.any_error(), Some("ERR no".to_owned()));
        assert_eq!(Reply::read(&mut bytes).expect("none"), Reply::Bulk(None));
        assert!(Reply::read(&mut bytes).is_err(), "it has no end");
    }
}
