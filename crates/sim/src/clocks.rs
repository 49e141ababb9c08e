//! Wall clocks that jump: by up to ten years, forwards and back, while a node runs and while it is down.
//!
//! Two questions are asked. [`jump`]: is a key there for as long as the clock says and no longer, and does a key that
//! was found gone stay gone when the clock is set back? [`indifferent`]: does anything but the end of keys look at the
//! wall clock? A day with jumps has to be, event by event, the day without them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{Fs, Rng, sleep_until};
use weir_log::SyncMode;
use weir_model::engine::Range;
use weir_model::{Batch, Change};
use weir_node::{EngineKind, Machine, Node, NodeConfig, PartitionSlot, TenantName};

use crate::node_store::small;
use crate::runner::Tally;
use crate::workload::{Mix, Workload};

/// The farthest jump, in milliseconds.
const JUMP_MS_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;
/// Where the wall clock begins.
const UNIX_MS: u64 = 1_767_225_600_000;
const KEYS: u64 = 24;

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jumps {
    /// Jumps of the wall clock.
    pub jumps: u64,
    /// How many of the jumps went back.
    pub back: u64,
    /// Restarts.
    pub restarts: u64,
    /// Keys read.
    pub reads: u64,
    /// Reads that found their key expired.
    pub expired: u64,
    /// Reads of keys that were kept from returning: the key was found gone before, though the clock now says that it
    /// lives.
    pub buried: u64,
}

impl Tally for Jumps {
    fn merge(&mut self, other: Self) {
        self.jumps += other.jumps;
        self.back += other.back;
        self.restarts += other.restarts;
        self.reads += other.reads;
        self.expired += other.expired;
        self.buried += other.buried;
    }
}

impl fmt::Display for Jumps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { jumps, back, restarts, reads, expired, buried } = self;
        write!(f, "{jumps} jumps ({back} back), {restarts} restarts, {reads} reads: {expired} found expired, ")?;
        write!(f, "{buried} kept from returning, 0 wrong")
    }
}

/// What is known of a key.
struct Known {
    value: Vec<u8>,
    expire_at_ms: Option<u64>,
    /// A merge may have met it after its deadline: since it was written the clock has once shown such a time.
    may_be_merged: bool,
    /// Somebody asked for it, and it was not there.
    is_gone: bool,
}

/// The world of one seed.
struct Day {
    rng: Rng,
    sim: Sim,
    disk: Arc<SimFs>,
    known: BTreeMap<Vec<u8>, Known>,
    writes: u64,
    figures: Jumps,
}

/// Runs a node through the days of `seed`, while its clock is set again and again.
///
/// # Errors
/// A key is missing before its deadline, still there after it, or there again.
pub fn jump(seed: u64, lives: u64, steps: u64) -> Result<Jumps, String> {
    let mut rng = Rng::new(seed);
    let mut config = small([SyncMode::Always, SyncMode::Interval, SyncMode::None][(seed % 3) as usize]);
    config.engine = EngineKind::ALL[(seed / 3) as usize % EngineKind::ALL.len()];
    let (mut image, mut unix_ms) = (DiskImage::new(), UNIX_MS);
    let (mut known, mut figures, mut writes) = (BTreeMap::new(), Jumps::default(), 0);
    for life in 0..lives {
        let sim = Sim::new(rng.next_u64());
        // A jump while the node was down.
        if rng.chance(0.5) {
            unix_ms = jumped(&mut rng, unix_ms, &mut figures);
        }
        sim.set_unix_ms(unix_ms);
        let disk = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
        let mut day = Day { rng: rng.fork("day"), sim, disk, known, writes, figures };
        day.saw();
        let close = rng.chance(0.5);
        // In mode `none` a kill may take what was written; another test covers that.
        let close = close || config.sync == SyncMode::None;
        day.live(&config, steps, close, rng.next_u64()).map_err(|story| format!("life {life}: {story}"))?;
        unix_ms = day.sim.clock().unix_ms();
        image = day.disk.crash_keeping(Keep::All, &mut rng);
        (known, figures, writes) = (day.known, day.figures, day.writes);
        figures.restarts += 1;
    }
    Ok(figures)
}

fn jumped(rng: &mut Rng, unix_ms: u64, figures: &mut Jumps) -> u64 {
    let span = [1_000, 60_000, 3_600_000, JUMP_MS_MAX][rng.below(4) as usize];
    let (distance, is_back) = (rng.below(span), rng.chance(0.5));
    figures.jumps += 1;
    figures.back += u64::from(is_back);
    // Jumps do not go back beyond 1990.
    if is_back { unix_ms.saturating_sub(distance).max(UNIX_MS / 3) } else { unix_ms + distance }
}

