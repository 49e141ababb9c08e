//! Opening a store: the manifest, the snapshot that it names, and what a crash left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use parking_lot::Mutex;
use weir_io::{Class, Error, Result};
use weir_journal::{Garbage, left_over};
use weir_model::engine::{Scope, Snapshots, TreeKnobs};

use super::commit::{Files, SnapshotFile};
use super::records::Writer;
use super::{Env, Store};
use crate::bytes::Booked;
use crate::index::Index;
use crate::manifest::{self, Edit, Manifest, Recovered};
use crate::options::StoreOptions;
use crate::snapshot::{self, reader};

/// The first positions of the knobs, which a store ignores.
const KNOBS: TreeKnobs = TreeKnobs {
    scope: Scope::All,
    flush_gather: 1,
    write_buffers: 2,
    intra_l0_bytes: u64::MAX,
    intra_l0_fan_in: 2,
    intra_l0_from: 2,
    warm: false,
    l0_gathers: false,
    pending_stalls: false,
};

impl Store {
    /// Opens the store in `env.dir`, or creates it. Afterwards the caller replays its log from
    /// [`persisted`](weir_model::engine::Records::persisted) + 1 on. Files that nothing names stay until
    /// [`discard_unnamed`](weir_model::engine::Files::discard_unnamed).
    ///
    /// # Errors
    /// `Corruption`, with file and offset, also if a snapshot that the manifest names is missing from the directory. A
    /// store that cannot be read whole is not opened.
    pub async fn open(env: Env, options: StoreOptions) -> Result<Arc<Store>> {
        let tag = env.tag(Class::Maintenance);
        let recovered = Manifest::recover_or_make_dir(&env.fs, &env.dir, tag).await?;
        let names = env.fs.list(&env.dir, tag).await?;
        let edit = match &recovered {
            Some(recovered) => newest(&env, recovered)?,
            None => Edit::default(),
        };
        if recovered.is_none()
            && let Some(file) = names.iter().find(|entry| snapshot::file_number(&entry.name).is_some())
        {
            let message = format!("the file is missing, although there are snapshots ({})", file.name);
            return Err(Error::corruption(env.dir.join("CURRENT"), 0, message));
        }

        let live = [
            edit.snapshot.map(|meta| snapshot::file_name(meta.number)),
            recovered.as_ref().map(|recovered| manifest::file_name(recovered.number)),
        ];
        let mut next_file = edit.next_file.max(1);
        let number_of = |name: &str| snapshot::file_number(name).or_else(|| manifest::file_number(name));
        let is_live = |name: &str| live.iter().flatten().any(|live| live == name);
        let unnamed = left_over(&env.dir, &names, number_of, is_live, &mut next_file);
        let first = |next_file| Edit { owner: Some(env.owner), next_file, snapshot: None };
        let manifest = Manifest::open(&env.fs, &env.dir, tag, env.salt, recovered, &mut next_file, first).await?;

        let garbage = Arc::new(Garbage::default());
        let path = |number| env.dir.join(snapshot::file_name(number));
        let file = edit.snapshot.map(|meta| SnapshotFile::new(meta, path(meta.number), &garbage));
        let files = Files { next_file, snapshot: file.clone(), unnamed };
        let seq = edit.snapshot.map_or(0, |meta| meta.end.seq);
        let store = Arc::new_cyclic(|this| Store {
            this: this.clone(),
            booked: Booked::to(Arc::clone(&env.budget)),
            index: Arc::new(Index::default()),
            applied: AtomicU64::new(seq),
            published: AtomicU64::new(seq),
            snapshots: Arc::new(Snapshots::default()),
            logged_bytes: AtomicU64::new(0),
            snapshot_bytes: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            writer: Mutex::new(Writer::default()),
            urgency: AtomicU8::new(0),
            knobs: Mutex::new(KNOBS),
            running: Mutex::default(),
            files: Mutex::new(files),
            garbage,
            manifest: futures_util::lock::Mutex::new(manifest),
            options,
            env,
        });
        if let Some(file) = file {
            let (fs, io_bytes) = (&store.env.fs, store.options.io_bytes);
            let load = |kind, key: &[u8], expire_at_ms, value: &[u8]| store.load(kind, key, expire_at_ms, value);
            reader::read(fs, file.file.path(), &file.meta, io_bytes, tag, load).await?;
        }
        store.loaded(edit.snapshot);
        Ok(store)
    }
}

/// The last edit, which says all that is on disk.
fn newest(env: &Env, recovered: &Recovered) -> Result<Edit> {
    let corrupt = |message| Error::corruption(recovered.path(&env.dir), 0, message);
    let edit = recovered.edits.last().copied().ok_or_else(|| corrupt("the manifest contains no edit".into()))?;
    match edit.owner {
        Some(owner) if owner != env.owner => Err(corrupt(format!(
            "the manifest belongs to another store: that of partition {} of tenant number {}",
            owner.partition, owner.tenant
        ))),
        _ => Ok(edit),
    }
}
