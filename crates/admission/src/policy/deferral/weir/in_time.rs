//! The share of a device that background gets although foreground would use it up, so that flushes and merges of level
//! 0 end before writes stall.
//!
//! Foreground comes first at the node (FX-14), and clients that ask again as soon as they are answered use all of the
//! device. What a flush asked for then queues behind them, and keeps its place there when the flush becomes urgent,
//! with all memtables but two full (U-11). A merge of level 0 stands still for as long as they read, while level 0
//! grows to where writes stop. So both are treated as jobs with a deadline:
//!
//! ```text
//!             flush                                        merges of level 0
//!   left      what is still to be written                  the same, and what has to be read for it
//!   room      what users may write until writes stall:     ... until writes are slowed (or until that hurts,
//!             memtables allowed, less what is in them      where they are slowed): runs x memtables in a run
//!   needed    left / (room / ingest), and a tenth more     the same, by the ingest of the busiest second of the minute
//! ```
//!
//! While the flush whose turn it is ([`super::flush_order`]) has written nothing for two ticks, flushes have as much of
//! the device as all flushes under way need to end in time, whatever foreground asks for. Merges of level 0 have the
//! same while foreground takes nearly all of the device, and the merges of some partition are slower than needed.
//! Deeper compactions stand in the same queue and may use it, too, but they are put off meanwhile. Other background
//! work has what foreground leaves, as ever. (Giving each flush that was merely slower than needed what it needs was
//! tried, and did no better. Where clients think before they ask again, merges always get a little, and fall behind
//! nevertheless.)
//!
//! A flush that makes progress may still end after the memtables are full. Then writes are slowed until it ends, by
//! half at most ([`Paces::until_flushed`]).

use weir_io::Nanos;

use super::{CLOSE_TO_SLOW, Look, merge_moves};
use crate::limits::{Direction, Limits};
use crate::policy::deferral::feedback::HIGH;
use crate::policy::device::Front;
use crate::policy::knobs::Floor;
use crate::policy::sample::JobFacts;

/// A job is to end within this part of its time.
const MARGIN: f64 = 0.9;
/// Foreground keeps at least as much as flushes, …
const SHARE_MIN: f64 = 1.0;
/// … four times as much as merges of level 0: what these need beyond that is for the guard, which slows writes, …
const SHARE_MIN_OF_MERGES: f64 = 4.0;
/// … and at most this many times as much as background, however little background needs.
const SHARE_MAX: f64 = 1000.0;
/// With less room than this part of a memtable (one eighth), writes are taken to stall.
const STALLS: u64 = 8;
/// Ticks without a byte after which a flush starves.
const TICKS: u32 = 2;
/// From this share of the device on, foreground takes nearly all of it.
const FULL: f64 = 0.85;
/// Ticks that the pace of merges is averaged over, …
const AVERAGED: f64 = 8.0;
/// … and that of flushes.
const FLUSH_AVERAGED: f64 = 4.0;
/// While writes are slowed until a flush ends, they have at least this part of what is wanted.
const SLOWED_MIN: f64 = 0.5;

/// The flushes of a partition, as the last ticks saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FlushPace {
    at: Nanos,
    /// The number of the flush, in its tree.
    flush: u64,
    /// Bytes that were left to be written.
    left: u64,
    /// Ticks in a row that saw nothing written, though it was the flush's turn.
    still: u32,
    /// Whether other flushes go first.
    waits: bool,
    /// Bytes per second of late; `None` before two ticks have seen the flush under way.
    rate: Option<f64>,
}

impl FlushPace {
    fn starves(self) -> bool {
        self.still >= TICKS
    }

    /// Takes in the next tick, with these `jobs`; `waits` says whether other flushes go first.
    fn step(&mut self, now: Nanos, jobs: &JobFacts, waits: bool) {
        let (flush, left) = (jobs.flush, jobs.flush_left);
        let is_same = left > 0 && flush == self.flush;
        let stands = is_same && left == self.left && !waits;
        // How little a flush has written while others went first says nothing of how fast it is in its turn.
        let goes_on = is_same && left <= self.left && !waits && !self.waits;
        let seconds = now.saturating_sub(self.at) as f64 / 1e9;
        let seen = (self.left.saturating_sub(left)) as f64 / seconds.max(f64::MIN_POSITIVE);
        let rate = goes_on.then(|| self.rate.map_or(seen, |rate| rate + (seen - rate) / FLUSH_AVERAGED));
        let still = if stands { self.still.saturating_add(1) } else { 0 };
        *self = Self { at: now, flush, left, still, waits, rate };
    }

