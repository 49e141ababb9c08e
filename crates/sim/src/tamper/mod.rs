//! Files that were changed behind the node's back: lost, emptied, cut, damaged, replaced by an older or another's file.
//!
//! 1. A [`History`] makes a directory from a seed, with tenants of every kind, and knows what must be in it.
//! 2. One file (or directory) at a time is tampered with, in every [`Way`] that applies.
//! 3. The verdict ([`judge`]): `check` runs; a node opens the directory, everything is read, written to, closed, opened
//!    again and read again. What was durable must be read as it was, or an error says where to look. Nothing may be
//!    deleted, no older value shown, no dropped tenant come back, and tenants whose files were not touched are served.

mod belief;
mod history;
pub mod judge;
mod read;
mod see;
pub mod ways;

use std::collections::BTreeMap;
use std::fmt;

use weir_io::Rng;

pub use self::belief::Stop;
pub use self::history::History;
pub use self::judge::{Verdict, Wrong};
pub use self::ways::{Tampering, Way};
use crate::engines::Engines;
use crate::runner::Tally;

/// What went wrong for one kind of file tampered with in one way.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How often it happened.
    pub times: u64,
    /// The seed of the first such tampering.
    pub seed: u64,
    /// The number of the first such tampering.
    pub number: usize,
    /// What happened then.
    pub story: String,
}

/// The kind of file, what went wrong, how the last process ended, and the way of tampering.
pub type Case = (String, Wrong, Stop, Way);

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Tamperings {
    /// Directories made.
    pub directories: u64,
    /// Tamperings by kind.
    pub by_way: BTreeMap<Way, u64>,
    /// Tamperings that were answered with a refusal or an error.
    pub refused: u64,
    /// Refusals whose error names another file of the same partition or catalogue.
    pub elsewhere: u64,
    /// Tamperings that make no difference to anybody.
    pub harmless: u64,
    /// Tamperings that `check` found.
    pub found: u64,
    /// What went wrong.
    pub findings: BTreeMap<Case, Finding>,
}

impl Tally for Tamperings {
    fn merge(&mut self, other: Self) {
        self.directories += other.directories;
        self.refused += other.refused;
        self.elsewhere += other.elsewhere;
        self.harmless += other.harmless;
        self.found += other.found;
        for (way, count) in other.by_way {
            *self.by_way.entry(way).or_default() += count;
        }
        for (case, finding) in other.findings {
            match self.findings.get_mut(&case) {
                None => drop(self.findings.insert(case, finding)),
                Some(known) => {
                    let times = known.times + finding.times;
                    if (finding.seed, finding.number) < (known.seed, known.number) {
                        *known = finding;
                    }
                    known.times = times;
                }
            }
        }
    }
}

impl fmt::Display for Tamperings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directories, by_way, refused, elsewhere, harmless, found, findings } = self;
        let all: u64 = by_way.values().sum();
        write!(f, "{directories} directories, {all} tamperings: {refused} refused ({elsewhere} naming another file ")?;
        write!(f, "beside it), {harmless} harmless, {found} found by check, ")?;
        write!(f, "{} violations", findings.values().map(|finding| finding.times).sum::<u64>())
    }
}

/// Which tamperings of a directory are tried. Their numbers are the same whatever is chosen.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// All of them.
    Every,
    /// At most this many of each file, drawn.
    Ways(usize),
    /// Only the one with this number.
    Number(usize),
}

impl Choice {
    fn of(self, tamperings: Vec<Tampering>, rng: &mut Rng) -> Vec<(usize, Tampering)> {
        let mut numbered: Vec<_> = tamperings.into_iter().enumerate().collect();
        match self {
            Choice::Every => {}
            Choice::Number(only) => numbered.retain(|(number, _)| *number == only),
            Choice::Ways(most) => {
                let mut left: BTreeMap<_, usize> = BTreeMap::new();
                for (_, tampering) in &numbered {
                    *left.entry(tampering.path.clone()).or_default() += 1;
                }
                let mut wanted: BTreeMap<_, usize> = BTreeMap::new();
                // Each tampering of a file is kept with the same chance, and exactly as many as are wanted.
                numbered.retain(|(_, tampering)| {
                    let left = left.get_mut(&tampering.path).expect("counted above");
                    let wanted = wanted.entry(tampering.path.clone()).or_insert(most);
                    let chosen = rng.below(*left as u64) < *wanted as u64;
                    *left -= 1;
                    *wanted -= usize::from(chosen);
                    chosen
                });
            }
        }
        numbered
    }
}

/// Tampers with every file of the directory of `seed`, whose tenants are on `engines`, in the ways of `choice`.
///
/// # Errors
/// The untouched directory is not what it must be. The results of the tamperings are in the figures.
pub fn tamper(seed: u64, engines: &Engines, choice: Choice) -> Result<Tamperings, String> {
    let mut rng = Rng::new(seed ^ 0x7a3e);
    let history = History::new(seed, engines)?;
    let stranger = History::new(seed + 1_000_003, engines)?.image;
    let expected = history.expected(seed)?;
    let mut figures = Tamperings { directories: 1, ..Tamperings::default() };
    let tamperings = ways::all(&history, &mut rng);
    for (number, tampering) in choice.of(tamperings, &mut rng) {
        let Some(image) = tampering.apply(&history, &stranger) else { continue };
        let verdict = history.judge(seed, &tampering, &image, &expected);
        figures.add(seed, number, &tampering, history.stop, verdict);
    }
    Ok(figures)
}

impl Tamperings {
    fn add(&mut self, seed: u64, number: usize, tampering: &Tampering, stop: Stop, verdict: Verdict) {
        *self.by_way.entry(tampering.way).or_default() += 1;
        self.refused += u64::from(verdict.refused);
        self.elsewhere += u64::from(verdict.refused && verdict.elsewhere);
        self.found += u64::from(verdict.found);
        self.harmless += u64::from(!verdict.refused && verdict.wrongs.is_empty());
        for (wrong, story) in verdict.wrongs {
            let case = (ways::kind(&tampering.path), wrong, stop, tampering.way);
            let story = format!("{tampering}: {story}");
            let finding = self.findings.entry(case).or_insert(Finding { times: 0, seed, number, story });
            finding.times += 1;
        }
    }

    /// The kinds of violation of runs on `engines`, each with the command that repeats the first one; empty if there
    /// are none.
    pub fn violations(&self, engines: &Engines) -> String {
        let mut text = String::new();
        for (case, finding) in &self.findings {
            let (kind, wrong, stop, way) = case;
            let Finding { times, seed, number, story } = finding;
            text += &format!("{kind}, {}, after {}: {} ", way.name(), stop.name(), wrong.name());
            text += &format!("({times} times)\n    {story}\n");
            text += &format!("    repeat with: weir sim tamper --engine {engines} --seed {seed} --number {number}\n");
        }
        text
    }
}
