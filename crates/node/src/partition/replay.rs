//! Replaying the log into the engine, in bounded memory.
//!
//! The log may be longer than the write buffers, because it was written with larger ones or its last flushes never
//! ended. So memtables are flushed while the log is read; when every buffer is full, the reading waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{Error, Event, Op, Owner, Result};
use weir_model::engine::{Engine, Stall, UnflushedMemory};
use weir_model::{BatchRef, LogIndex};

use crate::memory::{MemtableOwner, WriteMemory};
use crate::workers::Workers;

/// A replay under way.
pub struct Replay {
    shared: Arc<Shared>,
    workers: Arc<Workers>,
    log_dir: PathBuf,
}

struct Shared {
    owner: Owner,
    engine: Arc<dyn Engine>,
    memory: Arc<WriteMemory>,
    progress: Event,
    flushing: Mutex<Flushing>,
}

#[derive(Default)]
struct Flushing {
    is_running: bool,
    /// A flush failed (a full disk). From then on the rest stays in memory, however much it takes: the alternative
    /// would be not to open at all. Or the opening has failed, and nothing more may be written.
    no_more: bool,
}

impl Replay {
    /// A replay into `engine` of the partition `owner`; `log_dir` is for messages.
    pub fn new(
        owner: Owner,
        engine: &Arc<dyn Engine>,
        workers: &Arc<Workers>,
        memory: &Arc<WriteMemory>,
        log_dir: &Path,
    ) -> Self {
        let shared = Arc::new(Shared {
            owner,
            engine: Arc::clone(engine),
            memory: Arc::clone(memory),
            progress: Event::default(),
            flushing: Mutex::default(),
        });
        let memtables: Arc<dyn MemtableOwner> = shared.clone();
        memory.flushes_by_itself(Arc::downgrade(&memtables), owner);
        Self { shared, workers: Arc::clone(workers), log_dir: log_dir.into() }
    }

    /// Applies record `index`; done when there is room for another.
    pub fn apply(&self, index: LogIndex, payload: &[u8]) -> Op<()> {
        let batch = match BatchRef::decode(payload) {
            Ok(batch) => batch,
            Err(error) => {
                let message = format!("record {index}: {error}");
                return Op::ready(Err(Error::corruption(&self.log_dir, 0, message)));
            }
        };
        let engine = &self.shared.engine;
        let applied = engine.apply(index, batch);
        engine.publish(applied.last_seq);
        let is_large = || engine.unflushed_memory().held >= self.shared.memory.worth_flushing();
        if self.shared.memory.is_short() && is_large() {
            engine.seal();
            self.flush();
        } else if applied.is_job_due {
            self.flush();
        }
        if !self.shared.is_full() {
            return Op::ready(Ok(()));
        }
        self.flush();
        let shared = Arc::clone(&self.shared);
        Op::pending(async move {
            shared.progress.wait(|| (!shared.is_full()).then_some(())).await;
            Result::Ok(())
        })
    }

    /// Begins no further flush: the log cannot be opened.
    pub fn give_up(&self) {
        self.shared.flushing.lock().no_more = true;
    }

    /// Waits until no flush of this replay runs any more.
    pub async fn finish(&self) {
        let shared = &self.shared;
        shared.progress.wait(|| (!shared.flushing.lock().is_running).then_some(())).await;
    }

    /// Starts flushing what is sealed, unless a flush is under way.
    fn flush(&self) {
        let mut flushing = self.shared.flushing.lock();
        if flushing.is_running || flushing.no_more {
            return;
        }
        flushing.is_running = true;
        drop(flushing);
        let shared = Arc::clone(&self.shared);
        self.workers.spawn(async move {
            while !shared.flushing.lock().no_more
                && let Some(job) = shared.engine.next_flush()
            {
                if let Err(error) = job.run().await {
                    tracing::warn!(%error, "cannot flush while the log is replayed: the rest stays in memory");
                    shared.flushing.lock().no_more = true;
                    break;
                }
                shared.progress.notify();
            }
            shared.flushing.lock().is_running = false;
            shared.progress.notify();
        });
    }
}

impl MemtableOwner for Shared {
    fn owner(&self) -> Owner {
        self.owner
    }

    /// What may come back: nothing once flushes have failed.
    fn memtable_bytes(&self) -> UnflushedMemory {
        if self.flushing.lock().no_more { UnflushedMemory::default() } else { self.engine.unflushed_memory() }
    }

    /// A replay seals by itself.
    fn seal_memtables(self: Arc<Self>) {}
}

impl Shared {
    /// Whether every write buffer, or the node's write memory, is full, and somebody is making room.
    fn is_full(&self) -> bool {
        let is_full = matches!(self.engine.stall(), Stall::Stop(_)) || self.memory.is_short();
        is_full && self.flushing.lock().is_running
    }
}
