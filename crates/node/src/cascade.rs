//! Flushes those who keep the shared log long (DF-12): where it is above its cap, every partition that has something
//! unflushed in the oldest segment. Their flushes wait for slots as any others do, and writes go on meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures_util::{StreamExt, stream};
use parking_lot::RwLock;
use weir_io::{Clock, Nanos, sleep_until};

use crate::partition_slot::PartitionSlot;
use crate::shared_log::NodeLog;
use crate::tenant::Tenants;

/// How often it is looked whether the log is used at all.
const UNUSED: Nanos = 1_000_000_000;
/// How long a sleeper that could not be woken is left alone.
const WAKE_AGAIN_AFTER: Nanos = 1_000_000_000;
/// Sleepers that are woken at a time.
const WAKES_MAX: usize = 4;

/// Looks every `interval`, once the log is used. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, log: Weak<NodeLog>, clock: Arc<dyn Clock>, interval: Nanos) {
    let (mut seen, mut woken) = (0, 0);
    let mut pause = UNUSED;
    loop {
        sleep_until(&clock, clock.now() + pause).await;
        let Some(node_log) = log.upgrade() else { return };
        let Some(log) = node_log.get() else { continue };
        pause = interval;
        let (named, count) = (log.cascade(), log.stats().cascades);
        let is_new = count > seen;
        let nothing_is_to_do = named.is_empty() && !log.is_long();
        if nothing_is_to_do || (!is_new && clock.now() < woken + WAKE_AGAIN_AFTER) {
            continue;
        }
        (seen, woken) = (count, clock.now());
        if named.is_empty() {
            // The last truncation has failed, or nobody was left for one.
            if let Err(error) = log.truncate().await {
                tracing::warn!(%error, "cannot shorten the shared log yet");
            }
            continue;
        }
        let Some(slots) = tenants.upgrade().map(|tenants| tenants.read().slots()) else { return };
        let slots: BTreeMap<u32, Arc<PartitionSlot>> =
            slots.into_iter().map(|slot| (slot.owner().partition, slot)).collect();
        let members = named.len();
        tracing::debug!(members, cascades = count, "the shared log is long, or has failed: who keeps it flushes");
        let mut asleep = Vec::new();
        for member in named {
            match slots.get(&member) {
                Some(slot) => match Option::clone(&slot.awake()) {
                    // Once for each segment: what is written from here on stands behind it.
                    Some(partition) if is_new => {
                        partition.seal_all();
                    }
                    // Perhaps it has flushed, and could not say so.
                    Some(partition) => partition.truncate_log().await,
                    None => asleep.push(Arc::clone(slot)),
                },
                // It was dropped while the log was being opened.
                None => {
                    if let Err(error) = log.forget(member).await {
                        tracing::warn!(member, %error, "cannot shorten the shared log yet");
                    }
                }
            }
        }
        let wake = async |slot: Arc<PartitionSlot>| {
            // An error was logged.
            if let Ok(partition) = slot.partition().await {
                partition.seal_all();
            }
        };
        stream::iter(asleep).for_each_concurrent(WAKES_MAX, wake).await;
    }
}
