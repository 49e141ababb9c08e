//! What every engine must keep, whichever it is: random days, compared with a map of all versions.
//!
//! A day has batches, some of them not yet published; reads of one key, of several and of ranges in both directions,
//! now, at what is applied and at snapshots; jobs that run to their end, halfway, or not at all; time that passes; and
//! restarts, after which the log is replayed from where the engine says.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Rng, Unbooked};
use weir_model::Batch;
use weir_model::Change;
use weir_model::engine::{Engine, EngineKind, Entry, Found, Job, Range, Scan, ScanStep, Seq, Snapshot};

use super::{BlockCache, EngineChoice, Opening, open};
use crate::NodeConfig;

const KEYS: u64 = 40;
const STEPS: usize = 600;
const SEEDS: u64 = 120;

type Key = Vec<u8>;
/// What a change left at a key: a value and when it expires (0 = never), or nothing.
type Left = Option<(Vec<u8>, u64)>;

struct World {
    sim: Sim,
    fs: Arc<dyn Fs>,
    choice: EngineChoice,
    config: NodeConfig,
    engine: Arc<dyn Engine>,
    rng: Rng,
    /// Every record, from the first on.
    log: Vec<Batch>,
    /// Versions of each key, the oldest first.
    history: BTreeMap<Key, Vec<(Seq, Left)>>,
    snapshots: Vec<Snapshot>,
}

fn config() -> NodeConfig {
    let mut config = NodeConfig { cache_bytes: 64 << 10, ..NodeConfig::new("/engine") };
    config.tree.write_buffer_bytes = 4 << 10;
    config.tree.level1_bytes = 16 << 10;
    config.tree.table_bytes = 8 << 10;
    config.tree.block_bytes = 512;
    config.tree.l0_gather = config.tree.l0_trigger;
    config.store.snapshot_log_bytes = 8 << 10;
    config
}

fn opened(sim: &Sim, fs: &Arc<dyn Fs>, choice: &EngineChoice, config: &NodeConfig) -> Arc<dyn Engine> {
    let opening = Opening {
        fs,
        dir: &config.dir,
        owner: Owner { tenant: 1, partition: 1 },
        cache: BlockCache::new(config.cache_bytes, 1),
        clock: &sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    };
    sim.block_on(open(opening, choice, config)).expect("no faults")
}

impl World {
    fn new(seed: u64, kind: EngineKind) -> Self {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
        let (choice, config) = (EngineChoice::new(kind, 0), config());
        let engine = opened(&sim, &fs, &choice, &config);
        let rng = sim.rng().fork("day");
        let (log, history, snapshots) = Default::default();
        Self { sim, fs, choice, config, engine, rng, log, history, snapshots }
    }

    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn key(&mut self) -> Key {
        format!("key {:03}", self.rng.below(KEYS)).into_bytes()
    }

    /// Applies `batch` as the next record of the log.
    fn apply(&mut self, batch: Batch) {
        let applied = self.engine.apply(self.log.len() as u64 + 1, batch.as_ref());
        let first = applied.last_seq + 1 - batch.len() as u64;
        for (seq, change) in (first..).zip(batch.as_ref().iter()) {
            let left = match change {
                Change::Put { value, expire_at_ms, .. } => Some((value.to_vec(), expire_at_ms.unwrap_or(0))),
                _ => None,
            };
            self.history.entry(change.key().to_vec()).or_default().push((seq, left));
        }
        self.log.push(batch);
    }

    fn write(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..=self.rng.below(6) {
            let key = self.key();
            if self.rng.chance(0.2) {
                batch.delete(&key);
                continue;
            }
            let value = vec![self.log.len() as u8; self.rng.below(300) as usize];
            let expire_at_ms = self.rng.chance(0.3).then(|| self.now_ms() + 1 + self.rng.below(2_000));
            batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
        }
        self.apply(batch);
        if self.rng.chance(0.7) {
            self.engine.publish(self.engine.applied_seq());
        }
    }

