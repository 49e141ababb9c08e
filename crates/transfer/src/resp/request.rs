//! Requests: those that we send, and those that a master sends its replicas.

use std::ops::Range;

use weir_command::number::push_u64;

use super::{malformed, number, take_bulk, take_line};
use crate::failure::Result;

/// Most words of one request, as in Redis 7.0.
const WORDS_MAX: u64 = i32::MAX as u64;

/// Requests, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    bytes: Vec<u8>,
    /// Where each request ends.
    ends: Vec<usize>,
}

impl Requests {
    /// Appends a request.
    pub fn push<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.push_line(b'*', words.len());
        for word in words {
            self.push_word(word.as_ref());
        }
        self.ends.push(self.bytes.len());
    }

    fn push_word(&mut self, word: &[u8]) {
        self.push_line(b'$', word.len());
        self.bytes.extend_from_slice(word);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends a line that says how many there are of what follows.
    fn push_line(&mut self, kind: u8, count: usize) {
        self.bytes.push(kind);
        push_u64(&mut self.bytes, count as u64);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends some requests of `other`.
    pub fn copy(&mut self, other: &Requests, range: Range<usize>) {
        let begin = |at: usize| at.checked_sub(1).map_or(0, |last| other.ends[last]);
        let (from, before) = (begin(range.start), self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes[from..begin(range.end)]);
        self.ends.extend(other.ends[range].iter().map(|end| before + end - from));
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all requests but the first `skipped`.
    pub fn bytes_from(&self, skipped: usize) -> &[u8] {
        let from = skipped.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.bytes[from..]
    }
}

/// Bytes of a request of these words.
pub fn request_len<W: AsRef<[u8]>>(words: &[W]) -> usize {
    // A mark, digits, and the end of the line.
    let line = |number: usize| 1 + number.checked_ilog10().map_or(1, |log| log as usize + 1) + 2;
    let word = |word: &W| line(word.as_ref().len()) + word.as_ref().len() + 2;
    line(words.len()) + words.iter().map(word).sum::<usize>()
}

/// Takes a request from the front of `rest`; `None` if it is not whole yet. An empty line is a request without words:
/// masters send it to show that they live.
///
/// # Errors
/// `rest` does not begin with a request.
pub fn take_request(rest: &mut &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let mut ahead = *rest;
    let Some(line) = take_line(&mut ahead)? else { return Ok(None) };
    let mut words = Vec::new();
    // A request that is not whole yet is looked at again with every piece that comes, so copy nothing before it is
    // whole.
    if let Some(count) = line.strip_prefix(b"*") {
        let count = u64::try_from(number(count)?).ok().filter(|&count| count <= WORDS_MAX).ok_or_else(malformed)?;
        for _ in 0..count {
            let Some(line) = take_line(&mut ahead)? else { return Ok(None) };
            let len = number(line.strip_prefix(b"$").ok_or_else(malformed)?)?;
            let Some(word) = take_bulk(&mut ahead, u64::try_from(len).map_err(|_| malformed())?)? else {
                return Ok(None);
            };
            words.push(word);
        }
    } else if !line.is_empty() {
        words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
    }
    let words = words.into_iter().map(<[u8]>::to_vec).collect();
    *rest = ahead;
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_pushed_is_taken(all in proptest::collection::vec(proptest::collection::vec(any::<Vec<u8>>(), 1..5), 1..5)) {
            let mut requests = Requests::default();
            all.iter().for_each(|words| requests.push(words));
            let bytes = requests.bytes_from(0);
            prop_assert_eq!(bytes.len(), all.iter().map(|words| request_len(words)).sum::<usize>());
            let mut rest = bytes;
            for (at, words) in all.iter().enumerate() {
                prop_assert_eq!(rest, requests.bytes_from(at));
                let taken = take_request(&mut rest).expect("one");
                prop_assert_eq!(taken.as_ref(), Some(words));
            }
            prop_assert!(rest.is_empty());
            for len in 0..bytes.len().min(200) {
                prop_assert!(take_request(&mut &bytes[..len]).is_ok());
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
            let _ = take_request(&mut &bytes[..]);
            let _ = take_request(&mut &[b"*2\r\n$", &bytes[..]].concat()[..]);
        }
    }
}