impl Day {
    /// Notes that a merge may have seen whatever time the clock shows now.
    fn saw(&mut self) {
        let now = self.now_ms();
        for known in self.known.values_mut() {
            known.may_be_merged |= known.expire_at_ms.is_some_and(|at| at <= now);
        }
    }

    fn now_ms(&self) -> u64 {
        self.sim.clock().unix_ms()
    }

    fn live(&mut self, config: &NodeConfig, steps: u64, close: bool, salt: u64) -> Result<(), String> {
        let fs = Arc::clone(&self.disk) as Arc<dyn Fs>;
        let machine = Machine { fs, clock: self.sim.clock(), spawn: self.sim.spawner(), salt };
        let node = self.sim.block_on(Node::open(config, machine)).map_err(|error| error.to_string())?;
        let tenant = node.tenant(&TenantName::built_in()).ok_or("there is no tenant")?;
        let slot = &tenant.partitions()[0];
        self.check_all(slot)?;
        for _ in 0..steps {
            self.step(slot)?;
            self.saw();
        }
        self.check_all(slot)?;
        // A deletion by a read is as durable as any write once the log is synced.
        self.pass(300);
        self.saw();
        if close { self.sim.block_on(node.close()).map_err(|error| error.to_string()) } else { Ok(()) }
    }

    fn pass(&self, ms: u64) {
        let clock = self.sim.clock();
        self.sim.block_on(sleep_until(&clock, clock.now() + ms * 1_000_000));
    }

    fn step(&mut self, slot: &Arc<PartitionSlot>) -> Result<(), String> {
        let key = format!("key {:02}", self.rng.below(KEYS)).into_bytes();
        match self.rng.below(20) {
            0..7 => {
                let expire_at_ms = self.deadline();
                self.put(slot, key, expire_at_ms)
            }
            // As PERSIST, EXPIRE and their kin do: the value again, with another deadline.
            7 | 8 if self.read(slot, &key)? => {
                let expire_at_ms = if self.rng.chance(0.4) { None } else { self.deadline() };
                self.put(slot, key, expire_at_ms)
            }
            9 => {
                self.known.remove(&key);
                let mut batch = Batch::new();
                batch.delete(&key);
                self.write(slot, &batch)
            }
            10..14 => self.read(slot, &key).map(drop),
            14 => self.scan(slot),
            15 => {
                let seal = async { slot.partition().await.map(|partition| partition.seal()) };
                self.sim.block_on(seal).map_err(|error| error.to_string())
            }
            16 => {
                self.sim.block_on(slot.sleep());
                Ok(())
            }
            17 | 18 => {
                let now_ms = self.now_ms();
                let unix_ms = jumped(&mut self.rng, now_ms, &mut self.figures);
                self.sim.set_unix_ms(unix_ms);
                Ok(())
            }
            _ => {
                let ms = self.rng.below(2_000);
                self.pass(ms);
                Ok(())
            }
        }
    }

    /// A deadline: mostly soon by the clock as it is set now, sometimes years ahead.
    fn deadline(&mut self) -> Option<u64> {
        let span = [2_000, 120_000, 7_200_000, 2 * JUMP_MS_MAX][self.rng.below(4) as usize];
        let ahead = 1 + self.rng.below(span);
        self.rng.chance(0.8).then(|| self.now_ms() + ahead)
    }

    fn put(&mut self, slot: &Arc<PartitionSlot>, key: Vec<u8>, expire_at_ms: Option<u64>) -> Result<(), String> {
        self.writes += 1;
        let mut value = format!("#{}", self.writes).into_bytes();
        value.resize(20 + self.rng.below(300) as usize, b'.');
        let mut batch = Batch::new();
        batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
        self.write(slot, &batch)?;
        self.known.insert(key, Known { value, expire_at_ms, may_be_merged: false, is_gone: false });
        Ok(())
    }

    fn write(&self, slot: &Arc<PartitionSlot>, batch: &Batch) -> Result<(), String> {
        let written = async { slot.partition().await?.write(batch).await?.await };
        self.sim.block_on(written).map_err(|error| error.to_string())
    }

    fn check_all(&mut self, slot: &Arc<PartitionSlot>) -> Result<(), String> {
        self.scan(slot)?;
        for number in 0..KEYS {
            self.read(slot, format!("key {number:02}").as_bytes())?;
        }
        Ok(())
    }