    /// Seconds until the flush under way is written; `None` where that is not known, or no flush is under way. It is
    /// not known while others go first: once writes will soon wait for the flush, it no longer waits for its turn
    /// (U-11).
    fn ends_in(self) -> Option<f64> {
        self.rate.filter(|&rate| rate > 0.0).map(|rate| self.left as f64 / rate)
    }
}

/// The merges of level 0 of a partition, as the last ticks saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MergePace {
    at: Nanos,
    /// Bytes that the merges had written in all.
    written: u64,
    /// Bytes per second of late.
    rate: f64,
}

impl MergePace {
    /// Takes in the next tick: the merges have written `written` bytes in all.
    fn step(&mut self, now: Nanos, written: u64) {
        let seconds = now.saturating_sub(self.at) as f64 / 1e9;
        let rate = written.saturating_sub(self.written) as f64 / seconds.max(f64::MIN_POSITIVE);
        // What was written before the first tick says nothing of how fast it was written.
        let rate = if self.at == 0 { 0.0 } else { self.rate + (rate - self.rate) / AVERAGED };
        *self = Self { at: now, written, rate };
    }
}

/// How fast the flushes and merges are that relieve a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Paces {
    flush: FlushPace,
    merge: MergePace,
    /// Bytes per second that users wrote before they were slowed until a flush ends; 0 where they are not slowed.
    wanted: f64,
}

impl Paces {
    /// Bytes per second that users may write until the flush under way ends, which gives back all of its memtables at
    /// once: what memtables have room for until then. Users write `ingest` bytes per second, memtables have `room`
    /// bytes left, and the part `full` of them is full.
    ///
    /// Never less than half of what is wanted: a flush that ends too late even so starves, and [`floor`] helps it,
    /// while slowed writes stall later and for a shorter time. `None` where all that comes fits, where there is no
    /// flush, and before [`floor`] has seen two ticks of it.
    pub fn until_flushed(&mut self, room: u64, full: f64, ingest: f64) -> Option<u64> {
        let wanted = std::mem::take(&mut self.wanted).max(ingest);
        // The bandwidth that the node has for a flush does not say when the flush ends, for others write, too.
        let fits = MARGIN * room as f64 / self.flush.ends_in()?.max(f64::MIN_POSITIVE);
        let rate = fits.max(wanted * SLOWED_MIN);
        (full >= HIGH && rate < wanted).then(|| {
            self.wanted = wanted;
            rate as u64
        })
    }
}

/// Bytes per second, of the `rate` of the device, that the flush under way must write to end in time; 0 where no flush
/// is under way, or nobody writes.
fn flush_needs(look: &Look<'_>, rate: f64) -> f64 {
    let (tree, left) = (&look.sample.tree, look.sample.jobs.flush_left);
    let room = tree.room(look.gathering.buffers);
    if left > 0 && room < tree.memtable_bytes / STALLS {
        // Writes are about to wait, so the ingest no longer says what users want to write.
        return rate;
    }
    left as f64 * look.load.ingest / (room.max(1) as f64 * MARGIN)
}

/// The same for the merges of level 0. Writes that wait for them come in bursts: the busiest second of the minute says
/// how many there would be.
fn merge_needs(look: &Look<'_>, rate: f64) -> f64 {
    let (tree, left) = (&look.sample.tree, look.sample.jobs.l0_left);
    let runs = look.runs_bound().saturating_sub(tree.l0_runs + CLOSE_TO_SLOW);
    if left > 0 && runs == 0 {
        return rate;
    }
    let room = (runs * look.gathering.memtables * tree.memtable_bytes).max(1) as f64;
    left as f64 * look.load.ingest.max(look.load.peak) / (room * MARGIN)
}

/// Bytes per second that a partition's own background must have so that its flushes and merges end in time.
pub fn behind(device: &Limits, look: &Look<'_>) -> f64 {
    let rate = device.rates(Direction::Write).bytes as f64;
    flush_needs(look, rate) + merge_moves(look.kept) * merge_needs(look, rate)
}

