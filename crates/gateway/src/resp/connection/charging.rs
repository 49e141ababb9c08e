//! Capacity units: a command above its tenant's limits waits here, after the replies of the commands before it were
//! sent.

use std::sync::Arc;

use weir_command::bill::{Charge, add_request};
use weir_command::error::{Error, Outcome};
use weir_command::reply::Protocol;
use weir_command::table::Id;
use weir_command::{Args, Command};
use weir_io::Nanos;
use weir_node::request_units::{MILLI, Module, Prices};
use weir_node::waits::{self, Cause};
use weir_node::{Access, Admission, NodeAdmission, Quota, Unit};

use super::Connection;
use crate::notices::What;
use crate::resp::cost::count_device_reads;
use crate::resp::outbox::YIELD;
use crate::store::Store;

/// How many kinds of units there are.
const UNITS: usize = Unit::ALL.len();

/// What is asked for at once: for one command, or for all commands of a transaction together.
pub(super) struct Demand<'a> {
    /// The units of each kind.
    units: [u64; UNITS],
    /// The request units among them that queries cost, which may be paid from what was saved up.
    of_queries: u64,
    access: Access,
    /// The command whose first key decides which partition pays.
    payer: (&'a Command, Args<'a>),
}

impl<'a> Demand<'a> {
    /// What `command` asks for, which costs `charge`.
    pub(super) fn of(command: &'a Command, args: Args<'a>, charge: &Charge) -> Self {
        Self {
            units: Unit::ALL.map(|unit| charge.units(unit)),
            of_queries: if command.is_query(args) { charge.units(Unit::Request) } else { 0 },
            access: if command.writes_with(args) { Access::Write } else { Access::Read },
            payer: (command, args),
        }
    }

    /// Asks for what `other` asks for, too.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, units) in self.units.iter_mut().zip(other.units) {
            *sum = sum.saturating_add(units);
        }
        self.of_queries = self.of_queries.saturating_add(other.of_queries);
        if other.access == Access::Write {
            self.access = Access::Write;
        }
        if self.key().is_empty() {
            self.payer = other.payer;
        }
    }

    /// Thousandths of request units.
    pub(super) fn milli_units(&self) -> u64 {
        self.units[Unit::Request as usize]
    }

    fn key(&self) -> &'a [u8] {
        let (command, args) = self.payer;
        key_of(command, args)
    }
}

/// What was paid of a demand so far. It is given back if this is dropped before all is paid: the command is refused, or
/// its connection is cut while it waits.
struct Paid {
    quota: Arc<Quota>,
    units: [u64; UNITS],
    /// The request units that were paid from what was saved up.
    saved: u64,
}

