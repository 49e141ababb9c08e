//! The tree on a disk that fails now and then, with jobs that fail or are dropped wherever they stand, their manifest
//! edit included. Whatever is uncertain must not matter: after every restart the tree and the log together hold what
//! was written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, Fault, FaultPlan, Keep, OpKind, Phase, Sim, SimFs};
use weir_io::{Fs, Owner, Rng, Unbooked, sleep_until};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

struct World<'a> {
    rng: Rng,
    sim: &'a Sim,
    fs: Arc<SimFs>,
    tree: Arc<Tree>,
    /// Batch `n` is log record `n + 1`.
    log: Vec<Batch>,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What a log would still have: records after this one.
    truncated: u64,
}

fn device() -> DeviceSpec {
    DeviceSpec { latency: 20_000, ..DeviceSpec::instant() }
}

fn faults(rng: &mut Rng) -> FaultPlan {
    let kinds =
        [OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Rename, OpKind::Create, OpKind::Remove, OpKind::Read];
    let mut plan = FaultPlan::none();
    for kind in kinds {
        if rng.chance(0.5) {
            plan = plan.chance(kind, if rng.chance(0.5) { Fault::Error } else { Fault::NoSpace }, 0.05);
        }
    }
    plan
}

async fn open(sim: &Sim, fs: &Arc<SimFs>) -> Arc<Tree> {
    let options = TreeOptions {
        write_buffer_bytes: 2 << 10,
        l0_trigger: 2,
        level1_bytes: 8 << 10,
        level_factor: 3,
        table_bytes: 4 << 10,
        block_bytes: 512,
        io_bytes: 4 << 10,
        ..TreeOptions::default()
    };
    open_with(sim, fs, options).await
}

async fn open_with(sim: &Sim, fs: &Arc<SimFs>, options: TreeOptions) -> Arc<Tree> {
    let env = Env {
        fs: Arc::clone(fs) as Arc<dyn Fs>,
        dir: PathBuf::from("/tree"),
        owner: Owner { tenant: 1, partition: 1 },
        cache: BlockCache::new(32 << 10, 1),
        clock: sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    };
    Tree::open(env, options).await.expect("the tree opens")
}

impl World<'_> {
    fn write(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..=self.rng.below(3) {
            let key = format!("key{:03}", self.rng.below(150)).into_bytes();
            if self.rng.chance(0.3) {
                batch.delete(&key);
                self.map.remove(&key);
            } else {
                let value = vec![self.rng.next_u64() as u8; self.rng.below(200) as usize];
                batch.put(&key, &value);
                self.map.insert(key, value);
            }
        }
        self.log.push(batch);
        let applied = self.tree.apply(self.log.len() as u64, self.log[self.log.len() - 1].as_ref());
        self.tree.publish(applied.last_seq);
    }

    /// Runs a job, to the end or not.
    async fn job(&mut self) {
        let Some(job) = self.tree.next_flush().or_else(|| self.tree.next_compaction()) else { return };
        let polls = if self.rng.chance(0.7) { u64::MAX } else { self.rng.below(60) };
        let clock = self.sim.clock();
        let mut job = Box::pin(job.run());
        for _ in 0..polls {
            if std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx))).await.is_ready() {
                break;
            }
            sleep_until(&clock, clock.now() + 7_000).await;
        }
        drop(job);
        self.truncated = self.truncated.max(self.tree.persisted());
    }

    async fn restart(&mut self) {
        let keep = [Keep::Random, Keep::None, Keep::All, Keep::Prefix][self.rng.below(4) as usize];
        let image = self.fs.crash_keeping(keep, &mut self.rng);
        let disk = self.rng.fork("disk");
        self.fs = SimFs::from_image(&image, self.sim.clock(), device(), FaultPlan::none(), disk);
        self.tree = open(self.sim, &self.fs).await;
        self.tree.discard_unnamed().await.expect("nothing fails yet");
        let persisted = self.tree.persisted();
        assert!(
            persisted >= self.truncated,
            "the log has nothing before {}, the tree ends at {persisted}",
            self.truncated
        );
        for (index, batch) in self.log.iter().enumerate().skip(persisted as usize) {
            let applied = self.tree.apply(index as u64 + 1, batch.as_ref());
            self.tree.publish(applied.last_seq);
        }
        self.check().await;
        self.fs.set_faults(faults(&mut self.rng));
    }

    async fn check(&self) {
        let mut scan = self.tree.scan(Range::all(), None);
        let mut found = BTreeMap::new();
        while let Some(entry) = scan.next().await.expect("scan") {
            found.insert(entry.key.to_vec(), entry.value.to_vec());
        }
        assert!(found == self.map, "the tree and the map differ");
    }
}

