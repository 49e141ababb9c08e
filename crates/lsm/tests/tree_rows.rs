//! Rows of many parts in a tree against a map: lives that begin, change and end, covers, snapshots, jobs of every kind,
//! restarts and power cuts that take the end of the log with them.
//!
//! The test keeps the log itself, and writes as a partition would: a row that is deleted or replaced leaves a cover,
//! and every life has a larger version. A power cut may lose log records behind those that the tree has in tables. What
//! must hold at any time is that every living row has all its parts, and exactly those. Dead parts may be there or not,
//! but when all is merged they are gone, and covers with them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::plant::{Plant, with_planted};
use weir_io::sim::{DeviceSpec, FaultPlan, Keep, Sim, SimFs};
use weir_io::{BoxFuture, Clock, Fs, Owner, Result, Rng, Unbooked, sleep_until};
use weir_lsm::cache::BlockCache;
use weir_lsm::check::check_rows;
use weir_lsm::{Env, PickerKind, Tree, TreeOptions};
use weir_model::engine::{
    Files, JobControl, JobReport, Jobs, Kind, Range, Reads, Records, Scope, Snapshot, TreeKnobs, Urgency,
};
use weir_model::parts::{Head, Life, Part, RowType, cover_key, is_part, placed};
use weir_model::{Batch, Change, StoredKey};

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What stands at a row's key: a string, or a life with its parts by subkey.
#[derive(Clone, Debug, PartialEq)]
enum Row {
    String(Vec<u8>),
    Parts { head: Head, expire_at_ms: u64, parts: BTreeMap<Vec<u8>, Vec<u8>> },
}

type Rows = BTreeMap<Vec<u8>, Row>;

/// Merges find rows whose heads have expired; when these rows are deleted is the partition's business.
struct World {
    rng: Rng,
    sim: Sim,
    fs: Arc<SimFs>,
    device: DeviceSpec,
    options: TreeOptions,
    tree: Arc<Tree>,
    /// Batch `n` is log record `n + 1`; with the rows behind it, so that a cut can go back to them.
    log: Vec<(Batch, Rows)>,
    rows: Rows,
    snapshots: Vec<(Snapshot, Rows)>,
    parked: Vec<(Arc<JobControl>, BoxFuture<Result<JobReport>>)>,
    /// Parts that merges dropped because they were covered.
    covered: u64,
    /// Those of them that were dropped with their tables, unread.
    dropped: u64,
    /// Heads that merges found expired.
    expired: u64,
}

