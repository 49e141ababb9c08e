//! Who moves partitions away while there is no other node to move them to: the operator, who reads the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_node::{Mover, Node, TenantId, Violation};

/// Says in the log when the node becomes short, when others should leave, and when it is over.
pub struct Told {
    node: Weak<Node>,
    /// Who should leave, as the log has it; `None` while the node is not short.
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
        // Second by second the figures change; who should leave seldom does, and once somebody is named, fewer are no
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
