//! All tenants of a node, by name and by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::{TenantId, TenantName};

use super::Tenant;
use crate::metrics::{Counters, PartitionMetrics};
use crate::partition_slot::PartitionSlot;

/// All tenants of a node.
#[derive(Default)]
pub(crate) struct Tenants {
    by_name: BTreeMap<TenantName, Arc<Tenant>>,
    by_id: BTreeMap<TenantId, Arc<Tenant>>,
    dropped: Dropped,
}

/// The counters of dropped tenants, so that the sums of a node never fall.
struct Dropped {
    /// The counters that nobody can raise any more, added up.
    sum: PartitionMetrics,
    /// The counters of partitions whose last requests may still be under way.
    ending: Vec<Arc<Counters>>,
}

impl Default for Dropped {
    fn default() -> Self {
        Self { sum: PartitionMetrics::asleep(&Counters::default()), ending: Vec::new() }
    }
}

impl Dropped {
    /// Takes in the counters of a tenant.
    fn add(&mut self, tenant: &Tenant) {
        let sum = &mut self.sum;
        self.ending.retain(|counters| {
            let is_over = Arc::strong_count(counters) == 1;
            if is_over {
                sum.add(&PartitionMetrics::asleep(counters));
            }
            !is_over
        });
        self.ending.extend(tenant.partitions().iter().map(|slot| Arc::clone(&slot.counters)));
    }

    fn metrics(&self) -> PartitionMetrics {
        let mut sum = self.sum.clone();
        self.ending.iter().for_each(|counters| sum.add(&PartitionMetrics::asleep(counters)));
        sum
    }
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

    /// Removes `tenant`. Its counters stay in [`Tenants::dropped`].
    pub fn remove(&mut self, tenant: &Tenant) {
        self.by_name.remove(tenant.name());
        self.by_id.remove(&tenant.id());
        self.dropped.add(tenant);
    }

    /// The counters of all tenants that were removed, added up.
    pub fn dropped(&self) -> PartitionMetrics {
        self.dropped.metrics()
    }
}
