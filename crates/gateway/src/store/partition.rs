//! A partition as a store: the same calls under the gateway's names.

use std::sync::Arc;

use weir_io::Result;
use weir_model::Batch;
use weir_node::{Commit, Partition, Record, Value};

use super::{Entry, Page, Store};

impl From<Record> for Entry<Value> {
    fn from(record: Record) -> Self {
        Entry { value: record.value, expire_at_ms: record.expire_at_ms }
    }
}

impl Store for Arc<Partition> {
    type Value = Value;
    type Commit = Commit;

    async fn get(&self, key: &[u8]) -> Result<Option<Entry<Value>>> {
        Ok(Partition::get(self, key).await?.map(Entry::from))
    }

    async fn write(&self, batch: &Batch) -> Result<Commit> {
        Partition::write(self, batch).await
    }

    async fn update<R: Send>(
        &self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<Value>>], &mut Batch) -> R + Send,
    ) -> Result<(R, Option<Commit>)> {
        Partition::update(self, keys, |records, batch| {
            let entries: Vec<Option<Entry<Value>>> =
                records.iter().map(|record| record.clone().map(Entry::from)).collect();
            change(&entries, batch)
        })
        .await
    }

    async fn scan(&self, from: &[u8], limit: usize) -> Result<Page> {
        let page = Partition::page(self, from, limit).await?;
        Ok(Page { keys: page.keys, next: page.next })
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        let metrics = self.metrics();
        let tables: usize = metrics.shape.levels.iter().map(|level| level.tables).sum();
        let table_bytes: u64 = metrics.shape.levels.iter().map(|level| level.bytes).sum();
        let memtables = metrics.shape.memtable_bytes + metrics.shape.sealed_bytes;
        vec![
            ("Memory", "memtable_bytes", memtables.to_string()),
            ("Persistence", "log_last_index", metrics.log.last.to_string()),
            ("Persistence", "log_durable_index", metrics.log.durable.to_string()),
            ("Persistence", "tables", tables.to_string()),
            ("Persistence", "table_bytes", table_bytes.to_string()),
            ("Persistence", "compaction_debt_bytes", metrics.shape.debt_bytes.to_string()),
        ]
    }
}
