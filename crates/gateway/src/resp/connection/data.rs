//! What commands ask of their tenant's data: billed, counted, and in the order in which they were asked.

use std::future::Future;

use weir_model::{Batch, Change, KEY_BYTES_MAX};

use super::Connection;
use super::moving::LONG_BYTES;
use crate::auth::book::Hold;
use crate::resp::error::{Error, KEY_TOO_LONG, NO_AUTH, Outcome, TOO_MANY_LONG};
use crate::resp::in_hand::letting_go;
use crate::resp::reply::Replies;
use crate::store::{Entry, Page, Store, Transfer};

/// Values as long as this are booked on their tenant as long as the connection has them.
pub(super) const LONG_VALUE_BYTES: usize = 1 << 20;

/// A gathered batch goes to the store when it reaches this many bytes.
const BATCH_BYTES: usize = 256 << 10;

impl<S: Store> Connection<S> {
    /// The entry of `key`.
    pub(in crate::resp) async fn get(&mut self, key: &[u8]) -> Outcome<Option<Entry<S::Value>>> {
        self.submit().await;
        let read = self.session.as_ref().ok_or(NO_AUTH)?.store.get(key);
        let mut entry = holding_nothing(&mut self.replies, read).await?;
        let len = entry.as_ref().map_or(0, |entry| entry.value.len());
        self.lately.is_long |= len >= LONG_BYTES;
        if len >= LONG_VALUE_BYTES && !self.take_in_hand(len) {
            drop(entry);
            entry = self.get_in_turn(key, len).await?;
        }
        if let Some(bill) = &mut self.bill {
            bill.got(entry.as_ref());
        }
        match &entry {
            Some(_) => self.count(|stats| stats.hits.add(1)),
            None => self.count(|stats| stats.misses.add(1)),
        }
        Ok(entry)
    }

    /// Books a long value on its tenant, if there is room.
    fn take_in_hand(&mut self, len: usize) -> bool {
        let more = |hold: &mut Hold| hold.try_grow_to(hold.bytes().saturating_add(len as u64));
        self.long_values.as_mut().is_none_or(more)
    }

    /// Reads `key` again when there is room for its value, which was `len` bytes long (S11).
    async fn get_in_turn(&mut self, key: &[u8], mut len: usize) -> Outcome<Option<Entry<S::Value>>> {
        loop {
            if let Some(hold) = &mut self.long_values {
                if !hold.is_empty() {
                    // Its command has others in hand: waiting with those could be for ever.
                    return Err(TOO_MANY_LONG);
                }
                holding_nothing(&mut self.replies, hold.grow_to(len as u64)).await;
            }
            let read = self.session.as_ref().ok_or(NO_AUTH)?.store.get(key);
            let entry = holding_nothing(&mut self.replies, read).await?;
            let found = entry.as_ref().map_or(0, |entry| entry.value.len());
            let Some(hold) = self.long_values.as_mut().filter(|hold| hold.bytes() < found as u64) else {
                return Ok(entry);
            };
            // It has grown meanwhile.
            if hold.try_grow_to(found as u64) {
                return Ok(entry);
            }
            drop(entry);
            hold.shrink_to(0);
            len = found;
        }
    }

