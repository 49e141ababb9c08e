//! Going through all keys, a bounded page at a time (S14): other connections are served between the pages.

use weir_io::Rng;
use weir_model::parts::RowType;

use super::{STRING, integer};
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, INVALID_CURSOR, Outcome, SYNTAX};
use crate::glob::{self, Glob};
use crate::number::parse_u64;
use crate::reply::Replies;

/// How many keys are looked at between two turns.
pub const PAGE_KEYS: usize = 1000;

/// Most keys that one `SCAN` looks at, whatever its `COUNT` is: the client is told where to go on.
const SCAN_KEYS_MAX: usize = 10_000;

/// After passing this many bytes of keys and values, `SCAN` returns what it has, whatever its `COUNT` is.
const SCAN_BYTES_MAX: u64 = 1 << 20;

/// Most bytes of the reply of `KEYS`. It is gathered, because its length comes first, so it cannot be sent bit by bit.
const KEYS_BYTES_MAX: usize = 32 << 20;
const TOO_MANY_KEYS: Error = Error::new("ERR more than 32 MB of keys match, use SCAN");

/// `RANDOMKEY` chooses among this many keys, after this many jumps.
const NEAR_KEYS: usize = 16;
const RANDOM_JUMPS: usize = 16;
/// After passing this many bytes of keys and values, `RANDOMKEY` does not jump any more.
const RANDOM_BYTES_MAX: u64 = 4 << 20;

/// Which rows `SCAN` returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    Strings,
    Only(RowType),
    /// There is no such type.
    Nothing,
}

impl Wanted {
    fn named(name: &[u8]) -> Self {
        let kind = RowType::ALL.into_iter().find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()));
        match kind {
            Some(kind) => Wanted::Only(kind),
            None if name.eq_ignore_ascii_case(STRING.as_bytes()) => Wanted::Strings,
            None => Wanted::Nothing,
        }
    }

    /// Whether a row of the type `kind` is wanted; `None` is a string.
    fn is(self, kind: Option<RowType>) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Strings => kind.is_none(),
            Wanted::Only(wanted) => kind == Some(wanted),
            Wanted::Nothing => false,
        }
    }
}

struct ScanOptions {
    pattern: Option<Glob>,
    count: usize,
    kind: Wanted,
}

impl ScanOptions {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self { pattern: None, count: 10, kind: Wanted::All };
        let mut words = args.iter_from(2);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(glob::checked(value)?).filter(|pattern| pattern != b"*").map(Glob::new);
            } else if word.eq_ignore_ascii_case(b"COUNT") {
                options.count = usize::try_from(integer(value)?).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                options.kind = Wanted::named(value);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

pub async fn scan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = parse_u64(args.at(1)).ok_or(INVALID_CURSOR)?;
    let options = ScanOptions::parse(args)?;
    let mut next = match cursor {
        0 => Some(Vec::new()),
        cursor => Some(cx.cursor(cursor)?),
    };
    let (mut found, mut bytes, mut turn) = (Vec::new(), 0, glob::Turn::new(cx.yields()));
    let mut left = options.count.min(SCAN_KEYS_MAX);
    while let Some(from) = next.take_if(|_| left > 0) {
        let page = cx.page(&from, left.min(PAGE_KEYS)).await?;
        // A page may be empty and still cost its bounded work. It counts as a key, so that the call as a whole is
        // bounded.
        left = left.saturating_sub(page.keys.len().max(1));
        bytes += page.passed.bytes;
        left = if bytes < SCAN_BYTES_MAX { left } else { 0 };
        next = page.next;
        let kinds = page.kinds;
        let is_wanted = |index| options.kind.is(kinds.get(&index).copied());
        for (_, key) in page.keys.into_iter().enumerate().filter(|&(index, _)| is_wanted(index)) {
            let is_found = match &options.pattern {
                None => true,
                Some(pattern) => pattern.matches_in_turns(&key, &mut turn).await,
            };
            if is_found {
                found.push(key);
            }
        }
        if left > 0 && next.is_some() {
            cx.end_page().await?;
        }
    }
    let cursor = match next {
        None => 0,
        Some(place) => cx.new_cursor(place)?,
    };
    cx.replies().array(2);
    cx.replies().bulk(cursor.to_string().as_bytes());
    cx.replies().array(found.len());
    let replies = cx.replies();
    found.iter().for_each(|key| replies.bulk(key));
    Ok(())
}

