//! The tree: one memtable that takes writes, sealed ones that wait, tables in levels.
//!
//! - It owns no thread, no timer and no log. Writes come with the index of their log record; jobs come out of
//!   [`Tree::next_flush`] and [`Tree::next_compaction`] for somebody else to run.
//! - Reads never lock: they load the [`View`], then the published (or applied) sequence number, *in this order*. A
//!   merge forgets only what no read at or after the number published before it began can see, so a view that shows the
//!   merge's output is never read at an older number.
//! - Lock order: `manifest` (async, held over one edit) before `state` (short, never held over an await).

mod commit;
mod open;
mod space;
mod state;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_io::{Class, Clock, Fs, Memory, Owner, Result, Tag};
use weir_model::{BatchRef, Change, LogIndex};

pub use self::commit::Outputs;
pub(crate) use self::commit::meta_of;
pub(crate) use self::open::{fold, open_table};
pub use self::space::Space;
pub(crate) use self::state::{LevelCount, Running, State};
use crate::cache::{BlockCache, CacheUsage};
use crate::entry::{Entry, Kind, Seq};
use crate::knobs::{Knobs, TreeKnobs};
use crate::memtable::{Memtable, PREFETCHED_MAX};
use crate::options::TreeOptions;
use crate::pick::{self, Claims, Pick, Picture};
use crate::read::get::{self, Lookup};
use crate::read::scan::{Range, Scan};
use crate::read::view::{Sealed, View};
use crate::snapshot::{Snapshot, Snapshots};
use crate::stall::{Stall, stall};
use crate::table::{Caching, CursorOptions};
use crate::version::manifest::{self, Manifest};
use crate::version::{Garbage, Version};

/// Where a tree lives and what it may use.
#[derive(Clone)]
pub struct Env {
    /// The door.
    pub fs: Arc<dyn Fs>,
    /// Its directory.
    pub dir: PathBuf,
    /// Whom its I/O is booked to.
    pub owner: Owner,
    /// Shared by all trees of a node.
    pub cache: Arc<BlockCache>,
    /// For the wall clock: expiry in scans and compactions.
    pub clock: Arc<dyn Clock>,
    /// Where its memtables are booked.
    pub memory: Arc<dyn Memory>,
}

impl Env {
    pub(crate) fn tag(&self, class: Class) -> Tag {
        Tag::new(self.owner, class)
    }
}

/// What [`Tree::apply`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Sequence number of the last change.
    pub last_seq: Seq,
    /// The active memtable was full and has been sealed: a flush is due.
    pub sealed: bool,
}

/// Bytes a scan reads ahead at most. One device round trip brings some 60 rows of 1 KB.
const SCAN_READAHEAD_BYTES: usize = 64 << 10;

/// A log-structured merge tree. Keep it in an `Arc`: jobs hold it.
pub struct Tree {
    pub(crate) env: Env,
    pub(crate) options: TreeOptions,
    knobs: Knobs,
    view: ArcSwap<View>,
    /// Sequence number of the last change of the last batch applied as a whole.
    applied: AtomicU64,
    published: AtomicU64,
    snapshots: Arc<Snapshots>,
    pub(crate) garbage: Arc<Garbage>,
    /// What no manifest named at the opening.
    unnamed: Mutex<Vec<PathBuf>>,
    state: Mutex<State>,
    manifest: futures_util::lock::Mutex<Manifest>,
    /// Somebody waits for the tree to take its shape: compactions do not wait for more to compact.
    eager: AtomicBool,
    /// Index in [`Urgency::ALL`].
    urgency: AtomicU8,
}

impl Tree {
    /// Applies the changes of log record `index`. They are invisible until [`Tree::publish`] (except to
    /// [`Tree::get_latest`]). The caller applies records in log order.
    ///
    /// A full memtable is sealed first, if the number of write buffers allows it; else it grows beyond its size:
    /// callers that respect [`Tree::stall`] prevent that.
    pub fn apply(&self, index: LogIndex, batch: BatchRef<'_>) -> Applied {
        let mut state = self.state.lock();
        let mut view = self.view.load();
        let mut sealed = false;
        if view.memtable.bytes() >= self.options.write_buffer_bytes
            && view.sealed.len() + 1 < self.knobs.write_buffers()
        {
            self.seal_locked(&mut state);
            view = self.view.load();
            sealed = true;
        }
        for change in batch.iter() {
            state.last_seq += 1;
            let seq = state.last_seq;
            view.memtable.insert(match change {
                Change::Delete { key } => Entry { key, seq, kind: Kind::Delete, expire_at_ms: 0, value: &[] },
                Change::Put { key, value, expire_at_ms } => {
                    Entry { key, seq, kind: Kind::Put, expire_at_ms: expire_at_ms.unwrap_or(0), value }
                }
            });
        }
        state.applied = index;
        self.applied.store(state.last_seq, Ordering::Release);
        Applied { last_seq: state.last_seq, sealed }
    }

