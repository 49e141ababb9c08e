//! The time to stall: a fluid model of one tree under the present load, bandwidth and stage.

use super::device::Front;
use super::knobs::{PartitionKnobs, Scope};
use super::meter::Load;
use super::sample::{Sample, TreeFacts};
use crate::limits::Limits;

/// The share that flushes get while merges wait, too (FX-14).
const FLUSH_SHARE: f64 = 10.0 / 11.0;

/// Background bandwidth of one partition, in bytes per second; infinite where the device has no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    /// What its flushes can have.
    pub flush: f64,
    /// What its merges can have beside flushes that keep up with the ingest.
    pub merge: f64,
}

/// What the node's bandwidth leaves for flushes and merges, in bytes per second: foreground comes first.
pub fn left(sample: &Sample, loads: &[Load]) -> f64 {
    let front = Front::of(loads);
    match &sample.device {
        Limits::Shared(_) => front.background_at(&sample.device, 1.0).max(0.0),
        // Levels 0 and 1 are in memory: what relieves level 0 only writes.
        Limits::Split { .. } => front.writes_left(&sample.device),
    }
}

/// What every partition can have of the node's bandwidth while all write as they do now, in the order of the sample:
/// foreground first, then flushes, and each partition in proportion to what it writes.
pub fn tokens(sample: &Sample, loads: &[Load]) -> Vec<Tokens> {
    let ingest = loads.iter().map(|load| load.ingest).sum::<f64>();
    let left = left(sample, loads);
    let of = |load: &Load| {
        let part = if ingest > 0.0 { load.ingest / ingest } else { 1.0 };
        let flush = if left.is_finite() { left * FLUSH_SHARE * part } else { left };
        let merge = if left.is_finite() { (left * part - flush.min(load.ingest)).max(0.0) } else { left };
        Tokens { flush, merge }
    };
    loads.iter().map(of).collect()
}

/// How a tree is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Which compactions run.
    pub scope: Scope,
    /// Memtables that become one run.
    pub gather: u64,
    /// Memtables allowed.
    pub buffers: u64,
    /// Runs that a merge inside level 0 takes.
    pub fan_in: u64,
}

impl Course {
    /// How a tree is run with these knobs.
    pub fn of(knobs: &PartitionKnobs) -> Course {
        let &PartitionKnobs { scope, flush_gather, write_buffers, intra_l0_fan_in, .. } = knobs;
        Course { scope, gather: flush_gather, buffers: write_buffers, fan_in: intra_l0_fan_in }
    }
}

/// Seconds until a write stalls if `ingest` bytes per second go on; `None` = never.
pub fn seconds_to_stall(tree: &TreeFacts, ingest: f64, tokens: Tokens, course: Course) -> Option<f64> {
    if ingest <= 0.0 {
        return None;
    }
    let memtables = (tokens.flush < ingest).then(|| tree.room(course.buffers) as f64 / (ingest - tokens.flush));
    let arriving = ingest.min(tokens.flush) / run_bytes(tree, course);
    let leaving = tokens.merge / bytes_per_run(tree, course);
    let left = tree.l0_slow.saturating_sub(tree.l0_runs) as f64;
    let runs = (arriving > leaving).then(|| left / (arriving - leaving));
    match (memtables, runs) {
        (Some(memtables), Some(runs)) => Some(memtables.min(runs)),
        (memtables, runs) => memtables.or(runs),
    }
}

/// Bytes of a new run.
fn run_bytes(tree: &TreeFacts, course: Course) -> f64 {
    (course.gather.max(1) * tree.memtable_bytes.max(1)) as f64
}

/// Bytes that merges write for each run that they take out of level 0.
pub fn bytes_per_run(tree: &TreeFacts, course: Course) -> f64 {
    let run = run_bytes(tree, course);
    match course.scope {
        Scope::IntraL0 => {
            let fan_in = course.fan_in.max(2) as f64;
            run * fan_in / (fan_in - 1.0)
        }
        Scope::All | Scope::L0ToL1 => {
            let runs = tree.l0_runs.max(tree.l0_trigger).max(1) as f64;
            let bytes = (tree.l0_bytes as f64).max(runs * run);
            (bytes + tree.l1_bytes as f64) / runs
        }
    }
}

