//! Opening a tree: its manifest, its tables, and the files that a crash left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use weir_io::{Class, Error, ErrorKind, Owner, Result};
use weir_journal::{Garbage, NUMBER_MAX, left_over};
use weir_model::engine::{SEQ_MAX, Seq};

use super::state::TreeState;
use super::{Env, Tree};
use crate::knobs::Knobs;
use crate::memtable::Memtable;
use crate::options::TreeOptions;
use crate::pending;
use crate::read::view::View;
use crate::table::{Fresh, Table};
use crate::version::manifest::{self, Manifest, Recovered};
use crate::version::{Edit, LEVELS, TableFile, TableMeta, Version};

/// Tables opened at the same time.
const OPEN_AT_ONCE: usize = 8;
/// A table with a larger sequence number is refused: half of all numbers are left for what is written from now on.
const STORED_SEQ_MAX: Seq = SEQ_MAX >> 1;

impl Tree {
    /// Opens the tree in `env.dir`, or creates it. Afterwards the caller replays its log from `persisted` + 1
    /// on. Files that nothing names stay until `discard_unnamed`.
    ///
    /// # Errors
    /// `Invalid` settings ([`TreeOptions::check`]). `Corruption`, with file and offset, also if a table that the
    /// manifest names is missing from the directory.
    pub async fn open(env: Env, options: TreeOptions) -> Result<Arc<Tree>> {
        options.check().map_err(|wrong| Error::new(ErrorKind::Invalid, "open the tree in", &env.dir, wrong))?;
        let tag = env.tag(Class::Maintenance);
        let recovered = Manifest::recover_or_make_dir(&env.fs, &env.dir, tag).await?;
        let folded = match &recovered {
            Some(recovered) => {
                let corrupt = |message| Error::corruption(recovered.path(&env.dir), 0, message);
                let folded = fold(recovered).map_err(corrupt)?;
                folded.check_owner(env.owner).map_err(corrupt)?;
                folded
            }
            None => Folded::default(),
        };
        let names = env.fs.list(&env.dir, tag).await?;
        if recovered.is_none()
            && let Some(table) = names.iter().find(|entry| entry.name.ends_with(".sst"))
        {
            let message = format!("the file is missing, although there are tables ({})", table.name);
            return Err(Error::corruption(env.dir.join("CURRENT"), 0, message));
        }

        let garbage = Arc::new(Garbage::default());
        let opened = open_tables(&env, &folded, &garbage).await?;
        let edit = folded.snapshot();
        let version = Version::default()
            .apply(&edit, &opened)
            .map_err(|message| Error::new(ErrorKind::Corruption, "open the tree in", &env.dir, message))?;
        drop(opened);
        // New sequence numbers must be larger than those up to which tables have met covers, or a new cover would be
        // taken for one that they have met.
        let mut last_seq = 0;
        for (_, file) in version.tables() {
            last_seq = last_seq.max(newest_seq(&file.table)?);
        }

        let mut live: BTreeSet<String> = folded.tables.keys().map(|&id| TableMeta::file_name(id)).collect();
        live.extend(recovered.as_ref().map(|recovered| manifest::file_name(recovered.number)));
        let mut next_file = folded.next_file.max(1);
        let unnamed = left_over(&env.dir, &names, file_number, |name| live.contains(name), &mut next_file);
        let first = |next_file| Edit { owner: Some(env.owner), next_file: Some(next_file), ..edit };
        let manifest = Manifest::open(&env.fs, &env.dir, tag, env.salt, recovered, &mut next_file, first).await?;

        let state = TreeState {
            last_seq,
            applied: folded.persisted,
            persisted: folded.persisted,
            next_file,
            next_epoch: folded.next_epoch,
            sealed_at: [None; 2],
            flush_before: 0,
            found_full: None,
            jobs: BTreeMap::new(),
            next_job: 0,
            counted: None,
        };
        let now_ms = env.clock.unix_ms();
        let memtable = Memtable::booked_to(Arc::clone(&env.memory), options.write_buffer_bytes, now_ms);
        let pending_bytes = pending::bytes(&version, &options);
        let view = View { memtable, sealed: Vec::new(), version: Arc::new(version), pending_bytes };
        let tree = Arc::new_cyclic(|this| Tree {
            this: Weak::clone(this),
            env,
            knobs: Knobs::new(options.knobs()),
            options,
            view: ArcSwap::from_pointee(view),
            applied: AtomicU64::new(last_seq),
            published: AtomicU64::new(last_seq),
            snapshots: Arc::default(),
            garbage,
            unnamed: Mutex::new(unnamed),
            state: Mutex::new(state),
            counted_covers: Mutex::new(None),
            manifest: futures_util::lock::Mutex::new(manifest),
            eager: AtomicBool::new(false),
            urgency: AtomicU8::new(0),
        });
        Ok(tree)
    }
}

/// The number in the name of a table or manifest; `None` for other files.
fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".sst").or_else(|| name.strip_prefix("MANIFEST-"))?;
    digits.parse().ok()
}