pub async fn keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pattern = glob::checked(args.at(1))?;
    let (is_all, glob, mut turn) = (pattern == b"*", Glob::new(pattern), glob::Turn::new(cx.yields()));
    let (mut found, mut count) = (Replies::default(), 0);
    let (mut next, mut room) = (Some(Vec::new()), cx.room(KEYS_BYTES_MAX, TOO_MANY_KEYS));
    while let Some(from) = next {
        let page = cx.page(&from, PAGE_KEYS).await?;
        let before = found.len();
        for key in &page.keys {
            if is_all || glob.matches_in_turns(key, &mut turn).await {
                found.bulk(key);
                count += 1;
            }
        }
        room.take(found.len() - before)?;
        next = page.next;
        if next.is_some() {
            cx.end_page().await?;
        }
    }
    cx.replies().array(count);
    cx.replies().append(found);
    Ok(())
}

/// The first keys from `from` on, or from the start if there are none behind it; empty if there are no keys at all. The
/// bytes that are passed are taken from `budget`. `None` if it is used up before a key was met.
async fn keys_near(cx: &mut Context<'_>, from: Vec<u8>, budget: &mut u64) -> Outcome<Option<Vec<Vec<u8>>>> {
    for from in [from, Vec::new()] {
        let mut next = Some(from);
        while let Some(from) = next {
            let page = cx.page(&from, NEAR_KEYS).await?;
            *budget = budget.saturating_sub(page.passed.bytes);
            if !page.keys.is_empty() {
                return Ok(Some(page.keys));
            }
            if *budget == 0 {
                return Ok(None);
            }
            next = page.next;
            cx.end_page().await?;
        }
    }
    Ok(Some(Vec::new()))
}

/// A walk of a few random jumps. A jump takes a key near the current place, changes one of its bytes, and moves there
/// if there are keys with that beginning. Every key can be met, but keys behind gaps are met more often. A jump costs a
/// page.
pub async fn randomkey(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let mut rng = Rng::new(cx.random());
    // This finds a key, however much was deleted in front of it.
    let mut keys = keys_near(cx, Vec::new(), &mut { u64::MAX }).await?.unwrap_or_default();
    let mut budget = RANDOM_BYTES_MAX;
    for _ in 0..RANDOM_JUMPS {
        let mut pick = || keys.get(rng.below(keys.len() as u64) as usize).filter(|key| !key.is_empty()).cloned();
        let (Some(mut place), Some(other)) = (pick(), pick()) else { continue };
        let at = rng.below(place.len() as u64) as usize;
        // The byte comes from the alphabet in use, or from what most alphabets are made of.
        place[at] = match rng.below(2) {
            0 => other[rng.below(other.len() as u64) as usize],
            _ => b'0' + rng.below(75) as u8,
        };
        let from = cx.place(&place);
        let Some(found) = keys_near(cx, from, &mut budget).await? else { break };
        if found.is_empty() || found[0].starts_with(&place[..=at]) {
            keys = found;
        }
        if budget == 0 {
            break;
        }
    }
    match keys.get(rng.below(keys.len() as u64) as usize) {
        Some(key) => cx.replies().bulk(key),
        None => cx.replies().null(),
    }
    Ok(())
}

pub async fn dbsize(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let (mut count, mut next) = (0, Some(Vec::new()));
    while let Some(from) = next {
        let page = cx.page(&from, PAGE_KEYS).await?;
        count += page.keys.len();
        next = page.next;
        if next.is_some() {
            cx.end_page().await?;
        }
    }
    cx.replies().integer(count as i64);
    Ok(())
}
