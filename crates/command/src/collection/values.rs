//! The values of a list, by their index.
//!
//! A large list has its values at consecutive positions, and its head says where the first one is. So both ends grow
//! and shrink without a look at the rest. To insert or remove a value in between, the values on the shorter side of it
//! are moved.

use std::ops::Range;

use weir_model::Value;
use weir_model::parts::{PackedPart, RowType, ordered_i64, take_i64};

use super::Collection;
use crate::context::{Context, StoredPartsPage, Subkeys};
use crate::error::{Error, Outcome};

mod removal;

/// The space of the values.
const SPACE: u8 = 0;

/// Bytes of a position.
const POSITION_BYTES: usize = 8;

/// How many values are read between two turns.
const PAGE_VALUES: usize = 1000;

/// Most values, and most bytes of values, that one command moves or takes out one by one.
const CHANGED_VALUES_MAX: u64 = 100_000;
const CHANGED_BYTES_MAX: u64 = 64 << 20;
const TOO_MANY: Error =
    Error::new("ERR the list is too large for this: more than 100000 values, or 64 MB of them, would have to move");

/// Most bytes of several values that are taken out and returned at once.
const TAKEN_BYTES_MAX: usize = 16 << 20;
const TOO_MUCH: Error = Error::new("ERR these values have more than 16 MB together: take less at a time");

const NO_POSITION: Error = Error::new("ERR the list has no position left at this end");
const MISSING: Error = Error::new("ERR stored data is damaged: a list has lost a value");

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its first value is.
    Front,
    /// Where its last value is.
    Back,
}

/// What a command may still change in a list's values.
struct Budget {
    values: u64,
    bytes: u64,
}

impl Budget {
    /// The budget of a command that changes `values` values.
    fn of(values: u64) -> Outcome<Self> {
        if values > CHANGED_VALUES_MAX { Err(TOO_MANY) } else { Ok(Self { values, bytes: CHANGED_BYTES_MAX }) }
    }

    fn spend(&mut self, value: &[u8]) -> Outcome {
        self.values = self.values.checked_sub(1).ok_or(TOO_MANY)?;
        self.bytes = self.bytes.checked_sub(value.len() as u64).ok_or(TOO_MANY)?;
        Ok(())
    }
}

fn packed_part(value: &[u8]) -> PackedPart<'_> {
    PackedPart { space: SPACE, subkey: &[], value, expire_at_ms: None }
}

fn subkey(position: i64) -> [u8; POSITION_BYTES] {
    ordered_i64(position)
}

fn bytes_of(value: &[u8]) -> i64 {
    (POSITION_BYTES + value.len()) as i64
}

