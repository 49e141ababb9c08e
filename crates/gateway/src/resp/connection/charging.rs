//! Capacity units: commands above their tenant's limits wait here, behind the replies of those before them.

use weir_command::bill::{Bill, Charge};
use weir_command::error::{Error, Outcome};
use weir_command::{Args, Command};
use weir_node::waits::{self, Cause};
use weir_node::{Admission, Unit};

use super::Connection;
use crate::notices::What;
use crate::resp::outbox::YIELD;
use crate::store::Store;

impl<S: Store> Connection<S> {
    /// The partition that has `key`, as the quota counts them.
    pub(super) fn partition_of(&self, key: &[u8]) -> u32 {
        self.session.store().map_or(0, |store| store.partition_of(key))
    }

    /// Whether commands are charged.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.session.outbox.quota().is_some_and(|quota| !quota.is_free())
    }

    /// Pays what `command` costs as far as can be told. When it must wait, everything before it is answered first.
    pub(super) async fn charge(&mut self, command: &Command, args: Args<'_>) -> Outcome<Charge> {
        let charge = Charge::of(command, args, YIELD).await;
        for unit in Unit::ALL.into_iter().filter(|&unit| charge.units(unit) > 0) {
            let Some(quota) = self.session.outbox.quota().cloned() else { break };
            if quota.try_admit(unit, charge.units(unit)) {
                continue;
            }
            let partition = self.partition_of(key_of(command, args));
            let admission = quota.admit(unit, partition, charge.units(unit));
            if let Admission::Waiting(_) = admission {
                self.flush_before().await?;
            }
            let begun = self.server.clock.now();
            let admitted = self.session.outbox.while_pushing(admission).await;
            // Its wait is not the command's own time.
            let now = self.server.clock.now();
            self.session.outbox.lap = now;
            waits::book(Cause::Quota, now - begun);
            if let Err(refused) = admitted {
                self.session.notice(What::Throttled);
                return Err(refused.into());
            }
        }
        Ok(charge)
    }

    /// Waits until its tenant's dead bytes have made room for what is to be stored. Everything before it is answered
    /// first.
    pub(super) async fn wait_for_disk(&mut self) -> Outcome {
        self.flush_before().await?;
        let Ok(store) = self.session.store().cloned() else { return Ok(()) };
        let begun = self.server.clock.now();
        let room = self.session.outbox.while_pushing(store.room_on_disk()).await;
        // Its wait is not the command's own time.
        let now = self.server.clock.now();
        self.session.outbox.lap = now;
        waits::book(Cause::Stall, now - begun);
        room.map_err(|full| {
            self.session.notice(What::DiskFull);
            Error::disk_full(full)
        })
    }

    /// Answers everything before the command that is about to wait.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn flush_before(&mut self) -> Outcome {
        if self.session.outbox.answers() {
            self.submit().await;
        }
        self.session.outbox.flush_or_close().await
    }

    /// Pays the rest of what a command has cost.
    pub(super) fn settle(&self, charge: Charge, bill: Bill, key: &[u8]) {
        let Some(quota) = self.session.outbox.quota() else { return };
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
    command.keys_in(args).next().unwrap_or_default()
}