fn run(seed: u64, steps: usize) {
    let sim = Sim::new(seed);
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), rng.fork("disk"));
    let tree = sim.block_on(open(&sim, &fs));
    fs.set_faults(faults(&mut rng));
    let (log, map) = (Vec::new(), BTreeMap::new());
    let mut world = World { rng, sim: &sim, fs, tree, log, map, truncated: 0 };
    for _ in 0..steps {
        match world.rng.below(100) {
            0..60 => world.write(),
            60..98 => sim.block_on(world.job()),
            98 => sim.block_on(world.restart()),
            _ => drop(sim.block_on(world.tree.tidy())),
        }
    }
    world.fs.set_faults(FaultPlan::none());
    sim.block_on(async {
        world.check().await;
        world.tree.seal();
        while let Some(job) = world.tree.next_flush().or_else(|| world.tree.next_compaction()) {
            job.run().await.expect("job");
        }
        world.check().await;
        world.restart().await;
        let fs = Arc::clone(&world.fs) as Arc<dyn Fs>;
        world.fs.set_faults(FaultPlan::none());
        let report = weir_lsm::check::check(&fs, "/tree".as_ref(), |_, _| {}).await.expect("check");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert!(report.orphans.is_empty(), "{:?}", report.orphans);
    });
}

#[test]
fn whatever_fails_nothing_is_lost() {
    for seed in 0..150 {
        run(seed, 500);
    }
}

/// The compaction's edit is in the page cache, but its sync has failed. The next process reads the edit, and removes
/// the inputs of the compaction.
#[test]
fn an_edit_whose_sync_has_failed_is_not_lost_once_a_restart_has_read_it() {
    let mut doubtful = 0;
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
        let after_a_power_cut = |fs: &SimFs, rng: &mut Rng| {
            let image = fs.crash_keeping(Keep::None, rng);
            SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"))
        };
        let tables = |tree: &Tree| [0, 1].map(|level| tree.version().level(level).len());
        let tree = sim.block_on(open(&sim, &fs));
        for index in 1..=2 {
            let mut batch = Batch::new();
            batch.put(b"key", &[index as u8; 1000]);
            tree.apply(index, batch.as_ref());
            tree.seal();
            sim.block_on(tree.next_flush().expect("a flush is due").run()).expect("flush");
        }
        let manifest = sim.block_on(tree.manifest_path());
        fs.on_cut_point(move |disk, point| {
            if point.phase == Phase::Before && point.kind == OpKind::Write && point.path == manifest {
                disk.fail_next(Some(OpKind::Sync), Fault::Error);
            }
        });
        sim.block_on(tree.next_compaction().expect("a compaction is due").run()).expect_err("its sync fails");
        fs.clear_hook();
        drop(tree);

        let lost = sim.block_on(open(&sim, &after_a_power_cut(&fs, &mut rng)));
        let tree = sim.block_on(open(&sim, &fs));
        doubtful += usize::from(tables(&lost) != tables(&tree));
        sim.block_on(tree.discard_unnamed()).expect("no faults");
        let read = tables(&tree);
        drop(tree);

        let tree = sim.block_on(open(&sim, &after_a_power_cut(&fs, &mut rng)));
        assert_eq!(tables(&tree), read, "seed {seed}");
        let found = sim.block_on(tree.get(b"key", None)).expect("a read").expect("it is there");
        assert_eq!(*found.value, [2; 1000]);
    }
    assert!(doubtful > 5, "only {doubtful} times the device did not have what was read");
}

