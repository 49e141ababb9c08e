//! The bill: what tenants have used, by the hour, kept in the directory of the node (XS-21).
//!
//! Whoever counts usage hands over, once a minute, what was used since the last time ([`BillBook::add`]): one record of
//! a journal, synced. A crash loses what was not handed over yet, and nothing else. After [`HOURS_KEPT`], or if there
//! are more than [`LINES_MAX`] lines, the oldest hours are forgotten. The bytes are in `docs/format/bill.md`.

mod edit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Fs, Result};
use weir_journal::{Garbage, Journal, Recovered, file_number, left_over};

pub use self::edit::{BillEdit, Usage};
use crate::layout::{TAG, create_dir};

/// Hours that are kept, at most.
pub const HOURS_KEPT: usize = 31 * 24;
/// Lines that are kept, at most; a line is what one tenant has used in one hour.
pub const LINES_MAX: usize = 50_000;

/// The bill's directory in the node's.
const DIR: &str = "bill";

/// The usage of one tenant in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillLine {
    /// Hours since 1970.
    pub hour: u32,
    /// The tenant's number.
    pub tenant: u32,
    /// Its name.
    pub name: String,
    /// Its usage in that hour.
    pub usage: Usage,
}

/// The open bill of a node.
pub struct BillBook {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    journal: Journal<BillEdit>,
    /// The number of the next file.
    next: u64,
    garbage: Garbage,
    lines: Lines,
}

/// Usage by hour and tenant, with the tenant's name.
type Lines = BTreeMap<(u32, u32), (String, Usage)>;

