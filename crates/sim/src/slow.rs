//! A disk that becomes a hundred times slower, or stops for half a minute, under load.
//!
//! Readers ask for what is in memory once a millisecond; writers write as fast as they are answered. While the disk is
//! bad, reads from memory are as fast as ever, writes queue, and memory stays within its bound. When the disk is well
//! again, every queued write is answered, and nothing acknowledged is missing.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Clock, Nanos, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{EngineKind, Machine, Node, NodeConfig, Partition, StoreOptions};

/// What happens to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Everything takes a hundred times as long.
    Slow,
    /// No I/O starts.
    Hung,
}

/// The results, in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Reads of keys in memory while the disk was bad.
    pub reads: u64,
    /// The slowest of these reads.
    pub read_nanos_max: Nanos,
    /// Writes acknowledged while the disk was bad.
    pub writes: u64,
    /// The longest that a write waited.
    pub write_nanos_max: Nanos,
    /// The most bytes in memtables, or of log that is in no snapshot, at any moment.
    pub memtable_bytes_max: usize,
    /// The most bytes that memtables may have; `None` if there are none.
    pub memtable_bytes_bound: Option<usize>,
    /// Time from the end of the trouble until every write sent before that end was answered.
    pub recovered_nanos: Nanos,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |nanos: Nanos| nanos as f64 / 1e6;
        write!(f, "{} reads from memory, slowest {} ms; ", self.reads, ms(self.read_nanos_max))?;
        write!(f, "{} writes meanwhile, longest wait {:.1} ms; ", self.writes, ms(self.write_nanos_max))?;
        match self.memtable_bytes_bound {
            Some(bound) => write!(f, "memtables at most {} of {} KiB; ", self.memtable_bytes_max >> 10, bound >> 10)?,
            None => write!(f, "at most {} KiB in no snapshot; ", self.memtable_bytes_max >> 10)?,
        }
        write!(f, "all answered {:.1} ms after the end", ms(self.recovered_nanos))
    }
}

const WRITERS: usize = 16;
const VALUE_BYTES: usize = 1000;
/// Different keys of a writer whose rows are in memory: few, so that the log grows and the rows do not.
const KEYS: u64 = 256;
const SECOND: Nanos = 1_000_000_000;
/// When the trouble begins, and when it ends.
const FROM: Nanos = 2 * SECOND;
const UNTIL: Nanos = 32 * SECOND;

fn config(engine: EngineKind, sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 1 << 20,
        level1_bytes: 4 << 20,
        table_bytes: 1 << 20,
        ..TreeOptions::default()
    };
    let store = StoreOptions { snapshot_log_bytes: 1 << 20, ..StoreOptions::default() };
    NodeConfig { engine, tree, store, sync, cache_bytes: 8 << 20, segment_bytes: 4 << 20, ..NodeConfig::new("weir") }
}

/// The most bytes that memtables may have: all write buffers of a tree, and the writes that all writers have in flight.
/// Rows in memory have no such bound: the log grows until it is written.
fn bound(config: &NodeConfig) -> Option<usize> {
    let buffers = config.tree.write_buffers_max * config.tree.write_buffer_bytes;
    (config.engine == EngineKind::Lsm).then_some(buffers + WRITERS * 4 * VALUE_BYTES + (256 << 10))
}

