//! Putting to sleep whom nobody asks anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures_util::{StreamExt, stream};
use parking_lot::RwLock;
use weir_io::{Clock, Nanos, sleep_until};

use crate::home::Home;
use crate::node::Tenants;

/// Partitions on their way to sleep at a time: the flush of each waits for the disk, and holds the buffers of one job.
const SLEEPERS_MAX: usize = 8;

/// Looks around twice in `after` nanoseconds: who has been asked nothing between three looks goes to sleep. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, clock: Arc<dyn Clock>, after: Nanos) {
    let mut seen: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    loop {
        sleep_until(&clock, clock.now() + (after / 2).max(1)).await;
        let Some(homes) = tenants.upgrade().map(|tenants| tenants.read().homes()) else { return };
        let (mut next, mut idle) = (BTreeMap::new(), Vec::new());
        for home in homes {
            let Some((number, count)) = asked(&home) else { continue };
            let looks = match seen.get(&number) {
                Some(&(before, looks)) if before == count => looks + 1,
                _ => 0,
            };
            if looks >= 2 {
                idle.push((home, (number, count)));
            } else {
                next.insert(number, (count, looks));
            }
        }
        let sleep = async |(home, seen): (Arc<Home>, _)| {
            // It may have been asked while others fell asleep.
            if asked(&home) == Some(seen) {
                home.sleep().await;
            }
        };
        stream::iter(idle).for_each_concurrent(SLEEPERS_MAX, sleep).await;
        seen = next;
    }
}

/// The number of an open partition, and how much it was asked.
fn asked(home: &Home) -> Option<(u32, u64)> {
    home.awake().as_ref().map(|partition| (partition.owner().partition, partition.asked()))
}
