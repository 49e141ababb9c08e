//! The tree against a map: random changes, seals, flushes, compactions in every scope, snapshots, scans, parked and
//! cancelled jobs, restarts and power cuts.
//!
//! The test keeps the log itself (a list of batches): after a restart it replays what the tree has not persisted, as a
//! partition would. Whatever happened in between, the tree must then answer like the map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Keep, Sim, SimFs};
use weir_io::{BoxFuture, Class, Clock, Fs, Owner, Result, Rng, Unbooked, sleep_until};
use weir_lsm::cache::BlockCache;
use weir_lsm::table::Compression;
use weir_lsm::{Env, PickerKind, Tree, TreeOptions};
use weir_model::engine::*;
use weir_model::{Batch, Change};

type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

struct World {
    rng: Rng,
    sim: Sim,
    fs: Arc<SimFs>,
    options: TreeOptions,
    tree: Arc<Tree>,
    /// Batch `n` is log record `n + 1`.
    log: Vec<Batch>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
    /// Jobs that were begun and are not being polled.
    parked: Vec<(Arc<JobControl>, BoxFuture<Result<JobReport>>)>,
    device: DeviceSpec,
    /// How many of a hundred values expire.
    expiring: u64,
    /// Reclaiming merges that were begun, and drops.
    reclaims: [usize; 2],
    /// Merges within level 0 that were begun, and how many at once at most.
    intra_l0: [usize; 2],
}

/// Counts a job that gives space back: merges, and drops.
fn count([merges, drops]: [usize; 2], facts: &JobFacts) -> [usize; 2] {
    match facts.class {
        Class::Reclaim if facts.is_drop => [merges, drops + 1],
        Class::Reclaim => [merges + 1, drops],
        _ => [merges, drops],
    }
}

/// Polls `job` a few times, letting the disk work in between; gives it back if it is not done.
async fn some_polls(
    clock: Arc<dyn Clock>,
    mut job: BoxFuture<Result<JobReport>>,
    polls: u64,
) -> Option<BoxFuture<Result<JobReport>>> {
    for _ in 0..polls {
        let done = std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx))).await;
        match done {
            std::task::Poll::Ready(report) => {
                report.expect("job");
                return None;
            }
            std::task::Poll::Pending => sleep_until(&clock, clock.now() + 20_000).await,
        }
    }
    Some(job)
}

fn options(rng: &mut Rng) -> TreeOptions {
    let codec = [Compression::None, Compression::Lz4, Compression::Zstd][rng.below(3) as usize];
    let mut compression = [codec; 7];
    compression[0] = Compression::None;
    TreeOptions {
        write_buffer_bytes: 1 << (9 + rng.below(5)),
        write_buffers_max: 2 + rng.below(4) as usize,
        flush_memtables_max: 1 + rng.below(3) as usize,
        picker: if rng.chance(0.7) { PickerKind::Leveled } else { PickerKind::SpLsm },
        l0_trigger: 1 + rng.below(4) as usize,
        l0_gather: rng.below(8) as usize,
        picks_by_score: rng.chance(0.5),
        l0_merge_bytes_max: if rng.chance(0.3) { 1 << (13 + rng.below(4)) } else { 2 << 30 },
        level1_bytes: 1 << (12 + rng.below(4)),
        level_factor: 2 + rng.below(4),
        table_bytes: 1 << (11 + rng.below(4)),
        block_bytes: 1 << (7 + rng.below(6)),
        filter_bits_per_key: rng.below(12) as u32,
        compression,
        io_bytes: 4096 << rng.below(4),
        ..TreeOptions::default()
    }
}

