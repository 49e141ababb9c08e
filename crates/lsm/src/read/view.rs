//! A view: everything a read needs, frozen at one moment.

use std::sync::Arc;

use weir_io::Nanos;
use weir_model::LogIndex;
use weir_model::engine::Seq;

use super::level::LevelCursor;
use super::source::Source;
use crate::memtable::Memtable;
use crate::table::CursorOptions;
use crate::version::{LEVELS, Version};

/// A memtable that takes no more writes and waits to be flushed.
#[derive(Clone)]
pub struct Sealed {
    /// Its entries.
    pub memtable: Arc<Memtable>,
    /// The place its run will have in level 0.
    pub epoch: u64,
    /// The last log record in it.
    pub last_index: LogIndex,
    /// The last sequence number in it.
    pub last_seq: Seq,
    /// When it was sealed.
    pub sealed_at: Nanos,
}

/// The active memtable, the sealed ones (newest first), and the tables.
#[derive(Clone)]
pub struct View {
    /// Takes the writes.
    pub memtable: Arc<Memtable>,
    /// Newest first.
    pub sealed: Vec<Sealed>,
    /// The tables.
    pub version: Arc<Version>,
    /// Bytes of compactions that are pending in `version` ([`pending`](crate::pending)).
    pub pending_bytes: u64,
}

impl View {
    /// Cursors over all memtables and tables.
    pub fn sources(&self, at: Seq, options: CursorOptions) -> Vec<Source> {
        let sealed = self.sealed.iter().map(|sealed| &sealed.memtable);
        let memtables = std::iter::once(&self.memtable).chain(sealed).filter(|memtable| !memtable.is_empty());
        let mut sources: Vec<Source> = memtables.map(|memtable| Source::Memtable(memtable.cursor_at(at))).collect();
        sources.extend(sources_of(&self.version, options));
        sources
    }
}

/// Cursors over the tables of `version`.
pub fn sources_of(version: &Arc<Version>, options: CursorOptions) -> impl Iterator<Item = Source> {
    let runs = version.level(0).iter().map(move |run| Source::Table(run.table.cursor(options)));
    let levels = (1..LEVELS).filter(|&level| !version.level(level).is_empty());
    runs.chain(levels.map(move |level| Source::Level(LevelCursor::of_level(version, level, options))))
}