/// The largest number of memtables a flush may wait for, up to `most`. Two things bound it. Writes must go on in the
/// remaining ones of `buffers` until the flush is done: `buffers` must hold what gathers, what fills meanwhile, and one
/// more. And the flush must not be urgent as soon as it begins, with all memtables but two full (U-11): it would go
/// before the very writes that it makes room for, and those of all trees that fill alike would do so at once.
pub fn gather(ingest: f64, flush: f64, buffers: u64, most: u64) -> u64 {
    let while_flushing = if flush > 0.0 { ingest / flush } else { f64::INFINITY };
    let fits = |gather: u64| gather as f64 * (1.0 + while_flushing) + 1.0 <= buffers as f64 && gather + 2 < buffers;
    (2..=most).rev().find(|&gather| fits(gather)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMTABLE: u64 = 16 << 20;
    const INGEST: f64 = 3.0 * 1024.0 * 1024.0;

    fn tree(l0_runs: u64) -> TreeFacts {
        TreeFacts {
            l0_runs,
            l0_bytes: l0_runs * MEMTABLE,
            l1_bytes: 4 * MEMTABLE,
            memtable_bytes: MEMTABLE,
            l0_trigger: 4,
            l0_slow: 20,
            ..TreeFacts::default()
        }
    }

    fn course(scope: Scope, gather: u64, buffers: u64) -> Course {
        Course { scope, gather, buffers, fan_in: 4 }
    }

    #[test]
    fn without_merges_level_0_is_full_after_107_seconds() {
        // Memtables of 16 MB at 3 MB/s.
        let tokens = Tokens { flush: 1e9, merge: 0.0 };
        let one = seconds_to_stall(&tree(0), INGEST, tokens, course(Scope::All, 1, 4)).expect("it stalls");
        assert!((one - 106.7).abs() < 0.1, "{one}");
        let four = seconds_to_stall(&tree(0), INGEST, tokens, course(Scope::All, 4, 9)).expect("it stalls");
        assert!((four - 4.0 * one).abs() < 1e-6, "{four}");
        assert_eq!(seconds_to_stall(&tree(0), 0.0, tokens, course(Scope::All, 1, 4)), None);
    }

    #[test]
    fn flushes_that_cannot_keep_up_fill_the_memtables() {
        // FX-29, U-9: 64 MB in 21 s.
        let tokens = Tokens { flush: 0.0, merge: 0.0 };
        let seconds = seconds_to_stall(&tree(0), INGEST, tokens, course(Scope::All, 1, 4)).expect("it stalls");
        assert!((seconds - 21.3).abs() < 0.1, "{seconds}");
    }

    #[test]
    fn merging_within_level_0_is_cheaper_than_below_a_grown_level_1() {
        let grown = TreeFacts { l1_bytes: 40 * MEMTABLE, ..tree(12) };
        let tokens = Tokens { flush: 2.0 * INGEST, merge: 1.4 * INGEST };
        let first = seconds_to_stall(&grown, INGEST, tokens, course(Scope::L0ToL1, 1, 4)).expect("it stalls");
        assert!((first - 63.0).abs() < 0.1, "{first}");
        assert_eq!(seconds_to_stall(&grown, INGEST, tokens, course(Scope::IntraL0, 1, 4)), None);
    }

    #[test]
    fn a_flush_gathers_as_long_as_the_rest_takes_what_comes() {
        // At 2 bytes per byte 4 memtables and 9 buffers.
        assert_eq!(gather(3.0, 6.0 * FLUSH_SHARE, 9, 4), 4);
        assert_eq!([gather(3.0, 3.0, 9, 4), gather(3.0, 1.0, 9, 4), gather(3.0, 0.0, 9, 4)], [4, 2, 1]);
        assert_eq!([gather(3.0, 6.0, 6, 4), gather(0.0, 1.0, 9, 4)], [3, 4]);
        assert_eq!(
            [gather(3.0, 60.0, 5, 4), gather(3.0, 60.0, 4, 4)],
            [2, 1],
            "U-11: two of four would always be urgent"
        );
    }
}
