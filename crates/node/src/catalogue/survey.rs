//! Both copies of the catalogue, side by side: do they agree, and if not, which of them is to be believed?

use std::path::Path;
use std::sync::Arc;

use weir_io::{Error, Fs, Result, Tag};

use super::copy::{self, CopyState, Role, Unsound};

/// What was found of the two copies.
#[derive(Debug)]
pub struct Survey {
    /// `catalogue/`
    pub first: Result<CopyState, Unsound>,
    /// `catalogue.mirror/`
    pub mirror: Result<CopyState, Unsound>,
}

/// How two copies that may both be believed differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They say the same.
    Equal,
    /// The mirror lacks edits at the end that were never confirmed in it: the process ended between the two.
    MirrorLags,
}

/// Why two copies that can be read cannot both be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// This copy is a file that belongs to the other one.
    Misplaced(Role),
    /// They belong to two directories.
    Foreign,
    /// They have the same history up to some edit, and different ones from there on: one of them comes from a copy of
    /// this directory.
    Forked,
    /// This copy is older than what the other one knows to be durable in it.
    Older(Role),
}

/// Compares two copies.
///
/// The first copy is written first, so it is never behind. It says which edit was durable in the mirror, so the mirror
/// is never behind that edit.
pub fn compare(first: &CopyState, mirror: &CopyState) -> Result<Agreement, Disagreement> {
    let confirmed = first.confirmed.ok_or(Disagreement::Misplaced(Role::First))?;
    if mirror.confirmed.is_some() {
        return Err(Disagreement::Misplaced(Role::Mirror));
    }
    if first.identity != mirror.identity {
        return Err(Disagreement::Foreign);
    }
    if mirror.stamp.epoch > first.stamp.epoch {
        return Err(Disagreement::Older(Role::First));
    }
    if mirror.stamp.epoch == first.stamp.epoch {
        let same = mirror.stamp == first.stamp && mirror.listings == first.listings;
        return if same { Ok(Agreement::Equal) } else { Err(Disagreement::Forked) };
    }
    if mirror.stamp.epoch < confirmed.epoch {
        return Err(Disagreement::Older(Role::Mirror));
    }
    match mirror.stamp.epoch == confirmed.epoch && mirror.stamp != confirmed {
        true => Err(Disagreement::Forked),
        // Between the two there are only edits that failed.
        false => Ok(Agreement::MirrorLags),
    }
}

