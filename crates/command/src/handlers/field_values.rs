//! Fields of hashes that are read or set along with their deadlines: `HGETDEL`, `HGETEX`, `HSETEX`.

use weir_model::parts::RowType;

use super::expiry::Unit;
use super::field_expiry::{COUNT_NOT_POSITIVE, NEGATIVE, deadline, fields_at};
use super::hashes::{hash, put};
use super::integer;
use crate::args::Args;
use crate::collection::Member;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::events::Classes;
use crate::keyword::upper;
use crate::turn::end_turn;

const WRONG_COUNT: Error = Error::new("ERR The `numfields` parameter must match the number of arguments");
const ONE_CONDITION: Error = Error::new("ERR Only one of FXX or FNX arguments can be specified");
const ONE_EXPIRY_OR_KEEP: Error =
    Error::new("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
const ONE_EXPIRY_OR_PERSIST: Error =
    Error::new("ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified");

/// What becomes of the deadlines of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The fields keep their deadlines.
    Kept,
    /// The fields lose their deadlines.
    None,
    /// The fields get this deadline, in milliseconds since 1970.
    At(i64),
}

impl Ending {
    /// The new deadline of a field that had the deadline `old`. If the new deadline has passed at `now_ms`, the field
    /// itself is gone.
    fn of(self, old: Option<u64>, now_ms: u64) -> Result<Option<u64>, Passed> {
        match self {
            Ending::Kept => Ok(old),
            Ending::None => Ok(None),
            Ending::At(at) => u64::try_from(at).ok().filter(|&at| at > now_ms).map(Some).ok_or(Passed),
        }
    }
}

/// The deadline has passed.
struct Passed;

/// The words in front of `FIELDS`.
struct Options {
    ending: Option<Ending>,
    /// `Some(true)`: only if all fields exist; `Some(false)`: only if none of them does.
    all_exist: Option<bool>,
    /// The position of the fields.
    begin: usize,
}

impl Options {
    /// Reads the options. `kept_word` is the one word that gives an [`Ending`] without a time, and `kept` is that
    /// ending. If `conditions` is set, conditions are allowed, too.
    fn parse(
        args: Args<'_>,
        now_ms: u64,
        command: &'static str,
        (kept_word, kept, one_expiry): (&[u8], Ending, Error),
        conditions: bool,
        (words_each, wrong_count): (usize, Error),
    ) -> Outcome<Self> {
        let mut options = Self { ending: None, all_exist: None, begin: 0 };
        let mut at = 2;
        while let Some(word) = args.get(at).filter(|word| !word.eq_ignore_ascii_case(b"FIELDS")) {
            at += 1;
            if let Some(unit) = Unit::parse(word) {
                let time = integer(args.get(at).ok_or_else(|| Error::arity(command))?)?;
                at += 1;
                if time < 0 {
                    return Err(NEGATIVE);
                }
                options.end(Ending::At(deadline(unit, time, now_ms, command)?), &one_expiry)?;
            } else if word.eq_ignore_ascii_case(kept_word) {
                options.end(kept, &one_expiry)?;
            } else if let (true, condition @ (b"FNX" | b"FXX")) = (conditions, upper(word).as_slice()) {
                if options.all_exist.replace(condition == b"FXX").is_some() {
                    return Err(ONE_CONDITION);
                }
            } else {
                return Err(Error::bytes([b"ERR unknown argument: ", word].concat()));
            }
        }
        options.begin = fields_at(args, at, words_each, &COUNT_NOT_POSITIVE, &wrong_count)?;
        Ok(options)
    }

    fn end(&mut self, ending: Ending, one_expiry: &Error) -> Outcome {
        if self.ending.replace(ending).is_some() { Err(one_expiry.clone()) } else { Ok(()) }
    }
}

/// Answers the value of `field`.
fn tell(cx: &mut Context<'_>, field: Option<&Member>) {
    match field {
        Some(field) => cx.replies().bulk_value(field.value.clone()),
        None => cx.replies().null(),
    }
}

