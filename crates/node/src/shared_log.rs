//! The shared log: the log to which partitions write whose tenants share one (C-5, DF-12). There is one for the node,
//! in `shared-log/`. It is opened when the first of these partitions is opened.
//!
//! It passes the node's gate. What is written to it is booked to the partitions whose records they are, and each of
//! them pays for that at its own gate ([`log_toll`](crate::log_toll)). The rest is booked to tenant 0: headers, zeros,
//! syncs, and reads. All but what is filled with zeros ahead of time passes as foreground, because clients wait for
//! it, such as for the opening.
//!
//! Its anchor is like a partition's, with the log's [floor](weir_log::ClaimKeeper) in the place of what is persisted.
//! It is written before segments go, when a segment is full and durable, after an opening and at the end, and now and
//! then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::{Mutex, RwLock};
use weir_admission::{Account, Parts, Sharers};
use weir_io::{BoxFuture, Class, Clock, Error, ErrorKind, Fs, FsLock, Nanos, Owner, Result};
use weir_log::{
    ClaimKeeper, LogAnchor, LogOptions, SharedClaim, SharedLog, SharedOptions, SharedSurvey, SyncMode, bytes_by_member,
};

use crate::layout;
use crate::partition::anchor::{self, Anchor, AnchorClaim, AnchorSlot};

/// The owner that its I/O is booked to, and the owner in its anchor.
pub(crate) const OWNER: Owner = Owner { tenant: 0, partition: 0 };
/// A log at its cap has at least this many segments: a cascade gives back a segment.
const SEGMENTS: u64 = 16;
/// The size of the smallest segment in a log that has grown, in bytes.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// After an I/O error nobody tries to open the log for this time, in nanoseconds, or for as long as the last attempt
/// took if that is longer. An attempt may read the whole log, in front of everybody's background work, and each request
/// of the log's tenants would begin one. So the log is not read for more than half of the time.
const AGAIN_AFTER: Nanos = 100_000_000;

/// Where the shared log is in the node's directory `dir`.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("shared-log")
}

/// Its segments, in its own directory.
pub(crate) fn segments(own: &Path) -> PathBuf {
    own.join("log")
}

/// What the anchor in the log's directory `own` says; `None` if the log was never used.
///
/// # Errors
/// `Corruption` if there are segments and no anchor, or if the anchor is damaged.
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

/// The accounts of the members. Weak: an account whose owner has left is settled when nobody holds it.
#[derive(Default)]
pub(crate) struct LogWriters(RwLock<BTreeMap<u32, Weak<Account>>>);

impl LogWriters {
    /// Partition `number` is about to write, and is booked on `account`.
    pub fn admit(&self, number: u32, account: &Arc<Account>) {
        let mut accounts = self.0.write();
        accounts.retain(|_, account| account.strong_count() > 0);
        accounts.insert(number, Arc::downgrade(account));
    }
}

impl Sharers for LogWriters {
    fn parts(&self, buf: &[u8]) -> Parts {
        let mut bytes_of: BTreeMap<u32, u64> = BTreeMap::new();
        bytes_by_member(buf).for_each(|(member, bytes)| *bytes_of.entry(member).or_default() += bytes);
        let accounts = self.0.read();
        let of = |(member, bytes)| Some((accounts.get(&member)?.upgrade()?, bytes));
        bytes_of.into_iter().filter_map(of).collect()
    }
}

/// The node's shared log, open or not, with its anchor.
pub(crate) struct NodeLog {
    fs: Arc<dyn Fs>,
    writers: Arc<LogWriters>,
    own: PathBuf,
    sync: SyncMode,
    cap_bytes: u64,
    opened: OnceLock<(SharedLog, Arc<Anchor>)>,
    /// The task that looks after the log, from when the log is used: a node without such tenants has nothing to look
    /// after.
    watch: Mutex<Option<BoxFuture<()>>>,
    clock: Arc<dyn Clock>,
    /// One opens it at a time. Why the last one could not, if it could not.
    opening: AsyncMutex<Option<Failure>>,
    /// Nobody else may have the directory while somebody may write to the log.
    _lock: Arc<dyn FsLock>,
}

/// Why the log could not be opened.
struct Failure {
    error: Error,
    /// Nobody tries again before.
    until: Nanos,
}

