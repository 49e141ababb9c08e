//! The rows of a session's database: reading, writing, and what its commands on rows need.

use weir_command::error::{NO_AUTH, Outcome};
use weir_command::events::{Classes, Witness};
use weir_command::{Call, Context, Page, letting_go};
use weir_model::{Batch, Row, VALUE_BYTES_MAX};
use weir_node::Unit;
use weir_node::request_units::Module;

use super::Session;
use crate::resp::outbox::Outbox;
use crate::store::Store;
use crate::tenant::account::Account;

impl<S: Store> Session<S> {
    /// The context of the command under way for its rows. The bill moves into it, and comes back with
    /// [`Session::called`].
    #[inline]
    pub(in crate::resp) fn begin_call(&mut self) -> Call {
        let bill = std::mem::take(&mut self.bill);
        Call { bill, ..self.call() }
    }

    /// The context of a command on rows with a bill of its own.
    #[inline]
    pub(in crate::resp) fn call(&self) -> Call {
        // The longest value that a client may build up is as long as it may send at once.
        let value_bytes_max = self.outbox.server.settings.limits.bulk_bytes_max.min(VALUE_BYTES_MAX);
        let mut call = Call::new(self.database(), self.outbox.unix_ms(), value_bytes_max);
        if let Ok(account) = self.account() {
            call.stream_node_entries = account.hints.stream_node_entries();
        }
        (call.is_again, call.databases) = (self.is_again, self.databases());
        if let Some(login) = &self.login {
            if let Some(expirations) = login.store.expirations() {
                call.now_ms = expirations.judged_ms(call.clock_ms, || self.outbox.server.clock.now());
            }
            call.wants = login.account().key_events.wants();
            call.by = self.outbox.client.id;
        }
        call
    }

    /// Records what a command on rows has done.
    #[inline]
    pub(in crate::resp) fn called(&mut self, call: Call) {
        let Call { bill, wait, hits, misses, wrote, .. } = call;
        (self.bill, self.waits) = (bill, wait);
        if wrote {
            self.outbox.count(|stats| stats.changes.add(1));
        }
        if hits + misses > 0 {
            self.outbox.count(|stats| {
                stats.hits.add(hits);
                stats.misses.add(misses);
            });
        }
    }

    /// The data and the outbox, with which a command on rows works.
    #[inline]
    pub(in crate::resp) fn parts(&mut self) -> Outcome<(&S, &mut Outbox<S>)> {
        let (store, outbox, _) = self.parts_to_write()?;
        Ok((store, outbox))
    }

    /// The same, and the tenant's account, with which a command that writes works.
    #[inline]
    pub(in crate::resp) fn parts_to_write(&mut self) -> Outcome<(&S, &mut Outbox<S>, &Account)> {
        let login = self.login.as_ref().ok_or(NO_AUTH)?;
        Ok((&login.store, &mut self.outbox, login.account()))
    }

    /// The row of `key`.
    pub(in crate::resp) async fn get(&mut self, key: &[u8]) -> Outcome<Option<Row>> {
        let mut call = self.begin_call();
        // As in Redis, a command that only looks at a key causes no miss event.
        call.wants = Classes::NONE;
        let (store, outbox) = self.parts()?;
        let row = Context::reading(store.rows(), outbox, &mut call).get(key).await;
        self.called(call);
        row
    }

    /// Up to `limit` keys of the chosen database, from the place `from` on.
    pub(in crate::resp) async fn page(&mut self, from: &[u8], limit: usize) -> Outcome<Page> {
        let mut call = self.begin_call();
        let (store, outbox) = self.parts()?;
        let page = Context::reading(store.rows(), outbox, &mut call).page(from, limit).await;
        self.called(call);
        page
    }

    /// The same for the database with this number, for a caller that has time.
    pub(in crate::resp) async fn page_in_background(&mut self, number: u8, from: &[u8], limit: usize) -> Outcome<Page> {
        let (store, outbox) = self.parts()?;
        let page = letting_go(store.page_in_background(number, from, limit), || outbox.replies.own_values()).await?;
        self.bill.scanned(&page);
        Ok(page)
    }

    /// Ends a page: others run, the work so far is paid for, and the next page gets its unit.
    pub(in crate::resp) async fn end_page(&mut self) -> Outcome {
        let mut call = self.begin_call();
        let (store, outbox) = self.parts()?;
        let ended = Context::reading(store.rows(), outbox, &mut call).end_page().await;
        self.called(call);
        ended
    }

    /// Applies `batch`. The reply that the command writes waits for the commit.
    pub(in crate::resp) async fn write(&mut self, batch: &Batch) -> Outcome {
        self.bill.wrote(batch.as_ref());
        self.bill.work.count(Module::LogRecord, 1);
        let (store, outbox) = self.parts()?;
        let commit = letting_go(store.write(batch), || outbox.replies.own_values()).await?;
        outbox.depend_on(commit);
        Ok(())
    }

    /// Empties the tenant at once; `false` if its store cannot do that. `held` is dropped when this is done or has
    /// failed, even if the client has gone.
    pub(in crate::resp) async fn clear(&mut self, held: impl Send + 'static) -> Outcome<bool> {
        // The session's own writes must be acknowledged as written before, and not be lost on the way.
        self.outbox.await_commits().await;
        self.account()?.begin_flush();
        Ok(self.store()?.clear(held).await?)
    }

    /// Charges one read unit to the command under way, if a unit is available.
    pub(in crate::resp) fn try_pay_page(&mut self) -> bool {
        let quota = self.outbox.quota();
        if !quota.is_none_or(|quota| quota.try_admit(Unit::Read, 1)) {
            return false;
        }
        self.bill.paid(Unit::Read, 1);
        true
    }
}
