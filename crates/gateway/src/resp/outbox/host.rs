//! A connection as the host of commands.

use std::sync::Arc;

use weir_command::bill::Bill;
use weir_command::error::{Error, OLD_CURSOR, Outcome, TOO_MANY_LONG};
use weir_command::letting_go;
use weir_command::reply::Replies;
use weir_command::{Host, ResultLimit, Waiting};
use weir_io::{Yield, sleep_until};
use weir_node::waits::{self, Cause};
use weir_node::{Quota, Unit};

use super::Outbox;
use crate::resp::cost::count_device_reads;
use crate::store::Store;
use crate::yielding::YIELD;

impl<S: Store> Host for Outbox<S> {
    #[inline]
    fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    fn yields(&self) -> Yield {
        YIELD
    }

    fn drain(&mut self) -> Waiting<'_, Outcome> {
        Box::pin(self.flush_if_long())
    }

    fn try_hold(&mut self, bytes: usize) -> bool {
        self.long_values.as_mut().is_none_or(|hold| hold.try_grow_to(hold.bytes().saturating_add(bytes as u64)))
    }

    fn hold(&mut self, bytes: usize) -> Waiting<'_, Outcome> {
        Box::pin(async move {
            if let Some(hold) = &mut self.long_values {
                if !hold.is_empty() {
                    return Err(TOO_MANY_LONG);
                }
                letting_go(hold.grow_to(bytes as u64), || self.replies.own_values()).await;
            }
            Ok(())
        })
    }

    fn results(&self) -> Option<Arc<dyn ResultLimit>> {
        self.tenant.as_ref().map(|account| Arc::clone(&account.results) as Arc<dyn ResultLimit>)
    }

    fn let_go(&mut self) {
        Outbox::let_go(self);
    }

    fn pay_page<'a>(&'a mut self, bill: &'a mut Bill) -> Waiting<'a, Outcome> {
        Box::pin(async move {
            if let Some(quota) = &self.quota {
                quota.settle(Unit::Read, 0, 0, bill.take_unpaid());
                if quota.counts_request_units() {
                    quota.settle(Unit::Request, 0, 0, bill.take_unpaid_milli(&self.prices));
                }
            }
            self.note_cost(bill);
            tokio::task::yield_now().await;
            let Some(quota) = self.quota.clone() else { return Ok(()) };
            let clock = Arc::clone(&self.server.clock);
            let before = clock.now();
            for unit in [Unit::Read, Unit::Request] {
                self.wait_for_one(&quota, unit).await?;
                bill.paid(unit, 1);
            }
            // The wait does not count as the command's own time.
            let waited = clock.now() - before;
            self.lap += waited;
            waits::book(Cause::Quota, waited);
            Ok(())
        })
    }

    fn must_pay(&mut self, bill: &mut Bill) -> bool {
        let Some(quota) = self.quota.as_ref().filter(|quota| quota.counts_request_units()) else { return false };
        quota.settle(Unit::Request, 0, 0, bill.take_unpaid_milli(&self.prices));
        quota.owes_a_second(Unit::Request)
    }

    fn note_cost(&mut self, bill: &Bill) {
        let mut work = bill.work;
        count_device_reads(&mut work, waits::device_reads());
        self.so_far = Some((self.prices.of(&work), bill.charged(Unit::Request)));
    }

    fn cursor(&self, database: u8, cursor: u64) -> Outcome<Vec<u8>> {
        let account = self.tenant.as_ref();
        account.and_then(|account| account.cursors.resolve(database, cursor)).ok_or(OLD_CURSOR)
    }

    fn new_cursor(&mut self, database: u8, place: Vec<u8>) -> Outcome<u64> {
        // A stranger may not go through keys.
        let account = self.tenant.as_ref().ok_or(OLD_CURSOR)?;
        Ok(account.cursors.issue(database, place))
    }

    fn random(&mut self) -> u64 {
        // A stranger runs no command that draws.
        self.tenant.as_ref().map_or(0, |account| account.draws.next_u64())
    }
}

impl<S: Store> Outbox<S> {
    /// The connection is cut: books what the command under way, if there is one, has cost so far.
    pub(in crate::resp) fn book_cut(&mut self) {
        let Some((price, charged)) = self.so_far.take() else { return };
        self.count(|stats| stats.cost.add(&price));
        if let Some(quota) = &self.quota {
            // What was paid in advance for the rest of the command is not given back.
            quota.settle(Unit::Request, 0, charged.min(price.milli_units), price.milli_units);
        }
    }

    /// Charges one of `unit` to a command that has begun. The command is no longer refused; it waits.
    async fn wait_for_one(&mut self, quota: &Arc<Quota>, unit: Unit) -> Outcome {
        let clock = Arc::clone(&self.server.clock);
        while !quota.try_admit(unit, 1) {
            // It may take long until what is in front of it is written.
            self.replies.own_values();
            if self.server.is_draining() {
                return Err(Error::new("ERR the server is ending"));
            }
            match quota.admit(unit, 0, 1).await {
                Ok(()) => break,
                Err(refused) => sleep_until(&clock, clock.now() + refused.retry_in_ms.max(1) * 1_000_000).await,
            }
        }
        Ok(())
    }
}
