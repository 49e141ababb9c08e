//! `BITFIELD`: whole numbers of any width anywhere in a value.

use super::bitmap::{bit_offset, read_offset};
use super::{ONE_TURN_KEYS_MAX, integer};
use crate::args::Args;
use crate::context::Context;
use crate::error::{BIT_OFFSET, Error, Outcome, SYNTAX};
use crate::keyword::lower;
use crate::number::parse_i64;

/// Sixteen bytes, beginning with the one that has bit `offset`; zeros behind the value's end. A field lies in the first
/// nine.
fn window(value: &[u8], offset: u64) -> u128 {
    let from = usize::try_from(offset >> 3).map_or(&[][..], |first| value.get(first..).unwrap_or_default());
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(from).for_each(|(byte, value)| *byte = *value);
    u128::from_be_bytes(bytes)
}

/// The type of a field, such as `i5` or `u63`.
#[derive(Clone, Copy)]
struct Kind {
    signed: bool,
    /// 1 to 64 bits, or up to 63 for an unsigned field.
    bits: u32,
}

impl Kind {
    fn parse(word: &[u8]) -> Outcome<Self> {
        const INVALID: Error = Error::new(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (signed, bits) = match word {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(INVALID),
        };
        let bits = parse_i64(bits).filter(|bits| (1..=if signed { 64 } else { 63 }).contains(bits)).ok_or(INVALID)?;
        Ok(Self { signed, bits: bits as u32 })
    }

    /// Where the field at bit `offset` lies in the [`window`] there: its distance from the lowest bit, and the mask of
    /// its bits.
    fn place(self, offset: u64) -> (u32, u128) {
        let shift = 128 - (offset & 7) as u32 - self.bits;
        (shift, (u128::from(u64::MAX) >> (64 - self.bits)) << shift)
    }

    /// The field at bit `offset`; zero behind the value's end.
    fn read(self, value: &[u8], offset: u64) -> i64 {
        let (shift, mask) = self.place(offset);
        let raw = ((window(value, offset) & mask) >> shift) as u64;
        let unused = 64 - self.bits;
        if self.signed { (raw << unused) as i64 >> unused } else { raw as i64 }
    }

    fn write(self, value: &mut [u8], offset: u64, field: i64) {
        let (shift, mask) = self.place(offset);
        let changed = window(value, offset) & !mask | u128::from(field as u64) << shift & mask;
        let bytes = value[(offset >> 3) as usize..].iter_mut();
        bytes.zip(changed.to_be_bytes()).for_each(|(byte, changed)| *byte = changed);
    }

    /// `value + increment`, or what the rule makes of the sum if it does not fit; `None` if the rule is to fail.
    fn add(self, value: i64, increment: i64, rule: Overflow) -> Option<i64> {
        let limit =
            if self.signed { self.signed_limit(value, increment) } else { self.unsigned_limit(value, increment) };
        let Some(limit) = limit else { return Some(value.wrapping_add(increment)) };
        match rule {
            Overflow::Fail => None,
            Overflow::Saturate => Some(limit),
            Overflow::Wrap => {
                let (sum, unused) = (value.wrapping_add(increment), 64 - self.bits);
                Some(if self.signed { sum << unused >> unused } else { ((sum as u64) << unused >> unused) as i64 })
            }
        }
    }

    /// The limit that a signed sum exceeds; `None` if it fits. Differences wrap as in Redis, because `SET` may have a
    /// value far outside of the field.
    fn signed_limit(self, value: i64, increment: i64) -> Option<i64> {
        let max = i64::MAX >> (64 - self.bits);
        let min = -max - 1;
        let (room_above, room_below) = (max.wrapping_sub(value), min.wrapping_sub(value));
        let narrow = self.bits < 64;
        if value > max || narrow && increment > room_above || value >= 0 && increment > 0 && increment > room_above {
            Some(max)
        } else if value < min
            || narrow && increment < room_below
            || value < 0 && increment < 0 && increment < room_below
        {
            Some(min)
        } else {
            None
        }
    }

    fn unsigned_limit(self, value: i64, increment: i64) -> Option<i64> {
        let max = (1_u64 << self.bits) - 1;
        let value = value as u64;
        if value > max || increment > 0 && increment as u64 > max - value {
            Some(max as i64)
        } else if increment < 0 && increment.unsigned_abs() > value {
            Some(0)
        } else {
            None
        }
    }
}

/// What happens to a number that does not fit its field.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

struct Step {
    kind: Kind,
    offset: u64,
    action: Action,
}

impl Step {
    fn parse_all(args: Args<'_>, value_bytes_max: usize) -> Outcome<Vec<Self>> {
        let (mut steps, mut rule) = (Vec::new(), Overflow::Wrap);
        let (mut at, mut rules) = (2, 0);
        while let Some(word) = args.get(at) {
            check_count(steps.len().max(rules))?;
            let left = args.len() - at - 1;
            let name = lower(word);
            let takes = match name.as_slice() {
                b"get" if left >= 2 => 2,
                b"set" | b"incrby" if left >= 3 => 3,
                b"overflow" if left >= 1 => {
                    rule = match lower(args.at(at + 1)).as_slice() {
                        b"wrap" => Overflow::Wrap,
                        b"sat" => Overflow::Saturate,
                        b"fail" => Overflow::Fail,
                        _ => return Err(Error::new("ERR Invalid OVERFLOW type specified")),
                    };
                    (at, rules) = (at + 2, rules + 1);
                    continue;
                }
                _ => return Err(SYNTAX),
            };
            let kind = Kind::parse(args.at(at + 1))?;
            let reads = name.as_slice() == b"get";
            let offset_of = if reads { read_offset } else { bit_offset };
            let offset = offset_of(args.at(at + 2), Some(kind.bits), value_bytes_max)?;
            // A field that is written lies wholly in a value.
            if !reads && (offset + u64::from(kind.bits) - 1) >> 3 >= value_bytes_max as u64 {
                return Err(BIT_OFFSET);
            }
            let action = match name.as_slice() {
                b"get" => Action::Get,
                b"set" => Action::Set(integer(args.at(at + 3))?, rule),
                _ => Action::Add(integer(args.at(at + 3))?, rule),
            };
            steps.push(Self { kind, offset, action });
            at += 1 + takes;
        }
        check_count(steps.len())?;
        Ok(steps)
    }

