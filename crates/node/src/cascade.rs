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

/// How often it is looked whether the log is used at all.
const UNUSED: Nanos = 1_000_000_000;
/// How long a sleeper that could not be woken is left alone.
const WAKE_AGAIN_AFTER: Nanos = 1_000_000_000;
/// Sleepers that are woken at a time.
const WAKES_MAX: usize = 4;

/// Looks every `interval`, once the log is used. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, log: Weak<NodeLog>, clock: Arc<dyn Clock>, interval: Nanos) {
    let mut sealed: BTreeMap<u32, (Weak<Partition>, LogIndex)> = BTreeMap::new();
    let (mut seen, mut woken) = (0, 0);
    let mut pause = UNUSED;
    loop {
        sleep_until(&clock, clock.now() + pause).await;
        let Some(node_log) = log.upgrade() else { return };
        let Some(log) = node_log.get() else { continue };
        pause = interval;
        let (named, count) = (log.cascade(), log.stats().cascades);
        sealed.retain(|member, _| named.binary_search_by_key(member, |(member, _)| *member).is_ok());
        if named.is_empty() {
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
                Some(slot) => match &*slot.awake() {
                    Some(partition) => {
                        // Whoever is named again while its flush waits has nothing more to seal: it would only be left
                        // without a memtable to write to.
                        let is_sealed = |(before, upto): &(Weak<Partition>, LogIndex)| {
                            *upto >= through && Weak::ptr_eq(before, &Arc::downgrade(partition))
                        };
                        if !sealed.get(&member).is_some_and(is_sealed) {
                            sealed.insert(member, (Arc::downgrade(partition), partition.seal_all()));
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
        let is_due = count > seen || clock.now() >= woken + WAKE_AGAIN_AFTER;
        seen = count;
        if asleep.is_empty() || !is_due {
            continue;
        }
        woken = clock.now();
        // Once it is awake it is sealed as the others are. An error was logged.
        let wake = async |slot: Arc<PartitionSlot>| drop(slot.partition().await);
        stream::iter(asleep).for_each_concurrent(WAKES_MAX, wake).await;
    }
}
