//! Rows of a partition as they were at one moment.

use std::sync::Arc;

use weir_command::{Moment, PartCount, PartPage, PartRange, Read, Waiting};
use weir_io::Result;
use weir_model::StoredKey;
use weir_model::engine::{Lookup, Snapshot};

use super::Partition;
use super::part_page::scan_range;

/// A moment of a partition. What it sees stays in the engine as long as somebody holds it.
#[derive(Clone)]
struct PartitionMoment {
    partition: Arc<Partition>,
    snapshot: Arc<Snapshot>,
}

impl Partition {
    /// The moment of now: everything that is committed, with all that was written before this was asked.
    pub async fn moment(self: &Arc<Self>) -> Box<dyn Moment> {
        self.publish_all().await;
        Box::new(PartitionMoment { partition: Arc::clone(self), snapshot: Arc::new(self.engine.snapshot()) })
    }
}

impl Moment for PartitionMoment {
    fn read(&self, key: StoredKey, now_ms: u64) -> Read<'static> {
        let lookup = self.partition.engine.get(&key, Some(&self.snapshot));
        if let Lookup::Ready(mut found) = lookup {
            let found = found.take().expect("looked at once");
            let row = found.and_then(|found| self.partition.living(&key, found, Some(now_ms)));
            return Read::Ready(row.map(|row| self.partition.booked(row)));
        }
        let moment = self.clone();
        Read::Pending(Box::pin(async move {
            let found = lookup.await?;
            let row = moment.partition.living(&key, found, Some(now_ms))?;
            Ok(moment.partition.booked(row))
        }))
    }

    fn parts(&self, range: PartRange, limit: usize) -> Waiting<'static, Result<PartPage>> {
        let moment = self.clone();
        Box::pin(async move {
            let scan = moment.partition.engine.scan(scan_range(&range), Some(&moment.snapshot));
            moment.partition.part_page(scan, range, limit).await
        })
    }

    fn count_parts(&self, range: PartRange, limit: usize) -> Waiting<'static, Result<PartCount>> {
        let moment = self.clone();
        Box::pin(async move {
            let scan = moment.partition.engine.scan(scan_range(&range), Some(&moment.snapshot));
            moment.partition.part_count(scan, range, limit).await
        })
    }
}
