//! The log that partitions of tenants with a shared one write to (C-5, DF-12): one for the node, in `shared-log/`. It
//! is opened when the first of them is.
//!
//! Its files are the node's own: they pass the node's gate, and are booked to tenant 0. Its anchor is like a
//! partition's, and has the log's [floor](weir_log::FloorKeeper) as what is persisted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use weir_io::{BoxFuture, Class, Error, ErrorKind, Fs, FsLock, Owner, Result};
use weir_log::{FloorKeeper, LogAnchor, LogIndex, LogOptions, SharedLog, SharedOptions, SharedSurvey, SyncMode};

use crate::layout;
use crate::partition::anchor::{self, Anchor, AnchorClaim, AnchorSlot};

/// Whom it is booked to, and whose its anchor is.
pub(crate) const OWNER: Owner = Owner { tenant: 0, partition: 0 };
/// So many segments at least make up a log at its cap: a segment is what a cascade gives back.
const SEGMENTS: u64 = 16;
/// The smallest segment that a log which has grown has, in bytes.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;

/// Where it is in the node's directory `dir`.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("shared-log")
}

/// Its segments, in its own directory.
pub(crate) fn segments(own: &Path) -> PathBuf {
    own.join("log")
}

/// What its anchor in `own` says; `None` if it was never used.
///
/// # Errors
/// `Corruption` if there are segments and no anchor, or it is damaged.
pub(crate) async fn anchor(fs: &Arc<dyn Fs>, own: &Path) -> Result<Option<AnchorSlot>> {
    match anchor::read(fs, own, OWNER).await {
        Ok(slot) => Ok(Some(slot)),
        // The anchor is durable before anything is written to the log.
        Err(error) if error.kind() == ErrorKind::Corruption && !has_segments(fs, own).await? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the shared log of the node in `dir`, which nobody may have open, and changes nothing.
///
/// # Errors
/// `Corruption`, naming what is damaged; I/O.
pub(crate) async fn survey(fs: &Arc<dyn Fs>, dir: &Path) -> Result<SharedSurvey> {
    let own = path(dir);
    let (identity, claim) = anchor(fs, &own).await?.map_or_else(Default::default, |slot| (slot.identity, slot.claim));
    let anchor = LogAnchor { identity, durable: claim.durable };
    SharedSurvey::take(fs, &segments(&own), OWNER, anchor, claim.persisted).await
}

async fn has_segments(fs: &Arc<dyn Fs>, own: &Path) -> Result<bool> {
    match fs.list(&segments(own), layout::TAG).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        names => Ok(!names?.is_empty()),
    }
}

/// See the module.
pub(crate) struct NodeLog {
    fs: Arc<dyn Fs>,
    own: PathBuf,
    sync: SyncMode,
    cap_bytes: u64,
    log: OnceLock<SharedLog>,
    /// Why it cannot be opened. What is damaged stays so for as long as the directory is locked, and is not read again.
    damage: OnceLock<Error>,
    /// What looks after it, from when it is used: a node without such tenants has nothing to look after.
    watch: Mutex<Option<BoxFuture<()>>>,
    /// One opens it at a time.
    opening: AsyncMutex<()>,
    /// Nobody else may have the directory while somebody may write to the log.
    _lock: Arc<dyn FsLock>,
}

impl NodeLog {
    /// The log of the node in `dir`, not opened yet. At `cap_bytes` those who keep it long are to flush.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, (sync, cap_bytes): (SyncMode, u64), lock: Arc<dyn FsLock>) -> Arc<Self> {
        let (log, damage, watch, opening) = (OnceLock::new(), OnceLock::new(), Mutex::default(), AsyncMutex::new(()));
        Arc::new(Self { fs, own: path(dir), sync, cap_bytes, log, damage, watch, opening, _lock: lock })
    }

    /// Has `watch` run from when the log is used.
    pub fn set_watch(&self, watch: BoxFuture<()>) {
        *self.watch.lock() = Some(watch);
    }

    /// What is to run now that the log is used; once.
    pub fn take_watch(&self) -> Option<BoxFuture<()>> {
        self.watch.lock().take()
    }

    /// The log, once it is open.
    pub fn get(&self) -> Option<&SharedLog> {
        self.log.get()
    }

    /// The log, opened if need be. `members` are the partitions that may have something in it; `chance` is a salt and
    /// an identity.
    ///
    /// # Errors
    /// It is damaged; I/O.
    pub async fn open(&self, members: &BTreeSet<u32>, chance: (u64, u64)) -> Result<SharedLog> {
        let _turn = self.opening.lock().await;
        if let Some(log) = self.get() {
            return Ok(log.clone());
        }
        if let Some(damage) = self.damage.get() {
            return Err(damage.clone());
        }
        let opened = self.open_now(members, chance).await.inspect_err(|error| {
            if error.kind() == ErrorKind::Corruption {
                tracing::error!(%error, "tenants that share a log are not served: stop the server, run `weir repair`");
                self.damage.get_or_init(|| error.clone());
            }
        })?;
        Ok(self.log.get_or_init(|| opened).clone())
    }

    /// Whether there is anything of it on disk.
    ///
    /// # Errors
    /// I/O.
    pub async fn exists(&self) -> Result<bool> {
        has_segments(&self.fs, &self.own).await
    }

    async fn open_now(&self, members: &BTreeSet<u32>, (salt, identity): (u64, u64)) -> Result<SharedLog> {
        let slot = match anchor(&self.fs, &self.own).await? {
            Some(slot) => slot,
            None => {
                layout::create_dir(&self.fs, &self.own).await?;
                anchor::create(&self.fs, &self.own, OWNER, identity, AnchorClaim::default()).await?
            }
        };
        let anchor = Anchor::new(Arc::clone(&self.fs), &self.own, slot);
        let log = LogOptions {
            sync: self.sync,
            segment_bytes: (self.cap_bytes / SEGMENTS).max(SEGMENT_BYTES_MIN),
            anchor: anchor.of_log(slot.claim.durable),
            ..LogOptions::new(OWNER, salt)
        };
        let (options, floor) = (SharedOptions { log, cap_bytes: self.cap_bytes }, slot.claim.persisted);
        let exists = |member| members.contains(&member);
        let (fs, keeper) = (Arc::clone(&self.fs), Arc::new(Keeper(Arc::new(anchor))));
        SharedLog::open(fs, &segments(&self.own), options, floor, &exists, keeper).await
    }
}

struct Keeper(Arc<Anchor>);

impl FloorKeeper for Keeper {
    fn hold(&self, floor: LogIndex) -> BoxFuture<Result<()>> {
        let anchor = Arc::clone(&self.0);
        // What is in tables is as good as durable.
        let claim = AnchorClaim { durable: floor, persisted: floor };
        Box::pin(async move { anchor.hold(claim, Class::Flush).await })
    }
}
