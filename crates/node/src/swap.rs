//! `SWAPDB`: two databases of a tenant change their numbers, whatever they hold, at the cost of one edit of the
//! catalogue.

use std::sync::Arc;

use weir_io::{Error, ErrorKind, Nanos, Result, sleep_until};

use crate::carried::carried;
use crate::catalogue::{CatalogueEdit, commit};
use crate::node::{Node, turn, unknown};
use crate::partition_slot::SlotState;
use crate::shared::NodeShared;
use crate::tenant::Tenant;

/// How often it is tried to make certain that an edit that has failed did not happen.
const SETTLE_NANOS: Nanos = 100_000_000;

impl Node {
    /// Exchanges the databases of `tenant` that are called `one` and `other`, durably: all that was written before is
    /// made durable first, so that no crash finds the exchange without it. `alone` is let go when it is decided, also
    /// where nobody waits any more: until then nobody else runs commands of this tenant.
    ///
    /// # Errors
    /// `NotFound`; I/O: then nothing was exchanged, and no crash will find that it was.
    pub async fn swap_databases(
        &self,
        tenant: &Arc<Tenant>,
        (one, other): (u8, u8),
        alone: impl Send + 'static,
    ) -> Result<()> {
        let (shared, tenants, tenant) = (Arc::clone(self.shared()), Arc::clone(self.all_tenants()), Arc::clone(tenant));
        carried(&self.shared().machine.spawn, async move {
            let _alone = alone;
            let (found, _turn) = turn(&tenants, tenant.name()).await?;
            if !Arc::ptr_eq(&found, &tenant) {
                return Err(unknown(tenant.name()));
            }
            make_durable(&tenant).await?;
            let databases = tenant.databases().swapped(one, other);
            let mut listing = tenant.listing(tenant.partition_numbers(), (*tenant.settings()).clone());
            listing.databases = databases;
            let edit = CatalogueEdit { put: vec![listing], ..CatalogueEdit::default() };
            let committed = commit(&mut *shared.catalogue.lock().await, edit).await;
            match committed {
                Ok(()) => {
                    tenant.set_databases(databases);
                    Ok(())
                }
                Err(error) => {
                    settle(&shared).await?;
                    Err(error)
                }
            }
        })
        .await
    }
}

/// Makes durable what was written to the tenant so far, where its sync mode promises anything.
async fn make_durable(tenant: &Tenant) -> Result<()> {
    for slot in tenant.partitions() {
        // One that is asleep has everything on the device, one that falls asleep not yet.
        if matches!(slot.state(), SlotState::Awake | SlotState::Leaving) {
            slot.partition().await?.make_durable().await?;
        }
    }
    Ok(())
}

/// Waits until no crash can find an edit done that has failed: what is written under the old numbers would be another
/// database's.
async fn settle(shared: &NodeShared) -> Result<()> {
    let clock = &shared.machine.clock;
    while let Err(error) = shared.catalogue.lock().await.settle().await {
        if error.kind() == ErrorKind::Closed {
            return Err(Error::new(ErrorKind::Closed, "swap", "databases", "the node ends"));
        }
        tracing::warn!(%error, "a tenant waits until the catalogue can be written");
        sleep_until(clock, clock.now() + SETTLE_NANOS).await;
    }
    Ok(())
}