fn options(rng: &mut Rng) -> TreeOptions {
    TreeOptions {
        write_buffer_bytes: 1 << (9 + rng.below(5)),
        write_buffers_max: 2 + rng.below(4) as usize,
        flush_memtables_max: 1 + rng.below(3) as usize,
        picker: if rng.chance(0.7) { PickerKind::Leveled } else { PickerKind::SpLsm },
        l0_trigger: 1 + rng.below(4) as usize,
        l0_gather: rng.below(8) as usize,
        level1_bytes: 1 << (11 + rng.below(4)),
        level_factor: 2 + rng.below(4),
        table_bytes: 1 << (9 + rng.below(5)),
        block_bytes: 1 << (7 + rng.below(6)),
        filter_bits_per_key: rng.below(12) as u32,
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

/// Polls `job` a few times, letting the disk work in between.
async fn some_polls(
    clock: Arc<dyn Clock>,
    job: &mut BoxFuture<Result<JobReport>>,
    polls: u64,
) -> Option<Result<JobReport>> {
    for _ in 0..polls {
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(job.as_mut().poll(cx))).await;
        match polled {
            std::task::Poll::Ready(report) => return Some(report),
            std::task::Poll::Pending => sleep_until(&clock, clock.now() + 20_000).await,
        }
    }
    None
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        sim.set_unix_ms(1_000_000);
        let device = match rng.chance(0.5) {
            true => DeviceSpec::instant(),
            false => DeviceSpec { latency: 50_000, ..DeviceSpec::instant() },
        };
        let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
        let options = options(&mut rng);
        let tree = open(&sim, &fs, &options, rng.below(1 << 16) as usize);
        Self {
            rng,
            sim,
            fs,
            device,
            options,
            tree,
            log: Vec::new(),
            rows: Rows::new(),
            snapshots: Vec::new(),
            parked: Vec::new(),
            covered: 0,
            dropped: 0,
            expired: 0,
        }
    }

    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(12);
        StoredKey::new((number % 2) as u8, &[&b"row"[..], &[0, number as u8]].concat()).to_vec()
    }

    fn apply(&mut self, batch: Batch) {
        let applied = self.tree.apply(self.log.len() as u64 + 1, batch.as_ref());
        self.log.push((batch, self.rows.clone()));
        self.tree.publish(applied.last_seq);
    }

    /// Ends the life that `key` has, if it has one.
    fn end(&mut self, batch: &mut Batch, key: &[u8]) {
        if let Some(Row::Parts { head, .. }) = self.rows.remove(key) {
            batch.push(Change::Cover { key: &cover_key(head.version), bytes: 1000 });
        }
    }

    fn write(&mut self) {
        let (key, mut batch) = (self.key(), Batch::new());
        match self.rng.below(10) {
            0 => {
                batch.delete(&key);
                self.end(&mut batch, &key);
                self.rows.remove(&key);
            }
            1 => {
                let value = vec![self.rng.next_u64() as u8; self.rng.below(200) as usize];
                batch.put(&key, &value);
                self.end(&mut batch, &key);
                self.rows.insert(key, Row::String(value));
            }
            2 => self.make(&mut batch, key),
            _ if !matches!(self.rows.get(&key), Some(Row::Parts { .. })) => self.make(&mut batch, key),
            _ => self.change(&mut batch, &key),
        }
        self.apply(batch);
    }

    /// A new life, with some parts.
    fn make(&mut self, batch: &mut Batch, key: Vec<u8>) {
        self.end(batch, &key);
        let head = Head::new(RowType::Hash, self.tree.applied_seq() + 1 + batch.len() as u64);
        let expire_at_ms = if self.rng.chance(0.1) { self.now_ms() + self.rng.below(2000) } else { 0 };
        let expire = (expire_at_ms != 0).then_some(expire_at_ms);
        batch.push(Change::Head { key: &key, head: &head.encode(), expire_at_ms: expire });
        self.rows.insert(key.clone(), Row::Parts { head, expire_at_ms, parts: BTreeMap::new() });
        self.change(batch, &key);
    }

    fn change(&mut self, batch: &mut Batch, key: &[u8]) {
        // Now and then so many that tables have nothing else.
        let [count, subkeys] = match self.rng.below(20) {
            0 => [400, 400],
            1..5 => [60, 80],
            _ => [5, 80],
        };
        for _ in 0..=self.rng.below(count) {
            let subkey = self.rng.below(subkeys).to_be_bytes()[6..].to_vec();
            let value = vec![self.rng.next_u64() as u8; self.rng.below(60) as usize];
            let goes = self.rng.chance(0.2);
            let Some(Row::Parts { head, parts, .. }) = self.rows.get_mut(key) else { unreachable!("it has parts") };
            let stored = Life::new(head.version).part(0, &subkey);
            if goes {
                batch.delete(&stored);
                parts.remove(&subkey);
            } else {
                batch.put(&stored, &value);
                parts.insert(subkey, value);
            }
        }
    }

    /// All living rows are as `rows` says: by their heads, and by their parts, forward or back, page by page.
    fn check(&mut self, snapshot: Option<&Snapshot>, rows: &Rows) {
        let now_ms = self.now_ms();
        let heads = self.scan(Range { to: Bound::Excluded(vec![16]), ..Range::all() }, snapshot);
        let lives = |row: &Row| !matches!(row, Row::Parts { expire_at_ms, .. } if *expire_at_ms != 0 && *expire_at_ms <= now_ms);
        let living: Vec<_> = rows.iter().filter(|(_, row)| lives(row)).collect();
        assert_eq!(
            heads.iter().map(|(key, ..)| key).collect::<Vec<_>>(),
            living.iter().map(|(key, _)| *key).collect::<Vec<_>>()
        );
        for ((_, kind, value), (key, row)) in heads.iter().zip(&living) {
            match row {
                Row::String(expected) => assert_eq!((*kind, value), (Kind::Put, expected)),
                Row::Parts { head, parts, .. } => {
                    assert_eq!((*kind, Head::decode(value).as_ref()), (Kind::Head, Some(head)));
                    let (from, to) = Life::new(head.version).space(0);
                    let reverse = self.rng.chance(0.5);
                    let range = Range { from: Bound::Included(from), to: Bound::Excluded(to), reverse };
                    let mut found = self.scan(range, snapshot);
                    if reverse {
                        found.reverse();
                    }
                    let at = Life::SUBKEY_AT;
                    let found: BTreeMap<_, _> =
                        found.into_iter().map(|(key, _, value)| (key[at..].to_vec(), value)).collect();
                    assert_eq!(&found, parts, "row {} version {}", key.escape_ascii(), head.version);
                }
            }
        }
        if snapshot.is_none() {
            self.check_dead(rows);
            for (key, row) in rows {
                let is_head = matches!(row, Row::Parts { .. });
                assert!(!is_head || self.tree.may_hold_head(key), "a head that nobody knows of");
            }
        }
    }

    /// Whatever is left of dead parts has a cover: merges will drop it.
    fn check_dead(&mut self, rows: &Rows) {
        for (stored, ..) in self.scan(Range { from: Bound::Included(vec![16]), ..Range::all() }, None) {
            let part = Part::parse(&stored).expect("a part");
            if rows.values().any(|row| matches!(row, Row::Parts { head, .. } if head.version == part.version)) {
                continue;
            }
            let cover = self.sim.block_on(self.tree.get_latest(&cover_key(part.version))).expect("get");
            assert!(cover.is_some_and(|cover| cover.kind == Kind::Cover), "a dead part that nobody will drop");
        }
    }

    /// What is in `range`, a budget at a time.
    fn scan(&mut self, mut range: Range, snapshot: Option<&Snapshot>) -> Vec<(Vec<u8>, Kind, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            let mut scan = self.tree.scan(range.clone(), snapshot);
            if self.rng.chance(0.5) {
                scan.set_budget(1 + self.rng.below(50) as usize, 1 + self.rng.below(2000));
            }
            while let Some(entry) = self.sim.block_on(scan.next()).expect("scan") {
                found.push((entry.key.to_vec(), entry.kind, entry.value.to_vec()));
            }
            match scan.stopped_at() {
                None => return found,
                Some(key) if range.reverse => range.to = Bound::Excluded(key),
                Some(key) => range.from = Bound::Included(key),
            }
        }
    }

    fn book(&mut self, report: &JobReport) {
        self.covered += report.covered_entries;
        self.dropped += if report.tables_dropped > 0 { report.covered_entries } else { 0 };
        self.expired += report.expired_keys.len() as u64;
        for key in &report.expired_keys {
            assert!(!is_part(key));
        }
    }

    fn job(&mut self) {
        let fresh = || {
            let job = self.tree.next_flush().or_else(|| self.tree.next_drop()).or_else(|| self.tree.next_compaction());
            job.map(|job| (job.control(), Box::pin(job.run()) as BoxFuture<_>))
        };
        let parked = !self.parked.is_empty() && self.rng.chance(0.5);
        let job = if parked { Some(self.parked.swap_remove(0)) } else { fresh() };
        let Some((control, mut job)) = job else { return };
        let polls = if self.rng.chance(0.5) { u64::MAX } else { self.rng.below(40) };
        match self.sim.block_on(some_polls(self.sim.clock(), &mut job, polls)) {
            Some(report) => self.book(&report.expect("job")),
            None if control.is_committing() => {
                let report = self.sim.block_on(job).expect("job");
                self.book(&report);
            }
            None if self.rng.chance(0.8) => self.parked.push((control, job)),
            None => {}
        }
    }

    fn knobs(&mut self) {
        self.tree.set_knobs(TreeKnobs {
            scope: Scope::ALL[self.rng.below(3) as usize],
            flush_gather: 1 + self.rng.below(4) as usize,
            write_buffers: 2 + self.rng.below(8) as usize,
            intra_l0_fan_in: 2 + self.rng.below(4) as usize,
            intra_l0_from: self.rng.below(6) as usize,
            intra_l0_bytes: 1 << self.rng.below(24),
            warm: self.rng.chance(0.5),
            l0_gathers: self.rng.chance(0.5),
            pending_stalls: self.rng.chance(0.5),
        });
        self.tree.set_urgency(Urgency::ALL[self.rng.below(3) as usize]);
    }

    /// Ends the process. A power cut takes what was not synced, and some of the log that is in no table.
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
        if power_cut {
            let kept = persisted + self.rng.below((self.log.len() - persisted) as u64 + 1) as usize;
            self.log.truncate(kept);
            self.rows = self.log.last().map_or_else(Rows::new, |(_, rows)| rows.clone());
        }
        for (index, (batch, _)) in self.log.iter().enumerate().skip(persisted) {
            let applied = self.tree.apply(index as u64 + 1, batch.as_ref());
            self.tree.publish(applied.last_seq);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..50 => self.write(),
            50..56 => self.tree.seal(),
            56..58 => self.knobs(),
            58..82 => self.job(),
            82..87 => {
                let rows = self.rows.clone();
                self.check(None, &rows);
            }
            87..90 => self.snapshots.push((self.tree.snapshot(), self.rows.clone())),
            90..93 => {
                if !self.snapshots.is_empty() {
                    let index = self.rng.below(self.snapshots.len() as u64) as usize;
                    let (snapshot, rows) = self.snapshots.swap_remove(index);
                    self.check(Some(&snapshot), &rows);
                }
            }
            93..95 => {
                let later = self.now_ms() + self.rng.below(1_000);
                self.sim.set_unix_ms(later);
            }
            95..97 => self.restart(false),
            97..99 => self.restart(true),
            _ => self.sim.block_on(self.tree.tidy()).expect("tidy"),
        }
    }

    fn settle(&mut self) {
        for (_, job) in std::mem::take(&mut self.parked) {
            let report = self.sim.block_on(job).expect("job");
            self.book(&report);
        }
        self.tree.set_knobs(self.options.knobs());
        self.tree.set_eager(true);
        self.tree.seal();
        let due = |tree: &Tree| tree.next_flush().or_else(|| tree.next_drop()).or_else(|| tree.next_compaction());
        while let Some(job) = due(&self.tree) {
            let report = self.sim.block_on(job.run()).expect("job");
            self.book(&report);
        }
    }
}

