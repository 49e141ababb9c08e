//! What is believed about a node's directory: its tenants, and the contents that each partition must have.

use std::collections::{BTreeMap, BTreeSet};

use weir_io::Nanos;
use weir_log::SyncMode;
use weir_model::{Batch, Change, LogIndex, TenantName};

use crate::model::{KeyValues, Model};
use crate::node_store::SYNC_EVERY;

/// How the last process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// In good order.
    Closed,
    /// Killed: everything that the kernel had is there.
    Killed,
    /// Together with the machine.
    PowerCut,
}

impl Stop {
    /// Its name, as a table shows it.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Closed => "closed",
            Stop::Killed => "killed",
            Stop::PowerCut => "power cut",
        }
    }
}

/// Whatever was acknowledged at least this long before the end, in nanoseconds, is known to be durable by the files
/// themselves: damage to it must be told from a torn tail. (In mode `none` only what is in tables is known to be
/// durable.) An anchor is written every fourth round of the control loop, and a round takes ten sync intervals.
pub const KNOWN_DURABLE_AFTER: Nanos = 5 * 10 * SYNC_EVERY;

/// A partition as its tenant believes it to be.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Its number, which says where its files are.
    pub number: u32,
    /// What was sent to it.
    pub model: Model,
    /// The log index before the first batch that `model` has as sent. `None` before it is used in the present life.
    pub base: Option<LogIndex>,
    /// How many batches were acknowledged, and when.
    acks: Vec<(usize, Nanos)>,
    /// Every key ever written, with all values that it ever had.
    pub keys: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// The states that a reader may find, the one of the untouched directory last.
    pub accepted: Vec<KeyValues>,
}

impl Shard {
    /// Partition `number`, empty.
    pub fn new(number: u32) -> Self {
        let (model, acks, keys) = (Model::default(), Vec::new(), BTreeMap::new());
        Self { number, model, base: None, acks, keys, accepted: Vec::new() }
    }

    /// The partition as a restore makes it, under `number`.
    pub fn restored(&self, number: u32) -> Self {
        let mut model = self.model.clone();
        model.settle_at_present();
        Self { model, keys: self.keys.clone(), ..Self::new(number) }
    }

    /// Notes a batch that is sent.
    pub fn send(&mut self, batch: Batch) {
        for change in batch.as_ref().iter() {
            let values = self.keys.entry(change.key().to_vec()).or_default();
            if let Change::Put { value, .. } = change {
                values.insert(value.to_vec());
            }
        }
        self.model.send(batch);
    }

    /// Notes that all batches sent so far are acknowledged.
    pub fn acknowledge(&mut self, now: Nanos) {
        self.acks.push((self.model.sent(), now));
    }

    /// How many batches must be there in an untouched directory.
    pub fn promised(&self, sync: SyncMode, stop: Stop, now: Nanos) -> usize {
        let within = match (stop, sync) {
            (Stop::Closed, _) | (Stop::Killed, SyncMode::Always | SyncMode::Interval) => 0,
            (Stop::PowerCut, SyncMode::Always) => 0,
            // A sync that was under way when the acknowledgement came does not cover it. The next one does, and takes
            // its time.
            (Stop::PowerCut, SyncMode::Interval) => 2 * SYNC_EVERY + 50_000_000,
            (Stop::Killed | Stop::PowerCut, SyncMode::None) => return 0,
        };
        self.acknowledged(within, now)
    }

    /// How many batches must be there, or their loss be reported, whatever happened to one file. `persisted` is the
    /// last record in tables.
    pub fn known_durable(&self, sync: SyncMode, stop: Stop, now: Nanos, persisted: LogIndex) -> usize {
        let in_tables = || persisted.saturating_sub(self.base.unwrap_or(persisted)) as usize;
        let known = match (stop, sync) {
            (Stop::Closed, _) => self.model.sent(),
            (_, SyncMode::None) => in_tables(),
            _ => self.acknowledged(KNOWN_DURABLE_AFTER, now),
        };
        known.min(self.model.sent())
    }

    /// How many batches had been acknowledged for at least `age` at `now`.
    fn acknowledged(&self, age: Nanos, now: Nanos) -> usize {
        let due = self.acks.iter().filter(|(_, at)| at + age <= now);
        due.map(|(batches, _)| *batches).max().unwrap_or(0)
    }

    /// Begins a new life: the process has ended, and what it left has been looked at.
    pub fn new_life(&mut self) {
        (self.base, self.acks) = (None, Vec::new());
    }
}

/// A tenant as it must be.
#[derive(Clone, Debug)]
pub struct Belief {
    /// Its name.
    pub name: TenantName,
    /// A setting that is changed now and then, so that an older catalogue shows an older value.
    pub disk_bytes_max: u64,
    /// Its partitions, in order.
    pub shards: Vec<Shard>,
    /// Whether clients use the tenant. (A tenant that nobody ever used has no files.)
    pub used: bool,
}
