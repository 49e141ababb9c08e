//! Opening and closing a partition.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use parking_lot::Mutex;
use weir_admission::Account;
use weir_io::{Clock, Fs, FsLock, Owner, Result};
use weir_log::{Log, LogOptions, Recovery, WriteAheadLog};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree};

use super::Partition;
use super::replay::Replay;
use crate::config::NodeConfig;
use crate::event::Event;
use crate::metrics::Counters;
use crate::workers::Workers;

/// What a partition is opened with.
pub struct Opening<'a> {
    /// Its disk: behind the gates.
    pub fs: Arc<dyn Fs>,
    /// Its directory.
    pub dir: &'a Path,
    /// Whom its I/O is booked to.
    pub owner: Owner,
    /// The node's settings.
    pub config: &'a NodeConfig,
    /// The node's cache.
    pub cache: Arc<BlockCache>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The node's workers.
    pub workers: Arc<Workers>,
    /// Different at every start.
    pub salt: u64,
    /// Its page in the ledger.
    pub account: Arc<Account>,
    /// Keeps others out of the directory.
    pub lock: Arc<dyn FsLock>,
}

impl Partition {
    /// Opens the tree, replays the log into it, and is then ready to serve.
    pub async fn open(opening: Opening<'_>) -> Result<(Arc<Partition>, Recovery)> {
        let Opening { fs, dir, owner, config, cache, clock, workers, salt, account, lock } = opening;
        let env = Env { fs: Arc::clone(&fs), dir: dir.join("tree"), owner, cache, clock: Arc::clone(&clock) };
        let tree = Tree::open(env, config.tree.clone()).await?;
        let log_dir = dir.join("log");
        let options =
            LogOptions { sync: config.sync, segment_bytes: config.segment_bytes, ..LogOptions::new(owner, salt) };
        let replay = Replay::new(&tree, &workers, &log_dir);
        let mut apply = |index, payload: &[u8]| replay.apply(index, payload);
        let (log, recovery) = Log::open(fs, &log_dir, options, tree.persisted(), &mut apply).await?;
        replay.finish().await;
        let partition = Arc::new(Partition {
            owner,
            tree,
            log,
            sync: config.sync,
            clock,
            counters: Counters::default(),
            order: Mutex::default(),
            progress: Event::default(),
            workers,
            closing: AtomicBool::new(false),
            tasks: AtomicUsize::new(0),
            ending: Event::default(),
            job_failure: Mutex::default(),
            slowed_until: Mutex::default(),
            repairing: AtomicBool::new(false),
            account,
            _lock: lock,
        });
        partition.kick();
        if partition.log.failure().is_some() {
            partition.kick_repair();
        }
        Ok((partition, recovery))
    }

    /// Refuses writes from now on and makes everything durable. Background jobs are cancelled at their next step, or finish
    /// the manifest edit that they have begun; when this returns none is left.
    ///
    /// # Errors
    /// The log has failed, or fails now: what was not durable before may be lost.
    pub async fn close(self: &Arc<Self>) -> Result<()> {
        self.begin_closing();
        self.background_ended().await;
        self.log.close().await
    }
}
