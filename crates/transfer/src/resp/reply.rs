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

/// Says when a reply that comes in pieces is whole. However many pieces it has, and however long it is, each of its
/// elements is looked at once.
#[derive(Debug, Default)]
pub struct ReplyEnd {
    /// Bytes of the elements that are whole, and of the heads of arrays that have begun.
    seen: usize,
    /// For each array that has begun, how many of its elements are not whole yet.
    open: Vec<u64>,
}

impl ReplyEnd {
    /// Whether the reply that `bytes` begin with is whole. If it is not, more bytes are to be appended to the same ones
    /// before the next call; if it is, the next call is about another reply.
    ///
    /// # Errors
    /// `bytes` do not begin with a reply.
    pub fn is_whole(&mut self, bytes: &[u8]) -> Result<bool> {
        loop {
            let mut rest = &bytes[self.seen..];
            let Some(elements) = take_element(&mut rest, self.open.len())? else { return Ok(false) };
            self.seen = bytes.len() - rest.len();
            if elements > 0 {
                self.open.push(elements);
                continue;
            }
            // An array ends with its last element, and may be the last one of another array.
            while let Some(left) = self.open.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                self.open.pop();
            }
            if self.open.is_empty() {
                *self = Self::default();
                return Ok(true);
            }
        }
    }
}

/// Takes a reply that is no array, or the head of an array, from the front of `rest`. Gives how many elements the array
/// has; `None` if it is not whole yet.
fn take_element(rest: &mut &[u8], depth: usize) -> Result<Option<u64>> {
    let Some(line) = take_line(rest)? else { return Ok(None) };
    let (&kind, text) = line.split_first().ok_or_else(malformed)?;
    match kind {
        b'+' | b'-' | b':' => Ok(Some(0)),
        b'$' => match u64::try_from(number(text)?) {
            Ok(len) => Ok(take_bulk(rest, len)?.map(|_| 0)),
            Err(_) => Ok(Some(0)),
        },
        b'*' => match u64::try_from(number(text)?) {
            Ok(_) if depth >= DEPTH_MAX as usize => Err(malformed()),
            Ok(len) => Ok(Some(len)),
            Err(_) => Ok(Some(0)),
        },
        _ => Err(malformed()),
    }
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

    #[test]
    fn an_end_is_found_without_looking_at_a_whole_element_again() {
        const LONGEST: &[u8] = b"$5\r\na\r\nb\r\r\n";
        let bytes = [b"*3\r\n".as_slice(), LONGEST, b"*2\r\n:-7\r\n*0\r\n$-1\r\n+OK\r\n"].concat();
        let first = bytes.len() - b"+OK\r\n".len();
        let mut end = ReplyEnd::default();
        for len in 0..first {
            assert!(!end.is_whole(&bytes[..len]).expect("so far it is one"), "{len}");
            assert!(len - end.seen < LONGEST.len(), "{len}: only {} are done with", end.seen);
        }
        assert!(end.is_whole(&bytes).expect("one"));
        assert!(!end.is_whole(&bytes[first..bytes.len() - 1]).expect("so far it is one"));
        assert!(end.is_whole(&bytes[first..]).expect("one"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>, kind in "[+:$*-][0-9]{0,3}\r\n") {
            let _ = take_reply(&mut &bytes[..]);
            let bytes = [kind.as_bytes(), &bytes].concat();
            if let Ok(taken) = take_reply(&mut &bytes[..]) {
                prop_assert_eq!(ReplyEnd::default().is_whole(&bytes).ok(), Some(taken.is_some()));
            }
        }
    }
}
