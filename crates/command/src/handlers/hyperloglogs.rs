//! HyperLogLogs: `PFADD`, `PFCOUNT`, `PFMERGE`, and commands that look into one.

use weir_model::StringRow;

use super::ONE_TURN_KEYS_MAX;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::hyperloglog::{
    Corrupted, HyperLogLog, REGISTER_MAX, REGISTERS, Registers, count, describe, is_dense, is_hyperloglog, known_count,
    merge,
};
use crate::keyword::lower;
use crate::turn::{end_turn, end_turn_of};

const NOT_ONE: Error = Error::new("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPTED: Error = Error::new("INVALIDOBJ Corrupted HLL object detected");

/// How many values are merged between two turns.
const TURN_VALUES: usize = 16;

impl From<Corrupted> for Error {
    fn from(_: Corrupted) -> Self {
        CORRUPTED
    }
}

/// The value of `key`, which has to be a HyperLogLog.
async fn found(cx: &mut Context<'_>, key: &[u8]) -> Outcome<Option<StringRow>> {
    match cx.string(key).await? {
        Some(row) if !is_hyperloglog(&row.value) => Err(NOT_ONE),
        row => Ok(row),
    }
}

/// The HyperLogLog of `key`, to be changed, and its expiry.
async fn to_change(cx: &mut Context<'_>, key: &[u8]) -> Outcome<Option<(HyperLogLog, Option<u64>)>> {
    let row = found(cx, key).await?;
    row.map(|row| Ok((HyperLogLog::of(&row.value).ok_or(NOT_ONE)?, row.expire_at_ms))).transpose()
}

pub async fn pfadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let row = to_change(cx, args.at(1)).await?;
    let mut is_changed = row.is_none();
    let (mut value, expire_at_ms) = row.unwrap_or_else(|| (HyperLogLog::empty(), None));
    for (index, element) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        is_changed |= value.add(element)?;
    }
    if is_changed {
        value.forget_count();
        cx.put(args.at(1), value.as_bytes(), expire_at_ms)?;
    }
    cx.replies().integer(i64::from(is_changed));
    Ok(())
}

/// Raises `registers` to those of all `keys`; gives whether one of these HyperLogLogs is dense.
async fn merged<'k>(
    cx: &mut Context<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    registers: &mut Registers,
) -> Outcome<bool> {
    let mut any_dense = false;
    for (index, key) in keys.enumerate() {
        end_turn_of(cx.yields(), TURN_VALUES, index).await;
        if let Some(row) = found(cx, key).await? {
            any_dense |= is_dense(&row.value);
            merge(&row.value, registers)?;
            count_merged(cx, &row.value);
        }
        cx.let_go();
    }
    Ok(any_dense)
}

/// Counts the work of raising registers to those of `value`: one and a half steps for each register of a dense value,
/// one step for each byte of a sparse one.
fn count_merged(cx: &mut Context<'_>, value: &[u8]) {
    cx.computed(if is_dense(value) { REGISTERS / 2 * 3 } else { value.len() });
}

/// Redis stores the computed count in the value. Weir does not, because this command only reads.
pub async fn pfcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 2 {
        let mut registers = Box::new([0; REGISTERS]);
        cx.hold_moment(args.at(1)).await?;
        merged(cx, args.iter_from(1), &mut registers).await?;
        cx.passed_registers(1);
        cx.replies().integer(count(&registers) as i64);
        return Ok(());
    }
    let number = match found(cx, args.at(1)).await? {
        None => 0,
        Some(row) => match known_count(&row.value) {
            Some(number) => number,
            None => {
                let mut registers = Box::new([0; REGISTERS]);
                merge(&row.value, &mut registers)?;
                count_merged(cx, &row.value);
                cx.passed_registers(1);
                count(&registers)
            }
        },
    };
    cx.replies().integer(number as i64);
    Ok(())
}

pub async fn pfmerge(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if args.len() - 1 > ONE_TURN_KEYS_MAX {
        return Err(Error::new("ERR PFMERGE takes at most 10000 keys at a time"));
    }
    let mut registers = Box::new([0; REGISTERS]);
    let any_dense = merged(cx, args.iter_from(1), &mut registers).await?;
    let row = to_change(cx, args.at(1)).await?;
    let (mut value, expire_at_ms) = row.unwrap_or_else(|| (HyperLogLog::empty(), None));
    if any_dense {
        value.densify()?;
    }
    for (index, &rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        value.raise(index, rank)?;
    }
    cx.passed_registers(1);
    value.forget_count();
    cx.put(args.at(1), value.as_bytes(), expire_at_ms)?;
    cx.replies().ok();
    Ok(())
}

pub async fn pfdebug(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(2);
    let row = to_change(cx, key).await?;
    let (mut value, expire_at_ms) = row.ok_or(Error::new("ERR The specified key does not exist"))?;
    let subcommand = lower(args.at(1));
    if !matches!(subcommand.as_slice(), b"getreg" | b"todense") {
        return tell_about(cx, &value, args.at(1));
    }
    let is_changed = value.densify()?;
    if is_changed {
        cx.put(key, value.as_bytes(), expire_at_ms)?;
    }
    if subcommand.as_slice() == b"todense" {
        cx.replies().integer(i64::from(is_changed));
        return Ok(());
    }
    let mut registers = Box::new([0; REGISTERS]);
    merge(value.as_bytes(), &mut registers)?;
    cx.passed_registers(1);
    cx.replies().array(REGISTERS);
    registers.iter().for_each(|&rank| cx.replies().integer(i64::from(rank)));
    Ok(())
}

/// The subcommands of `PFDEBUG` that change nothing.
fn tell_about(cx: &mut Context<'_>, value: &HyperLogLog, subcommand: &[u8]) -> Outcome {
    let is_dense = is_dense(value.as_bytes());
    match lower(subcommand).as_slice() {
        b"encoding" => cx.replies().simple(if is_dense { "dense" } else { "sparse" }),
        b"decode" if is_dense => return Err(Error::new("ERR HLL encoding is not sparse")),
        b"decode" => {
            let runs = describe(value.as_bytes())?;
            cx.replies().bulk(runs.as_bytes());
        }
        _ => {
            let text = [b"ERR Unknown PFDEBUG subcommand '", subcommand, b"'"].concat();
            return Err(Error::bytes(text));
        }
    }
    Ok(())
}

/// Raises random registers, and checks in both encodings that they are those of an array.
pub async fn pfselftest(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    const ROUNDS: usize = 2000;
    let (mut value, mut model) = (HyperLogLog::empty(), Box::new([0; REGISTERS]));
    for round in 0..ROUNDS {
        let chance = cx.random();
        let (index, rank) = (chance as usize % REGISTERS, (chance >> 32) as u8 % REGISTER_MAX + 1);
        if round == ROUNDS / 2 {
            value.densify()?;
        }
        // Sparse values have no room for higher ranks.
        let rank = if round < ROUNDS / 2 { rank % 32 + 1 } else { rank };
        let is_higher = rank > model[index];
        model[index] = rank.max(model[index]);
        if value.raise(index, rank)? != is_higher {
            return Err(failed(&format!("register {index} should be {}", model[index])));
        }
    }
    let mut registers = Box::new([0; REGISTERS]);
    merge(value.as_bytes(), &mut registers)?;
    if registers != model {
        return Err(failed("registers differ"));
    }
    cx.replies().ok();
    Ok(())
}

fn failed(what: &str) -> Error {
    Error::bytes(format!("ERR TESTFAILED {what}").into_bytes())
}
