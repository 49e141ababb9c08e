//! Where the values of a spread list are: which part has the value at a position, and pages of parts.

use std::ops::{Bound, Deref, RangeInclusive};

use weir_model::parts::Life;
use weir_model::parts::list::{CHUNK_VALUES_MAX, Chunk, ListPart, chunk_index, chunk_positions};

use super::walk::PAGE_VALUES;
use super::*;
use crate::chunk_in_hand::ChunkInHand;
use crate::context::{StoredPartsPage, Subkeys};
use crate::reply::Replies;
use crate::stored_parts::StoredPart;

/// How far a chunk goes from its anchor at most.
const REACH: i64 = CHUNK_VALUES_MAX as i64 - 1;

/// A part that was read by itself.
pub(super) struct FoundPart {
    pub part: ListPart,
    pub positions: RangeInclusive<i64>,
    value: PartValue,
}

/// The value of a part.
enum PartValue {
    Stored(Value),
    /// That of a chunk which the command in front has left.
    InHand(Vec<u8>),
}

impl Deref for PartValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(value) => value,
            Self::InHand(bytes) => bytes,
        }
    }
}

impl FoundPart {
    fn new(part: ListPart, value: Value) -> Outcome<Self> {
        let positions = part.positions(&value).ok_or(MISSING)?;
        Ok(Self { part, positions, value: PartValue::Stored(value) })
    }

    fn in_hand(ChunkInHand { anchor, bytes, values, .. }: ChunkInHand) -> Outcome<Self> {
        let positions = chunk_positions(anchor, values).ok_or(MISSING)?;
        Ok(Self { part: ListPart::Chunk(anchor), positions, value: PartValue::InHand(bytes) })
    }

    /// Whether nothing was read, because the command in front has left the part.
    pub fn is_in_hand(&self) -> bool {
        matches!(self.value, PartValue::InHand(_))
    }

    /// The chunk, if the part is one.
    pub fn chunk(&self) -> Option<Chunk<'_>> {
        match self.part {
            ListPart::Value(_) => None,
            ListPart::Chunk(_) => {
                let values = self.positions.start().abs_diff(*self.positions.end()) + 1;
                Some(Chunk::parsed(&self.value, values as usize))
            }
        }
    }

    /// The bytes of the part, with room for all values that may join it if it is a chunk.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.value {
            PartValue::InHand(bytes) => bytes,
            PartValue::Stored(value) => {
                let mut bytes = Vec::with_capacity(value.len().max(WRITTEN_CHUNK_BYTES_MAX));
                bytes.extend_from_slice(&value);
                bytes
            }
        }
    }

    /// The value at `position`, if the part has it. A chunk, which belongs to the life `life`, is left to the next
    /// command.
    pub fn into_value(self, cx: &mut Context<'_>, life: Life, position: i64) -> Option<Value> {
        if !self.positions.contains(&position) {
            return None;
        }
        let (ListPart::Chunk(anchor), Some(chunk)) = (self.part, self.chunk()) else {
            return Some(match self.value {
                PartValue::Stored(value) => value,
                PartValue::InHand(bytes) => bytes.into(),
            });
        };
        let index = chunk_index(anchor, position);
        cx.passed_packed(index + 1);
        cx.copied_values(1);
        let (values, value) = (chunk.values_len(), chunk.iter().nth(index).map(Value::copy_of));
        cx.keep_chunk(|| ChunkInHand { life, anchor, bytes: self.into_bytes(), values });
        value
    }
}

/// A value on a page.
pub(super) enum ValueOnPage<'p> {
    /// A part by itself.
    Part(StoredPart<'p>),
    /// One of those of a chunk.
    InChunk(&'p [u8]),
}

impl ValueOnPage<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Part(part) => part.value,
            Self::InChunk(bytes) => bytes,
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Self::Part(part) => part.to_value(),
            Self::InChunk(bytes) => Value::copy_of(bytes),
        }
    }

    pub fn tell(&self, replies: &mut Replies) {
        match self {
            Self::Part(part) => part.tell_value(replies),
            Self::InChunk(bytes) => replies.bulk(bytes),
        }
    }
}

/// Values at consecutive positions, which were read together.
pub(super) struct ValuesPage {
    parts: StoredPartsPage,
    /// The parts that have values wanted, by their numbers.
    used: Range<usize>,
    /// The positions of the values.
    positions: RangeInclusive<i64>,
    reverse: bool,
}

