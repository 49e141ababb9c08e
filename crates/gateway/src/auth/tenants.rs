//! The tenants of a node, as the doorman and the sessions see them.

use std::sync::Arc;

use weir_model::TenantName;
use weir_node::{Node, SlotState, Tenant};

use super::{Directory, Grant, Standing, Tenancy};
use crate::store::TenantStore;

/// The node's catalogue as a directory.
pub struct NodeTenants(Arc<Node>);

impl NodeTenants {
    /// The tenants of `node`.
    pub fn new(node: Arc<Node>) -> Self {
        Self(node)
    }
}

impl Directory<TenantStore> for NodeTenants {
    fn find(&self, name: &str) -> Option<(Grant<TenantStore>, Option<Vec<u8>>)> {
        let tenant = self.0.tenant(&TenantName::new(name).ok()?)?;
        let secret = tenant.settings().secret.as_ref().map(|secret| secret.as_bytes().to_vec());
        let grant = Grant {
            tenant: tenant.id().0,
            name: tenant.name().as_str().into(),
            store: TenantStore::new(&self.0, Arc::clone(&tenant)),
            tenancy: Arc::new(Settled(tenant)),
        };
        Some((grant, secret))
    }
}

/// What the catalogue says of one tenant.
struct Settled(Arc<Tenant>);

impl Tenancy for Settled {
    fn standing(&self) -> Standing {
        let slot = self.0.partitions().first();
        // Awake is the rule, and a load says so.
        if slot.is_none_or(|slot| slot.awake().is_none() && slot.state() == SlotState::Gone) {
            Standing::Dropped
        } else if self.0.is_suspended() {
            Standing::Suspended
        } else {
            Standing::Active
        }
    }

    fn connections_max(&self) -> u32 {
        self.0.settings().connections_max
    }
}
