//! Ending a job: one atomic manifest edit, then one new view.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Result};
use weir_journal::Begun;

use super::Tree;
use super::state::TreeState;
use crate::pending;
use crate::read::get::PINNED_LEVEL_MAX;
use crate::read::view::View;
use crate::version::{Edit, TableFile, TableMeta, Version};

/// Tables written by a job that has not committed.
pub struct Outputs {
    /// Finished and opened tables, with the level they belong to.
    pub tables: Vec<(usize, Arc<TableFile>)>,
    /// Every file that was begun, finished or not. This field comes after `tables`, so that the tables are closed
    /// first: otherwise the last reference to a table would outlive its file.
    files: Begun,
}

impl Outputs {
    /// No file is begun yet.
    pub fn new(tree: &Tree) -> Self {
        Self { tables: Vec::new(), files: Begun::new(Arc::clone(&tree.garbage)) }
    }

    /// Begins the next output file: gives it a number and a path.
    pub fn begin(&mut self, tree: &Tree) -> (u64, PathBuf) {
        let id = tree.state.lock().allocate_file();
        let path = tree.env.dir.join(TableMeta::file_name(id));
        self.files.add(path.clone());
        (id, path)
    }

    /// The `added` part of an edit.
    pub fn added(&self) -> Vec<(usize, TableMeta)> {
        self.tables.iter().map(|(level, table)| (*level, table.meta.clone())).collect()
    }
}

impl Tree {
    /// Makes `edit` and its `outputs` (which the edit adds already) part of the tree. The sync that makes the names of
    /// the outputs durable has the `class` of the job. The edit itself is always written with the class of a flush: the
    /// next flush waits for the manifest, and would otherwise wait behind everything that compactions have asked for.
    ///
    /// `install` runs with the lock held, on the view that is about to become current. Once the commit has begun, the
    /// outputs belong to the tree: whatever happens, they are removed only when the manifest surely does not name them.
    pub(crate) async fn commit(
        &self,
        class: Class,
        mut edit: Edit,
        outputs: Outputs,
        install: impl FnOnce(&mut TreeState, &mut View) + Send,
    ) -> Result<()> {
        if !outputs.files.is_empty() {
            self.env.fs.sync_dir(&self.env.dir, self.env.tag(class)).await?;
        }
        let mut manifest = self.manifest.lock().await;
        manifest.set_class(Class::Flush);
        if manifest.needs_roll() {
            let (number, snapshot, _) = self.frozen();
            let snapshot = Edit { owner: Some(self.env.owner), ..snapshot };
            manifest.roll(number, &snapshot, &self.garbage).await?;
        }
        let before = self.version();
        let mut opened: BTreeMap<u64, Arc<TableFile>> =
            outputs.tables.iter().map(|(_, table)| (table.meta.id, Arc::clone(table))).collect();
        for (_, id) in &edit.removed {
            if let Some((_, table)) = before.tables().find(|(_, table)| table.meta.id == *id) {
                opened.insert(*id, Arc::clone(table));
            }
        }
        let next = before
            .apply(&edit, &opened)
            .map_err(|message| Error::new(ErrorKind::Corruption, "apply an edit to", &self.env.dir, message))?;
        {
            let state = self.state.lock();
            edit.next_file = Some(state.next_file);
            edit.next_epoch = Some(state.next_epoch);
        }
        manifest.append_naming(&edit, outputs.files).await?;

        {
            let mut state = self.state.lock();
            state.persisted = edit.persisted.unwrap_or(state.persisted);
            let mut view = View::clone(&self.view.load());
            view.pending_bytes = pending::bytes(&next, &self.options);
            view.version = Arc::new(next);
            install(&mut state, &mut view);
            self.view.store(Arc::new(view));
        }
        // Outside the lock: a table has thousands of blocks to take out of the cache.
        let is_moved = |id: u64| edit.added.iter().any(|(_, meta)| meta.id == id);
        for (_, id) in edit.removed.iter().filter(|(_, id)| !is_moved(*id)) {
            opened[id].file.make_obsolete();
            opened[id].table.evict();
        }
        let is_upper = |level: usize| level <= PINNED_LEVEL_MAX;
        let from_above = |id: u64| edit.removed.iter().any(|&(level, removed)| removed == id && is_upper(level));
        let left = edit.added.iter().filter(|(level, meta)| !is_upper(*level) && from_above(meta.id));
        left.for_each(|(_, meta)| opened[&meta.id].table.leave_upper());
        Ok(())
    }

    /// A fresh manifest number, the edit that makes the present version out of an empty tree (it names no owner), and
    /// that version.
    pub(crate) fn frozen(&self) -> (u64, Edit, Arc<Version>) {
        let mut state = self.state.lock();
        let number = state.allocate_file();
        let version = self.version();
        let edit = Edit {
            owner: None,
            persisted: Some(state.persisted),
            next_file: Some(state.next_file),
            next_epoch: Some(state.next_epoch),
            removed: Vec::new(),
            added: version.tables().map(|(level, table)| (level, table.meta.clone())).collect(),
        };
        (number, edit, version)
    }
}