    /// Makes every change up to `seq` visible. Call it when the log has promised what its sync mode promises.
    pub fn publish(&self, seq: Seq) {
        self.published.fetch_max(seq, Ordering::Release);
    }

    /// The newest visible sequence number.
    pub fn published(&self) -> Seq {
        self.published.load(Ordering::Acquire)
    }

    /// The newest visible version of `key`, or as of `snapshot`. Answers at once when it is in memory.
    pub fn get(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Lookup {
        let view = self.view.load();
        let at = snapshot.map_or_else(|| self.published(), Snapshot::seq);
        get::get(&view, key, at)
    }

    /// The newest version of `key`, published or not, tombstones included; of a batch that is just being applied,
    /// nothing. For a write that reads first, and for readers that wait until what they saw is published before they
    /// tell anybody.
    pub fn get_latest(&self, key: &[u8]) -> Lookup {
        let view = self.view.load();
        get::get_version(&view, key, self.applied_seq())
    }

    /// Has the processor fetch what reads of `keys` will touch. Worth it for a few keys whose reads follow one another.
    pub fn prefetch(&self, keys: &[&[u8]]) {
        get::prefetch(&self.view.load(), keys);
    }

    /// Reads several keys at one moment; what must be read from the device is read at the same time.
    pub async fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<crate::Found>>> {
        let view = self.view.load_full();
        let at = self.published();
        // A few at a time: what is fetched for a thousand would be gone again before it is read.
        let reads = keys.chunks(PREFETCHED_MAX).flat_map(|keys| {
            get::prefetch(&view, keys);
            keys.iter().map(|key| get::get(&view, key, at))
        });
        futures_util::future::try_join_all(reads).await
    }

    /// Starts a scan of what is visible now, or as of `snapshot`.
    pub fn scan(&self, range: Range, snapshot: Option<&Snapshot>) -> Scan {
        let view = self.view.load_full();
        let at = snapshot.map_or_else(|| self.published(), Snapshot::seq);
        let options =
            CursorOptions { class: Class::Read, readahead_bytes: SCAN_READAHEAD_BYTES, caching: Caching::Fill };
        Scan::new(&view, range, at, self.env.clock.unix_ms(), options)
    }

    /// The sequence number of the newest change applied; it is the last of its batch.
    pub fn applied_seq(&self) -> Seq {
        self.applied.load(Ordering::Acquire)
    }

    /// What it has in the block cache, and pinned there.
    pub fn cache_usage(&self) -> CacheUsage {
        self.env.cache.usage_of(self.env.owner)
    }

    /// Its settings.
    pub fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// Keeps what is visible now readable until the snapshot is dropped.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshots.take(|| self.published())
    }

    /// Whether writes should be slowed or stopped now.
    pub fn stall(&self) -> Stall {
        let view = self.view.load();
        let full = view.memtable.bytes() >= self.options.write_buffer_bytes;
        stall(view.version.level(0).len(), view.sealed.len(), full, self.knobs.write_buffers(), &self.options)
    }

    /// Sealed memtables.
    pub fn sealed(&self) -> usize {
        self.view.load().sealed.len()
    }

    /// Where the knobs stand.
    pub fn knobs(&self) -> TreeKnobs {
        self.knobs.get()
    }

    /// Whether what is written into this level goes into the block cache.
    pub(crate) fn is_warm(&self, level: usize) -> bool {
        level < self.options.warm_levels && self.knobs().warm
    }

    /// Turns the knobs. Ask for jobs afterwards: what was not due may be due now. Numbers that would stop the tree for
    /// ever are raised.
    pub fn set_knobs(&self, knobs: TreeKnobs) {
        self.knobs.set(knobs);
    }

