//! When keys expire: `EXPIRE`, `TTL` and their kin, and the times in the options of `SET` and `GETEX`.

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::keyword::upper;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `EX`: seconds from now.
    InSeconds,
    /// `PX`: milliseconds from now.
    InMillis,
    /// `EXAT`: seconds since 1970.
    AtSeconds,
    /// `PXAT`: milliseconds since 1970.
    AtMillis,
}

impl Unit {
    /// The unit that an option's word names.
    pub fn parse(word: &[u8]) -> Option<Self> {
        [(&b"EX"[..], Unit::InSeconds), (b"PX", Unit::InMillis), (b"EXAT", Unit::AtSeconds), (b"PXAT", Unit::AtMillis)]
            .into_iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name))
            .map(|(_, unit)| unit)
    }

    /// `time` as milliseconds since 1970; `None` if that does not fit 63 bits.
    pub(super) fn absolute_ms(self, time: i64, now_ms: u64) -> Option<i64> {
        let millis = match self {
            Unit::InSeconds | Unit::AtSeconds => time.checked_mul(1000)?,
            Unit::InMillis | Unit::AtMillis => time,
        };
        match self {
            Unit::InSeconds | Unit::InMillis => millis.checked_add(i64::try_from(now_ms).ok()?),
            Unit::AtSeconds | Unit::AtMillis => Some(millis),
        }
    }
}

/// The time in an option of `SET`, `SETEX`, `GETEX`.
pub struct Expiry;

impl Expiry {
    /// The time in milliseconds since 1970. These commands refuse a time of zero or less.
    pub fn parse(unit: Unit, time: &[u8], now_ms: u64, command: &'static str) -> Outcome<u64> {
        let time = integer(time)?;
        let at = Some(time).filter(|&time| time > 0).and_then(|time| unit.absolute_ms(time, now_ms));
        at.and_then(|at| u64::try_from(at).ok()).ok_or_else(|| Error::expire(command))
    }
}

/// The words behind `EXPIRE key time`.
#[derive(Clone, Copy, Default)]
pub(super) struct Conditions {
    /// `NX`: only if the key has no expiry.
    none: bool,
    /// `XX`: only if the key has an expiry.
    some: bool,
    /// `GT`: only to a later time (no expiry is the latest).
    later: bool,
    /// `LT`: only to an earlier time.
    earlier: bool,
}

impl Conditions {
    /// The condition that `word` names, where only one is allowed; `None` if it names none.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let mut condition = Self::default();
        let is = match upper(word).as_slice() {
            b"NX" => &mut condition.none,
            b"XX" => &mut condition.some,
            b"GT" => &mut condition.later,
            b"LT" => &mut condition.earlier,
            _ => return None,
        };
        *is = true;
        Some(condition)
    }

    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut conditions = Self::default();
        for word in args.iter_from(3) {
            match upper(word).as_slice() {
                b"NX" => conditions.none = true,
                b"XX" => conditions.some = true,
                b"GT" => conditions.later = true,
                b"LT" => conditions.earlier = true,
                _ => return Err(Error::unsupported_option(word)),
            }
        }
        if conditions.none && (conditions.some || conditions.later || conditions.earlier) {
            return Err(Error::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.later && conditions.earlier {
            return Err(Error::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether an expiry `old` may become `new`, in milliseconds since 1970.
    pub(super) fn allow(self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|old| i64::try_from(old).unwrap_or(i64::MAX));
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.earlier && old.is_some_and(|old| new >= old))
    }
}

async fn expire_in(cx: &mut Context<'_>, args: Args<'_>, unit: Unit, command: &'static str) -> Outcome {
    let conditions = Conditions::parse(args)?;
    let time = integer(args.at(2))?;
    let new = unit.absolute_ms(time, cx.clock_ms()).ok_or_else(|| Error::expire(command))?;
    let key = args.at(1);
    let row = cx.get(key).await?.filter(|row| conditions.allow(row.expire_at_ms, new));
    if let Some(row) = &row {
        match u64::try_from(new) {
            Ok(at) if at > cx.now_ms() => cx.put_content(cx.database(), key, &row.content, Some(at))?,
            // The time has passed, so the key expires now.
            _ => cx.delete(key)?,
        }
    }
    cx.replies().integer(i64::from(row.is_some()));
    Ok(())
}

pub async fn expire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::InSeconds, "expire").await
}

pub async fn pexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::InMillis, "pexpire").await
}

pub async fn expireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::AtSeconds, "expireat").await
}

pub async fn pexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::AtMillis, "pexpireat").await
}

pub async fn persist(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let row = cx.get(key).await?.filter(|row| row.expire_at_ms.is_some());
    if let Some(row) = &row {
        cx.put_content(cx.database(), key, &row.content, None)?;
    }
    cx.replies().integer(i64::from(row.is_some()));
    Ok(())
}

/// Replies with a time that is computed from the expiry and the current time, both in milliseconds since 1970; with -2
/// if there is no key, and -1 if it has no expiry.
async fn time_of(cx: &mut Context<'_>, args: Args<'_>, time: impl FnOnce(i64, i64) -> i64) -> Outcome {
    let row = cx.get(args.at(1)).await?;
    let now_ms = cx.clock_ms() as i64;
    cx.replies().integer(match row.map(|row| row.expire_at_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => time(i64::try_from(at).unwrap_or(i64::MAX), now_ms),
    });
    Ok(())
}

/// `millis`, which is not negative, rounded to the nearest second.
fn seconds(millis: i64) -> i64 {
    // The largest time plus half a second fits an unsigned number.
    ((millis as u64 + 500) / 1000) as i64
}

pub async fn ttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    time_of(cx, args, |at, now| seconds((at - now).max(0))).await
}

pub async fn pttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    time_of(cx, args, |at, now| (at - now).max(0)).await
}

pub async fn expiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    time_of(cx, args, |at, _| seconds(at)).await
}

pub async fn pexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    time_of(cx, args, |at, _| at).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_with_no_expiry_as_the_latest_time() {
        let later = Conditions { later: true, ..Conditions::default() };
        let earlier = Conditions { earlier: true, ..Conditions::default() };
        assert!(!later.allow(None, 5) && earlier.allow(None, 5));
        assert!(later.allow(Some(4), 5) && !later.allow(Some(5), 5) && !earlier.allow(Some(5), 5));
        assert!(earlier.allow(Some(6), 5));
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        assert_eq!(Unit::InSeconds.absolute_ms(i64::MAX / 1000 + 1, 0), None);
        assert_eq!(Unit::InMillis.absolute_ms(i64::MAX, 1), None);
        assert_eq!(Unit::AtMillis.absolute_ms(i64::MAX, 1), Some(i64::MAX));
        assert!(Expiry::parse(Unit::InSeconds, b"0", 1, "set").is_err());
    }
}
