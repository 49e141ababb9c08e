//! Moves partitions away as far as that is possible without another node: it tells the operator, in the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_node::{Mover, Node, TenantId, Violation};

/// Says in the log when the node becomes short of bandwidth, when other tenants should leave, and when that is over.
pub struct Told {
    node: Weak<Node>,
    /// The tenants that should leave, as the log last said; `None` while the node is not short.
    named: Mutex<Option<BTreeSet<String>>>,
}

impl Told {
    pub fn of(node: &Arc<Node>) -> Arc<Self> {
        Arc::new(Self { node: Arc::downgrade(node), named: Mutex::default() })
    }

    /// The tenants that should leave, by name.
    fn names(&self, violation: &Violation) -> BTreeSet<String> {
        let Some(node) = self.node.upgrade() else { return BTreeSet::new() };
        let tenants = violation.moves.iter().filter_map(|it| node.tenant_by_id(TenantId(it.owner.tenant)));
        tenants.map(|tenant| tenant.name().to_string()).collect()
    }
}

impl Mover for Told {
    fn hear(&self, violation: Option<&Violation>) {
        let now = violation.map(|violation| self.names(violation));
        let mut named = self.named.lock();
        // The figures change every second; the tenants that should leave seldom do. Once some are named, fewer are no
        // news.
        let news = match (&*named, &now) {
            (Some(before), Some(now)) => !now.is_subset(before),
            (before, now) => before.is_some() != now.is_some(),
        };
        if !news {
            return;
        }
        match violation {
            Some(violation) => tracing::warn!(
                percent_of_the_disk = (violation.demand * 100.0) as u64,
                tenants_to_move = now.iter().flatten().cloned().collect::<Vec<_>>().join(","),
                "more is asked of the disk than it can give for long: compactions are put off; `weir why TENANT` explains"
            ),
            None => tracing::info!("the disk gives what is asked of it again"),
        }
        *named = match (named.take(), now) {
            (Some(before), Some(now)) => Some(&before | &now),
            (_, now) => now,
        };
    }
}
