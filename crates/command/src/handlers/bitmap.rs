//! Values as arrays of bits: `SETBIT`, `GETBIT`, `BITCOUNT`, `BITPOS`, `BITOP`. Bit 0 is the highest bit of the first
//! byte.
//!
//! Counting and combining go through a value a turn at a time (S14).

use weir_io::Yield;

use super::{ONE_TURN_KEYS_MAX, integer};
use crate::args::Args;
use crate::context::Context;
use crate::error::{BIT_OFFSET, Error, Outcome, SYNTAX};
use crate::in_hand::{InHand, letting_go};
use crate::keyword::lower;
use crate::number::parse_i64;
use crate::turn::end_turn;

/// How many bytes are counted, searched or combined between two turns: less than a millisecond's work.
const TURN_BYTES: usize = 1 << 20;

/// Sources of a `BITOP` that are shorter than this, all together, are combined at once.
const AT_ONCE_BYTES: usize = 64 << 10;

/// Most bytes of all sources of a `BITOP`. They are all held at the same time, and a key may be named ten thousand
/// times.
const SOURCE_BYTES_MAX: usize = 256 << 20;

/// The length in bytes of the longest value in Redis. Bits may be read up to there, even if values are limited to less.
const READ_BYTES_MAX: usize = 512 << 20;

/// As [`bit_offset`], for a bit that is only read: a bit that no value can have is zero.
pub fn read_offset(arg: &[u8], width: Option<u32>, value_bytes_max: usize) -> Outcome<u64> {
    bit_offset(arg, width, value_bytes_max.max(READ_BYTES_MAX))
}

/// The offset of a bit that some value may have. With `width`, `#n` stands for the n-th field of `width` bits.
pub fn bit_offset(arg: &[u8], width: Option<u32>, value_bytes_max: usize) -> Outcome<u64> {
    let (number, factor) = match (arg, width) {
        ([b'#', number @ ..], Some(width)) => (number, i64::from(width)),
        _ => (arg, 1),
    };
    let offset = parse_i64(number).and_then(|number| number.checked_mul(factor));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset >> 3 < value_bytes_max as u64).ok_or(BIT_OFFSET)
}

pub async fn setbit(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let offset = bit_offset(args.at(2), None, cx.value_bytes_max())?;
    let bit = match parse_i64(args.at(3)) {
        Some(bit @ (0 | 1)) => bit as u8,
        _ => return Err(Error::new("ERR bit is not an integer or out of range")),
    };
    let (byte, shift) = ((offset >> 3) as usize, 7 - (offset & 7));
    let row = cx.string(key).await?;
    let old = row.as_ref().map_or(&[][..], |row| &row.value[..]);
    let old_bit = old.get(byte).map_or(0, |byte| byte >> shift & 1);
    if byte >= old.len() || old_bit != bit {
        let mut value = old.to_vec();
        value.resize(old.len().max(byte + 1), 0);
        value[byte] = value[byte] & !(1 << shift) | bit << shift;
        cx.put(key, &value, row.as_ref().and_then(|row| row.expire_at_ms))?;
    }
    cx.replies().integer(i64::from(old_bit));
    Ok(())
}

pub async fn getbit(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let offset = read_offset(args.at(2), None, cx.value_bytes_max())?;
    let row = cx.string(args.at(1)).await?;
    let byte = row.and_then(|row| row.value.get((offset >> 3) as usize).copied()).unwrap_or(0);
    cx.replies().integer(i64::from(byte >> (7 - (offset & 7)) & 1));
    Ok(())
}

/// Whether a range is given in bits.
fn in_bits(word: &[u8]) -> Outcome<bool> {
    if word.eq_ignore_ascii_case(b"BIT") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"BYTE") {
        Ok(false)
    } else {
        Err(SYNTAX)
    }
}

/// The bits from `start` to `end`, both included, which count from the value's end if they are negative; `None` if the
/// range is empty.
fn bit_range(start: i64, end: i64, bits: bool, value_len: usize) -> Option<(u64, u64)> {
    let unit = if bits { 1 } else { 8 };
    let len = value_len as i64 * 8 / unit;
    let from_front = |position: i64| if position < 0 { (len + position.max(-len)).max(0) } else { position };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    (start <= end).then(|| ((start * unit) as u64, (end * unit + unit - 1) as u64))
}

