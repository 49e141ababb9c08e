//! Requests to one database that are sent together.

use std::ops::Range;

use crate::resp::Requests;

/// Requests, and the keys that they belong to; those of a key follow one another. To send the requests again in order,
/// from any of them on, has the same outcome as to send them once: requests that would otherwise take effect twice have
/// a form that prevents it ([`super::push_part`]).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The database.
    pub database: u8,
    /// The requests.
    pub requests: Requests,
    /// For each request the key that it belongs to, as an index into `keys`.
    pub owners: Vec<u32>,
    /// Names of keys.
    pub keys: Vec<Vec<u8>>,
    /// The keys of which this batch has the last request, as indexes into `keys`.
    pub finished: Vec<u32>,
    /// Bytes of names and values in it.
    pub bytes: usize,
}

impl Batch {
    /// Begins `key`: the requests that are pushed next belong to it.
    pub fn begin(&mut self, key: &[u8]) {
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_vec());
        }
    }

    /// Appends a request for the key that was begun.
    pub fn push<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.bytes += words.iter().map(|word| word.as_ref().len() + 16).sum::<usize>();
        self.requests.push(words);
        self.owners.push(self.current());
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.finished.is_empty()
    }

    /// Notes that all requests for the key that was begun last have been pushed.
    pub fn finish(&mut self) {
        self.finished.push(self.current());
    }

    fn current(&self) -> u32 {
        u32::try_from(self.keys.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The requests from number `from` on that belong to the same key.
    pub fn of_same_key(&self, from: usize) -> Range<usize> {
        let owner = self.owners[from];
        from..from + self.owners[from..].iter().take_while(|&&other| other == owner).count()
    }

    /// The requests from number `from` on each of which is the only one of its key.
    pub fn of_single_requests(&self, from: usize) -> Range<usize> {
        let mut end = from;
        while end < self.owners.len() && self.of_same_key(end).len() == 1 {
            end += 1;
        }
        from..end
    }

    /// The key that the request of this number belongs to.
    pub fn key_of(&self, request: usize) -> &[u8] {
        let owner = self.owners.get(request).and_then(|&owner| self.keys.get(owner as usize));
        owner.map_or(&[], Vec::as_slice)
    }
}