impl ValuesPage {
    /// The values of `parts` at the positions `wanted`, from the first one on or in `reverse` from the last one, up to
    /// the part with the last of [`PAGE_VALUES`]; `None` if there are none.
    ///
    /// # Errors
    /// A value is missing.
    fn new(parts: StoredPartsPage, wanted: &RangeInclusive<i64>, reverse: bool) -> Outcome<Option<Self>> {
        let (first, last) = (*wanted.start(), *wanted.end());
        let begin = if reverse { last } else { first };
        let (mut used, mut reached) = (0..0, None);
        for (number, part) in parts.iter().enumerate() {
            let positions = positions_of(part)?;
            let (start, end) = (first.max(*positions.start()), last.min(*positions.end()));
            if start > end {
                // Chunks reach to either side, so the page may have a few parts that lie beside what is wanted.
                match reached {
                    None => continue,
                    Some(_) => break,
                }
            }
            let (near, far) = if reverse { (end, start) } else { (start, end) };
            let expected = match reached {
                None => Some(begin),
                Some(reached) if reverse => i64::checked_sub(reached, 1),
                Some(reached) => i64::checked_add(reached, 1),
            };
            if Some(near) != expected {
                return Err(MISSING);
            }
            used = if reached.is_none() { number..number + 1 } else { used.start..number + 1 };
            reached = Some(far);
            if begin.abs_diff(far) + 1 >= PAGE_VALUES as u64 {
                break;
            }
        }
        let Some(reached) = reached else { return Ok(None) };
        let positions = if reverse { reached..=last } else { first..=reached };
        Ok(Some(Self { parts, used, positions, reverse }))
    }

    /// How many values there are: at least one.
    pub fn len(&self) -> usize {
        (self.positions.start().abs_diff(*self.positions.end()) + 1) as usize
    }

    /// The parts that have the values, with the positions of all of their values.
    pub fn parts(&self) -> impl Iterator<Item = Outcome<(ListPart, RangeInclusive<i64>)>> + '_ {
        self.used().map(|part| {
            let positions = positions_of(part)?;
            Ok((ListPart::parse(part.key).ok_or(MISSING)?, positions))
        })
    }

    fn used(&self) -> impl Iterator<Item = StoredPart<'_>> {
        self.parts.iter().skip(self.used.start).take(self.used.len())
    }

    /// Calls `tell` with each value, in the order that was asked for.
    ///
    /// # Errors
    /// Those of `tell`; a part is damaged.
    pub fn each(&self, mut tell: impl FnMut(ValueOnPage<'_>) -> Outcome) -> Outcome {
        for part in self.used() {
            let anchor = match ListPart::parse(part.key).ok_or(MISSING)? {
                ListPart::Value(_) => {
                    tell(ValueOnPage::Part(part))?;
                    continue;
                }
                ListPart::Chunk(anchor) => anchor,
            };
            let positions = positions_of(part)?;
            let (start, end) =
                (*self.positions.start().max(positions.start()), *self.positions.end().min(positions.end()));
            let (mut values, chunk) = ([&[][..]; CHUNK_VALUES_MAX], Chunk::parse(part.value).ok_or(MISSING)?);
            values.iter_mut().zip(chunk.iter()).for_each(|(place, value)| *place = value);
            let (start, end) = (chunk_index(anchor, start), chunk_index(anchor, end));
            let mut wanted = values[start.min(end)..=start.max(end)].iter();
            // In a chunk of the front the first value is the last one in the list's order.
            if (anchor < 0) == self.reverse {
                wanted.try_for_each(|value| tell(ValueOnPage::InChunk(value)))?;
            } else {
                wanted.rev().try_for_each(|value| tell(ValueOnPage::InChunk(value)))?;
            }
        }
        Ok(())
    }
}

fn positions_of(part: StoredPart<'_>) -> Outcome<RangeInclusive<i64>> {
    ListPart::parse(part.key).and_then(|place| place.positions(part.value)).ok_or(MISSING)
}

/// The parts whose own positions are from `from` to `to`.
fn between(from: i64, to: i64, reverse: bool) -> Subkeys {
    let (from, to) = (ListPart::Value(from).subkey().to_vec(), ListPart::Chunk(to).subkey().to_vec());
    Subkeys { space: ELEMENT_SPACE, from: Bound::Included(from), to: Bound::Included(to), reverse }
}

