//! The device: how long things take. Plain queueing theory, exact to the nanosecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fault::Period;
use crate::{Nanos, Rng};

/// A rate without limit, for the fields of [`DeviceSpec`].
pub const UNLIMITED: u64 = u64::MAX;

/// What a device can do. An operation waits for a queue slot, then passes the bandwidth pipe and the operations pipe
/// (both first come, first served, side by side), then waits out the latency; then it is done and its slot is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Bytes per second read, or [`UNLIMITED`].
    pub read_bytes_per_sec: u64,
    /// Bytes per second written, or [`UNLIMITED`].
    pub write_bytes_per_sec: u64,
    /// Whether reads and writes share one pipe (each at its own rate) or have one each.
    pub shared: bool,
    /// Reads, writes and syncs per second together, or [`UNLIMITED`].
    pub iops: u64,
    /// Latency of every operation, after its transfer.
    pub latency: Nanos,
    /// Further latency of a sync, and of every O_DSYNC write.
    pub sync_latency: Nanos,
    /// Up to this much further latency, drawn from the seed for each operation: the operation submitted first may be
    /// complete last.
    pub jitter: Nanos,
    /// Operations that the device works on at a time.
    pub parallelism: usize,
    /// Direct reads must be multiples of this, in bytes: a power of two, at most a page ([`crate::File::read_unit`]).
    pub sector_bytes: usize,
}

impl DeviceSpec {
    /// Everything is done at once: for crash runs by the million.
    pub const fn instant() -> Self {
        Self {
            read_bytes_per_sec: UNLIMITED,
            write_bytes_per_sec: UNLIMITED,
            shared: true,
            iops: UNLIMITED,
            latency: 0,
            sync_latency: 0,
            jitter: 0,
            parallelism: usize::MAX,
            sector_bytes: 512,
        }
    }

    /// Reads and writes share `bytes_per_sec`; no latency, 32 slots.
    pub const fn shared(bytes_per_sec: u64) -> Self {
        let instant = Self::instant();
        Self { read_bytes_per_sec: bytes_per_sec, write_bytes_per_sec: bytes_per_sec, parallelism: 32, ..instant }
    }

    /// Reads and writes have a pipe each, in bytes per second; no latency, 32 slots.
    pub const fn split(read: u64, write: u64) -> Self {
        let instant = Self::instant();
        Self { read_bytes_per_sec: read, write_bytes_per_sec: write, shared: false, parallelism: 32, ..instant }
    }

    fn is_instant(&self) -> bool {
        let limit = self.read_bytes_per_sec.min(self.write_bytes_per_sec).min(self.iops);
        limit == UNLIMITED && self.latency + self.sync_latency + self.jitter == 0
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A resource that serves operations one after the other.
#[derive(Default)]
struct Pipe {
    /// When the pipe becomes free, in attoseconds: so fine that a billion roundings do not add up to a nanosecond.
    free: u128,
}

const ATTOS_PER_NANO: u128 = 1_000_000_000;

impl Pipe {
    /// Serves `units` at `per_sec`, `factor` times slower, not before `start`; returns when the last unit is through.
    fn serve(&mut self, start: Nanos, units: u64, per_sec: u64, factor: u64) -> Nanos {
        // An operation that moves nothing (a sync with nothing to write) waits for no bandwidth.
        if per_sec == UNLIMITED || units == 0 {
            return start;
        }
        let cost = u128::from(units) * u128::from(factor) * (ATTOS_PER_NANO * 1_000_000_000) / u128::from(per_sec);
        self.free = self.free.max(u128::from(start) * ATTOS_PER_NANO) + cost;
        self.free.div_ceil(ATTOS_PER_NANO) as Nanos
    }
}

/// The device at work. Operations are scheduled in the order they are submitted.
pub(super) struct Device {
    spec: DeviceSpec,
    instant: bool,
    /// Serves reads, and writes too when shared.
    read: Pipe,
    write: Pipe,
    operations: Pipe,
    /// When each of the slots in use becomes free.
    slots: BinaryHeap<Reverse<Nanos>>,
    /// From the fault plan: when the device is slow or hangs.
    periods: Vec<Period>,
    /// Draws the jitter.
    rng: Rng,
}

impl Device {
    pub(super) fn new(spec: DeviceSpec, periods: Vec<Period>, rng: Rng) -> Self {
        let (instant, slots) = (spec.is_instant() && periods.is_empty(), BinaryHeap::new());
        let (read, write, operations) = (Pipe::default(), Pipe::default(), Pipe::default());
        Self { spec, instant, read, write, operations, slots, periods, rng }
    }

    /// The unit of direct reads, in bytes.
    pub(super) fn sector_bytes(&self) -> usize {
        self.spec.sector_bytes
    }

    /// When a transfer of `bytes` submitted at `now` is done. If `synced`, the bytes must be on the medium by then.
    pub(super) fn transfer(&mut self, now: Nanos, direction: Direction, bytes: u64, synced: bool) -> Nanos {
        if self.instant {
            return now;
        }
        // Slots that are free by now no longer count; the remaining ones belong to the operations ahead.
        while self.slots.peek().is_some_and(|Reverse(free)| *free <= now) {
            self.slots.pop();
        }
        let full = self.slots.len() >= self.spec.parallelism;
        let slot_free = if full { self.slots.pop().map_or(now, |Reverse(free)| free) } else { now };
        let (start, factor) = self.weather(slot_free);
        let (pipe, rate) = match direction {
            Direction::Read => (&mut self.read, self.spec.read_bytes_per_sec),
            Direction::Write if self.spec.shared => (&mut self.read, self.spec.write_bytes_per_sec),
            Direction::Write => (&mut self.write, self.spec.write_bytes_per_sec),
        };
        let transferred = pipe.serve(start, bytes, rate, factor);
        let counted = self.operations.serve(start, 1, self.spec.iops, factor);
        let latency = self.latency() + if synced { self.spec.sync_latency } else { 0 };
        let done = transferred.max(counted) + latency * factor;
        self.slots.push(Reverse(done));
        done
    }

    /// When an operation on names submitted at `now` is done: it takes the latency and nothing more.
    pub(super) fn metadata(&mut self, now: Nanos) -> Nanos {
        if self.instant {
            return now;
        }
        let (start, factor) = self.weather(now);
        start + self.latency() * factor
    }

    fn latency(&mut self) -> Nanos {
        match self.spec.jitter {
            0 => self.spec.latency,
            jitter => self.spec.latency + self.rng.below(jitter + 1),
        }
    }

    pub(super) fn add_period(&mut self, period: Period) {
        self.periods.push(period);
        self.instant = false;
    }

    /// When an operation that is ready at `at` can start, and how many times slower it then runs.
    fn weather(&self, mut at: Nanos) -> (Nanos, u64) {
        let mut factor = 1;
        // Each hang moves the start, at most once per period, so this ends.
        while let Some(hang) = self.periods.iter().find(|period| period.slowdown.is_none() && period.contains(at)) {
            at = hang.until;
        }
        for period in &self.periods {
            if let (Some(slowdown), true) = (period.slowdown, period.contains(at)) {
                factor *= slowdown;
            }
        }
        (at, factor)
    }
}
