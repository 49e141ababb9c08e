//! Fixtures: a script of samples, and what a profile decides about them.

use std::fmt::Write as _;

use weir_admission::Limits;
use weir_admission::cost::Capacity;
use weir_admission::policy::bandwidth::BandwidthSettings;
use weir_admission::policy::{
    Bytes, JobFacts, MemoryFacts, PartitionKnobs, PartitionSample, Policy, Profile, Sample, Settings, TreeFacts,
};
use weir_io::Owner;

const SECOND: u64 = 1_000_000_000;
/// The rate of the device, in bytes per second.
const DEVICE: u64 = 16_000_000;
/// The sizes of the memory for memtables and of the block cache, where a script says how much of them is used.
const BUFFERS: u64 = 240_000_000;
const CACHE: u64 = 1_000_000_000;

/// The settings of all profiles.
pub fn settings() -> Settings {
    Settings::new(BandwidthSettings { read_amplification: 4, background: 60_000_000 })
}

/// An empty tree of the paper's sizes.
pub fn tree() -> TreeFacts {
    TreeFacts {
        depth: 3,
        memtable_bytes: 16_000_000,
        write_buffers: 4,
        write_buffers_now: 4,
        l0_target: 64_000_000,
        l0_trigger: 4,
        l0_slow: 20,
        l0_stop: 36,
        ..TreeFacts::default()
    }
}

/// The script with the lines that `profile` adds.
pub fn play(profile: Profile, script: &str) -> String {
    play_as(profile, script, words)
}

/// The same, with the knobs as `words` shows them.
pub fn play_as(profile: Profile, script: &str, words: impl Fn(&PartitionKnobs) -> String) -> String {
    let mut policy = Policy::new(profile, settings());
    let mut said = String::new();
    let mut totals: Vec<(Bytes, u64)> = Vec::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(said, "{line}");
        let Some(line) = line.strip_prefix("at ") else { continue };
        let (seconds, node) = line.split_once(' ').unwrap_or((line, ""));
        let (from, to) = seconds.split_once("..").unwrap_or((seconds, seconds));
        let (from, to): (u64, u64) = (from.parse().expect("a second"), to.parse().expect("a second"));
        let mut partitions = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            let _ = writeln!(said, "{line}");
            partitions.push(line);
        }
        totals.resize(partitions.len(), Default::default());
        let mut decision = None;
        for second in from..=to {
            let samples = partitions.iter().zip(&mut totals).enumerate();
            let awake = samples.filter(|(_, (line, _))| !line.ends_with("asleep"));
            let samples = awake.map(|(index, (line, totals))| partition(index, line, totals)).collect();
            let (device, memory) = (Limits::bytes(DEVICE), memory(node));
            decision = Some(policy.decide(&Sample { now: second * SECOND, device, memory, partitions: samples }));
        }
        for knobs in decision.expect("at least one second").knobs.partitions {
            let _ = writeln!(said, "  {} -> {}", knobs.owner.partition, words(&knobs));
        }
    }
    said
}

/// The words of a line that carry a number.
fn numbers(line: &str) -> impl Iterator<Item = (&str, f64)> {
    let words = line.split_whitespace().filter_map(|word| word.split_once('='));
    words.map(|(key, value)| (key, value.parse().expect("a number")))
}

fn memory(line: &str) -> MemoryFacts {
    let mut memory = MemoryFacts::default();
    for (key, number) in numbers(line) {
        let mega = (number * 1e6) as u64;
        match key {
            "buffers" => (memory.buffers_used, memory.buffers_max) = (mega, Some(BUFFERS)),
            "cache" => (memory.upper_used, memory.upper_max) = (mega, Some(CACHE)),
            _ => panic!("no such word: {key}"),
        }
    }
    memory
}

fn partition(index: usize, line: &str, (bytes, drains): &mut (Bytes, u64)) -> PartitionSample {
    let (mut tree, mut jobs) = (tree(), JobFacts::default());
    let mut units = 3000;
    for (key, number) in numbers(line) {
        let mega = (number * 1e6) as u64;
        match key {
            "ingest" => bytes.user += mega,
            "log" => bytes.log += mega,
            "read" => bytes.read += mega,
            "merged" => bytes.deep_written += mega,
            "drains" => *drains += number as u64,
            "runs" => tree.l0_runs = number as u64,
            "l0" => tree.l0_bytes = mega,
            "l1" => tree.l1_bytes = mega,
            "merge-max" => tree.l0_merge_bytes_max = mega,
            "owed" => tree.deep_debt = mega,
            "memory" => tree.unflushed = mega,
            "flushing" => jobs.flush_left = mega,
            "sealed" => tree.sealed = number as u64,
            "sold" => units = number as u64,
            _ => panic!("no such word: {key}"),
        }
    }
    PartitionSample {
        ops: weir_admission::policy::Operations::default(),
        owner: Owner { tenant: index as u32 + 1, partition: index as u32 + 1 },
        capacity: Capacity { rcu: units, wcu: units },
        partitions: 1,
        bytes: *bytes,
        tree,
        jobs,
        drains: *drains,
        felt: weir_admission::policy::Felt::default(),
    }
}

fn words(knobs: &PartitionKnobs) -> String {
    let rate = |limits: &Limits| match limits.rates(weir_admission::Direction::Write).bytes {
        weir_admission::UNLIMITED => "unlimited".to_owned(),
        rate => format!("{:.1}", rate as f64 / 1e6),
    };
    let (why, number) = knobs.why.parts();
    let number = number.map_or(String::new(), |number| format!(":{number}"));
    let stall = knobs.time_to_stall.map_or("never".to_owned(), |nanos| format!("{:.0}s", nanos as f64 / 1e9));
    let write = knobs.write_rate.map_or("free".to_owned(), |rate| format!("{:.1}", rate as f64 / 1e6));
    let cold = if knobs.warm { "" } else { " cold" };
    let eager = if knobs.l0_gathers { "" } else { " eager" };
    // The weight of the first flush, which a partition with nothing to flush has, too.
    let first = 1 << 18;
    let turn = knobs
        .flush_weight
        .filter(|&weight| weight < first)
        .map_or(String::new(), |weight| format!(" flush=1/{}", first / weight));
    let late = if knobs.intra_l0_from > 4 { format!(" from={}", knobs.intra_l0_from) } else { String::new() };
    format!(
        "{} ({}) why={why}{number} stall={stall} front={} behind={} gather={}/{} writes={write}{cold}{eager}{late}{turn}",
        knobs.stage.name(),
        knobs.scope.name(),
        rate(&knobs.foreground),
        rate(&knobs.background),
        knobs.flush_gather,
        knobs.write_buffers,
    )
}
