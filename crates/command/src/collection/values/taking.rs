//! Taking values out at an end of a list.
//!
//! A value that is one of a chunk stays there: the head says where the list begins and how long it is. A part is
//! deleted once none of its values is left.

use std::ops::RangeInclusive;

use weir_model::parts::list::ListPart;

use super::places::ValueOnPage;
use super::*;

/// Values at an end that are to be taken out, and what becomes of the parts there.
#[derive(Default)]
pub(super) struct Taken {
    values: u64,
    bytes: i64,
    /// Parts of which no value is left.
    gone: Vec<ListPart>,
    /// The part of which some values go and some stay.
    divided: Option<ListPart>,
}

impl Taken {
    /// Adds what becomes of `part`, if of a list at the positions `list` those at `taken` are taken out.
    fn note(
        &mut self,
        part: ListPart,
        positions: &RangeInclusive<i64>,
        list: &RangeInclusive<i64>,
        taken: &RangeInclusive<i64>,
    ) {
        let (first, last) = (positions.start().max(list.start()), positions.end().min(list.end()));
        if taken.contains(first) && taken.contains(last) {
            self.gone.push(part);
        } else {
            self.divided = Some(part);
        }
    }
}

impl Collection<'_> {
    /// The positions of the values of a list that is not empty.
    fn positions(&self) -> Outcome<RangeInclusive<i64>> {
        Ok(self.end_position(End::Front)?..=self.end_position(End::Back)?)
    }

    /// Takes out the value at an end; `None` if the list is empty.
    ///
    /// # Errors
    /// The value cannot be read.
    pub async fn pop_value(&mut self, cx: &mut Context<'_>, end: End) -> Outcome<Option<Value>> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(None) };
        if self.packed().is_some() {
            let index = if end == End::Front { 0 } else { last };
            let value = self.value(cx, index).await?;
            self.count(-1, -bytes_of(&value));
            self.retain_packed(cx, |other| other != index)?;
            return Ok(Some(value));
        }
        let list = self.positions()?;
        let position = if end == End::Front { *list.start() } else { *list.end() };
        let found = self.end_part(cx, end, position).await?;
        let mut taken = Taken { values: 1, ..Taken::default() };
        taken.note(found.part, &found.positions, &list, &(position..=position));
        // Before the part is deleted, if it is: nothing that is deleted is left to the next command.
        let value = found.into_value(cx, self.life(), position).ok_or(MISSING)?;
        taken.bytes = bytes_of(&value);
        self.take_out(cx, end, taken)?;
        Ok(Some(value))
    }

    /// Takes out up to `count` values at an end; the outermost comes first.
    ///
    /// # Errors
    /// The values are too many, or cannot be read.
    pub async fn pop_values(&mut self, cx: &mut Context<'_>, end: End, count: u64) -> Outcome<Vec<Value>> {
        let (len, count) = (self.len(), count.min(self.len()));
        if count == 0 {
            return Ok(Vec::new());
        }
        let (going, kept, reverse) = match end {
            End::Front => (0..count, count..len, false),
            End::Back => (len - count..len, 0..len - count, true),
        };
        let (mut values, mut bytes) = (Vec::new(), 0);
        let mut take = |value: Value| {
            bytes += bytes_of(&value);
            values.push(value);
            if values.len() > 1 && bytes > TAKEN_BYTES_MAX { Err(TOO_MUCH) } else { Ok(()) }
        };
        if self.packed().is_some() {
            self.some_values(cx, &mut Walk::new(going, reverse)).await?.into_iter().try_for_each(take)?;
            self.keep_packed(cx, &kept, bytes)?;
            return Ok(values);
        }
        let taken = self.look_through_end(cx, end, count, |value| take(value.to_value())).await?;
        cx.copied_values(values.len());
        if kept.is_empty() && count > 1 {
            self.clear();
        } else if count > 1 && self.is_renewed_for(&kept) {
            self.renew(cx, kept, false, |_| false).await?;
        } else {
            Budget::of(count)?;
            self.take_out(cx, end, taken)?;
        }
        Ok(values)
    }

    /// Tells of `values` values at `end` of a spread list, the outermost first, which are to be
    /// [taken out](Collection::take_out).
    pub(super) async fn look_through_end(
        &self,
        cx: &mut Context<'_>,
        end: End,
        values: u64,
        mut tell: impl FnMut(ValueOnPage<'_>) -> Outcome,
    ) -> Outcome<Taken> {
        let mut taken = Taken { values, ..Taken::default() };
        let (going, reverse) = match end {
            End::Front => (0..values, false),
            End::Back => (self.len() - values..self.len(), true),
        };
        if going.is_empty() {
            return Ok(taken);
        }
        let mut walk = Walk::new(going.clone(), reverse);
        let (list, going) = (self.positions()?, self.position(going.start, 0)?..=self.position(going.end, -1)?);
        while !walk.is_done() {
            let page = self.values_page(cx, &mut walk).await?;
            page.each(|value| {
                taken.bytes += bytes_of(value.bytes());
                tell(value)
            })?;
            for part in page.parts() {
                let (part, positions) = part?;
                taken.note(part, &positions, &list, &going);
            }
            drop(page);
            cx.end_step(!walk.is_done()).await;
        }
        Ok(taken)
    }

    /// Takes out what was looked through at `end`.
    pub(super) fn take_out(&mut self, cx: &mut Context<'_>, end: End, taken: Taken) -> Outcome {
        let Taken { values, bytes, gone, divided } = taken;
        if values == 0 {
            return Ok(());
        }
        for part in gone {
            cx.delete_part(self.life(), ELEMENT_SPACE, &part.subkey())?;
        }
        if end == End::Front {
            // Behind the last position there is none; but then the list is empty.
            self.set_first(self.list_detail()?.first.saturating_add_unsigned(values))?;
        }
        self.count(-(values as i64), -bytes);
        let outermost = match divided {
            Some(ListPart::Chunk(anchor)) => EndPart::Chunk(anchor),
            _ => EndPart::Unknown,
        };
        self.set_end_part(end, outermost)
    }
}
