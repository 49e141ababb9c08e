//! `SWAPDB`: exchanges the numbers of two databases of a tenant, whatever they hold, at the cost of one edit of the
//! catalogue.

use std::sync::Arc;

use weir_io::{Error, ErrorKind, Nanos, Result, sleep_until};

use crate::carried::carried;
use crate::catalogue::{CatalogueEdit, commit};
use crate::node::{Node, turn, unknown};
use crate::partition_slot::SlotState;
use crate::shared::NodeShared;
use crate::tenant::Tenant;

/// How often it is tried to make certain that a failed edit did not happen.
const SETTLE_NANOS: Nanos = 100_000_000;

impl Node {
    /// Exchanges the databases of `tenant` that are called `one` and `other`, durably. Everything written before is
    /// made durable first, so that no crash finds the exchange without it. Until the outcome is decided nobody else
    /// runs commands of this tenant: `alone` is dropped then, even if nobody waits for the outcome any more.
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

/// Makes durable what was written to the tenant so far, if its sync mode promises durability at all.
async fn make_durable(tenant: &Tenant) -> Result<()> {
    for slot in tenant.partitions() {
        // A partition that is asleep has everything on the device; one that is falling asleep does not yet.
        if matches!(slot.state(), SlotState::Awake | SlotState::Leaving) {
            slot.partition().await?.make_durable().await?;
        }
    }
    Ok(())
}

/// Waits until no crash can find that a failed edit was done: writes under the old numbers would then belong to another
/// database.
async fn settle(shared: &NodeShared) -> Result<()> {
    let clock = &shared.machine.clock;
    loop {
        // Not in the condition of a `while let`, which would keep the catalogue locked in the body: others need it, for
        // instance to open a partition that is asleep.
        let settled = shared.catalogue.lock().await.settle().await;
        let Err(error) = settled else { return Ok(()) };
        if error.kind() == ErrorKind::Closed {
            return Err(Error::new(ErrorKind::Closed, "swap", "databases", "the node is shutting down"));
        }
        tracing::warn!(%error, "the requests of a tenant wait until the catalogue can be written");
        sleep_until(clock, clock.now() + SETTLE_NANOS).await;
    }
}
