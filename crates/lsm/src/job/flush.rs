//! A flush: one or more of the sealed memtables, the oldest ones, become one run of level 0.
//!
//! A value that has expired meanwhile becomes a tombstone. A tombstone goes when every read sees it and no table can
//! hold its key, as in a merge: all tables are older, and while the flush runs, other jobs only write what is in tables
//! already. Parts of rows are dropped where a cover in the memtables or in a table says that they are dead.

use std::sync::Arc;

use weir_io::{Class, Result};
use weir_model::engine::{Entry, JobControl, JobReport, Kind};

use super::compact::Below;
use super::covers::Covers;
use super::output::Writer;
use super::retention::{Retention, Verdict};
use crate::cursor::{Cursor, Step};
use crate::read::merge::MergeCursor;
use crate::read::view::{Sealed, View};
use crate::tree::Tree;
use crate::version::Edit;

/// `sealed`: oldest first, without gaps.
pub(super) async fn run(tree: &Arc<Tree>, sealed: Vec<Sealed>, control: &JobControl) -> Result<JobReport> {
    let newest = sealed.last().expect("a flush has a memtable").clone();
    let epoch = sealed[0].epoch;
    let mut merge = MergeCursor::new(sealed.iter().map(|sealed| sealed.memtable.cursor()).collect());
    let horizons = tree.horizons();
    let now_ms = tree.env.clock.unix_ms();
    let version = tree.version();
    let mut covers = Covers::new(tree, &version, &[], newest.last_seq, &horizons, Class::Flush);
    let mut retention = Retention::new(horizons);
    let mut below = Below::new(&version, 0, epoch);
    let mut writer = Writer::new(tree, Class::Flush, 0, epoch, covers.met(), control);

    let mut step = merge.seek_first();
    debug_assert_eq!(step, Step::Ready, "memtables are in memory");
    while let Some(mut entry) = merge.entry() {
        let verdict = retention.judge(&entry);
        if entry.kind == Kind::Put && entry.is_expired(now_ms) {
            entry = Entry { kind: Kind::Delete, expire_at_ms: 0, value: &[], ..entry };
        }
        let is_oldest = verdict == Verdict::Visible { oldest: true };
        let deletes_nothing = is_oldest && entry.kind == Kind::Delete && !below.may_hold(entry.key);
        let is_covered = covers.cover(&entry).await?;
        let is_spent = is_oldest && entry.kind == Kind::Cover && covers.may_go(&entry);
        if is_covered {
            writer.skip_covered(&entry).await;
        } else if verdict == Verdict::Shadowed || deletes_nothing || is_spent {
            writer.skip(&entry).await;
        } else {
            writer.note_expired_head(&entry, now_ms);
            writer.add(entry).await?;
        }
        step = merge.next();
        debug_assert_eq!(step, Step::Ready, "memtables are in memory");
    }
    let (outputs, report) = writer.finish().await?;

    control.begin_commit();
    let edit = Edit { persisted: Some(newest.last_index), added: outputs.added(), ..Edit::default() };
    let install = |_: &mut _, view: &mut View| view.sealed.truncate(view.sealed.len() - sealed.len());
    tree.commit(Class::Flush, edit, outputs, install).await?;
    Ok(report)
}
