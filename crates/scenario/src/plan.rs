//! The plan of a run: every rate and size that follows from the parameters, scaled.

mod params;

use weir_admission::cost::{read_units, write_units};
use weir_io::Nanos;
use weir_lsm::TreeOptions;

use crate::args::Shortage;
use crate::choice::{Choice, Stored};
use crate::data::Sizes;
use crate::mix::{Kind, Mix, Pace, Popularity};
use crate::pattern::{Pattern, Rates, SECOND};
use crate::visits::Visits;

/// Background bytes, read and written, for each byte of a user: measured by the FlexEngine paper for a full tree
/// (FX-13).
pub const AMPLIFICATION: f64 = 20.0;
/// Bytes that the log adds to a write: headers of record and batch.
const LOG_HEADER_BYTES: f64 = 40.0;
/// Bytes that memory takes for an item besides the item's own, at most: its header, and its place in a memtable.
const ENTRY_BYTES: f64 = 40.0;
/// The smallest write of a device, in bytes.
const PAGE: f64 = 4096.0;
/// Time between two syncs of the log up to [`SYNC_SCALE`], in nanoseconds.
const SYNC_INTERVAL: Nanos = 100_000_000;
/// A sync writes whole pages, which cannot be scaled. At larger scales than this one the interval is stretched instead,
/// so that the log keeps its share of the device. This is the only time that scales.
const SYNC_SCALE: u64 = 20;
/// Device bytes of a read that misses the cache: a block of 4 KiB lies across two pages (FX-11).
const READ_BYTES: f64 = 8192.0;
/// Share of what was bought that is sent after the load, so that reads and writes are still measured while trees are
/// restored.
pub const QUIET_SHARE: f64 = 0.02;
/// Smallest background I/O: with less, the two pages at both ends of a read would be most of it.
const IO_BYTES_MIN: u64 = 32 << 10;
/// Levels are preloaded to this share of their target, so that a table's index does not put one over it.
const FILL: f64 = 0.95;

/// One compaction may run at a time for this many partitions. With more at a time each takes longer, so that level 0
/// grows meanwhile: at a BOSR of 7 the profile `rocksdb` served 33 % with two for every partition, and serves 90 % with
/// this.
const PARTITIONS_PER_COMPACTION: usize = 4;
/// This many compactions may run on a node of few partitions.
const COMPACTIONS_MIN: usize = 2;

const MIB: u64 = 1 << 20;
/// A millisecond: the least time that a client is taken to need for an operation, if it does not rest in between.
const MS: Nanos = 1_000_000;
/// Writes a second that the paper sells a partition.
const PAPER_WCU: u64 = 3000;

/// A scenario with its arguments, and what they leave to compute.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: &'static str,
    /// What was asked for.
    pub args: Shortage,
    /// How the load moves in time.
    pub pattern: Pattern,
    /// Background bytes of the device, read and written, for each byte of a user, for which the device is planned.
    pub amplification: f64,
    /// What the world lets through, reads and writes together, in bytes a second, if something other than the plan
    /// limits it, such as the kernel's caps. `None` = what is planned.
    pub caps: Option<u64>,
    /// What the device can do, reads and writes together, in bytes a second at this scale, if that does not follow from
    /// what is sold: then the ratio follows from it.
    pub given: Option<u64>,
    /// The memtables of a partition.
    pub buffers: Buffers,
    /// How tenants are visited that sleep in between; `None` = partitions are always awake.
    pub visits: Option<Visits>,
}

/// Memtables of a partition before any policy changes them; the sizes of levels 0 and 1 follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Size of one memtable, in MiB (at scale 1).
    pub mib: u64,
    /// How many, the active one included.
    pub count: usize,
}

