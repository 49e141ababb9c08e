//! What a scenario asks from a contestant: one store for each partition, in one process.

use serde_json::{Map, Value};
use weir_scenario::outcome::Bytes;

use crate::Result;

/// Whether a store would let a write pass at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// At once.
    #[default]
    Free,
    /// Delayed.
    Slow,
    /// The write has to wait until a flush or compaction has ended.
    Stopped,
}

/// A partition at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether writes pass.
    pub flow: Flow,
    /// Runs in level 0.
    pub l0: u16,
    /// Memtables that wait for their flush.
    pub sealed: u16,
    /// Stage of deferral; 0 if there are none.
    pub stage: u8,
    /// Bytes in memtables and in levels 0 and 1, if the store tells.
    pub memory: u64,
}

/// Open stores. Every method may be called from many threads.
pub trait Fleet: Send + Sync {
    /// Name and version.
    fn version(&self) -> String;

    /// The settings that the contestant got, in its own words.
    fn remarks(&self) -> String;

    /// The settings that a result has to state: how often logs are synced, and the like.
    fn params(&self) -> Map<String, Value>;

    /// Stores one pair in the store of `partition` and returns when it is in the kernel.
    fn put(&self, partition: usize, key: &[u8], value: &[u8]) -> Result<()>;

    /// Whether `key` is there.
    fn get(&self, partition: usize, key: &[u8]) -> Result<bool>;

    /// Reads up to `limit` pairs of `partition` from `from` on, and returns how many there were.
    fn scan(&self, partition: usize, from: &[u8], limit: u64) -> Result<u64>;

    /// Flushes, and returns when no level of `partition` wants compaction.
    fn settle(&self, partition: usize) -> Result<()>;

    /// The partition now. One thread asks for it, many times a second.
    fn state(&self, partition: usize) -> State;

    /// The reason for the partition's stage; empty if there are no stages.
    fn why(&self, partition: usize) -> String;

    /// Device bytes by cause so far, of all partitions together; `user` stays 0.
    fn bytes(&self) -> Result<Bytes>;

    /// The same for each partition; `None` if the stores do not tell.
    fn bytes_of_each(&self) -> Option<Vec<Bytes>> {
        None
    }

    /// Files per level of the first partition, such as `L0:1 L1:1 L2:11 L3:91`.
    fn shape(&self) -> String;

    /// Closes in good order.
    fn close(self: Box<Self>) -> Result<()>;
}