    /// The living value of `key` as of `at`.
    fn wanted(&self, key: &[u8], at: Seq) -> Option<Vec<u8>> {
        let versions = self.history.get(key)?;
        let (_, left) = versions.iter().rev().find(|(seq, _)| *seq <= at)?;
        let (value, expire_at_ms) = left.as_ref()?;
        (*expire_at_ms == 0 || *expire_at_ms > self.now_ms()).then(|| value.clone())
    }

    fn living(&self, found: Option<Found>) -> Option<Vec<u8>> {
        let found = found.filter(|found| found.kind.is_value() && !found.is_expired(self.now_ms()))?;
        Some(found.value.to_vec())
    }

    fn read(&mut self) {
        let keys: Vec<Key> = (0..1 + self.rng.below(5)).map(|_| self.key()).collect();
        for key in &keys {
            let published = self.sim.block_on(self.engine.get(key, None)).expect("no faults");
            assert_eq!(self.living(published), self.wanted(key, self.engine.published()));
            let latest = self.sim.block_on(self.engine.get_latest(key)).expect("no faults");
            assert_eq!(self.living(latest), self.wanted(key, self.engine.applied_seq()));
            let mut seen = None;
            self.engine.see_latest(key, &mut |entry| {
                let living = entry.filter(|entry| entry.kind.is_value() && !entry.is_expired(self.now_ms()));
                seen = Some(living.map(|entry| entry.value.to_vec()));
            });
            let is_in_memory = self.choice.kind() == EngineKind::Memory;
            assert_eq!(seen, is_in_memory.then(|| self.wanted(key, self.engine.applied_seq())));
            for snapshot in &self.snapshots {
                let found = self.sim.block_on(self.engine.get(key, Some(snapshot))).expect("no faults");
                assert_eq!(self.living(found), self.wanted(key, snapshot.seq()));
            }
        }
        let words: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        self.engine.prefetch(&words);
        for (key, lookup) in words.iter().zip(self.engine.multi_get(&words)) {
            let found = self.sim.block_on(lookup).expect("no faults");
            assert_eq!(self.living(found), self.wanted(key, self.engine.published()));
        }
    }

    fn scan(&mut self) {
        let (one, other, reverse) = (self.key(), self.key(), self.rng.chance(0.5));
        let (from, to) = if one <= other { (one, other) } else { (other, one) };
        let range = Range { from: Bound::Included(from.clone()), to: Bound::Excluded(to.clone()), reverse };
        let (published, applied) = (self.engine.published(), self.engine.applied_seq());
        let now = (self.engine.scan(range.clone(), None), published);
        let latest = (self.engine.scan_latest(range.clone()), applied);
        let held =
            self.snapshots.iter().map(|snapshot| (self.engine.scan(range.clone(), Some(snapshot)), snapshot.seq()));
        let scans: Vec<(Scan, Seq)> = [now, latest].into_iter().chain(held).collect();
        for (scan, at) in scans {
            let got = self.rows(scan, reverse);
            let keys = self.history.keys().filter(|key| (&from..&to).contains(key));
            let mut wanted: Vec<_> = keys.filter_map(|key| Some((key.clone(), self.wanted(key, at)?))).collect();
            if reverse {
                wanted.reverse();
            }
            assert_eq!(got, wanted, "at {at}, {published} published, {applied} applied");
        }
    }

