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
use super::write_throttle::WriteThrottle;
use super::{Leave, Partition};
use crate::config::NodeConfig;
use crate::control::Control;
use crate::engines::{self, BlockCache, EngineChoice};
use crate::log_toll::LogToll;
use crate::memory::WriteMemory;
use crate::metrics::Counters;
use crate::read_times::ReadTimes;
use crate::witnessed::Witnessed;
use crate::workers::Workers;

/// What a partition is opened with.
pub(crate) struct Opening<'a> {
    /// Its disk: behind the gates.
    pub fs: Arc<dyn Fs>,
    /// Those gates; `None` where there are none.
    pub gates: Option<Arc<PartitionGate>>,
    /// Its directory.
    pub dir: &'a Path,
    /// Whom its I/O is booked to.
    pub owner: Owner,
    /// The node's settings.
    pub config: &'a NodeConfig,
    /// What its rows are kept in.
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
    /// Of the partition, if it is made now.
    pub identity: u64,
    /// The log that it shares with others; `None` = it has one of its own.
    pub shared_log: Option<SharedLog>,
    /// What it owes its gate for what it writes to that.
    pub toll: Option<LogToll>,
    /// Whether it has files, and a loss of them would be one: else it is made.
    pub was_used: bool,
    /// Its page in the ledger.
    pub account: Arc<Account>,
    /// Keeps others out of the directory.
    pub lock: Arc<dyn FsLock>,
    /// Its counters, which go on where they were.
    pub counters: Arc<Counters>,
    /// Who is told what happens to its tenant's keys.
    pub witnessed: Arc<Witnessed>,
    /// Why nothing may be written to it yet, if so; it can be read.
    pub doubt: Option<Error>,
    /// Ends that doubt.
    pub settle: Settle,
}

/// A failed edit of the catalogue may have given a partition up, and might still be what a crash would find: what is
/// written then could be lost. This tries to make sure that it has not happened; it does nothing where there is no such
/// edit.
pub(crate) type Settle = Box<dyn Fn() -> BoxFuture<Result<()>> + Send + Sync>;

