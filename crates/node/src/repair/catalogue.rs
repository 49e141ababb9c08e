//! Repair of the catalogue: writes a copy anew, from the other copy, or from what is left of its own journals.

use std::path::Path;
use std::sync::Arc;

use weir_io::{Fs, Result, Rng};
use weir_journal::Journal;

use super::aside::Aside;
use super::{Finding, Remedy};
use crate::catalogue::copy::{self, CopyState, Role};
use crate::catalogue::survey::{Disagreement, Survey, compare};
use crate::catalogue::{CatalogueEdit, Listings, Stamp};
use crate::layout::{self, TAG};
use crate::strangers::Strangers;

/// A catalogue to write.
#[derive(Debug)]
pub struct Rewrite {
    state: CopyState,
    /// The copies to write.
    roles: Vec<Role>,
    /// Both copies get an edit of their own: above this one, which is the last that either has.
    above: u64,
}

/// Where a catalogue was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// `CURRENT` names it.
    InForce,
    /// It is the newest journal of its copy that can be read to its end; nothing names it.
    LeftBehind,
    /// The records in front of the damage in a journal.
    Prefix,
}

struct Candidate {
    role: Role,
    source: Source,
    state: CopyState,
}

/// What is wrong with the catalogue, and what it says once that is repaired; `None` if nothing can be believed.
pub async fn find(fs: &Arc<dyn Fs>, dir: &Path, believe: Option<Role>) -> Result<(Option<Listings>, Option<Finding>)> {
    let survey = Survey::take(fs, dir, TAG).await;
    let there = layout::partitions(fs, dir).await?;
    let verdict = survey.verdict(dir).map(|(state, _)| state.clone());
    let mut candidates = Vec::new();
    for role in Role::ALL {
        candidates.extend(candidate(fs, dir, &survey, role).await?);
    }
    let above = candidates.iter().map(|candidate| candidate.state.stamp.epoch).max().unwrap_or(0);
    let (problem, chosen) = match verdict {
        Ok(state) => {
            let Some(refusal) = Strangers::among(&there, &state.listings).refusal(dir) else {
                return Ok((Some(state.listings), None));
            };
            (refusal.to_string(), candidates.into_iter().find(|candidate| candidate.role == Role::First))
        }
        Err(refusal) => {
            let described: Vec<String> = candidates
                .iter()
                .map(|candidate| format!("{}: {}", candidate.role, describe(candidate, &there)))
                .collect();
            match choose(candidates, believe) {
                Ok(chosen) => (refusal.to_string(), chosen),
                Err(()) => {
                    let advice = format!(
                        "only you can know which copy is right: say --believe catalogue or --believe \
                         catalogue.mirror.\n  {}",
                        described.join("\n  ")
                    );
                    return Ok((
                        None,
                        Some(Finding { problem: refusal.to_string(), advice, remedy: None, loses: false }),
                    ));
                }
            }
        }
    };
    let Some(chosen) = chosen else {
        let advice = "neither copy can be read: put one back from a copy of the directory, or restore backups into a \
                      new directory";
        return Ok((None, Some(Finding { problem, advice: advice.into(), remedy: None, loses: false })));
    };
    let advice = format!("write the catalogue anew as {} has it: {}", chosen.role, describe(&chosen, &there));
    let mut roles = copies_to_write(&chosen);
    let mut state = chosen.state;
    if let Some(&last) = Strangers::among(&there, &state.listings).beyond.iter().max() {
        // Nobody may get the number of a directory that exists.
        state.listings.next_partition = state.listings.next_partition.max(last.saturating_add(1));
        roles = Role::ALL.to_vec();
    }
    let listings = state.listings.clone();
    let remedy = Some(Remedy::Catalogue(Rewrite { state, roles, above }));
    Ok((Some(listings), Some(Finding { problem, advice, remedy, loses: false })))
}

/// What can be read of copy `role`.
async fn candidate(fs: &Arc<dyn Fs>, dir: &Path, survey: &Survey, role: Role) -> Result<Option<Candidate>> {
    match survey.copy(role) {
        Ok(state) => return Ok(Some(Candidate { role, source: Source::InForce, state: state.clone() })),
        Err(unsound) => unsound.only_damage()?,
    }
    let own = role.dir(dir);
    let mut found: Option<Candidate> = None;
    for number in copy::journals(fs, &own, TAG).await? {
        let (source, state) = match copy::read_journal(fs, &own, number, TAG).await {
            Ok(state) => (Source::LeftBehind, state),
            Err(damage) => {
                damage.only_damage()?;
                match copy::read_prefix(fs, &own, number, damage.offset, TAG).await {
                    Ok(state) => (Source::Prefix, state),
                    Err(damage) => {
                        damage.only_damage()?;
                        continue;
                    }
                }
            }
        };
        let rank = |source, state: &CopyState| (source == Source::LeftBehind, state.stamp.epoch);
        if found.as_ref().is_none_or(|found| rank(source, &state) > rank(found.source, &found.state)) {
            found = Some(Candidate { role, source, state });
        }
    }
    Ok(found)
}

