//! Commands about all keys of a database, or of a tenant: `FLUSHDB`, `FLUSHALL`, and the number of keys for `INFO`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_command::error::{Outcome, SYNTAX};
use weir_command::{Args, DATABASES, PAGE_KEYS};
use weir_model::{Batch, Change};

use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;
use crate::tenant::account::{Account, KeyCount};

/// `INFO` counts up to about this many keys.
const COUNTED_KEYS_MAX: usize = 10_000;
/// `INFO` stops counting after it has passed this many bytes of keys and values.
const COUNTED_BYTES_MAX: u64 = 1 << 20;
/// A count that passes more bytes than this was not cheap. It is kept for a while before the keys are counted again.
const COUNT_CHEAP_BYTES: u64 = 64 << 10;
const COUNT_KEPT_NANOS: u64 = 10_000_000_000;

/// The number of keys that `INFO` shows. `INFO` is asked every few seconds and at each connect. So this counts only a
/// bounded piece, wakes no partition, and never waits for units. A count that was not cheap is not repeated for a
/// while; until then the last result is shown.
pub(super) async fn count_for_info<S: Store>(session: &mut Session<S>) -> Outcome<usize> {
    let (database, now) = (session.database(), session.outbox.server.clock.now());
    let remembered = session.account()?.key_counts.get(database);
    let is_fresh = remembered.is_some_and(|count| count.is_costly && now < count.at + COUNT_KEPT_NANOS);
    if is_fresh || !session.store()?.is_awake() || !session.try_pay_page() {
        return Ok(remembered.map_or(0, |count| count.keys));
    }
    let (mut keys, mut bytes, mut next) = (0, 0, Some(Vec::new()));
    while let Some(from) = next.take_if(|_| keys < COUNTED_KEYS_MAX && bytes < COUNTED_BYTES_MAX) {
        let page = session.page(&from, PAGE_KEYS).await?;
        keys += page.keys.len();
        bytes += page.passed.bytes;
        next = page.next;
        YIELD.now().await;
    }
    let count = KeyCount { keys, at: now, is_costly: keys > PAGE_KEYS || bytes > COUNT_CHEAP_BYTES };
    session.account()?.key_counts.set(database, count);
    Ok(keys)
}

/// A flush under way. If it fails, or its client is killed, some keys may be gone, and nobody knows which: whoever
/// waits for rows or keeps values is told all the same, when nothing of it is under way any more.
struct Flush {
    account: Arc<Account>,
    is_done: AtomicBool,
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.account.waiting_rows.all_written();
        if !*self.is_done.get_mut() {
            self.account.key_events.all_changed();
        }
    }
}

/// `FLUSHALL` empties the tenant in one step, if its store can do that. `FLUSHDB` goes a page at a time: it deletes
/// what is there when a page is read. A write that comes meanwhile may be deleted or not, as if it had come before or
/// after. Earlier commands of the same connection are done before, and later ones after.
pub(super) async fn flush<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let known = args.iter_from(1).all(|word| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC"));
    if args.len() > 2 || !known {
        return Err(SYNTAX);
    }
    let account = Arc::clone(session.account()?);
    account.key_counts.forget();
    let flush = Arc::new(Flush { account: Arc::clone(&account), is_done: AtomicBool::new(false) });
    if !args.at(0).eq_ignore_ascii_case(b"FLUSHALL") {
        flush_database(session).await?;
    } else if !clear(session, &flush).await? {
        let chosen = session.database();
        for number in 0..DATABASES {
            session.select(number)?;
            let flushed = flush_database(session).await;
            session.select(chosen)?;
            flushed?;
        }
    }
    flush.is_done.store(true, Ordering::Relaxed);
    drop(flush);
    if account.tracking.is_in_use() {
        super::tracking::tell_flushed(session, &account).await;
    }
    session.outbox.replies.ok();
    Ok(())
}

/// Empties the tenant in one step; `false` if its store cannot do that, or if that would delete the tenant's functions,
/// too.
async fn clear<S: Store>(session: &mut Session<S>, flush: &Arc<Flush>) -> Outcome<bool> {
    let account = Arc::clone(session.account()?);
    let turn = account.scripts.functions.turn().await;
    let (store, now_ms) = (session.store()?.clone(), session.call().now_ms);
    let functions = account.scripts.functions.read(&turn, &store, now_ms).await?;
    // The step has the turn to its end, even if the client goes: it would delete a library that is stored meanwhile.
    Ok(functions.iter().len() == 0 && session.clear((Arc::clone(flush), turn)).await?)
}

async fn flush_database<S: Store>(session: &mut Session<S>) -> Outcome {
    let (number, mut batch) = (session.number(), Batch::new());
    let mut next = Some(Vec::new());
    while let Some(from) = next {
        let page = session.page(&from, PAGE_KEYS).await?;
        if !page.keys.is_empty() {
            batch.clear();
            page.keys.iter().for_each(|key| batch.push_row(number, Change::Delete { key }));
            session.write(&batch).await?;
        }
        next = page.next;
        if next.is_some() {
            session.end_page().await?;
        }
    }
    Ok(())
}