impl Collection<'_> {
    /// The position of the first value; 0 for a packed list.
    fn first(&self) -> i64 {
        take_i64(&mut &self.head.detail[..]).unwrap_or(0)
    }

    fn set_first(&mut self, position: i64) {
        self.head.detail.clear();
        self.head.detail.extend_from_slice(&subkey(position));
    }

    /// The position of the value with the number `index`, moved by `by`.
    fn position(&self, index: u64, by: i64) -> Outcome<i64> {
        self.first().checked_add_unsigned(index).and_then(|position| position.checked_add(by)).ok_or(NO_POSITION)
    }

    /// The value with the number `index`, which has to be less than the length.
    ///
    /// # Errors
    /// The value cannot be read.
    pub async fn value(&self, cx: &mut Context<'_>, index: u64) -> Outcome<Value> {
        let found = match self.packed() {
            Some(packed) => {
                cx.passed_packed(index as usize + 1);
                cx.copied_values(1);
                packed.iter().nth(index as usize).map(|part| Value::copy_of(part.value))
            }
            None => {
                let subkey = subkey(self.position(index, 0)?);
                cx.part_value(self.key, self.life(), SPACE, &subkey).await?
            }
        };
        found.ok_or(MISSING)
    }

    /// Some of the values with the numbers in `range`: the first ones, or in `reverse` order the last ones. It is at
    /// least one value, unless the range is empty.
    ///
    /// # Errors
    /// The values cannot be read.
    pub async fn some_values(&self, cx: &mut Context<'_>, range: Range<u64>, reverse: bool) -> Outcome<Vec<Value>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(packed) = self.packed() {
            cx.passed_packed(range.end as usize);
            let wanted = packed.iter().skip(range.start as usize).take((range.end - range.start) as usize);
            let mut values: Vec<Value> = wanted.map(|part| Value::copy_of(part.value)).collect();
            cx.copied_values(values.len());
            if reverse {
                values.reverse();
            }
            return if values.is_empty() { Err(MISSING) } else { Ok(values) };
        }
        let page = self.spread_page(cx, range, reverse).await?;
        cx.copied_values(page.iter().len());
        Ok(page.iter().map(|part| part.to_value()).collect())
    }

    /// The same for a spread list and a range that is not empty.
    async fn spread_page(&self, cx: &mut Context<'_>, range: Range<u64>, reverse: bool) -> Outcome<StoredPartsPage> {
        let (first, last) = (self.position(range.start, 0)?, self.position(range.end - 1, 0)?);
        let (from, to) =
            (std::ops::Bound::Included(subkey(first).into()), std::ops::Bound::Included(subkey(last).into()));
        let mut left = Some(Subkeys { space: SPACE, from, to, reverse });
        while let Some(subkeys) = left {
            let mut page = cx.stored_parts(self.key, self.life(), subkeys, PAGE_VALUES).await?;
            if page.iter().len() == 0 {
                left = page.next.take();
                continue;
            }
            let mut expected = if reverse { last } else { first };
            for part in page.iter() {
                if part.key.len() != POSITION_BYTES || take_i64(&mut &part.key[..]) != Some(expected) {
                    return Err(MISSING);
                }
                expected = expected.wrapping_add(if reverse { -1 } else { 1 });
            }
            return Ok(page);
        }
        Err(MISSING)
    }

    /// Answers with the values whose numbers are in `range`, all of which the list has; the caller has announced them.
    /// The answer is sent while the list is read, however long the list is.
    ///
    /// # Errors
    /// The values cannot be read; the client is gone.
    pub async fn tell_values(&self, cx: &mut Context<'_>, range: Range<u64>) -> Outcome {
        if range.is_empty() {
            // An empty range may lie far behind the last value.
            return Ok(());
        }
        if let Some(packed) = self.packed() {
            cx.passed_packed(range.end as usize);
            let wanted = packed.iter().skip(range.start as usize).take((range.end - range.start) as usize);
            let (replies, mut missing) = (cx.replies(), range.end - range.start);
            for part in wanted {
                replies.bulk(part.value);
                missing -= 1;
            }
            return if missing == 0 { Ok(()) } else { Err(MISSING) };
        }
        let mut left = range;
        while !left.is_empty() {
            let page = self.spread_page(cx, left.clone(), false).await?;
            let replies = cx.replies();
            page.iter().for_each(|part| part.tell_value(replies));
            left.start += page.iter().len() as u64;
            drop(page);
            cx.drain().await?;
            cx.end_step(!left.is_empty()).await;
        }
        Ok(())
    }

    /// Puts `value` at an end.
    ///
    /// # Errors
    /// The list has no position there.
    pub fn push_value(&mut self, cx: &mut Context<'_>, end: End, value: &[u8]) -> Outcome {
        if self.head.detail.is_empty() {
            self.set_first(0);
        }
        if self.packed().is_some() {
            return self.insert_packed(cx, if end == End::Front { 0 } else { self.len() }, value);
        }
        let position = match end {
            End::Front => self.position(0, -1)?,
            End::Back => self.position(self.len(), 0)?,
        };
        if end == End::Front {
            self.set_first(position);
        }
        self.count(1, bytes_of(value));
        cx.put_part(self.life(), SPACE, &subkey(position), value)
    }

    fn insert_packed(&mut self, cx: &mut Context<'_>, index: u64, value: &[u8]) -> Outcome {
        self.count(1, bytes_of(value));
        self.change_packed(cx, |packed| packed.insert(index as usize, packed_part(value)))
    }

    /// Puts `value` in the place of the value with the number `index`, which is `before`.
    ///
    /// # Errors
    /// As [`Context::put_part`].
    pub fn set_value(&mut self, cx: &mut Context<'_>, index: u64, before: &[u8], value: &[u8]) -> Outcome {
        self.count(0, bytes_of(value) - bytes_of(before));
        if self.packed().is_none() {
            return cx.put_part(self.life(), SPACE, &subkey(self.position(index, 0)?), value);
        }
        // The place of the old value is looked for, and the place of the new one.
        cx.passed_packed(self.len() as usize);
        self.change_packed(cx, |packed| {
            packed.remove_nth(index as usize);
            packed.insert(index as usize, packed_part(value));
        })
    }

    /// Puts `value` in front of the value with the number `index`, or behind all values. Values on the shorter side
    /// move.
    ///
    /// # Errors
    /// Too many values have to move; they cannot be read.
    pub async fn insert_value(&mut self, cx: &mut Context<'_>, index: u64, value: &[u8]) -> Outcome {
        if self.packed().is_some() {
            return self.insert_packed(cx, index, value);
        }
        let behind = self.len() - index;
        let mut budget = Budget::of(index.min(behind))?;
        if index < behind {
            self.shift(cx, 0..index, -1, &mut budget).await?;
            self.set_first(self.position(0, -1)?);
        } else {
            self.shift(cx, index..self.len(), 1, &mut budget).await?;
        }
        self.count(1, bytes_of(value));
        cx.put_part(self.life(), SPACE, &subkey(self.position(index, 0)?), value)
    }

    /// Copies the values with the numbers in `range` to positions that are `by` further. Their old positions are left
    /// alone.
    async fn shift(&self, cx: &mut Context<'_>, range: Range<u64>, by: i64, budget: &mut Budget) -> Outcome {
        // The order makes sure that no value is overwritten before it is read.
        let reverse = by > 0;
        let mut left = range;
        while !left.is_empty() {
            for value in self.some_values(cx, left.clone(), reverse).await? {
                budget.spend(&value)?;
                let index = take_index(&mut left, reverse);
                cx.put_part(self.life(), SPACE, &subkey(self.position(index, by)?), &value)?;
            }
            cx.yields().now().await;
        }
        Ok(())
    }

    /// Takes out the value at an end; `None` if the list is empty.
    ///
    /// # Errors
    /// The value cannot be read.
    pub async fn pop_value(&mut self, cx: &mut Context<'_>, end: End) -> Outcome<Option<Value>> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(None) };
        let (index, kept) = if end == End::Front { (0, 1..last + 1) } else { (last, 0..last) };
        let value = self.value(cx, index).await?;
        self.drop_ends(cx, kept, bytes_of(&value)).await?;
        Ok(Some(value))
    }

    /// Takes out up to `count` values at an end; the outermost comes first.
    ///
    /// # Errors
    /// The values are too many, or cannot be read.
    pub async fn pop_values(&mut self, cx: &mut Context<'_>, end: End, count: u64) -> Outcome<Vec<Value>> {
        let count = count.min(self.len());
        let (taken, kept, reverse) = match end {
            End::Front => (0..count, count..self.len(), false),
            End::Back => (self.len() - count..self.len(), 0..self.len() - count, true),
        };
        let (mut values, mut left, mut bytes) = (Vec::new(), taken, 0);
        while !left.is_empty() {
            for value in self.some_values(cx, left.clone(), reverse).await? {
                take_index(&mut left, reverse);
                bytes += POSITION_BYTES + value.len();
                values.push(value);
                if values.len() > 1 && bytes > TAKEN_BYTES_MAX {
                    return Err(TOO_MUCH);
                }
            }
            cx.end_step(!left.is_empty()).await;
        }
        self.drop_ends(cx, kept, bytes as i64).await?;
        Ok(values)
    }
}

/// Takes the first number out of `range`, or in `reverse` the last one.
fn take_index(range: &mut Range<u64>, reverse: bool) -> u64 {
    if reverse {
        range.end -= 1;
        range.end
    } else {
        range.start += 1;
        range.start - 1
    }
}
