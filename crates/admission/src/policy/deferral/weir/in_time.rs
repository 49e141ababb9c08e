//! What flushes get of a device that foreground would use up, so that they end before writes stall.
//!
//! Foreground comes first at the node (FX-4), and clients who ask as soon as they are answered use all there is. A flush
//! that becomes urgent when all memtables but two are full (U-11) comes too late then, where it has gathered many: it
//! needs longer than two memtables last. So each flush is looked at as a job with a deadline:
//!
//! ```text
//!   left        what it has still to write
//!   room        what users may write until writes stall: memtables that are allowed, less what is in them
//!   needed      left / (room / ingest), and a tenth more
//! ```
//!
//! One that has written less than what it needed for two ticks is *late*, until it has ended. While there is one,
//! background has so much of the device that all flushes that are under way end in time, whatever foreground asks for.
//! Where foreground leaves enough nobody is late, and nothing changes.

use super::Look;
use crate::limits::{Direction, Limits};

/// A flush is to end with so much of its time left.
const MARGIN: f64 = 0.9;
/// What flushes have of background while merges wait, too (FX-14).
const OF_BACKGROUND: f64 = 10.0 / 11.0;
/// Foreground keeps at least as much as background, …
const SHARE_MIN: f64 = 1.0;
/// … and where background needs less than this part, it has this part.
const SHARE_MAX: f64 = 1000.0;
/// With less room than so large a part of a memtable writes are taken to stall.
const STALLS: u64 = 8;
/// Ticks after which a flush that is slower than needed is late.
const TICKS: u32 = 2;

/// A flush as the last ticks saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Bytes that were left to be written.
    left: u64,
    /// Ticks in a row at which it was slower than needed.
    slow: u32,
}

impl Pace {
    /// Whether it is late.
    fn is_late(self) -> bool {
        self.slow >= TICKS
    }

    /// The next tick has come, `seconds` later: `left` bytes are still to be written, and so many a second are needed.
    #[must_use]
    fn step(self, left: u64, needed: f64, seconds: f64) -> Self {
        if left == 0 || left > self.left {
            // No flush, or another one: what was known of the last one is over.
            return Self { left, slow: 0 };
        }
        let written = (self.left - left) as f64;
        let slow = match written < needed * seconds || self.is_late() {
            true => self.slow.saturating_add(1),
            false => 0,
        };
        Self { left, slow }
    }
}

/// Bytes per second that the flush under way must write to end in time, of the `rate` of the device; 0 where none is, or
/// nobody writes.
fn needed(look: &Look<'_>, rate: f64) -> f64 {
    let (tree, left) = (&look.sample.tree, look.sample.jobs.flush_left);
    let room = tree.room(look.gathering.buffers);
    if left > 0 && room < tree.memtable_bytes / STALLS {
        // What is written says nothing any more.
        return rate;
    }
    left as f64 * look.load.ingest / (room.max(1) as f64 * MARGIN)
}

/// Takes in a tick, `seconds` after the last one, for the `paces` of the partitions of `looks`. Gives how many bytes of
/// foreground pass for one of background where both wait; `None` = background has what foreground leaves.
pub fn share<'p>(
    device: &Limits,
    looks: &[Look<'_>],
    paces: impl Iterator<Item = &'p mut Pace>,
    seconds: f64,
) -> Option<u32> {
    let rate = device.rates(Direction::Write).bytes as f64;
    let (mut all, mut some_late) = (0.0, false);
    for (look, pace) in looks.iter().zip(paces) {
        let needed = needed(look, rate);
        *pace = pace.step(look.sample.jobs.flush_left, needed, seconds);
        some_late |= pace.is_late();
        all += needed;
    }
    let background = all / OF_BACKGROUND;
    some_late.then(|| ((rate - background) / background).clamp(SHARE_MIN, SHARE_MAX) as u32)
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
            share(&Limits::bytes(100), &[look], std::iter::once(&mut pace), 1.0)
        };
        ticks.iter().map(of).collect()
    }

    #[test]
    fn who_keeps_up_changes_nothing() {
        // 40 bytes, while 60 more may come at 2 a second: 1.5 a second are needed.
        assert_eq!(shares(&[(40, 40), (38, 42), (36, 44), (34, 46)]), [None; 4]);
        assert_eq!(shares(&[(0, 40), (0, 42), (0, 44), (0, 46)]), [None; 4], "no flush");
        assert_eq!(
            shares(&[(40, 40), (39, 40), (37, 42), (36, 44), (34, 46)]),
            [None; 5],
            "slow for a tick now and then"
        );
    }

    #[test]
    fn who_is_late_gets_what_it_needs_until_it_has_ended() {
        let all = shares(&[(40, 40), (40, 42), (40, 44), (38, 46), (36, 48), (2, 50), (40, 10), (39, 12)]);
        // 40 of 56 bytes of room at 2 a second: 1.6 of them, so that flushes have their part of 1.75; of 100 bytes.
        assert_eq!(all[..2], [None; 2]);
        assert_eq!(all[2..4], [Some(56), Some(57)]);
        assert!(all[4].is_some() && all[5].is_some(), "also when it has become fast enough");
        assert_eq!(all[6..], [None; 2], "the next one is another one");
    }

    #[test]
    fn foreground_keeps_half() {
        assert_eq!(shares(&[(40, 99), (40, 100), (40, 100)])[2], Some(1));
        assert_eq!(shares(&[(1, 0), (1, 0), (1, 0)])[2], Some(1000));
    }
}