/// Takes in a tick for the `paces` of the partitions of `looks`. Gives what background has while foreground, which is
/// `front`, waits; `None` = only what foreground leaves.
pub fn floor<'p>(
    now: Nanos,
    device: &Limits,
    front: Front,
    looks: &[Look<'_>],
    paces: impl Iterator<Item = &'p mut Paces>,
    waits: impl Fn(&Look<'_>) -> bool,
) -> Option<Floor> {
    let rate = device.rates(Direction::Write).bytes as f64;
    let (mut flushes, mut merges) = (0.0, 0.0);
    let (mut flush_starves, mut merge_lags) = (false, false);
    for (look, pace) in looks.iter().zip(paces) {
        pace.flush.step(now, &look.sample.jobs, waits(look));
        pace.merge.step(now, look.sample.bytes.l0_written);
        flush_starves |= pace.flush.starves();
        flushes += flush_needs(look, rate);
        let needs = merge_needs(look, rate);
        merge_lags |= pace.merge.rate < needs;
        merges += merge_moves(look.kept) * needs;
    }
    let foreground = |needed: f64, least: f64| ((rate - needed) / needed).clamp(least, SHARE_MAX) as u32;
    let of_flushes = flush_starves.then(|| foreground(flushes, SHARE_MIN));
    if merge_lags && front.share(device, 0.0) >= FULL {
        let of_all = foreground(flushes + merges, SHARE_MIN_OF_MERGES);
        return Some(Floor { foreground: of_flushes.map_or(of_all, |share| share.min(of_all)), merges: true });
    }
    of_flushes.map(|foreground| Floor { foreground, merges: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::deferral::weir::gather::Gathering;
    use crate::policy::forecast::Tokens;
    use crate::policy::meter::Load;
    use crate::policy::sample::{Bytes, PartitionSample, TreeFacts};

    /// `ticks` has what the flush has left, and how many bytes of memtables are unflushed, tick by tick. Memtables have
    /// 10 bytes, ten are allowed, 2 bytes a second are written, and the device writes 100.
    fn shares(ticks: &[(u64, u64)]) -> Vec<Option<u32>> {
        let mut paces = Paces::default();
        let of = |&(flush_left, unflushed): &(u64, u64)| {
            let tree = TreeFacts { memtable_bytes: 10, unflushed, ..TreeFacts::default() };
            let jobs = JobFacts { flush_left, ..JobFacts::default() };
            let sample = PartitionSample { tree, jobs, ..PartitionSample::default() };
            let load = Load { ingest: 2.0, ..Load::default() };
            let (tokens, gathering) = (Tokens { flush: 0.0, merge: 0.0 }, Gathering { memtables: 4, buffers: 10 });
            let look = Look { sample: &sample, load: &load, tokens, gathering, kept: true };
            let front = Front::of(&[Load { read: 100.0, ..Load::default() }]);
            let floor = floor(1, &Limits::bytes(100), front, &[look], std::iter::once(&mut paces), |_| false);
            assert!(floor.is_none_or(|floor| !floor.merges), "no merge is under way");
            floor.map(|floor| floor.foreground)
        };
        ticks.iter().map(of).collect()
    }

    #[test]
    fn who_gets_on_changes_nothing() {
        assert_eq!(shares(&[(40, 40), (38, 42), (37, 44), (36, 46)]), [None; 4]);
        assert_eq!(shares(&[(0, 40), (0, 42), (0, 44), (0, 46)]), [None; 4], "no flush");
        assert_eq!(shares(&[(40, 40), (40, 42), (39, 44), (39, 46)]), [None; 4], "still for a tick now and then");
    }

    #[test]
    fn who_starves_gets_what_it_needs_until_it_has_got_something() {
        let all = shares(&[(40, 40), (40, 42), (40, 44), (38, 46), (38, 48), (38, 50), (40, 10), (40, 12)]);
        // 40 bytes must be flushed while 56 may come at 2 a second, and 38 while 50 may: 1.6 and 1.7 of 100 a second.
        assert_eq!(all, [None, None, Some(62), None, None, Some(58), None, None]);
    }

    #[test]
    fn foreground_keeps_half() {
        assert_eq!(shares(&[(40, 99), (40, 100), (40, 100)])[2], Some(1));
        assert_eq!(shares(&[(1, 0), (1, 0), (1, 0)])[2], Some(1000));
    }

    #[test]
    fn when_a_flush_ends_is_known_by_how_fast_it_is() {
        let (mut paces, mut second) = (Paces::default(), 0);
        let jobs = |flush_left| JobFacts { flush_left, ..JobFacts::default() };
        let mut after = |left: u64, room: u64, full: f64, ingest: f64| {
            second += 1_000_000_000;
            paces.flush.step(second, &jobs(left), false);
            paces.until_flushed(room, full, ingest)
        };
        assert_eq!(after(8_000, 9_500, 0.9, 600.0), None, "seen once");
        // 7,600 bytes at 400 a second: 19 s, in which 9,500 bytes may be written, less a tenth.
        assert_eq!(after(7_600, 9_500, 0.9, 600.0), Some(450));
        // The new rate counts by a quarter: 300 a second. What was wanted is remembered.
        assert_eq!(after(7_600, 9_500, 0.9, 400.0), Some(337));
        assert_eq!(after(7_300, 9_500, 0.7, 400.0), None, "there is much room yet");
        assert_eq!(after(7_000, 9_500, 0.9, 300.0), None, "all that is written now");
        assert_eq!(after(6_700, 9_500, 0.9, 900.0), Some(450), "382 would be less than half");
        assert_eq!(after(9_000, 9_500, 0.9, 600.0), None, "another flush");
        assert_eq!(after(0, 9_500, 0.9, 600.0), None, "none");
        let mut behind_others = Paces::default();
        (1..4).for_each(|second| behind_others.flush.step(second * 1_000_000_000, &jobs(500 - second), true));
        assert_eq!(behind_others.until_flushed(9_500, 0.9, 600.0), None, "its turn has not come");
        behind_others.flush.step(4_000_000_000, &jobs(400), false);
        assert_eq!((behind_others.flush.still, behind_others.flush.rate), (0, None), "it has just come");
        behind_others.flush.step(5_000_000_000, &jobs(300), false);
        assert_eq!(behind_others.flush.rate, Some(100.0));
        behind_others.flush.step(6_000_000_000, &JobFacts { flush: 1, ..jobs(200) }, false);
        assert_eq!(behind_others.flush.rate, None, "a smaller flush that followed at once");
        let still = [after(1_000, 9_500, 0.9, 600.0), after(1_000, 9_500, 0.9, 600.0)];
        assert_eq!(still, [None; 2], "it has not moved");
    }

    /// `ticks` has what one merge of level 0 has left, and how many runs its tree has, second by second. A run has four
    /// memtables of 10 bytes each. 2 bytes a second are written, and the device moves 100, of which reads take `read`.
    /// Writes are slowed from 20 runs on.
    fn floors(read: f64, ticks: &[(u64, u64)]) -> Vec<Option<Floor>> {
        let mut paces = Paces::default();
        let first = ticks[0].0;
        let of = |(second, &(l0_left, l0_runs)): (usize, &(u64, u64))| {
            let tree = TreeFacts { memtable_bytes: 10, l0_runs, l0_slow: 20, l0_stop: 36, ..TreeFacts::default() };
            let jobs = JobFacts { l0_left, ..JobFacts::default() };
            let bytes = Bytes { l0_written: first - l0_left, ..Bytes::default() };
            let sample = PartitionSample { tree, jobs, bytes, ..PartitionSample::default() };
            let load = Load { ingest: 2.0, ..Load::default() };
            let (tokens, gathering) = (Tokens { flush: 0.0, merge: 0.0 }, Gathering { memtables: 4, buffers: 10 });
            let look = Look { sample: &sample, load: &load, tokens, gathering, kept: true };
            let front = Front::of(&[Load { read, ..Load::default() }]);
            let now = (second as Nanos + 1) * 1_000_000_000;
            floor(now, &Limits::bytes(100), front, &[look], std::iter::once(&mut paces), |_| false)
        };
        ticks.iter().enumerate().map(of).collect()
    }

    fn merges(foreground: u32) -> Option<Floor> {
        Some(Floor { foreground, merges: true })
    }

    #[test]
    fn merges_of_level_0_that_fall_behind_get_what_they_need_before_writes_are_slowed() {
        // 320 bytes must be merged while 10 runs of 40 bytes may come at 2 a second: 1.8 of 100.
        assert_eq!(floors(90.0, &[(320, 8), (320, 8), (319, 8)]), [merges(55), merges(55), merges(55)]);
        // Close to the bound it would be 17.8. Where that bound is lost, 30 runs are the next: 9 more may come.
        assert_eq!(floors(90.0, &[(320, 17)]), [merges(4)]);
        assert_eq!(floors(90.0, &[(320, 30)]), [merges(4)], "whatever is written: it is what the tree lets through");
        assert_eq!(floors(90.0, &[(320, 21)]), [merges(49)]);
        assert_eq!(floors(90.0, &[(6400, 18)]), [merges(4)], "foreground keeps four fifths");
        assert_eq!(floors(90.0, &[(0, 8)]), [None], "no merge");
    }

    #[test]
    fn merges_that_are_in_time_or_need_not_wait_for_foreground_get_nothing() {
        let quick: Vec<(u64, u64)> = (0..30).map(|second| (320 - second * 6, 8)).collect();
        let floors_of_quick = floors(90.0, &quick);
        assert_eq!((floors_of_quick[1], floors_of_quick[29]), (merges(56), None));
        assert_eq!(floors(80.0, &[(320, 8), (320, 8), (320, 8)]), [None; 3]);
    }
}
