//! A flush: one or more sealed memtables, the oldest, become one run of level 0.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Class, Result};

use super::output::Writer;
use super::retention::{Retention, Verdict};
use super::{JobControl, JobReport};
use crate::cursor::{Cursor, Step};
use crate::read::merge::MergeCursor;
use crate::read::view::{Sealed, View};
use crate::tree::{Outputs, Tree};
use crate::version::Edit;

/// `sealed`: oldest first, without gaps.
pub(super) async fn run(tree: &Arc<Tree>, sealed: Vec<Sealed>, control: &JobControl) -> Result<JobReport> {
    let newest = sealed.last().expect("a flush has a memtable").clone();
    let epoch = sealed[0].epoch;
    let mut merge = MergeCursor::new(sealed.iter().map(|sealed| sealed.memtable.cursor()).collect());
    let mut retention = Retention::new(tree.horizons());
    let mut writer = Writer::new(tree, Class::Flush, 0, epoch, control);

    let mut step = merge.seek_first();
    debug_assert_eq!(step, Step::Ready, "memtables are in memory");
    while let Some(entry) = merge.entry() {
        // Tombstones stay: whether anything lies below is for compactions to find out.
        if retention.judge(&entry) != Verdict::Shadowed {
            writer.add(entry).await?;
        } else {
            writer.skip(&entry).await;
        }
        step = merge.next();
        debug_assert_eq!(step, Step::Ready, "memtables are in memory");
    }
    let (outputs, report) = writer.finish().await?;

    control.committing.store(true, Ordering::Relaxed);
    let edit = Edit { persisted: Some(newest.last_index), added: added(&outputs), ..Edit::default() };
    let install = |_: &mut _, view: &mut View| view.sealed.truncate(view.sealed.len() - sealed.len());
    tree.commit(Class::Flush, edit, outputs, install).await?;
    Ok(report)
}

/// The `added` part of an edit.
pub(super) fn added(outputs: &Outputs) -> Vec<(usize, crate::version::TableMeta)> {
    outputs.tables.iter().map(|(level, table)| (*level, table.meta.clone())).collect()
}
