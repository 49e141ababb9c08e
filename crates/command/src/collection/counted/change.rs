//! Changes of counts: buckets that grow are split, and small ones are merged with a neighbour. The same goes for
//! tallies.

use std::ops::Range;

use weir_model::parts::{Bucket, Recounted, TALLY_LEVELS_MAX, Tally, tally_space};

use super::{Counted, Counts, DIVIDED_BUCKETS_MIN, Step, TALLY_BYTES_MAX, damaged, end_of, sum_of};
use crate::context::Context;
use crate::error::Outcome;
use crate::uncounted::CountChange;

/// The result of a recount.
enum Recount {
    /// The keys of the buckets that have too many entries now, and of those that have too few.
    Done { full: Vec<Vec<u8>>, sparse: Vec<Vec<u8>> },
    /// Nothing was written: on the way to `place`, some counts are not written as tallies yet.
    Early { place: Vec<u8> },
}

impl Counted<'_> {
    /// Most entries of a bucket.
    fn entries_max(&self) -> u64 {
        self.fan * 2
    }

    /// A bucket with fewer entries is merged with a neighbour, if one can be found.
    fn entries_min(&self) -> u64 {
        self.fan / 2
    }

    /// Most entries of a bucket that was merged from two: less than the maximum, so that it is not split again at once.
    fn merged_max(&self) -> u64 {
        self.fan * 3 / 2
    }

    /// Most entries of an order without levels.
    pub(super) fn uncounted_max(&self) -> u64 {
        self.fan * 4
    }

    /// Whether `buckets` are too many for a tally.
    pub(super) fn are_too_many(&self, buckets: &[Bucket]) -> bool {
        buckets.len() > self.tally_fan * 2
            || buckets.len() >= DIVIDED_BUCKETS_MIN && Tally::encode(buckets).len() > TALLY_BYTES_MAX
    }

    fn put(&mut self, cx: &mut Context<'_>, counts: &Counts) -> Outcome {
        self.delete_early(cx, counts)?;
        self.is_tallied = true;
        cx.put_part(self.life, tally_space(counts.level), &counts.key, &counts.tally)
    }

    /// Writes the tallies of `path`, with `replaced` in the place of its last bucket. A tally that becomes too long
    /// this way is divided, and so is one that was too long already before there were tallies.
    fn put_path(&mut self, cx: &mut Context<'_>, mut path: Vec<Step>, mut replaced: Option<Vec<Bucket>>) -> Outcome {
        while let Some(Step { mut counts, index, .. }) = path.pop() {
            if replaced.is_none() && counts.early.is_empty() {
                self.put(cx, &counts)?;
                continue;
            }
            let mut all = counts.buckets()?;
            if let Some(buckets) = replaced.take() {
                all.splice(index..=index, buckets);
            }
            let may_be_long = path.is_empty() && self.levels == TALLY_LEVELS_MAX;
            if may_be_long || !self.are_too_many(&all) {
                counts.tally = Tally::encode(&all).into();
                self.put(cx, &counts)?;
            } else {
                replaced = Some(self.put_divided(cx, counts.level, counts.early, &all)?);
            }
        }
        replaced.map_or(Ok(()), |buckets| self.list_above(cx, buckets))
    }

    fn delete(&self, cx: &mut Context<'_>, counts: &Counts) -> Outcome {
        match counts.early.is_empty() {
            true => cx.delete_part(self.life, tally_space(counts.level), &counts.key),
            false => self.delete_early(cx, counts),
        }
    }

    fn delete_early(&self, cx: &mut Context<'_>, counts: &Counts) -> Outcome {
        let space = self.early_space(counts.level);
        counts.early.iter().try_for_each(|key| cx.delete_part(self.life, space, key))
    }

    /// Counts entries that came or went: `changes`, which ascend, each say how many more entries there are at a place.
    /// There are `total` entries now.
    ///
    /// # Errors
    /// The counts or entries cannot be read.
    pub async fn changed(&mut self, cx: &mut Context<'_>, changes: &[CountChange], total: u64) -> Outcome {
        let first = changes.iter().find(|(_, more)| *more > 0);
        first.iter().for_each(|(place, _)| self.include(place));
        if self.levels == 0 {
            if first.is_some() && total > self.uncounted_max() {
                let places = self.entries(cx, &[], None).await?;
                self.fill(cx, &places)?;
            }
            return Ok(());
        }
        loop {
            match self.recount(cx, changes).await? {
                Recount::Done { full, sparse } => {
                    // Full buckets first. An empty bucket is merged with whatever is beside it. If all entries have
                    // moved into one bucket, the empty ones would otherwise be merged with it until it is the only one.
                    for place in full.iter().chain(&sparse) {
                        self.even_out(cx, place).await?;
                    }
                    return Ok(());
                }
                // First the counts that are there are written as tallies; that may divide them.
                Recount::Early { place } => {
                    let path = self.path(cx, &place).await?;
                    self.put_path(cx, path, None)?;
                }
            }
        }
    }

    /// Reads each tally that `changes` are in, and writes it with its new counts: once, however many changes are in it.
    async fn recount(&mut self, cx: &mut Context<'_>, changes: &[CountChange]) -> Outcome<Recount> {
        let (mut tallies, mut full, mut sparse) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = vec![(self.levels, Vec::new(), 0..changes.len())];
        while let Some((level, key, range)) = left.pop() {
            let here = &changes[range.clone()];
            let Some((place, _)) = here.first() else { continue };
            let Some(before) = self.tally(cx, level, &key).await? else {
                return Ok(Recount::Early { place: place.clone() });
            };
            let (tally, buckets) = Tally::recount(&key, &before, here)?;
            cx.passed_packed(buckets.last().map_or(0, |last| last.index + 1));
            // A tally is not written if entries have only moved between its buckets, or within one of them.
            if buckets.iter().any(|bucket| bucket.more != 0) {
                tallies.push((level, key, tally));
            }
            for Recounted { key, entries, more, changes, .. } in buckets {
                if level > 1 {
                    left.push((level - 1, key, range.start + changes.start..range.start + changes.end));
                } else if more > 0 && entries > self.entries_max() {
                    full.push(key);
                } else if more < 0 && entries < self.entries_min() {
                    sparse.push(key);
                }
            }
        }
        for (level, key, tally) in tallies {
            cx.put_part(self.life, tally_space(level), &key, &tally)?;
        }
        Ok(Recount::Done { full, sparse })
    }

    /// Splits the bucket at `place` if it has too many entries, or merges it with a neighbour if it has few.
    async fn even_out(&mut self, cx: &mut Context<'_>, place: &[u8]) -> Outcome {
        let path = self.path(cx, place).await?;
        match path.last().map(|lowest| lowest.entries) {
            Some(entries) if entries > self.entries_max() => self.split(cx, path).await,
            Some(entries) if entries < self.entries_min() => self.merge(cx, path).await,
            _ => Ok(()),
        }
    }

    /// Splits the last bucket of `path`, and each tally that becomes too long by that.
    async fn split(&mut self, cx: &mut Context<'_>, path: Vec<Step>) -> Outcome {
        let (end, lowest) = (end_of(&path)?, path.last().ok_or_else(damaged)?);
        let places = self.entries(cx, &lowest.key, end.as_deref()).await?;
        if places.len() as u64 != lowest.entries {
            return Err(damaged());
        }
        let buckets = self.divided(&lowest.key, &places)?;
        self.put_path(cx, path, Some(buckets))
    }

    /// Buckets for entries at `places`; the first bucket begins at `from`.
    fn divided(&self, from: &[u8], places: &[Vec<u8>]) -> Outcome<Vec<Bucket>> {
        if places.len() < 2 {
            return Err(damaged());
        }
        let bucket = |piece: Range<usize>| Bucket {
            key: match piece.start {
                0 => from.into(),
                start => separator(&places[start - 1], &places[start]),
            },
            entries: piece.len() as u64,
        };
        Ok(pieces(places.len(), self.merged_max() as usize).map(bucket).collect())
    }

    /// Puts tallies of `level` that list `buckets`, in place of the parts `early`; gives these tallies as buckets of
    /// the next level.
    fn put_divided(
        &mut self,
        cx: &mut Context<'_>,
        level: u8,
        mut early: Vec<Vec<u8>>,
        buckets: &[Bucket],
    ) -> Outcome<Vec<Bucket>> {
        let (mut above, mut left) = (Vec::new(), Vec::new());
        left.extend(pieces(buckets.len(), self.tally_fan * 3 / 2));
        left.reverse();
        while let Some(piece) = left.pop() {
            let listed = &buckets[piece.clone()];
            if listed.len() >= DIVIDED_BUCKETS_MIN && self.are_too_many(listed) {
                // The keys here are longer than elsewhere.
                let middle = piece.start + piece.len() / 2;
                left.extend([middle..piece.end, piece.start..middle]);
                continue;
            }
            let (key, tally) = (listed[0].key.clone(), Tally::encode(listed).into());
            let entries = sum_of(listed.iter().map(|bucket| bucket.entries))?;
            above.push(Bucket { key: key.clone(), entries });
            self.put(cx, &Counts { level, key, tally, early: std::mem::take(&mut early) })?;
        }
        Ok(above)
    }

    /// Adds as many levels above the highest as it takes to list `buckets`.
    fn list_above(&mut self, cx: &mut Context<'_>, mut buckets: Vec<Bucket>) -> Outcome {
        loop {
            self.levels += 1;
            if self.levels == TALLY_LEVELS_MAX || !self.are_too_many(&buckets) {
                let (level, tally) = (self.levels, Tally::encode(&buckets).into());
                return self.put(cx, &Counts { level, key: Vec::new(), tally, early: Vec::new() });
            }
            buckets = self.put_divided(cx, self.levels, Vec::new(), &buckets)?;
        }
    }

    /// Merges the last bucket of `path`, which has few entries, with a neighbour, and then each tally that becomes
    /// short by that.
    async fn merge(&mut self, cx: &mut Context<'_>, mut path: Vec<Step>) -> Outcome {
        let Step { mut counts, index, .. } = path.pop().ok_or_else(damaged)?;
        let mut buckets = counts.buckets()?;
        self.merge_bucket(&mut buckets, index);
        counts.tally = Tally::encode(&buckets).into();
        while buckets.len() < self.tally_fan / 2
            && let Some(above) = path.pop()
        {
            let mut siblings = above.counts.buckets()?;
            match self.neighbour(cx, &mut path, &above, &siblings, &buckets).await? {
                Some((other, neighbour, both)) => {
                    let at = other.min(above.index);
                    let (mut left, right) = if at == other { (neighbour, counts) } else { (counts, neighbour) };
                    left.tally = Tally::encode(&both).into();
                    self.delete(cx, &right)?;
                    self.put(cx, &left)?;
                    let gone = siblings.remove(at + 1);
                    siblings[at].entries += gone.entries;
                }
                None => self.put(cx, &counts)?,
            }
            (counts, buckets) = (above.counts, siblings);
            counts.tally = Tally::encode(&buckets).into();
        }
        self.put(cx, &counts)?;
        self.put_path(cx, path, None)?;
        self.shrink(cx).await
    }

    /// Merges the bucket with the number `index` with one beside it, if both fit into one.
    fn merge_bucket(&self, buckets: &mut Vec<Bucket>, index: usize) {
        for at in [index.checked_sub(1), Some(index)].into_iter().flatten() {
            let [left, right, ..] = &buckets[at..] else { continue };
            let both = left.entries + right.entries;
            // An empty bucket is of no use.
            if both <= self.merged_max() || left.entries == 0 || right.entries == 0 {
                buckets[at].entries = both;
                buckets.remove(at + 1);
                return;
            }
        }
    }

    /// Finds a neighbour with which the tally of `buckets` fits into one. That tally is the bucket of `above`, which
    /// was the last step of `path`, among its `siblings`. Gives the neighbour's number there, its counts, and the
    /// buckets of both.
    async fn neighbour(
        &self,
        cx: &mut Context<'_>,
        path: &mut Vec<Step>,
        above: &Step,
        siblings: &[Bucket],
        buckets: &[Bucket],
    ) -> Outcome<Option<(usize, Counts, Vec<Bucket>)>> {
        for other in [above.index.checked_sub(1), Some(above.index + 1)].into_iter().flatten() {
            let Some(sibling) = siblings.get(other) else { continue };
            path.push(Step { index: other, ..above.clone() });
            let found = self.counts(cx, above.counts.level - 1, sibling.key.clone(), path).await;
            path.pop();
            let found = found?;
            let more = found.buckets()?;
            let both = if other < above.index { [&more[..], buckets].concat() } else { [buckets, &more[..]].concat() };
            if both.len() <= self.tally_fan * 3 / 2 && !self.are_too_many(&both) {
                return Ok(Some((other, found, both)));
            }
        }
        Ok(None)
    }

    /// Removes levels whose root has a single bucket.
    async fn shrink(&mut self, cx: &mut Context<'_>) -> Outcome {
        while self.levels > 0 {
            let root = self.counts(cx, self.levels, Vec::new(), &[]).await?;
            if root.key_of(1)?.is_some() {
                return Ok(());
            }
            self.delete(cx, &root)?;
            self.levels -= 1;
        }
        self.is_tallied = false;
        self.second.clear();
        Ok(())
    }

    /// Counts entries in an order that had none: at `places`, which ascend.
    ///
    /// # Errors
    /// A place is too long.
    pub fn fill(&mut self, cx: &mut Context<'_>, places: &[Vec<u8>]) -> Outcome {
        if places.len() as u64 <= self.uncounted_max() {
            return Ok(());
        }
        let buckets = self.divided(&[], places)?;
        self.list_above(cx, buckets)
    }
}

/// Divides `len` things into even pieces of up to `most`: at least two pieces.
fn pieces(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = len.div_ceil(most).max(2);
    (0..count).map(move |piece| len * piece / count..len * (piece + 1) / count)
}

/// The shortest key that is behind `first`, and not behind `second`. `first` is in front of `second`.
fn separator(first: &[u8], second: &[u8]) -> Vec<u8> {
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    second[..(common + 1).min(second.len())].to_vec()
}
