//! What the gateway asks of the data behind it.
//!
//! One small trait, so that the protocol can be tested against a map in memory and served from a partition.

mod key;
mod tenant;

use std::future::{Future, ready};
use std::ops::Deref;
use std::sync::Arc;

use weir_io::{Error, ErrorKind, Result};
use weir_model::Batch;
use weir_node::Quota;

pub use tenant::{Commits, TenantStore};

/// A value and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<V> {
    /// The bytes.
    pub value: V,
    /// First millisecond since 1970 at which the key no longer exists; `None` = it stays.
    pub expire_at_ms: Option<u64>,
}

/// One step of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys in ascending order, all of them alive.
    pub keys: Vec<Vec<u8>>,
    /// Where to go on: the first key not looked at; `None` when the end was reached.
    pub next: Option<Vec<u8>>,
    /// Bytes of keys and values that were passed for it: about what was read.
    pub passed_bytes: u64,
}

/// An entry on its way to another database of the same tenant.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// Whose entry.
    pub key: &'a [u8],
    /// The number of the other database.
    pub database: u8,
    /// Its key there.
    pub to: &'a [u8],
    /// Whether what is there already is replaced. Else it stays, and nothing is done.
    pub replace: bool,
    /// Whether the entry is taken away from here.
    pub moved: bool,
}

/// Keys and values with expiry. Reads see every write whose `write` or `update` has returned, and never an expired
/// entry. Every call may wait, and none holds a thread while it does.
///
/// A store is a handle on one database of one tenant: cheap to clone, and all clones see the same data.
pub trait Store: Clone + Send + Sync + 'static {
    /// A value's bytes, shared with the store where that saves a copy.
    type Value: Deref<Target = [u8]> + Send + Sync + 'static;

    /// Resolves when a write has what the sync mode promises. Errors mean that it may be lost: do not acknowledge.
    type Commit: Future<Output = Result<()>> + Send + Unpin;

    /// The entry of `key`.
    fn get(&self, key: &[u8]) -> impl Future<Output = Result<Option<Entry<Self::Value>>>> + Send;

    /// Keys that will be read one after the other, each by a [`Store::get`]: what that can be made ready for, is. Nothing but time depends on it.
    fn foresee(&self, _keys: &[&[u8]]) {}

    /// Applies `batch` as one; the changes are visible to all when this returns.
    fn write(&self, batch: &Batch) -> impl Future<Output = Result<Self::Commit>> + Send;

    /// Reads `keys`, lets `change` decide on their entries (in the same order) and applies the batch it fills, with
    /// no other write to these keys in between. `None` where the batch was left empty.
    fn update<R: Send>(
        &self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<Self::Value>>], &mut Batch) -> R + Send,
    ) -> impl Future<Output = Result<(R, Option<Self::Commit>)>> + Send;

    /// Carries an entry to another database, as one. Gives the length of its value; `None` where nothing was done.
    ///
    /// # Errors
    /// A store with one database refuses.
    fn transfer(
        &self,
        _transfer: Transfer<'_>,
    ) -> impl Future<Output = Result<(Option<usize>, Option<Self::Commit>)>> + Send {
        ready(Err(Error::new(ErrorKind::Invalid, "carry to", "another database", "there is none")))
    }

    /// Up to `limit` keys from `from` on; a bounded piece of work, which may find nothing and still have a next place.
    fn scan(&self, from: &[u8], limit: usize) -> impl Future<Output = Result<Page>> + Send;

    /// The bytes that the tenant may hold on disk, if it holds them: what stores more is to be refused.
    fn disk_limit_reached(&self) -> Option<u64> {
        None
    }

    /// Waits while the limit is reached and space is being given back, a bounded time.
    ///
    /// # Errors
    /// The limit: there is no room.
    fn room_on_disk(&self) -> impl Future<Output = std::result::Result<(), u64>> + Send {
        ready(self.disk_limit_reached().map_or(Ok(()), Err))
    }

    /// Empties all databases of the tenant at once: what was written before is gone, what is written after stays, and everything
    /// that was being written is one or the other. `false` where that cannot be done, and nothing was.
    fn clear(&self) -> impl Future<Output = Result<bool>> + Send {
        ready(Ok(false))
    }

    /// Where a scan finds `key`, or what is behind it.
    fn place(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    /// The same tenant's database `number`, if there is one.
    fn database(&self, number: u8) -> Option<Self> {
        (number == 0).then(|| self.clone())
    }

    /// The capacity units that pay for what is asked here. The store itself charges nothing: commands do, before they
    /// run ([`crate::resp`]). `None` if nobody counts.
    fn quota(&self) -> Option<&Arc<Quota>> {
        None
    }

    /// The partition that has `key`, as the quota counts them.
    fn partition_of(&self, _key: &[u8]) -> u32 {
        0
    }

    /// What batches for [`Store::write`] put in front of every key ([`Batch::restart`]); a batch without it costs a copy.
    fn key_prefix(&self) -> Option<u8> {
        None
    }

    /// Whether keys of different hash slots may be in different partitions: commands on several keys must then stay in one slot.
    fn is_spread(&self) -> bool {
        false
    }

    /// Whether everything is open: going through the keys wakes nothing.
    fn is_awake(&self) -> bool {
        true
    }

    /// Facts for `INFO`, as `section`, `name`, `value`.
    fn facts(&self) -> Vec<(&'static str, &'static str, String)>;
}
