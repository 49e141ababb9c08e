//! Only the upper levels are pinned in the cache.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

/// A tree in a simulated directory, with this cache.
fn open(cache: &Arc<BlockCache>, options: TreeOptions) -> (Sim, Arc<Tree>) {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let (dir, owner) = (PathBuf::from("/tree"), Owner { tenant: 1, partition: 1 });
    let env = Env { fs, dir, owner, cache: Arc::clone(cache), clock: sim.clock(), memory: Arc::new(Unbooked), salt: 7 };
    let tree = sim.block_on(Tree::open(env, options)).expect("open");
    (sim, tree)
}

/// Writes 3,000 bytes, as the log's record `number`.
fn put(tree: &Tree, number: u64, key: &[u8]) {
    let mut batch = Batch::new();
    batch.put(key, &[7; 3000]);
    tree.publish(tree.apply(number, batch.as_ref()).last_seq);
}

/// Makes a run of level 0 of what was written.
fn flush(sim: &Sim, tree: &Arc<Tree>) {
    tree.seal();
    sim.block_on(tree.next_flush().expect("a flush is due").run()).expect("flush");
}

#[test]
fn a_table_that_moves_down_is_pinned_no_longer() {
    let cache = BlockCache::new(1 << 20, 1);
    let options = TreeOptions { l0_trigger: 1, level1_bytes: 8 << 10, warm_levels: 0, ..TreeOptions::default() };
    let (sim, tree) = open(&cache, options);
    // Ascending keys: every compaction is a move.
    for number in 1..=20_u64 {
        let key = number.to_be_bytes();
        put(&tree, number, &key);
        flush(&sim, &tree);
        sim.block_on(tree.get(&key, None)).expect("get").expect("it is there");
        assert!(cache.usage().pinned_bytes > 0, "level 0 is pinned");
        while let Some(job) = tree.next_compaction() {
            let report = sim.block_on(job.run()).expect("compaction");
            assert_eq!(report.tables_moved, 1);
        }
    }
    let levels = tree.facts().shape().levels;
    let upper = levels[0].bytes + levels[1].bytes;
    assert!(levels[2].tables > 10);
    assert!(cache.usage().pinned_bytes <= upper, "{:?}, {upper} bytes in the upper levels", cache.usage());
}

/// Blocks that a flush writes are read back without the device, and so are those that a merge makes of them, as long as
/// the cache has room.
#[test]
fn what_is_written_into_the_upper_levels_is_in_the_cache() {
    let cache = BlockCache::new(1 << 20, 1);
    let (sim, tree) = open(&cache, TreeOptions { l0_trigger: 4, ..TreeOptions::default() });
    let key = |number: u64| (number % 7).to_be_bytes();
    let write_four_runs = |first: u64| {
        for number in first..first + 40 {
            put(&tree, number, &key(number));
            if number % 10 == 0 {
                flush(&sim, &tree);
            }
        }
    };
    write_four_runs(1);
    let read_all = || {
        let misses = cache.usage().misses;
        (1..=7).for_each(|number| {
            sim.block_on(tree.get(&key(number), None)).expect("get").expect("it is there");
        });
        cache.usage().misses - misses
    };
    assert_eq!(read_all(), 0, "four runs of level 0");
    let report = sim.block_on(tree.next_compaction().expect("level 0 is full").run()).expect("compaction");
    assert_eq!((report.entries_in, report.entries_out), (28, 7));
    assert_eq!(read_all(), 0, "level 1");
    assert!(cache.usage().bytes < 7 * 5000, "the runs of level 0 are gone: {:?}", cache.usage());
    // U-20: from now on, the blocks of merged tables leave the cache, and the output does not go in.
    assert_eq!(cache.upper_bytes() as u64, cache.usage().warm_bytes + cache.usage().pinned_bytes);
    assert!(cache.usage().warm_bytes > 0);
    tree.set_knobs(TreeKnobs { warm: false, ..tree.knobs() });
    write_four_runs(41);
    sim.block_on(tree.next_compaction().expect("level 0 is full").run()).expect("compaction");
    assert_eq!(cache.usage().warm_bytes, 0);
}

/// Where the cache has room for the blocks that a merge reads or for those that it writes, but not for both, the blocks
/// that it has read make way.
#[test]
fn what_a_merge_has_passed_makes_room_for_what_it_writes() {
    let cache = BlockCache::new(550 << 10, 1);
    let (sim, tree) = open(&cache, TreeOptions { l0_trigger: 4, ..TreeOptions::default() });
    const KEYS: u64 = 100;
    // Each run has every fourth key, so that the merge goes through all of them side by side.
    for number in 1..=KEYS {
        let place = number - 1;
        let key = (place % (KEYS / 4) * 4 + place / (KEYS / 4)).to_be_bytes();
        put(&tree, number, &key);
        if number % (KEYS / 4) == 0 {
            flush(&sim, &tree);
        }
    }
    let missed = || {
        let misses = cache.usage().misses;
        for number in 0..KEYS {
            sim.block_on(tree.get(&number.to_be_bytes(), None)).expect("get").expect("it is there");
        }
        cache.usage().misses - misses
    };
    assert!(cache.usage().bytes > 300 << 10, "{:?}", cache.usage());
    let report = sim.block_on(tree.next_compaction().expect("level 0 is full").run()).expect("compaction");
    assert_eq!((report.entries_out, report.tables_moved), (KEYS, 0));
    assert!(missed() < KEYS / 10, "{:?}", cache.usage());
}
