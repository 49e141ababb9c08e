//! Going through all keys, a bounded page at a time (S14): other connections are served between the pages.

use tokio::task::yield_now;
use weir_io::Rng;
use weir_model::Batch;

use super::connection::DATABASES;
use super::integer;
use crate::auth::account::KeyCount;
use crate::resp::connection::Connection;
use crate::resp::error::{Error, INVALID_CURSOR, OLD_CURSOR, Outcome, SYNTAX};
use crate::resp::frame::Args;
use crate::resp::glob::{self, Glob};
use crate::resp::number::parse_u64;
use crate::resp::reply::Replies;
use crate::store::Store;

/// Keys looked at between two turns.
const PAGE_KEYS: usize = 1000;

/// Most keys that one `SCAN` looks at, whatever its `COUNT`: the client is told where to go on.
const SCAN_KEYS_MAX: usize = 10_000;

/// Bytes of keys and values passed after which `SCAN` gives what it has, whatever its `COUNT`, and `INFO` counts no further.
const SCAN_BYTES_MAX: u64 = 1 << 20;

/// Most bytes of reply that `KEYS` gathers: its length stands in front, so it cannot be sent bit by bit.
const KEYS_BYTES_MAX: usize = 32 << 20;

/// Keys among which `RANDOMKEY` chooses, and how often it jumps before it does.
const NEAR_KEYS: usize = 16;
const RANDOM_JUMPS: usize = 16;
/// Bytes of keys and values passed after which `RANDOMKEY` jumps no more.
const RANDOM_BYTES_MAX: u64 = 4 << 20;

/// `INFO` counts about so many keys.
const COUNTED_KEYS_MAX: usize = 10_000;
/// What passes more bytes than this was not cheap to count, and is not counted again for so long.
const COUNT_CHEAP_BYTES: u64 = 64 << 10;
const COUNT_KEPT_NANOS: u64 = 10_000_000_000;

struct ScanOptions {
    pattern: Option<Glob>,
    count: usize,
    /// Whether the keys asked for can exist: all are strings.
    strings: bool,
}

impl ScanOptions {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self { pattern: None, count: 10, strings: true };
        let mut words = args.iter_from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(glob::checked(value)?).filter(|pattern| pattern != b"*").map(Glob::new);
            } else if word.eq_ignore_ascii_case(b"COUNT") {
                options.count = usize::try_from(integer(value)?).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                options.strings = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

pub(in crate::resp) async fn scan<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let cursor = parse_u64(args.at(1)).ok_or(INVALID_CURSOR)?;
    let options = ScanOptions::parse(args)?;
    let mut next = match cursor {
        0 => Some(Vec::new()),
        cursor => Some(connection.account()?.cursors.resolve(connection.database(), cursor).ok_or(OLD_CURSOR)?),
    };
    connection.submit().await;
    let (mut found, mut bytes, mut turn) = (Vec::new(), 0, glob::Turn::default());
    let mut left = options.count.min(SCAN_KEYS_MAX);
    while let Some(from) = next.take_if(|_| left > 0) {
        let page = connection.scan(&from, left.min(PAGE_KEYS)).await?;
        // A page may be empty and yet cost its bounded work: it counts, so that the call as a whole is bounded.
        left = left.saturating_sub(page.keys.len().max(1));
        bytes += page.passed_bytes;
        left = if bytes < SCAN_BYTES_MAX { left } else { 0 };
        next = page.next;
        for key in page.keys.into_iter().filter(|_| options.strings) {
            let is_found = match &options.pattern {
                None => true,
                Some(pattern) => pattern.matches_in_turns(&key, &mut turn).await,
            };
            if is_found {
                found.push(key);
            }
        }
        if left > 0 && next.is_some() {
            connection.end_page().await?;
        }
    }
    let database = connection.database();
    let cursor = match next {
        None => 0,
        Some(key) => connection.account()?.cursors.issue(database, key),
    };
    connection.replies.array(2);
    connection.replies.bulk(cursor.to_string().as_bytes());
    connection.replies.array(found.len());
    found.iter().for_each(|key| connection.replies.bulk(key));
    Ok(())
}

pub(in crate::resp) async fn keys<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let pattern = glob::checked(args.at(1))?;
    let (is_all, glob, mut turn) = (pattern == b"*", Glob::new(pattern), glob::Turn::default());
    let (mut found, mut count) = (Replies::default(), 0);
    connection.submit().await;
    let mut next = Some(Vec::new());
    while let Some(from) = next {
        let page = connection.scan(&from, PAGE_KEYS).await?;
        for key in &page.keys {
            if is_all || glob.matches_in_turns(key, &mut turn).await {
                found.bulk(key);
                count += 1;
            }
        }
        if found.len() > KEYS_BYTES_MAX {
            return Err(Error::new("ERR more than 32 MB of keys match, use SCAN"));
        }
        next = page.next;
        if next.is_some() {
            connection.end_page().await?;
        }
    }
    connection.replies.array(count);
    connection.replies.append(found);
    Ok(())
}