/// Which copy to believe; an error if only the operator can know.
fn choose(candidates: Vec<Candidate>, believe: Option<Role>) -> Result<Option<Candidate>, ()> {
    let mut candidates = candidates;
    if let Some(role) = believe {
        return Ok(candidates.into_iter().find(|candidate| candidate.role == role));
    }
    if candidates.len() < 2 {
        return Ok(candidates.pop());
    }
    let (Some(mirror), Some(first)) = (candidates.pop(), candidates.pop()) else { return Ok(None) };
    let chosen = match compare(&first.state, &mirror.state) {
        // One of the two is not in force, or is incomplete.
        Ok(_) if mirror.source == Source::InForce && first.source != Source::InForce => mirror,
        Ok(_) => first,
        Err(Disagreement::Older(Role::First)) => mirror,
        Err(Disagreement::Older(Role::Mirror)) => first,
        // The two have changed places: the one in the mirror's place is the first copy.
        Err(Disagreement::Misplaced(_)) if compare(&mirror.state, &first.state).is_ok() => mirror,
        // One of them is in both places.
        Err(Disagreement::Misplaced(Role::First)) if is_as_new(&mirror, &first) => mirror,
        Err(Disagreement::Misplaced(Role::Mirror)) if is_as_new(&first, &mirror) => first,
        Err(_) => return Err(()),
    };
    Ok(Some(chosen))
}

/// Whether `this` is of the same directory as `other`, and no older.
fn is_as_new(this: &Candidate, other: &Candidate) -> bool {
    this.state.identity == other.state.identity && this.state.stamp.epoch >= other.state.stamp.epoch
}

/// A copy that is in force, and in its place, stays as it is.
fn copies_to_write(chosen: &Candidate) -> Vec<Role> {
    let is_in_place = chosen.state.confirmed.is_some() == (chosen.role == Role::First);
    match chosen.source == Source::InForce && is_in_place {
        true => vec![chosen.role.other()],
        false => Role::ALL.to_vec(),
    }
}

/// How many names of a catalogue's tenants are printed.
const NAMES_MAX: usize = 20;

fn describe(candidate: &Candidate, there: &[u32]) -> String {
    let CopyState { path, stamp, listings, .. } = &candidate.state;
    let names: Vec<&str> = listings.tenants.values().take(NAMES_MAX).map(|listing| listing.name.as_str()).collect();
    let more = if listings.tenants.len() > NAMES_MAX { " …" } else { "" };
    let there = listings.used.iter().filter(|number| there.contains(number)).count();
    let doubt = match candidate.source {
        Source::InForce => "",
        Source::LeftBehind => {
            ". Nothing names this journal: it is the newest one here that can be read to its end, and may be too old"
        }
        Source::Prefix => {
            ". The journal is damaged: this is its content in front of the damage, and later edits are lost"
        }
    };
    format!(
        "{} up to edit {}, {} tenants ({}{more}); of their {} used partitions, {there} exist{doubt}",
        path.display(),
        stamp.epoch,
        listings.tenants.len(),
        names.join(", "),
        listings.used.len(),
    )
}

impl Rewrite {
    /// Writes the copies, the first one first.
    pub async fn apply(self, fs: &Arc<dyn Fs>, dir: &Path, aside: &Aside, rng: &mut Rng) -> Result<()> {
        let CopyState { identity, stamp, listings, .. } = self.state;
        // One copy gets what the other has. If both are written, neither has been there before.
        let (stamp, confirmed) = match self.roles.len() {
            1 => (stamp, stamp),
            _ => (Stamp { epoch: self.above + 1, nonce: rng.next_u64() }, Stamp::default()),
        };
        for role in self.roles {
            let own = role.dir(dir);
            aside.keep_all(fs, &own).await?;
            layout::create_dir(fs, &own).await?;
            let number = copy::journals(fs, &own, TAG).await?.into_iter().max().map_or(1, |last| last + 1);
            let confirmed = (role == Role::First).then_some(confirmed);
            let snapshot = CatalogueEdit { stamp, confirmed, identity: Some(identity), ..listings.snapshot() };
            Journal::create(fs, &own, TAG, rng.next_u64(), number, &snapshot).await?;
        }
        Ok(())
    }
}
