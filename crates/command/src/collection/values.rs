//! The values of a list, by their index.
//!
//! A large list has its values at consecutive positions, and its head says where the first one is. So both ends grow
//! and shrink without a look at the rest. Short values stand in chunks of several
//! ([`weir_model::parts::list`]). To insert or remove a value in between, the values on the shorter side of it are
//! taken out and pushed again.
//!
//! | | |
//! |---|---|
//! | [`places`] | which part has a value, and pages of parts |
//! | [`pushing`] | values that are put in at an end, or in the place of another |
//! | [`taking`] | values that are taken out at an end |
//! | [`removal`] | values that are taken out or put in elsewhere |
//! | [`walk`] | going through values page by page |

use std::ops::Range;

use weir_model::Value;
use weir_model::parts::list::{EndPart, ListDetail, POSITION_BYTES};
use weir_model::parts::{ELEMENT_SPACE, PackedPart, RowType};

use super::Collection;
use crate::context::Context;
use crate::error::{Error, Outcome};

mod places;
mod pushing;
mod removal;
mod taking;
mod walk;

pub use self::walk::Walk;

/// Most values, and most bytes of values, that one command moves or takes out one by one.
const CHANGED_VALUES_MAX: u64 = 100_000;
const CHANGED_BYTES_MAX: u64 = 64 << 20;
const TOO_MANY: Error =
    Error::new("ERR the list is too large for this: more than 100000 values, or 64 MB of them, would have to move");

/// Most bytes of several values that are taken out and returned at once.
const TAKEN_BYTES_MAX: i64 = 16 << 20;
const TOO_MUCH: Error = Error::new("ERR these values have more than 16 MB together: take less at a time");

/// Most bytes of a chunk that takes a further value, if it was written before.
const WRITTEN_CHUNK_BYTES_MAX: usize = 256;

const NO_POSITION: Error = Error::new("ERR the list has no position left at this end");
const MISSING: Error = Error::new("ERR stored data is damaged: a list has lost a value");
const NO_FIRST: Error = Error::new("ERR stored data is damaged: a list does not say where it begins");

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where its first value is.
    Front,
    /// Where its last value is.
    Back,
}

impl End {
    /// How far outwards `position` is on this end's side of zero, where positions from 0 on are the back's and all
    /// others the front's; negative on the other side. Applied twice, it gives the position again.
    fn outwards(self, position: i64) -> i64 {
        match self {
            Self::Front => !position,
            Self::Back => position,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
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
    PackedPart { space: ELEMENT_SPACE, subkey: &[], value, expire_at_ms: None }
}

fn bytes_of(value: &[u8]) -> i64 {
    POSITION_BYTES as i64 + value.len() as i64
}

impl Collection<'_> {
    /// What the head says of a list. A packed list begins at position 0.
    fn list_detail(&self) -> Outcome<ListDetail> {
        ListDetail::decode(&self.head.detail).ok_or(NO_FIRST)
    }

    fn set_first(&mut self, position: i64) -> Outcome {
        let detail = ListDetail { first: position, ..self.list_detail()? };
        detail.encode(&mut self.head.detail);
        Ok(())
    }

    /// Notes which part is the outermost at `end`.
    fn set_end_part(&mut self, end: End, part: EndPart) -> Outcome {
        let mut detail = self.list_detail()?;
        let ends = match (&mut detail.ends, part) {
            // As long as there are no chunks, nothing need be noted.
            (None, EndPart::Unknown | EndPart::Value) => return Ok(()),
            (None, EndPart::Chunk(_)) => detail.ends.insert([EndPart::Value; 2]),
            (Some(ends), _) => ends,
        };
        ends[end as usize] = part;
        if self.is_empty() {
            ends[end.other() as usize] = EndPart::Unknown;
        }
        detail.encode(&mut self.head.detail);
        Ok(())
    }

    /// The position of the value with the number `index`, moved by `by`.
    fn position(&self, index: u64, by: i64) -> Outcome<i64> {
        // Behind the last value there may be no position, although there is one for the value itself.
        let position = i128::from(self.list_detail()?.first) + i128::from(index) + i128::from(by);
        i64::try_from(position).map_err(|_| NO_POSITION)
    }

    /// The position of the last value at `end`. The list is not empty.
    fn end_position(&self, end: End) -> Outcome<i64> {
        match end {
            End::Front => self.position(0, 0),
            End::Back => self.position(self.len(), -1),
        }
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
                let position = self.position(index, 0)?;
                let part = match index {
                    0 => self.end_part(cx, End::Front, position).await?,
                    last if last + 1 == self.len() => self.end_part(cx, End::Back, position).await?,
                    _ => self.part_at(cx, position).await?,
                };
                part.into_value(cx, self.life(), position)
            }
        };
        found.ok_or(MISSING)
    }

    /// The next values of `walk`: at least one, unless it is done.
    ///
    /// # Errors
    /// The values cannot be read.
    pub async fn some_values(&self, cx: &mut Context<'_>, walk: &mut Walk) -> Outcome<Vec<Value>> {
        if walk.is_done() {
            return Ok(Vec::new());
        }
        if let Some(packed) = self.packed() {
            let Range { start, end } = walk.left;
            cx.passed_packed(end as usize);
            let wanted = packed.iter().skip(start as usize).take((end - start) as usize);
            let mut values: Vec<Value> = wanted.map(|part| Value::copy_of(part.value)).collect();
            cx.copied_values(values.len());
            if walk.reverse {
                values.reverse();
            }
            if values.is_empty() {
                return Err(MISSING);
            }
            walk.pass(values.len(), values.len());
            return Ok(values);
        }
        let page = self.values_page(cx, walk).await?;
        let mut values = Vec::with_capacity(page.len());
        page.each(|value| {
            values.push(value.to_value());
            Ok(())
        })?;
        cx.copied_values(values.len());
        Ok(values)
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
        let mut walk = Walk::new(range, false);
        while !walk.is_done() {
            let page = self.values_page(cx, &mut walk).await?;
            let replies = cx.replies();
            page.each(|value| {
                value.tell(replies);
                Ok(())
            })?;
            drop(page);
            cx.drain().await?;
            cx.end_step(!walk.is_done()).await;
        }
        Ok(())
    }
}