/// Runs it. The error says which promise was broken.
pub fn survive(seed: u64, engine: EngineKind, trouble: Trouble, sync: SyncMode) -> Result<Outcome, String> {
    let sim = Sim::new(seed);
    sim.set_time_limit(600 * SECOND);
    let plan = match trouble {
        Trouble::Slow => FaultPlan::none().slow(FROM, UNTIL, 100),
        Trouble::Hung => FaultPlan::none().hang(FROM, UNTIL),
    };
    let device = DeviceSpec { latency: 80_000, sync_latency: 120_000, ..DeviceSpec::shared(200_000_000) };
    let disk = SimFs::new(sim.clock(), device, plan, sim.rng());
    let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let config = config(engine, sync);
    let keys = if engine == EngineKind::Memory { KEYS } else { u64::MAX };
    let outcome = Arc::new(Mutex::new(Outcome { memtable_bytes_bound: bound(&config), ..Outcome::default() }));
    let clock = sim.clock();
    let acknowledged = Arc::new(Mutex::new(vec![0_u64; WRITERS]));
    let checked: Result<(), String> = sim.block_on(async {
        let node = Node::open(&config, machine).await.map_err(|error| error.to_string())?;
        let partition = node.default_partition().await.map_err(|error| error.to_string())?;
        write(&partition, b"hot", &[0; VALUE_BYTES]).await.map_err(|error| error.to_string())?;
        for writer in 0..WRITERS {
            let load = load(
                Arc::clone(&partition),
                Arc::clone(&clock),
                Writer { number: writer, keys },
                Arc::clone(&outcome),
                Arc::clone(&acknowledged),
            );
            sim.spawn(load);
        }
        while clock.now() < UNTIL {
            read(&partition, &clock, &outcome).await?;
            sleep_until(&clock, clock.now() + 1_000_000).await;
        }
        // Every writer stops at its first acknowledgement after the trouble has ended.
        while acknowledged.lock().iter().any(|&count| count & STOPPED == 0) {
            sleep_until(&clock, clock.now() + 1_000_000).await;
        }
        outcome.lock().recovered_nanos = clock.now() - UNTIL;
        let counts: Vec<u64> = acknowledged.lock().iter().map(|count| count & !STOPPED).collect();
        for (writer, &count) in counts.iter().enumerate() {
            let writer = Writer { number: writer, keys };
            // The last number and a few before it: each writer's numbers rise.
            for number in count.saturating_sub(3).max(1)..=count {
                let found = partition.get(&writer.key(number)).await.map_err(|error| error.to_string())?;
                let value = found.as_ref().and_then(|row| row.value());
                if value.is_none_or(|value| value[..] != writer.value(number)) {
                    return Err(format!("writer {} misses its acknowledged write {number}", writer.number));
                }
            }
        }
        Ok(())
    });
    checked?;
    let outcome = *outcome.lock();
    if outcome.read_nanos_max > 5_000_000 {
        return Err(format!("a read from memory waited for the disk: {outcome}"));
    }
    if outcome.memtable_bytes_bound.is_some_and(|bound| outcome.memtable_bytes_max > bound) {
        return Err(format!("memory is not bounded: {outcome}"));
    }
    if outcome.recovered_nanos > 10 * SECOND {
        return Err(format!("writes took too long to come back: {outcome}"));
    }
    Ok(outcome)
}

/// Marks the count of a writer that has stopped.
const STOPPED: u64 = 1 << 63;

/// A writer of numbers that rise.
#[derive(Clone, Copy)]
struct Writer {
    number: usize,
    /// How many different keys the writer has.
    keys: u64,
}

impl Writer {
    fn key(self, number: u64) -> Vec<u8> {
        format!("writer{:02}/{:08}", self.number, number % self.keys).into_bytes()
    }

    fn value(self, number: u64) -> [u8; VALUE_BYTES] {
        let mut value = [self.number as u8; VALUE_BYTES];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    }
}

async fn write(partition: &Arc<Partition>, key: &[u8], value: &[u8]) -> weir_io::Result<()> {
    let mut batch = Batch::new();
    batch.put(key, value);
    partition.write(&batch).await?.await
}

/// One read of a key that is in the cache, or in the memtable because it was just written, if the disk was well then.
async fn read(partition: &Arc<Partition>, clock: &Arc<dyn Clock>, outcome: &Mutex<Outcome>) -> Result<(), String> {
    let begin = clock.now();
    let found = partition.get(b"hot").await.map_err(|error| format!("a read failed: {error}"))?;
    found.ok_or("a key is missing")?;
    let unflushed = partition.engine().facts().unflushed_bytes as usize;
    let mut outcome = outcome.lock();
    outcome.memtable_bytes_max = outcome.memtable_bytes_max.max(unflushed);
    if begin >= FROM {
        outcome.reads += 1;
        outcome.read_nanos_max = outcome.read_nanos_max.max(clock.now() - begin);
    }
    Ok(())
}

async fn load(
    partition: Arc<Partition>,
    clock: Arc<dyn Clock>,
    writer: Writer,
    outcome: Arc<Mutex<Outcome>>,
    acknowledged: Arc<Mutex<Vec<u64>>>,
) {
    let mut number = 0;
    while clock.now() < UNTIL {
        number += 1;
        let begin = clock.now();
        if write(&partition, &writer.key(number), &writer.value(number)).await.is_err() {
            number -= 1;
        }
        if clock.now() >= FROM && begin < UNTIL {
            let mut outcome = outcome.lock();
            outcome.write_nanos_max = outcome.write_nanos_max.max(clock.now() - begin);
            outcome.writes += u64::from(clock.now() < UNTIL);
        }
        acknowledged.lock()[writer.number] = number;
        // A client's own time: without it a mode that answers from memory would never let virtual time pass.
        sleep_until(&clock, clock.now() + 200_000).await;
    }
    acknowledged.lock()[writer.number] |= STOPPED;
}
