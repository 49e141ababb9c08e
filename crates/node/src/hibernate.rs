//! Puts partitions that nobody uses to sleep, and for a while wakes those that hold expired data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::join;
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
/// The number of no partition.
const NOBODY: u32 = 0;

/// Looks at all partitions twice in `after` nanoseconds: puts idle ones to sleep, and gives back what has expired in
/// sleepers. Neither waits for the other: giving back takes up to a minute for each sleeper. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, clock: Arc<dyn Clock>, workers: Arc<Workers>, after: Nanos) {
    let woken = AtomicU32::new(NOBODY);
    let idle = put_to_sleep(&tenants, &clock, after, &woken);
    join(idle, give_back(&tenants, &clock, &workers, after, &woken)).await;
}

/// All partitions, when it is time to look at them; `None` once the node has ended.
async fn next_look(
    tenants: &Weak<RwLock<Tenants>>,
    clock: &Arc<dyn Clock>,
    after: Nanos,
) -> Option<Vec<Arc<PartitionSlot>>> {
    sleep_until(clock, clock.now() + (after / 2).max(1)).await;
    tenants.upgrade().map(|tenants| tenants.read().slots())
}

/// A partition that was asked nothing between three looks, and whose tenant has no witness of what expires, goes to
/// sleep, unless it is the one that was `woken` to give space back.
async fn put_to_sleep(tenants: &Weak<RwLock<Tenants>>, clock: &Arc<dyn Clock>, after: Nanos, woken: &AtomicU32) {
    let mut seen: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    loop {
        let Some(slots) = next_look(tenants, clock, after).await else { return };
        let (mut next, mut idle) = (BTreeMap::new(), Vec::new());
        for slot in slots {
            let Some((number, count)) = asked(&slot) else { continue };
            let has_to_tell = slot.awake().as_ref().is_some_and(|partition| partition.has_to_tell());
            let looks = match seen.get(&number) {
                // While asleep it would tell nobody what expires.
                _ if has_to_tell || woken.load(Ordering::Relaxed) == number => 0,
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
        seen = next;
    }
}

/// Wakes partitions that sleep while much of what they hold has expired, one at a time and while no other compaction is
/// under way, until that space is given back.
async fn give_back(
    tenants: &Weak<RwLock<Tenants>>,
    clock: &Arc<dyn Clock>,
    workers: &Workers,
    after: Nanos,
    woken: &AtomicU32,
) {
    loop {
        let Some(slots) = next_look(tenants, clock, after).await else { return };
        for slot in slots.into_iter().filter(|slot| slot.sleeps_on_dead_bytes()) {
            if workers.compactions() != (0, 0) {
                break;
            }
            woken.store(slot.owner().partition, Ordering::Relaxed);
            // Its error was logged; it is tried again when somebody asks for the partition.
            if let Ok(partition) = slot.partition().await {
                let (seen, until) = (asked(&slot), clock.now() + GIVING_BACK_MAX);
                while partition.is_giving_back() && clock.now() < until {
                    sleep_until(clock, clock.now() + LOOK).await;
                }
                drop(partition);
                if asked(&slot) == seen {
                    slot.sleep().await;
                }
            }
            woken.store(NOBODY, Ordering::Relaxed);
        }
    }
}

/// The number of an open partition, and how much it was asked.
fn asked(slot: &PartitionSlot) -> Option<(u32, u64)> {
    slot.awake().as_ref().map(|partition| (partition.owner().partition, partition.asked()))
}
