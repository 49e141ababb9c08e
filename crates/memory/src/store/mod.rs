//! The store: rows in memory, and on disk the snapshot that a log is replayed over.
//!
//! - It owns no thread, no timer and no log. Each write comes with the index of its log record. [`Store::next_flush`]
//!   and [`Store::next_drop`] hand out jobs for somebody else to run.
//! - Reads never lock. They load the newest version of a row, *then* the sequence number at which they read, and go
//!   back to an older version if they must. The writer leaves out older versions that no reader at or after the
//!   published number needs. A read that finds that the number has moved on while it went back begins again.
//! - Lock order: `manifest` (async, held for one edit), `writer`, `files`, the list of snapshots (short, never held
//!   across an await).

mod commit;
mod facts;
mod open;
mod reads;
mod records;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_io::{Class, Clock, Fs, Owner, Tag};
use weir_journal::Garbage;
use weir_model::engine::{Records, Snapshots, TreeKnobs};

use self::commit::Files;
pub(crate) use self::commit::SnapshotFile;
use self::records::Writer;
use crate::bytes::{Booked, Budget};
use crate::index::Index;
use crate::manifest::Manifest;
use crate::options::StoreOptions;
use crate::running::Running;
use crate::version::Horizons;

/// Where a store lives and what it may use.
#[derive(Clone)]
pub struct Env {
    /// The door to the disk.
    pub fs: Arc<dyn Fs>,
    /// The store's directory.
    pub dir: PathBuf,
    /// The owner to whom its I/O is booked.
    pub owner: Owner,
    /// Gives the time; the wall clock decides about expiry.
    pub clock: Arc<dyn Clock>,
    /// The memory of its tenant.
    pub budget: Arc<Budget>,
    /// A random number that clients do not know, for the manifest: see [`Journal`](weir_journal::Journal).
    pub salt: u64,
}

impl Env {
    pub(crate) fn tag(&self, class: Class) -> Tag {
        Tag::new(self.owner, class)
    }
}

/// Rows in memory: an [`Engine`](weir_model::engine::Engine).
pub struct Store {
    /// For jobs and checkpoints, which hold the store.
    this: Weak<Store>,
    pub(crate) env: Env,
    pub(crate) options: StoreOptions,
    pub(crate) index: Arc<Index>,
    pub(crate) booked: Booked,
    /// Sequence number of the last change of the last batch that was applied completely.
    applied: AtomicU64,
    published: AtomicU64,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Bytes of log records applied, and those of them that the last snapshot has.
    pub(crate) logged_bytes: AtomicU64,
    pub(crate) snapshot_bytes: AtomicU64,
    /// How many reads began again.
    retries: AtomicU64,
    /// Index in [`Urgency::ALL`](weir_model::engine::Urgency::ALL).
    pub(crate) urgency: AtomicU8,
    pub(crate) knobs: Mutex<TreeKnobs>,
    pub(crate) running: Mutex<Running>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) files: Mutex<Files>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) manifest: futures_util::lock::Mutex<Manifest>,
}

impl Store {
    /// The store as an `Arc`. There is one, for the caller has reached the store through it.
    pub(crate) fn shared(&self) -> Arc<Store> {
        self.this.upgrade().expect("a store in use is held by somebody")
    }

    /// The sequence numbers at which reads may still be made.
    pub(crate) fn horizons(&self) -> Horizons {
        // In this order: a snapshot taken in between is at or after `published`, beyond which nothing is left out.
        let published = self.published();
        Horizons { published, held: self.snapshots.held() }
    }

    /// Bytes of log that make a snapshot due.
    fn due_bytes(&self) -> u64 {
        self.options.snapshot_log_bytes.max(self.booked.newest())
    }

    /// Bytes of log that are not in a snapshot.
    fn unsaved_bytes(&self) -> u64 {
        let saved = self.snapshot_bytes.load(Ordering::Relaxed);
        self.logged_bytes.load(Ordering::Relaxed).saturating_sub(saved)
    }

    /// Whether so much has been written since the last snapshot that the next one is due.
    fn is_snapshot_due(&self) -> bool {
        self.unsaved_bytes() >= self.due_bytes()
    }

    /// Whether a snapshot is due, or somebody has asked for one.
    pub(crate) fn is_snapshot_wanted(&self) -> bool {
        let asked = self.writer.lock().asked;
        asked > self.persisted() || self.is_snapshot_due()
    }

    /// Reads that had to begin again because what they read was published meanwhile. No read waits.
    pub fn read_retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Bytes of memory: of rows with their newest versions, and of older versions.
    pub fn memory_bytes(&self) -> [u64; 2] {
        [self.booked.newest(), self.booked.older()]
    }

    /// The number of rows, of which a few may be deleted.
    pub fn rows(&self) -> u64 {
        self.booked.rows()
    }
}
