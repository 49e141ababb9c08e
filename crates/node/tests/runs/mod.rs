//! Runs of level 0 whose merge begins when a test says so.
#![allow(missing_docs, reason = "test support")]

use std::sync::Arc;

use weir_io::sim::Sim;
use weir_io::sleep_until;
use weir_model::Batch;
use weir_node::{Partition, Scope, TreeKnobs};

const RUNS: u8 = 6;
/// The time that a flush takes here, at most.
const FLUSH_NANOS: u64 = 300_000_000;

/// Writes runs that overlap, and lets none of them be merged.
pub async fn gather(sim: &Sim, partition: &Arc<Partition>) {
    let knobs = partition.engine().knobs();
    partition.set_tree_knobs(TreeKnobs { scope: Scope::IntraL0, intra_l0_fan_in: 100, ..knobs });
    for run in 0..RUNS {
        let mut batch = Batch::new();
        batch.put(&[b'a', run], &[7; 100]);
        batch.put(&[b'b', run], &[7; 100]);
        partition.write(&batch).await.expect("no faults").await.expect("no faults");
        partition.seal();
        sleep_until(&sim.clock(), sim.now() + FLUSH_NANOS).await;
    }
    assert_eq!(count(partition), usize::from(RUNS));
}

/// The merge of all runs into level 1 may begin.
pub fn merge(partition: &Arc<Partition>) {
    let knobs = partition.engine().knobs();
    partition.set_tree_knobs(TreeKnobs { scope: Scope::All, ..knobs });
}

/// Waits until a flush or a compaction of the partition has failed.
pub async fn failure(sim: &Sim, partition: &Arc<Partition>) {
    for _ in 0..1_000 {
        if partition.metrics().job_errors > 0 {
            return;
        }
        sleep_until(&sim.clock(), sim.now() + 100_000).await;
    }
    panic!("nothing has failed");
}

/// How many runs are in level 0.
pub fn count(partition: &Partition) -> usize {
    partition.metrics().engine.shape().levels[0].tables
}
