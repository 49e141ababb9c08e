//! Taking values out of a list, all but some in between or wherever they are equal to an element; and putting values in
//! between.
//!
//! If fewer values stay than would have to be taken out or moved, the values that stay begin a new life of the row. All
//! parts of the old life end with its head.

use super::*;

impl Collection<'_> {
    /// Keeps the values with the numbers in `kept`, and no others.
    ///
    /// # Errors
    /// Too many values stay, and too many go; or values cannot be read.
    pub async fn keep_values(&mut self, cx: &mut Context<'_>, kept: Range<u64>) -> Outcome {
        let len = self.len();
        let kept = if kept.is_empty() { len..len } else { kept };
        let gone = len - (kept.end - kept.start);
        // A single last value is taken out like any other.
        if kept.is_empty() && gone > 1 {
            self.clear();
            return Ok(());
        }
        if let Some(packed) = self.packed() {
            let goes = |&(index, _): &(u64, PackedPart<'_>)| !kept.contains(&index);
            let bytes = (0..).zip(packed.iter()).filter(goes).map(|(_, part)| bytes_of(part.value)).sum();
            return self.keep_packed(cx, &kept, bytes);
        }
        if gone > 1 && self.is_renewed_for(&kept) {
            return self.renew(cx, kept, false, |_| false).await;
        }
        Budget::of(gone)?;
        let front = self.look_through_end(cx, End::Front, kept.start, |_| Ok(())).await?;
        let back = self.look_through_end(cx, End::Back, len - kept.end, |_| Ok(())).await?;
        self.take_out(cx, End::Front, front)?;
        self.take_out(cx, End::Back, back)
    }

    /// Whether putting the values with the numbers in `kept` into a new life is less work than taking the others out.
    /// A single value is always taken out in place, however short the list is: that is what queues do.
    pub(super) fn is_renewed_for(&self, kept: &Range<u64>) -> bool {
        let stay = kept.end - kept.start;
        self.packed().is_none() && stay < self.len() - stay
    }

    /// Keeps the values of a packed list with the numbers in `kept`. The others have `bytes` bytes.
    pub(super) fn keep_packed(&mut self, cx: &mut Context<'_>, kept: &Range<u64>, bytes: i64) -> Outcome {
        self.count(-((self.len() - (kept.end - kept.start)) as i64), -bytes);
        self.retain_packed(cx, |index| kept.contains(&index))
    }

    /// Keeps the values of a packed list whose numbers `is_kept` accepts.
    pub(super) fn retain_packed(&mut self, cx: &mut Context<'_>, is_kept: impl Fn(u64) -> bool) -> Outcome {
        self.change_packed(cx, |packed| {
            let mut index = 0;
            packed.retain(|_| {
                index += 1;
                is_kept(index - 1)
            });
        })
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        self.count(-(self.len() as i64), -(self.head.bytes as i64));
        if let Some(packed) = &mut self.head.packed {
            packed.retain(|_| false);
        }
    }

    /// Puts the values with the numbers in `kept` into a new life, except those for which `is_gone` is true. With
    /// `reverse`, `is_gone` sees them from the last to the first.
    pub(super) async fn renew(
        &mut self,
        cx: &mut Context<'_>,
        kept: Range<u64>,
        reverse: bool,
        mut is_gone: impl FnMut(&[u8]) -> bool,
    ) -> Outcome {
        let mut budget = Budget { values: CHANGED_VALUES_MAX, bytes: CHANGED_BYTES_MAX };
        let mut renewed = cx.new_collection(self.key, RowType::List);
        renewed.expire_at_ms = self.expire_at_ms;
        let end = if reverse { End::Front } else { End::Back };
        let mut walk = Walk::new(kept, reverse);
        while !walk.is_done() {
            let mut stay = Vec::new();
            for value in self.some_values(cx, &mut walk).await? {
                if !is_gone(&value) {
                    budget.spend(&value)?;
                    stay.push(value);
                }
            }
            renewed.push_values(cx, end, stay.iter().map(|value| &value[..])).await?;
            cx.yields().now().await;
        }
        *self = renewed;
        Ok(())
    }

    /// Takes out up to `limit` values that are equal to `element`: the first ones, or in `reverse` order the last ones.
    /// Gives how many values it has taken out.
    ///
    /// # Errors
    /// Too many values have to go or to move; or values cannot be read.
    pub async fn remove_equal(
        &mut self,
        cx: &mut Context<'_>,
        element: &[u8],
        limit: u64,
        reverse: bool,
    ) -> Outcome<u64> {
        let (mut found, mut count) = (Vec::new(), 0);
        let mut walk = Walk::new(0..self.len(), reverse);
        while !walk.is_done() && count < limit {
            let numbers = walk.numbers();
            for (index, value) in numbers.zip(self.some_values(cx, &mut walk).await?) {
                if count < limit && value[..] == *element {
                    count += 1;
                    // If there are more, their number is enough.
                    if count <= CHANGED_VALUES_MAX {
                        found.push(index);
                    }
                }
            }
            cx.yields().now().await;
        }
        if reverse {
            found.reverse();
        }
        self.remove_found(cx, &found, count, element, reverse).await?;
        Ok(count)
    }

    /// Takes out `count` values that are equal to `element`. `found` has their numbers, ascending, or only some of them
    /// if they are too many.
    async fn remove_found(
        &mut self,
        cx: &mut Context<'_>,
        found: &[u64],
        count: u64,
        element: &[u8],
        reverse: bool,
    ) -> Outcome {
        if count == 0 {
            return Ok(());
        }
        if count == self.len() {
            self.clear();
            return Ok(());
        }
        let bytes = count as i64 * bytes_of(element);
        if self.packed().is_some() {
            self.count(-(count as i64), -bytes);
            return self.retain_packed(cx, |index| found.binary_search(&index).is_err());
        }
        let stay = self.len() - count;
        let still = widest_gap(found, self.len());
        let unmoved = still.end - still.start;
        if count > CHANGED_VALUES_MAX || stay < stay - unmoved + count {
            Budget::of(stay)?;
            let mut left = count;
            let is_gone = |value: &[u8]| {
                let is_gone = left > 0 && value == element;
                left -= u64::from(is_gone);
                is_gone
            };
            return self.renew(cx, 0..self.len(), reverse, is_gone).await;
        }
        Budget::of(stay - unmoved + count)?;
        let mut budget = Budget::of(stay - unmoved)?;
        let len = self.len();
        let (mut going, mut returning) = (Vec::new(), Vec::new());
        for (end, values) in [(End::Front, still.start), (End::Back, len - still.end)] {
            let (mut moved, mut numbers) = (Vec::new(), Walk::new(0..len, end == End::Back).numbers());
            let taken = self
                .look_through_end(cx, end, values, |value| {
                    let index = numbers.next().ok_or(MISSING)?;
                    if found.binary_search(&index).is_err() {
                        budget.spend(value.bytes())?;
                        moved.push(value.to_value());
                    }
                    Ok(())
                })
                .await?;
            going.push((end, taken));
            returning.push((end, moved));
        }
        // Nothing is put in before both sides are out: that may give a new key to a chunk that both are about.
        for (end, taken) in going {
            self.take_out(cx, end, taken)?;
        }
        for (end, moved) in returning {
            self.push_values(cx, end, moved.iter().rev().map(|value| &value[..])).await?;
        }
        Ok(())
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
        let (end, values) = if index < behind { (End::Front, index) } else { (End::Back, behind) };
        let (mut budget, mut moved) = (Budget::of(values)?, Vec::new());
        let taken = self
            .look_through_end(cx, end, values, |value| {
                budget.spend(value.bytes())?;
                moved.push(value.to_value());
                Ok(())
            })
            .await?;
        self.take_out(cx, end, taken)?;
        let again = moved.iter().rev().map(|value| &value[..]);
        self.push_values(cx, end, std::iter::once(value).chain(again)).await
    }
}

/// The numbers between the entries `gap - 1` and `gap` of `found`, in a list of `len` values.
fn gap_at(found: &[u64], len: u64, gap: usize) -> Range<u64> {
    let start = gap.checked_sub(1).map_or(0, |before| found[before] + 1);
    start..found.get(gap).copied().unwrap_or(len)
}

/// The numbers in the widest gap among `found`, in a list of `len` values. They stay where they are.
fn widest_gap(found: &[u64], len: u64) -> Range<u64> {
    (0..=found.len()).map(|gap| gap_at(found, len, gap)).max_by_key(|gap| gap.end - gap.start).unwrap_or_default()
}
