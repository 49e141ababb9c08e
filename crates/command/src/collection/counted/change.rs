//! Changes of counts: buckets that grow are split, and small ones are merged with a neighbour.

use std::ops::Bound;

use super::{Bucket, Counted, LEVELS_MAX, between, damaged};
use crate::context::{Context, Part};
use crate::error::Outcome;

impl Counted<'_> {
    /// Most children of a bucket, and most parts of a list without a level above it.
    pub(super) fn children_max(&self) -> u64 {
        self.fan * 2
    }

    /// Where a bucket has fewer children, a neighbour to merge with is looked for.
    fn children_min(&self) -> u64 {
        self.fan / 2
    }

    /// Most children of a bucket that two were merged to: less than the most, so that it is not split at once.
    fn merged_max(&self) -> u64 {
        self.fan * 3 / 2
    }

    fn put(&self, cx: &mut Context<'_>, level: u8, bucket: &Bucket) -> Outcome {
        cx.put_part(self.life, self.space + level, &bucket.key, &bucket.value())
    }

    fn delete(&self, cx: &mut Context<'_>, level: u8, key: &[u8]) -> Outcome {
        cx.delete_part(self.life, self.space + level, key)
    }

    /// The buckets that the place `key` is in: the highest first, none where there is no level.
    async fn path(&self, cx: &mut Context<'_>, key: &[u8]) -> Outcome<Vec<Bucket>> {
        let (mut path, mut from) = (Vec::new(), Vec::new());
        for level in (1..=self.levels).rev() {
            let last = self.last_in(cx, level, from, Bound::Included(key.into())).await?.ok_or_else(damaged)?;
            from = last.subkey.clone();
            path.push(Bucket::of(last)?);
        }
        Ok(path)
    }

    /// The last bucket of `level` that begins at `from` or behind, and in front of `to` or there.
    async fn last_in(
        &self,
        cx: &mut Context<'_>,
        level: u8,
        from: Vec<u8>,
        to: Bound<Vec<u8>>,
    ) -> Outcome<Option<Part>> {
        if !from.is_empty() || self.second.is_empty() {
            return Ok(self.list(cx, level, (Bound::Included(from), to), true, 1).await?.pop());
        }
        let is_first = match &to {
            Bound::Included(to) => *to < self.second,
            Bound::Excluded(to) => *to <= self.second,
            Bound::Unbounded => false,
        };
        if !is_first {
            let range = (Bound::Included(self.second.clone()), to);
            if let Some(last) = self.list(cx, level, range, true, 1).await?.pop() {
                return Ok(Some(last));
            }
        }
        Ok(Some(self.first_of(cx, level).await?))
    }

    /// The bucket of `level` behind the one that begins at `key`, if it begins before `to`.
    async fn next(&self, cx: &mut Context<'_>, level: u8, key: &[u8], to: Bound<Vec<u8>>) -> Outcome<Option<Part>> {
        let from = match key {
            [] if !self.second.is_empty() => Bound::Included(self.second.clone()),
            key => Bound::Excluded(key.into()),
        };
        Ok(self.list(cx, level, (from, to), false, 1).await?.pop())
    }

    /// Where the bucket of `level` ends that begins at `key`: where the next one begins.
    async fn end(&self, cx: &mut Context<'_>, level: u8, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.next(cx, level, key, Bound::Unbounded).await?.map(|next| next.subkey))
    }

    /// Counts an entry that was put at `key`, and that was not there before. There are `total` of them now.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn added(&mut self, cx: &mut Context<'_>, key: &[u8], total: u64) -> Outcome {
        self.include(key);
        if self.levels == 0 {
            return if total > self.children_max() { self.grow(cx).await } else { Ok(()) };
        }
        let mut path = self.path(cx, key).await?;
        if let Some(lowest) = path.last_mut() {
            lowest.children += 1;
        }
        let mut level = self.levels;
        for bucket in &mut path {
            bucket.entries += 1;
            self.put(cx, level, bucket)?;
            level -= 1;
        }
        self.split(cx, path).await
    }

    /// Takes an entry from `old` to `new` in the counts: it was moved.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn moved(&mut self, cx: &mut Context<'_>, old: &[u8], new: &[u8], total: u64) -> Outcome {
        self.include(new);
        let (from, to) = (self.path(cx, old).await?, self.path(cx, new).await?);
        if from.last().map(|bucket| &bucket.key) == to.last().map(|bucket| &bucket.key) {
            return Ok(());
        }
        self.removed(cx, from, 1).await?;
        self.added(cx, new, total).await
    }

    /// Takes entries at `keys`, which were deleted, out of the counts. `keys` ascend.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn all_removed(&mut self, cx: &mut Context<'_>, mut keys: &[Vec<u8>]) -> Outcome {
        while let [first, .., last] | [first @ last] = keys
            && self.levels > 0
        {
            let path = self.path(cx, first).await?;
            let lowest = path.last().ok_or_else(damaged)?;
            let next = match keys {
                [_] => None,
                _ => self.next(cx, 1, &lowest.key, Bound::Included(last.clone())).await?,
            };
            let here = next.map_or(keys.len(), |next| keys.partition_point(|key| *key < next.subkey)).max(1);
            self.removed(cx, path, here as u64).await?;
            keys = &keys[here..];
        }
        Ok(())
    }

    /// Takes `count` entries out of the buckets of `path`.
    async fn removed(&mut self, cx: &mut Context<'_>, mut path: Vec<Bucket>, count: u64) -> Outcome {
        if let Some(lowest) = path.last_mut() {
            lowest.children = lowest.children.checked_sub(count).ok_or_else(damaged)?;
        }
        let mut level = self.levels;
        for bucket in &mut path {
            bucket.entries = bucket.entries.checked_sub(count).ok_or_else(damaged)?;
            self.put(cx, level, bucket)?;
            level -= 1;
        }
        self.merge(cx, path).await
    }

    /// Splits the buckets of `path` that have too many children, the lowest first.
    async fn split(&mut self, cx: &mut Context<'_>, mut path: Vec<Bucket>) -> Outcome {
        for level in 1..=self.levels {
            let Some(bucket) = path.pop().filter(|bucket| bucket.children > self.children_max()) else { return Ok(()) };
            let end = self.end(cx, level, &bucket.key).await?;
            self.halve(cx, level, bucket.key, end.as_deref()).await?;
            if let Some(above) = path.last_mut() {
                above.children += 1;
                self.put(cx, level + 1, above)?;
            }
        }
        // The highest list has one bucket more. Where it must not be divided, it may be long.
        if self.levels < LEVELS_MAX {
            let limit = self.children_max() as usize + 1;
            if self.buckets(cx, self.levels, &[], Bound::Unbounded, limit).await?.len() == limit {
                return self.grow(cx).await;
            }
        }
        Ok(())
    }

    /// A level above the highest.
    async fn grow(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.levels += 1;
        self.halve(cx, self.levels, Vec::new(), None).await
    }

    /// Makes two buckets of `level` of what is between `from` and `to`, in the place of one at `from`.
    async fn halve(&mut self, cx: &mut Context<'_>, level: u8, from: Vec<u8>, to: Option<&[u8]>) -> Outcome {
        let children = match level {
            1 => self.entries(cx, &from, to, usize::MAX).await?,
            _ => self.buckets(cx, level - 1, &from, between(&from, to).1, usize::MAX).await?,
        };
        let middle = children.len() / 2;
        let second = match (children.get(middle.wrapping_sub(1)), children.get(middle)) {
            (Some(last), Some(first)) if level == 1 => separator(&last.subkey, &first.subkey),
            (Some(_), Some(first)) => first.subkey.clone(),
            _ => return Err(damaged()),
        };
        if (level, &from[..]) == (1, &[]) {
            self.note_second(Some(second.clone()));
        }
        let mut halves =
            [Bucket { key: from, entries: 0, children: 0 }, Bucket { key: second, entries: 0, children: 0 }];
        for (index, child) in children.into_iter().enumerate() {
            let half = &mut halves[usize::from(index >= middle)];
            half.children += 1;
            half.entries += if level == 1 { 1 } else { Bucket::of(child)?.entries };
        }
        halves.iter().try_for_each(|half| self.put(cx, level, half))
    }

    /// Merges the buckets of `path` that have few children with a neighbour in the same bucket above, the lowest first.
    async fn merge(&mut self, cx: &mut Context<'_>, mut path: Vec<Bucket>) -> Outcome {
        for level in 1..=self.levels {
            let Some(bucket) = path.pop().filter(|bucket| bucket.children < self.children_min()) else { return Ok(()) };
            let (from, to) = match path.last() {
                Some(above) => (above.key.clone(), self.end(cx, level + 1, &above.key).await?),
                None => (Vec::new(), None),
            };
            let in_front = match bucket.key == from {
                true => None,
                false => self.last_in(cx, level, from, Bound::Excluded(bucket.key.clone())).await?,
            };
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            let (left, right) = match in_front {
                Some(left) => (Bucket::of(left)?, bucket),
                None => match self.next(cx, level, &bucket.key, to).await? {
                    Some(right) => (bucket, Bucket::of(right)?),
                    // It is alone there: perhaps what is above can be merged.
                    None => continue,
                },
            };
            if left.children + right.children > self.merged_max() {
                return Ok(());
            }
            self.delete(cx, level, &right.key)?;
            if (level, &left.key[..]) == (1, &[]) {
                let next = self.list(cx, 1, (Bound::Excluded(right.key), Bound::Unbounded), false, 1).await?.pop();
                self.note_second(next.map(|next| next.subkey));
            }
            let (entries, children) = (left.entries + right.entries, left.children + right.children);
            self.put(cx, level, &Bucket { entries, children, ..left })?;
            if let Some(above) = path.last_mut() {
                above.children -= 1;
                self.put(cx, level + 1, above)?;
            }
        }
        self.shrink(cx).await
    }

    /// Takes away levels that have a single bucket.
    async fn shrink(&mut self, cx: &mut Context<'_>) -> Outcome {
        while self.levels > 0 {
            let buckets = self.buckets(cx, self.levels, &[], Bound::Unbounded, 2).await?;
            let [only] = &buckets[..] else { return Ok(()) };
            self.delete(cx, self.levels, &only.subkey)?;
            self.levels -= 1;
            if self.levels == 0 {
                self.note_second(None);
            }
        }
        Ok(())
    }

    /// Counts entries that were put where there were none: at `keys`, which ascend.
    ///
    /// # Errors
    /// A key is too long.
    pub fn fill(&mut self, cx: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
        let mut below: Vec<Bucket> = Vec::new();
        let mut count = keys.len() as u64;
        while count > self.children_max() && self.levels < LEVELS_MAX {
            let buckets: Vec<Bucket> = if self.levels == 0 {
                let starts = (0..keys.len()).step_by(self.fan as usize);
                let bucket = |start: usize| {
                    let key = if start == 0 { Vec::new() } else { separator(&keys[start - 1], &keys[start]) };
                    let entries = self.fan.min((keys.len() - start) as u64);
                    Bucket { key, entries, children: entries }
                };
                starts.map(bucket).collect()
            } else {
                let chunks = below.chunks(self.fan as usize);
                let sum = |chunk: &[Bucket]| chunk.iter().map(|bucket| bucket.entries).sum();
                let bucket = |chunk: &[Bucket]| Bucket {
                    key: chunk[0].key.clone(),
                    entries: sum(chunk),
                    children: chunk.len() as u64,
                };
                chunks.map(bucket).collect()
            };
            self.levels += 1;
            if self.levels == 1 {
                self.note_second(buckets.get(1).map(|second| second.key.clone()));
            }
            buckets.iter().try_for_each(|bucket| self.put(cx, self.levels, bucket))?;
            count = buckets.len() as u64;
            below = buckets;
        }
        Ok(())
    }
}

/// The shortest that is not in front of `second`, and behind `first`, which is in front of that.
fn separator(first: &[u8], second: &[u8]) -> Vec<u8> {
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    second[..(common + 1).min(second.len())].to_vec()
}
