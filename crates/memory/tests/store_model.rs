//! The store against a map: random changes, commits that come late, snapshots, sweeps, scans, parked and cancelled
//! jobs, restarts and power cuts.
//!
//! The test keeps the log itself (a list of batches): after a restart it replays what the store has not persisted, as a
//! partition would. Whatever happened in between, the store must then answer like the map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Keep, Sim, SimFs};
use weir_io::{BoxFuture, Clock, Fs, Owner, Result, Rng, sleep_until};

use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::engine::{Files, Found, JobControl, JobReport, Jobs, Kind, Range, Reads, Records, Snapshot};
use weir_model::parts::{Head, Life, RowType, cover_key};
use weir_model::{Batch, Change};

/// Parts of a row, by their subkeys.
type Parts = BTreeMap<Vec<u8>, Vec<u8>>;
type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
type Running = (Arc<JobControl>, BoxFuture<Result<JobReport>>);

struct World {
    rng: Rng,
    sim: Sim,
    fs: Arc<SimFs>,
    device: DeviceSpec,
    budget: Arc<Budget>,
    store: Arc<Store>,
    /// Batch `n` is log record `n + 1`.
    log: Vec<Batch>,
    /// What is applied, and what of it is visible.
    latest: Map,
    map: Map,
    /// The sequence numbers of batches that are not published yet, with what is visible then.
    unpublished: Vec<(u64, Map)>,
    snapshots: Vec<(Snapshot, Map)>,
    parked: Vec<Running>,
    jobs: [usize; 2],
    buried: usize,
    /// Rows of many parts: the version of each, and its parts.
    rows: BTreeMap<Vec<u8>, (u64, Parts)>,
}

/// Whether `key` is of a plain value.
fn is_plain(key: &[u8]) -> bool {
    key.starts_with(b"key")
}

async fn some_polls(clock: Arc<dyn Clock>, job: &mut Running, polls: u64) -> Option<Vec<Vec<u8>>> {
    for _ in 0..polls {
        match std::future::poll_fn(|cx| std::task::Poll::Ready(job.1.as_mut().poll(cx))).await {
            std::task::Poll::Ready(report) => return Some(report.expect("job").expired_keys),
            std::task::Poll::Pending => sleep_until(&clock, clock.now() + 20_000).await,
        }
    }
    None
}

