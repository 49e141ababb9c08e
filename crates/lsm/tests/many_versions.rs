//! Keys that were written to again and again: scans meet all their versions, but answer like a map, and do not step
//! over each version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Rng, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::engine::*;
use weir_model::{Batch, Change};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

struct Written {
    sim: Sim,
    tree: Arc<Tree>,
    map: Map,
    batches: u64,
}

impl Written {
    fn new() -> Self {
        let sim = Sim::new(1);
        let device = DeviceSpec { latency: 50_000, ..DeviceSpec::instant() };
        let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
        let env = Env {
            fs: fs as Arc<dyn Fs>,
            dir: PathBuf::from("/tree"),
            owner: Owner { tenant: 1, partition: 1 },
            cache: BlockCache::new(0, 2),
            clock: sim.clock(),
            memory: Arc::new(Unbooked),
            salt: 7,
        };
        let options = TreeOptions { block_bytes: 128, ..TreeOptions::default() };
        let tree = sim.block_on(Tree::open(env, options)).expect("the tree opens");
        sim.block_on(tree.discard_unnamed()).expect("there is no log");
        Self { sim, tree, map: Map::new(), batches: 0 }
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mut batch = Batch::new();
        match value {
            Some(value) => {
                batch.push(Change::Put { key, value, expire_at_ms: None });
                self.map.insert(key.to_vec(), value.to_vec());
            }
            None => {
                batch.delete(key);
                self.map.remove(key);
            }
        }
        self.batches += 1;
        let applied = self.tree.apply(self.batches, batch.as_ref());
        self.tree.publish(applied.last_seq);
    }

    /// All that a full scan shows, and what it has passed.
    fn scan(&self, reverse: bool, snapshot: Option<&Snapshot>) -> (Pairs, Passed) {
        let mut scan = self.tree.scan(Range { reverse, ..Range::all() }, snapshot);
        self.sim.block_on(async {
            let mut found = Vec::new();
            while let Some(entry) = scan.next().await.expect("no faults") {
                found.push((entry.key.to_vec(), entry.value.to_vec()));
            }
            if reverse {
                found.reverse();
            }
            (found, scan.passed())
        })
    }
}

fn listed(map: &Map) -> Pairs {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn scans_answer_like_a_map_however_many_versions_there_are() {
    let (mut written, mut rng) = (Written::new(), Rng::new(7));
    let mut snapshots: Vec<(Snapshot, Map)> = Vec::new();
    for step in 0..3_000_u64 {
        let key = format!("k{}", rng.below(5) * rng.below(2));
        let value = step.to_string().into_bytes();
        written.change(key.as_bytes(), Some(&value[..]).filter(|_| !rng.chance(0.1)));
        if rng.chance(0.02) {
            snapshots.push((written.tree.snapshot(), written.map.clone()));
        }
        if rng.chance(0.005) {
            written.tree.seal();
            while let Some(job) = written.tree.next_flush().or_else(|| written.tree.next_compaction()) {
                written.sim.block_on(job.run()).expect("no faults");
            }
        }
        if step % 50 == 0 {
            for reverse in [false, true] {
                assert_eq!(written.scan(reverse, None).0, listed(&written.map), "step {step}, reverse: {reverse}");
                for (snapshot, map) in &snapshots {
                    assert_eq!(written.scan(reverse, Some(snapshot)).0, listed(map), "step {step}, {reverse}");
                }
            }
        }
        if snapshots.len() > 4 {
            snapshots.swap_remove(rng.below(5) as usize);
        }
    }
}

#[test]
fn scans_do_not_step_over_every_version() {
    let mut written = Written::new();
    for number in 0..10_000_u64 {
        written.change(b"hot", Some(&number.to_be_bytes()));
    }
    written.change(b"a", Some(b"1"));
    written.change(b"z", Some(b"1"));
    for reverse in [false, true] {
        let (found, passed) = written.scan(reverse, None);
        assert_eq!(found, listed(&written.map));
        assert!(passed.bytes < 300, "{passed:?}, reverse: {reverse}");
        assert!((4..20).contains(&passed.entries), "{passed:?}, reverse: {reverse}");
    }
}
