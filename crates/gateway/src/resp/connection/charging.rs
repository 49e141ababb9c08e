//! Capacity units: commands above their tenant's limits wait here, behind the replies of those before them.

use std::sync::Arc;

use weir_io::sleep_until;
use weir_node::waits::{self, Cause};
use weir_node::{Admission, Quota, Unit};

use super::Connection;
use crate::notices::What;
use crate::resp::bill::{Bill, Charge};
use crate::resp::error::{Error, Outcome};
use crate::resp::frame::Args;
use crate::resp::table::Command;
use crate::store::Store;

impl<S: Store> Connection<S> {
    /// What pays for the session's commands.
    #[inline]
    pub(super) fn quota(&self) -> Option<&Arc<Quota>> {
        self.session.as_ref().and_then(|session| session.store.quota())
    }

    /// The partition that has `key`, as the quota counts them.
    pub(super) fn partition_of(&self, key: &[u8]) -> u32 {
        self.session.as_ref().map_or(0, |session| session.store.partition_of(key))
    }

    /// Whether commands are charged.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.quota().is_some_and(|quota| !quota.is_free())
    }

    /// Pays what `command` costs as far as can be told. When it must wait, everything before it is answered first.
    pub(super) async fn charge(&mut self, command: &Command, args: Args<'_>) -> Outcome<Charge> {
        let charge = Charge::of(command, args).await;
        for unit in Unit::ALL.into_iter().filter(|&unit| charge.units(unit) > 0) {
            let Some(quota) = self.quota() else { break };
            if quota.try_admit(unit, charge.units(unit)) {
                continue;
            }
            let partition = self.partition_of(key_of(command, args));
            let admission = quota.admit(unit, partition, charge.units(unit));
            if let Admission::Waiting(_) = admission {
                self.flush_or_close().await?;
            }
            let begun = self.server.clock.now();
            let admitted = admission.await;
            // Its wait is not the command's own time.
            self.lap = self.server.clock.now();
            waits::book(Cause::Quota, self.lap - begun);
            if let Err(refused) = admitted {
                self.notice(What::Throttled);
                return Err(refused.into());
            }
        }
        Ok(charge)
    }

    /// Waits until its tenant's dead bytes have made room for what is to be stored. Everything before it is answered first.
    pub(super) async fn wait_for_disk(&mut self) -> Outcome {
        self.flush_or_close().await?;
        let Some(store) = self.session.as_ref().map(|session| session.store.clone()) else { return Ok(()) };
        let begun = self.server.clock.now();
        let room = store.room_on_disk().await;
        // Its wait is not the command's own time.
        self.lap = self.server.clock.now();
        waits::book(Cause::Stall, self.lap - begun);
        room.map_err(|full| {
            self.notice(What::DiskFull);
            Error::disk_full(full)
        })
    }

    /// Between two pages of keys: others are served, what was gone through is paid, and the next page has its unit. A command that
    /// has begun is not refused any more, it waits.
    pub(in crate::resp) async fn end_page(&mut self) -> Outcome {
        tokio::task::yield_now().await;
        let Some(mut bill) = self.bill else { return Ok(()) };
        let Some(quota) = self.quota().cloned() else { return Ok(()) };
        quota.settle(Unit::Read, 0, 0, bill.take_unpaid());
        let clock = Arc::clone(&self.server.clock);
        let before = clock.now();
        while !quota.try_admit(Unit::Read, 1) {
            // It may be long until what is in front of it is written.
            self.replies.own_values();
            if self.server.is_draining() {
                return Err(Error::new("ERR the server is ending"));
            }
            match quota.admit(Unit::Read, 0, 1).await {
                Ok(()) => break,
                Err(refused) => sleep_until(&clock, clock.now() + refused.retry_in_ms.max(1) * 1_000_000).await,
            }
        }
        // Its wait is not the command's own time.
        let waited = clock.now() - before;
        self.lap += waited;
        waits::book(Cause::Quota, waited);
        bill.paid(1);
        self.bill = Some(bill);
        Ok(())
    }

    /// Charges one read unit to the command under way, if it is there.
    pub(in crate::resp) fn try_pay_page(&mut self) -> bool {
        if self.bill.is_some() && !self.quota().is_none_or(|quota| quota.try_admit(Unit::Read, 1)) {
            return false;
        }
        if let Some(bill) = &mut self.bill {
            bill.paid(1);
        }
        true
    }

    /// Pays the rest of what a command has cost.
    pub(super) fn settle(&self, charge: Charge, bill: Bill, key: &[u8]) {
        let Some(quota) = self.quota() else { return };
        for unit in Unit::ALL {
            let (charged, owed) = (charge.units(unit) + bill.charged(unit), charge.owed(unit, bill));
            if charged > 0 || owed > 0 {
                quota.settle(unit, self.partition_of(key), charged, owed);
            }
        }
    }
}

/// The first key of a command, for those that have one: it says which partition pays.
pub(super) fn key_of<'a>(command: &Command, args: Args<'a>) -> &'a [u8] {
    let (first, _, step) = command.keys_with(args.get(1));
    let key = if step == 0 { None } else { args.get(first as usize) };
    key.unwrap_or_default()
}
