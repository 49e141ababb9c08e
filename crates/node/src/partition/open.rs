//! Opening and closing a partition.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use weir_admission::{Account, Limits, PartitionGate};
use weir_io::{BoxFuture, Class, Clock, Error, ErrorKind, Event, Fs, FsLock, Owner, Result};
use weir_log::{Log, LogOptions, MemberOpening, SharedLog, WriteAheadLog};

use super::anchor::{self, Anchor, AnchorClaim};
use super::expiry::Expiry;
use super::parking::Parking;
use super::replay::Replay;
use super::retries::Retries;
use super::write_throttle::WriteThrottle;
use super::{Leave, Partition};
use crate::config::NodeConfig;
use crate::control::Control;
use crate::engines::{self, BlockCache, EngineChoice};
use crate::log_toll::LogToll;
use crate::memory::WriteMemory;
use crate::metrics::Counters;
use crate::witnessed::Witnessed;
use crate::workers::Workers;

/// Everything that a partition is opened with.
pub(crate) struct Opening<'a> {
    /// Its disk, behind the gates.
    pub fs: Arc<dyn Fs>,
    /// The gates in front of that disk; `None` where there are none.
    pub gates: Option<Arc<PartitionGate>>,
    /// Its directory.
    pub dir: &'a Path,
    /// The owner that its I/O is booked to.
    pub owner: Owner,
    /// The node's settings.
    pub config: &'a NodeConfig,
    /// The engine in which its rows are kept.
    pub engine: &'a EngineChoice,
    /// The node's cache.
    pub cache: Arc<BlockCache>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The node's workers.
    pub workers: Arc<Workers>,
    /// The node's write memory.
    pub memory: Arc<WriteMemory>,
    /// The node's control loop.
    pub control: Arc<Control>,
    /// Different at every opening.
    pub salt: u64,
    /// The identity that the partition gets if it is made now.
    pub identity: u64,
    /// The log that it shares with others; `None` if it has a log of its own.
    pub shared_log: Option<SharedLog>,
    /// What it owes its gate for its writes to that log.
    pub toll: Option<LogToll>,
    /// Whether it has files, so that missing files are a loss. Otherwise they are made.
    pub was_used: bool,
    /// Its page in the ledger.
    pub account: Arc<Account>,
    /// Keeps others out of the directory.
    pub lock: Arc<dyn FsLock>,
    /// Its counters, which go on from where they were.
    pub counters: Arc<Counters>,
    /// The listeners that are told what happens to its tenant's keys.
    pub witnessed: Arc<Witnessed>,
    /// Why nothing may be written to it yet, if there is a reason; it can be read.
    pub doubt: Option<Error>,
    /// Ends that doubt.
    pub settle: Settle,
}

/// A failed edit of the catalogue may have given a partition up, and a crash might still find that edit: then later
/// writes would be lost. This tries to make sure that the edit has not happened. It does nothing where there is no such
/// edit.
pub(crate) type Settle = Box<dyn Fn() -> BoxFuture<Result<()>> + Send + Sync>;

/// While this exists, a client waits for what the partition does.
struct Awaited(Option<Arc<PartitionGate>>);

impl Awaited {
    fn new(gates: Option<Arc<PartitionGate>>) -> Self {
        gates.iter().for_each(|gates| gates.set_is_awaited(true));
        Self(gates)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.iter().for_each(|gates| gates.set_is_awaited(false));
    }
}

