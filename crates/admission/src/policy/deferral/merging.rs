//! Nothing is put off, but memtables wait for one another: a RocksDB that is set up so that fewer and larger runs come
//! into level 0 (`min_write_buffer_number_to_merge`), and has the memtables for it (`max_write_buffer_number`).

use weir_io::Owner;

use super::{DeferralPolicy, Never};
use crate::policy::knobs::Knobs;
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// Memtables that a flush waits for.
const MERGED: u64 = 4;
/// Memtables, the active one included.
const BUFFERS: u64 = 12;

/// See the module.
pub struct Merging;

impl DeferralPolicy for Merging {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        for knob in &mut knobs.partitions {
            (knob.flush_gather, knob.write_buffers) = (MERGED, knob.write_buffers.max(BUFFERS));
        }
        Never.decide(sample, loads, knobs);
    }

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}
