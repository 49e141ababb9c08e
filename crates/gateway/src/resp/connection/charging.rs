//! Capacity units: a command above its tenant's limits waits here, after the replies of the commands before it were
//! sent.

use std::sync::Arc;

use weir_command::bill::{Charge, add_request};
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_command::table::Id;
use weir_command::{Args, Command};
use weir_node::request_units::{MILLI, Module, Prices};
use weir_node::waits::{self, Cause};
use weir_node::{Access, Admission, NodeAdmission, Quota, Unit};

use super::Connection;
use crate::notices::What;
use crate::resp::outbox::YIELD;
use crate::store::Store;

impl<S: Store> Connection<S> {
    /// The partition that has `key`, by the number that the quota uses.
    pub(super) fn partition_of(&self, key: &[u8]) -> u32 {
        self.session.store().map_or(0, |store| store.partition_of(key))
    }

    /// Whether commands are charged.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.session.outbox.quota().is_some_and(|quota| !quota.is_free())
    }

    /// Pays what `command` costs, as far as that is known in advance. If it must wait, everything before it is answered
    /// first.
    pub(super) async fn charge(&mut self, command: &Command, args: Args<'_>) -> Outcome<Charge> {
        let prices = self.prices();
        let charge = Charge::of(command, args, YIELD, prices.as_deref()).await;
        let Some(quota) = self.session.outbox.quota().cloned() else { return Ok(charge) };
        for unit in Unit::ALL.into_iter().filter(|&unit| charge.units(unit) > 0) {
            let is_saved_up = unit == Unit::Request && command.is_query() && quota.try_admit_query(charge.units(unit));
            if is_saved_up || quota.try_admit(unit, charge.units(unit)) {
                continue;
            }
            let partition = self.partition_of(key_of(command, args));
            let admission = quota.admit(unit, partition, charge.units(unit));
            if let Admission::Waiting(_) = admission
                && let Err(gone) = self.flush_before().await
            {
                give_back(&quota, &charge, Some(unit), partition);
                return Err(gone);
            }
            let begun = self.server.clock.now();
            let admitted = self.session.outbox.while_pushing(admission).await;
            // The wait does not count as the command's own time.
            let now = self.server.clock.now();
            self.session.outbox.lap = now;
            waits::book(Cause::Quota, now - begun);
            if let Err(refused) = admitted {
                give_back(&quota, &charge, Some(unit), partition);
                self.session.notice(What::Throttled);
                return Err(refused.into());
            }
        }
        self.enter_node(command, args, &quota, &charge).await?;
        Ok(charge)
    }

    /// Waits in the node's queue, if there is one, to run a command that was charged `charge` (XS-27).
    async fn enter_node(&mut self, command: &Command, args: Args<'_>, quota: &Quota, charge: &Charge) -> Outcome {
        let access = if command.writes() { Access::Write } else { Access::Read };
        let units = charge.units(Unit::Request);
        let admission = (units > 0).then(|| quota.enter_node(access, units)).flatten();
        let Some(admission) = admission.filter(NodeAdmission::waits) else { return Ok(()) };
        let outcome = match self.flush_before().await {
            Ok(()) => {
                let begun = self.server.clock.now();
                let admitted = self.session.outbox.while_pushing(admission).await;
                let now = self.server.clock.now();
                self.session.outbox.lap = now;
                waits::book(Cause::NodeQueue, now - begun);
                quota.has_queued(now - begun);
                admitted.map_err(|busy| {
                    self.session.notice(What::Throttled);
                    busy.into()
                })
            }
            Err(gone) => Err(gone),
        };
        if outcome.is_err() {
            give_back(quota, charge, None, self.partition_of(key_of(command, args)));
        }
        outcome
    }

    /// The prices in request units, if anybody waits for these.
    pub(super) fn prices(&self) -> Option<Arc<Prices>> {
        let outbox = &self.session.outbox;
        let is_counted = outbox.quota().is_some_and(|quota| quota.counts_request_units());
        is_counted.then(|| Arc::clone(&outbox.prices))
    }

    /// Waits until the space of the tenant's dead bytes has been given back, so that there is room for what is to be
    /// stored. Everything before the command is answered first.
    pub(super) async fn wait_for_disk(&mut self) -> Outcome {
        self.flush_before().await?;
        let Ok(store) = self.session.store().cloned() else { return Ok(()) };
        let begun = self.server.clock.now();
        let room = self.session.outbox.while_pushing(store.room_on_disk()).await;
        // The wait does not count as the command's own time.
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
            self.leave_databases().await;
        }
        self.session.outbox.flush_or_close().await
    }

    /// Begins the bill of a command that was charged `charge`.
    pub(super) fn begin_bill(&mut self, charge: Option<&Charge>) {
        self.session.bill.clear();
        // The pages of the command continue from there.
        if let Some(charge) = charge {
            self.session.bill.paid(Unit::Request, charge.units(Unit::Request));
        }
    }

    /// Ends the bill of the command under way, whose reply has `reply_bytes`: counts what the command has cost, and
    /// pays the rest of it if that is limited.
    pub(super) fn end_bill(&mut self, command: &Command, args: Args<'_>, charge: Option<&Charge>, reply_bytes: u64) {
        let new_rounds = u64::from(self.session.outbox.take_new_round());
        let elements = self.session.outbox.replies.take_announced();
        let bill = &mut *self.session.bill;
        add_request(&mut bill.work, args, reply_bytes);
        if new_rounds > 0 {
            bill.work.count(Module::Round, new_rounds);
        }
        if elements > 0 {
            bill.work.count(Module::ReplyElement, elements);
        }
        if bill.work[Module::LogRecord] > 0 && self.session.outbox.take_uncommitted() {
            bill.work.count(Module::Commit, 1);
        }
        let device = waits::take_device_reads();
        if device.reads > 0 {
            bill.work.count(Module::DeviceRead, device.reads);
            bill.work.count(Module::DeviceByte, device.bytes);
        }
        let price = self.session.last.price_of(&bill.work, &self.session.outbox.prices);
        self.session.outbox.count(|stats| stats.cost.add(&price));
        if let Some(charge) = charge {
            self.settle(charge, price.milli_units, key_of(command, args));
        }
        if command.id == Id::Ru {
            self.session.bill.clear();
            return;
        }
        if let Some(sum) = &mut self.session.sum {
            sum.add(&price, &self.session.bill.work);
        }
        self.session.last.replace(command.name, price, &mut self.session.bill);
        if command.id == Id::Exec
            && let Some(members) = self.session.in_transaction.take()
        {
            self.session.last.add(&members);
        }
    }

    /// Puts the cost of the command under way in front of its reply, if a client of RESP3 has asked for that and the
    /// whole reply is still here.
    pub(super) fn tell_cost(&mut self) {
        let milli_units = self.session.last.price.milli_units;
        let outbox = &mut self.session.outbox;
        if outbox.replies.protocol == Protocol::Resp3 && outbox.has_whole_answer() {
            let from = outbox.answer_from();
            outbox.replies.put_attribute(from, "ru", milli_units as f64 / MILLI as f64);
        }
    }

    /// Pays the rest of what a command has cost.
    fn settle(&self, charge: &Charge, milli_units: u64, key: &[u8]) {
        let Some(quota) = self.session.outbox.quota() else { return };
        let bill = &self.session.bill;
        for unit in Unit::ALL {
            let before = if unit == Unit::Request { 0 } else { charge.units(unit) };
            let (charged, owed) = (before + bill.charged(unit), charge.owed(unit, bill, milli_units));
            if charged > 0 || owed > 0 {
                quota.settle(unit, self.partition_of(key), charged, owed);
            }
        }
    }
}

/// Gives back what was charged to a command before it was refused for `unit`, or for the node's units, because it is
/// not run.
fn give_back(quota: &Quota, charge: &Charge, unit: Option<Unit>, partition: u32) {
    for before in Unit::ALL.into_iter().take_while(|&before| Some(before) != unit) {
        quota.refund(before, partition, charge.units(before));
    }
}

/// The first key of a command, if it has one. It decides which partition pays.
pub(super) fn key_of<'a>(command: &Command, args: Args<'a>) -> &'a [u8] {
    command.keys_in(args).next().unwrap_or_default()
}
