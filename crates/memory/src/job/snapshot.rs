//! Writing a snapshot. The job holds the sequence number that the snapshot is as of, so that versions that are
//! overwritten meanwhile stay in memory until it ends: at most as much again as there is.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Class, Result, Turn, yield_now};
use weir_model::engine::{JobControl, JobReport, Kind};
use weir_model::parts::version_of;

use crate::index::Entry;
use crate::key::Key;
use crate::snapshot::writer::Writer;
use crate::store::Store;
use crate::version::Version;

/// Rows that are taken from the index at once.
const PAGE_ROWS: usize = 128;
/// Work that a row costs besides its bytes, in bytes: finding and copying a tiny one is not free.
const ROW_WORK_BYTES: usize = 64;

/// Knows which parts are dead by the cover that was met last. The cover stands in front of them, and the snapshot has
/// it, so that nobody who opens the snapshot can ask for them.
#[derive(Default)]
struct Covered {
    /// The life that this cover is of.
    life: Option<u64>,
}

impl Covered {
    /// Whether the row at `key`, the next in order, is dead.
    fn has(&mut self, key: &[u8], version: &Version) -> bool {
        if version.kind == Kind::Cover {
            self.life = version_of(key);
            return false;
        }
        self.life.is_some() && version_of(key) == self.life
    }
}

pub(super) async fn write(store: &Arc<Store>, control: &JobControl) -> Result<JobReport> {
    let (hold, seq, persisted, logged_bytes) = {
        let writer = store.writer.lock();
        let seq = writer.last_seq;
        (store.snapshots.take(|| seq), seq, writer.applied, store.logged_bytes.load(Ordering::Relaxed))
    };
    let (number, path, begun) = store.begin_file();
    let io_bytes = store.options.io_bytes;
    let mut file = Writer::create(&store.env.fs, &path, number, io_bytes, store.env.tag(Class::Flush)).await?;
    let (mut report, mut turn) = (JobReport::default(), Turn::new());
    let mut page: Vec<(Key, Option<Arc<Version>>)> = Vec::with_capacity(PAGE_ROWS);
    let (mut covered, mut is_last) = (Covered::default(), false);
    while !is_last {
        let from = page.last().map_or(Bound::Unbounded, |(key, _)| Bound::Excluded(key.to_vec()));
        page.clear();
        is_last =
            store.index.walk(from.as_ref().map(|key| &key[..]), Bound::Unbounded, false, |Entry { key, row }, _| {
                // A row that was removed meanwhile was deleted as of `seq`, which is held.
                page.push((key.clone(), row.newest.load().and_then(|newest| newest.visible(seq))));
                page.len() < PAGE_ROWS
            });
        for (key, version) in &page {
            report.entries_in += 1;
            // Expired rows are written, too: they are there until somebody deletes them.
            let version = version.as_ref().filter(|version| version.kind != Kind::Delete);
            if let Some(version) = version.filter(|version| !covered.has(key, version)) {
                file.add(version.kind, key, version.expire_at_ms, &version.value).await?;
                report.entries_out += 1;
            }
            // A row that is not written has cost its look-up all the same.
            if turn.spend(key.len() + version.map_or(0, |version| version.value.len()) + ROW_WORK_BYTES) {
                yield_now().await;
            }
        }
        control.set_entries_done(report.entries_in);
        control.set_bytes_written(file.file_bytes());
    }
    let meta = file.finish(seq, persisted).await?;
    drop((hold, page));
    report.bytes_written = meta.file_bytes;
    control.begin_commit();
    store.commit(meta, begun).await?;
    store.snapshot_bytes.store(logged_bytes, Ordering::Relaxed);
    Ok(report)
}