fn run(seed: u64, steps: usize) -> World {
    let mut world = World::new(seed);
    (0..steps).for_each(|_| world.step());
    let rows = world.rows.clone();
    world.check(None, &rows);
    world.snapshots.clear();
    world.settle();
    world.check(None, &rows);
    let fs = Arc::clone(&world.fs) as Arc<dyn Fs>;
    let report = world.sim.block_on(weir_lsm::check::check(&fs, "/tree".as_ref(), |_, _| {})).expect("check");
    assert!(report.problems.is_empty(), "seed {seed}: {:?}", report.problems);
    world
}

#[test]
fn rows_of_parts_are_as_in_a_map_whatever_happens() {
    let (mut covered, mut dropped, mut expired) = (0, 0, 0);
    for seed in 0..80 {
        let world = run(seed, 400);
        (covered, dropped, expired) = (covered + world.covered, dropped + world.dropped, expired + world.expired);
    }
    assert!(covered > 4_000 && expired > 40, "{covered} parts were covered, {expired} heads had expired");
    assert!(dropped > 400, "{dropped} parts went with their tables");
}

/// Whether some seed finds the planted bug.
fn is_found(plant: Plant) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found =
        (0..60).any(|seed| std::panic::catch_unwind(|| with_planted(Some(plant), || drop(run(seed, 400)))).is_err());
    std::panic::set_hook(hook);
    found
}