fn open(sim: &Sim, fs: &Arc<SimFs>, options: &TreeOptions, cache_bytes: usize) -> Arc<Tree> {
    let env = Env {
        fs: Arc::clone(fs) as Arc<dyn Fs>,
        dir: PathBuf::from("/tree"),
        owner: Owner { tenant: 1, partition: 1 },
        cache: BlockCache::new(cache_bytes, 2),
        clock: sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    };
    let tree = sim.block_on(Tree::open(env, options.clone())).expect("the tree opens");
    sim.block_on(tree.discard_unnamed()).expect("the log is whole");
    tree
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        sim.set_unix_ms(1_000_000);
        // On a device with latency jobs have many places to be parked at.
        let device = if rng.chance(0.5) {
            DeviceSpec::instant()
        } else {
            DeviceSpec { latency: 50_000, ..DeviceSpec::instant() }
        };
        let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
        let expiring = [20, 50, 90][rng.below(3) as usize];
        let options = options(&mut rng);
        let tree = open(&sim, &fs, &options, rng.below(1 << 16) as usize);
        let (log, map) = (Vec::new(), Map::new());
        Self {
            rng,
            sim,
            fs,
            options,
            tree,
            log,
            map,
            snapshots: Vec::new(),
            parked: Vec::new(),
            device,
            expiring,
            reclaims: [0; 2],
            intra_l0: [0; 2],
        }
    }

    /// The wall clock. It ticks while the disk works.
    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(200);
        format!("key{number:0width$}", width = 1 + (number % 7) as usize).into_bytes()
    }

    fn write(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..=self.rng.below(4) {
            let key = self.key();
            if self.rng.chance(0.3) {
                batch.delete(&key);
                self.map.remove(&key);
                continue;
            }
            let value = vec![self.rng.next_u64() as u8; self.rng.below(300) as usize];
            let expire_at_ms = (self.rng.below(100) < self.expiring).then(|| self.now_ms() + self.rng.below(2_000));
            batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
            self.map.insert(key, (value, expire_at_ms.unwrap_or(0)));
        }
        self.log.push(batch);
        let applied = self.tree.apply(self.log.len() as u64, self.log[self.log.len() - 1].as_ref());
        self.tree.publish(applied.last_seq);
    }

    fn live(map: &Map, now_ms: u64) -> Vec<(&[u8], &[u8])> {
        let lives = |expire: u64| expire == 0 || expire > now_ms;
        map.iter().filter(|(_, (_, expire))| lives(*expire)).map(|(k, (v, _))| (k.as_slice(), v.as_slice())).collect()
    }

    fn check_scan(&self, range: Range, snapshot: Option<&Snapshot>, map: &Map) {
        let now_ms = self.now_ms();
        let mut scan = self.tree.scan(range.clone(), snapshot);
        let mut found = Vec::new();
        while let Some(entry) = self.sim.block_on(scan.next()).expect("scan") {
            found.push((entry.key.to_vec(), entry.value.to_vec()));
        }
        let inside = |key: &[u8]| {
            let above = match &range.from {
                Bound::Unbounded => true,
                Bound::Included(from) => key >= from.as_slice(),
                Bound::Excluded(from) => key > from.as_slice(),
            };
            let below = match &range.to {
                Bound::Unbounded => true,
                Bound::Included(to) => key <= to.as_slice(),
                Bound::Excluded(to) => key < to.as_slice(),
            };
            above && below
        };
        let mut wanted: Vec<_> = Self::live(map, now_ms).into_iter().filter(|(key, _)| inside(key)).collect();
        if range.reverse {
            wanted.reverse();
        }
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
        let keys = differs.map(|at| [found[at].0, wanted[at].0].map(String::from_utf8_lossy));
        let counts = (found.len(), wanted.len());
        assert!(
            found == wanted,
            "{range:?} at {:?}: {counts:?} rows, first difference {keys:?}",
            snapshot.map(Snapshot::seq)
        );
    }

    fn range(&mut self) -> Range {
        let mut bound = || match self.rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(format!("key{}", self.rng.below(200)).into_bytes()),
            _ => Bound::Excluded(format!("key{:03}", self.rng.below(200)).into_bytes()),
        };
        let (from, to) = (bound(), bound());
        Range { from, to, reverse: self.rng.chance(0.5) }
    }

    fn check_get(&mut self) {
        let key = self.key();
        let found = self.sim.block_on(self.tree.get(&key, None)).expect("get");
        let now_ms = self.now_ms();
        let found = found.filter(|found| found.expire_at_ms == 0 || found.expire_at_ms > now_ms);
        let wanted = self.map.get(&key).filter(|(_, expire)| *expire == 0 || *expire > now_ms);
        assert_eq!(found.as_ref().map(|f| &*f.value), wanted.map(|(value, _)| value.as_slice()), "{key:?}");
    }

    /// Begins a job, or goes on with one: runs it to the end, parks it, or cancels it.
    fn job(&mut self) {
        let mut facts = None;
        let mut fresh = || {
            let flush = self.tree.next_flush().or_else(|| self.tree.next_drop());
            flush
                .or_else(|| self.tree.next_compaction())
                .inspect(|job| facts = Some(job.facts()))
                .map(|job| (job.control(), Box::pin(job.run()) as _))
        };
        let parked = !self.parked.is_empty() && self.rng.chance(0.5);
        let job = if parked { Some(self.parked.swap_remove(0)) } else { fresh() };
        let Some((control, job)) = job else { return };
        self.reclaims = facts.iter().fold(self.reclaims, count);
        let running =
            self.tree.facts().jobs[JobKind::ALL.iter().position(|&kind| kind == JobKind::IntraL0).expect("a kind")];
        self.intra_l0[0] += usize::from(!parked && running.running > 0);
        self.intra_l0[1] = self.intra_l0[1].max(running.running);
        let polls = if self.rng.chance(0.5) { u64::MAX } else { self.rng.below(40) };
        let Some(job) = self.sim.block_on(some_polls(self.sim.clock(), job, polls)) else { return };
        if control.is_committing() {
            self.sim.block_on(job).expect("job");
        } else if self.rng.chance(0.8) {
            self.parked.push((control, job));
        }
    }

    /// Turns the knobs as a policy might, only faster.
    fn knobs(&mut self) {
        let knobs = TreeKnobs {
            scope: Scope::ALL[self.rng.below(3) as usize],
            flush_gather: 1 + self.rng.below(4) as usize,
            write_buffers: 2 + self.rng.below(8) as usize,
            intra_l0_fan_in: 2 + self.rng.below(4) as usize,
            intra_l0_from: self.rng.below(6) as usize,
            intra_l0_bytes: 1 << self.rng.below(24),
            warm: self.rng.chance(0.5),
            l0_gathers: self.rng.chance(0.5),
            pending_stalls: self.rng.chance(0.5),
        };
        self.tree.set_knobs(knobs);
        assert_eq!(self.tree.knobs(), knobs);
        self.tree.set_urgency(Urgency::ALL[self.rng.below(3) as usize]);
    }

    /// Lets every parked job come to its end.
    fn finish_parked(&mut self) {
        for (_, job) in std::mem::take(&mut self.parked) {
            self.sim.block_on(job).expect("job");
        }
    }

    /// Ends the process; with `power_cut` the disk keeps only a random part of what was not synced.
    fn restart(&mut self, power_cut: bool) {
        self.snapshots.clear();
        if power_cut {
            let keep = [Keep::Random, Keep::None, Keep::All, Keep::Prefix][self.rng.below(4) as usize];
            let image = self.fs.crash_keeping(keep, &mut self.rng);
            let rng = self.rng.fork("disk");
            self.fs = SimFs::from_image(&image, self.sim.clock(), self.device, FaultPlan::none(), rng);
        }
        self.parked.clear();
        self.options = options(&mut self.rng);
        self.tree = open(&self.sim, &self.fs, &self.options, self.rng.below(1 << 16) as usize);
        let persisted = self.tree.persisted() as usize;
        assert!(persisted <= self.log.len());
        for (index, batch) in self.log.iter().enumerate().skip(persisted) {
            let applied = self.tree.apply(index as u64 + 1, batch.as_ref());
            self.tree.publish(applied.last_seq);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..60 => self.write(),
            60..64 => self.tree.seal(),
            64..66 => self.knobs(),
            66..80 => self.job(),
            80..88 => self.check_get(),
            88..91 => {
                let range = self.range();
                self.check_scan(range, None, &self.map);
            }
            91..93 => self.snapshots.push((self.tree.snapshot(), self.map.clone())),
            93..95 => {
                if !self.snapshots.is_empty() {
                    let index = self.rng.below(self.snapshots.len() as u64) as usize;
                    let (snapshot, map) = self.snapshots.swap_remove(index);
                    let range = self.range();
                    self.check_scan(range, Some(&snapshot), &map);
                }
            }
            95..97 => {
                let later = self.now_ms() + self.rng.below(2_000);
                self.sim.set_unix_ms(later);
            }
            97 => self.restart(false),
            98 => self.restart(true),
            _ => self.sim.block_on(self.tree.tidy()).expect("tidy"),
        }
    }

    /// A level 0 long enough for merges within it beside one another, which a day's turns of the knobs rarely leave it.
    fn level_0_alone(&mut self) {
        let knobs = self.options.knobs();
        self.tree.set_knobs(TreeKnobs { scope: Scope::IntraL0, intra_l0_fan_in: 2, ..knobs });
        for _ in 0..self.rng.below(80) {
            match self.rng.below(4) {
                0 | 1 => self.write(),
                2 => self.tree.seal(),
                _ => self.job(),
            }
        }
    }

    /// A table that dies as a whole, written over what may live.
    fn short_lives(&mut self) {
        let before = std::mem::replace(&mut self.expiring, 100);
        (0..=self.rng.below(6)).for_each(|_| self.write());
        self.expiring = before;
        self.tree.seal();
        (0..4).for_each(|_| self.job());
        let later = self.now_ms() + 2_000;
        self.sim.set_unix_ms(later);
        (0..4).for_each(|_| self.job());
        self.check_scan(Range::all(), None, &self.map);
    }

    /// When everything that expires has expired, and the tree is short of space, it takes what lives and little more.
    fn forget_the_expired(&mut self, seed: u64) {
        let later = self.now_ms() + 10_000;
        self.sim.set_unix_ms(later);
        self.snapshots.clear();
        self.tree.set_urgency(Urgency::Full);
        self.settle();
        self.check_scan(Range::all(), None, &self.map);
        let space = self.tree.space();
        let dead = space.dead_bytes as f64 / space.stored_bytes.max(1) as f64;
        assert!(dead <= 0.5, "seed {seed}: {space:?}");
        let living = self.map.values().filter(|(_, expire)| *expire == 0).count();
        assert!(living > 0 || space.stored_bytes == 0, "seed {seed}: nothing lives, and yet there is {space:?}");
    }

    /// Runs every job that is due.
    fn settle(&mut self) {
        self.finish_parked();
        self.tree.set_knobs(self.options.knobs());
        self.tree.set_eager(true);
        self.tree.seal();
        let due = |tree: &Arc<Tree>| tree.next_flush().or_else(|| tree.next_drop()).or_else(|| tree.next_compaction());
        let mut jobs = 0;
        while let Some(job) = due(&self.tree) {
            self.reclaims = count(self.reclaims, &job.facts());
            self.sim.block_on(job.run()).expect("job");
            jobs += 1;
            assert!(jobs < 10_000, "what is reclaimed is reclaimed again");
        }
    }
}

