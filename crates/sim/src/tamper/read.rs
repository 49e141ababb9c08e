//! Reading a whole tenant: every key by itself, and all of them in one scan.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::engine::Range;
use weir_node::{Partition, Tenant};

use super::belief::Shard;
use crate::model::{KeyValues, Visible};

/// What a partition showed.
#[derive(Clone, Debug, Default)]
pub struct ShardRead {
    /// Everything that the scan read, or what it had read before it failed.
    pub visible: Visible,
    /// Keys that could be read, with their values.
    pub keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The errors that were answered.
    pub complaints: Vec<String>,
    /// Whether the partition could not be opened at all.
    pub refused: bool,
    /// Whether the scan came to its end.
    pub whole: bool,
}

impl ShardRead {
    /// Whether what could be read is what `state` has at `now_ms`.
    pub fn shows(&self, state: &KeyValues, now_ms: u64) -> bool {
        let keys = self.keys.iter().all(|(key, value)| state.get(key, now_ms) == value.as_deref());
        let scan = || self.visible.iter().all(|(key, value)| state.get(key, now_ms) == Some(value.as_slice()));
        keys && scan() && (!self.whole || state.visible(now_ms).len() == self.visible.len())
    }

    /// A few of the differences.
    pub fn differences(&self, state: &KeyValues, now_ms: u64) -> Vec<String> {
        let differing = self.keys.iter().filter(|(key, value)| state.get(key, now_ms) != value.as_deref());
        let text = |value: Option<&[u8]>| {
            value.map_or("nothing".into(), |value| format!("\"{}\"", value[..value.len().min(32)].escape_ascii()))
        };
        let differing = differing.map(|(key, value)| {
            format!(
                "\"{}\": expected {}, read {}",
                key.escape_ascii(),
                text(state.get(key, now_ms)),
                text(value.as_deref())
            )
        });
        differing.take(3).collect()
    }
}

/// How a partition is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Not at all: it stays asleep.
    Skip,
    /// In one scan.
    Scan,
    /// In one scan, and every key by itself.
    Whole,
}

/// Reads the partitions of `tenant`, each as deeply as `depth` says for its number.
pub async fn read_tenant(tenant: &Tenant, shards: &[Shard], depth: impl Fn(u32) -> Depth) -> Vec<ShardRead> {
    let mut reads = Vec::new();
    for (slot, shard) in tenant.partitions().iter().zip(shards) {
        let depth = depth(shard.number);
        if depth == Depth::Skip {
            reads.push(ShardRead::default());
            continue;
        }
        reads.push(match slot.partition().await {
            Ok(partition) => read_partition(&partition, shard, depth).await,
            Err(error) => {
                ShardRead { refused: true, complaints: vec![format!("opening: {error}")], ..ShardRead::default() }
            }
        });
    }
    reads
}

async fn read_partition(partition: &Arc<Partition>, shard: &Shard, depth: Depth) -> ShardRead {
    let mut read = ShardRead::default();
    match partition.scan(Range::all()).await {
        Err(error) => read.complaints.push(format!("scan: {error}")),
        Ok(mut scan) => loop {
            match scan.next().await {
                Ok(Some(entry)) => read.visible.push((entry.key.to_vec(), entry.value.to_vec())),
                Ok(None) => {
                    read.whole = true;
                    break;
                }
                Err(error) => {
                    read.complaints.push(format!("scan: {error}"));
                    break;
                }
            }
        },
    }
    for key in shard.keys.keys().filter(|_| depth == Depth::Whole) {
        match partition.get(key).await {
            Ok(record) => drop(read.keys.insert(key.clone(), record.and_then(|record| Some(record.value()?.to_vec())))),
            Err(error) => read.complaints.push(format!("get: {error}")),
        }
    }
    read
}
