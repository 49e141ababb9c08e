//! One list of operations, run in many ways, has one history.
//!
//! The list is run under option sets that must not matter: sizes of memtables, blocks, tables and levels, compression,
//! cache, filters, restarts in mid-run. Every answer is compared with a sorted map. The wall clock advances by one
//! second for each step, so that keys expire at the same step everywhere.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use weir_io::Rng;
use weir_io::sim::{DeviceSpec, FaultPlan, Order, Sim, SimFs};
use weir_model::{Batch, Change};

use crate::model::KeyValues;
use crate::runner::Tally;
use crate::span::Span;
use crate::store::{Store, World};

/// How much was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histories {
    /// Lists of operations.
    pub lists: u64,
    /// Option sets that the lists were run under, added up.
    pub runs: u64,
    /// Operations, over all runs.
    pub operations: u64,
    /// Restarts in mid-run.
    pub restarts: u64,
}

impl Tally for Histories {
    fn merge(&mut self, other: Self) {
        self.lists += other.lists;
        self.runs += other.runs;
        self.operations += other.operations;
        self.restarts += other.restarts;
    }
}

impl fmt::Display for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lists, runs, operations, restarts } = self;
        write!(f, "{operations} operations agree: {lists} lists, {runs} runs under random options, {restarts} restarts")
    }
}

/// One operation. It has the numbers of keys instead of keys: a list is made once and run many times.
enum Operation {
    Write(Batch),
    Get(Vec<u8>),
    /// Reads a span of keys, up to its limit.
    Scan(Span),
    /// Takes a snapshot, in place of the one that is held.
    Snapshot,
    /// The same reads, as of the snapshot that is held.
    GetAt(Vec<u8>),
    ScanAt(Span),
    Seal,
    /// Lets background work run to its end.
    Rest,
}

/// What the wall clock shows at the first step.
const START_MS: u64 = 1_767_225_600_000;
/// Time from one step to the next. A step must take less time than this: at its end the wall clock would be set back,
/// and a key that a merge had met after its deadline would be gone before the model lets it go.
const STEP_MS: u64 = 1000;

/// What the wall clock shows when `step` begins.
fn wall_ms(step: u64) -> u64 {
    START_MS + step * STEP_MS
}

struct Generator {
    rng: Rng,
    /// How many of twenty writes expire, and within how many steps.
    expiring: u64,
    lifetime_max: u64,
    keys: u64,
    value_bytes_max: u64,
    writes: u64,
}

impl Generator {
    fn key(&mut self) -> Vec<u8> {
        let bound = self.rng.below(self.keys) + 1;
        let number = self.rng.below(bound);
        let mut key = number.to_be_bytes()[5..].to_vec();
        // Keys are prefixes of one another, of lengths from 1 to 20.
        key.resize(1 + (number % 20) as usize, b'/');
        key
    }

    fn value(&mut self) -> Vec<u8> {
        self.writes += 1;
        let most = if self.rng.below(50) == 0 { self.value_bytes_max * 20 } else { self.value_bytes_max };
        let mut value = vec![b'v'; self.rng.below(most + 1) as usize];
        let number = self.writes.to_le_bytes();
        let length = value.len().min(8);
        value[..length].copy_from_slice(&number[..length]);
        value
    }

    fn change(&mut self, batch: &mut Batch, step: u64) {
        let key = self.key();
        match self.rng.below(20) {
            0..4 => batch.delete(&key),
            number if number < 4 + self.expiring => {
                let (value, lifetime) = (self.value(), self.rng.below(self.lifetime_max));
                batch.push(Change::Put { key: &key, value: &value, expire_at_ms: Some(wall_ms(step + lifetime)) });
            }
            _ => {
                let value = self.value();
                batch.put(&key, &value);
            }
        }
    }

    fn span(&mut self) -> Span {
        let mut bound = || {
            let key = self.key();
            match self.rng.below(4) {
                0 => Bound::Unbounded,
                1 => Bound::Excluded(key),
                _ => Bound::Included(key),
            }
        };
        let (from, to) = (bound(), bound());
        Span { from, to, reverse: self.rng.chance(0.5), limit: 1 + self.rng.below(30) as usize }
    }

    fn operation(&mut self, step: u64) -> Operation {
        match self.rng.below(1000) {
            0..480 => {
                let mut batch = Batch::new();
                let changes = if self.rng.below(10) == 0 { 1 + self.rng.below(8) } else { 1 };
                (0..changes).for_each(|_| self.change(&mut batch, step));
                Operation::Write(batch)
            }
            480..900 => Operation::Get(self.key()),
            900..930 => Operation::Scan(self.span()),
            930..934 => Operation::Snapshot,
            934..974 => Operation::GetAt(self.key()),
            974..984 => Operation::ScanAt(self.span()),
            984..988 => Operation::Rest,
            988 => Operation::Seal,
            _ => Operation::Get(self.key()),
        }
    }
}

