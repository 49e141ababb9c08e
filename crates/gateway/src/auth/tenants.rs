//! The tenants of a node, as the doorman and the sessions see them.

use std::sync::{Arc, Weak};

use weir_command::acl::Hash;
use weir_io::{Error, ErrorKind, Result};
use weir_model::{Databases, TenantName};
use weir_node::{Node, StoredUser, Tenant, TenantSettings};

use super::{Checking, Directory, secret};
use crate::store::TenantStore;
use crate::tenant::tenancy::{Grant, Standing, Tenancy, UsersChange};

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
            tenancy: Arc::new(Settled { tenant, node: Arc::downgrade(&self.0) }),
        };
        Some((grant, secret))
    }
}

/// The catalogue's entry of one tenant.
struct Settled {
    tenant: Arc<Tenant>,
    /// Weak, because sessions must not keep alive a node that ends.
    node: Weak<Node>,
}

impl Tenancy for Settled {
    fn standing(&self) -> Standing {
        if self.tenant.is_gone() {
            Standing::Dropped
        } else if self.tenant.is_suspended() {
            Standing::Suspended
        } else {
            Standing::Active
        }
    }

    fn connections_max(&self) -> u32 {
        self.tenant.settings().connections_max
    }

    fn users(&self) -> Arc<[StoredUser]> {
        Arc::clone(&self.tenant.settings().users)
    }

    fn shown_secret(&self) -> Option<Hash> {
        let settings = self.tenant.settings();
        settings.secret.as_ref().and_then(|secret| secret::shown_hashes(secret.as_bytes()).first().copied())
    }

    fn databases(&self) -> Databases {
        self.tenant.databases()
    }

    fn on_log_replaced(&self, call: Arc<dyn Fn() + Send + Sync>) {
        self.tenant.on_log_replaced(call);
    }

    fn swap_databases(&self, names: (u8, u8), alone: Box<dyn Send>) -> Checking<'_, Result<()>> {
        Box::pin(async move {
            let node = self.node.upgrade();
            let node =
                node.ok_or_else(|| Error::new(ErrorKind::Closed, "swap", "databases", "the node is shutting down"))?;
            node.swap_databases(&self.tenant, names, alone).await
        })
    }

    fn change_users(&self, change: UsersChange, then: Box<dyn FnOnce() + Send>) -> Checking<'_, Result<()>> {
        Box::pin(async move {
            let node = self.node.upgrade();
            let node = node.ok_or_else(|| {
                Error::new(ErrorKind::Closed, "change", "the tenant's users", "the node is shutting down")
            })?;
            let change = move |settings: &mut TenantSettings| {
                settings.users = change(&settings.users);
                Ok::<(), Error>(())
            };
            node.alter(&self.tenant, change, then).await
        })
    }
}
