//! Operations of several kinds in given shares, by clients that wait for their answers or do not.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weir_io::Nanos;

/// What the clients of a partition send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// When they send it.
    pub pace: Pace,
    /// Of which kinds.
    pub shares: Shares,
    /// Entries of a scan, at most: from one on, all alike.
    pub entries_max: u64,
    /// Which of the items they read and update.
    pub popularity: Popularity,
    /// The name of YCSB's workload that this is; `None` = of another scenario.
    pub workload: Option<&'static str>,
    /// Seconds of load before those that count.
    pub warm_up: u64,
}

/// Of a hundred operations, how many are of which kind: a hundred together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// See [`Kind::Insert`].
    pub inserts: u8,
    /// See [`Kind::Scan`].
    pub scans: u8,
    /// See [`Kind::Update`].
    pub updates: u8,
    /// See [`Kind::Modify`].
    pub modifies: u8,
    /// See [`Kind::Get`].
    pub gets: u8,
}

/// Which items are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Popularity {
    /// All that were there before alike
    Uniform,
    /// Few of them often, scattered over all
    Zipfian,
    /// The newest most
    Latest,
}

impl Popularity {
    /// As YCSB calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Popularity::Uniform => "uniform",
            Popularity::Zipfian => "zipfian",
            Popularity::Latest => "latest",
        }
    }
}

/// When clients send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: so many clients, each of which sends its next operation when the last one is answered and some time
    /// of its own has passed.
    Closed {
        /// Of each partition.
        clients: u32,
        /// What passes between an answer and the next operation, in nanoseconds, on average: from half of it to half as
        /// much again.
        own_time: Nanos,
    },
    /// Open loop: so many operations a second of each partition, whatever becomes of them.
    Open(f64),
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stores a new item.
    Insert,
    /// Reads an item and some of those that follow it.
    Scan,
    /// Stores an item anew that is there.
    Update,
    /// Reads an item, and then stores it anew.
    Modify,
    /// Reads an item.
    Get,
}

impl Kind {
    /// All, in the order of [`Shares`].
    pub const ALL: [Kind; 5] = [Kind::Insert, Kind::Scan, Kind::Update, Kind::Modify, Kind::Get];

    /// For tables and JSON; YCSB's words in small letters, but for its `read`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::Update => "update",
            Kind::Modify => "read-modify-write",
            Kind::Get => "get",
        }
    }
}

/// Turns of the golden ratio come as evenly over a circle as turns can, however many there were.
const TURN: f64 = 0.618_033_988_749_894_9;

impl Shares {
    /// Percent of the operations that are of `kind`.
    pub const fn of(&self, kind: Kind) -> u8 {
        match kind {
            Kind::Insert => self.inserts,
            Kind::Scan => self.scans,
            Kind::Update => self.updates,
            Kind::Modify => self.modifies,
            Kind::Get => self.gets,
        }
    }

    /// Those that are sent, in words: `50 % inserts, 50 % gets`.
    pub fn words(&self) -> String {
        let sent = Kind::ALL.into_iter().filter(|&kind| self.of(kind) > 0);
        sent.map(|kind| format!("{} % {}s", self.of(kind), kind.name())).collect::<Vec<_>>().join(", ")
    }
}

impl Mix {
    /// What the operation number `nth` of a partition does: so that any few in a row have nearly the shares. Drawn at
    /// random they would differ from second to second the more, the fewer a scale leaves of them, and that would be all
    /// that a tail is about.
    pub fn kind(&self, nth: u64) -> Kind {
        let at = (nth as f64 * TURN).fract() * 100.0;
        let mut below = 0.0;
        let kind = Kind::ALL.into_iter().find(|&kind| {
            below += f64::from(self.shares.of(kind));
            at < below
        });
        kind.unwrap_or(Kind::Get)
    }

    /// Operations of `kind` a second, where they have times of their own; 0 in a closed loop.
    pub fn per_sec(&self, kind: Kind) -> f64 {
        match self.pace {
            Pace::Closed { .. } => 0.0,
            Pace::Open(all) => all * f64::from(self.shares.of(kind)) / 100.0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One with `shares`.
    pub fn mix(shares: Shares) -> Mix {
        let popularity = Popularity::Uniform;
        Mix { pace: Pace::Open(200.0), shares, entries_max: 9, popularity, workload: None, warm_up: 0 }
    }

    #[test]
    fn any_hundred_operations_have_the_shares() {
        let all = Shares { inserts: 40, scans: 20, updates: 5, modifies: 5, gets: 30 };
        let half = Shares { gets: 50, modifies: 50, ..Shares::default() };
        let few = Shares { gets: 95, inserts: 5, ..Shares::default() };
        for mix in [mix(all), mix(half), mix(few)] {
            for from in [0, 7, 1_000_000, 10_000_000_000] {
                for kind in Kind::ALL {
                    let sent = (from..from + 100).filter(|&nth| mix.kind(nth) == kind).count();
                    let share = usize::from(mix.shares.of(kind));
                    assert!(sent.abs_diff(share) <= 2, "{kind:?} from {from}: {sent} and not {share}");
                    assert!(share > 0 || sent == 0, "{kind:?} is not to be sent");
                }
            }
        }
    }

    #[test]
    fn operations_with_times_of_their_own_are_shared_out() {
        let mix = mix(Shares { scans: 95, inserts: 5, ..Shares::default() });
        assert_eq!([Kind::Insert, Kind::Scan, Kind::Get].map(|kind| mix.per_sec(kind)), [10.0, 190.0, 0.0]);
        assert_eq!(mix.shares.words(), "5 % inserts, 95 % scans");
    }
}
