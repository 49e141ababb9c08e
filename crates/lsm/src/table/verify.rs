//! Reading a whole table with suspicion: for `weir check`.

use std::sync::Arc;

use weir_io::{Class, Result, Turn, yield_now};
use weir_model::engine::{Deadline, Entry, Seq, compare};

use super::covers::CoverCounter;
use super::filter;
use super::format::TableSummary;
use super::readahead::{Caching, CursorOptions};
use super::reader::Table;
use crate::cursor::{Cursor, Step};

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

impl Table {
    /// Reads every block, and checks checksums, the order of all entries, that each entry is where index and filter
    /// lead to, and that the summary tells the truth. Opening the table has checked footer, index and filter.
    pub async fn verify(self: &Arc<Self>, class: Class) -> Result<()> {
        let mut cursor = self.cursor(CursorOptions { class, readahead_bytes: READ_BYTES, caching: Caching::Leave });
        let mut seen = Seen { expired: vec![0; self.summary().deadlines.points().len()], ..Seen::default() };
        let mut turn = Turn::new();
        let mut step = cursor.seek_first();
        loop {
            while step == Step::Load {
                step = cursor.load().await?;
            }
            let Some(entry) = cursor.entry() else { break };
            let number = cursor.number();
            let bytes = entry.key.len() + entry.value.len();
            let is_led_to =
                self.index().find(entry.key, entry.seq) == number && self.may_contain(filter::hash(entry.key));
            let problem = seen
                .problem_with(&entry, self.summary().deadlines.points())
                .or((!is_led_to).then_some("the index or the filter does not lead to this entry"));
            if let Some(problem) = problem {
                return Err(self.corruption(self.block(number), format!("{problem}: key {}", entry.key.escape_ascii())));
            }
            if turn.spend(bytes) {
                yield_now().await;
            }
            step = cursor.next();
        }
        let summary = self.summary();
        seen.summary.bytes = summary.bytes;
        seen.summary.digest = summary.digest;
        seen.summary.identity = summary.identity;
        seen.summary.block_bytes_max = summary.block_bytes_max;
        seen.summary.covers_met = summary.covers_met;
        let agrees = seen.agrees_with(summary.deadlines.points());
        seen.summary.largest_key = seen.last_key;
        seen.summary.deadlines = summary.deadlines.clone();
        seen.summary.covers = seen.covers.finish();
        if seen.summary != *summary || !agrees {
            let message = "the properties do not agree with the entries";
            return Err(weir_io::Error::corruption(self.path(), summary.bytes, message));
        }
        Ok(())
    }
}

/// What has been read so far.
#[derive(Default)]
struct Seen {
    summary: TableSummary,
    covers: CoverCounter,
    last_key: Vec<u8>,
    last_seq: Seq,
    /// The last time at which a value expires.
    last_deadline: u64,
    /// For each deadline of the summary, in the same place, the bytes of the values that it is the first to cover.
    expired: Vec<u64>,
}

impl Seen {
    fn problem_with(&mut self, entry: &Entry<'_>, deadlines: &[Deadline]) -> Option<&'static str> {
        if self.summary.entries > 0 && compare((&self.last_key, self.last_seq), (entry.key, entry.seq)).is_ge() {
            return Some("the entries do not ascend");
        }
        self.covers.note(entry);
        if let Some(bytes) = self.summary.count(entry) {
            self.last_deadline = self.last_deadline.max(entry.expire_at_ms);
            let point = deadlines.partition_point(|point| point.at_ms < entry.expire_at_ms);
            self.expired.iter_mut().skip(point).take(1).for_each(|expired| *expired += bytes);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.last_seq = entry.seq;
        None
    }

    /// Whether as many bytes expire by each of `deadlines` as it says, and the last of them is the time of the last
    /// value.
    fn agrees_with(&self, deadlines: &[Deadline]) -> bool {
        let mut bytes = 0;
        let mut each = deadlines.iter().zip(&self.expired);
        each.all(|(point, expired)| {
            bytes += expired;
            point.bytes == bytes
        }) && deadlines.last().map_or(0, |last| last.at_ms) == self.last_deadline
    }
}
