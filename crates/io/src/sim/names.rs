//! Changes of names: creates, renames, links and removes, each durable on its own.

use std::sync::Arc;

use super::fate::Fates;
use super::inode::{DirInode, Inode, Names};
use crate::Nanos;

/// One operation on names. Its edits survive together or not at all: a rename is atomic.
pub(super) struct NameChange {
    number: u64,
    done_at: Nanos,
    edits: Vec<Edit>,
}

/// In `dir`, `name` now refers to `inode`, or to nothing.
pub(super) struct Edit {
    pub(super) dir: Arc<DirInode>,
    pub(super) name: Arc<str>,
    pub(super) inode: Option<Inode>,
}

impl Edit {
    pub(super) fn new(dir: &Arc<DirInode>, name: &str, inode: Option<Inode>) -> Self {
        Self { dir: Arc::clone(dir), name: Arc::from(name), inode }
    }

    fn apply(&self, names: &mut Names) -> Option<Inode> {
        match &self.inode {
            Some(inode) => names.insert(Arc::clone(&self.name), inode.clone()),
            None => names.remove(&self.name),
        }
    }

    fn is_of(&self, other: &Edit) -> bool {
        self.dir.number == other.dir.number && self.name == other.name
    }
}

/// The changes of names that are not yet durable, oldest first.
#[derive(Default)]
pub(super) struct PendingNames(Vec<NameChange>);

impl PendingNames {
    /// Makes a change visible. Returns the files that lost a name by it.
    pub(super) fn make(&mut self, number: u64, done_at: Nanos, edits: Vec<Edit>) -> Vec<Inode> {
        let mut replaced = Vec::new();
        for edit in &edits {
            if let Some(Inode::File(file)) = &edit.inode {
                file.state.lock().links += 1;
            }
            if let Some(inode) = edit.apply(&mut edit.dir.state.lock().names) {
                if let Inode::File(file) = &inode {
                    file.state.lock().links -= 1;
                }
                replaced.push(inode);
            }
        }
        self.0.push(NameChange { number, done_at, edits });
        replaced
    }

    /// Completes a sync of `dir` that was submitted at `submitted` as operation `number`. A change that also concerns
    /// another directory becomes durable there too: it is one change.
    pub(super) fn land_sync(&mut self, dir: &DirInode, number: u64, submitted: Nanos) {
        let is_covered = |change: &NameChange| {
            let concerned = change.edits.iter().any(|edit| edit.dir.number == dir.number);
            concerned && change.number < number && change.done_at <= submitted
        };
        let (covered, rest) = std::mem::take(&mut self.0).into_iter().partition(is_covered);
        self.0 = rest;
        let covered: Vec<NameChange> = covered;
        for change in &covered {
            for edit in &change.edits {
                edit.apply(&mut edit.dir.state.lock().durable);
                // An older change of the same name that is still pending must not come back over this one.
                for older in self.0.iter_mut().filter(|older| older.number < change.number) {
                    older.edits.retain(|old| !old.is_of(edit));
                }
            }
        }
        self.0.retain(|change| !change.edits.is_empty());
    }

    /// The numbers of the changes not yet durable: smallest and largest.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.number, self.0.last()?.number))
    }

    /// The edits that survive a power cut now, oldest first.
    pub(super) fn crash(&self, fates: &mut Fates<'_>) -> Vec<&Edit> {
        let mut kept = Vec::new();
        for change in &self.0 {
            if fates.metadata(change.number) {
                kept.extend(&change.edits);
            }
        }
        kept
    }
}

/// The names of `dir` after a power cut that left `kept`.
pub(super) fn crashed_names(dir: &DirInode, kept: &[&Edit]) -> Names {
    let mut names = dir.state.lock().durable.clone();
    for edit in kept.iter().filter(|edit| edit.dir.number == dir.number) {
        edit.apply(&mut names);
    }
    names
}
