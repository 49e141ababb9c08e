//! Putting values in: at an end of a list, or in the place of another value.
//!
//! A value joins the outermost chunk if the value is short and the chunk has room. A command writes the whole chunk
//! again to which it adds, so a chunk of an earlier command takes only a few values; one that the command itself begins
//! takes more. So a list that is filled value by value has small chunks and writes little, and one that is filled by
//! many values at once has large ones. Commands of one record are no exception: a script may push a hundred thousand
//! times, and all that it has written is in memory until it ends. But a command of a group need not read and copy the
//! chunk that the one in front of it has left: it has that chunk [in hand](crate::chunk_in_hand).

use std::cmp::Ordering;

use weir_model::parts::Packed;
use weir_model::parts::list::{
    CHUNK_VALUE_BYTES_MAX, CHUNK_VALUES_MAX, Chunk, ListPart, NEW_CHUNK_BYTES_MAX, chunk_index,
};

use super::places::FoundPart;
use super::*;
use crate::chunk_in_hand::ChunkInHand;
use crate::turn::end_turn;

/// The outermost chunk at an end, while values are pushed there.
pub(super) struct OpenChunk {
    anchor: i64,
    bytes: Vec<u8>,
    values: usize,
    bytes_max: usize,
    is_changed: bool,
}

impl OpenChunk {
    fn begin(anchor: i64) -> Self {
        let bytes = Vec::with_capacity(WRITTEN_CHUNK_BYTES_MAX);
        Self { anchor, bytes, values: 0, bytes_max: NEW_CHUNK_BYTES_MAX, is_changed: true }
    }

    fn has_room_for(&self, value: &[u8]) -> bool {
        self.values < CHUNK_VALUES_MAX && self.bytes.len() + value.len() < self.bytes_max
    }

    fn push(&mut self, value: &[u8]) {
        Chunk::push(&mut self.bytes, value);
        self.values += 1;
        self.is_changed = true;
    }
}