#[test]
fn merges_that_trust_a_cover_in_memory_are_found_out() {
    assert!(is_found(Plant::CoverInMemory));
}

#[test]
fn covers_that_go_too_early_are_found_out() {
    assert!(is_found(Plant::DroppedCover));
    assert!(is_found(Plant::CoverTakenForMet));
}

#[test]
fn tables_that_go_although_a_snapshot_reads_them_are_found_out() {
    assert!(is_found(Plant::DroppedLife));
}

#[test]
fn a_check_of_rows_looks_at_the_newest_versions_whatever_tables_they_are_in() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let tree = open(&sim, &fs, &TreeOptions::default(), 0);
    let disk = Arc::clone(&fs) as Arc<dyn Fs>;
    let mut written = 0;
    // What is wrong with the rows once these changes are in a table of their own.
    let mut told = |changes: &[Change<'_>]| {
        let mut batch = Batch::new();
        changes.iter().for_each(|change| batch.push(*change));
        written += 1;
        tree.publish(tree.apply(written, batch.as_ref()).last_seq);
        tree.seal();
        sim.block_on(tree.next_flush().expect("a flush is due").run()).expect("no faults");
        sim.block_on(check_rows(&disk, "/tree".as_ref())).expect("the tables are sound").join("; ")
    };
    let (key, version) = (StoredKey::new(0, b"set").to_vec(), 1);
    let head = |count| Head { count, bytes: 3 * count, ..Head::new(RowType::Set, version) }.encode();
    let (of_two, of_three) = (head(2), head(3));
    let part = |name: &[u8]| Life::new(version).part(0, &placed(version, name));
    let (one, two, six) = (part(b"one"), part(b"two"), part(b"six"));
    let [with_two, with_three] = [&of_two, &of_three].map(|head| Change::Head { key: &key, head, expire_at_ms: None });
    let [one, two, six_comes] = [&one, &two, &six].map(|key| Change::Put { key, value: b"", expire_at_ms: None });
    assert_eq!(told(&[with_two, one, two]), "");
    assert_eq!(told(&[with_three, six_comes]), "", "the head before it does not count");
    let problem = told(&[with_two]);
    assert!(problem.starts_with("row ") && problem.contains("set"), "one part too many: {problem}");
    assert_eq!(told(&[Change::Delete { key: &six }]), "");
    let problem = told(&[Change::Delete { key: &key }]);
    assert!(problem.starts_with("life 1: "), "parts without a head: {problem}");
    assert_eq!(told(&[Change::Cover { key: &cover_key(version), bytes: 6 }]), "", "they are known to be dead");
}
