//! The table of which clients may have values of which keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::drop_in_turns::drop_in_turns;
use crate::tenant::byte_limit::ByteLimit;

/// How many keys are remembered, unless a tenant sets another number. The same as in Redis.
const KEYS_MAX: usize = 1_000_000;

/// Bytes that the table may take, whatever number of keys is set.
const BYTES_MAX: usize = 64 << 20;

/// Bytes that a key takes besides its own: a place in a tree, and a set of clients.
const KEY_BYTES: usize = 96;

/// Bytes that a client takes in a key's set.
const CLIENT_BYTES: usize = 24;

/// Keys, and the clients that may have values of them.
pub(super) struct Table {
    keys: BTreeMap<Box<[u8]>, BTreeSet<u64>>,
    /// The number of clients of all keys together.
    items: usize,
    bytes: usize,
    /// Bytes of keys that were forgotten all at once, and whose memory is still being given back.
    forgotten: Arc<ByteLimit>,
    pub(super) keys_max: usize,
    /// The key that was evicted last. The next one to be evicted is the one after it.
    evicted: Box<[u8]>,
}

impl Default for Table {
    fn default() -> Self {
        let forgotten = ByteLimit::new(BYTES_MAX as u64);
        Self { keys: BTreeMap::new(), items: 0, bytes: 0, forgotten, keys_max: KEYS_MAX, evicted: Box::default() }
    }
}

impl Table {
    /// Notes that `client` may have a value of `key`.
    pub(super) fn remember(&mut self, key: &[u8], client: u64) {
        let clients = match self.keys.get_mut(key) {
            Some(clients) => clients,
            None => {
                self.bytes += key.len() + KEY_BYTES;
                self.keys.entry(key.into()).or_default()
            }
        };
        if clients.insert(client) {
            self.items += 1;
            self.bytes += CLIENT_BYTES;
        }
    }

    /// Forgets `key`, and returns the clients that had a value of it.
    pub(super) fn forget(&mut self, key: &[u8]) -> Option<BTreeSet<u64>> {
        let clients = self.keys.remove(key)?;
        self.items -= clients.len();
        self.bytes -= key.len() + KEY_BYTES + clients.len() * CLIENT_BYTES;
        Some(clients)
    }

    /// Evicts a key if there are too many.
    pub(super) fn evict(&mut self) -> Option<(Box<[u8]>, BTreeSet<u64>)> {
        let bytes = self.bytes + self.forgotten.bytes() as usize;
        let is_full = (self.keys_max > 0 && self.keys.len() > self.keys_max) || bytes > BYTES_MAX;
        if !is_full {
            return None;
        }
        let behind = self.keys.range::<[u8], _>((Bound::Excluded(&self.evicted[..]), Bound::Unbounded)).next();
        let key = behind.or(self.keys.first_key_value())?.0.clone();
        let clients = self.forget(&key)?;
        self.evicted = key.clone();
        Some((key, clients))
    }

    /// Forgets all keys. Their memory is given back in turns, and counts until then.
    pub(super) fn clear(&mut self) {
        let booked = self.forgotten.hold(std::mem::take(&mut self.bytes) as u64);
        drop_in_turns(std::mem::take(&mut self.keys).into_iter(), booked);
        self.items = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn items(&self) -> usize {
        self.items
    }
}
