//! Flushes those who keep the shared log long (DF-12): where it is above its cap, every partition that has something
//! unflushed in the oldest segment. Their flushes wait for slots as any others do, and writes go on meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures_util::{StreamExt, stream};
use parking_lot::RwLock;
use weir_io::{Clock, Nanos, sleep_until};
use weir_log::LogIndex;

use crate::partition::Partition;
use crate::partition_slot::PartitionSlot;
use crate::shared_log::NodeLog;
use crate::tenant::Tenants;

/// After so long what has failed is tried again: to wake a sleeper, to shorten the log.
const AGAIN_AFTER: Nanos = 1_000_000_000;
/// Sleepers that are woken at a time.
const WAKES_MAX: usize = 4;

/// Looks every `interval`. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, log: Weak<NodeLog>, clock: Arc<dyn Clock>, interval: Nanos) {
    let mut sealed: BTreeMap<u32, (Weak<Partition>, LogIndex)> = BTreeMap::new();
    let (mut seen, mut tried) = (0, 0);
    loop {
        sleep_until(&clock, clock.now() + interval).await;
        let Some(node_log) = log.upgrade() else { return };
        let Some(log) = node_log.get() else { continue };
        let (named, count) = (log.cascade(), log.stats().cascades);
        sealed.retain(|member, _| named.binary_search_by_key(member, |(member, _)| *member).is_ok());
        let is_due = count > seen || clock.now() >= tried + AGAIN_AFTER;
        if named.is_empty() {
            if log.is_long() && is_due {
                tried = clock.now();
                // The last truncation has failed, or nobody was left for one.
                if let Err(error) = log.truncate().await {
                    tracing::warn!(%error, "cannot shorten the shared log yet");
                }
            }
            continue;
        }
        let Some(slots) = tenants.upgrade().map(|tenants| tenants.read().slots()) else { return };
        let slots: BTreeMap<u32, Arc<PartitionSlot>> =
            slots.into_iter().map(|slot| (slot.owner().partition, slot)).collect();
        if count > seen {
            tracing::debug!(members = named.len(), cascades = count, "the shared log is long: those who keep it flush");
        }
        let mut asleep = Vec::new();
        for (member, through) in named {
            match slots.get(&member) {
                Some(slot) => match Option::clone(&slot.awake()) {
                    Some(partition) => {
                        // Whoever is named again while its flush waits has nothing more to seal: it would only be left
                        // without a memtable to write to.
                        let is_sealed = |(before, upto): &(Weak<Partition>, LogIndex)| {
                            *upto >= through && Weak::ptr_eq(before, &Arc::downgrade(&partition))
                        };
                        if !sealed.get(&member).is_some_and(is_sealed) {
                            sealed.insert(member, (Arc::downgrade(&partition), partition.seal_all()));
                        } else if is_due {
                            // Perhaps it has flushed, and could not say so.
                            partition.truncate_log().await;
                        }
                    }
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
        if !is_due {
            continue;
        }
        (seen, tried) = (count, clock.now());
        // Once it is awake it is sealed as the others are. An error was logged.
        let wake = async |slot: Arc<PartitionSlot>| drop(slot.partition().await);
        stream::iter(asleep).for_each_concurrent(WAKES_MAX, wake).await;
    }
}
