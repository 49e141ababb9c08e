//! Weir in this process, as an embedded program uses it: what works and scenarios both need from it. Client threads may
//! block.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_io::real::{RealSpawn, block_on, blocking_scope};
use weir_io::{Clock, Fs};
use weir_model::Batch;
use weir_model::engine::Range;
use weir_node::{Machine, Node, Partition};

use crate::Result;

/// The niceness that `weir serve` gives background work.
const BACKGROUND_NICE: i32 = 10;

/// The name and version, for tables.
pub fn version() -> String {
    format!("weir {}", env!("CARGO_PKG_VERSION"))
}

/// A machine with this disk and clock, and with this many background threads.
///
/// # Errors
/// The clock shows a time before 1970.
pub fn machine(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, background_threads: usize) -> Result<Machine> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let spawn = Arc::new(RealSpawn::new(background_threads, BACKGROUND_NICE));
    Ok(Machine { fs, clock, spawn, salt: since_1970.as_nanos() as u64 })
}

/// Stores one pair, and waits until the write is as durable as the sync mode promises.
///
/// # Errors
/// The write is refused.
pub fn put(partition: &Arc<Partition>, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(key, value);
    write(partition, &batch)
}

/// Applies `batch`, and waits until it is as durable as the sync mode promises.
///
/// # Errors
/// The write is refused.
pub fn write(partition: &Arc<Partition>, batch: &Batch) -> Result<()> {
    let _scope = blocking_scope();
    Ok(block_on(async { partition.write(batch).await?.await })?)
}

/// Shows the value of `key` to `see`; false if there is none.
///
/// # Errors
/// The read fails.
pub fn get(partition: &Arc<Partition>, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
    let _scope = blocking_scope();
    let record = block_on(partition.get(key))?;
    if let Some(value) = record.as_ref().and_then(|record| record.value()) {
        see(value);
    }
    Ok(record.is_some())
}

/// Shows up to `limit` pairs from `from` on, in order, to `see`.
///
/// # Errors
/// The read fails.
pub fn scan(partition: &Arc<Partition>, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let _scope = blocking_scope();
    block_on(async {
        let mut scan = partition.scan(Range::starting_at(from)).await?;
        scan.expect(limit);
        for _ in 0..limit {
            let Some(entry) = scan.next().await? else { break };
            see(entry.key, entry.value);
        }
        Ok(())
    })
}

/// Flushes, and returns when no level wants compaction.
pub fn settle(partition: &Arc<Partition>) {
    partition.seal();
    block_on(partition.settle());
}

/// Tables of each level that has some, such as `L0:1 L5:4 L6:28`.
pub fn shape(partition: &Partition) -> String {
    let shape = partition.engine().facts().shape();
    let levels = shape.levels.iter().enumerate().filter(|(_, level)| level.tables > 0);
    levels.map(|(level, facts)| format!("L{level}:{}", facts.tables)).collect::<Vec<_>>().join(" ")
}

/// Closes in good order.
///
/// # Errors
/// A sync fails: what was not durable before may be lost.
pub fn close(node: &Node) -> Result<()> {
    let _scope = blocking_scope();
    Ok(block_on(node.close())?)
}