    /// All that `scan` finds: some of it step by step, some shown, some after a stop.
    fn rows(&mut self, mut scan: Scan, reverse: bool) -> Vec<(Key, Vec<u8>)> {
        let mut rows: Vec<(Key, Vec<u8>)> = Vec::new();
        loop {
            if self.rng.chance(0.2) {
                scan.set_budget(1 + self.rng.below(20) as usize, 1 + self.rng.below(4_000));
            }
            if self.rng.chance(0.5) {
                let mut left = 1 + self.rng.below(12);
                let mut see = |entry: Entry<'_>| {
                    rows.push((entry.key.to_vec(), entry.value.to_vec()));
                    left -= 1;
                    left > 0
                };
                while scan.show(&mut see) == ScanStep::Load {
                    self.sim.block_on(scan.load()).expect("no faults");
                }
                if left == 0 {
                    continue;
                }
            } else if let Some(entry) = self.sim.block_on(scan.next()).expect("no faults") {
                rows.push((entry.key.to_vec(), entry.value.to_vec()));
                continue;
            }
            let Some(stopped_at) = scan.stopped_at() else { return rows };
            assert!(
                rows.iter().all(|(key, _)| (*key >= stopped_at) == reverse),
                "what is left is behind what was seen"
            );
            scan.set_budget(usize::MAX, u64::MAX);
        }
    }

    fn next_job(&self) -> Option<Job> {
        self.engine.next_flush().or_else(|| self.engine.next_drop()).or_else(|| self.engine.next_compaction())
    }

    fn work(&mut self) {
        if self.rng.chance(0.3) {
            self.engine.seal();
        }
        let Some(job) = self.next_job() else { return };
        if self.rng.chance(0.2) {
            // Cancelled, perhaps in the middle.
            let control = job.control();
            let mut run = pin!(job.run());
            for _ in 0..self.rng.below(4) {
                if run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                    return;
                }
            }
            if control.is_committing() {
                self.sim.block_on(run).expect("no faults");
            }
            return;
        }
        let report = self.sim.block_on(job.run()).expect("no faults");
        // Whoever runs a job deletes the rows that it has found expired.
        for key in report.expired_keys {
            let is_gone = self.wanted(&key, self.engine.applied_seq()).is_none();
            assert!(is_gone, "{} has not expired", key.escape_ascii());
            let mut burial = Batch::new();
            burial.delete(&key);
            self.apply(burial);
        }
    }

    /// Closes the engine without notice, as a crash does after a sync, and opens it again.
    fn restart(&mut self) {
        self.snapshots.clear();
        let persisted = self.engine.persisted();
        assert!(persisted <= self.log.len() as u64);
        // Its jobs are gone, and nobody else holds it.
        self.engine = opened(&self.sim, &self.fs, &self.choice, &self.config);
        assert!(self.engine.persisted() >= persisted, "what was in files is in files");
        for (index, record) in self.log.iter().enumerate().skip(self.engine.persisted() as usize) {
            self.engine.apply(index as u64 + 1, record.as_ref());
        }
        self.engine.publish(self.engine.applied_seq());
        self.sim.block_on(self.engine.discard_unnamed()).expect("no faults");
        // Sequence numbers begin anew: only the newest version of each key is left.
        for versions in self.history.values_mut() {
            let newest = versions.pop().map(|(_, left)| (0, left));
            *versions = newest.into_iter().collect();
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => self.write(),
            8..11 => self.read(),
            11..14 => self.scan(),
            14..17 => self.work(),
            17 => {
                if self.rng.chance(0.5) {
                    self.snapshots.push(self.engine.snapshot());
                } else {
                    self.snapshots.pop();
                }
            }
            18 => self.sim.run_until(self.sim.now() + self.rng.below(800) * 1_000_000),
            _ if self.rng.chance(0.2) => self.restart(),
            _ => {}
        }
    }
}

#[test]
fn every_engine_keeps_the_contract() {
    for kind in EngineKind::ALL {
        for seed in 0..SEEDS {
            let mut world = World::new(seed, kind);
            (0..STEPS).for_each(|_| world.step());
            world.restart();
            world.read();
            world.scan();
            // At rest: everything goes into files, and the log is needed no more.
            world.engine.set_eager(true);
            world.engine.seal();
            while let Some(job) = world.next_job() {
                world.sim.block_on(job.run()).expect("no faults");
            }
            assert_eq!(world.engine.persisted(), world.log.len() as u64, "{kind}, seed {seed}");
            let facts = world.engine.facts();
            assert!(facts.is_settled() && !world.engine.has_unsealed(), "{kind}, seed {seed}: {facts:?}");
            assert!(!world.engine.has_garbage(), "{kind}, seed {seed}: whoever ended has tidied up");
            world.scan();
        }
    }
}
