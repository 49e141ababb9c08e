//! Replies of version 2 of the protocol.

use super::{malformed, number, take_bulk, take_line};
use crate::failure::Result;

/// How deeply arrays may be nested: a peer that sends more is no Redis.
const DEPTH_MAX: u32 = 8;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Status(Vec<u8>),
    /// `-ERR …`
    Error(String),
    /// `:1`
    Number(i64),
    /// A string, or nil.
    Bulk(Option<Vec<u8>>),
    /// Several replies, or nil.
    Array(Option<Vec<Reply>>),
}

impl Reply {
    /// Its text, if it has one.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Reply::Status(text) | Reply::Bulk(Some(text)) => Some(text),
            _ => None,
        }
    }

    /// Its error message, if it is an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Reply::Error(error) => Some(error),
            _ => None,
        }
    }
}

/// Takes a reply from the front of `rest`; `None` if it is not whole yet.
///
/// # Errors
/// `rest` does not begin with a reply.
pub fn take_reply(rest: &mut &[u8]) -> Result<Option<Reply>> {
    let mut ahead = *rest;
    let reply = take(&mut ahead, 0)?;
    if reply.is_some() {
        *rest = ahead;
    }
    Ok(reply)
}

fn take(rest: &mut &[u8], depth: u32) -> Result<Option<Reply>> {
    let Some(line) = take_line(rest)? else { return Ok(None) };
    let (&kind, text) = line.split_first().ok_or_else(malformed)?;
    Ok(Some(match kind {
        b'+' => Reply::Status(text.to_vec()),
        b'-' => Reply::Error(String::from_utf8_lossy(text).into_owned()),
        b':' => Reply::Number(number(text)?),
        b'$' => match u64::try_from(number(text)?) {
            Err(_) => Reply::Bulk(None),
            Ok(len) => match take_bulk(rest, len)? {
                Some(bulk) => Reply::Bulk(Some(bulk.to_vec())),
                None => return Ok(None),
            },
        },
        b'*' => match u64::try_from(number(text)?) {
            Err(_) => Reply::Array(None),
            Ok(_) if depth >= DEPTH_MAX => return Err(malformed()),
            Ok(len) => {
                // Grows with the replies that are there, never with the number that is announced.
                let mut replies = Vec::new();
                for _ in 0..len {
                    match take(rest, depth + 1)? {
                        Some(reply) => replies.push(reply),
                        None => return Ok(None),
                    }
                }
                Reply::Array(Some(replies))
            }
        },
        _ => return Err(malformed()),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replies_are_taken_when_they_are_whole() {
        let bytes = b"*4\r\n+OK\r\n$3\r\na\r\n\r\n:-7\r\n*1\r\n-ERR no\r\n$-1\r\n";
        for len in 0..bytes.len() {
            let mut rest = &bytes[..len];
            let taken = take_reply(&mut rest).expect("so far it is one");
            assert_eq!(taken.is_some(), len >= bytes.len() - 5, "{len}");
        }
        let mut rest = &bytes[..];
        let expected = Reply::Array(Some(vec![
            Reply::Status(b"OK".to_vec()),
            Reply::Bulk(Some(b"a\r\n".to_vec())),
            Reply::Number(-7),
            Reply::Array(Some(vec![Reply::Error("ERR no".into())])),
        ]));
        assert_eq!(take_reply(&mut rest).expect("one"), Some(expected));
        assert_eq!(take_reply(&mut rest).expect("one"), Some(Reply::Bulk(None)));
        assert!(rest.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>, kind in "[+:$*-][0-9]{0,3}\r\n") {
            let _ = take_reply(&mut &bytes[..]);
            let _ = take_reply(&mut &[kind.as_bytes(), &bytes].concat()[..]);
        }
    }
}