impl Paid {
    /// All is paid. Returns whether something was paid from what was saved up.
    fn keep(mut self) -> bool {
        self.units = [0; UNITS];
        std::mem::take(&mut self.saved) > 0
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.quota.refund_query(self.saved);
        for unit in Unit::ALL.into_iter().filter(|&unit| self.units[unit as usize] > 0) {
            self.quota.refund(unit, self.units[unit as usize]);
        }
    }
}

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
        let mut charge = Charge::of(command, args, YIELD, prices.as_deref()).await;
        if self.pay(&Demand::of(command, args, &charge)).await? {
            charge.pay_from_savings();
        }
        Ok(charge)
    }

    /// Pays all of `demand`, or nothing: one kind of units after the other. Returns whether its queries were paid from
    /// what was saved up.
    pub(super) async fn pay(&mut self, demand: &Demand<'_>) -> Outcome<bool> {
        let Some(quota) = self.session.outbox.quota().cloned() else { return Ok(false) };
        let mut paid = Paid { quota, units: [0; UNITS], saved: 0 };
        for unit in Unit::ALL {
            let mut units = demand.units[unit as usize];
            if unit == Unit::Request && demand.of_queries > 0 && paid.quota.try_admit_query(demand.of_queries) {
                units -= demand.of_queries;
                paid.saved = demand.of_queries;
            }
            if units > 0 {
                if !paid.quota.try_admit(unit, units) {
                    self.wait_for_units(&paid.quota, unit, demand, units).await?;
                }
                paid.units[unit as usize] = units;
            }
        }
        self.enter_node(demand, &paid.quota).await?;
        Ok(paid.keep())
    }

    /// Waits for `units` of a kind, which `demand` asks for.
    async fn wait_for_units(&mut self, quota: &Arc<Quota>, unit: Unit, demand: &Demand<'_>, units: u64) -> Outcome {
        let begun = self.server.clock.now();
        let admission = quota.admit(unit, self.partition_of(demand.key()), units);
        if let Admission::Waiting(_) = admission {
            self.flush_before().await?;
        }
        self.wait_for(admission, begun, Cause::Quota).await.0
    }

    /// Waits in the node's queue, if there is one, for what `demand` asks for (XS-27).
    async fn enter_node(&mut self, demand: &Demand<'_>, quota: &Quota) -> Outcome {
        let units = demand.milli_units();
        let begun = self.server.clock.now();
        let admission = (units > 0).then(|| quota.enter_node(demand.access, units)).flatten();
        let Some(admission) = admission.filter(NodeAdmission::waits) else { return Ok(()) };
        self.flush_before().await?;
        let (admitted, waited) = self.wait_for(admission, begun, Cause::NodeQueue).await;
        quota.has_queued(waited);
        admitted
    }

    /// Waits for `admission`, which has been queued since `begun`, and books the wait to `cause`. Gives how long it
    /// waited, too.
    async fn wait_for<E>(
        &mut self,
        admission: impl Future<Output = Result<(), E>>,
        begun: Nanos,
        cause: Cause,
    ) -> (Outcome, Nanos)
    where
        Error: From<E>,
    {
        let admitted = self.session.outbox.while_pushing(admission).await;
        // The wait does not count as the command's own time.
        let now = self.server.clock.now();
        self.session.outbox.lap = now;
        waits::book(cause, now - begun);
        if admitted.is_err() {
            self.session.notice(What::Throttled);
        }
        (admitted.map_err(Error::from), now - begun)
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
        count_device_reads(&mut bill.work, waits::take_device_reads());
        let price = self.session.last.price_of(&bill.work, &self.session.outbox.prices);
        self.session.outbox.so_far = None;
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
    fn settle(&mut self, charge: &Charge, milli_units: u64, key: &[u8]) {
        let bill = &self.session.bill;
        let units = Unit::ALL.map(|unit| {
            let before = if unit == Unit::Request { 0 } else { charge.units(unit) };
            (before + bill.charged(unit), charge.owed(unit, bill, milli_units))
        });
        self.settle_units(charge, key, units);
    }

    /// Settles a command that was charged `charge`. `units` has what it was charged in all of each kind, and what it
    /// owes.
    pub(super) fn settle_units(&mut self, charge: &Charge, key: &[u8], units: [(u64, u64); UNITS]) {
        let Some(quota) = self.session.outbox.quota() else { return };
        let partition = self.partition_of(key);
        let others = self.entered.map_or(0, |all| all.saturating_sub(charge.units(Unit::Request)));
        for (unit, (charged, owed)) in Unit::ALL.into_iter().zip(units) {
            if charged == 0 && owed == 0 {
                continue;
            }
            if unit == Unit::Request && charge.is_saved() {
                quota.settle_query(others, partition, charged, owed);
            } else {
                quota.settle_beside(others, unit, partition, charged, owed);
            }
        }
        if let Some(all) = &mut self.entered {
            *all = others.saturating_add(units[Unit::Request as usize].1);
        }
    }
}

/// The first key of a command, if it has one. It decides which partition pays.
pub(super) fn key_of<'a>(command: &Command, args: Args<'a>) -> &'a [u8] {
    command.keys_in(args).next().unwrap_or_default()
}
