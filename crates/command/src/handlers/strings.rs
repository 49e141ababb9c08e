//! Values as a whole: `GET`, `SET` and their kin.

use weir_model::{Row, Value};

use super::ONE_TURN_KEYS_MAX;
use super::expiry::{Expiry, Unit};
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX, WRONG_TYPE};
use crate::turn::{begins_turn, end_turn};

fn reply_value(cx: &mut Context<'_>, value: Option<Value>) {
    match value {
        Some(value) => cx.replies().bulk_value(value),
        None => cx.replies().null(),
    }
}

pub async fn get(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let row = cx.string(args.at(1)).await?;
    reply_value(cx, row.map(|row| row.value));
    Ok(())
}

pub async fn mget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    cx.replies().array(args.len() - 1);
    for (index, key) in args.iter_from(1).enumerate() {
        end_turn(cx.yields(), index).await;
        // A row that is no string is answered as if it were missing.
        let row = cx.get(key).await?.and_then(Row::into_string);
        reply_value(cx, row.map(|row| row.value));
        cx.drain().await?;
    }
    Ok(())
}

/// `NX` and `XX` of `SET`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Absent,
    Present,
}

/// The words behind `SET key value`. As in Redis, the same unit may be given twice; the last time counts.
#[derive(Default)]
struct SetOptions<'a> {
    expiry: Option<(Unit, &'a [u8])>,
    condition: Option<Condition>,
    keep_ttl: bool,
    give_old: bool,
}

impl<'a> SetOptions<'a> {
    /// Whether the command does not depend on what was there before.
    fn is_blind(&self) -> bool {
        self.condition.is_none() && !self.keep_ttl && !self.give_old
    }

    fn parse(args: Args<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"NX") && options.condition != Some(Condition::Present) {
                options.condition = Some(Condition::Absent);
            } else if word.eq_ignore_ascii_case(b"XX") && options.condition != Some(Condition::Absent) {
                options.condition = Some(Condition::Present);
            } else if word.eq_ignore_ascii_case(b"GET") {
                options.give_old = true;
            } else if word.eq_ignore_ascii_case(b"KEEPTTL") && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if let Some(unit) = Unit::parse(word)
                && !options.keep_ttl
                && options.expiry.is_none_or(|(earlier, _)| earlier == unit)
            {
                options.expiry = Some((unit, words.next().ok_or(SYNTAX)?));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Whether a `SET` writes regardless of what was there before.
pub fn is_plain_set(args: Args<'_>) -> bool {
    args.len() == 3 || SetOptions::parse(args).is_ok_and(|options| options.is_blind())
}

pub async fn set(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let options = SetOptions::parse(args)?;
    let expire_at_ms = match options.expiry {
        Some((unit, time)) => Some(Expiry::parse(unit, time, cx.clock_ms(), "set")?),
        None => None,
    };
    if options.is_blind() {
        cx.put(key, value, expire_at_ms)?;
        cx.replies().ok();
        return Ok(());
    }
    let old = cx.get(key).await?;
    let old_value = match old.clone().filter(|_| options.give_old) {
        Some(row) => Some(row.into_string().ok_or(WRONG_TYPE)?.value),
        None => None,
    };
    let set = match options.condition {
        None => true,
        Some(Condition::Absent) => old.is_none(),
        Some(Condition::Present) => old.is_some(),
    };
    if set {
        let kept = old.as_ref().and_then(|row| row.expire_at_ms).filter(|_| options.keep_ttl);
        cx.put(key, value, expire_at_ms.or(kept))?;
    }
    match old_value {
        Some(value) => cx.replies().bulk_value(value),
        _ if set && !options.give_old => cx.replies().ok(),
        _ => cx.replies().null(),
    }
    Ok(())
}

pub async fn setex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiring(cx, args, Unit::InSeconds, "setex").await
}

pub async fn psetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    set_expiring(cx, args, Unit::InMillis, "psetex").await
}

async fn set_expiring(cx: &mut Context<'_>, args: Args<'_>, unit: Unit, name: &'static str) -> Outcome {
    let expire_at_ms = Some(Expiry::parse(unit, args.at(2), cx.clock_ms(), name)?);
    cx.put(args.at(1), args.at(3), expire_at_ms)?;
    cx.replies().ok();
    Ok(())
}

pub async fn setnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let set = cx.get(key).await?.is_none();
    if set {
        cx.put(key, value, None)?;
    }
    cx.replies().integer(i64::from(set));
    Ok(())
}

pub async fn getset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let old = cx.string(key).await?;
    cx.put(key, value, None)?;
    reply_value(cx, old.map(|row| row.value));
    Ok(())
}

pub async fn getdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let old = cx.string(key).await?;
    if old.is_some() {
        cx.delete(key)?;
    }
    reply_value(cx, old.map(|row| row.value));
    Ok(())
}

pub async fn getex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let (mut persist, mut expiry) = (false, None);
    let mut words = args.iter_from(2);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"PERSIST") && expiry.is_none() {
            persist = true;
        } else if let Some(unit) = Unit::parse(word)
            && !persist
            && expiry.is_none_or(|(earlier, _)| earlier == unit)
        {
            expiry = Some((unit, words.next().ok_or(SYNTAX)?));
        } else {
            return Err(SYNTAX);
        }
    }
    // A missing key is answered before the time is checked.
    if let Some(row) = cx.string(key).await? {
        if persist || expiry.is_some() {
            let expire_at_ms = match expiry {
                Some((unit, time)) => Some(Expiry::parse(unit, time, cx.clock_ms(), "getex")?),
                None => None,
            };
            if expire_at_ms.is_some_and(|at| at <= cx.now_ms()) {
                cx.delete(key)?;
            } else if expire_at_ms.is_some() || row.expire_at_ms.is_some() {
                // As in Redis, a time that is the same again is a change, too: `EXPIRE` does so as well.
                cx.put(key, &row.value, expire_at_ms)?;
            }
        }
        cx.replies().bulk_value(row.value);
    } else {
        cx.replies().null();
    }
    Ok(())
}

/// The pairs of `MSET` and `MSETNX`.
fn pairs<'a>(args: Args<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
    (1..args.len()).step_by(2).map(move |index| (args.at(index), args.at(index + 1)))
}

pub async fn mset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    for (index, (key, value)) in pairs(args).enumerate() {
        cx.end_step(begins_turn(index)).await;
        cx.put(key, value, None)?;
    }
    cx.replies().ok();
    Ok(())
}

pub async fn msetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("msetnx"));
    }
    if args.len() > 1 + 2 * ONE_TURN_KEYS_MAX {
        return Err(Error::new("ERR MSETNX sets at most 10000 keys at a time: all or none means in one turn"));
    }
    let mut set = true;
    for (key, _) in pairs(args) {
        set &= cx.get(key).await?.is_none();
    }
    for (key, value) in pairs(args).filter(|_| set) {
        cx.put(key, value, None)?;
    }
    cx.replies().integer(i64::from(set));
    Ok(())
}
