//! Taking values out of a list: at its ends, or wherever they are equal to an element.
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
        let mut bytes = 0;
        // The values that go are not read if they all go at once, or if the list begins a new life.
        if !kept.is_empty() && !self.is_renewed_for(&kept) {
            Budget::of(len - (kept.end - kept.start))?;
            for mut left in [0..kept.start, kept.end..len] {
                while !left.is_empty() {
                    let values = self.some_values(cx, left.clone(), false).await?;
                    left.start += values.len() as u64;
                    bytes += values.iter().map(|value| bytes_of(value)).sum::<i64>();
                    cx.yields().now().await;
                }
            }
        }
        self.drop_ends(cx, kept, bytes).await
    }

    /// Whether putting the values with the numbers in `kept` into a new life is less work than taking the others out.
    fn is_renewed_for(&self, kept: &Range<u64>) -> bool {
        let stay = kept.end - kept.start;
        self.packed().is_none() && stay < self.len() - stay
    }

    /// Keeps the values with the numbers in `kept`. The others have `bytes` bytes; that is not used where the list is
    /// cleared or begins a new life.
    pub(super) async fn drop_ends(&mut self, cx: &mut Context<'_>, kept: Range<u64>, bytes: i64) -> Outcome {
        let len = self.len();
        let gone = len - (kept.end - kept.start);
        // A single last value is taken out like any other: the list may get it back at its other end.
        if kept.is_empty() && gone > 1 {
            self.clear();
            return Ok(());
        }
        if self.packed().is_some() {
            self.count(-(gone as i64), -bytes);
            return self.retain_packed(cx, |index| kept.contains(&index));
        }
        // A single value is always taken out in place, however short the list is: that is what queues do.
        if gone > 1 && self.is_renewed_for(&kept) {
            return self.renew(cx, kept, false, |_| false).await;
        }
        Budget::of(gone)?;
        for index in (0..kept.start).chain(kept.end..len) {
            cx.delete_part(self.life(), SPACE, &subkey(self.position(index, 0)?))?;
        }
        self.set_first(self.position(kept.start, 0)?);
        self.count(-(gone as i64), -bytes);
        Ok(())
    }

    /// Keeps the values of a packed list whose numbers `is_kept` accepts.
    fn retain_packed(&mut self, cx: &mut Context<'_>, is_kept: impl Fn(u64) -> bool) -> Outcome {
        self.change_packed(cx, |packed| {
            let mut index = 0;
            packed.retain(|_| {
                index += 1;
                is_kept(index - 1)
            });
        })
    }

    /// Removes all values.
    fn clear(&mut self) {
        self.count(-(self.len() as i64), -(self.head.bytes as i64));
        if let Some(packed) = &mut self.head.packed {
            packed.retain(|_| false);
        }
    }

    /// Puts the values with the numbers in `kept` into a new life, except those for which `is_gone` is true. With
    /// `reverse`, `is_gone` sees them from the last to the first.
    async fn renew(
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
        let mut left = kept;
        while !left.is_empty() {
            for value in self.some_values(cx, left.clone(), reverse).await? {
                take_index(&mut left, reverse);
                if !is_gone(&value) {
                    budget.spend(&value)?;
                    renewed.push_value(cx, end, &value)?;
                }
            }
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
        let mut left = 0..self.len();
        while !left.is_empty() && count < limit {
            for value in self.some_values(cx, left.clone(), reverse).await? {
                let index = take_index(&mut left, reverse);
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
        let (still, unmoved) = widest_gap(found, self.len());
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
        for gap in (0..still).rev() {
            self.shift(cx, gap_at(found, self.len(), gap), (still - gap) as i64, &mut budget).await?;
        }
        for gap in still + 1..=found.len() {
            self.shift(cx, gap_at(found, self.len(), gap), -((gap - still) as i64), &mut budget).await?;
        }
        let (front, back) = (still as u64, (found.len() - still) as u64);
        for index in (0..front).chain(self.len() - back..self.len()) {
            cx.delete_part(self.life(), SPACE, &subkey(self.position(index, 0)?))?;
        }
        self.set_first(self.position(front, 0)?);
        self.count(-(count as i64), -bytes);
        Ok(())
    }
}

/// The numbers between the entries `gap - 1` and `gap` of `found`, in a list of `len` values.
fn gap_at(found: &[u64], len: u64, gap: usize) -> Range<u64> {
    let start = gap.checked_sub(1).map_or(0, |before| found[before] + 1);
    start..found.get(gap).copied().unwrap_or(len)
}

/// The widest gap among `found`, whose values stay where they are: which gap it is, and how many values are in it.
fn widest_gap(found: &[u64], len: u64) -> (usize, u64) {
    let width = |gap| gap_at(found, len, gap).end - gap_at(found, len, gap).start;
    (0..=found.len()).map(|gap| (gap, width(gap))).max_by_key(|&(_, width)| width).unwrap_or_default()
}
