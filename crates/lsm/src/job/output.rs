//! Writing a job's output tables.

use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Result, Turn, yield_now};
use weir_model::parts::{COVER_KEY_BYTES, cover_value, covered_bytes, version_of};

use crate::cache::Writes;
use crate::table::TableWriter;
use crate::tree::{Outputs, Tree, open_table};
use crate::version::TableMeta;
use weir_model::engine::{EXPIRED_KEYS_MAX, Entry, JobControl, JobReport, Kind, Seq};

/// The work that an entry costs besides its bytes, expressed in bytes: comparing and copying a tiny one is not free.
const ENTRY_WORK_BYTES: usize = 32;

/// A cover that is to be written. The parts of its life come directly behind it. The bytes of those that are dropped
/// are taken off its count, so that nobody will look for them.
struct HeldCover {
    key: [u8; COVER_KEY_BYTES],
    version: u64,
    seq: Seq,
    bytes: u64,
}

impl HeldCover {
    /// `entry`, if it is a cover in the form in which covers are written.
    fn of(entry: &Entry<'_>) -> Option<Self> {
        let key = entry.key.try_into().ok().filter(|_| entry.kind == Kind::Cover)?;
        Some(Self { key, version: version_of(entry.key)?, seq: entry.seq, bytes: covered_bytes(entry.value)? })
    }
}

/// Takes entries in order and writes tables. It yields to the executor after every turn.
pub(super) struct Writer<'a> {
    tree: &'a Arc<Tree>,
    class: Class,
    level: usize,
    epoch: u64,
    current: Option<(u64, std::path::PathBuf, TableWriter)>,
    outputs: Outputs,
    /// See [`TableWriter::having_met_covers`].
    met: Seq,
    held: Option<HeldCover>,
    turn: Turn,
    report: JobReport,
    control: &'a JobControl,
}

impl<'a> Writer<'a> {
    /// `met`: nothing that is dead by a cover up to this sequence number will be added.
    pub(super) fn new(
        tree: &'a Arc<Tree>,
        class: Class,
        level: usize,
        epoch: u64,
        met: Seq,
        control: &'a JobControl,
    ) -> Self {
        let outputs = Outputs::new(tree);
        let (turn, report) = (Turn::new(), JobReport::default());
        Self { tree, class, level, epoch, current: None, outputs, met, held: None, turn, report, control }
    }

    /// Bytes of the table being written.
    pub(super) fn table_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, _, writer)| writer.file_bytes())
    }

    /// Writes `entry`. A cover is held back until it is known how much of its life is left.
    pub(super) async fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        self.release().await?;
        match HeldCover::of(&entry) {
            Some(held) => self.held = Some(held),
            None => self.write(entry).await?,
        }
        self.report.entries_out += 1;
        self.skip(&entry).await;
        Ok(())
    }

    /// Writes the cover that is held, if there is one.
    async fn release(&mut self) -> Result<()> {
        let Some(HeldCover { key, seq, bytes, .. }) = self.held.take() else { return Ok(()) };
        let value = cover_value(bytes);
        self.write(Entry { key: &key, seq, kind: Kind::Cover, expire_at_ms: 0, value: &value }).await
    }

    /// How a table's blocks are offered to the cache, if they are. Those of flushed memtables always are, for the run
    /// is merged next. Where blocks that merges write are not kept, those that merges have written before give way to
    /// them.
    fn cached_as(&self) -> Option<Writes> {
        let (is_flushed, keeps_merged) = (self.level == 0 && self.class == Class::Flush, self.tree.knobs.get().warm);
        let writer = match (is_flushed, keeps_merged) {
            (true, true) => Writes::Anybody,
            (true, false) => Writes::PressedFlush,
            (false, true) => Writes::Merge,
            (false, false) => return None,
        };
        (self.level < self.tree.options.warm_levels).then_some(writer)
    }

    /// Writes `entry`, starting a table where none is open.
    async fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.current.is_none() {
            let (id, path) = self.outputs.begin(self.tree);
            let env = &self.tree.env;
            let options = self.tree.options.table(self.level);
            let writer = TableWriter::create(&env.fs, &path, options, env.tag(self.class)).await?;
            let warm = self.cached_as().map(|writer| env.cache.table(env.owner).offered_by(writer));
            let writer = writer.warming(warm).written_at(env.clock.unix_ms()).having_met_covers(self.met);
            self.current = Some((id, path, writer));
        }
        let Some((_, _, writer)) = &mut self.current else { unreachable!("just opened") };
        // A file may hold anything where its checksums are right.
        let corrupt = |message| Error::new(ErrorKind::Corruption, "write a table of", &self.tree.env.dir, message);
        writer.add(entry).map_err(corrupt)?;
        if writer.pending_bytes() >= self.tree.options.io_bytes {
            writer.drain().await?;
            let written = self.report.bytes_written + writer.file_bytes();
            self.control.set_bytes_written(written);
        }
        Ok(())
    }

    /// Counts an entry that was read, whether it is written or dropped.
    pub(super) async fn skip(&mut self, entry: &Entry<'_>) {
        self.report.entries_in += 1;
        self.control.set_entries_done(self.report.entries_in);
        if self.turn.spend(entry.key.len() + entry.value.len() + ENTRY_WORK_BYTES) {
            yield_now().await;
        }
    }

    /// Counts an entry that a cover says is dead.
    pub(super) async fn skip_covered(&mut self, entry: &Entry<'_>) {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        self.report.covered_entries += 1;
        self.report.covered_bytes += bytes;
        if let Some(held) = self.held.as_mut().filter(|held| version_of(entry.key) == Some(held.version)) {
            held.bytes = held.bytes.saturating_sub(bytes);
        }
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
        self.release().await?;
        let Some((id, _, writer)) = self.current.take() else { return Ok(()) };
        let (summary, fresh) = writer.finish_warm().await?;
        self.report.bytes_written += summary.bytes;
        let meta = TableMeta::of(id, self.epoch, &summary);
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
