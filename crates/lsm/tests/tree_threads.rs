//! One writer and one reader on threads of their own: no read sees half of a batch.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

const BATCHES: u64 = 3_000;
/// Keys between the first and the last of a batch: the longer it takes to apply, the likelier a reader comes in
/// between.
const FILLERS: u64 = 50;

fn newest(tree: &Tree, key: &[u8]) -> u64 {
    match tree.get_latest(key) {
        Lookup::Ready(Some(Ok(found))) => {
            found.map_or(0, |found| u64::from_le_bytes(found.value[..].try_into().expect("eight bytes")))
        }
        _ => panic!("everything is in memory"),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is about threads is tested with threads")]
fn a_reader_of_the_newest_version_never_sees_half_a_batch() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let (dir, owner) = (PathBuf::from("/tree"), Owner { tenant: 1, partition: 1 });
    let env =
        Env { fs, dir, owner, cache: BlockCache::new(0, 1), clock: sim.clock(), memory: Arc::new(Unbooked), salt: 7 };
    let tree = sim.block_on(Tree::open(env, TreeOptions::default())).expect("open");
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 1..=BATCHES {
                let value = number.to_le_bytes();
                let mut batch = Batch::new();
                batch.put(b"first", &value);
                (0..FILLERS).for_each(|filler| batch.put(&filler.to_le_bytes(), &value));
                batch.put(b"last", &value);
                tree.apply(number, batch.as_ref());
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let first = newest(&tree, b"first");
            let last = newest(&tree, b"last");
            assert!(last >= first, "batch {first} was seen without its last key, which was of batch {last}");
        }
    });
    assert_eq!(newest(&tree, b"last"), BATCHES);
}
