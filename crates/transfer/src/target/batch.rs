//! Requests of one database that travel together.

use crate::resp::Requests;

/// Requests, and whose they are. To send all of them again from any of them on, in order, has the same outcome as to
/// send them once: what else would be done twice is put so that it is not ([`super::push_part`]).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The database.
    pub database: u8,
    /// What is asked for.
    pub requests: Requests,
    /// For each request: which of `keys` it is of.
    pub owners: Vec<u32>,
    /// Names of keys.
    pub keys: Vec<Vec<u8>>,
    /// Which of `keys` are all asked for with this batch.
    pub finished: Vec<u32>,
    /// Bytes of names and values in it.
    pub bytes: usize,
}

impl Batch {
    /// What is pushed next is of `key`.
    pub fn begin(&mut self, key: &[u8]) {
        if self.keys.last().is_none_or(|last| last != key) {
            self.keys.push(key.to_vec());
        }
    }

    /// Appends a request of the key that was begun.
    pub fn push<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.bytes += words.iter().map(|word| word.as_ref().len() + 16).sum::<usize>();
        self.requests.push(words);
        self.owners.push(self.current());
    }

    /// Whether the target need not know of it.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.finished.is_empty()
    }

    /// All requests of the key that was begun last are pushed.
    pub fn finish(&mut self) {
        self.finished.push(self.current());
    }

    fn current(&self) -> u32 {
        u32::try_from(self.keys.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The key that the request of this number is of.
    pub fn key_of(&self, request: usize) -> &[u8] {
        let owner = self.owners.get(request).and_then(|&owner| self.keys.get(owner as usize));
        owner.map_or(&[], Vec::as_slice)
    }
}
