//! Requests: those that we send, and those that a master sends its replicas.

use std::ops::Range;

use weir_command::number::push_u64;

use super::{malformed, number, take_bulk, take_line};
use crate::failure::Result;

/// Most words of one request, as in Redis 7.0.
const WORDS_MAX: u64 = i32::MAX as u64;
/// How a request begins that sets a string, and says nothing else.
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n";

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
        let (from, before) = (other.start_of(range.start), self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes[from..other.start_of(range.end)]);
        self.ends.extend(other.ends[range].iter().map(|end| before + end - from));
    }

    /// Appends some requests of `other`. `SET`s without options that follow one another become `MSET`s, each with words
    /// of at most `bytes_max` bytes. Gives, for each request that was appended, the numbers of those that it is made
    /// of.
    pub fn copy_joined(&mut self, other: &Requests, range: Range<usize>, bytes_max: usize) -> Vec<Range<usize>> {
        let mut joined = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (mut end, mut bytes) = (at, 0);
            while end < range.end
                && let Some(words) = other.words_of_set(end)
                && bytes + words.len() <= bytes_max
            {
                (end, bytes) = (end + 1, bytes + words.len());
            }
            if end > at + 1 {
                self.push_line(b'*', 1 + 2 * (end - at));
                self.push_word(b"MSET");
                let sets = (at..end).filter_map(|set| other.words_of_set(set));
                sets.for_each(|words| self.bytes.extend_from_slice(words));
                self.ends.push(self.bytes.len());
            } else {
                end = at + 1;
                self.copy(other, at..end);
            }
            joined.push(at..end);
            at = end;
        }
        joined
    }

    /// The key and the value, as they are sent, of a `SET` without options; `None` if this is another request.
    fn words_of_set(&self, at: usize) -> Option<&[u8]> {
        self.bytes[self.start_of(at)..self.ends[at]].strip_prefix(SET)
    }

    /// Where the request of this number begins, and the one before it ends.
    fn start_of(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |last| self.ends[last])
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
        &self.bytes[self.start_of(skipped)..]
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

    #[test]
    fn sets_that_follow_one_another_are_joined() {
        let mut requests = Requests::default();
        let lines = ["SET a 1", "SET b 22", "DEL c", "SET d 1", "SET e 1 PXAT 5", "SET f 1", "SET g 1", "SET h 1"];
        lines.iter().for_each(|line| requests.push(&line.split(' ').collect::<Vec<_>>()));
        let joined = |range, bytes_max| {
            let mut out = Requests::default();
            out.push(&["PING"]);
            let ranges = out.copy_joined(&requests, range, bytes_max);
            assert_eq!(out.len(), 1 + ranges.len());
            let (mut rest, mut sent) = (out.bytes_from(1), Vec::new());
            while let Some(words) = take_request(&mut rest).expect("requests") {
                sent.push(String::from_utf8_lossy(&words.join(&b' ')).into_owned());
            }
            (sent, ranges)
        };
        let (sent, ranges) = joined(0..8, 1000);
        assert_eq!(sent, ["MSET a 1 b 22", "DEL c", "SET d 1", "SET e 1 PXAT 5", "MSET f 1 g 1 h 1"]);
        assert_eq!(ranges, [0..2, 2..3, 3..4, 4..5, 5..8]);
        // A word of one byte is sent in seven.
        assert_eq!(joined(5..8, 28), (vec!["MSET f 1 g 1".to_owned(), "SET h 1".to_owned()], vec![5..7, 7..8]));
        assert_eq!(joined(5..8, 27).1, [5..6, 6..7, 7..8]);
        assert_eq!(joined(0..2, 0), (vec!["SET a 1".to_owned(), "SET b 22".to_owned()], vec![0..1, 1..2]));
    }

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
