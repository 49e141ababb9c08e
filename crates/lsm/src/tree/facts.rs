//! The facts of a tree at one moment.

use weir_model::engine::{
    CacheUsage, EngineFacts, Facts, JobCount, JobKind, Jobs, LevelShape, Space, Stall, StallCause, TreeShape,
    UnflushedMemory,
};

use super::{LevelCount, Tree};
use crate::pick::{leveled, picker};
use crate::read::view::View;
use crate::slowdown;
use crate::stall::{Counts, stall};
use crate::version::LEVELS;

impl Facts for Tree {
    fn stall(&self) -> Stall {
        let view = self.view.load();
        let full = view.memtable.bytes() >= self.options.write_buffer_bytes;
        let counts = Counts {
            l0_runs: self.stalling_runs(&view),
            sealed: view.sealed.len(),
            memtable_full: full,
            write_buffers: self.knobs.write_buffers(),
            pending_bytes: self.pending_bytes(&view),
        };
        stall(counts, &self.options)
    }

    fn slow_rate(&self) -> u64 {
        let view = self.view.load();
        slowdown::rate(self.stalling_runs(&view), self.pending_bytes(&view), &self.options)
    }

    fn nearest_stall(&self) -> StallCause {
        let view = self.view.load();
        let (runs, slow) = (self.stalling_runs(&view), self.options.l0_slow);
        let (sealed, buffers) = (view.sealed.len(), self.knobs.write_buffers());
        if sealed * slow > runs * buffers { StallCause::Memtables } else { StallCause::L0Runs }
    }

    /// Urgent while all memtables but two are full. Where there are only two or three, the active one must also be half
    /// full: otherwise each of this tree's flushes would be urgent, and if all are urgent, none is.
    fn is_flush_urgent(&self) -> bool {
        let (view, buffers) = (self.view.load(), self.knobs.write_buffers());
        let is_half_full = view.memtable.bytes() >= self.options.write_buffer_bytes / 2;
        view.sealed.len() + 2 >= buffers && (buffers > 3 || is_half_full)
    }

    fn has_unsealed(&self) -> bool {
        !self.view.load().memtable.is_empty()
    }

    fn unflushed_memory(&self) -> UnflushedMemory {
        let state = self.state().lock();
        let view = self.view();
        let active = view.memtable.booked_bytes() as u64;
        let sealed = view.sealed.iter().map(|sealed| sealed.memtable.booked_bytes() as u64).sum();
        let flushing = state.jobs.values().any(|job| job.facts.kind() == JobKind::Flush);
        if flushing || !self.is_gathering(&state, &view, &self.knobs()) {
            // Memtables that may have to wait for compactions must not be counted as leaving.
            let can_leave = || self.pick_flush(&state.claims(|_| true), &state, &view.version, &view.sealed).is_some();
            let is_leaving = flushing || !picker(&self.options).merges_memtables() || can_leave();
            let leaving = if is_leaving { sealed } else { 0 };
            UnflushedMemory { held: active, leaving, since: state.sealed_at[0].unwrap_or(0) }
        } else {
            let oldest = view.sealed.last().map_or(0, |sealed| sealed.sealed_at);
            UnflushedMemory { held: active + sealed, leaving: 0, since: oldest }
        }
    }

    fn facts(&self) -> EngineFacts {
        let mut state = self.state().lock();
        let view = self.view();
        let census = state.census(&view.version);
        let levels: [LevelShape; LEVELS] = std::array::from_fn(|level| {
            let LevelCount { tables, bytes, claimed, claimed_bytes } = census[level];
            let target_bytes = leveled::bytes_target(level, &self.options);
            let score = leveled::score(level, tables - claimed, bytes - claimed_bytes, &self.options);
            LevelShape { tables, bytes, target_bytes, claimed, claimed_bytes, score }
        });
        let mut jobs = [JobCount::default(); JobKind::ALL.len()];
        for (number, job) in &state.jobs {
            let kind = job.facts.kind();
            for count in jobs.iter_mut().zip(JobKind::ALL).filter(|(_, of)| *of == kind).map(|(count, _)| count) {
                count.running += 1;
                count.parked += usize::from(job.control.is_parked());
                count.newest = count.newest.max(number + 1);
                count.bytes_left += job.control.bytes_left(job.facts.input_bytes, self.options.io_bytes as u64);
            }
        }
        let excess = |level: usize| levels[level].bytes.saturating_sub(levels[level].target_bytes);
        let l0_debt = if levels[0].score >= 1.0 { levels[0].bytes } else { 0 };
        let unflushed = view.memtable.bytes() + view.sealed.iter().map(|sealed| sealed.memtable.bytes()).sum::<usize>();
        let fits = |(level, shape): (usize, &LevelShape)| match level {
            0 => shape.score < 1.0,
            _ => shape.score <= 1.0,
        };
        EngineFacts {
            unflushed_bytes: unflushed as u64,
            debt_bytes: l0_debt + (1..LEVELS - 1).map(excess).sum::<u64>(),
            bytes_to_stall: Some(self.bytes_to_stall(&view, unflushed as u64)),
            resident_bytes: 0,
            stall: self.stall(),
            is_work_due: !view.sealed.is_empty() || !levels.iter().enumerate().all(fits),
            jobs_running: state.jobs.len(),
            jobs,
            applied: state.applied,
            persisted: state.persisted,
            tree: Some(TreeShape {
                memtable_bytes: view.memtable.bytes(),
                sealed: view.sealed.len(),
                sealed_bytes: unflushed - view.memtable.bytes(),
                levels,
                l0_trigger: self.options.l0_trigger,
                l0_limits: [self.options.l0_slow, self.options.l0_stop],
                l0_merge_bytes_max: self.options.l0_merge_bytes_max,
                write_buffers: self.knobs().write_buffers,
                write_buffers_max: self.options.write_buffers_max,
                write_buffer_bytes: self.options.write_buffer_bytes,
            }),
        }
    }

    fn space(&self) -> Space {
        self.measure()
    }

    fn cache_usage(&self) -> CacheUsage {
        self.env.cache.usage_of(self.env.owner)
    }
}

impl Tree {
    /// Runs of level 0 that can stall writes. Where memtables are merged with tables, the runs that an earlier picker
    /// left in level 0 do not count: no memtable adds to them.
    fn stalling_runs(&self, view: &View) -> usize {
        if picker(&self.options).merges_memtables() { 0 } else { view.version.level(0).len() }
    }

    /// Bytes of pending compactions that can stall writes: none while compactions are put off on purpose, and until
    /// that debt is paid (U-7).
    fn pending_bytes(&self, view: &View) -> u64 {
        if self.knobs.pending_stalls() { view.pending_bytes } else { 0 }
    }

    /// Bytes that can be written before a stall. It comes when all write buffers are full, or after as many flushes of
    /// full memtables as level 0 has places left, whichever comes first.
    fn bytes_to_stall(&self, view: &View, unflushed: u64) -> u64 {
        let buffer = self.options.write_buffer_bytes as u64;
        let buffers = (self.knobs.write_buffers() as u64).saturating_mul(buffer).saturating_sub(unflushed);
        let places = self.options.l0_stop.saturating_sub(self.stalling_runs(view)) as u64;
        buffers.min(places.saturating_mul(buffer).saturating_sub(unflushed))
    }
}