    /// Whether the value found may be there between the moments `from` and `to` of the wall clock.
    fn judge(&self, key: &[u8], found: Option<&[u8]>, [from, to]: [u64; 2]) -> Result<(), String> {
        let Some(known) = self.known.get(key) else {
            return found.map_or(Ok(()), |_| Err("there, although it was never written, or deleted".into()));
        };
        let Known { value, expire_at_ms, may_be_merged, is_gone } = known;
        let times = format!("deadline {expire_at_ms:?}, the clock shows {to}");
        match found {
            Some(found) if found != value => Err("another value".into()),
            Some(_) if *is_gone => Err(format!("there again: {times}")),
            Some(_) if expire_at_ms.is_some_and(|at| at <= from) => Err(format!("there after its deadline: {times}")),
            Some(_) => Ok(()),
            None if *is_gone || *may_be_merged || expire_at_ms.is_some_and(|at| at <= to) => Ok(()),
            None => Err(format!("missing before its deadline: {times}")),
        }
    }

    /// Asks for a key, and returns whether it is there.
    fn read(&mut self, slot: &Arc<PartitionSlot>, key: &[u8]) -> Result<bool, String> {
        let from = self.now_ms();
        let read = async { slot.partition().await?.get(key).await };
        let found = self.sim.block_on(read).map_err(|error| error.to_string())?;
        let found = found.and_then(|record| Some(record.value()?.to_vec()));
        let to = self.now_ms();
        let judged = self.judge(key, found.as_deref(), [from, to]);
        judged.map_err(|wrong| format!("{}: {wrong}", String::from_utf8_lossy(key)))?;
        self.figures.reads += 1;
        if let (Some(known), None) = (self.known.get_mut(key), &found) {
            let lives = known.expire_at_ms.is_none_or(|at| at > to);
            self.figures.buried += u64::from(known.is_gone && lives);
            self.figures.expired += u64::from(!lives);
            known.is_gone = true;
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, slot: &Arc<PartitionSlot>) -> Result<(), String> {
        let from = self.now_ms();
        let scanned = async {
            let mut scan = slot.partition().await?.scan(Range::all()).await?;
            let mut found = BTreeMap::new();
            while let Some(entry) = scan.next().await? {
                found.insert(entry.key.to_vec(), entry.value.to_vec());
            }
            Ok::<_, weir_io::Error>(found)
        };
        let found = self.sim.block_on(scanned).map_err(|error| error.to_string())?;
        let times = [from, self.now_ms()];
        for key in self.known.keys().chain(found.keys()) {
            let judged = self.judge(key, found.get(key).map(Vec::as_slice), times);
            judged.map_err(|wrong| format!("{}, in a scan: {wrong}", String::from_utf8_lossy(key)))?;
        }
        Ok(())
    }
}

/// A fingerprint of everything that happens in the day of `seed`, on disk and among tasks: reads, writes, sleep,
/// policies, gates. With `jumps` the wall clock is set again and again; with `expiry` some keys expire, and these may
/// notice.
fn fingerprint(seed: u64, jumps: bool, expiry: bool) -> Result<[u64; 2], String> {
    let mut rng = Rng::new(seed);
    let sim = Sim::new(seed);
    let device =
        DeviceSpec { latency: 50_000, sync_latency: 300_000, parallelism: 4, ..DeviceSpec::shared(50_000_000) };
    let disk = SimFs::new(sim.clock(), device, FaultPlan::none(), rng.fork("disk"));
    let config = NodeConfig { hibernate_after: 2_000_000_000, ..small(SyncMode::Interval) };
    let machine = Machine { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let mut workload = Workload::new(rng.fork("workload"), Mix { expiry, ..Mix::CRASH });
    let mut chance = rng.fork("jumps");
    let mut day = async || -> weir_io::Result<()> {
        let node = Node::open(&config, machine.clone()).await?;
        let tenant = node.tenant(&TenantName::built_in()).expect("made at the first start");
        let slot = &tenant.partitions()[0];
        for _ in 0..300 {
            let unix_ms = jumped(&mut chance, sim.clock().unix_ms(), &mut Jumps::default());
            if jumps {
                sim.set_unix_ms(unix_ms);
            }
            let partition = slot.partition().await?;
            partition.write(&workload.batch(UNIX_MS)).await?.await?;
            partition.get(&workload.key()).await?;
            drop(partition);
            let clock = sim.clock();
            let pause = if rng.chance(0.02) { 5_000 } else { rng.below(60) };
            sleep_until(&clock, clock.now() + pause * 1_000_000).await;
        }
        node.close().await
    };
    sim.block_on(day()).map_err(|error| error.to_string())?;
    Ok([sim.event_hash(), disk.event_hash()])
}

/// Lives the day of `seed` with and without jumps of the wall clock; with `expiry`, keys may expire.
///
/// # Errors
/// The days differ: something looks at the wall clock. With `expiry` they are meant to differ.
pub fn indifferent(seed: u64, expiry: bool) -> Result<(), String> {
    match (fingerprint(seed, false, expiry)?, fingerprint(seed, true, expiry)?) {
        (calm, jumpy) if calm == jumpy => Ok(()),
        _ => Err("the day is another one where the wall clock jumps".into()),
    }
}