impl Partition {
    /// Opens the tree and replays the log into it. The partition is then ready to serve.
    pub(crate) async fn open(opening: Opening<'_>) -> Result<Arc<Partition>> {
        let Opening {
            fs,
            gates,
            dir,
            owner,
            config,
            engine,
            cache,
            clock,
            workers,
            memory,
            control,
            salt,
            identity,
            shared_log,
            toll,
            was_used,
            account,
            lock,
            counters,
            witnessed,
            doubt,
            settle,
        } = opening;
        let awaited = Awaited::new(gates.clone());
        let found = match anchor::read(&fs, dir, owner).await {
            // Also for a partition that is not marked as used: a power cut may have taken back a mark whose sync
            // failed, although the process that was started next had read it.
            Ok(found) => found,
            Err(error) if was_used || error.kind() != ErrorKind::Corruption => return Err(error),
            // Whoever began to make it has acknowledged nothing. If there is a log all the same, it has another
            // identity.
            Err(_) => anchor::create(&fs, dir, owner, identity, AnchorClaim::default()).await?,
        };
        let anchor = Anchor::new(Arc::clone(&fs), dir, found);
        let memory_of_changes = memory.booking(owner.tenant);
        let opening = engines::Opening { fs: &fs, dir, owner, cache, clock: &clock, memory: memory_of_changes, salt };
        let engine = engines::open(opening, engine, config).await?;
        let (claimed, persisted) = (found.claim, engine.persisted());
        anchor::compare(claimed, persisted, &engine.manifest_path().await)?;
        if persisted > claimed.persisted {
            // Anchor and log are about to go by an edit that may be in the page cache only.
            engine.confirm().await?;
        }
        let held = AnchorClaim { durable: claimed.durable.max(persisted), persisted };
        if held != claimed
            && let Err(error) = anchor.hold(held, Class::Flush).await
        {
            // The log is about to forget records that the tree has. If the claim cannot be written, a later loss might
            // not be noticed; but refusing to read would be worse.
            tracing::warn!(?owner, %error, "cannot write the anchor");
        }
        let log_dir = dir.join("log");
        let replay = Replay::new(owner, &engine, &workers, &memory, &log_dir);
        let mut apply = |index, payload: &[u8]| replay.apply(index, payload);
        let (persisted, durable) = (engine.persisted(), claimed.durable);
        let opened: Result<(Arc<dyn WriteAheadLog>, _)> = match shared_log {
            Some(shared) => {
                let identity = found.identity;
                let member = MemberOpening { member: owner.partition, identity, owner, persisted, durable };
                let opened = shared.member(member, &mut apply).await;
                if let Ok((_, recovery)) = &opened
                    && recovery.foreign > 0
                {
                    let records = recovery.foreign;
                    tracing::warn!(
                        ?owner,
                        records,
                        "the shared log has records of another partition that had the same number and does not exist \
                         any more: they are ignored"
                    );
                }
                opened.map(|(log, recovery)| (Arc::new(log) as _, recovery))
            }
            None => {
                let options = LogOptions {
                    sync: config.sync,
                    segment_bytes: config.segment_bytes,
                    anchor: anchor.of_log(durable),
                    ..LogOptions::new(owner, salt)
                };
                let opened = Log::open(Arc::clone(&fs), &log_dir, options, persisted, &mut apply).await;
                opened.map(|(log, recovery)| (Arc::new(log) as _, recovery))
            }
        };
        if opened.is_err() {
            // The next request opens the directory again: this engine must not write to it any more by then.
            replay.give_up();
        }
        replay.finish().await;
        let (log, recovery) = opened?;
        let replayed = AnchorClaim { durable: recovery.last.max(held.durable), ..held };
        if replayed != held
            && let Err(error) = anchor.hold(replayed, Class::Flush).await
        {
            tracing::warn!(?owner, %error, "cannot write the anchor");
        }
        drop(awaited);
        // Not before: as long as log and tree have not been found whole, files that no manifest names may be all that
        // is left of something.
        if let Err(error) = engine.discard_unnamed().await {
            tracing::debug!(?owner, %error, "cannot remove unneeded files yet");
        }
        if let Some(error) = doubt {
            log.refuse(error);
        }
        let partition = Arc::new(Partition {
            owner,
            policy_knobs: Mutex::new(engine.knobs()),
            engine,
            log,
            sync: config.sync,
            toll,
            clock,
            counters,
            witnessed,
            order: Mutex::default(),
            last_version: AtomicU64::new(0),
            progress: Event::default(),
            workers,
            parking: Parking::default(),
            memory,
            control,
            // Nobody knows what was left on the agenda.
            agenda_due_ms: AtomicU64::new(0),
            agenda_passed_ms: AtomicU64::new(u64::MAX),
            is_sweeping: AtomicBool::new(false),
            expiry: Expiry::default(),
            marked: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            ending: Event::default(),
            job_failure: Mutex::default(),
            retries: Retries::default(),
            job_failures: AtomicU64::new(0),
            is_flushing: AtomicBool::new(false),
            write_throttle: WriteThrottle::default(),
            write_rate: AtomicU64::new(0),
            repairing: AtomicBool::new(false),
            settle,
            recovery,
            anchor,
            gates,
            account,
            _lock: lock,
        });
        partition.join_write_memory();
        partition.join_control_loop();
        partition.kick();
        if partition.log.failure().is_some() {
            partition.kick_repair();
        }
        Ok(partition)
    }

