//! The terms of a node's tenants about their shares, for everything that is shared between tenants.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use weir_admission::policy::share::{Claimant, ShareTerms};
use weir_model::TenantId;

/// The terms by tenant. A tenant that is not in it is one among equals.
#[derive(Debug, Default)]
pub(crate) struct TermsBook(RwLock<BTreeMap<u32, ShareTerms>>);

impl TermsBook {
    /// From now on `tenant` has these terms.
    pub fn set(&self, tenant: TenantId, terms: ShareTerms) {
        let mut book = self.0.write();
        match terms == ShareTerms::default() {
            true => drop(book.remove(&tenant.0)),
            false => drop(book.insert(tenant.0, terms)),
        }
    }

    /// Forgets `tenant`, which is gone.
    pub fn forget(&self, tenant: TenantId) {
        self.set(tenant, ShareTerms::default());
    }

    /// The terms of `tenant`.
    pub fn of(&self, tenant: u32) -> ShareTerms {
        self.0.read().get(&tenant).copied().unwrap_or_default()
    }

    /// `tenants` with their terms.
    pub fn claimants(&self, tenants: &[u32]) -> Vec<Claimant> {
        let book = self.0.read();
        let claimant = |&tenant: &u32| Claimant { tenant, terms: book.get(&tenant).copied().unwrap_or_default() };
        tenants.iter().map(claimant).collect()
    }
}
