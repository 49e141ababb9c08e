//! Nothing is put off, but there are more memtables (`max_write_buffer_number` of a RocksDB, CR-16), which may wait for
//! one another, so that fewer and larger runs come into level 0 (`min_write_buffer_number_to_merge`).

use weir_io::Owner;

use super::{DeferralPolicy, Never};
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// Memtables, the active one included.
const BUFFERS: u64 = 12;

/// See the module.
pub struct Merging {
    /// Memtables that a flush waits for.
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
