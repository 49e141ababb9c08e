//! Which write says that a snapshot has become due.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::Batch;
use weir_model::engine::Records;

#[test]
fn a_write_that_makes_rows_smaller_says_that_a_snapshot_is_due() {
    let sim = Sim::new(1);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let (owner, budget) = (Owner { tenant: 1, partition: 1 }, Arc::new(Budget::new(1 << 20)));
    let env = Env { fs, dir: PathBuf::from("/store"), owner, clock: sim.clock(), budget, salt: 7 };
    let options = StoreOptions { snapshot_log_bytes: 1_000, ..StoreOptions::default() };
    let store = sim.block_on(Store::open(env, options)).expect("no faults");
    let mut batch = Batch::new();
    batch.put(b"large", &[7; 60_000]);
    // Small rows take more memory than log.
    for number in 0..200_u32 {
        batch.put(&number.to_be_bytes(), b"");
    }
    let applied = store.apply(1, batch.as_ref());
    store.publish(applied.last_seq);
    assert!(!applied.is_job_due, "the rows take more memory than the log has bytes");
    let mut batch = Batch::new();
    batch.put(b"large", b"");
    let applied = store.apply(2, batch.as_ref());
    store.publish(applied.last_seq);
    assert!(applied.is_job_due, "now the log is the longer one");
    let applied = store.apply(3, batch.as_ref());
    store.publish(applied.last_seq);
    assert!(!applied.is_job_due, "it was due before");
}
