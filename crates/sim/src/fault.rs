//! I/O that fails while the power is on: the nth I/O, for every n, and syncs that fail again and again.
//!
//! A write that failed may have happened or not, and the client cannot know. So each key has *candidates*: what was
//! last acknowledged, and every failed write since. A reader must see a candidate. Besides, nothing may panic or hang,
//! reads go on, writes are accepted again without a restart once the cause is gone, and what was acknowledged survives
//! a power cut.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Clock, ErrorKind, Nanos, Rng, sleep_until};
use weir_model::{Batch, Change};

use crate::life::Promise;
use crate::model::Visible;
use crate::runner::Tally;
use crate::span::Span;
use crate::store::{Store, World};
use crate::workload::{Mix, Workload};

/// The candidates of each key.
#[derive(Clone, Debug, Default)]
struct Candidates(BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>);

impl Candidates {
    fn note(&mut self, batch: &Batch, acknowledged: bool) {
        for change in batch.as_ref().iter() {
            let value = match change {
                Change::Put { value, .. } => Some(value.to_vec()),
                Change::Delete { .. } | Change::Head { .. } | Change::Cover { .. } => None,
            };
            let candidates = self.0.entry(change.key().to_vec()).or_insert_with(|| vec![None]);
            if acknowledged {
                candidates.clear();
            }
            candidates.push(value);
        }
    }

    fn allow(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        match self.0.get(key) {
            Some(candidates) => candidates.iter().any(|candidate| candidate.as_deref() == value),
            None => value.is_none(),
        }
    }

    fn judge(&self, found: &Visible) -> Result<(), String> {
        let found: BTreeMap<&[u8], &[u8]> = found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let keys = self.0.keys().map(Vec::as_slice).chain(found.keys().copied());
        for key in keys {
            let value = found.get(key).copied();
            if !self.allow(key, value) {
                let shown = value.map(|value| String::from_utf8_lossy(&value[..value.len().min(16)]));
                return Err(format!("key {:?} shows {shown:?}, which is no candidate", String::from_utf8_lossy(key)));
            }
        }
        Ok(())
    }
}

/// How an I/O fails, and which I/Os can fail in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Any I/O: EIO.
    Error,
    /// Any I/O that needs space: ENOSPC.
    NoSpace,
    /// A write writes its first sectors and fails.
    ShortWrite,
    /// A read returns one wrong bit.
    FlippedRead,
    /// A sync of a file fails and forgets what it was to make durable.
    Sync,
    /// A sync of a directory fails.
    SyncDir,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 6] = [Way::Error, Way::NoSpace, Way::ShortWrite, Way::FlippedRead, Way::Sync, Way::SyncDir];

    /// The kind of I/O that fails, `None` for any, and what happens to it.
    fn hits(self) -> (Option<OpKind>, Fault) {
        match self {
            Way::Error => (None, Fault::Error),
            Way::NoSpace => (None, Fault::NoSpace),
            Way::ShortWrite => (Some(OpKind::Write), Fault::ShortWrite),
            Way::FlippedRead => (Some(OpKind::Read), Fault::FlipBit),
            Way::Sync => (Some(OpKind::Sync), Fault::Error),
            Way::SyncDir => (Some(OpKind::SyncDir), Fault::Error),
        }
    }

    fn plan(self, nth: u64) -> FaultPlan {
        let (kind, fault) = self.hits();
        FaultPlan::none().fail_nth(kind, nth, fault)
    }
}

/// The figures of one or more runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Runs.
    pub runs: u64,
    /// Runs in which the fault was felt: an opening, a read or a write failed.
    pub felt: u64,
    /// Writes acknowledged.
    pub acknowledged: u64,
    /// Writes answered with an error.
    pub refused: u64,
    /// Syncs that were made to fail.
    pub failed_syncs: u64,
}

impl Tally for Faults {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.felt += other.felt;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.failed_syncs += other.failed_syncs;
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, felt, acknowledged, refused, failed_syncs } = self;
        write!(f, "{runs} runs ({felt} felt it), {acknowledged} writes acknowledged, {refused} refused")?;
        if *failed_syncs > 0 { write!(f, ", {failed_syncs} syncs failed") } else { Ok(()) }
    }
}