#[test]
fn attempts_on_a_full_disk_leave_nothing_behind() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let tree = sim.block_on(open(&sim, &fs));
    let files = || {
        sim.block_on(fs.list("/tree".as_ref(), weir_io::Tag::new(Owner::default(), weir_io::Class::Maintenance)))
            .expect("list")
            .len()
    };
    // Two runs side by side: the compaction that is due moves them, and needs space for its manifest edit only.
    for (index, key) in [b"a", b"b"].into_iter().enumerate() {
        let mut batch = Batch::new();
        batch.put(key, &[7; 1000]);
        tree.apply(index as u64 + 1, batch.as_ref());
        tree.seal();
        sim.block_on(tree.next_flush().expect("a flush is due").run()).expect("flush");
    }
    fs.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::NoSpace, 1.0));
    let before = files();
    for _ in 0..20 {
        let job = tree.next_compaction().expect("a compaction is due");
        let error = sim.block_on(job.run()).expect_err("the disk is full");
        assert_eq!(error.kind(), weir_io::ErrorKind::NoSpace);
        sim.block_on(tree.tidy()).expect("tidy");
    }
    assert!(files() <= before + 1, "{before} files before, {} after", files());
    fs.set_faults(FaultPlan::none());
    sim.block_on(tree.next_compaction().expect("a compaction is due").run()).expect("there is space");
    assert_eq!(tree.version().level(1).len(), 2);
}

#[test]
fn on_a_full_disk_a_merge_takes_no_more_of_level_0_than_the_bound_of_the_tree() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let options = TreeOptions { l0_trigger: 1, l0_gather: 1, l0_merge_bytes_max: 1, ..TreeOptions::default() };
    let tree = sim.block_on(open_with(&sim, &fs, options));
    let mut records = 0;
    let mut flush = |keys: Vec<u32>| {
        let mut batch = Batch::new();
        keys.iter().for_each(|key| batch.put(format!("{key:04}").as_bytes(), &[7; 1000]));
        records += 1;
        let applied = tree.apply(records, batch.as_ref());
        tree.publish(applied.last_seq);
        tree.seal();
        sim.block_on(tree.next_flush().expect("a flush is due").run()).expect("flush");
    };
    flush((0..800).map(|key| 2 * key).collect());
    sim.block_on(tree.next_compaction().expect("a move is due").run()).expect("moved");
    for first in 0..4 {
        flush((0..100).map(|key| 8 * key + 2 * first + 1).collect());
    }
    let bytes = |level: usize| tree.version().level(level)[0].meta.bytes;
    // Enough for a merge of level 1 with one run, but not with all four.
    fs.set_free_bytes(bytes(1) + 2 * bytes(0));
    let all = tree.next_compaction().expect("a merge is due");
    assert_eq!(all.facts().inputs, 5, "as much as level 1 has");
    let error = sim.block_on(all.run()).expect_err("the disk is full");
    assert_eq!(error.kind(), weir_io::ErrorKind::NoSpace);
    let oldest = tree.next_compaction().expect("a merge is due");
    assert_eq!(oldest.facts().inputs, 2);
    sim.block_on(oldest.run()).expect("it fits");
    assert_eq!((tree.version().level(0).len(), tree.version().level(1).len()), (3, 1));
    // The disk may have space again later.
    sim.run_until(sim.now() + 600_000_000_000);
    assert_eq!(tree.next_compaction().expect("a merge is due").facts().inputs, 4);
}
