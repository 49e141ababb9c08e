//! Compactions leave tables of a useful size.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

#[test]
fn no_compaction_begins_with_a_table_of_one_entry() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let (dir, owner) = (PathBuf::from("/tree"), Owner { tenant: 1, partition: 1 });
    let env =
        Env { fs, dir, owner, cache: BlockCache::new(0, 1), clock: sim.clock(), memory: Arc::new(Unbooked), salt: 7 };
    // Level 3 becomes far longer than ten tables: a job in the middle of the keys has many of its tables before it.
    let options = TreeOptions {
        write_buffer_bytes: 64 << 10,
        level1_bytes: 64 << 10,
        level_factor: 4,
        table_bytes: 16 << 10,
        ..TreeOptions::default()
    };
    let tree = sim.block_on(Tree::open(env, options)).expect("open");
    let mut rng = sim.rng();
    for index in 1..=40_000_u64 {
        let mut batch = Batch::new();
        batch.put(&rng.below(20_000).to_be_bytes(), &[7; 100]);
        tree.publish(tree.apply(index, batch.as_ref()).last_seq);
        while let Some(job) = tree.next_flush().or_else(|| tree.next_compaction()) {
            sim.block_on(job.run()).expect("job");
        }
    }
    let version = tree.version();
    assert!(version.level(3).len() > 30, "level 3 has {} tables", version.level(3).len());
    let tables = version.tables().count();
    let tiny = version.tables().filter(|(level, table)| *level > 0 && table.meta.entries == 1).count();
    assert!(tiny * 50 < tables, "{tiny} of {tables} tables have one entry");
}