impl Collection<'_> {
    /// Puts `value` at an end.
    ///
    /// # Errors
    /// The list has no position there; the outermost part cannot be read.
    pub async fn push_value(&mut self, cx: &mut Context<'_>, end: End, value: &[u8]) -> Outcome {
        self.push_values(cx, end, std::iter::once(value)).await
    }

    /// Puts `values` at an end, one after the other.
    ///
    /// # Errors
    /// As [`Collection::push_value`].
    pub async fn push_values<'v>(
        &mut self,
        cx: &mut Context<'_>,
        end: End,
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Outcome {
        if self.is_empty() && self.head.detail.is_empty() {
            ListDetail::default().encode(&mut self.head.detail);
        }
        // The outermost chunk, once it was looked for.
        let mut open = None;
        for (index, value) in values.enumerate() {
            end_turn(cx.yields(), index).await;
            if self.packed().is_some() {
                self.insert_packed(cx, if end == End::Front { 0 } else { self.len() }, value)?;
                continue;
            }
            let chunk = match &mut open {
                Some(chunk) => chunk,
                None => open.insert(self.open_chunk(cx, end).await?),
            };
            self.push_spread(cx, end, chunk, value)?;
        }
        self.close_chunk(cx, open.flatten())
    }

    pub(super) fn insert_packed(&mut self, cx: &mut Context<'_>, index: u64, value: &[u8]) -> Outcome {
        self.count(1, bytes_of(value));
        self.change_packed(cx, |packed| packed.insert(index as usize, packed_part(value)))
    }

    /// The outermost chunk at `end` of a spread list, if a further value may join it. No value beyond that end is left
    /// in a part afterwards, so a part may follow.
    async fn open_chunk(&mut self, cx: &mut Context<'_>, end: End) -> Outcome<Option<OpenChunk>> {
        let ends = self.list_detail()?.ends.unwrap_or_default();
        let EndPart::Chunk(anchor) = ends[end as usize] else { return Ok(None) };
        let position = self.end_position(end)?;
        let found = self.part(cx, ListPart::Chunk(anchor)).await?;
        let chunk = found.chunk().filter(|_| found.positions.contains(&position)).ok_or(MISSING)?;
        let is_of_this_side = end.outwards(anchor) >= 0;
        // The chunk is cut behind this many of its values, if it has more.
        let cut = chunk_index(anchor, position) + usize::from(is_of_this_side);
        let is_cut = cut < chunk.values_len();
        cx.passed_packed(match found.is_in_hand() {
            true if is_cut => cut,
            true => 0,
            false => chunk.values_len(),
        });
        if is_of_this_side {
            let stay = chunk.split_at(cut).0.len();
            let mut bytes = found.into_bytes();
            bytes.truncate(stay);
            let bytes_max = WRITTEN_CHUNK_BYTES_MAX;
            return Ok(Some(OpenChunk { anchor, bytes, values: cut, bytes_max, is_changed: is_cut }));
        }
        // The chunk belongs to the other end's side, and its anchor is what lies outermost here. Nothing can join it.
        if cut > 0 {
            cx.delete_part(self.life(), ELEMENT_SPACE, &ListPart::Chunk(anchor).subkey())?;
            cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Chunk(position).subkey(), chunk.split_at(cut).1)?;
            for end in [End::Front, End::Back] {
                if ends[end as usize] == EndPart::Chunk(anchor) {
                    self.set_end_part(end, EndPart::Chunk(position))?;
                }
            }
        }
        Ok(None)
    }

    /// Puts `value` at `end` of a spread list: into the chunk `open`, if it has room, else behind it.
    fn push_spread(&mut self, cx: &mut Context<'_>, end: End, open: &mut Option<OpenChunk>, value: &[u8]) -> Outcome {
        let position = match end {
            End::Front => self.position(0, -1)?,
            End::Back => self.position(self.len(), 0)?,
        };
        let may_join = value.len() <= CHUNK_VALUE_BYTES_MAX && end.outwards(position) >= 0;
        match open.as_mut().filter(|chunk| may_join && chunk.has_room_for(value)) {
            Some(chunk) => chunk.push(value),
            None => {
                self.close_chunk(cx, open.take())?;
                if may_join {
                    self.set_end_part(end, EndPart::Chunk(position))?;
                    open.insert(OpenChunk::begin(position)).push(value);
                } else {
                    self.set_end_part(end, EndPart::Value)?;
                    cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Value(position).subkey(), value)?;
                }
            }
        }
        if end == End::Front {
            self.set_first(position)?;
        }
        self.count(1, bytes_of(value));
        Ok(())
    }

    /// Writes `open`, if it is a chunk that was changed, and leaves it to the next command.
    fn close_chunk(&self, cx: &mut Context<'_>, open: Option<OpenChunk>) -> Outcome {
        let Some(OpenChunk { anchor, bytes, values, is_changed, .. }) = open else { return Ok(()) };
        let life = self.life();
        if is_changed {
            cx.put_part(life, ELEMENT_SPACE, &ListPart::Chunk(anchor).subkey(), &bytes)?;
        }
        cx.keep_chunk(|| ChunkInHand { life, anchor, bytes, values });
        Ok(())
    }

    /// Gives the values of a list that has been packed parts of their own. They are counted already.
    pub(in crate::collection) fn spread_values(&mut self, cx: &mut Context<'_>, packed: &Packed) -> Outcome {
        let (count, bytes) = (self.head.count, self.head.bytes);
        (self.head.count, self.head.bytes) = (0, 0);
        ListDetail::default().encode(&mut self.head.detail);
        let mut open = None;
        for (number, part) in packed.iter().enumerate() {
            // The number is also set where a planted fault leaves out the counting.
            self.head.count = number as u64;
            self.push_spread(cx, End::Back, &mut open, part.value)?;
        }
        (self.head.count, self.head.bytes) = (count, bytes);
        self.close_chunk(cx, open)
    }

    /// Puts `value` in the place of the value with the number `index`, which is `before`.
    ///
    /// # Errors
    /// As [`Context::put_part`]; the list cannot be read.
    pub async fn set_value(&mut self, cx: &mut Context<'_>, index: u64, before: &[u8], value: &[u8]) -> Outcome {
        self.count(0, bytes_of(value) - bytes_of(before));
        if self.packed().is_some() {
            // The place of the old value is looked for, and the place of the new one.
            cx.passed_packed(self.len() as usize);
            return self.change_packed(cx, |packed| {
                packed.remove_nth(index as usize);
                packed.insert(index as usize, packed_part(value));
            });
        }
        let position = self.position(index, 0)?;
        let found = self.part_at(cx, position).await?;
        if !found.positions.contains(&position) {
            return Err(MISSING);
        }
        let (ListPart::Chunk(anchor), Some(chunk)) = (found.part, found.chunk()) else {
            return cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Value(position).subkey(), value);
        };
        cx.passed_packed(chunk.values_len());
        if value.len() <= CHUNK_VALUE_BYTES_MAX {
            let place = chunk_index(anchor, position);
            let mut bytes = chunk.split_at(place).0.to_vec();
            Chunk::push(&mut bytes, value);
            bytes.extend_from_slice(chunk.split_at(place + 1).1);
            return cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Chunk(anchor).subkey(), &bytes);
        }
        self.divide(cx, &found, position, value)
    }

    /// Puts a long value at `position`, which is one of those of the chunk `found`. The living values on either side of
    /// it are a chunk each from now on.
    fn divide(&mut self, cx: &mut Context<'_>, found: &FoundPart, position: i64, value: &[u8]) -> Outcome {
        let (ListPart::Chunk(anchor), Some(chunk)) = (found.part, found.chunk()) else { return Err(MISSING) };
        let side = if anchor < 0 { End::Front } else { End::Back };
        let (inner, outer) = (self.end_position(side.other())?, self.end_position(side)?);
        // The first living value and the one behind the last.
        let begin = if found.positions.contains(&inner) { chunk_index(anchor, inner) } else { 0 };
        let end = if found.positions.contains(&outer) { chunk_index(anchor, outer) + 1 } else { chunk.values_len() };
        let place = chunk_index(anchor, position);
        let (nearer, further) = (chunk.split_at(place).0, chunk.split_at(end).0);
        let further = &further[chunk.split_at(place + 1).0.len()..];
        let next = side.outwards(side.outwards(position).saturating_add(1));
        let subkey = ListPart::Chunk(anchor).subkey();
        if place > begin {
            cx.put_part(self.life(), ELEMENT_SPACE, &subkey, nearer)?;
        } else {
            cx.delete_part(self.life(), ELEMENT_SPACE, &subkey)?;
        }
        cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Value(position).subkey(), value)?;
        if !further.is_empty() {
            cx.put_part(self.life(), ELEMENT_SPACE, &ListPart::Chunk(next).subkey(), further)?;
        }
        let ends = self.list_detail()?.ends.unwrap_or_default();
        for end in [End::Front, End::Back] {
            if ends[end as usize] != EndPart::Chunk(anchor) {
                continue;
            }
            let index = chunk_index(anchor, self.end_position(end)?);
            let part = match index.cmp(&place) {
                Ordering::Less => EndPart::Chunk(anchor),
                Ordering::Equal => EndPart::Value,
                Ordering::Greater => EndPart::Chunk(next),
            };
            self.set_end_part(end, part)?;
        }
        Ok(())
    }
}