/// A list of `length` operations.
fn list(seed: u64, length: u64) -> Vec<Operation> {
    let mut rng = Rng::new(seed);
    let keys = [20, 300, 4_000][rng.below(3) as usize];
    let value_bytes_max = [8, 60, 400][rng.below(3) as usize];
    // Now and then a cache, whose tables die as a whole.
    let (expiring, lifetime_max) = [(1, 2_000), (8, 400), (15, 100)][rng.below(3) as usize];
    let mut generator = Generator { rng, expiring, lifetime_max, keys, value_bytes_max, writes: 0 };
    (0..length).map(|step| generator.operation(step)).collect()
}

/// Runs the list of `seed` under each of the options; `restarts` is how often, on average, each run is interrupted.
pub fn compare<S: Store>(seed: u64, length: u64, variants: &[S::Options], restarts: u64) -> Result<Histories, String> {
    let operations = list(seed, length);
    let mut histories = Histories { lists: 1, ..Histories::default() };
    for (number, options) in variants.iter().enumerate() {
        let mut rng = Rng::new(seed ^ (number as u64) << 48);
        let sim = Sim::with_order(seed, Order::Fifo);
        let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
        let world = World { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: seed };
        let restart = |rng: &mut Rng| rng.below(length) < restarts;
        let ran: Result<u64, String> = sim.block_on(async {
            let mut run = Run::<S>::begin(&world, options).await?;
            let mut restarted = 0;
            for (step, operation) in operations.iter().enumerate() {
                let now_ms = wall_ms(step as u64);
                sim.set_unix_ms(now_ms);
                if restart(&mut rng) {
                    run = run.restart(&world, options, &mut rng).await?;
                    restarted += 1;
                }
                run.step(operation, now_ms).await.map_err(|story| format!("step {step}: {story}"))?;
                let took_ms = world.clock.unix_ms() - now_ms;
                if took_ms >= STEP_MS {
                    return Err(format!("step {step} took {took_ms} ms: expiry cannot be compared"));
                }
            }
            run.store.close().await.map_err(|error| error.to_string())?;
            Ok(restarted)
        });
        histories.restarts += ran.map_err(|story| format!("variant {number}: {story}\n{options:?}"))?;
        histories.runs += 1;
        histories.operations += length;
    }
    Ok(histories)
}

/// A store and the map it must agree with.
struct Run<S: Store> {
    store: Arc<S>,
    state: KeyValues,
    snapshot: Option<(S::Snapshot, KeyValues)>,
}

impl<S: Store> Run<S> {
    async fn begin(world: &World, options: &S::Options) -> Result<Self, String> {
        let store = open::<S>(world, options).await?;
        Ok(Self { store, state: KeyValues::default(), snapshot: None })
    }

    /// Closes the store and opens it again.
    async fn restart(self, world: &World, options: &S::Options, rng: &mut Rng) -> Result<Self, String> {
        drop(self.snapshot);
        self.store.close().await.map_err(|error| format!("cannot close: {error}"))?;
        let world = World { salt: rng.next_u64(), ..world.clone() };
        Ok(Self { store: open::<S>(&world, options).await?, state: self.state, snapshot: None })
    }

    async fn step(&mut self, operation: &Operation, now_ms: u64) -> Result<(), String> {
        match operation {
            Operation::Write(batch) => {
                self.state.apply(batch);
                self.store.write(batch).done.await.map_err(|error| format!("write: {error}"))
            }
            Operation::Get(key) => {
                let found = self.store.get(key).await.map_err(|error| format!("get: {error}"))?;
                same("get", self.state.get(key, now_ms), found.as_deref())
            }
            Operation::Scan(span) => {
                let found = self.store.scan(span, None).await.map_err(|error| format!("scan: {error}"))?;
                same(&format!("scan {span:?}"), &self.state.span(span, now_ms), &found)
            }
            Operation::Snapshot => {
                self.snapshot = self.store.snapshot().map(|snapshot| (snapshot, self.state.clone()));
                Ok(())
            }
            Operation::GetAt(key) => {
                let Some((snapshot, state)) = &self.snapshot else { return Ok(()) };
                let found = self.store.get_at(key, snapshot).await.map_err(|error| format!("get: {error}"))?;
                same("get of a snapshot", state.get(key, now_ms), found.as_deref())
            }
            Operation::ScanAt(span) => {
                let Some((snapshot, state)) = &self.snapshot else { return Ok(()) };
                let found = self.store.scan(span, Some(snapshot)).await.map_err(|error| format!("scan: {error}"))?;
                same(&format!("scan {span:?} of a snapshot"), &state.span(span, now_ms), &found)
            }
            Operation::Seal => {
                self.store.seal();
                Ok(())
            }
            Operation::Rest => {
                for _ in 0..100 {
                    weir_io::yield_now().await;
                }
                Ok(())
            }
        }
    }
}

async fn open<S: Store>(world: &World, options: &S::Options) -> Result<Arc<S>, String> {
    S::open(world.clone(), options.clone()).await.map_err(|error| format!("cannot open: {error}"))
}

fn same<T: PartialEq + fmt::Debug>(what: &str, expected: T, found: T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: expected {expected:?}, found {found:?}")) }
}