impl NodeLog {
    /// The log of the node in `dir`, not opened yet. At `cap_bytes`, the members that keep it long are to flush.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        (sync, cap_bytes): (SyncMode, u64),
        writers: Arc<LogWriters>,
        lock: Arc<dyn FsLock>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let (own, opened, watch, opening) = (path(dir), OnceLock::new(), Mutex::default(), AsyncMutex::new(None));
        Arc::new(Self { fs, writers, own, sync, cap_bytes, opened, watch, clock, opening, _lock: lock })
    }

    /// The accounts of the partitions that write to it.
    pub fn writers(&self) -> &LogWriters {
        &self.writers
    }

    /// Sets the task that is to run from when the log is used.
    pub fn set_watch(&self, watch: BoxFuture<()>) {
        *self.watch.lock() = Some(watch);
    }

    /// The task that is to run now that the log is used; given once.
    pub fn take_watch(&self) -> Option<BoxFuture<()>> {
        self.watch.lock().take()
    }

    /// The log, once it is open.
    pub fn get(&self) -> Option<&SharedLog> {
        self.opened.get().map(|(log, _)| log)
    }

    /// Writes down up to where the log is durable, if it is time to. To be called once in each round.
    pub async fn look_after_anchor(&self) {
        let Some((log, anchor)) = self.opened.get() else { return };
        if anchor.is_due(anchor_claim(log.claimable())) {
            note_claim(log).await;
        }
    }

    /// Makes everything durable and refuses appends from now on.
    ///
    /// # Errors
    /// The failure that fenced the log, unless all members hold everything in tables.
    pub async fn close(&self) -> Result<()> {
        let Some(log) = self.get() else { return Ok(()) };
        let closed = log.close().await;
        note_claim(log).await;
        closed
    }

    /// The log, opened if need be. `members` are the partitions that may have something in it; `chance` is a salt and
    /// an identity.
    ///
    /// # Errors
    /// It is damaged; I/O, also of an attempt that has just failed.
    pub async fn open(&self, members: &BTreeSet<u32>, chance: (u64, u64)) -> Result<SharedLog> {
        let mut failure = self.opening.lock().await;
        if let Some(log) = self.get() {
            return Ok(log.clone());
        }
        let begin = self.clock.now();
        if let Some(Failure { error, .. }) = failure.as_ref().filter(|failure| begin < failure.until) {
            return Err(error.clone());
        }
        let outcome = self.open_now(members, chance).await;
        *failure = outcome.as_ref().err().map(|error| self.failure(error, begin));
        let opened = outcome?;
        Ok(self.opened.get_or_init(|| opened).0.clone())
    }

    /// What is remembered of `error`, with which an attempt has failed that began at `begin`.
    fn failure(&self, error: &Error, begin: Nanos) -> Failure {
        let now = self.clock.now();
        let mut until = now.saturating_add(AGAIN_AFTER.max(now - begin));
        if error.kind() == ErrorKind::Corruption {
            tracing::error!(
                %error,
                "the shared log is damaged, and the tenants that share it are not served: stop the server and run \
                 `weir repair`"
            );
            // Damage stays for as long as the directory is locked.
            until = Nanos::MAX;
        }
        Failure { error: error.clone(), until }
    }

    /// Whether any file of the log is on disk.
    ///
    /// # Errors
    /// I/O.
    pub async fn exists(&self) -> Result<bool> {
        has_segments(&self.fs, &self.own).await
    }

    async fn open_now(
        &self,
        members: &BTreeSet<u32>,
        (salt, identity): (u64, u64),
    ) -> Result<(SharedLog, Arc<Anchor>)> {
        let slot = match anchor(&self.fs, &self.own).await? {
            Some(slot) => slot,
            None => {
                layout::create_dir(&self.fs, &self.own).await?;
                anchor::create(&self.fs, &self.own, OWNER, identity, AnchorClaim::default()).await?
            }
        };
        let anchor = Arc::new(Anchor::new(Arc::clone(&self.fs), &self.own, slot));
        // If a process was killed, the claim that was read may be in the page cache alone. Segments are removed because
        // of it, so it must be durable before that.
        anchor.hold(slot.claim, Class::Maintenance).await?;
        let log = LogOptions {
            sync: self.sync,
            segment_bytes: (self.cap_bytes / SEGMENTS).max(SEGMENT_BYTES_MIN),
            anchor: anchor.of_log(slot.claim.durable),
            ..LogOptions::new(OWNER, salt)
        };
        let (options, floor) = (SharedOptions { log, cap_bytes: self.cap_bytes }, slot.claim.persisted);
        let exists = |member| members.contains(&member);
        let (fs, keeper) = (Arc::clone(&self.fs), Arc::new(Keeper(Arc::clone(&anchor))));
        let log = SharedLog::open(fs, &segments(&self.own), options, floor, &exists, keeper).await?;
        // The records that were found are durable by now.
        note_claim(&log).await;
        Ok((log, anchor))
    }
}

/// Has the anchor say up to where the log is durable.
async fn note_claim(log: &SharedLog) {
    if let Err(error) = log.claim().await {
        // The claim before stays, and the next round tries again; until then, less of what may happen to the files
        // would be noticed.
        tracing::warn!(%error, "cannot write the anchor of the shared log");
    }
}

