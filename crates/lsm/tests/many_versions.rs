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

    /// All that a forward scan shows, some of it step by step, with stops of the caller and of the budget in between.
    fn shown(&self, snapshot: Option<&Snapshot>, rng: &mut Rng) -> Pairs {
        let mut scan = self.tree.scan(Range::all(), snapshot);
        let mut found = Pairs::new();
        loop {
            if rng.chance(0.3) {
                scan.set_budget(1 + rng.below(4) as usize, u64::MAX);
            }
            let mut left = 1 + rng.below(4);
            let mut see = |entry: Entry<'_>| {
                found.push((entry.key.to_vec(), entry.value.to_vec()));
                left -= 1;
                left > 0
            };
            if rng.chance(0.5) {
                while scan.show(&mut see) == ScanStep::Load {
                    self.sim.block_on(scan.load()).expect("no faults");
                }
                if left == 0 {
                    continue;
                }
            } else if let Some(entry) = self.sim.block_on(scan.next()).expect("no faults") {
                see(entry);
                continue;
            }
            let Some(stopped_at) = scan.stopped_at() else { return found };
            assert!(found.last().is_none_or(|(last, _)| *last < stopped_at), "what was seen is before what is left");
            scan.set_budget(usize::MAX, u64::MAX);
        }
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
        // Until then a single memtable has everything.
        if step > 500 && rng.chance(0.005) {
            written.tree.seal();
            while let Some(job) = written.tree.next_flush().or_else(|| written.tree.next_compaction()) {
                written.sim.block_on(job.run()).expect("no faults");
            }
        }
        if step % 50 == 0 {
            assert_eq!(written.shown(None, &mut rng), listed(&written.map), "step {step}");
            for (snapshot, map) in &snapshots {
                assert_eq!(written.shown(Some(snapshot), &mut rng), listed(map), "step {step}");
            }
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

/// `hot` is written to so often that its versions in the memtable are in several chains, then deleted.
fn deleted_after_many_writes() -> Written {
    let mut written = Written::new();
    for key in ["a", "b", "y", "z"] {
        written.change(key.as_bytes(), Some(b"1"));
    }
    for number in 0..100_u64 {
        written.change(b"hot", Some(&number.to_be_bytes()));
    }
    written.change(b"hot", None);
    written
}

#[test]
fn a_key_that_was_deleted_after_many_writes_is_not_shown() {
    let written = deleted_after_many_writes();
    let mut scan = written.tree.scan(Range::all(), None);
    let mut found = Pairs::new();
    let mut see = |entry: Entry<'_>| {
        found.push((entry.key.to_vec(), entry.value.to_vec()));
        true
    };
    assert_eq!(scan.show(&mut see), ScanStep::Ready);
    assert_eq!(found, listed(&written.map));
}

#[test]
fn a_scan_that_stopped_among_the_versions_of_a_key_goes_on_behind_it() {
    let written = deleted_after_many_writes();
    // `a`, `b`, then the tombstone: the budget ends among the older versions of `hot`, or before `hot`.
    for (budget, stopped_at) in [(2, &b"hot"[..]), (3, b"hot\0"), (4, b"hot\0")] {
        for steps in [false, true] {
            let mut scan = written.tree.scan(Range::all(), None);
            scan.set_budget(budget, u64::MAX);
            let mut found = Vec::new();
            let mut see = |entry: Entry<'_>| {
                found.push(entry.key.to_vec());
                true
            };
            assert_eq!(scan.show(&mut see), ScanStep::Ready);
            assert_eq!(scan.stopped_at().as_deref(), Some(stopped_at), "budget {budget}");
            scan.set_budget(usize::MAX, u64::MAX);
            if steps {
                while let Some(entry) = written.sim.block_on(scan.next()).expect("no faults") {
                    see(entry);
                }
            } else {
                assert_eq!(scan.show(&mut see), ScanStep::Ready);
            }
            assert_eq!(found, [b"a", b"b", b"y", b"z"], "budget {budget}");
        }
    }
}

#[test]
fn a_step_behind_an_answer_that_was_shown_leaves_out_its_older_versions() {
    let mut written = deleted_after_many_writes();
    written.change(b"hot", Some(b"new"));
    let mut scan = written.tree.scan(Range::all(), None);
    let step = scan.show(|entry| entry.key != b"hot");
    assert_eq!(step, ScanStep::Ready);
    let next = written.sim.block_on(scan.next()).expect("no faults");
    assert_eq!(next.map(|entry| entry.key.to_vec()), Some(b"y".to_vec()));
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
    let mut scan = written.tree.scan(Range::all(), None);
    let mut shown = 0;
    let mut see = |_: Entry<'_>| {
        shown += 1;
        true
    };
    assert_eq!(scan.show(&mut see), ScanStep::Ready);
    assert_eq!(shown, 3);
    assert!((3..20).contains(&scan.passed().entries), "{:?}", scan.passed());
}
