//! What flushes get of a device that foreground would use up, so that they end before writes stall.
//!
//! Foreground comes first at the node (FX-4), and clients who ask as soon as they are answered use all there is. What a
//! flush asked for stands behind them then, and keeps its place there when the flush becomes urgent, with all memtables
//! but two full (U-11). So a flush is looked at as a job with a deadline:
//!
//! ```text
//!   left        what it has still to write
//!   room        what users may write until writes stall: memtables that are allowed, less what is in them
//!   needed      left / (room / ingest), and a tenth more
//! ```
//!
//! While one has written nothing for two ticks, flushes have so much of the device that all that are under way end in
//! time, whatever foreground asks for. Merges have what foreground leaves, as ever. Where it leaves anything nobody
//! starves, and nothing changes. (To give what is needed to each that was merely slower than needed was tried, and
//! did no better.)

use super::Look;
use crate::limits::{Direction, Limits};

/// A flush is to end with so much of its time left.
const MARGIN: f64 = 0.9;
/// Foreground keeps at least as much as flushes, …
const SHARE_MIN: f64 = 1.0;
/// … and where flushes need less than this part, they have this part.
const SHARE_MAX: f64 = 1000.0;
/// With less room than so large a part of a memtable writes are taken to stall.
const STALLS: u64 = 8;
/// Ticks without a byte after which a flush starves.
const TICKS: u32 = 2;

/// A flush as the last ticks saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Bytes that were left to be written.
    left: u64,
    /// Ticks in a row at which it had written nothing.
    still: u32,
}

impl Pace {
    fn starves(self) -> bool {
        self.still >= TICKS
    }

    /// The next tick has come: `left` bytes are still to be written.
    #[must_use]
    fn step(self, left: u64) -> Self {
        let stands = left > 0 && left == self.left;
        Self { left, still: if stands { self.still.saturating_add(1) } else { 0 } }
    }
}

/// Bytes per second that the flush under way must write to end in time, of the `rate` of the device; 0 where none is
/// under way, or nobody writes.
fn needed(look: &Look<'_>, rate: f64) -> f64 {
    let (tree, left) = (&look.sample.tree, look.sample.jobs.flush_left);
    let room = tree.room(look.gathering.buffers);
    if left > 0 && room < tree.memtable_bytes / STALLS {
        // What is written says nothing any more.
        return rate;
    }
    left as f64 * look.load.ingest / (room.max(1) as f64 * MARGIN)
}

/// Takes in a tick for the `paces` of the partitions of `looks`. Gives how many bytes of foreground pass for one of
/// flushes where both wait; `None` = background has what foreground leaves.
pub fn share<'p>(device: &Limits, looks: &[Look<'_>], paces: impl Iterator<Item = &'p mut Pace>) -> Option<u32> {
    let rate = device.rates(Direction::Write).bytes as f64;
    let (mut all, mut some_starve) = (0.0, false);
    for (look, pace) in looks.iter().zip(paces) {
        *pace = pace.step(look.sample.jobs.flush_left);
        some_starve |= pace.starves();
        all += needed(look, rate);
    }
    some_starve.then(|| ((rate - all) / all).clamp(SHARE_MIN, SHARE_MAX) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::deferral::weir::gather::Gathering;
    use crate::policy::forecast::Tokens;
    use crate::policy::meter::Load;
    use crate::policy::sample::{JobFacts, PartitionSample, TreeFacts};

    /// Flushes with so much left, one after the other, of memtables of 10 bytes, of which ten are allowed and
    /// `unflushed` bytes full; 2 bytes a second are written, and the device writes 100.
    fn shares(ticks: &[(u64, u64)]) -> Vec<Option<u32>> {
        let mut pace = Pace::default();
        let of = |&(flush_left, unflushed): &(u64, u64)| {
            let tree = TreeFacts { memtable_bytes: 10, unflushed, ..TreeFacts::default() };
            let jobs = JobFacts { flush_left, ..JobFacts::default() };
            let sample = PartitionSample { tree, jobs, ..PartitionSample::default() };
            let load = Load { ingest: 2.0, ..Load::default() };
            let (tokens, gathering) = (Tokens { flush: 0.0, merge: 0.0 }, Gathering { memtables: 4, buffers: 10 });
            let look = Look { sample: &sample, load: &load, tokens, gathering, kept: true };
            share(&Limits::bytes(100), &[look], std::iter::once(&mut pace))
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
        // 40 bytes while 56 may come at 2 a second, and 38 while 50 may: 1.6 and 1.7 of 100 a second.
        assert_eq!(all, [None, None, Some(62), None, None, Some(58), None, None]);
    }

    #[test]
    fn foreground_keeps_half() {
        assert_eq!(shares(&[(40, 99), (40, 100), (40, 100)])[2], Some(1));
        assert_eq!(shares(&[(1, 0), (1, 0), (1, 0)])[2], Some(1000));
    }
}