fn open(sim: &Sim, fs: &Arc<SimFs>, budget: &Arc<Budget>, rng: &mut Rng) -> Arc<Store> {
    let env = Env {
        fs: Arc::clone(fs) as Arc<dyn Fs>,
        dir: PathBuf::from("/store"),
        owner: Owner { tenant: 1, partition: 1 },
        clock: sim.clock(),
        budget: Arc::clone(budget),
        salt: 7,
    };
    let options = StoreOptions { snapshot_log_bytes: 1 << (12 + rng.below(6)), io_bytes: 1 };
    let store = sim.block_on(Store::open(env, options)).expect("the store opens");
    sim.block_on(store.discard_unnamed()).expect("the log is whole");
    store
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        sim.set_unix_ms(1_000_000);
        let latency = if rng.chance(0.5) { 0 } else { 50_000 };
        let device = DeviceSpec { latency, ..DeviceSpec::instant() };
        let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
        let budget = Arc::new(Budget::new(u64::MAX));
        let store = open(&sim, &fs, &budget, &mut rng);
        Self {
            rng,
            sim,
            fs,
            device,
            budget,
            store,
            log: Vec::new(),
            latest: Map::new(),
            map: Map::new(),
            unpublished: Vec::new(),
            snapshots: Vec::new(),
            parked: Vec::new(),
            jobs: [0; 2],
            buried: 0,
            rows: BTreeMap::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(200);
        format!("key{number:0width$}", width = 1 + (number % 37) as usize).into_bytes()
    }

    fn apply(&mut self, batch: Batch) {
        for change in batch.as_ref().iter() {
            match change {
                Change::Put { key, .. } | Change::Delete { key } if !is_plain(key) => None,
                Change::Put { key, value, expire_at_ms } => {
                    self.latest.insert(key.to_vec(), (value.to_vec(), expire_at_ms.unwrap_or(0)))
                }
                Change::Delete { key } => self.latest.remove(key),
                // Rows of many parts have a model of their own.
                Change::Head { .. } | Change::Cover { .. } => None,
            };
        }
        self.log.push(batch);
        let applied = self.store.apply(self.log.len() as u64, self.log[self.log.len() - 1].as_ref());
        self.unpublished.push((applied.last_seq, self.latest.clone()));
    }

    fn write(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..=self.rng.below(4) {
            let key = self.key();
            if self.rng.chance(0.3) {
                batch.delete(&key);
                continue;
            }
            let long = self.rng.chance(0.01);
            let len = self.rng.below(if long { 200_000 } else { 300 });
            let value = vec![self.rng.next_u64() as u8; len as usize];
            let expire_at_ms = self.rng.chance(0.3).then(|| self.now_ms() + self.rng.below(2_000));
            batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
        }
        self.apply(batch);
    }

    /// Makes, changes or deletes a row of many parts.
    fn write_row(&mut self) {
        let key = [&[3], &[b'r', self.rng.below(6) as u8][..]].concat();
        let mut batch = Batch::new();
        let before = self.rows.remove(&key);
        if let Some((version, _)) = &before
            && self.rng.chance(0.4)
        {
            batch.delete(&key);
            batch.push(Change::Cover { key: &cover_key(*version), bytes: 1000 });
            self.apply(batch);
            return;
        }
        let (version, mut parts) = before.unwrap_or_else(|| (self.store.applied_seq() + 1, BTreeMap::new()));
        let head = Head::new(RowType::Hash, version).encode();
        batch.push(Change::Head { key: &key, head: &head, expire_at_ms: None });
        let life = Life::new(version);
        for _ in 0..self.rng.below(40) {
            let part = life.part(0, &[self.rng.below(100) as u8]);
            let value = vec![self.rng.next_u64() as u8; self.rng.below(50) as usize];
            batch.put(&part, &value);
            parts.insert(part, value);
        }
        self.rows.insert(key, (version, parts));
        self.apply(batch);
    }

    fn check_rows(&self) {
        for (key, (version, parts)) in &self.rows {
            assert!(self.store.holds_heads() && self.store.may_hold_head(key));
            let head = self.sim.block_on(self.store.get_latest(key)).expect("get").expect("a head");
            assert_eq!((head.kind, Head::decode(&head.value).map(|head| head.version)), (Kind::Head, Some(*version)));
            let (from, to) = Life::new(*version).space(0);
            let range = Range { from: Bound::Included(from), to: Bound::Excluded(to), reverse: false };
            let (mut scan, mut found) = (self.store.scan_latest(range), BTreeMap::new());
            while let Some(entry) = self.sim.block_on(scan.next()).expect("scan") {
                found.insert(entry.key.to_vec(), entry.value.to_vec());
            }
            assert!(found == *parts, "{key:?}: {} parts, {} expected", found.len(), parts.len());
        }
    }

    /// Commits come in order, one or several at a time.
    fn publish(&mut self, all: bool) {
        let count =
            if all { self.unpublished.len() } else { self.rng.below(self.unpublished.len() as u64 + 1) as usize };
        if let Some((seq, map)) = self.unpublished.drain(..count).next_back() {
            self.store.publish(seq);
            self.map = map;
        }
    }

    /// Deletes rows that a sweep has found expired, unless they were written anew.
    fn bury(&mut self, keys: Vec<Vec<u8>>) {
        let now_ms = self.now_ms();
        let mut batch = Batch::new();
        for key in keys {
            if self.latest.get(&key).is_some_and(|(_, expire)| *expire != 0 && *expire <= now_ms) {
                batch.delete(&key);
                self.buried += 1;
            }
        }
        if !batch.is_empty() {
            self.apply(batch);
        }
    }

    fn check_scan(&self, range: Range, snapshot: Option<&Snapshot>, map: &Map) {
        let now_ms = self.now_ms();
        let mut scan = self.store.scan(range.clone(), snapshot);
        let mut found = Vec::new();
        while let Some(entry) = self.sim.block_on(scan.next()).expect("scan") {
            if is_plain(entry.key) {
                found.push((entry.key.to_vec(), entry.value.to_vec()));
            }
        }
        assert!(scan.passed().entries >= found.len() as u64);
        let above = |key: &[u8]| match &range.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key >= from.as_slice(),
            Bound::Excluded(from) => key > from.as_slice(),
        };
        let below = |key: &[u8]| match &range.to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= to.as_slice(),
            Bound::Excluded(to) => key < to.as_slice(),
        };
        let lives = |expire: u64| expire == 0 || expire > now_ms;
        let inside = map.iter().filter(|(key, (_, expire))| lives(*expire) && above(key) && below(key));
        let mut wanted: Vec<_> = inside.map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        if range.reverse {
            wanted.reverse();
        }
        let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
        let keys = differs.map(|at| [&found[at].0, &wanted[at].0].map(|key| String::from_utf8_lossy(key).into_owned()));
        let counts = (found.len(), wanted.len());
        assert!(found == wanted, "{range:?} at {:?}: {counts:?} rows, {keys:?}", snapshot.map(Snapshot::seq));
    }

    fn range(&mut self) -> Range {
        let mut bound = || {
            let number = self.rng.below(200);
            match self.rng.below(3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(format!("key{number}").into_bytes()),
                _ => Bound::Excluded(format!("key{number:03}").into_bytes()),
            }
        };
        let (from, to) = (bound(), bound());
        Range { from, to, reverse: self.rng.chance(0.5) }
    }

    /// A forward scan in budgets sees every row once.
    fn check_budgets(&mut self) {
        let (mut range, mut found) = (Range::all(), Vec::new());
        loop {
            let mut scan = self.store.scan(range, None);
            scan.set_budget(1 + self.rng.below(40) as usize, 1 + self.rng.below(4_000));
            while let Some(entry) = self.sim.block_on(scan.next()).expect("scan") {
                found.extend(is_plain(entry.key).then(|| entry.key.to_vec()));
            }
            match scan.stopped_at() {
                Some(key) => range = Range::starting_at(&key),
                None => break,
            }
        }
        let now_ms = self.now_ms();
        let living = self.map.iter().filter(|(_, (_, expire))| *expire == 0 || *expire > now_ms);
        assert_eq!(found, living.map(|(key, _)| key.clone()).collect::<Vec<_>>());
    }

    fn check_gets(&mut self) {
        let key = self.key();
        let seen = |found: Option<Found>| found.map(|found| (found.value.to_vec(), found.expire_at_ms));
        let found = self.sim.block_on(self.store.get(&key, None)).expect("get");
        assert_eq!(seen(found).as_ref(), self.map.get(&key), "{key:?}");
        let found = self.sim.block_on(self.store.get_latest(&key)).expect("get");
        let put = found.filter(|found| found.kind == Kind::Put);
        assert_eq!(seen(put).as_ref(), self.latest.get(&key), "{key:?}");
        let keys: Vec<Vec<u8>> = (0..5).map(|_| self.key()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for (found, key) in self.store.multi_get(&keys).into_iter().zip(keys) {
            let found = self.sim.block_on(found).expect("get");
            assert_eq!(seen(found).as_ref(), self.map.get(key), "{key:?}");
        }
    }

    fn job(&mut self) {
        let parked = !self.parked.is_empty() && self.rng.chance(0.5);
        let mut job: Running = if parked {
            self.parked.swap_remove(0)
        } else {
            let Some(job) = self.store.next_flush().or_else(|| self.store.next_drop()) else { return };
            self.jobs[usize::from(job.facts().is_drop)] += 1;
            (job.control(), Box::pin(job.run()))
        };
        let polls = if self.rng.chance(0.5) { u64::MAX } else { self.rng.below(40) };
        match self.sim.block_on(some_polls(self.sim.clock(), &mut job, polls)) {
            Some(expired) => self.bury(expired),
            None if job.0.is_committing() => {
                let report = self.sim.block_on(job.1).expect("job");
                self.bury(report.expired_keys);
            }
            None if self.rng.chance(0.8) => self.parked.push(job),
            None => drop(job),
        }
    }

    fn finish_parked(&mut self) {
        for (_, job) in std::mem::take(&mut self.parked) {
            let report = self.sim.block_on(job).expect("job");
            self.bury(report.expired_keys);
        }
    }

    fn restart(&mut self, power_cut: bool) {
        self.snapshots.clear();
        if power_cut {
            let keep = [Keep::Random, Keep::None, Keep::All, Keep::Prefix][self.rng.below(4) as usize];
            let image = self.fs.crash_keeping(keep, &mut self.rng);
            let rng = self.rng.fork("disk");
            self.fs = SimFs::from_image(&image, self.sim.clock(), self.device, FaultPlan::none(), rng);
        }
        self.parked.clear();
        self.budget = Arc::new(Budget::new(u64::MAX));
        self.store = open(&self.sim, &self.fs, &self.budget, &mut self.rng);
        let persisted = self.store.persisted() as usize;
        assert!(persisted <= self.log.len());
        for (index, batch) in self.log.iter().enumerate().skip(persisted) {
            let applied = self.store.apply(index as u64 + 1, batch.as_ref());
            self.store.publish(applied.last_seq);
        }
        self.unpublished.clear();
        self.map = self.latest.clone();
    }

    /// When nobody reads and everything is published, the counts are those of what is there.
    fn check_memory(&mut self) {
        self.publish(true);
        self.snapshots.clear();
        self.finish_parked();
        self.publish(true);
        let fresh = Arc::new(Budget::new(u64::MAX));
        let fs = SimFs::new(self.sim.clock(), DeviceSpec::instant(), FaultPlan::none(), self.rng.fork("other"));
        let other = open(&self.sim, &fs, &fresh, &mut self.rng);
        let mut batch = Batch::new();
        for (key, (value, expire)) in &self.latest {
            let expire_at_ms = (*expire != 0).then_some(*expire);
            batch.push(Change::Put { key, value, expire_at_ms });
        }
        for (key, (version, parts)) in &self.rows {
            let head = Head::new(RowType::Hash, *version).encode();
            batch.push(Change::Head { key, head: &head, expire_at_ms: None });
            parts.iter().for_each(|(part, value)| batch.put(part, value));
        }
        other.apply(1, batch.as_ref());
        // Each write frees a few rows; a deletion of nothing is a write.
        for _ in 0..1_000 {
            let mut batch = Batch::new();
            batch.delete(b"nothing");
            self.apply(batch);
            self.publish(true);
        }
        let counted = (self.store.memory_bytes(), self.store.rows(), self.budget.used());
        assert_eq!(counted, (other.memory_bytes(), other.rows(), fresh.used()));
        assert_eq!(other.memory_bytes()[1], 0);
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..40 => self.write(),
            40..44 => self.write_row(),
            44 => self.check_rows(),
            45..62 => self.publish(false),
            62..64 => self.store.seal(),
            64..78 => self.job(),
            78..84 => self.check_gets(),
            84..89 => {
                let range = self.range();
                self.check_scan(range, None, &self.map);
            }
            89..91 => self.snapshots.push((self.store.snapshot(), self.map.clone())),
            91..93 => {
                if !self.snapshots.is_empty() {
                    let index = self.rng.below(self.snapshots.len() as u64) as usize;
                    let (snapshot, map) = self.snapshots.swap_remove(index);
                    let range = self.range();
                    self.check_scan(range, Some(&snapshot), &map);
                }
            }
            93..95 => {
                let later = self.now_ms() + self.rng.below(2_000);
                self.sim.set_unix_ms(later);
            }
            95 => self.check_budgets(),
            96 => self.check_memory(),
            97 => self.restart(false),
            98 => self.restart(true),
            _ => self.sim.block_on(self.store.tidy()).expect("tidy"),
        }
    }

    /// Everything that lives.
    fn entries(&self) -> u64 {
        self.latest.len() as u64 + self.rows.values().map(|(_, parts)| 1 + parts.len() as u64).sum::<u64>()
    }

    fn end(&mut self) {
        self.check_memory();
        self.store.seal();
        while let Some(job) = self.store.next_flush() {
            self.sim.block_on(job.run()).expect("job");
        }
        assert_eq!(self.store.persisted(), self.log.len() as u64);
        self.sim.block_on(self.store.tidy()).expect("tidy");
        let fs = Arc::clone(&self.fs) as Arc<dyn Fs>;
        let report = self.sim.block_on(weir_memory::check::check(&fs, "/store".as_ref(), |_, _| ())).expect("check");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!((report.orphans, report.entries), (Vec::<String>::new(), self.entries()));
        self.restart(true);
        assert_eq!(self.store.persisted(), self.log.len() as u64, "nothing is left to replay");
        self.check_scan(Range::all(), None, &self.map);
    }
}

fn run(seed: u64, steps: usize) -> ([usize; 2], usize) {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    world.end();
    (world.jobs, world.buried)
}

#[test]
fn many_days() {
    let (mut jobs, mut buried) = ([0; 2], 0);
    for seed in 0..60 {
        let (begun, deleted) = run(seed, 400);
        jobs = [jobs[0] + begun[0], jobs[1] + begun[1]];
        buried += deleted;
    }
    assert!(jobs[0] > 200 && jobs[1] > 40 && buried > 80, "{jobs:?} jobs, {buried} expired rows deleted");
}

#[test]
fn a_long_day() {
    run(77_777, 6_000);
}
