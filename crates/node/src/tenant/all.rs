//! All tenants of a node, by name and by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::{TenantId, TenantName};

use super::Tenant;
use crate::partition_slot::PartitionSlot;

/// All tenants of a node.
#[derive(Default)]
pub(crate) struct Tenants {
    by_name: BTreeMap<TenantName, Arc<Tenant>>,
    by_id: BTreeMap<TenantId, Arc<Tenant>>,
}

impl Tenants {
    /// Adds `tenant`.
    pub fn insert(&mut self, tenant: Arc<Tenant>) {
        self.by_name.insert(tenant.name().clone(), Arc::clone(&tenant));
        self.by_id.insert(tenant.id(), tenant);
    }

    /// The slots of all partitions.
    pub fn slots(&self) -> Vec<Arc<PartitionSlot>> {
        self.by_name.values().flat_map(|tenant| tenant.partitions()).cloned().collect()
    }

    /// Every tenant, in the order of their names.
    pub fn all(&self) -> Vec<Arc<Tenant>> {
        self.by_name.values().cloned().collect()
    }

    /// The tenant called `name`.
    pub fn named(&self, name: &TenantName) -> Option<Arc<Tenant>> {
        self.by_name.get(name).cloned()
    }

    /// The tenant whose number is `id`.
    pub fn numbered(&self, id: TenantId) -> Option<Arc<Tenant>> {
        self.by_id.get(&id).cloned()
    }

    /// Whether a tenant is called `name`.
    pub fn has(&self, name: &TenantName) -> bool {
        self.by_name.contains_key(name)
    }

    /// Removes `tenant`.
    pub fn remove(&mut self, tenant: &Tenant) {
        self.by_name.remove(tenant.name());
        self.by_id.remove(&tenant.id());
    }
}
