//! Snapshots: reads as of one moment, for as long as somebody holds the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::plant::{Plant, is_planted};

use super::Seq;

/// The sequence numbers that are held, and how often each is.
#[derive(Default)]
pub struct Snapshots(Mutex<BTreeMap<Seq, usize>>);

impl Snapshots {
    /// Every held sequence number, ascending.
    pub fn held(&self) -> Vec<Seq> {
        self.0.lock().keys().copied().collect()
    }

    /// Holds the sequence number that `newest` returns. It is called under the lock, so that no merge can list the
    /// snapshots between the question and the hold.
    pub fn take(self: &Arc<Self>, newest: impl FnOnce() -> Seq) -> Snapshot {
        let mut held = self.0.lock();
        let seq = newest();
        *held.entry(seq).or_default() += 1;
        Snapshot { seq, held: Arc::clone(self) }
    }
}

/// Keeps everything that was visible when it was taken readable until it is dropped.
pub struct Snapshot {
    seq: Seq,
    held: Arc<Snapshots>,
}

impl Snapshot {
    /// Reads at this snapshot see sequence numbers up to this one.
    pub fn seq(&self) -> Seq {
        self.seq + u64::from(is_planted(Plant::SnapshotBound))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut held = self.held.0.lock();
        if let Some(count) = held.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.seq);
            }
        }
    }
}
