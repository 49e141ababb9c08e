//! The facts of a store at one moment.

use weir_model::engine::{CacheUsage, EngineFacts, Facts, Records, Space, Stall, StallCause, UnflushedMemory};

use super::Store;

/// Writes stop when the log since the last snapshot is this many times as long as the log that makes a snapshot due.
const STOP_FACTOR: u64 = 4;

impl Store {
    /// Bytes of log at which writes stop: snapshots cannot keep up.
    fn stop_bytes(&self) -> u64 {
        self.due_bytes().saturating_mul(STOP_FACTOR)
    }
}

impl Facts for Store {
    fn stall(&self) -> Stall {
        if self.unsaved_bytes() >= self.stop_bytes() { Stall::Stop(StallCause::Memtables) } else { Stall::None }
    }

    /// A store never slows writes.
    fn slow_rate(&self) -> u64 {
        u64::MAX
    }

    fn nearest_stall(&self) -> StallCause {
        StallCause::Memtables
    }

    /// Urgent when the log has three quarters of the length that stops writes.
    fn is_flush_urgent(&self) -> bool {
        self.unsaved_bytes() >= self.stop_bytes() / 4 * 3
    }

    fn has_unsealed(&self) -> bool {
        let writer = self.writer.lock();
        writer.applied > writer.asked.max(self.persisted())
    }

    /// No flush gives memory back.
    fn unflushed_memory(&self) -> UnflushedMemory {
        UnflushedMemory::default()
    }

    fn facts(&self) -> EngineFacts {
        let jobs = self.running.lock().counts(self.options.io_bytes as u64);
        let applied = self.writer.lock().applied;
        let unflushed_bytes = self.unsaved_bytes();
        EngineFacts {
            unflushed_bytes,
            debt_bytes: 0,
            bytes_to_stall: Some(self.stop_bytes().saturating_sub(unflushed_bytes)),
            resident_bytes: self.booked.newest() + self.booked.older(),
            stall: self.stall(),
            is_work_due: self.is_snapshot_wanted(),
            jobs_running: jobs.iter().map(|jobs| jobs.running).sum(),
            jobs,
            applied,
            persisted: self.persisted(),
            tree: None,
        }
    }

    /// The bytes of the snapshot file, or those of the rows if they take more, for the next file may take as much.
    /// Expired rows are dead, and so is the part of the file that was overwritten or deleted.
    fn space(&self) -> Space {
        let file_bytes = self.files.lock().snapshot.as_ref().map_or(0, |snapshot| snapshot.meta.file_bytes);
        let now_ms = self.env.clock.unix_ms();
        let newest = self.booked.newest();
        let stored_bytes = file_bytes.max(newest);
        let writer = self.writer.lock();
        let dead_bytes = (stored_bytes - newest).saturating_add(writer.mortal.expired(now_ms)).min(stored_bytes);
        Space { stored_bytes, dead_bytes, deadlines: writer.mortal.deadlines() }
    }

    fn cache_usage(&self) -> CacheUsage {
        CacheUsage::default()
    }
}
