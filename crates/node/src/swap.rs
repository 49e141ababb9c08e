//! `SWAPDB`: exchanges the numbers of two databases of a tenant, whatever they hold, at the cost of one edit of the
//! catalogue.

use std::sync::Arc;

use weir_io::{Error, ErrorKind, Nanos, Result, sleep_until};
use weir_log::SyncMode;

use crate::carried::carried;
use crate::catalogue::{CatalogueEdit, commit};
use crate::layout;
use crate::log_kind::LogKind;
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
            make_durable(&shared, &tenant).await?;
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
///
/// A partition that fell asleep has everything on the device. One that was not opened since the process before this one
/// was killed may have records that are in the page cache alone. Opening the log makes them durable.
async fn make_durable(shared: &NodeShared, tenant: &Tenant) -> Result<()> {
    if shared.config.sync == SyncMode::None {
        return Ok(());
    }
    if tenant.log() == LogKind::Shared && shared.node_log.get().is_none() && shared.node_log.exists().await? {
        shared.shared_log().await?;
    }
    for slot in tenant.partitions() {
        let may_lose = match slot.state() {
            SlotState::Awake | SlotState::Waking | SlotState::Leaving => true,
            SlotState::Asleep if tenant.log() == LogKind::Own => {
                layout::has_log(&shared.own_fs, &shared.config.dir, slot.owner().partition).await?
            }
            SlotState::Asleep | SlotState::Gone => false,
        };
        if may_lose && let Some(partition) = slot.partition_to_read().await? {
            partition.make_durable().await?;
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