pub async fn hgetdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut found = hash(cx, args.at(1)).await?;
    let begin = fields_at(args, 2, 1, &COUNT_NOT_POSITIVE, &WRONG_COUNT)?;
    cx.replies().array(args.len() - begin);
    let mut is_changed = false;
    for (index, name) in args.iter_from(begin).enumerate() {
        end_turn(cx.yields(), index).await;
        let field = match &found {
            Some(hash) => hash.member(cx, name).await?,
            None => None,
        };
        tell(cx, field.as_ref());
        cx.drain().await?;
        if let (Some(hash), Some(field)) = (&mut found, &field) {
            hash.remove_field(cx, field)?;
            is_changed = true;
        }
    }
    if is_changed {
        cx.tell(Classes::HASH, "hdel", args.at(1));
    }
    match &mut found {
        Some(hash) => cx.save_hash(hash).await,
        None => Ok(()),
    }
}

pub async fn hgetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut found = hash(cx, args.at(1)).await?;
    let now_ms = cx.now_ms();
    let keep = (&b"PERSIST"[..], Ending::None, ONE_EXPIRY_OR_PERSIST);
    let options = Options::parse(args, cx.clock_ms(), "hgetex", keep, false, (1, WRONG_COUNT))?;
    let ending = options.ending.unwrap_or(Ending::Kept);
    cx.replies().array(args.len() - options.begin);
    let mut event = None;
    for (index, name) in args.iter_from(options.begin).enumerate() {
        end_turn(cx.yields(), index).await;
        let field = match &found {
            Some(hash) => hash.member(cx, name).await?,
            None => None,
        };
        tell(cx, field.as_ref());
        cx.drain().await?;
        let (Some(hash), Some(field)) = (&mut found, &field) else { continue };
        match ending.of(field.expire_at_ms, now_ms) {
            // As in Redis, a deadline that is the same again is a change, too: `HEXPIRE` does so as well.
            Ok(at) if ending == Ending::Kept || at.is_none() && field.expire_at_ms.is_none() => {}
            Ok(at) => {
                hash.put_field(cx, Some(field), name, &field.value, at)?;
                event = Some(if at.is_some() { "hexpire" } else { "hpersist" });
            }
            Err(Passed) => {
                hash.remove_field(cx, field)?;
                event = Some("hdel");
            }
        }
    }
    if let Some(event) = event {
        cx.tell(Classes::HASH, event, args.at(1));
    }
    match &mut found {
        Some(hash) => cx.save_hash(hash).await,
        None => Ok(()),
    }
}

pub async fn hsetex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut hash = cx.collection_or_new(args.at(1), RowType::Hash).await?;
    let now_ms = cx.now_ms();
    let keep = (&b"KEEPTTL"[..], Ending::Kept, ONE_EXPIRY_OR_KEEP);
    let options = Options::parse(args, cx.clock_ms(), "hsetex", keep, true, (2, Error::arity("hsetex")))?;
    let names = || args.iter_from(options.begin).step_by(2);
    if let Some(all_exist) = options.all_exist {
        for (index, name) in names().enumerate() {
            end_turn(cx.yields(), index).await;
            if hash.member(cx, name).await?.is_some() != all_exist {
                cx.replies().integer(0);
                return Ok(());
            }
        }
    }
    let ending = options.ending.unwrap_or(Ending::None);
    let mut is_changed = false;
    for (index, (name, value)) in names().zip(args.iter_from(options.begin + 1).step_by(2)).enumerate() {
        end_turn(cx.yields(), index).await;
        let before = hash.field(cx, name).await?;
        let old = before.as_ref().and_then(|field| field.expire_at_ms).filter(|&at| at > now_ms);
        match (ending.of(old, now_ms), &before) {
            (Ok(at), _) => {
                put(cx, &mut hash, before.as_ref(), name, value, at)?;
                is_changed = true;
            }
            (Err(Passed), Some(field)) => {
                hash.remove_field(cx, field)?;
                is_changed |= field.lives(now_ms);
            }
            (Err(Passed), None) => {}
        }
    }
    if is_changed {
        // As in Redis, fields whose deadline has passed already are set first, and then deleted.
        cx.tell(Classes::HASH, "hset", args.at(1));
        if let Ending::At(_) = ending {
            let event = if ending.of(None, now_ms).is_ok() { "hexpire" } else { "hdel" };
            cx.tell(Classes::HASH, event, args.at(1));
        }
    }
    cx.save_hash(&mut hash).await?;
    cx.replies().integer(1);
    Ok(())
}
