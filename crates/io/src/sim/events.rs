//! The log of a run: a hash always, the events themselves on demand.

use super::counters::OpKind;
use super::hash::Fold;
use crate::{Nanos, Tag};

/// One operation on the simulated disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was submitted.
    pub submitted: Nanos,
    /// When it is complete.
    pub done_at: Nanos,
    /// The kind of the operation.
    pub kind: OpKind,
    /// Who asked for it, and why.
    pub tag: Tag,
    /// The path given; for a file, the path it was opened with.
    pub path: String,
    /// Byte offset; 0 where there is none.
    pub offset: u64,
    /// Bytes asked for, or the new length.
    pub len: u64,
    /// Whether it went well.
    pub ok: bool,
}

pub(super) struct EventLog {
    hash: Fold,
    recorded: Option<Vec<Event>>,
}

impl EventLog {
    pub(super) fn new() -> Self {
        Self { hash: Fold::new(), recorded: None }
    }

    /// `path_hash` is the hash of the path, which an open file knows.
    pub(super) fn add(&mut self, path_hash: u64, event: impl FnOnce() -> Event, numbers: [u64; 5]) {
        let hash = self.hash.add(path_hash);
        for number in numbers {
            hash.add(number);
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push(event());
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.value()
    }

    pub(super) fn record(&mut self) {
        self.recorded.get_or_insert_default();
    }

    pub(super) fn take(&mut self) -> Vec<Event> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
