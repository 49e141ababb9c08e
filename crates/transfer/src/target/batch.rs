//! Requests to one database that are sent together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::too_long;
use crate::resp::Requests;

/// Bytes at which a batch is sent.
const BATCH_BYTES: usize = 256 << 10;
/// Requests at which a batch is sent.
const BATCH_REQUESTS: usize = 512;

/// Requests, and the keys that they belong to; those of a key follow one another. To send the requests again in order,
/// from any of them on that is not bound to the one in front of it, has the same outcome as to send them once: requests
/// that would otherwise take effect twice have a form that prevents it ([`super::push_part`]).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The database.
    pub database: u8,
    /// The requests.
    pub requests: Requests,
    /// For each request the key that it belongs to, as an index into `keys`.
    pub owners: Vec<u32>,
    /// The numbers of requests that must not be done twice, unless the request in front of them is done again, too.
    bound: BTreeSet<usize>,
    /// Names of keys.
    pub keys: Vec<Vec<u8>>,
    /// The keys of which this batch has the last request, as indexes into `keys`.
    pub finished: Vec<u32>,
    /// Bytes of names and values in it.
    pub bytes: usize,
    /// Bytes of the longest value that the target takes, if requests that it does not take are left out.
    value_bytes_max: Option<usize>,
    /// The keys of which something was left out, as indexes into `keys`, each with the first reason.
    pub left_out: BTreeMap<u32, String>,
}

impl Batch {
    /// A batch for a target whose longest value has this many bytes: requests that are too long for it are left out.
    pub fn within(value_bytes_max: usize) -> Self {
        Self { value_bytes_max: Some(value_bytes_max), ..Self::default() }
    }

    /// Begins `key`, or goes on with it: the requests that are pushed next belong to it.
    pub fn begin(&mut self, key: &[u8]) {
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_vec());
        }
    }

    /// Appends a request for the key that was begun, or notes why it is left out.
    pub fn push<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        if let Some(reason) = self.value_bytes_max.and_then(|bytes_max| too_long(words, bytes_max)) {
            self.leave_out(reason);
            return;
        }
        self.bytes += words.iter().map(|word| word.as_ref().len() + 16).sum::<usize>();
        self.requests.push(words);
        self.owners.push(self.last());
    }

    /// Appends a request that is harmless to do again if the one in front of it was done again: that undoes it.
    pub fn push_bound<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let at = self.requests.len();
        self.push(words);
        if self.requests.len() > at {
            self.bound.insert(at);
        }
    }

    /// Notes why something of the key that was begun last is not in this batch: the key counts as refused.
    pub fn leave_out(&mut self, reason: String) {
        let last = self.last();
        self.left_out.entry(last).or_insert(reason);
        // The name is kept, though perhaps no request has it.
        self.bytes += self.keys.last().map_or(0, Vec::len);
    }

    /// Why something of the key that was begun last was left out of this batch, if it was.
    pub fn why_left_out(&self) -> Option<&str> {
        self.left_out.get(&self.last()).map(String::as_str)
    }

    /// Whether it is time to send it.
    pub fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.requests.len() >= BATCH_REQUESTS
    }

    /// Whether there is nothing to send or to count.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.finished.is_empty() && self.left_out.is_empty()
    }

    /// Notes that all requests for the key that was begun last have been pushed.
    pub fn finish(&mut self) {
        self.finished.push(self.last());
    }

    /// The key that was begun last, as an index into `keys`.
    pub fn last(&self) -> u32 {
        u32::try_from(self.keys.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// From which request on to send again if the one of number `from`, and those behind it, may have been done.
    pub fn again_from(&self, from: usize) -> usize {
        if self.bound.contains(&from) { from - 1 } else { from }
    }

    /// Where the requests of the key that the request of this number belongs to end.
    pub fn end_of_key(&self, request: usize) -> usize {
        let owner = self.owners[request];
        request + self.owners[request..].iter().take_while(|&&other| other == owner).count()
    }

    /// The requests from number `from` on that may be sent together, at most `most`: several of one key, or one each of
    /// several keys.
    pub fn sent_together(&self, from: usize, most: usize) -> Range<usize> {
        let mut end = self.end_of_key(from);
        if end == from + 1 {
            while end < self.owners.len() && self.end_of_key(end) == end + 1 {
                end += 1;
            }
        }
        from..end.min(from.saturating_add(most))
    }

    /// The name of a key, of which this is the index into `keys`.
    pub fn name(&self, key: u32) -> &[u8] {
        self.keys.get(key as usize).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_key_are_apart_from_those_of_others() {
        let mut batch = Batch::default();
        for (key, count) in [("a", 1), ("b", 1), ("c", 3), ("d", 1), ("c", 1)] {
            batch.begin(key.as_bytes());
            (0..count).for_each(|_| batch.push(&["DEL", key]));
        }
        let together = |from| batch.sent_together(from, usize::MAX);
        assert_eq!([0, 1, 2, 3, 4, 5].map(together), [0..2, 1..2, 2..5, 3..5, 4..7, 5..7]);
        assert_eq!([(0, 1), (2, 2)].map(|(from, most)| batch.sent_together(from, most)), [0..1, 2..4]);
        assert_eq!([0, 2, 3, 4, 6].map(|at| batch.end_of_key(at)), [1, 5, 5, 5, 7]);
        batch.push_bound(&["RPUSH", "c"]);
        assert_eq!([5, 6, 7].map(|at| batch.again_from(at)), [5, 6, 6]);
    }

    #[test]
    fn requests_that_are_too_long_are_left_out() {
        let mut batch = Batch::within(1 << 20);
        let fields = |bytes, count| vec![vec![b'v'; bytes]; count];
        for (key, words, said) in [
            ("long", fields((1 << 20) + 1, 1), Some("1048577 bytes")),
            ("wide", fields(1 << 20, 16), Some("16 words")),
            ("many", fields(1, (1 << 20) + 1), Some("1048577 words")),
            ("fits", fields(1 << 20, 15), None),
            ("all", fields(1, 1 << 20), None),
        ] {
            let (before, bytes) = (batch.requests.len(), batch.bytes);
            batch.begin(key.as_bytes());
            batch.push_bound(&words);
            let why = batch.why_left_out();
            assert_eq!(why.is_some(), said.is_some(), "{key}");
            assert!(why.unwrap_or_default().contains(said.unwrap_or_default()), "{why:?}");
            let is_there = batch.requests.len() > before;
            assert!(batch.bytes > bytes, "its name is kept");
            assert_eq!((is_there, batch.bound.contains(&before)), (said.is_none(), said.is_none()));
        }
    }
}