/// The edits of a manifest, added up.
#[derive(Default)]
pub(crate) struct Folded {
    /// Whose tree it is, if the manifest says.
    pub owner: Option<Owner>,
    /// Level and facts of each live table.
    pub tables: BTreeMap<u64, (usize, TableMeta)>,
    pub persisted: u64,
    pub next_file: u64,
    pub next_epoch: u64,
}

impl Folded {
    /// Refuses, with the reason, if the manifest says that the tree is not that of `owner`.
    fn check_owner(&self, owner: Owner) -> std::result::Result<(), String> {
        match self.owner {
            Some(Owner { tenant, partition }) if self.owner != Some(owner) => Err(format!(
                "the manifest belongs to another tree: that of partition {partition} of tenant number {tenant}"
            )),
            _ => Ok(()),
        }
    }

    /// One edit that makes the same tree as all the edits did.
    pub(crate) fn snapshot(&self) -> Edit {
        Edit {
            owner: self.owner,
            persisted: Some(self.persisted),
            next_file: Some(self.next_file),
            next_epoch: Some(self.next_epoch),
            removed: Vec::new(),
            added: self.tables.values().cloned().collect(),
        }
    }
}

/// Adds up the edits of a manifest.
pub(crate) fn fold(recovered: &Recovered) -> std::result::Result<Folded, String> {
    let mut folded = Folded::default();
    for edit in &recovered.edits {
        folded.owner = edit.owner.or(folded.owner);
        folded.persisted = edit.persisted.unwrap_or(folded.persisted);
        folded.next_file = edit.next_file.unwrap_or(folded.next_file);
        folded.next_epoch = edit.next_epoch.unwrap_or(folded.next_epoch);
        for (level, id) in &edit.removed {
            match folded.tables.remove(id) {
                Some((found, _)) if found == *level => {}
                _ => return Err(format!("an edit removes table {id} from level {level}, where it is not")),
            }
        }
        for (level, meta) in &edit.added {
            if folded.tables.insert(meta.id, (*level, meta.clone())).is_some() {
                return Err(format!("an edit adds table {}, which is there already", meta.id));
            }
        }
    }
    let newest = folded.tables.values().filter(|(level, _)| *level == 0).map(|(_, meta)| meta.epoch).max();
    if let Some(number) = [folded.next_file, folded.next_epoch].into_iter().chain(newest).max()
        && number > NUMBER_MAX
    {
        return Err(format!("an edit has {number} for a file or an epoch, but there are no such numbers"));
    }
    folded.next_epoch = folded.next_epoch.max(newest.map_or(0, |epoch| epoch + 1));
    debug_assert!(folded.tables.values().all(|(level, _)| *level < LEVELS));
    Ok(folded)
}

async fn open_tables(env: &Env, folded: &Folded, garbage: &Arc<Garbage>) -> Result<BTreeMap<u64, Arc<TableFile>>> {
    let mut opened = BTreeMap::new();
    let metas: Vec<&TableMeta> = folded.tables.values().map(|(_, meta)| meta).collect();
    for some in metas.chunks(OPEN_AT_ONCE) {
        let files =
            try_join_all(some.iter().map(|meta| open_table(env, meta, garbage, Fresh::default(), Class::Maintenance)))
                .await?;
        opened.extend(files.into_iter().map(|file| (file.meta.id, file)));
    }
    Ok(opened)
}

/// The largest sequence number of the entries of `table`, or of covers that it has met.
///
/// # Errors
/// `Corruption` if it leaves too few numbers for new entries.
pub(crate) fn newest_seq(table: &Table) -> Result<Seq> {
    let newest = table.summary().largest_seq.max(table.summary().covers_met);
    if newest > STORED_SEQ_MAX {
        let message = format!("the table has the sequence number {newest}, which no tree gives out");
        return Err(Error::corruption(table.path(), 0, message));
    }
    Ok(newest)
}

/// The reason why `table` is not the one that `meta` describes, if it is not. It may be a table of another tree, or
/// another table of this tree.
fn stranger(meta: &TableMeta, table: &Table) -> Option<String> {
    let found = TableMeta::of(meta.id, meta.epoch, table.summary());
    if found.bytes != meta.bytes {
        return Some(format!("the file has {} bytes, but the manifest says {}", found.bytes, meta.bytes));
    }
    (found != *meta).then(|| {
        "the table is sound, but it is not the one that the manifest names: another file is in its place".into()
    })
}

/// Opens the table that `meta` describes. Reads for that have the class `class`. For `fresh`, see
/// [`Table::open_fresh`].
pub(crate) async fn open_table(
    env: &Env,
    meta: &TableMeta,
    garbage: &Arc<Garbage>,
    fresh: Fresh,
    class: Class,
) -> Result<Arc<TableFile>> {
    let path = env.dir.join(TableMeta::file_name(meta.id));
    let tag = env.tag(class);
    let table = match Table::open_fresh(&env.fs, &path, env.owner, &env.cache, fresh, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::corruption(&path, 0, "the manifest names this table, but it is missing"));
        }
        other => other?,
    };
    if let Some(message) = stranger(meta, &table) {
        return Err(Error::corruption(&path, 0, message));
    }
    Ok(TableFile::new(meta.clone(), table, path, Arc::clone(garbage)))
}