    /// Ends everything, so that the directory can be opened again or removed. Reads that have begun go on.
    ///
    /// Errors are logged: what was acknowledged is in tables or in the log, as after a crash. If neither could be
    /// written, this gives false. The partition must then [come back](Partition::come_back), or what it holds is lost.
    pub(crate) async fn leave(self: &Arc<Self>, how: Leave) -> bool {
        self.begin_closing();
        if how == Leave::Discard {
            // Whoever drops or empties the tenant waits for what is under way.
            self.hurry();
        }
        self.background_ended().await;
        if how == Leave::Discard {
            // Writes that were let in before get their own answer, and not the error of a directory that is gone. And
            // if the order that removes the partition fails, the partition goes on with all that it has: nothing may be
            // left in memory alone.
            if let Err(error) = self.log.close().await {
                tracing::warn!(
                    owner = ?self.owner,
                    %error,
                    "cannot write the rest of the log before the partition is removed"
                );
                return self.is_on_disk();
            }
            return true;
        }
        if let Some(gates) = &self.gates {
            // With the limit of the last tick, its flush could take hours. At the node's gate it still comes after all
            // clients.
            gates.background().set_limits(Limits::UNLIMITED);
        }
        self.engine.seal();
        // From now on nothing is compacted that a flush could wait for.
        self.engine.set_eager(true);
        while let Some(job) = self.engine.next_flush() {
            if let Err(error) = job.run().await {
                tracing::warn!(owner = ?self.owner, %error, "cannot flush before going to sleep: the log is kept");
                break;
            }
        }
        self.engine.set_eager(false);
        let closed = self.log.close().await;
        let forgotten = match closed {
            // A segment is preallocated: thousands of sleepers must not fill the disk with segments.
            Ok(()) if self.engine.persisted() >= self.log.last() => match self.hold_anchor().await {
                Ok(()) => self.log.remove(self.engine.persisted()).await,
                failed => failed,
            },
            closed => closed,
        };
        let Err(error) = forgotten else { return true };
        tracing::warn!(owner = ?self.owner, %error, "cannot close the log of a partition that falls asleep");
        self.is_on_disk()
    }

    /// Whether everything that was acknowledged is in tables or in the log.
    fn is_on_disk(&self) -> bool {
        // A log that has failed may have lost the records that it was given.
        self.log.failure().is_none() || self.engine.persisted() >= self.log.last()
    }

    /// Takes back [`Partition::leave`], which could not write everything: the partition serves again, and tries to
    /// write it.
    pub(crate) fn come_back(self: &Arc<Self>) {
        self.reopen();
        if let Some(gates) = &self.gates {
            gates.set_is_awaited(false);
        }
        self.join_write_memory();
        self.join_control_loop();
        // The control loop may have dropped the mark while nobody was let in, and then no write would set it again.
        self.unmark();
        self.mark();
        self.kick();
        self.kick_repair();
    }

    /// Somebody waits for the end of [`Partition::leave`]: all its I/O passes as foreground. There is no other
    /// foreground, because requests are refused.
    pub(crate) fn hurry(&self) {
        if let Some(gates) = &self.gates {
            gates.foreground().set_limits(Limits::UNLIMITED);
            gates.set_is_awaited(true);
        }
    }

    /// Makes durable what was written, while something else closes the partition.
    ///
    /// # Errors
    /// The log has failed, or fails now, and what it should have is not in tables either.
    pub(crate) async fn write_log(&self) -> Result<()> {
        match self.log.sync().await {
            Err(_) if self.is_on_disk() => Ok(()),
            outcome => outcome,
        }
    }

    /// Refuses writes from now on and makes everything durable. Background jobs are cancelled at their next step, or
    /// finish the manifest edit that they have begun; when this returns, none is left.
    ///
    /// # Errors
    /// The log has failed, or fails now: what was not durable before may be lost.
    pub async fn close(self: &Arc<Self>) -> Result<()> {
        self.begin_closing();
        self.background_ended().await;
        self.log.close().await?;
        if let Err(error) = self.hold_anchor().await {
            // Everything is durable all the same, but less of what may happen to the files would be noticed.
            tracing::warn!(owner = ?self.owner, %error, "cannot write the anchor");
        }
        Ok(())
    }
}