impl Survey {
    /// Reads both copies of the node in `dir`. Changes nothing.
    pub async fn take(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Self {
        let (first, mirror) = (Role::First, Role::Mirror);
        Self { first: copy::read(fs, dir, first, tag).await, mirror: copy::read(fs, dir, mirror, tag).await }
    }

    /// The state of copy `role`.
    pub fn copy(&self, role: Role) -> &Result<CopyState, Unsound> {
        match role {
            Role::First => &self.first,
            Role::Mirror => &self.mirror,
        }
    }

    /// The state that holds, and how far the mirror has come.
    ///
    /// # Errors
    /// The refusal, which names the file that is not to be believed, the state of the other copy, and the command that
    /// repairs it.
    pub fn verdict(&self, dir: &Path) -> Result<(&CopyState, Agreement)> {
        match (&self.first, &self.mirror) {
            (Ok(first), Ok(mirror)) => match compare(first, mirror) {
                Ok(agreement) => Ok((first, agreement)),
                Err(disagreement) => Err(refusal(disagreement, first, mirror, dir)),
            },
            (Err(unsound), other) => Err(unsound_refusal(unsound, Role::Mirror, other, dir)),
            (other, Err(unsound)) => Err(unsound_refusal(unsound, Role::First, other, dir)),
        }
    }
}

fn unsound_refusal(unsound: &Unsound, other: Role, state: &Result<CopyState, Unsound>, dir: &Path) -> Error {
    if let Some(device) = &unsound.device {
        return device.clone();
    }
    let repair = repair(dir);
    let message = match state {
        Ok(state) => format!(
            "{}. The other copy, {other}, can be read (up to edit {}): {repair} writes this one anew from it",
            unsound.why, state.stamp.epoch
        ),
        Err(state) => format!(
            "{}. The other copy cannot be read either ({}: {}): {repair} shows what is left of both",
            unsound.why,
            state.path.display(),
            state.why
        ),
    };
    Error::corruption(&unsound.path, unsound.offset, message)
}

fn refusal(disagreement: Disagreement, first: &CopyState, mirror: &CopyState, dir: &Path) -> Error {
    let repair = repair(dir);
    let of = |role| if role == Role::First { first } else { mirror };
    match disagreement {
        Disagreement::Misplaced(role) => {
            let message =
                format!("this file belongs to the other copy, {}. {repair} shows what can be done", role.other());
            Error::corruption(&of(role).path, 0, message)
        }
        Disagreement::Foreign => Error::corruption(
            &first.path,
            0,
            format!(
                "it does not belong to the same directory as {}: one of the two was copied here. {repair} shows both",
                mirror.path.display()
            ),
        ),
        Disagreement::Forked => Error::corruption(
            &first.path,
            0,
            format!(
                "it and {} contradict each other: one of the two comes from a copy of this directory. {repair} shows \
                 both",
                mirror.path.display()
            ),
        ),
        Disagreement::Older(role) => {
            let (old, new) = (of(role), of(role.other()));
            let known = match role {
                Role::First => mirror.stamp.epoch,
                Role::Mirror => first.confirmed.map_or(0, |confirmed| confirmed.epoch),
            };
            let message = format!(
                "it ends with edit {}, but edit {known} had been written to it: its end was lost, or it is an older \
                 copy. The newer one, {} (up to edit {}), is sound: {repair} writes this one anew from it",
                old.stamp.epoch,
                new.path.display(),
                new.stamp.epoch
            );
            Error::corruption(&old.path, 0, message)
        }
    }
}

/// The command that repairs the node in `dir`, for the end of a message.
pub fn repair(dir: &Path) -> String {
    format!("`weir repair {}`", dir.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Listings, Stamp};

    fn stamp(epoch: u64) -> Stamp {
        Stamp { epoch, nonce: epoch * 1_000 }
    }

    fn state(epoch: u64, confirmed: Option<u64>) -> CopyState {
        CopyState {
            path: "journal".into(),
            number: 1,
            identity: 7,
            stamp: stamp(epoch),
            confirmed: confirmed.map(stamp),
            listings: Listings::empty(),
            appended: None,
        }
    }

    #[test]
    fn what_may_be_behind_and_what_not() {
        let compare = |first: &CopyState, mirror: &CopyState| super::compare(first, mirror);
        assert_eq!(compare(&state(9, Some(8)), &state(9, None)), Ok(Agreement::Equal));
        assert_eq!(compare(&state(9, Some(8)), &state(8, None)), Ok(Agreement::MirrorLags));
        // Edit 8 failed, and 9 took its place in the first copy.
        assert_eq!(compare(&state(9, Some(7)), &state(8, None)), Ok(Agreement::MirrorLags));
        assert_eq!(compare(&state(9, Some(8)), &state(7, None)), Err(Disagreement::Older(Role::Mirror)));
        assert_eq!(compare(&state(8, Some(7)), &state(9, None)), Err(Disagreement::Older(Role::First)));
        assert_eq!(compare(&state(9, None), &state(9, None)), Err(Disagreement::Misplaced(Role::First)));
        assert_eq!(compare(&state(9, Some(8)), &state(9, Some(8))), Err(Disagreement::Misplaced(Role::Mirror)));
        let foreign = CopyState { identity: 8, ..state(9, None) };
        assert_eq!(compare(&state(9, Some(8)), &foreign), Err(Disagreement::Foreign));
        for epoch in [8, 9] {
            let forked = CopyState { stamp: Stamp { nonce: 1, ..stamp(epoch) }, ..state(epoch, None) };
            assert_eq!(compare(&state(9, Some(8)), &forked), Err(Disagreement::Forked), "at edit {epoch}");
        }
    }
}
