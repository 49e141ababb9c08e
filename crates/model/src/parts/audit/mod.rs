//! Whether the rows of a partition are whole: each head against its parts, each order against the others, the agenda
//! against the heads; and no part without a head or a cover.
//!
//! The audit is given the entries of an engine in the order of the keys: so all heads come first, and then the parts,
//! life by life. It remembers which heads have parts to come, but only for a bounded number of lives. If there are
//! more, it has to be given everything [again](Audit::next_round).

mod counts;
mod digest;
mod list;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use self::digest::Digest;
use self::row::RowAudit;
use super::fields::{agenda_key, agenda_of};
use super::{HeadRef, Part, is_part, version_of};
use crate::engine::Kind;

/// A fault of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw(&'static str);

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn flaw<T>(text: &'static str) -> Result<T, Flaw> {
    Err(Flaw(text))
}

/// How many lives are remembered at a time.
const LIVES_MAX: usize = 100_000;
/// How many problems are reported.
const PROBLEMS_MAX: usize = 100;
/// How many bytes of a row's key are reported.
const TOLD_BYTES: usize = 64;

/// A row whose parts have yet to come.
struct Awaited {
    audit: RowAudit,
    key: Vec<u8>,
}

/// An audit of the rows of a partition.
pub struct Audit {
    lives_max: usize,
    /// The rows whose parts have yet to come, by version.
    awaited: BTreeMap<u64, Awaited>,
    /// Lives up to this one are done.
    done: u64,
    /// The end of this round: lives from this one on have to wait for another round.
    end: u64,
    /// The life whose parts are arriving.
    present: Option<Present>,
    /// The entries of the agenda that heads call for, and those that are on it.
    agenda: [Digest; 2],
    rounds: u64,
    problems: Vec<String>,
}

/// A life whose parts are arriving.
struct Present {
    version: u64,
    row: Option<Awaited>,
    is_covered: bool,
    flaw: Option<Flaw>,
}

impl Default for Audit {
    fn default() -> Self {
        Self::of_lives(LIVES_MAX)
    }
}

impl Audit {
    fn of_lives(lives_max: usize) -> Self {
        Self {
            lives_max,
            awaited: BTreeMap::new(),
            done: 0,
            end: u64::MAX,
            present: None,
            agenda: [Digest::default(); 2],
            rounds: 0,
            problems: Vec::new(),
        }
    }

    fn report(&mut self, key: &[u8], flaw: Flaw) {
        let told = &key[..key.len().min(TOLD_BYTES)];
        self.note(format!("row {}: {flaw}", told.escape_ascii()));
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Takes the next entry, the newest of its key, whether or not it has expired. Tombstones may be left out.
    pub fn entry(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        match kind {
            Kind::Delete => {}
            Kind::Head => self.head(key, value),
            Kind::Put if !is_part(key) => {}
            Kind::Put | Kind::Cover => self.behind_heads(kind, key, value),
        }
    }

    fn head(&mut self, key: &[u8], value: &[u8]) {
        let is_first = self.rounds == 0;
        let Some(head) = HeadRef::parse(value) else {
            if is_first {
                self.report(key, Flaw("its head is damaged"));
            }
            return;
        };
        if let (true, Some(mortal)) = (is_first, head.mortal()) {
            self.agenda[0].add(&[&agenda_key(mortal.first_ms, key)]);
        }
        match head.packed {
            Some(packed) if is_first => {
                if let Err(flaw) = RowAudit::packed(&head, packed) {
                    self.report(key, flaw);
                }
            }
            None if head.version > self.done && head.version < self.end => {
                let row = Awaited { audit: RowAudit::new(&head), key: key.into() };
                if let Some(other) = self.awaited.insert(head.version, row) {
                    self.report(&other.key, Flaw("another row has the same version"));
                }
                if self.awaited.len() > self.lives_max
                    && let Some((last, _)) = self.awaited.pop_last()
                {
                    self.end = last;
                }
            }
            _ => {}
        }
    }

    fn behind_heads(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        if agenda_of(key).is_some() {
            if self.rounds == 0 {
                self.agenda[1].add(&[key]);
            }
            return;
        }
        let Some(version) = version_of(key) else {
            return self.note(format!("key {} does not belong to any row", key.escape_ascii()));
        };
        if version <= self.done || version >= self.end {
            return;
        }
        if self.present.as_ref().is_none_or(|present| present.version != version) {
            self.end_life();
            let row = self.awaited.remove(&version);
            self.present = Some(Present { version, row, is_covered: false, flaw: None });
        }
        let Some(present) = &mut self.present else { return };
        let Some(part) = Part::parse(key) else {
            present.is_covered |= kind == Kind::Cover;
            return;
        };
        match &mut present.row {
            Some(row) if present.flaw.is_none() => {
                present.flaw = row.audit.part(part.space, part.subkey, value).err();
            }
            None if !present.is_covered => present.flaw = Some(Flaw("its parts have neither a head nor a cover")),
            _ => {}
        }
    }

    fn end_life(&mut self) {
        let Some(Present { version, row, is_covered, flaw }) = self.present.take() else { return };
        match row {
            Some(Awaited { key, .. }) if is_covered => {
                self.report(&key, Flaw("it is alive, although a cover says that it is dead"))
            }
            Some(Awaited { audit, key }) => {
                if let Some(flaw) = flaw.or_else(|| audit.finish(false).err()) {
                    self.report(&key, flaw);
                }
            }
            None => {
                if let Some(flaw) = flaw {
                    self.note(format!("life {version}: {flaw}"));
                }
            }
        }
    }

    /// Ends a round in which every entry was given. `true` if there was too much to remember, and every entry has to be
    /// given again.
    pub fn next_round(&mut self) -> bool {
        self.end_life();
        // The parts of these rows did not come.
        for Awaited { audit, key } in std::mem::take(&mut self.awaited).into_values() {
            if let Err(flaw) = audit.finish(false) {
                self.report(&key, flaw);
            }
        }
        if self.rounds == 0 && self.agenda[0] != self.agenda[1] {
            self.note("the agenda of expiring fields does not agree with the heads of hashes".into());
        }
        self.rounds += 1;
        let has_more = self.end < u64::MAX;
        self.done = self.end.saturating_sub(1);
        self.end = u64::MAX;
        has_more
    }

    /// The problems found.
    pub fn into_problems(self) -> Vec<String> {
        self.problems
    }
}
