//! What a run costs: time, bytes, processor, memory.

use std::fs;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::Result;
use crate::outcome::Outcome;

/// A stopwatch in nanoseconds, never 0 (0 means "not timed").
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn nanos(&self) -> u64 {
        (self.0.elapsed().as_nanos() as u64).max(1)
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Latencies from 1 ns to one minute, three digits.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds are valid"))
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// Writes the percentiles into `outcome`.
    pub fn report(&self, outcome: &mut Outcome) {
        outcome.p50_ns = self.0.value_at_quantile(0.5);
        outcome.p99_ns = self.0.value_at_quantile(0.99);
        outcome.p999_ns = self.0.value_at_quantile(0.999);
        outcome.max_ns = self.0.max();
    }
}

/// The kernel's account of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// Bytes read from the device.
    pub read: u64,
    /// Bytes given to the device, or made dirty in the page cache.
    pub written: u64,
    /// Dirty bytes thrown away before they were written back.
    pub cancelled: u64,
    /// Processor seconds.
    pub cpu_seconds: f64,
}

impl Account {
    /// The account of this process now.
    pub fn now() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The account of any process now.
    pub fn of(process: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
        };
        let (io, stat) = (read("io")?, read("stat")?);
        Ok(Self {
            read: field(&io, "read_bytes"),
            written: field(&io, "write_bytes"),
            cancelled: field(&io, "cancelled_write_bytes"),
            cpu_seconds: cpu_seconds(&stat),
        })
    }

    /// Writes what was spent since `before` into `outcome`.
    pub fn report_since(&self, before: &Account, outcome: &mut Outcome) {
        outcome.bytes_read = self.read - before.read;
        outcome.bytes_written = self.written - before.written;
        outcome.bytes_cancelled = self.cancelled - before.cancelled;
        outcome.cpu_seconds = self.cpu_seconds - before.cpu_seconds;
    }
}

/// The number after `name:` in the kernel's `name: number [kB]` lines; 0 if the name is not there.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// User and system time from a `/proc/PID/stat` line; the kernel counts there in hundredths of a second.
fn cpu_seconds(stat: &str) -> f64 {
    // The name in parentheses may hold anything; fields are counted after it. utime and stime are 14 and 15 of all,
    // that is 12 and 13 after the name.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|tick| tick.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// What the processors of the whole machine have done so far, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Time in which they had something to run, whether or not they could run it.
    wanted: u64,
    /// Part of that time in which the hypervisor ran somebody else.
    stolen: u64,
}

impl MachineTime {
    /// The times until now; zeros if the kernel does not tell.
    pub fn now() -> Self {
        Self::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Parsed from the first line: user, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen.
    fn of(stat: &str) -> Self {
        let ticks = |field: &str| field.parse::<u64>().unwrap_or(0);
        let mut fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).map(ticks);
        let [user, nice, system, _, _, interrupts, soft, stolen] = std::array::from_fn(|_| fields.next().unwrap_or(0));
        Self { wanted: user + nice + system + interrupts + soft + stolen, stolen }
    }

    /// The share of the time in which they were wanted since `before` that was stolen. 0 on a machine of one's own.
    pub fn stolen_since(&self, before: &MachineTime) -> f64 {
        let [stolen, wanted] =
            [(self.stolen, before.stolen), (self.wanted, before.wanted)].map(|(now, then)| now.saturating_sub(then));
        stolen as f64 / wanted.max(1) as f64
    }
}

/// The most memory this process has had resident, in bytes.
pub fn rss_peak_bytes() -> u64 {
    rss_peak_bytes_of(std::process::id())
}

/// The same of any process; 0 if it has ended.
pub fn rss_peak_bytes_of(process: u32) -> u64 {
    fs::read_to_string(format!("/proc/{process}/status")).map_or(0, |status| field(&status, "VmHWM") * 1024)
}

/// Resident memory of any process now, in bytes; 0 if it has ended.
pub fn rss_bytes_of(process: u32) -> u64 {
    fs::read_to_string(format!("/proc/{process}/status")).map_or(0, |status| field(&status, "VmRSS") * 1024)
}

/// Processor seconds of any process so far; 0 if it has ended.
pub fn cpu_seconds_of(process: u32) -> f64 {
    fs::read_to_string(format!("/proc/{process}/stat")).map_or(0.0, |stat| cpu_seconds(&stat))
}

/// Bytes that the files below `dir` occupy on the device; a file with several names counts once per name.
pub fn space_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { space_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_all_threads() {
        let (mut fast, mut slow) = (Latencies::default(), Latencies::default());
        (0..990).for_each(|_| fast.record(100));
        (0..10).for_each(|_| slow.record(1_000_000));
        fast.merge(&slow);
        let mut outcome = Outcome::default();
        fast.report(&mut outcome);
        assert_eq!((outcome.p50_ns, outcome.p99_ns), (100, 100));
        assert!(outcome.p999_ns > 990_000 && outcome.max_ns >= 1_000_000);
    }

    #[test]
    fn kernel_lines_are_read_by_name() {
        let io = "rchar: 5\nread_bytes: 12\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!((field(io, "read_bytes"), field(io, "write_bytes"), field(io, "missing")), (12, 4096, 0));
        assert_eq!(field("VmHWM:\t  2048 kB\n", "VmHWM"), 2048);
    }

    #[test]
    fn what_others_took_is_a_share_of_what_was_wanted() {
        let at = |stat| MachineTime::of(stat);
        let before = at("cpu  10 10 10 500 500 0 0 5 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
        let after = at("cpu  30 20 30 700 900 3 2 15 0 0\n");
        assert_eq!(after.stolen_since(&before), 10.0 / 65.0);
        assert_eq!(before.stolen_since(&before), 0.0);
        assert_eq!(at(""), MachineTime::default());
        assert_eq!(at("").stolen_since(&before), 0.0, "a kernel that has ceased to tell");
    }

    #[test]
    fn processor_time_is_found_behind_a_hostile_name() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_seconds(stat), 2.0);
    }
}
