//! Reading a whole table with suspicion: for `weir check`.

use std::sync::Arc;

use weir_io::{Class, Result, Turn, yield_now};

use super::cursor::{Caching, CursorOptions};
use super::filter;
use super::format::TableSummary;
use super::reader::Table;
use crate::cursor::{Cursor, Step};
use crate::entry::{Entry, Kind, Seq, compare};

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

impl Table {
    /// Reads every block, and checks checksums, the order of all entries, that each entry is where index and filter lead to, and that
    /// the summary tells the truth. Opening the table has checked footer, index and filter.
    pub async fn verify(self: &Arc<Self>, class: Class) -> Result<()> {
        let mut cursor = self.cursor(CursorOptions { class, readahead_bytes: READ_BYTES, caching: Caching::Leave });
        let mut seen = Seen::default();
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
            let problem =
                seen.problem_with(&entry).or((!is_led_to).then_some("index or filter do not lead to this entry"));
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
        seen.summary.block_bytes_max = summary.block_bytes_max;
        seen.summary.largest_key = seen.last_key;
        if seen.summary != *summary {
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
    last_key: Vec<u8>,
    last_seq: Seq,
}

impl Seen {
    fn problem_with(&mut self, entry: &Entry<'_>) -> Option<&'static str> {
        let summary = &mut self.summary;
        if summary.entries == 0 {
            summary.smallest_key = entry.key.to_vec();
            summary.smallest_seq = entry.seq;
        } else if compare((&self.last_key, self.last_seq), (entry.key, entry.seq)).is_ge() {
            return Some("the entries do not ascend");
        }
        summary.entries += 1;
        summary.tombstones += u64::from(entry.kind == Kind::Delete);
        summary.expiring += u64::from(entry.expire_at_ms != 0);
        summary.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
        summary.smallest_seq = summary.smallest_seq.min(entry.seq);
        summary.largest_seq = summary.largest_seq.max(entry.seq);
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.last_seq = entry.seq;
        None
    }
}
