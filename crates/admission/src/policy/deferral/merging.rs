//! Nothing is put off, but there are more memtables (RocksDB's `max_write_buffer_number`, CR-16). They may wait for one
//! another, so that fewer and larger runs come into level 0 (`min_write_buffer_number_to_merge`).

use weir_io::Owner;

use super::{DeferralPolicy, Never};
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// Memtables allowed, the active one included.
const BUFFERS: u64 = 12;

/// Lets a flush wait for several memtables.
pub struct Merging {
    /// How many memtables a flush waits for.
    pub memtables: u64,
}

impl DeferralPolicy for Merging {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        for knob in &mut knobs.partitions {
            (knob.flush_gather, knob.write_buffers) = (self.memtables, knob.write_buffers.max(BUFFERS));
        }
        Never.decide(sample, loads, knobs);
    }

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}