    /// Seals the active memtable, if it is not empty, and asks for the flush of all that is sealed: none of it waits
    /// for company. The number of write buffers may be exceeded by one: closing and log replacement must not wait for
    /// room.
    pub fn seal(&self) {
        let mut state = self.state.lock();
        self.seal_locked(&mut state);
        state.flush_before = state.next_epoch;
    }

    fn seal_locked(&self, state: &mut State) {
        let view = self.view.load();
        if view.memtable.is_empty() {
            return;
        }
        let mut next = View::clone(&view);
        let memtable = std::mem::replace(
            &mut next.memtable,
            Memtable::booked_to(
                Arc::clone(&self.env.memory),
                self.options.write_buffer_bytes,
                self.env.clock.unix_ms(),
            ),
        );
        let sealed_at = self.env.clock.now();
        state.sealed_at = [Some(sealed_at), state.sealed_at[0]];
        let epoch = state.next_epoch;
        state.next_epoch += 1;
        let (last_index, last_seq) = (state.applied, state.last_seq);
        next.sealed.insert(0, Sealed { memtable, epoch, last_index, last_seq, sealed_at });
        self.view.store(Arc::new(next));
    }

    /// Every log record up to here is in tables, durably.
    pub fn persisted(&self) -> LogIndex {
        self.state.lock().persisted
    }

    /// The compaction that a job should do next beside those that hold `claims`; `None` if nothing is due.
    pub(crate) fn pick(&self, claims: &Claims, state: &State, version: &Version) -> Option<Pick> {
        let knobs = self.knobs();
        let picture = self.picture(version, claims, state);
        pick::pick(&picture, knobs.scope, knobs.intra_l0_fan_in, &self.options)
    }

    pub(crate) fn picture<'a>(&self, version: &'a Version, claims: &'a Claims, state: &State) -> Picture<'a> {
        let levels = std::array::from_fn(|level| version.level(level).iter().map(|table| &table.meta).collect());
        Picture {
            levels,
            claims,
            is_filling: self.knobs().l0_gathers && self.is_filling(state),
            now_ms: self.env.clock.unix_ms(),
            horizon: self.horizons().into_iter().min().unwrap_or(0),
            urgency: self.urgency(),
        }
    }

    /// Whether memtables keep filling up, and nobody waits for the tree to come to rest.
    pub(crate) fn is_filling(&self, state: &State) -> bool {
        !self.eager.load(Ordering::Relaxed) && state.is_filling(self.env.clock.now())
    }

    /// Whether compactions start as soon as they are due, even if waiting for more would save work.
    pub fn set_eager(&self, eager: bool) {
        self.eager.store(eager, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> &Mutex<State> {
        &self.state
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The sequence numbers that reads can be made at: what a merge must respect.
    pub(crate) fn horizons(&self) -> Vec<Seq> {
        // In this order: a snapshot taken in between is at or after `published`, beyond which merges forget nothing.
        let published = self.published();
        let mut horizons = self.snapshots.held();
        horizons.push(published);
        horizons
    }

    /// The tables of the present version.
    pub fn version(&self) -> Arc<Version> {
        Arc::clone(&self.view.load().version)
    }

    /// Removes the files that no manifest named at the opening: outputs of jobs that a crash ended. For the time when
    /// the log has been found whole: before that an older copy of the manifest may be why nothing names them.
    ///
    /// # Errors
    /// What cannot be removed is garbage, for [`Tree::tidy`] to try again.
    pub async fn discard_unnamed(&self) -> Result<()> {
        self.unnamed.lock().drain(..).for_each(|path| self.garbage.add(path));
        self.tidy().await
    }

    /// The manifest in force.
    pub async fn manifest_path(&self) -> PathBuf {
        let number = self.manifest.lock().await.number();
        self.env.dir.join(manifest::file_name(number))
    }

    /// Whether [`Tree::tidy`] has something to do.
    pub fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    /// Removes the files that nothing needs any more. Jobs call it when they end; call it after closing scans too.
    pub async fn tidy(&self) -> Result<()> {
        let mut paths = self.garbage.take().into_iter();
        while let Some(path) = paths.next() {
            match self.env.fs.remove(&path, self.env.tag(Class::Maintenance)).await {
                Err(error) if error.kind() != weir_io::ErrorKind::NotFound => {
                    self.garbage.add(path);
                    paths.for_each(|path| self.garbage.add(path));
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