/// While it is there, what the partition does is what a client waits for.
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
    /// Opens the tree, replays the log into it, and is then ready to serve.
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
            // Also of a partition that is not marked as used: a power cut may have taken back a mark whose sync failed,
            // although the process that was started next had read it.
            Ok(found) => found,
            Err(error) if was_used || error.kind() != ErrorKind::Corruption => return Err(error),
            // Whoever began to make it has acknowledged nothing. Where there is a log all the same, its identity is
            // another one.
            Err(_) => anchor::create(&fs, dir, owner, identity, AnchorClaim::default()).await?,
        };
        let anchor = Anchor::new(Arc::clone(&fs), dir, found);
        let memory_of_changes = memory.booking(owner.tenant);
        let opening = engines::Opening { fs: &fs, dir, owner, cache, clock: &clock, memory: memory_of_changes };
        let engine = engines::open(opening, engine, config).await?;
        let (claimed, persisted) = (found.claim, engine.persisted());
        anchor::compare(claimed, persisted, &engine.manifest_path().await)?;
        let held = AnchorClaim { durable: claimed.durable.max(persisted), persisted };
        if held != claimed
            && let Err(error) = anchor.hold(held, Class::Flush).await
        {
            // The log is about to forget what the tree has. Where that cannot be written down, less would be noticed
            // later; refusing to read would be worse.
            tracing::warn!(?owner, %error, "cannot write the anchor");
        }
        let log_dir = dir.join("log");
        let replay = Replay::new(&engine, &workers, &memory, &log_dir);
        let mut apply = |index, payload: &[u8]| replay.apply(index, payload);
        let (persisted, durable) = (engine.persisted(), claimed.durable);
        let (log, recovery): (Arc<dyn WriteAheadLog>, _) = match shared_log {
            Some(shared) => {
                let identity = found.identity;
                let member = MemberOpening { member: owner.partition, identity, owner, persisted, durable };
                let (log, recovery) = shared.member(member, &mut apply).await?;
                if recovery.foreign > 0 {
                    let records = recovery.foreign;
                    tracing::warn!(
                        ?owner,
                        records,
                        "the shared log has records of another partition of this number, which is gone: they are passed over"
                    );
                }
                (Arc::new(log), recovery)
            }
            None => {
                let options = LogOptions {
                    sync: config.sync,
                    segment_bytes: config.segment_bytes,
                    anchor: anchor.of_log(durable),
                    ..LogOptions::new(owner, salt)
                };
                let (log, recovery) = Log::open(Arc::clone(&fs), &log_dir, options, persisted, &mut apply).await?;
                (Arc::new(log), recovery)
            }
        };
        replay.finish().await;
        let replayed = AnchorClaim { durable: recovery.last.max(held.durable), ..held };
        if replayed != held
            && let Err(error) = anchor.hold(replayed, Class::Flush).await
        {
            tracing::warn!(?owner, %error, "cannot write the anchor");
        }
        drop(awaited);
        // Not before: as long as log and tree have not been found whole, what no manifest names may be all that is left
        // of something.
        if let Err(error) = engine.discard_unnamed().await {
            tracing::debug!(?owner, %error, "cannot remove unneeded files yet");
        }
        if let Some(error) = doubt {
            log.refuse(error);
        }
        let partition = Arc::new(Partition {
            owner,
            policy_knobs: Mutex::new(engine.knobs()),
            read_times: ReadTimes::default(),
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
            // What was left on it nobody knows.
            agenda_due_ms: AtomicU64::new(0),
            is_sweeping: AtomicBool::new(false),
            expiry: Expiry::default(),
            marked: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            ending: Event::default(),
            job_failure: Mutex::default(),
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
    /// Errors are logged: whatever was acknowledged is in tables or in the log, as after a crash. Where neither could
    /// be written, this is false: then it is to [come back](Partition::come_back), or what it holds is lost.
    pub(crate) async fn leave(self: &Arc<Self>, how: Leave) -> bool {
        self.begin_closing();
        self.background_ended().await;
        if how == Leave::Discard {
            // Writes that were let in before are answered as such, and not with the error of a directory that is gone.
            // And where the order that removes it fails it goes on, with all that it has: nothing may be left in memory
            // alone.
            if let Err(error) = self.log.close().await {
                tracing::warn!(owner = ?self.owner, %error, "cannot write the rest of the log");
                return self.is_on_disk();
            }
            return true;
        }
        if let Some(gates) = &self.gates {
            // Where the last tick left it, its flush could take hours. At the node's gate it still comes after all
            // clients.
            gates.background().set_limits(Limits::UNLIMITED);
        }
        self.engine.seal();
        // Nothing is compacted any more for which a flush could wait.
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
            // A segment is preallocated: thousands of sleepers must not fill the disk with them.
            Ok(()) if self.engine.persisted() >= self.log.last() => match self.hold_anchor().await {
                Ok(()) => self.log.remove(self.engine.persisted()).await,
                failed => failed,
            },
            closed => closed,
        };
        let Err(error) = forgotten else { return true };
        tracing::warn!(owner = ?self.owner, %error, "cannot close the log");
        self.is_on_disk()
    }

    /// Whether everything that was acknowledged is in tables or in the log.
    fn is_on_disk(&self) -> bool {
        // A log that has failed may have lost what it was given.
        self.log.failure().is_none() || self.engine.persisted() >= self.log.last()
    }

    /// Takes back [`Partition::leave`], which could not write everything: it serves again, and tries to write it.
    pub(crate) fn come_back(self: &Arc<Self>) {
        self.reopen();
        if let Some(gates) = &self.gates {
            gates.set_is_awaited(false);
        }
        self.join_write_memory();
        self.join_control_loop();
        self.kick();
        self.kick_repair();
    }

    /// Somebody waits for the end of [`Partition::leave`]: what it flushes passes as foreground. There is no other:
    /// requests are refused.
    pub(crate) fn hurry(&self) {
        if let Some(gates) = &self.gates {
            gates.foreground().set_limits(Limits::UNLIMITED);
            gates.set_is_awaited(true);
        }
    }

    /// Refuses writes from now on and makes everything durable. Background jobs are cancelled at their next step, or
    /// finish the manifest edit that they have begun; when this returns none is left.
    ///
    /// # Errors
    /// The log has failed, or fails now: what was not durable before may be lost.
    pub async fn close(self: &Arc<Self>) -> Result<()> {
        self.begin_closing();
        self.background_ended().await;
        self.log.close().await?;
        if let Err(error) = self.hold_anchor().await {
            // Everything is durable all the same; less of what may happen to the files would be noticed.
            tracing::warn!(owner = ?self.owner, %error, "cannot write the anchor");
        }
        Ok(())
    }
}