impl Collection<'_> {
    /// The part `part`, whose existence is known.
    pub(super) async fn part(&self, cx: &mut Context<'_>, part: ListPart) -> Outcome<FoundPart> {
        if let ListPart::Chunk(anchor) = part
            && let Some(chunk) = cx.take_chunk(self.key, self.life(), anchor)
        {
            return FoundPart::in_hand(chunk);
        }
        let value = cx.part_value(self.key, self.life(), ELEMENT_SPACE, &part.subkey()).await?.ok_or(MISSING)?;
        FoundPart::new(part, value)
    }

    /// The outermost part at `end` of a spread list, whose last value there is at `position`.
    pub(super) async fn end_part(&self, cx: &mut Context<'_>, end: End, position: i64) -> Outcome<FoundPart> {
        match self.list_detail()?.ends.map(|ends| ends[end as usize]) {
            None | Some(EndPart::Value) => self.part(cx, ListPart::Value(position)).await,
            Some(EndPart::Chunk(anchor)) => self.part(cx, ListPart::Chunk(anchor)).await,
            // The part lies within the list, so it is the first one from its end on. What is read ahead with it are the
            // parts that the commands after this one want next, and not those that are gone.
            Some(EndPart::Unknown) => {
                let inwards = match end {
                    End::Front => between(position, position.saturating_add(REACH), false),
                    End::Back => between(position.saturating_sub(REACH), position, true),
                };
                self.first_part(cx, inwards).await
            }
        }
    }

    /// The part that has the value at `position` of a spread list.
    pub(super) async fn part_at(&self, cx: &mut Context<'_>, position: i64) -> Outcome<FoundPart> {
        if self.list_detail()?.ends.is_none() {
            return self.part(cx, ListPart::Value(position)).await;
        }
        // No chunk reaches across zero.
        let around = match position < 0 {
            true => between(position, position.saturating_add(REACH).min(-1), false),
            false => between((position - REACH).max(0), position, true),
        };
        self.first_part(cx, around).await
    }

    /// The first part in `subkeys`, which has to be there.
    async fn first_part(&self, cx: &mut Context<'_>, subkeys: Subkeys) -> Outcome<FoundPart> {
        let mut left = Some(subkeys);
        while let Some(subkeys) = left {
            let page = cx.stored_parts(self.key, self.life(), subkeys, 1).await?;
            if let Some(found) = page.get(0) {
                let part = ListPart::parse(found.key).ok_or(MISSING)?;
                return FoundPart::new(part, found.to_value());
            }
            left = page.next;
        }
        Err(MISSING)
    }

    /// The next page of `walk`, which is not done, through a spread list.
    pub(super) async fn values_page(&self, cx: &mut Context<'_>, walk: &mut Walk) -> Outcome<ValuesPage> {
        let (Range { start, end }, reverse) = (walk.left.clone(), walk.reverse);
        let wanted = self.position(start, 0)?..=self.position(end, -1)?;
        let values = usize::try_from(end - start).unwrap_or(usize::MAX);
        let (subkeys, limit) = match self.list_detail()?.ends {
            None => (between(*wanted.start(), *wanted.end(), reverse), values.min(PAGE_VALUES)),
            Some(ends) => {
                let is_outermost = if reverse { end == self.len() } else { start == 0 };
                let beside = if walk.is_at_part || is_outermost { 0 } else { REACH as usize };
                (self.around(ends, walk, &wanted), values.min(walk.parts) + beside)
            }
        };
        let mut left = Some(subkeys);
        while let Some(subkeys) = left {
            let mut page = cx.stored_parts(self.key, self.life(), subkeys, limit).await?;
            left = page.next.take();
            if let Some(page) = ValuesPage::new(page, &wanted, reverse)? {
                walk.pass(page.len(), page.used.len());
                return Ok(page);
            }
        }
        Err(MISSING)
    }

    /// All parts that may have values at the positions `wanted`, which are those that are left of `walk`: a chunk may
    /// begin before these, and its key is that of its anchor.
    fn around(&self, ends: [EndPart; 2], walk: &Walk, wanted: &RangeInclusive<i64>) -> Subkeys {
        let (first, last) = (*wanted.start(), *wanted.end());
        let from = match ends[End::Front as usize] {
            _ if first < 0 || (walk.is_at_part && !walk.reverse) => first,
            // Beyond the list's end there are only deleted parts, through which nobody wants to go.
            EndPart::Chunk(anchor) if walk.left.start == 0 => anchor,
            _ if walk.left.start == 0 => first,
            _ => (first - REACH).max(0),
        };
        let to = match ends[End::Back as usize] {
            _ if last >= 0 || (walk.is_at_part && walk.reverse) => last,
            EndPart::Chunk(anchor) if walk.left.end == self.len() => anchor,
            _ if walk.left.end == self.len() => last,
            _ => last.saturating_add(REACH).min(-1),
        };
        between(from, to, walk.reverse)
    }
}
