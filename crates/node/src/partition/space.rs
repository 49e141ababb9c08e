//! What others decide about a partition's space: the tenant's limit, and the node's write memory.

use std::sync::Arc;

use weir_io::Owner;
use weir_model::engine::{UnflushedMemory, Urgency};

use super::Partition;
use crate::memory::MemtableOwner;

impl MemtableOwner for Partition {
    fn owner(&self) -> Owner {
        self.owner
    }

    fn memtable_bytes(&self) -> UnflushedMemory {
        self.engine.unflushed_memory()
    }

    fn seal_memtables(self: Arc<Self>) {
        self.seal();
    }
}

impl Partition {
    /// From now on its memtables may be flushed for others' sake.
    pub(super) fn join_write_memory(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.memory.register(this, self.owner);
    }

    /// Space is as short as `urgency` says; what is only in memory is to go to tables if `seals`.
    pub(crate) fn mind_space(self: &Arc<Self>, urgency: Urgency, seals: bool) {
        let is_new = self.engine.urgency() != urgency;
        self.engine.set_urgency(urgency);
        if seals && self.engine.has_unsealed() {
            self.seal();
        } else if is_new || urgency == Urgency::Full {
            self.kick();
        }
    }

    /// Whether its jobs are giving dead bytes back, or are about to. Not where they fail.
    pub(crate) fn is_giving_back(&self) -> bool {
        !self.is_closing() && self.job_failure.lock().is_none() && self.engine.is_reclaiming()
    }
}