/// The first keys from `from` on, or else from the start on; none if there are none. What is passed is taken from `budget`, in bytes;
/// when that is used up and no key was met, `None`.
async fn keys_near<S: Store>(
    connection: &mut Connection<S>,
    from: Vec<u8>,
    budget: &mut u64,
) -> Outcome<Option<Vec<Vec<u8>>>> {
    for from in [from, Vec::new()] {
        let mut next = Some(from);
        while let Some(from) = next {
            let page = connection.scan(&from, NEAR_KEYS).await?;
            *budget = budget.saturating_sub(page.passed_bytes);
            if !page.keys.is_empty() {
                return Ok(Some(page.keys));
            }
            if *budget == 0 {
                return Ok(None);
            }
            next = page.next;
            connection.end_page().await?;
        }
    }
    Ok(Some(Vec::new()))
}

/// A walk of a few random jumps: take a key near where we are, change one byte of it to another, and go on
/// from there if there are keys that begin so. Every key can be met, those behind gaps more often; a jump costs a page.
pub(in crate::resp) async fn randomkey<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    connection.submit().await;
    let mut rng = Rng::new(connection.server.random());
    // Some key is found, however much was deleted in front of it.
    let mut keys = keys_near(connection, Vec::new(), &mut { u64::MAX }).await?.unwrap_or_default();
    let mut budget = RANDOM_BYTES_MAX;
    for _ in 0..RANDOM_JUMPS {
        let mut pick = || keys.get(rng.below(keys.len() as u64) as usize).filter(|key| !key.is_empty()).cloned();
        let (Some(mut place), Some(other)) = (pick(), pick()) else { continue };
        let at = rng.below(place.len() as u64) as usize;
        // The alphabet in use, or what most alphabets are made of.
        place[at] = match rng.below(2) {
            0 => other[rng.below(other.len() as u64) as usize],
            _ => b'0' + rng.below(75) as u8,
        };
        let from = connection.store()?.place(&place);
        let Some(found) = keys_near(connection, from, &mut budget).await? else { break };
        if found.is_empty() || found[0].starts_with(&place[..=at]) {
            keys = found;
        }
        if budget == 0 {
            break;
        }
    }
    match keys.get(rng.below(keys.len() as u64) as usize) {
        Some(key) => connection.replies.bulk(key),
        None => connection.replies.null(),
    }
    Ok(())
}

pub(in crate::resp) async fn dbsize<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    connection.submit().await;
    let (mut count, mut next) = (0, Some(Vec::new()));
    while let Some(from) = next {
        let page = connection.scan(&from, PAGE_KEYS).await?;
        count += page.keys.len();
        next = page.next;
        if next.is_some() {
            connection.end_page().await?;
        }
    }
    connection.replies.integer(count as i64);
    Ok(())
}

/// How many keys `INFO` says there are. It is asked every few seconds and at each connect, so it counts a bounded piece, wakes nobody
/// up, never waits for units, and what was not cheap to count is not counted again for a while: then it says what it said last.
pub(super) async fn count_for_info<S: Store>(connection: &mut Connection<S>) -> Outcome<usize> {
    let (database, now) = (connection.database(), connection.server.clock.now());
    let remembered = connection.account()?.key_counts.get(database);
    let is_fresh = remembered.is_some_and(|count| count.is_costly && now < count.at + COUNT_KEPT_NANOS);
    if is_fresh || !connection.store()?.is_awake() || !connection.try_pay_page() {
        return Ok(remembered.map_or(0, |count| count.keys));
    }
    connection.submit().await;
    let (mut keys, mut bytes, mut next) = (0, 0, Some(Vec::new()));
    while let Some(from) = next.take_if(|_| keys < COUNTED_KEYS_MAX && bytes < SCAN_BYTES_MAX) {
        let page = connection.scan(&from, PAGE_KEYS).await?;
        keys += page.keys.len();
        bytes += page.passed_bytes;
        next = page.next;
        yield_now().await;
    }
    let count = KeyCount { keys, at: now, is_costly: keys > PAGE_KEYS || bytes > COUNT_CHEAP_BYTES };
    connection.account()?.key_counts.set(database, count);
    Ok(keys)
}

/// `FLUSHALL` empties the tenant in one step, where its store can. `FLUSHDB` goes a page at a time: what is there when its page comes
/// up is deleted, and a write that comes in meanwhile may be deleted or not, as if it had come before or after. What the same
/// connection asked for before is done before, and what it asks for after is done after.
pub(in crate::resp) async fn flush<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let known = args.iter_from(1).all(|word| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC"));
    if args.len() > 2 || !known {
        return Err(SYNTAX);
    }
    connection.account()?.key_counts.forget();
    if !args.at(0).eq_ignore_ascii_case(b"FLUSHALL") {
        flush_database(connection).await?;
    } else if !connection.clear().await? {
        let home = connection.database();
        for number in 0..DATABASES {
            connection.select(number).await?;
            let flushed = flush_database(connection).await;
            connection.select(home).await?;
            flushed?;
        }
    }
    connection.replies.ok();
    Ok(())
}

async fn flush_database<S: Store>(connection: &mut Connection<S>) -> Outcome {
    connection.submit().await;
    let mut batch = Batch::new();
    batch.restart(connection.store()?.key_prefix());
    let mut next = Some(Vec::new());
    while let Some(from) = next {
        let page = connection.scan(&from, PAGE_KEYS).await?;
        if !page.keys.is_empty() {
            batch.clear();
            page.keys.iter().for_each(|key| batch.delete(key));
            connection.write(&batch).await?;
        }
        next = page.next;
        if next.is_some() {
            connection.end_page().await?;
        }
    }
    Ok(())
}
