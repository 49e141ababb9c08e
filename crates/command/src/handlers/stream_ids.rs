//! Ids of a stream's entries in a client's words.

use weir_model::parts::stream::EntryId;

use crate::error::{Error, Outcome};
use crate::number::push_u64;
use crate::reply::Replies;

pub const INVALID: Error = Error::new("ERR Invalid stream ID specified as stream command argument");

/// Longer words cannot be ids.
const WORD_BYTES_MAX: usize = 127;

/// How many digits the largest number has.
const NUMBER_BYTES_MAX: usize = 20;

/// The id that `XADD` gives to its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// `*`: an id by the clock.
    ByClock,
    /// `ms-*`: this time, and the next free number.
    InMillisecond(u64),
    /// This id.
    Exact(EntryId),
}

/// An unsigned number as C reads it: leading blanks, a plus and zeros are allowed.
fn number(word: &[u8]) -> Option<u64> {
    let digits = word.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `word` split into time and number; the number is text, and may be missing.
fn split(word: &[u8]) -> Outcome<(u64, Option<&[u8]>)> {
    if word.len() > WORD_BYTES_MAX {
        return Err(INVALID);
    }
    let (ms, seq) = match word.iter().position(|&byte| byte == b'-') {
        Some(dash) => (&word[..dash], Some(&word[dash + 1..])),
        None => (word, None),
    };
    Ok((number(ms).ok_or(INVALID)?, seq))
}

/// The id that `word` gives; `missing` is the number of an id that has only its time.
///
/// # Errors
/// The word is no id.
pub fn exact(word: &[u8], missing: u64) -> Outcome<EntryId> {
    let (ms, seq) = split(word)?;
    let seq = seq.map_or(Ok(missing), |seq| number(seq).ok_or(INVALID))?;
    Ok(EntryId { ms, seq })
}

/// As [`exact`], and `-` is the smallest id, and `+` the largest.
///
/// # Errors
/// As [`exact`].
pub fn any(word: &[u8], missing: u64) -> Outcome<EntryId> {
    match word {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        word => exact(word, missing),
    }
}

/// The id that `XADD` is asked to use.
///
/// # Errors
/// The word is no id.
pub fn new_id(word: &[u8]) -> Outcome<NewId> {
    if word == b"*" {
        return Ok(NewId::ByClock);
    }
    match split(word)? {
        (ms, Some(b"*")) => Ok(NewId::InMillisecond(ms)),
        _ => exact(word, 0).map(NewId::Exact),
    }
}

/// Where a range begins: at this id, or behind it.
///
/// # Errors
/// The word is no id, or nothing is behind it.
pub fn start(word: &[u8]) -> Outcome<EntryId> {
    match word.strip_prefix(b"(") {
        Some(word) => {
            let id = exact(word, 0)?;
            id.next().ok_or(Error::new("ERR invalid start ID for the interval"))
        }
        None => any(word, 0),
    }
}

/// Where a range ends: at this id, or in front of it.
///
/// # Errors
/// The word is no id, or nothing is in front of it.
pub fn end(word: &[u8]) -> Outcome<EntryId> {
    match word.strip_prefix(b"(") {
        Some(word) => {
            let id = exact(word, u64::MAX)?;
            id.previous().ok_or(Error::new("ERR invalid end ID for the interval"))
        }
        None => any(word, u64::MAX),
    }
}

/// Answers with `id`.
pub fn tell(replies: &mut Replies, id: EntryId) {
    let mut text = Vec::with_capacity(2 * NUMBER_BYTES_MAX + 1);
    push_u64(&mut text, id.ms);
    text.push(b'-');
    push_u64(&mut text, id.seq);
    replies.bulk(&text);
}

/// `id` as clients write it.
pub fn text(id: EntryId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ids_as_in_redis() {
        let id = EntryId::new;
        assert_eq!(exact(b"5", 7), Ok(id(5, 7)));
        assert_eq!(exact(b"5-3", 7), Ok(id(5, 3)));
        assert_eq!(exact(b"007-+3", 7), Ok(id(7, 3)));
        assert_eq!(exact(b"18446744073709551615-18446744073709551615", 0), Ok(EntryId::MAX));
        for word in [&b""[..], b"-", b"+", b"x", b"1-", b"-1", b"1--1", b"18446744073709551616", &[b'1'; 128]] {
            assert_eq!(exact(word, 0), Err(INVALID), "{}", word.escape_ascii());
        }
        assert_eq!([any(b"-", 1), any(b"+", 1)], [Ok(EntryId::MIN), Ok(EntryId::MAX)]);
        let new = [&b"*"[..], b"5-*", b"5-1", b"5"].map(new_id);
        let expected = [NewId::ByClock, NewId::InMillisecond(5), NewId::Exact(id(5, 1)), NewId::Exact(id(5, 0))];
        assert_eq!(new, expected.map(Ok));
        assert_eq!([start(b"(5"), end(b"(5-1")], [Ok(id(5, 1)), Ok(id(5, 0))]);
        for id in [EntryId::MIN, id(5, 10), EntryId::MAX] {
            let mut replies = Replies::default();
            tell(&mut replies, id);
            let told = text(id);
            assert_eq!(replies.to_vec(), format!("${}\r\n{told}\r\n", told.len()).into_bytes());
            assert_eq!(exact(told.as_bytes(), 1), Ok(id));
        }
        assert!(end(b"(0-0").is_err() && start(b"(18446744073709551615-18446744073709551615").is_err());
    }
}
