//! Inserts, gets and scans in given shares, by clients that wait for their answers or do not.

use weir_io::Nanos;

/// What the clients of a partition send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// When they send it.
    pub pace: Pace,
    /// Share of gets, 0 to 1.
    pub gets: f64,
    /// Share of scans, 0 to 1; what is neither is an insert of a new item.
    pub scans: f64,
    /// Entries of a scan, on average: one to one less than twice as many, all alike.
    pub entries: u64,
    /// Seconds of load before those that count.
    pub warm_up: u64,
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
    /// Reads an item.
    Get,
    /// Reads an item and some of those that follow it.
    Scan,
}

/// Turns of the golden ratio come as evenly over a circle as turns can, however many there were.
const TURN: f64 = 0.618_033_988_749_894_9;

impl Mix {
    /// What the operation number `nth` of a partition does: so that any few in a row have nearly the shares. Drawn at
    /// random they would differ from second to second the more, the fewer a scale leaves of them, and that would be all
    /// that a tail is about.
    pub fn kind(&self, nth: u64) -> Kind {
        let at = (nth as f64 * TURN).fract();
        match at {
            at if at < self.inserts() => Kind::Insert,
            at if at < self.inserts() + self.scans => Kind::Scan,
            _ => Kind::Get,
        }
    }

    /// Share of inserts, 0 to 1.
    pub fn inserts(&self) -> f64 {
        (1.0 - self.gets - self.scans).max(0.0)
    }

    /// Operations a second of a kind that has `share`, where they have times of their own; 0 in a closed loop.
    pub fn per_sec(&self, share: f64) -> f64 {
        match self.pace {
            Pace::Closed { .. } => 0.0,
            Pace::Open(all) => all * share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hundred_operations_have_the_shares() {
        let mix = Mix { pace: Pace::Open(1.0), gets: 0.3, scans: 0.2, entries: 5, warm_up: 0 };
        for from in [0, 7, 1_000_000, 10_000_000_000] {
            let of = |kind| (from..from + 100).filter(|&nth| mix.kind(nth) == kind).count();
            let counts = [of(Kind::Insert), of(Kind::Get), of(Kind::Scan)];
            let wanted = [50_usize, 30, 20];
            assert!(
                counts.iter().zip(wanted).all(|(&count, wanted)| count.abs_diff(wanted) <= 2),
                "{from}: {counts:?}"
            );
        }
    }
}