/// What a run has met: without that it has shown nothing.
struct Tally {
    /// Merges within level 0 that were begun, and how many at once at most.
    intra_l0: [usize; 2],
    /// Reclaiming merges, and drops.
    reclaims: [usize; 2],
}

fn run(seed: u64, steps: usize) -> Tally {
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step();
        if step % 300 == 299 {
            world.level_0_alone();
        }
        if step % 100 == 50 {
            world.short_lives();
        }
    }
    world.check_scan(Range::all(), None, &world.map);
    world.settle();
    assert!(world.tree.facts().is_settled(), "seed {seed}: {:?}", world.tree.facts());
    world.check_scan(Range::all(), None, &world.map);
    world.check_scan(Range { reverse: true, ..Range::all() }, None, &world.map);
    world.forget_the_expired(seed);
    let fs = Arc::clone(&world.fs) as Arc<dyn Fs>;
    let report = world.sim.block_on(weir_lsm::check::check(&fs, "/tree".as_ref(), |_, _| {})).expect("check");
    assert!(report.problems.is_empty(), "seed {seed}: {:?}", report.problems);
    Tally { intra_l0: world.intra_l0, reclaims: world.reclaims }
}

#[test]
fn the_tree_answers_like_a_map_whatever_happens() {
    let (mut merges, mut at_once, mut reclaims, mut drops) = (0, 0, 0, 0);
    for seed in 0..300 {
        let Tally { intra_l0: [begun, most], reclaims: [merged, dropped] } = run(seed, 400);
        (merges, at_once) = (merges + begun, at_once.max(most));
        (reclaims, drops) = (reclaims + merged, drops + dropped);
    }
    assert!(reclaims > 300 && drops > 50, "{reclaims} reclaiming merges, {drops} drops");
    assert!(merges > 300 && at_once >= 2, "{merges} merges within level 0, {at_once} at once");
}