impl BillBook {
    /// What the bill of the node whose directory is `dir` says; `None` if there is none. Changes nothing.
    ///
    /// # Errors
    /// `Corruption`, with file and offset; I/O.
    pub async fn read(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Option<Recovered<BillEdit>>> {
        Journal::recover(fs, &dir.join(DIR), TAG).await
    }

    /// The bill of the node whose directory is `dir`; an empty one if there is none. `salt` is a random number, for its
    /// files.
    ///
    /// # Errors
    /// As [`BillBook::read`]. Nothing was changed.
    pub async fn open(fs: &Arc<dyn Fs>, dir: &Path, salt: u64) -> Result<Self> {
        let recovered = Self::read(fs, dir).await?;
        let dir = dir.join(DIR);
        if recovered.is_none() {
            create_dir(fs, &dir).await?;
        }
        let mut lines = Lines::new();
        recovered.iter().flat_map(|recovered| &recovered.edits).for_each(|edit| apply(&mut lines, edit));
        let number = recovered.as_ref().map_or(0, |recovered| recovered.number);
        let (files, mut next) = (fs.list(&dir, TAG).await?, number + 1);
        let is_live = |name: &str| file_number::<BillEdit>(name) == Some(number);
        let left = left_over(&dir, &files, file_number::<BillEdit>, is_live, &mut next);
        let journal = Journal::open(fs, &dir, TAG, salt, recovered, &mut next, |_| BillEdit::default()).await?;
        // Files that a crash has left of a roll. They go with the next roll.
        let garbage = Garbage::default();
        garbage.add(left);
        Ok(Self { fs: Arc::clone(fs), dir, journal, next, garbage, lines })
    }

    /// Adds what was used, durably. After an error nothing was added, as far as anybody sees: it must be handed over
    /// again, with what is used meanwhile.
    ///
    /// # Errors
    /// I/O.
    pub async fn add(&mut self, edit: &BillEdit) -> Result<()> {
        if self.journal.needs_roll() {
            let mut lines = self.lines.clone();
            apply(&mut lines, edit);
            let number = self.next;
            // Whatever becomes of this file, no other file gets its number.
            self.next += 1;
            self.journal.roll(number, &snapshot(&lines), &self.garbage).await?;
            self.lines = lines;
            // Only a file that nobody reads is left: it is tried again at the next roll.
            if let Err(error) = self.garbage.remove(&self.fs, TAG).await {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot remove an old file of the bill yet");
            }
            return Ok(());
        }
        self.journal.append(edit).await?;
        apply(&mut self.lines, edit);
        Ok(())
    }

    /// What was used in the hours from `from` on, and before `to`, by hour and tenant.
    pub fn lines(&self, from: u32, to: u32) -> Vec<BillLine> {
        let range = self.lines.range((from, 0)..(to.max(from), 0));
        let line = |(&(hour, tenant), (name, usage)): (&(u32, u32), &(String, Usage))| BillLine {
            hour,
            tenant,
            name: name.clone(),
            usage: *usage,
        };
        range.map(line).collect()
    }
}

fn apply(lines: &mut Lines, edit: &BillEdit) {
    let is_there = |line: &BillLine| lines.range((line.hour, 0)..=(line.hour, u32::MAX)).next().is_some();
    let begins_an_hour = !edit.lines.iter().all(is_there);
    for line in &edit.lines {
        let (name, usage) = lines.entry((line.hour, line.tenant)).or_default();
        name.clone_from(&line.name);
        *usage += line.usage;
    }
    // Few edits begin an hour, and many are applied when a bill is opened.
    if !begins_an_hour && lines.len() <= LINES_MAX {
        return;
    }
    let Some(now) = edit.lines.iter().map(|line| line.hour).max() else { return };
    let mut hours = hours(lines);
    while hours.len() > HOURS_KEPT || lines.len() > LINES_MAX && hours.len() > 1 {
        // The hour that is farthest from this edit's, on either side: where the clock was wrong for a while, neither
        // the hours before that are forgotten nor those after it.
        let (first, last) = (hours[0], hours[hours.len() - 1]);
        let gone =
            if now.abs_diff(first) >= now.abs_diff(last) { hours.remove(0) } else { hours.pop().unwrap_or(last) };
        lines.retain(|(hour, _), _| *hour != gone);
    }
}

/// The hours of which there are lines, in order.
fn hours(lines: &Lines) -> Vec<u32> {
    let first = lines.keys().next().map(|(hour, _)| *hour);
    let after = |hour: &u32| lines.range((hour.checked_add(1)?, 0)..).next().map(|((next, _), _)| *next);
    std::iter::successors(first, after).collect()
}

fn snapshot(lines: &Lines) -> BillEdit {
    let line = |(&(hour, tenant), (name, usage)): (&(u32, u32), &(String, Usage))| BillLine {
        hour,
        tenant,
        name: name.clone(),
        usage: *usage,
    };
    BillEdit { lines: lines.iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(hour: u32, tenant: u32, commands: u64) -> BillLine {
        let usage = Usage { commands, milli_units: commands * 7, minutes: 1, ..Usage::default() };
        BillLine { hour, tenant, name: format!("t{tenant}"), usage }
    }

    #[test]
    fn lines_of_one_hour_add_up_and_old_hours_are_forgotten() {
        let mut lines = Lines::new();
        apply(&mut lines, &BillEdit { lines: vec![line(5, 1, 10), line(5, 2, 1), line(5, 1, 3)] });
        assert_eq!(lines[&(5, 1)].1, Usage { commands: 13, milli_units: 91, minutes: 2, ..Usage::default() });
        let kept = HOURS_KEPT as u32;
        (6..5 + kept).for_each(|hour| apply(&mut lines, &BillEdit { lines: vec![line(hour, 1, 1)] }));
        assert_eq!((hours(&lines).len(), hours(&lines)[0]), (HOURS_KEPT, 5));
        apply(&mut lines, &BillEdit { lines: vec![line(5 + kept, 1, 1)] });
        assert_eq!((hours(&lines).len(), hours(&lines)[0]), (HOURS_KEPT, 6));
        let many = |hour| BillEdit { lines: (0..LINES_MAX as u32).map(|tenant| line(hour, tenant, 1)).collect() };
        apply(&mut lines, &many(5 + kept));
        assert!(lines.keys().all(|(hour, _)| *hour == 5 + kept), "the hours before made room");
        assert_eq!(lines.len(), LINES_MAX);
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_while_costs_no_line() {
        let (mut lines, kept) = (Lines::new(), HOURS_KEPT as u32);
        let mut use_at = |hour| apply(&mut lines, &BillEdit { lines: vec![line(hour, 1, 1)] });
        let (wrong, early) = (1_000_000, 0);
        (1_000..1_100).chain([wrong, wrong + 1, early]).chain(1_100..1_200).for_each(&mut use_at);
        let there: Vec<u32> = (1_000..1_200).collect();
        assert_eq!(hours(&lines), [vec![early], there, vec![wrong, wrong + 1]].concat());
        // When there is no more room, the wrong hours go first.
        let mut use_at = |hour| apply(&mut lines, &BillEdit { lines: vec![line(hour, 1, 1)] });
        (1_200..1_000 + kept).for_each(&mut use_at);
        assert_eq!(hours(&lines), (1_000..1_000 + kept).collect::<Vec<_>>());
        let mut use_at = |hour| apply(&mut lines, &BillEdit { lines: vec![line(hour, 1, 1)] });
        use_at(u32::MAX);
        assert_eq!(hours(&lines).last(), Some(&u32::MAX));
    }
}
