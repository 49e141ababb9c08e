//! Operations of several kinds in given shares, sent by clients that wait for their answers or that do not.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weir_io::Nanos;

/// What the clients of a partition send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// When they send it.
    pub pace: Pace,
    /// The shares of the kinds of operations.
    pub shares: Shares,
    /// Entries of a scan, at most: from one up to this number, all equally likely.
    pub entries_max: u64,
    /// Which items they read and update.
    pub popularity: Popularity,
    /// The name of YCSB's workload that this is; `None` = of another scenario.
    pub workload: Option<&'static str>,
    /// Seconds of load before the seconds that count.
    pub warm_up: u64,
}

/// How many of a hundred operations are of which kind; they add up to a hundred.
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
    /// All that were there before the load, evenly
    Uniform,
    /// Few of them often, scattered over all
    Zipfian,
    /// The newest most often
    Latest,
}

impl Popularity {
    /// Its name, as in YCSB.
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
    /// Closed loop: this many clients, each of which sends its next operation when the last one is answered and some
    /// time of its own has passed.
    Closed {
        /// Clients of each partition.
        clients: u32,
        /// The time between an answer and the next operation, in nanoseconds, on average: it is between half of this
        /// and one and a half times this.
        own_time: Nanos,
    },
    /// Open loop: this many operations a second of each partition, whether or not earlier ones are answered.
    Open(f64),
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stores a new item.
    Insert,
    /// Reads an item and some of those that follow it.
    Scan,
    /// Replaces an item that is there.
    Update,
    /// Reads an item, and then replaces it.
    Modify,
    /// Reads an item.
    Get,
}

impl Kind {
    /// All kinds, in the order of [`Shares`].
    pub const ALL: [Kind; 5] = [Kind::Insert, Kind::Scan, Kind::Update, Kind::Modify, Kind::Get];

    /// Its name in tables and JSON: YCSB's word in small letters, except for YCSB's `read`.
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

/// Steps of the golden ratio are spread over a circle as evenly as possible, however many there were.
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

    /// The kinds that are sent, in words: `50 % inserts, 50 % gets`.
    pub fn words(&self) -> String {
        let sent = Kind::ALL.into_iter().filter(|&kind| self.of(kind) > 0);
        sent.map(|kind| format!("{} % {}s", self.of(kind), kind.name())).collect::<Vec<_>>().join(", ")
    }
}

impl Mix {
    /// The kind of a partition's operation number `nth`, chosen so that any few in a row have nearly the right shares.
    /// Kinds drawn at random would differ from second to second, the more so the fewer operations a scale leaves, and a
    /// tail would then show nothing else.
    pub fn kind(&self, nth: u64) -> Kind {
        let at = (nth as f64 * TURN).fract() * 100.0;
        let mut below = 0.0;
        let kind = Kind::ALL.into_iter().find(|&kind| {
            below += f64::from(self.shares.of(kind));
            at < below
        });
        kind.unwrap_or(Kind::Get)
    }

    /// Operations of `kind` a second, if they have times of their own; 0 in a closed loop.
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

    /// A mix with `shares`.
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
