//! Writing a job's output tables.

use std::sync::Arc;

use weir_io::{Class, Result, Turn, yield_now};

use crate::table::TableWriter;
use crate::tree::{Outputs, Tree, meta_of, open_table};
use weir_model::engine::{EXPIRED_KEYS_MAX, Entry, JobControl, JobReport, Kind};

/// Work that an entry costs besides its bytes, in bytes: comparing and copying a tiny one is not free.
const ENTRY_WORK_BYTES: usize = 32;

/// Takes entries in order, writes tables, gives up the executor after every turn.
pub(super) struct Writer<'a> {
    tree: &'a Arc<Tree>,
    class: Class,
    level: usize,
    epoch: u64,
    current: Option<(u64, std::path::PathBuf, TableWriter)>,
    outputs: Outputs,
    turn: Turn,
    report: JobReport,
    control: &'a JobControl,
}

impl<'a> Writer<'a> {
    pub(super) fn new(tree: &'a Arc<Tree>, class: Class, level: usize, epoch: u64, control: &'a JobControl) -> Self {
        let outputs = Outputs::new(tree);
        let (turn, report) = (Turn::new(), JobReport::default());
        Self { tree, class, level, epoch, current: None, outputs, turn, report, control }
    }

    /// Bytes of the table being written.
    pub(super) fn table_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, _, writer)| writer.file_bytes())
    }

    /// Writes `entry`, starting a table where none is open.
    pub(super) async fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.current.is_none() {
            let (id, path) = self.outputs.begin(self.tree);
            let env = &self.tree.env;
            let options = self.tree.options.table(self.level);
            let writer = TableWriter::create(&env.fs, &path, options, env.tag(self.class)).await?;
            let warm = self.tree.is_warm(self.level).then(|| env.cache.table(env.owner));
            let writer = writer.warming(warm).written_at(env.clock.unix_ms());
            self.current = Some((id, path, writer));
        }
        let Some((_, _, writer)) = &mut self.current else { unreachable!("just opened") };
        writer.add(entry);
        if writer.pending_bytes() >= self.tree.options.io_bytes {
            writer.drain().await?;
            let written = self.report.bytes_written + writer.file_bytes();
            self.control.set_bytes_written(written);
        }
        self.report.entries_out += 1;
        self.skip(&entry).await;
        Ok(())
    }

    /// Books an entry that was read, whether written or forgotten.
    pub(super) async fn skip(&mut self, entry: &Entry<'_>) {
        self.report.entries_in += 1;
        self.control.set_entries_done(self.report.entries_in);
        if self.turn.spend(entry.key.len() + entry.value.len() + ENTRY_WORK_BYTES) {
            yield_now().await;
        }
    }

    /// Books an entry that a cover says is dead.
    pub(super) async fn skip_covered(&mut self, entry: &Entry<'_>) {
        self.report.covered_entries += 1;
        self.report.covered_bytes += (entry.key.len() + entry.value.len()) as u64;
        self.skip(entry).await;
    }

    /// Notes `entry`, which is kept, if it is a head that has expired by `now_ms`, the wall clock.
    pub(super) fn note_expired_head(&mut self, entry: &Entry<'_>, now_ms: u64) {
        let heads = &mut self.report.expired_keys;
        if entry.kind == Kind::Head && entry.is_expired(now_ms) && heads.len() < EXPIRED_KEYS_MAX {
            heads.push(entry.key.to_vec());
        }
    }

    /// Ends the table being written; the next entry starts another.
    pub(super) async fn cut(&mut self) -> Result<()> {
        let Some((id, _, writer)) = self.current.take() else { return Ok(()) };
        let (summary, fresh) = writer.finish_warm().await?;
        self.report.bytes_written += summary.bytes;
        let meta = meta_of(id, self.epoch, &summary);
        let table = open_table(&self.tree.env, &meta, &self.tree.garbage, fresh, self.class).await?;
        self.outputs.tables.push((self.level, table));
        Ok(())
    }

    /// Ends the last table.
    pub(super) async fn finish(mut self) -> Result<(Outputs, JobReport)> {
        self.cut().await?;
        Ok((self.outputs, self.report))
    }
}
