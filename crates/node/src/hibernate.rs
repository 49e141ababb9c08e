//! Putting to sleep whom nobody asks anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use weir_io::{Clock, Nanos, sleep_until};

use crate::home::Home;
use crate::node::Tenants;

/// Looks around twice in `after` nanoseconds: who has been asked nothing between three looks goes to sleep. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, clock: Arc<dyn Clock>, after: Nanos) {
    let mut seen: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    loop {
        sleep_until(&clock, clock.now() + (after / 2).max(1)).await;
        let Some(homes) = tenants.upgrade().map(|tenants| tenants.read().homes()) else { return };
        let mut next = BTreeMap::new();
        for home in homes {
            let Some((number, asked)) = asked(&home) else { continue };
            let looks = match seen.get(&number) {
                Some(&(before, looks)) if before == asked => looks + 1,
                _ => 0,
            };
            if looks >= 2 {
                home.sleep().await;
            } else {
                next.insert(number, (asked, looks));
            }
        }
        seen = next;
    }
}

/// The number of an open partition, and how much it was asked.
fn asked(home: &Home) -> Option<(u32, u64)> {
    home.awake().as_ref().map(|partition| (partition.owner().partition, partition.asked()))
}
