//! YCSB's core workloads (SI-E3; Cooper et al., SoCC 2010): what they send, and which items they ask for.
//!
//! Keys and choices are those of YCSB itself ([`crate::data::ycsb_key`], [`crate::choice`]). An item is a record of ten
//! fields of 100 bytes, kept as one value. So an update writes all of it (YCSB: `writeallfields=true`; by default YCSB
//! changes one field).

pub mod table;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::data::YCSB_KEY_BYTES;
use crate::mix::{Popularity, Shares};

/// A core workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Updates: 50 % gets, 50 % updates
    A,
    /// Mostly reads: 95 % gets, 5 % updates
    B,
    /// Reads only
    C,
    /// Reads of the latest: 95 % gets, 5 % inserts
    D,
    /// Short ranges: 95 % scans of up to 100 entries, 5 % inserts
    E,
    /// Read, modify, write: 50 % gets, 50 % read-modify-writes
    F,
}

/// Bytes of a record: its key, and ten fields of 100 bytes.
pub const RECORD_BYTES: u32 = YCSB_KEY_BYTES as u32 + 1000;

/// Entries of a scan in workload E, at most (`maxscanlength`; from one up to this number, all equally likely).
pub const SCAN_ENTRIES_MAX: u64 = 100;

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 6] = [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    /// Its name, as in YCSB.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::A => "A",
            Workload::B => "B",
            Workload::C => "C",
            Workload::D => "D",
            Workload::E => "E",
            Workload::F => "F",
        }
    }

    /// The shares of operations that it sends.
    pub const fn shares(self) -> Shares {
        let none = Shares { inserts: 0, scans: 0, updates: 0, modifies: 0, gets: 0 };
        match self {
            Workload::A => Shares { gets: 50, updates: 50, ..none },
            Workload::B => Shares { gets: 95, updates: 5, ..none },
            Workload::C => Shares { gets: 100, ..none },
            Workload::D => Shares { gets: 95, inserts: 5, ..none },
            Workload::E => Shares { scans: 95, inserts: 5, ..none },
            Workload::F => Shares { gets: 50, modifies: 50, ..none },
        }
    }

    /// The popularity of the items that it asks for, by default.
    pub const fn popularity(self) -> Popularity {
        match self {
            Workload::D => Popularity::Latest,
            _ => Popularity::Zipfian,
        }
    }
}

/// A workload, and the popularity of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The workload that is sent.
    pub workload: Workload,
    /// Which items it asks for.
    pub popularity: Popularity,
}

impl Case {
    /// Every workload with every popularity; with its default popularity if none is named.
    pub fn all(workloads: &[Workload], popularities: &[Popularity]) -> Vec<Case> {
        let of = |&workload: &Workload| {
            let own = [workload.popularity()];
            let asked = if popularities.is_empty() { &own[..] } else { popularities };
            asked.iter().map(|&popularity| Case { workload, popularity }).collect::<Vec<_>>()
        };
        workloads.iter().flat_map(of).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workload.name(), self.popularity.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Kind;

    #[test]
    fn every_workload_sends_a_hundred_percent() {
        for workload in Workload::ALL {
            let shares = workload.shares();
            assert_eq!(Kind::ALL.map(|kind| u32::from(shares.of(kind))).iter().sum::<u32>(), 100, "{workload:?}");
        }
    }

    #[test]
    fn a_case_has_its_own_popularity_unless_others_are_named() {
        let own = Case::all(&[Workload::A, Workload::D], &[]);
        assert_eq!(own.iter().map(Case::to_string).collect::<Vec<_>>(), ["A zipfian", "D latest"]);
        let named = Case::all(&[Workload::D], &[Popularity::Uniform, Popularity::Zipfian]);
        assert_eq!(named.iter().map(Case::to_string).collect::<Vec<_>>(), ["D uniform", "D zipfian"]);
    }
}
