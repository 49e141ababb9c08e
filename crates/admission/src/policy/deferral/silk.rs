//! SILK's pauses: while clients need most of the device, no compaction runs but what relieves level 0 (SI-9 to SI-12).
//!
//! Deeper compactions that run are parked as they are, and go on when the peak is over. Flushes and level 0 to level 1
//! share the minimum that the bandwidth policy leaves them. Writes are never slowed for a pause (SI-15).
//!
//! Our decision: the pause begins and ends at different loads. With one threshold, a load around it would begin and end
//! the pause a hundred times a second (U-12).

use weir_io::{Nanos, Owner};

use super::{DeferralPolicy, Never};
use crate::policy::bandwidth::SILK_PERIOD;
use crate::policy::device::Front;
use crate::policy::knobs::{Knobs, PartitionKnobs, Reason, Stage};
use crate::policy::meter::Load;
use crate::policy::sample::Sample;

/// A pause begins when reads and logs need this share of the device: 150 of 200 MB/s (SI-12).
const PAUSE: f64 = 0.75;
/// The pause ends when they have needed less than this for [`CALM`].
const RESUME: f64 = 0.65;
const CALM: Nanos = 1_000_000_000;

/// Whether deep compactions are paused.
#[derive(Debug, Default)]
pub struct Pauses {
    /// Whether deep compactions are paused just now.
    is_paused: bool,
    /// The last moment at which clients needed too much to end the pause.
    busy_at: Nanos,
}

impl Pauses {
    /// Takes in a sample, and gives the reason for the pause while there is one.
    pub fn reason(&mut self, sample: &Sample, loads: &[Load]) -> Option<Reason> {
        let share = Front::of(loads).share(&sample.device, 0.0);
        self.observe(share, sample.now);
        self.is_paused.then_some(Reason::Peak((share * 100.0) as u64))
    }

    /// Takes in that clients need `share` of the device at `now`.
    fn observe(&mut self, share: f64, now: Nanos) {
        let enough = if self.is_paused { RESUME } else { PAUSE };
        if share >= enough {
            (self.is_paused, self.busy_at) = (true, now);
        } else if now.saturating_sub(self.busy_at) >= CALM {
            self.is_paused = false;
        }
    }
}

impl DeferralPolicy for Pauses {
    fn period(&self) -> Nanos {
        SILK_PERIOD
    }

    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        if let Some(why) = self.reason(sample, loads) {
            for knob in &mut knobs.partitions {
                let stage = Stage::One;
                *knob = PartitionKnobs { stage, scope: stage.scope(), why, ..*knob };
            }
        }
        Never.decide(sample, loads, knobs);
    }

    fn is_atypical(&self, _: Owner) -> bool {
        self.is_paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Changes from pause to no pause and back while clients need `share` at each look.
    fn changes(looks: u64, share: impl Fn(u64) -> f64) -> Vec<(u64, bool)> {
        let mut pauses = Pauses::default();
        let mut changes = Vec::new();
        for look in 0..looks {
            let before = pauses.is_paused;
            pauses.observe(share(look), look * 10 * MS);
            if pauses.is_paused != before {
                changes.push((look, pauses.is_paused));
            }
        }
        changes
    }

    #[test]
    fn a_peak_pauses_at_once_and_a_second_of_calm_ends_it() {
        // SI-12: 74 % is no peak, 76 % is one.
        assert_eq!(changes(1_000, |_| 0.74), []);
        assert_eq!(
            changes(1_000, |look| if (200..500).contains(&look) { 0.76 } else { 0.3 }),
            [(200, true), (599, false)]
        );
    }

    #[test]
    fn a_load_on_the_edge_changes_nothing() {
        let edge = |look: u64| if look.is_multiple_of(2) { 0.745 } else { 0.755 };
        assert_eq!(changes(10_000, edge), [(1, true)]);
        // A hundred valleys of half a second, too short for anything to resume.
        assert_eq!(changes(10_000, |look| if look % 100 < 50 { 0.9 } else { 0.1 }), [(0, true)]);
    }
}
