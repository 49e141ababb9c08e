//! The state that the catalogue describes: the tenants, the numbers that are free, and the partitions that are to be
//! removed.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::TenantId;

use super::edit::{CatalogueEdit, Listing};
use crate::log_kind::LogKind;

/// The state of the catalogue, in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listings {
    /// Tenants by number.
    pub tenants: BTreeMap<TenantId, Listing>,
    /// First tenant number never used.
    pub next_tenant: u32,
    /// First partition number never used.
    pub next_partition: u32,
    /// The partitions that have been opened once, and so have files.
    pub used: BTreeSet<u32>,
    /// The partitions whose directories are to be removed: of tenants that were dropped or emptied, and of restores
    /// that have not ended. No other directory is ever removed.
    pub condemned: BTreeSet<u32>,
}

impl Listings {
    /// Listings without a tenant, and with all numbers free.
    pub fn empty() -> Self {
        // 0 is the node itself.
        Self { next_tenant: 1, next_partition: 1, ..Self::default() }
    }

    /// The edit that makes these listings out of empty ones; the caller stamps it.
    pub fn snapshot(&self) -> CatalogueEdit {
        CatalogueEdit {
            next_tenant: Some(self.next_tenant),
            next_partition: Some(self.next_partition),
            put: self.tenants.values().cloned().collect(),
            used: self.used.iter().copied().collect(),
            condemned: self.condemned.iter().copied().collect(),
            ..CatalogueEdit::default()
        }
    }

    /// Applies `edit` to these listings.
    pub fn apply(&mut self, edit: CatalogueEdit) {
        self.next_tenant = edit.next_tenant.unwrap_or(self.next_tenant);
        self.next_partition = edit.next_partition.unwrap_or(self.next_partition);
        for id in edit.dropped {
            let given_up = self.tenants.remove(&id).map(|listing| listing.partitions);
            self.condemn(given_up.unwrap_or_default());
        }
        for listing in edit.put {
            for number in &listing.partitions {
                // A restore has filled the partition that was reserved for it.
                self.condemned.remove(number);
            }
            let partitions = listing.partitions.clone();
            let old = self.tenants.insert(listing.id, listing).map(|old| old.partitions).unwrap_or_default();
            self.condemn(old.into_iter().filter(|number| !partitions.contains(number)).collect());
        }
        self.condemn(edit.condemned);
        for number in edit.removed {
            self.condemned.remove(&number);
        }
        self.used.extend(edit.used);
    }

    fn condemn(&mut self, numbers: Vec<u32>) {
        for number in numbers {
            self.used.remove(&number);
            self.condemned.insert(number);
        }
    }

    /// What is impossible in these listings, if anything: a name, a tenant or a partition that occurs twice, or a
    /// number in use that is said to be free.
    pub fn fault(&self) -> Option<String> {
        let (mut names, mut partitions) = (BTreeSet::new(), BTreeSet::new());
        for listing in self.tenants.values() {
            if !names.insert(&listing.name) {
                return Some(format!("two tenants have the name {}", listing.name));
            }
            if listing.id.0 == 0 || listing.id.0 >= self.next_tenant {
                return Some(format!("tenant {} has the impossible number {}", listing.name, listing.id.0));
            }
            for &number in &listing.partitions {
                if number == 0 || number >= self.next_partition || !partitions.insert(number) {
                    return Some(format!(
                        "tenant {} has partition {number}, whose number is impossible or occurs twice",
                        listing.name
                    ));
                }
            }
        }
        if let Some(number) = self.used.difference(&partitions).next() {
            return Some(format!("partition {number} is marked as used, but belongs to no tenant"));
        }
        if let Some(number) = self.condemned.intersection(&partitions).next() {
            return Some(format!("partition {number} is to be removed, but belongs to a tenant"));
        }
        if let Some(number) = self.condemned.iter().find(|&&number| number == 0 || number >= self.next_partition) {
            return Some(format!("partition {number} is to be removed, but its number was never given out"));
        }
        None
    }

    /// The partitions that `edit` gives up.
    pub fn given_up(&self, edit: &CatalogueEdit) -> Vec<u32> {
        let dropped = edit.dropped.iter().filter_map(|id| self.tenants.get(id)).flat_map(|listing| &listing.partitions);
        let replaced = edit.put.iter().filter_map(|new| Some((new, self.tenants.get(&new.id)?)));
        let replaced =
            replaced.flat_map(|(new, old)| old.partitions.iter().filter(|number| !new.partitions.contains(number)));
        dropped.chain(replaced).copied().collect()
    }

    /// Whether `edit` makes room for something new: a tenant, or the files of a partition.
    pub fn is_growth(&self, edit: &CatalogueEdit) -> bool {
        let is_new = |listing: &Listing| !self.tenants.contains_key(&listing.id);
        edit.next_tenant.is_some() || !edit.used.is_empty() || edit.put.iter().any(is_new)
    }

    /// The partitions that write to the shared log.
    pub fn sharing_a_log(&self) -> BTreeSet<u32> {
        let sharing = self.tenants.values().filter(|listing| listing.log == LogKind::Shared);
        sharing.flat_map(|listing| &listing.partitions).copied().collect()
    }

    /// The numbers of all partitions.
    pub fn partitions(&self) -> BTreeSet<u32> {
        self.tenants.values().flat_map(|listing| &listing.partitions).copied().collect()
    }
}