/// Virtual time a store may take to accept writes again.
const RESUME_WITHIN: Nanos = 60_000_000_000;

/// How many I/Os of the workload of `seed` can fail in the way `way`: each `n` below that number is worth failing.
pub fn operations<S: Store>(
    seed: u64,
    steps: usize,
    options: &S::Options,
    promise: Promise,
    way: Way,
) -> Result<u64, String> {
    let disk = one_run::<S>(seed, steps, options, promise, FaultPlan::none())?.1;
    let counters = disk.counters();
    let of_way = |kind: &&OpKind| way.hits().0.is_none_or(|only| only == **kind);
    Ok(OpKind::ALL.iter().filter(of_way).map(|kind| counters.total(*kind).ops).sum())
}

/// The workload of `seed` with the `nth` of the I/Os that can fail in the way `way` failing.
pub fn fail_nth<S: Store>(
    seed: u64,
    steps: usize,
    options: &S::Options,
    promise: Promise,
    way: Way,
    nth: u64,
) -> Result<Faults, String> {
    one_run::<S>(seed, steps, options, promise, way.plan(nth)).map(|(faults, _)| faults)
}

/// The workload of `seed` with syncs, of files and through O_DSYNC, failing by chance.
pub fn failing_syncs<S: Store>(
    seed: u64,
    steps: usize,
    options: &S::Options,
    promise: Promise,
) -> Result<Faults, String> {
    let plan = FaultPlan::none().chance(OpKind::Sync, Fault::Error, 0.1).chance(OpKind::Write, Fault::Error, 0.02);
    one_run::<S>(seed, steps, options, promise, plan).map(|(faults, _)| faults)
}

/// How a run ends. Where acknowledgements are durable, the power goes, half of the time before the kernel has written
/// anything by itself. Elsewhere the process is killed.
fn draw_keep(promise: Promise, rng: &mut Rng) -> Keep {
    match promise {
        Promise::Durable if rng.chance(0.5) => Keep::None,
        Promise::Durable => Keep::Random,
        Promise::Within(_) | Promise::Nothing => Keep::All,
    }
}

fn one_run<S: Store>(
    seed: u64,
    steps: usize,
    options: &S::Options,
    promise: Promise,
    plan: FaultPlan,
) -> Result<(Faults, Arc<SimFs>), String> {
    let mut rng = Rng::new(seed);
    let mut candidates = Candidates::default();
    let mut faults = Faults { runs: 1, ..Faults::default() };
    let sim = Sim::new(seed);
    sim.set_time_limit(10 * RESUME_WITHIN);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), plan, rng.fork("disk"));
    disk.record_events();
    let world = World { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let workload = Workload::new(rng.fork("workload"), Mix { expiry: false, ..Mix::CRASH });
    let used = use_while_failing::<S>(&world, options, &disk, workload, steps, &mut candidates, &mut faults);
    sim.block_on(used)?;
    let keep = draw_keep(promise, &mut rng);
    let image = disk.crash_keeping(keep, &mut rng);
    drop(sim);
    reopen::<S>(&image, options, &candidates, seed).map_err(|story| format!("after a power cut: {story}"))?;
    Ok((faults, disk))
}

async fn use_while_failing<S: Store>(
    world: &World,
    options: &S::Options,
    disk: &SimFs,
    mut workload: Workload,
    steps: usize,
    candidates: &mut Candidates,
    faults: &mut Faults,
) -> Result<(), String> {
    // An opening may fail, once for each fault. Then it is tried again, as an operator would do.
    let mut store = None;
    for _ in 0..20 {
        match S::open(world.clone(), options.clone()).await {
            Ok(opened) => {
                store = Some(opened);
                break;
            }
            Err(_) => faults.felt = 1,
        }
    }
    let store = store.ok_or("cannot be opened, however often one tries")?;
    for step in 0..steps {
        let batch = workload.batch(0);
        let written = store.write(&batch).done.await;
        candidates.note(&batch, written.is_ok());
        match written {
            Ok(()) => faults.acknowledged += 1,
            Err(_) => {
                (faults.felt, faults.refused) = (1, faults.refused + 1);
            }
        }
        if step % 13 == 0 {
            store.seal();
        }
        if step % 7 == 0 {
            pause(&world.clock, 5_000_000).await;
            let key = workload.key();
            match store.get(&key).await {
                Ok(value) if candidates.allow(&key, value.as_deref()) => {}
                Ok(value) => return Err(format!("get {:?} shows {value:?}", String::from_utf8_lossy(&key))),
                Err(_) => faults.felt = 1,
            }
        }
    }
    // From now on nothing fails: within a bounded time writes must be accepted again, and everything is readable.
    let events = disk.take_events();
    faults.failed_syncs = events.iter().filter(|event| event.kind == OpKind::Sync && !event.ok).count() as u64;
    disk.set_faults(FaultPlan::none());
    accept_again(&*store, world, &mut workload, candidates).await?;
    let found =
        store.scan(&Span::all(false), None).await.map_err(|error| format!("cannot scan after the fault: {error}"))?;
    candidates.judge(&found)
}