    /// Reads `keys` and changes them as `change` decides, with no other write in between. The reply that the command
    /// writes waits for the commit.
    pub(in crate::resp) async fn update<R: Send>(
        &mut self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<S::Value>>], &mut Batch) -> R + Send,
    ) -> Outcome<R> {
        check_keys(keys)?;
        self.submit().await;
        let mut bill = self.bill;
        let mut is_long = false;
        let billed = |entries: &[Option<Entry<S::Value>>], batch: &mut Batch| {
            let result = change(entries, batch);
            let long = |entry: &Entry<S::Value>| entry.value.len() >= LONG_BYTES;
            is_long = batch.as_bytes().len() >= LONG_BYTES || entries.iter().flatten().any(long);
            if let Some(bill) = &mut bill {
                bill.updated(entries, batch);
            }
            result
        };
        let update = self.session.as_ref().ok_or(NO_AUTH)?.store.update(keys, billed);
        let (result, commit) = holding_nothing(&mut self.replies, update).await?;
        self.bill = bill;
        self.lately.is_long |= is_long;
        if let Some(commit) = commit {
            self.depend_on(commit);
        }
        Ok(result)
    }

    /// Carries an entry to another database; whether it was done. The reply that the command writes waits for the commit.
    pub(in crate::resp) async fn transfer(&mut self, transfer: Transfer<'_>) -> Outcome<bool> {
        check_keys(&[transfer.key, transfer.to])?;
        self.submit().await;
        let carry = self.session.as_ref().ok_or(NO_AUTH)?.store.transfer(transfer);
        let (done, commit) = holding_nothing(&mut self.replies, carry).await?;
        if let (Some(bill), Some(len)) = (&mut self.bill, done) {
            bill.carried(transfer.to.len() + len);
        }
        if let Some(commit) = commit {
            self.depend_on(commit);
        }
        Ok(done.is_some())
    }

    /// Like [`Connection::update`], with a `change` that may refuse. It has left the batch empty then.
    pub(in crate::resp) async fn try_update<R: Send>(
        &mut self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<S::Value>>], &mut Batch) -> Outcome<R> + Send,
    ) -> Outcome<R> {
        self.update(keys, change).await?
    }

    /// Applies `batch`; the reply that the command writes waits for the commit.
    pub(in crate::resp) async fn write(&mut self, batch: &Batch) -> Outcome {
        self.submit().await;
        if let Some(bill) = &mut self.bill {
            bill.wrote_batch(batch);
        }
        let write = self.session.as_ref().ok_or(NO_AUTH)?.store.write(batch);
        let commit = holding_nothing(&mut self.replies, write).await?;
        self.depend_on(commit);
        Ok(())
    }

    /// Writes `changes`, whatever was there before, and replies `+OK`: together with its neighbours in the pipeline.
    pub(in crate::resp) async fn put_blindly<'c>(
        &mut self,
        changes: impl Iterator<Item = Change<'c>> + Clone,
    ) -> Outcome {
        for change in changes.clone() {
            check_keys(&[change.key()])?;
        }
        let full = self.gathered.batch.as_bytes().len() >= BATCH_BYTES;
        if full || self.gathered.to != self.answer.from {
            self.submit().await;
        }
        if self.gathered.batch.is_empty() {
            let prefix = self.store()?.key_prefix();
            self.gathered.batch.restart(prefix);
            self.gathered.from = self.answer.from;
        }
        if let Some(bill) = &mut self.bill {
            bill.wrote(changes.clone());
        }
        for change in changes {
            self.gathered.batch.push(change);
        }
        self.gathered.is_open = true;
        self.replies.ok();
        Ok(())
    }

    /// Hands the gathered writes to the store, so that what follows sees them.
    pub(in crate::resp) async fn submit(&mut self) {
        if self.gathered.batch.is_empty() {
            return;
        }
        let begun = self.server.clock.now();
        let written = match &self.session {
            Some(session) => {
                let write = session.store.write(&self.gathered.batch);
                holding_nothing(&mut self.replies, write).await.map_err(Error::from)
            }
            None => Err(NO_AUTH),
        };
        // Refused at once or not safe in the end: their replies say so when everything is written.
        self.gathered_depend_on(written);
        self.longest = self.longest.max((self.server.clock.now() - begun, "set"));
    }

    /// Empties the tenant at once; `false` where its store cannot.
    pub(in crate::resp) async fn clear(&mut self) -> Outcome<bool> {
        self.submit().await;
        // What it has written is to be acknowledged as written, not to be lost on the way.
        self.await_commits().await;
        Ok(self.store()?.clear().await?)
    }

    /// Up to `limit` keys from `from` on.
    pub(in crate::resp) async fn scan(&mut self, from: &[u8], limit: usize) -> Outcome<Page> {
        let scan = self.session.as_ref().ok_or(NO_AUTH)?.store.scan(from, limit);
        let page = holding_nothing(&mut self.replies, scan).await?;
        if let Some(bill) = &mut self.bill {
            bill.scanned(&page);
        }
        Ok(page)
    }
}

/// Awaits `what` without keeping values in the replies in front of it, which are not written before it is done: a write may wait for the very memory that
/// they keep, a read for those who do not read what they asked for.
async fn holding_nothing<T>(replies: &mut Replies, what: impl Future<Output = T>) -> T {
    letting_go(what, || replies.own_values()).await
}

/// The longest key is a limit of the store, not of the protocol.
fn check_keys(keys: &[&[u8]]) -> Outcome {
    if keys.iter().any(|key| key.len() > KEY_BYTES_MAX) { Err(KEY_TOO_LONG) } else { Ok(()) }
}