impl Buffers {
    /// FlexEngine's (FX-28).
    pub const FLEXENGINE: Buffers = Buffers { mib: 16, count: 4 };
    /// SILK's (SI-16).
    pub const SILK: Buffers = Buffers { mib: 128, count: 2 };
    /// CruiseDB's (CR-16).
    pub const CRUISE: Buffers = Buffers { mib: 64, count: 12 };
}

impl Plan {
    /// The plan of the scenario `shortage` with `args`.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn new(args: Shortage) -> Result<Self, String> {
        Self::of("shortage", args, Pattern::Steady)
    }

    /// The plan of any scenario.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn of(scenario: &'static str, args: Shortage, pattern: Pattern) -> Result<Self, String> {
        args.check()?;
        Ok(Self {
            scenario,
            args,
            pattern,
            amplification: AMPLIFICATION,
            caps: None,
            given: None,
            buffers: Buffers::FLEXENGINE,
            visits: None,
        })
    }

    /// The rates at which `partition` (from 0) is sent writes, in time.
    pub fn writes(&self, partition: usize) -> Rates {
        self.pattern.rates(partition, self.writes_per_sec(partition), false, self.args.seconds)
    }

    /// The rates at which `partition` (from 0) is sent reads, in time.
    pub fn reads(&self, partition: usize) -> Rates {
        self.pattern.rates(partition, self.sold_to(partition).1, true, self.args.seconds)
    }

    /// The mix that clients send, if the scenario is one of operations in given shares: then nothing is sold.
    pub fn mix(&self) -> Option<Mix> {
        if let Pattern::Mix(mix) = self.pattern { Some(mix) } else { None }
    }

    /// How items to read and items to write are chosen, for those who share these choices. Updates of a mix write the
    /// items that are read.
    pub fn choices(&self) -> [Choice; 2] {
        let old = || self.choice_of_old_items();
        match &self.pattern {
            Pattern::Surge { .. } => [Choice::zipf(self.items()), old()],
            Pattern::Mix(mix) => {
                let stored = Stored::new(self.items());
                let reads = match mix.popularity {
                    Popularity::Uniform => Choice::Uniform(self.items()),
                    Popularity::Zipfian => Choice::scrambled(self.items() + self.expected(mix), stored.clone()),
                    Popularity::Latest => Choice::latest(stored.clone()),
                };
                [reads, Choice::Next(stored)]
            }
            _ => [old(), old()],
        }
    }

    /// The most new items that a partition of `mix` is expected to get, times two, as in YCSB.
    fn expected(&self, mix: &Mix) -> u64 {
        let per_sec = match mix.pace {
            Pace::Closed { clients, own_time } => f64::from(clients) * SECOND as f64 / own_time.max(MS) as f64,
            Pace::Open(per_sec) => per_sec,
        };
        (2.0 * per_sec * self.args.seconds as f64 * f64::from(mix.shares.of(Kind::Insert)) / 100.0) as u64
    }

    fn choice_of_old_items(&self) -> Choice {
        if self.args.shape.zipf { Choice::zipf(self.items()) } else { Choice::Uniform(self.items()) }
    }

    /// `bytes` at this scale.
    pub fn scaled(&self, bytes: u64) -> u64 {
        (bytes / self.args.scale).max(1)
    }

    /// The sizes of items, and their kind of key.
    pub fn sizes(&self) -> Sizes {
        if self.mix().is_some_and(|mix| mix.workload.is_some()) {
            return Sizes::Ycsb(self.args.item_bytes);
        }
        if self.args.shape.mixed { Sizes::Mixed(self.args.item_bytes) } else { Sizes::Same(self.args.item_bytes) }
    }

    /// Items that each partition has before the load.
    pub fn items(&self) -> u64 {
        self.scaled(self.args.preload_items)
    }

    /// Partitions that send all they bought: the first ones.
    pub fn bursting(&self) -> usize {
        (f64::from(self.args.partitions) * self.args.burst_share).round() as usize
    }

    /// Writes a second that `partition` (from 0) sends.
    pub fn writes_per_sec(&self, partition: usize) -> f64 {
        let sold = self.sold_to(partition).0;
        if partition < self.bursting() { sold } else { sold / self.args.bosr }
    }

    /// Writes and reads a second that `partition` (from 0) was sold: what a trace says of it, or else what all were
    /// sold.
    pub fn sold_to(&self, partition: usize) -> (f64, f64) {
        let known = if let Pattern::Trace(trace) = &self.pattern { trace.sold(partition) } else { None };
        let Some(sold) = known else { return (self.sold_writes_per_sec(), self.reads_per_sec()) };
        // The sold numbers are capacity units: an item takes one for each KiB of a write, and for each 4 KiB of a read.
        let scaled = |units: u64, of_item: f64| units as f64 / of_item / self.args.scale as f64;
        (scaled(sold.writes, self.sizes().units(write_units)), scaled(sold.reads, self.sizes().units(read_units)))
    }

    /// Writes a second that a partition was sold.
    pub fn sold_writes_per_sec(&self) -> f64 {
        self.args.wcu as f64 / self.args.scale as f64
    }

    /// Reads a second that every partition is asked for.
    pub fn reads_per_sec(&self) -> f64 {
        self.args.rcu as f64 / self.args.scale as f64
    }

    /// Bytes a second that all partitions together were sold to write. The device is sized by this, whoever bursts.
    pub fn ingest(&self) -> f64 {
        let writes = match &self.pattern {
            Pattern::Trace(trace) if trace.says_what_was_sold() => {
                (0..usize::from(self.args.partitions)).map(|partition| self.sold_to(partition).0).sum()
            }
            _ => f64::from(self.args.partitions) * self.sold_writes_per_sec(),
        };
        writes * f64::from(self.args.item_bytes)
    }

    /// The device's bandwidth for flushes and compactions, in bytes a second.
    pub fn background_bandwidth(&self) -> f64 {
        self.ingest() * self.amplification / self.args.bosr
    }

    /// The device's bandwidth for logs, in bytes a second. Each sync writes the last page of a log again.
    pub fn log_bandwidth(&self) -> f64 {
        let headers = f64::from(self.args.item_bytes) + LOG_HEADER_BYTES;
        let of = |writes: f64| match self.given {
            None => writes * headers + self.synced_pages(writes),
            // On a device that is given the log takes as much as at full size, and is not sold.
            Some(_) => writes * headers + self.synced_pages_at_full_size(writes),
        };
        self.logged_writes().map(of).sum()
    }

    /// Writes a second that go to each partition's log.
    fn logged_writes(&self) -> impl Iterator<Item = f64> {
        let writes = |partition| match self.given {
            None => self.writes_per_sec(partition),
            Some(_) => mean(&self.writes(partition), self.args.seconds),
        };
        (0..usize::from(self.args.partitions)).map(writes)
    }

    /// Bytes a second of the pages that a log's syncs write again, at `writes` a second.
    fn synced_pages(&self, writes: f64) -> f64 {
        (SECOND as f64 / self.sync_interval() as f64).min(writes) * PAGE
    }

    /// The same as `synced_pages` at scale 1, divided by the scale as all bytes are.
    fn synced_pages_at_full_size(&self, writes: f64) -> f64 {
        let scale = self.args.scale as f64;
        (SECOND as f64 / SYNC_INTERVAL as f64).min(writes * scale) * PAGE / scale
    }

    /// Time between two syncs of the log, in nanoseconds.
    pub fn sync_interval(&self) -> Nanos {
        SYNC_INTERVAL * self.args.scale.max(SYNC_SCALE) / SYNC_SCALE
    }

    /// The device's bandwidth for reads, in bytes a second.
    pub fn read_bandwidth(&self) -> f64 {
        if self.given.is_some() {
            let of = |partition| mean(&self.reads(partition), self.args.seconds);
            return (0..usize::from(self.args.partitions)).map(of).sum::<f64>() * READ_BYTES;
        }
        let reads = match &self.pattern {
            Pattern::Trace(trace) if trace.says_what_was_sold() => {
                (0..usize::from(self.args.partitions)).map(|partition| self.sold_to(partition).1).sum()
            }
            _ => f64::from(self.args.partitions) * self.reads_per_sec(),
        };
        reads * READ_BYTES
    }

    /// What the device can do, reads and writes together, in bytes a second.
    pub fn device(&self) -> u64 {
        if let Some(device) = self.given {
            // Pages do not scale. Without this, each of 54 tenants would cost 0.8 MB a second of the machine at a scale
            // of 400, and 0.04 at full size.
            let beyond = |writes| self.synced_pages(writes) - self.synced_pages_at_full_size(writes);
            return device + self.logged_writes().map(beyond).sum::<f64>() as u64;
        }
        (self.background_bandwidth() + self.log_bandwidth() + self.read_bandwidth()) as u64
    }

    /// The bytes that the device has for the background, besides log and reads, for each byte that users were sold to
    /// write.
    pub fn background_bytes_per_user_byte(&self) -> f64 {
        match self.caps.or(self.given) {
            None => self.amplification / self.args.bosr,
            Some(all) => (all as f64 - self.log_bandwidth() - self.read_bandwidth()).max(0.0) / self.ingest(),
        }
    }

    /// How many times over the background bandwidth is sold, to a hundredth. The definition is the same in every world:
    /// it follows from what the device has, and from what a full tree takes ([`AMPLIFICATION`]).
    pub fn bosr(&self) -> f64 {
        (AMPLIFICATION / self.background_bytes_per_user_byte() * 100.0).round() / 100.0
    }

    /// The same load on a device on which the background is sold `ratio` times.
    pub fn sold_times(&self, ratio: f64) -> Self {
        if self.given.is_none() {
            return Self { args: Shortage { bosr: ratio, ..self.args.clone() }, ..self.clone() };
        }
        let device = self.log_bandwidth() + self.read_bandwidth() + self.ingest() * AMPLIFICATION / ratio;
        Self { given: Some(device as u64), ..self.clone() }
    }

    /// From this second of the load on it counts how evenly clients are served; `None` if the scenario is about
    /// something else.
    pub fn even_from(&self) -> Option<u64> {
        if self.scenario == "bursts" { Some(0) } else { self.mix().map(|mix| mix.warm_up) }
    }

    /// How trees are shaped: FlexEngine's sizes (FX-28), scaled, except for the memtables. Because the load of a mix
    /// never ends, trees there compact the fullest level first, as RocksDB does.
    pub fn tree(&self) -> TreeOptions {
        let io_bytes = self.scaled(256 << 10).max(IO_BYTES_MIN).next_multiple_of(4096) as usize;
        TreeOptions {
            write_buffer_bytes: self.scaled(self.buffers.mib * MIB) as usize,
            write_buffers_max: self.buffers.count,
            l0_trigger: 4,
            l0_slow: 20,
            l0_stop: 36,
            pending_bytes_limits: [64 << 30, 256 << 30].map(|limit| self.scaled(limit)),
            // In proportion: these rates are made for a partition that was sold the paper's 3000 writes a second.
            slow_bytes_per_sec: [16 * MIB, MIB].map(|rate| self.scaled(rate.saturating_mul(self.args.wcu) / PAPER_WCU)),
            l0_merge_bytes_max: self.scaled(2 << 30),
            level1_bytes: self.scaled(4 * self.buffers.mib * MIB),
            level_factor: 10,
            table_bytes: self.scaled(64 * MIB),
            io_bytes,
            picks_by_score: self.mix().is_some(),
            ..TreeOptions::default()
        }
    }

    /// Compactions that may run at a time, of all partitions together.
    pub fn compactions(&self) -> usize {
        let own = || usize::from(self.args.partitions).div_ceil(PARTITIONS_PER_COMPACTION).max(COMPACTIONS_MIN);
        self.args.compactions.map_or_else(own, usize::from)
    }

    /// Memory of the node in bytes, if it is bounded.
    fn memory(&self) -> Option<u64> {
        self.args.memory.map(|gib| self.scaled(gib << 30))
    }

    /// Block cache of the node: it holds what deferral pins, and more. It gets three quarters of bounded memory.
    pub fn cache_bytes(&self) -> usize {
        self.memory().map_or(self.scaled(48 << 30), |memory| memory / 4 * 3) as usize
    }

    /// Memory for memtables, of the node: more than a policy ever asks for, unless memory is bounded, so that no other
    /// scenario is about it.
    pub fn write_memory_bytes(&self) -> u64 {
        if let Some(memory) = self.memory() {
            return memory / 4;
        }
        u64::from(self.args.partitions) * self.scaled(self.buffers.mib * MIB) * 32
    }

    /// Size of a log segment. It is not scaled further than to a sixteenth: the first segments are a small part of it,
    /// and would be full before the log's first maintenance, which comes after a time and not after bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.scaled(64 * MIB).next_multiple_of(4096).max(4 * MIB)
    }

    /// Which items are preloaded into which level, deepest first: every level but the last is full. Items are numbered
    /// from 0.
    pub fn preload(&self) -> Vec<(usize, std::ops::Range<u64>)> {
        let (tree, items) = (self.tree(), self.items());
        let (mut levels, mut next) = (Vec::new(), 0);
        for level in 1..=PRELOAD_LEVELS_MAX {
            let full = FILL * (1.0 + self.args.shape.debt);
            let room = (tree.level_bytes_target(level) as f64 * full / f64::from(self.args.item_bytes)) as u64;
            let end = if level == PRELOAD_LEVELS_MAX { items } else { items.min(next + room) };
            if end > next {
                levels.push((level, next..end));
            }
            next = end;
        }
        levels.reverse();
        levels
    }

    /// Runs that level 0 has before the load, each as long as a memtable.
    pub fn preload_runs(&self) -> u64 {
        (self.args.shape.debt * self.tree().l0_slow as f64).round() as u64
    }

    /// Bytes that deferral may have to hold in memory at scale 1: level 1 as it was, everything that is written while
    /// deferral lasts (FX-26), and what merges have written besides their inputs, which in the worst case is a
    /// partition's whole share for each slot. `None` if the load is not a shortage from its beginning to its end.
    pub fn deferral_memory(&self) -> Option<f64> {
        if !matches!(self.pattern, Pattern::Steady) {
            return None;
        }
        let rates: f64 = (0..usize::from(self.args.partitions)).map(|partition| self.writes_per_sec(partition)).sum();
        let written = rates * self.args.seconds as f64;
        let level1: u64 =
            self.preload().iter().filter(|(level, _)| *level == 1).map(|(_, items)| items.end - items.start).sum();
        let before = level1 as f64 * f64::from(self.args.partitions);
        let merging = self.compactions() as f64 / f64::from(self.args.partitions);
        let item_bytes = f64::from(self.args.item_bytes) + ENTRY_BYTES;
        Some((before + written) * (1.0 + merging) * item_bytes * self.args.scale as f64)
    }
}

/// Operations a second on average over `seconds` of `rates`.
fn mean(rates: &Rates, seconds: u64) -> f64 {
    let end = seconds * SECOND;
    let until = |at: usize| rates.get(at + 1).map_or(end, |&(next, _)| next.min(end));
    let all: f64 =
        rates.iter().enumerate().map(|(at, &(begin, rate))| rate * until(at).saturating_sub(begin) as f64).sum();
    all / end as f64
}

/// The deepest level that is filled ahead: 64 GB at scale 1.
const PRELOAD_LEVELS_MAX: usize = 4;

#[cfg(test)]
pub(crate) mod tests;
