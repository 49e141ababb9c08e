//! The tree: one memtable that takes writes, sealed memtables that wait for their flush, and tables in levels.
//!
//! - It owns no thread, no timer and no log. Each write comes with the index of its log record. [`Jobs::next_flush`]
//!   and [`Jobs::next_compaction`] hand out jobs for somebody else to run.
//! - Reads never lock: they load the [`View`], then the published (or applied) sequence number, *in this order*. A
//!   merge forgets only versions that no read can see at or after the number that was published before the merge began.
//!   So a view that shows the merge's output is never read at an older number.
//! - Lock order: `manifest` (async, held for one edit) before `state` (short, never held across an await).

mod commit;
mod facts;
mod open;
mod reads;
mod records;
mod space;
mod state;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_io::{Class, Clock, Fs, Memory, Owner, Tag};
use weir_journal::Garbage;
use weir_model::engine::{Jobs, Records, Scope, Seq, Snapshots};

pub use self::commit::Outputs;
pub(crate) use self::open::{fold, newest_seq, open_table};
pub(crate) use self::state::{LevelCount, Running, TreeState};
use crate::cache::BlockCache;
use crate::knobs::Knobs;
use crate::memtable::Memtable;
use crate::options::TreeOptions;
use crate::pick::covered::{Covered, Holder};
use crate::pick::{self, Claims, LevelsView, Pick};
use crate::read::view::{Sealed, View};
use crate::version::Version;
use crate::version::manifest::Manifest;

/// Where a tree lives and what it may use.
#[derive(Clone)]
pub struct Env {
    /// The door to the disk.
    pub fs: Arc<dyn Fs>,
    /// The tree's directory.
    pub dir: PathBuf,
    /// The owner to whom its I/O is booked.
    pub owner: Owner,
    /// The block cache, which all trees of a node share.
    pub cache: Arc<BlockCache>,
    /// Gives the time; the wall clock decides about expiry in scans and compactions.
    pub clock: Arc<dyn Clock>,
    /// Where the memory of its memtables is booked.
    pub memory: Arc<dyn Memory>,
    /// A random number that clients do not know, for the manifest: see [`Journal`](weir_journal::Journal).
    pub salt: u64,
}

impl Env {
    pub(crate) fn tag(&self, class: Class) -> Tag {
        Tag::new(self.owner, class)
    }
}

/// A log-structured merge tree: an [`Engine`](weir_model::engine::Engine).
pub struct Tree {
    /// For jobs and checkpoints, which hold the tree.
    this: Weak<Tree>,
    pub(crate) env: Env,
    pub(crate) options: TreeOptions,
    pub(crate) knobs: Knobs,
    view: ArcSwap<View>,
    /// Sequence number of the last change of the last batch that was applied completely.
    applied: AtomicU64,
    published: AtomicU64,
    snapshots: Arc<Snapshots>,
    pub(crate) garbage: Arc<Garbage>,
    /// Files that no manifest named when the tree was opened.
    pub(crate) unnamed: Mutex<Vec<PathBuf>>,
    state: Mutex<TreeState>,
    /// The last result of [`Tree::covered`], with the version and the horizon that it is for. In the lock order it
    /// comes after `state`.
    counted_covers: Mutex<Option<(u64, Seq, Arc<Covered>)>>,
    pub(crate) manifest: futures_util::lock::Mutex<Manifest>,
    /// Somebody waits for the tree to come to rest: compactions do not wait for more runs.
    pub(crate) eager: AtomicBool,
    /// Index in [`Urgency::ALL`].
    pub(crate) urgency: AtomicU8,
}

impl Tree {
    /// The number of sealed memtables.
    pub fn sealed(&self) -> usize {
        self.view.load().sealed.len()
    }

    /// The tree as an `Arc`. There is one, for the caller has reached the tree through it.
    pub(crate) fn shared(&self) -> Arc<Tree> {
        self.this.upgrade().expect("a tree in use is held by somebody")
    }

    /// Whether the tables that merges write into this level go into the block cache.
    pub(crate) fn is_warm(&self, level: usize) -> bool {
        level < self.options.warm_levels && self.knobs().warm
    }

    fn seal_locked(&self, state: &mut TreeState) {
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

    /// The compaction that a job should do next beside those that hold `claims`; `None` if nothing is due.
    pub(crate) fn pick(&self, claims: &Claims, state: &TreeState, version: &Version) -> Option<Pick> {
        let knobs = self.knobs();
        let levels_view = self.levels_view(version, claims, state);
        pick::pick(&levels_view, knobs, &self.options)
    }

    pub(crate) fn levels_view<'a>(
        &self,
        version: &'a Version,
        claims: &'a Claims,
        state: &TreeState,
    ) -> LevelsView<'a> {
        let levels = std::array::from_fn(|level| version.level(level).iter().map(|table| &table.meta).collect());
        let (view, knobs) = (self.view(), self.knobs());
        LevelsView {
            levels,
            claims,
            is_filling: knobs.l0_gathers && self.is_filling(state),
            flush_is_due: !view.sealed.is_empty() && !self.is_gathering(state, &view, &knobs),
            memtables_may_wait: knobs.scope == Scope::All && !self.eager.load(Ordering::Relaxed),
            now_ms: self.env.clock.unix_ms(),
            horizon: self.horizons().into_iter().min().unwrap_or(0),
            urgency: self.urgency(),
            disk_is_full: state.is_disk_full(self.env.clock.now()),
            covered: self.covered(version),
        }
    }

    /// The bytes that covers make dead in `version`. All tables are visited once for each version and each change of
    /// the horizon, and only if there are covers.
    pub(crate) fn covered(&self, version: &Version) -> Arc<Covered> {
        if !version.holds_covers() {
            return Arc::default();
        }
        let number = version.number();
        let horizon = self.horizons().into_iter().min().unwrap_or(0).min(version.largest_seq());
        let mut counted = self.counted_covers.lock();
        if let Some((_, _, covered)) = counted.as_ref().filter(|(of, at, _)| (*of, *at) == (number, horizon)) {
            return Arc::clone(covered);
        }
        let holders = |level| version.level(level).iter().map(|file| Holder::of(file)).collect();
        let covered = Arc::new(Covered::of(&std::array::from_fn(holders), horizon));
        *counted = Some((number, horizon, Arc::clone(&covered)));
        covered
    }

    /// Whether memtables keep filling up, and nobody waits for the tree to come to rest.
    pub(crate) fn is_filling(&self, state: &TreeState) -> bool {
        !self.eager.load(Ordering::Relaxed) && state.is_filling(self.env.clock.now())
    }

    pub(crate) fn state(&self) -> &Mutex<TreeState> {
        &self.state
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The sequence numbers at which reads can be made; merges must respect them.
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
}