/// Calls `visit` for the bytes that hold the bits `from` to `to`, with the bits outside set to `outside` (all or none),
/// and with the offset of their first bit. It goes a turn's worth at a time, until `visit` returns something.
async fn in_turns<R>(
    value: &[u8],
    (from, to): (u64, u64),
    outside: u8,
    yields: Yield,
    mut visit: impl FnMut(&[u8], u64) -> Option<R>,
) -> Option<R> {
    let (first, last) = ((from >> 3) as usize, (to >> 3) as usize);
    let (front, back) = (0xff_u8 >> (from & 7), 0xff_u8 << (7 - (to & 7)));
    let masked = |byte: u8, inside: u8| byte & inside | outside & !inside;
    if first == last {
        return visit(&[masked(value[first], front & back)], first as u64 * 8);
    }
    if let Some(found) = visit(&[masked(value[first], front)], first as u64 * 8) {
        return Some(found);
    }
    let mut at = first + 1;
    while at < last {
        let end = last.min(at + TURN_BYTES);
        if let Some(found) = visit(&value[at..end], at as u64 * 8) {
            return Some(found);
        }
        at = end;
        if at < last {
            yields.now().await;
        }
    }
    visit(&[masked(value[last], back)], last as u64 * 8)
}

fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

pub async fn bitcount(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // A missing key is answered before the range is checked.
    let Some(row) = cx.string(args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let (start, end, bits) = match args.len() {
        2 => (0, -1, false),
        4 | 5 => {
            let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
            if start < 0 && end < 0 && start > end {
                cx.replies().integer(0);
                return Ok(());
            }
            (start, end, args.get(4).map_or(Ok(false), in_bits)?)
        }
        _ => return Err(SYNTAX),
    };
    let mut count = 0;
    if let Some(range) = bit_range(start, end, bits, row.value.len()) {
        in_turns(&row.value, range, 0, cx.yields(), |bytes, _| {
            count += ones(bytes);
            None::<()>
        })
        .await;
    }
    cx.replies().integer(count as i64);
    Ok(())
}

/// The first bit of `bytes` that is set, or that is not set.
fn first_bit(bytes: &[u8], set: bool) -> Option<u64> {
    let nothing = if set { 0 } else { 0xff };
    let index = bytes.iter().position(|&byte| byte != nothing)?;
    let byte = if set { bytes[index] } else { !bytes[index] };
    Some(index as u64 * 8 + u64::from(byte.leading_zeros()))
}

pub async fn bitpos(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let set = match integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(Error::new("ERR The bit argument must be 1 or 0.")),
    };
    let Some(row) = cx.string(args.at(1)).await? else {
        cx.replies().integer(if set { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 6 {
        return Err(SYNTAX);
    }
    let start = args.get(3).map_or(Ok(0), integer)?;
    let bits = args.get(5).map_or(Ok(false), in_bits)?;
    let end = args.get(4).map(integer).transpose()?;
    let value = &row.value[..];
    let range = bit_range(start, end.unwrap_or(-1), bits, value.len());
    let position = match range {
        None => None,
        Some(range) => {
            let outside = if set { 0 } else { 0xff };
            let first = |bytes: &[u8], offset| first_bit(bytes, set).map(|bit| offset + bit);
            let found = in_turns(value, range, outside, cx.yields(), first).await;
            // If no end is given, zeros follow the value.
            found.or((!set && end.is_none()).then_some(value.len() as u64 * 8))
        }
    };
    cx.replies().integer(position.map_or(-1, |position| position as i64));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Outcome<Self> {
        match lower(word).as_slice() {
            b"and" => Ok(Operation::And),
            b"or" => Ok(Operation::Or),
            b"xor" => Ok(Operation::Xor),
            b"not" => Ok(Operation::Not),
            _ => Err(SYNTAX),
        }
    }

    /// Combines `source` into `result`, which is at least as long. Behind its end, the source counts as zero.
    fn apply(self, result: &mut [u8], source: &[u8]) {
        let (both, beyond) = result.split_at_mut(source.len().min(result.len()));
        let pairs = both.iter_mut().zip(source);
        match self {
            Operation::And => {
                pairs.for_each(|(result, source)| *result &= source);
                beyond.fill(0);
            }
            Operation::Or => pairs.for_each(|(result, source)| *result |= source),
            Operation::Xor => pairs.for_each(|(result, source)| *result ^= source),
            Operation::Not => pairs.for_each(|(result, source)| *result = !source),
        }
    }

    /// The bytes `from..to` of the result over all sources.
    fn range(self, sources: &[&[u8]], from: usize, to: usize, result: &mut Vec<u8>) {
        let part = |source: &&[u8]| -> std::ops::Range<usize> { from.min(source.len())..to.min(source.len()) };
        let start = result.len();
        result.extend_from_slice(&sources[0][part(&sources[0])]);
        result.resize(start + to - from, 0);
        let rest = if self == Operation::Not { &sources[..1] } else { &sources[1..] };
        rest.iter().for_each(|source| self.apply(&mut result[start..], &source[part(source)]));
    }
}

pub async fn bitop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operation = Operation::parse(args.at(1))?;
    if operation == Operation::Not && args.len() != 4 {
        return Err(Error::new("ERR BITOP NOT must be called with a single source key."));
    }
    let (target, keys) = (args.at(2), args.iter_from(3));
    let count = keys.len();
    if count > ONE_TURN_KEYS_MAX {
        return Err(Error::new("ERR BITOP takes at most 10000 keys at a time"));
    }
    let (mut read, mut bytes) = (InHand::default(), 0);
    for (index, key) in keys.enumerate() {
        end_turn(cx.yields(), index).await;
        let row = letting_go(cx.string_to_keep(key), || read.own()).await?;
        bytes += row.as_ref().map_or(0, |row| row.value.len());
        if bytes > SOURCE_BYTES_MAX {
            return Err(Error::new("ERR BITOP takes sources of at most 256 MiB together"));
        }
        read.push(row);
    }
    let target_exists = letting_go(cx.get(target), || read.own()).await?.is_some();
    let sources: Vec<&[u8]> = read.iter().collect();
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = Vec::new();
    if bytes > AT_ONCE_BYTES {
        result.reserve_exact(len);
        // The bytes that one turn combines are those of all sources together.
        let step = (TURN_BYTES / count).max(64);
        while result.len() < len {
            cx.yields().now().await;
            let from = result.len();
            operation.range(&sources, from, len.min(from + step), &mut result);
        }
    } else {
        operation.range(&sources, 0, len, &mut result);
    }
    if !result.is_empty() {
        cx.put(target, &result, None)?;
    } else if target_exists {
        cx.delete(target)?;
    }
    cx.replies().integer(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_and_bytes_are_cut_to_the_value() {
        assert_eq!(bit_range(0, -1, false, 3), Some((0, 23)));
        assert_eq!(bit_range(0, -1, true, 3), Some((0, 23)));
        assert_eq!(bit_range(5, 30, true, 3), Some((5, 23)));
        assert_eq!(bit_range(-1, -1, false, 3), Some((16, 23)));
        assert_eq!(bit_range(i64::MIN, i64::MIN, true, 3), Some((0, 0)));
        assert_eq!(bit_range(3, 9, false, 3), None);
        assert_eq!(bit_range(0, 0, false, 0), None);
    }

    #[test]
    fn offsets_that_no_value_has_are_refused() {
        assert_eq!(bit_offset(b"799", None, 100).expect("the last"), 799);
        assert_eq!(bit_offset(b"#3", Some(5), 100).expect("a field"), 15);
        for (arg, width) in [("800", None), ("-1", None), ("#1", None), ("x", Some(8)), ("#-1", Some(8))] {
            assert!(bit_offset(arg.as_bytes(), width, 100).is_err(), "{arg}");
        }
        assert!(bit_offset(b"#9223372036854775807", Some(64), 100).is_err(), "no overflow");
    }

    #[test]
    fn pieces_of_a_combination_are_the_whole() {
        let sources: [&[u8]; 3] = [b"abcdefgh", b"xy", b"ABCDEFGHIJ"];
        for operation in [Operation::And, Operation::Or, Operation::Xor] {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            operation.range(&sources, 0, 10, &mut whole);
            (0..10).for_each(|at| operation.range(&sources, at, at + 1, &mut pieces));
            assert_eq!(whole, pieces);
        }
    }

    #[test]
    fn long_values_are_gone_through_in_turns() {
        let value = vec![0xff_u8; 3 * TURN_BYTES];
        let mut turns = 0;
        let count = std::cell::Cell::new(0);
        let whole = in_turns(&value, (4, value.len() as u64 * 8 - 5), 0, Yield::PLAIN, |bytes, _| {
            count.set(count.get() + ones(bytes));
            None::<()>
        });
        let mut whole = std::pin::pin!(whole);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        while whole.as_mut().poll(&mut cx).is_pending() {
            turns += 1;
        }
        assert_eq!((count.get(), turns), (value.len() as u64 * 8 - 8, 2));
    }
}
