//! The last valve before a stall (C-1): writes are shaped smoothly, by CruiseDB's [law](super::feedback), instead of
//! stopped.
//!
//! The guard stays shut while the write buffers are less than 80 % full and level 0 is two runs or more from the
//! threshold. Every write that it delays counts as not normally served. It does not ask what a tenant bought: tenants
//! with and without limits are slowed alike.

use super::feedback::{HIGH, LOW, at_least, factor};

/// The watermark that the controller aims at: between where the guard opens and where it shuts. CruiseDB's 50 % (CR-2)
/// lie below both: the rate would only ever fall, and the writes of a fuller partition would be faster than those of
/// one that has room again.
const SET_POINT: f64 = 0.75;

/// The guard of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guard {
    /// The rate of writes, in bytes per second; `None` while the guard is shut.
    rate: Option<f64>,
    /// What users wrote before the guard opened, in bytes per second.
    wanted: f64,
    error: f64,
}

/// What the guard sees of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// How full the write buffers or level 0 are, whichever is fuller; 1 = a stall.
    pub watermark: f64,
    /// Whether a stall is near enough.
    pub is_near: bool,
    /// What users wrote, in bytes per second.
    pub ingest: f64,
    /// What can be kept up for ever, in bytes per second (CruiseDB's T_c, CR-5).
    pub sustainable: f64,
}

impl Guard {
    /// What users want to write, in bytes per second: what they write now (`ingest`) while the guard is shut, and what
    /// they wrote before while it is open.
    pub fn wanted(&self, ingest: f64) -> f64 {
        if self.rate.is_some() { self.wanted.max(ingest) } else { ingest }
    }

    /// Takes in the pressure, and gives the rate that writes have from now on.
    pub fn step(&mut self, pressure: &Pressure) -> Option<u64> {
        let Pressure { watermark, is_near, ingest, sustainable } = *pressure;
        let error = watermark - SET_POINT;
        self.wanted = self.wanted(ingest);
        let rate = match self.rate {
            None if is_near && watermark >= HIGH && sustainable.is_finite() => Some(sustainable.min(ingest)),
            None => None,
            Some(_) if watermark < LOW => None,
            Some(_) if watermark >= HIGH => Some(sustainable),
            Some(rate) => Some(rate * factor(error, self.error)),
        };
        self.error = error;
        self.rate = rate.map(|rate| at_least(rate, sustainable));
        self.rate.map(|rate| rate as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(watermark: f64, is_near: bool) -> Pressure {
        Pressure { watermark, is_near, ingest: 3e6, sustainable: 2e6 }
    }

    #[test]
    fn it_opens_only_before_a_stall_and_shuts_with_room() {
        let mut guard = Guard::default();
        assert_eq!(guard.step(&at(0.79, true)), None);
        assert_eq!(guard.step(&at(0.95, false)), None, "a flush is about to make room");
        assert_eq!(guard.step(&at(0.80, true)), Some(2_000_000));
        // CR-3: (0.72 - 0.75) and (0.72 - 0.8) make 1 + 0.015 + 0.032.
        assert_eq!(guard.step(&at(0.72, false)), Some(2_094_000));
        assert_eq!(guard.step(&at(0.72, false)), Some(2_125_410), "more while there is room");
        assert_eq!(guard.step(&at(0.69, false)), None);
    }

    #[test]
    fn what_was_wanted_is_remembered_while_it_is_open() {
        let mut guard = Guard::default();
        guard.step(&Pressure { ingest: 3e6, ..at(0.9, true) });
        guard.step(&Pressure { ingest: 1e6, ..at(0.9, true) });
        assert_eq!(guard.wanted(0.5e6), 3e6);
        guard.step(&at(0.5, false));
        assert_eq!(guard.wanted(0.5e6), 0.5e6);
    }
}
