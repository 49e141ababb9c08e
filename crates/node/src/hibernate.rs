//! Puts partitions that nobody uses to sleep, and for a while wakes those that hold expired data.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures_util::{StreamExt, stream};
use parking_lot::RwLock;
use weir_io::{Clock, Nanos, sleep_until};

use crate::partition_slot::PartitionSlot;
use crate::tenant::Tenants;
use crate::workers::Workers;

/// Partitions on their way to sleep at a time: the flush of each waits for the disk, and holds the buffers of one job.
const SLEEPERS_MAX: usize = 8;

/// A sleeper that was woken to give space back goes to sleep again after this time, whether it has given it back or
/// not.
const GIVING_BACK_MAX: Nanos = 60_000_000_000;
/// How often it checks whether the space was given back.
const LOOK: Nanos = 100_000_000;

/// Looks at all partitions twice in `after` nanoseconds. A partition that was asked nothing between three looks, and
/// whose tenant has no witness of what expires, goes to sleep. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, clock: Arc<dyn Clock>, workers: Arc<Workers>, after: Nanos) {
    let mut seen: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    loop {
        sleep_until(&clock, clock.now() + (after / 2).max(1)).await;
        let Some(slots) = tenants.upgrade().map(|tenants| tenants.read().slots()) else { return };
        let (mut next, mut idle) = (BTreeMap::new(), Vec::new());
        for slot in slots {
            let Some((number, count)) = asked(&slot) else { continue };
            let has_to_tell = slot.awake().as_ref().is_some_and(|partition| partition.has_to_tell());
            let looks = match seen.get(&number) {
                // While asleep it would tell nobody what expires.
                _ if has_to_tell => 0,
                Some(&(before, looks)) if before == count => looks + 1,
                _ => 0,
            };
            if looks >= 2 {
                idle.push((slot, (number, count)));
            } else {
                next.insert(number, (count, looks));
            }
        }
        let sleep = async |(slot, seen): (Arc<PartitionSlot>, _)| {
            // It may have been asked while others fell asleep.
            if asked(&slot) == Some(seen) {
                slot.sleep().await;
            }
        };
        stream::iter(idle).for_each_concurrent(SLEEPERS_MAX, sleep).await;
        give_back(&tenants, &clock, &workers).await;
        seen = next;
    }
}

/// Wakes partitions that sleep while much of what they hold has expired, one at a time and while no other compaction is
/// under way, until that space is given back.
async fn give_back(tenants: &Weak<RwLock<Tenants>>, clock: &Arc<dyn Clock>, workers: &Workers) {
    let Some(slots) = tenants.upgrade().map(|tenants| tenants.read().slots()) else { return };
    for slot in slots.into_iter().filter(|slot| slot.sleeps_on_dead_bytes()) {
        if workers.compactions() != (0, 0) {
            return;
        }
        // Its error was logged; it is tried again when somebody asks for the partition.
        let Ok(partition) = slot.partition().await else { continue };
        let (seen, until) = (asked(&slot), clock.now() + GIVING_BACK_MAX);
        while partition.is_giving_back() && clock.now() < until {
            sleep_until(clock, clock.now() + LOOK).await;
        }
        drop(partition);
        if asked(&slot) == seen {
            slot.sleep().await;
        }
    }
}

/// The number of an open partition, and how much it was asked.
fn asked(slot: &PartitionSlot) -> Option<(u32, u64)> {
    slot.awake().as_ref().map(|partition| (partition.owner().partition, partition.asked()))
}