    /// Applies the operation to `value`; gives the reply.
    fn run(&self, value: &mut [u8]) -> Option<i64> {
        let old = self.kind.read(value, self.offset);
        let (new, reply) = match self.action {
            Action::Get => return Some(old),
            Action::Set(new, rule) => (self.kind.add(new, 0, rule)?, old),
            Action::Add(increment, rule) => {
                let new = self.kind.add(old, increment, rule)?;
                (new, new)
            }
        };
        self.kind.write(value, self.offset, new);
        Some(reply)
    }

    /// Length in bytes of the shortest value that holds what is written; 0 if nothing is written.
    fn written_bytes(&self) -> usize {
        match self.action {
            Action::Get => 0,
            _ => ((self.offset + u64::from(self.kind.bits) - 1) >> 3) as usize + 1,
        }
    }
}

pub async fn bitfield(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let steps = Step::parse_all(args, cx.value_bytes_max())?;
    let needed = steps.iter().map(Step::written_bytes).max().unwrap_or(0);
    if needed == 0 {
        return read(cx, key, &steps).await;
    }
    let old = cx.string(key).await?;
    let mut value = old.as_ref().map_or_else(Vec::new, |row| row.value.to_vec());
    value.resize(value.len().max(needed), 0);
    let answers: Vec<Option<i64>> = steps.iter().map(|step| step.run(&mut value)).collect();
    if old.as_ref().is_none_or(|row| row.value[..] != value[..]) {
        cx.put(key, &value, old.and_then(|row| row.expire_at_ms))?;
    }
    reply(cx, &answers);
    Ok(())
}

pub async fn bitfield_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let steps = Step::parse_all(args, cx.value_bytes_max())?;
    if steps.iter().any(|step| !matches!(step.action, Action::Get)) {
        return Err(Error::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(cx, args.at(1), &steps).await
}

/// Refuses too many operations: they are one turn, and so is reading them.
fn check_count(count: usize) -> Outcome {
    if count <= ONE_TURN_KEYS_MAX {
        Ok(())
    } else {
        Err(Error::new("ERR BITFIELD takes at most 10000 fields at a time"))
    }
}

async fn read(cx: &mut Context<'_>, key: &[u8], steps: &[Step]) -> Outcome {
    let row = cx.string(key).await?;
    let value = row.as_ref().map_or(&[][..], |row| &row.value[..]);
    let answers: Vec<Option<i64>> = steps.iter().map(|step| Some(step.kind.read(value, step.offset))).collect();
    reply(cx, &answers);
    Ok(())
}

fn reply(cx: &mut Context<'_>, answers: &[Option<i64>]) {
    let replies = cx.replies();
    replies.array(answers.len());
    for answer in answers {
        match answer {
            Some(number) => replies.integer(*number),
            None => replies.null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_field_is_read_as_it_was_written(bits in 1_u32..=64, offset in 0_u64..100, field: i64, noise: [u8; 21]) {
            let kind = Kind { signed: true, bits };
            let field = field << (64 - bits) >> (64 - bits);
            let mut value = noise;
            kind.write(&mut value, offset, field);
            prop_assert_eq!(kind.read(&value, offset), field);
            // The bits around the field have not changed.
            kind.write(&mut value, offset, kind.read(&noise, offset));
            prop_assert_eq!(value, noise);
        }
    }

    #[test]
    fn sums_that_do_not_fit_follow_the_rule() {
        let (i8, u8) = (Kind { signed: true, bits: 8 }, Kind { signed: false, bits: 8 });
        assert_eq!(i8.add(127, 1, Overflow::Wrap), Some(-128));
        assert_eq!(i8.add(127, 1, Overflow::Saturate), Some(127));
        assert_eq!(i8.add(-128, -1, Overflow::Fail), None);
        assert_eq!(u8.add(255, 1, Overflow::Wrap), Some(0));
        assert_eq!(u8.add(3, -5, Overflow::Saturate), Some(0));
        let i64_ = Kind { signed: true, bits: 64 };
        assert_eq!(i64_.add(i64::MAX, 1, Overflow::Wrap), Some(i64::MIN));
        assert_eq!(i64_.add(i64::MIN, -1, Overflow::Saturate), Some(i64::MIN));
    }
}
