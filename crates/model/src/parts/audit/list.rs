//! The audit of a spread list: its values have no gap, and its head knows its outermost parts.

use std::ops::RangeInclusive;

use super::{Flaw, flaw};
use crate::parts::list::{Chunk, EndPart, ListDetail, ListPart, POSITION_BYTES, chunk_index};

/// What the parts so far have in common.
#[derive(Default)]
pub(super) struct ListSeen {
    /// The last part, and the positions of its values.
    last: Option<(ListPart, RangeInclusive<i64>)>,
    /// The position of the list's last value.
    end: i64,
}

/// Values of a part that are values of the list, and their bytes.
pub(super) struct ValuesSeen {
    pub values: u64,
    pub bytes: u64,
}

/// What the head says of the list.
pub(super) fn detail(bytes: &[u8]) -> Result<ListDetail, Flaw> {
    ListDetail::decode(bytes).ok_or(Flaw("its head does not say where it begins"))
}

impl ListSeen {
    /// Takes the next part of a list of `count` values.
    pub fn part(&mut self, detail: &ListDetail, count: u64, subkey: &[u8], value: &[u8]) -> Result<ValuesSeen, Flaw> {
        const GAP: Flaw = Flaw("its positions have a gap");
        let part = ListPart::parse(subkey).ok_or(GAP)?;
        if detail.ends.is_none() && matches!(part, ListPart::Chunk(_)) {
            return flaw("its head knows of no chunks, but it has one");
        }
        let positions = part.positions(value).ok_or(Flaw("a chunk of its values is damaged"))?;
        let (start, end) = (*positions.start(), *positions.end());
        // A list without values is found out by their number.
        self.end = detail.first.checked_add_unsigned(count.saturating_sub(1)).ok_or(GAP)?;
        match &self.last {
            None if !positions.contains(&detail.first) => return Err(GAP),
            None => check_end(detail, 0, part, start == detail.first)?,
            Some((_, before)) if before.end().checked_add(1) != Some(start) => return Err(GAP),
            Some(_) => {}
        }
        self.last = Some((part, positions));
        // A part that lies behind the last value counts in full, so that the numbers do not agree.
        let last = if start > self.end { end } else { end.min(self.end) };
        let first = start.max(detail.first);
        let bytes = match part {
            ListPart::Value(_) => value.len() as u64,
            ListPart::Chunk(anchor) => {
                let (a, b) = (chunk_index(anchor, first), chunk_index(anchor, last));
                let living = Chunk::parse(value).into_iter().flat_map(|chunk| chunk.iter());
                living.skip(a.min(b)).take(a.abs_diff(b) + 1).map(|value| value.len() as u64).sum()
            }
        };
        let values = first.abs_diff(last) + 1;
        Ok(ValuesSeen { values, bytes: values * POSITION_BYTES + bytes })
    }

    /// Ends the audit of a list whose number of values is right.
    pub fn check(&self, detail: &ListDetail) -> Result<(), Flaw> {
        match &self.last {
            Some((part, positions)) => check_end(detail, 1, *part, *positions.end() == self.end),
            None => Ok(()),
        }
    }
}

/// Compares what the head says of an end with the outermost part there, of which no value is gone if it `is_whole`.
fn check_end(detail: &ListDetail, end: usize, part: ListPart, is_whole: bool) -> Result<(), Flaw> {
    let agrees = match (detail.ends.map(|ends| ends[end]), part) {
        (None | Some(EndPart::Value), ListPart::Value(_)) => true,
        (Some(EndPart::Unknown), _) => is_whole,
        (Some(EndPart::Chunk(known)), ListPart::Chunk(anchor)) => known == anchor,
        _ => false,
    };
    if agrees { Ok(()) } else { flaw("its head does not know its outermost parts") }
}
