//! Decisions of others about a partition's space: those of the tenant's limit, and of the node's write memory.

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
    /// From now on the partition's memtables may be flushed for others' sake.
    pub(super) fn join_write_memory(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.memory.register(this, self.owner);
    }

    /// Space is as short as `urgency` says. If `seals`, everything that is only in memory must go to tables.
    pub(crate) fn mind_space(self: &Arc<Self>, urgency: Urgency, seals: bool) {
        let is_new = self.engine.urgency() != urgency;
        self.engine.set_urgency(urgency);
        if seals && self.engine.has_unsealed() {
            self.seal();
        } else if is_new || urgency == Urgency::Full {
            self.kick();
        }
    }

    /// Whether its jobs are giving dead bytes back, or are about to. Not if they fail.
    pub(crate) fn is_giving_back(&self) -> bool {
        !self.is_closing() && self.job_failure.lock().is_none() && self.engine.is_reclaiming()
    }
}