fn anchor_claim(SharedClaim { floor, durable }: SharedClaim) -> AnchorClaim {
    AnchorClaim { durable, persisted: floor }
}

struct Keeper(Arc<Anchor>);

impl ClaimKeeper for Keeper {
    fn hold(&self, claim: SharedClaim) -> BoxFuture<Result<()>> {
        let anchor = Arc::clone(&self.0);
        Box::pin(async move { anchor.hold(anchor_claim(claim), Class::Maintenance).await })
    }
}

#[cfg(test)]
mod tests {
    use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
    use weir_io::{Op, Rng};
    use weir_log::{MemberLog, MemberOpening, WriteAheadLog};

    use super::*;

    async fn closed(disk: &Arc<SimFs>, clock: Arc<dyn Clock>) -> Result<Arc<NodeLog>> {
        let (fs, dir) = (Arc::clone(disk) as Arc<dyn Fs>, Path::new("/node"));
        layout::create_dir(&fs, dir).await?;
        let lock = Arc::from(fs.lock(&dir.join("LOCK")).await?);
        Ok(NodeLog::new(fs, dir, (SyncMode::Interval, 128 << 10), Arc::default(), lock, clock))
    }

    async fn open(disk: &Arc<SimFs>, clock: Arc<dyn Clock>, salt: u64) -> Result<Arc<NodeLog>> {
        let log = closed(disk, clock).await?;
        log.open(&BTreeSet::from([7]), (salt, 1)).await?;
        Ok(log)
    }

    async fn member(log: &NodeLog, persisted: u64) -> Result<MemberLog> {
        let opening = MemberOpening { member: 7, identity: 1, owner: OWNER, persisted, durable: 0 };
        let member = log.get().expect("it is open").member(opening, &mut |_, _| Op::ready(Ok(()))).await?;
        Ok(member.0)
    }

    /// The sync of the anchor fails, or the process is killed before it: the next one reads a floor that is not on the
    /// device.
    #[test]
    fn no_segment_goes_by_a_floor_that_a_power_cut_would_take_back() {
        for seed in 0..8 {
            let sim = Sim::new(seed);
            let (device, none) = (DeviceSpec::instant(), FaultPlan::none());
            let disk = SimFs::from_image(&DiskImage::new(), sim.clock(), device, none.clone(), Rng::new(seed));
            let last = sim.block_on(async {
                let log = open(&disk, sim.clock(), 1).await.expect("a fresh disk");
                let member = member(&log, 0).await.expect("a fresh disk");
                for _ in 0..200 {
                    let index = member.append(&[1; 1_000]).expect("nothing fails yet");
                    member.commit(index).await.expect("nothing fails yet");
                }
                member.sync().await.expect("nothing fails yet");
                disk.fail_next(Some(OpKind::Sync), Fault::Error);
                let error = member.truncate(member.last()).await.expect_err("the floor is not durable");
                assert!(error.to_string().contains("ANCHOR"), "{error}");
                member.last()
            });
            sim.block_on(async {
                let log = open(&disk, sim.clock(), 2).await.expect("it is whole");
                member(&log, last).await.expect("it is whole");
            });
            let image = disk.crash_keeping(Keep::None, &mut Rng::new(seed));
            let disk = SimFs::from_image(&image, sim.clock(), device, none, Rng::new(seed));
            sim.block_on(async {
                let log = open(&disk, sim.clock(), 3).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                member(&log, last).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            });
        }
    }

    #[test]
    fn a_log_that_cannot_be_read_is_not_read_for_every_request() {
        let sim = Sim::new(1);
        let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(1));
        sim.block_on(async {
            let log = open(&disk, sim.clock(), 1).await.expect("a fresh disk");
            let member = member(&log, 0).await.expect("a fresh disk");
            let index = member.append(&[1; 1_000]).expect("no faults");
            member.commit(index).await.expect("no faults");
            log.close().await.expect("no faults");
        });
        let log = sim.block_on(closed(&disk, sim.clock())).expect("it is unlocked");
        let reads = || disk.counters().total(OpKind::Read).ops;
        let ask = || sim.block_on(log.open(&BTreeSet::from([7]), (2, 1)));
        disk.set_faults(FaultPlan::none().chance(OpKind::Read, Fault::Error, 1.0));
        let mut attempts = 0;
        let begin = sim.now();
        for ms in 0..1000 {
            sim.run_until(begin + ms * 1_000_000);
            let before = reads();
            assert!(ask().is_err());
            attempts += u64::from(reads() > before);
        }
        assert!((2..=10).contains(&attempts), "{attempts} attempts in a second");
        disk.set_faults(FaultPlan::none());
        sim.run_until(begin + 1_100_000_000);
        assert!(ask().is_ok());
    }
}