async fn accept_again<S: Store>(
    store: &S,
    world: &World,
    workload: &mut Workload,
    candidates: &mut Candidates,
) -> Result<(), String> {
    let deadline = world.clock.now() + RESUME_WITHIN;
    loop {
        let batch = workload.batch(0);
        let written = store.write(&batch).done.await;
        candidates.note(&batch, written.is_ok());
        match written {
            Ok(()) => return Ok(()),
            Err(error) if world.clock.now() >= deadline => {
                return Err(format!("writes are still refused {RESUME_WITHIN} ns after the last fault: {error}"));
            }
            Err(_) => pause(&world.clock, 100_000_000).await,
        }
    }
}

async fn pause(clock: &Arc<dyn Clock>, nanos: Nanos) {
    sleep_until(clock, clock.now() + nanos).await;
}

fn reopen<S: Store>(image: &DiskImage, options: &S::Options, candidates: &Candidates, seed: u64) -> Result<(), String> {
    let sim = Sim::new(seed);
    let disk = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(seed));
    let world = World { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: seed + 1 };
    sim.block_on(async {
        let store = S::open(world, options.clone()).await.map_err(|error| format!("cannot open: {error}"))?;
        let found = store.scan(&Span::all(false), None).await.map_err(|error| format!("cannot scan: {error}"))?;
        candidates.judge(&found)
    })
}

/// Fills the disk until writes are refused for want of space, then gives space back.
pub fn full_disk<S: Store>(seed: u64, options: &S::Options, promise: Promise) -> Result<Faults, String> {
    let mut rng = Rng::new(seed);
    let sim = Sim::new(seed);
    sim.set_time_limit(10 * RESUME_WITHIN);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
    let world = World { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let mut workload = Workload::new(rng.fork("workload"), Mix { expiry: false, ..Mix::CRASH });
    let (mut candidates, mut faults) = (Candidates::default(), Faults { runs: 1, ..Faults::default() });
    sim.block_on(async {
        let store = S::open(world.clone(), options.clone()).await.map_err(|error| format!("cannot open: {error}"))?;
        disk.set_free_bytes(rng.below(400 << 10));
        while faults.refused < 5 {
            let batch = workload.batch(0);
            let written = store.write(&batch).done.await;
            candidates.note(&batch, written.is_ok());
            match written {
                Ok(()) => faults.acknowledged += 1,
                Err(error) if error.kind() == ErrorKind::NoSpace => faults.refused += 1,
                Err(error) => return Err(format!("a full disk gives a different error: {error}")),
            }
            pause(&world.clock, 1_000_000).await;
        }
        faults.felt = 1;
        let found = store
            .scan(&Span::all(false), None)
            .await
            .map_err(|error| format!("cannot read while the disk is full: {error}"))?;
        candidates.judge(&found)?;
        disk.set_free_bytes(u64::MAX);
        accept_again(&*store, &world, &mut workload, &mut candidates).await?;
        let found = store.scan(&Span::all(true), None).await.map_err(|error| format!("cannot scan: {error}"))?;
        candidates.judge(&found)
    })?;
    let image = disk.crash_keeping(draw_keep(promise, &mut rng), &mut rng);
    drop(sim);
    reopen::<S>(&image, options, &candidates, seed).map_err(|story| format!("after a power cut: {story}"))?;
    Ok(faults)
}