#[test]
fn a_long_day() {
    run(77_777, 20_000);
}

#[test]
fn a_settled_tree_holds_no_file_that_nothing_needs() {
    let mut world = World::new(4);
    for _ in 0..2_000 {
        world.write();
        if world.log.len().is_multiple_of(7) {
            world.job();
        }
    }
    world.settle();
    world.sim.block_on(world.tree.tidy()).expect("tidy");
    let fs = Arc::clone(&world.fs) as Arc<dyn Fs>;
    let report = world.sim.block_on(weir_lsm::check::check(&fs, "/tree".as_ref(), |_, _| {})).expect("check");
    assert_eq!(report.orphans, Vec::<String>::new());
    assert_eq!(report.tables, world.tree.version().tables().count());
}

#[test]
fn a_checkpoint_is_a_tree_of_its_own() {
    let mut world = World::new(5);
    for _ in 0..500 {
        world.write();
    }
    world.settle();
    let map = world.map.clone();
    world.sim.block_on(world.tree.checkpoint("/copy".as_ref())).expect("checkpoint");
    for _ in 0..500 {
        world.write();
    }
    world.settle();
    let env = Env {
        fs: Arc::clone(&world.fs) as Arc<dyn Fs>,
        dir: PathBuf::from("/copy"),
        owner: Owner { tenant: 1, partition: 2 },
        cache: BlockCache::new(1 << 16, 1),
        clock: world.sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    };
    world.tree = world.sim.block_on(Tree::open(env, world.options.clone())).expect("the copy opens");
    world.check_scan(Range::all(), None, &map);
}
