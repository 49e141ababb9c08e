//! Changes of counts: buckets that grow are split, and small ones are merged with a neighbour.

use std::ops::Bound;

use super::{Bucket, Counted, LEVELS_MAX, between, damaged};
use crate::context::Context;
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
            let range = (Bound::Included(from), Bound::Included(key.into()));
            let last = self.list(cx, level, range, true, 1).await?.pop().ok_or_else(damaged)?;
            from = last.subkey.clone();
            path.push(Bucket::of(last)?);
        }
        Ok(path)
    }

    /// Where the bucket of `level` ends that begins at `key`: where the next one begins.
    async fn end(&self, cx: &mut Context<'_>, level: u8, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let behind = (Bound::Excluded(key.into()), Bound::Unbounded);
        Ok(self.list(cx, level, behind, false, 1).await?.pop().map(|next| next.subkey))
    }

    /// Counts an entry that was put at `key`, and that was not there before. There are `total` of them now.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn added(&mut self, cx: &mut Context<'_>, key: &[u8], total: u64) -> Outcome {
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
        let keys = |path: Vec<Bucket>| path.into_iter().next_back().map(|bucket| bucket.key);
        if keys(self.path(cx, old).await?) == keys(self.path(cx, new).await?) {
            return Ok(());
        }
        self.removed(cx, old, 1).await?;
        self.added(cx, new, total).await
    }

    /// Takes entries at `keys`, which were deleted, out of the counts. `keys` ascend.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn all_removed(&mut self, cx: &mut Context<'_>, mut keys: &[Vec<u8>]) -> Outcome {
        while let Some(first) = keys.first().filter(|_| self.levels > 0) {
            let lowest = self.path(cx, first).await?.pop().ok_or_else(damaged)?;
            let end = self.end(cx, 1, &lowest.key).await?;
            let here = keys.partition_point(|key| end.as_ref().is_none_or(|end| key < end));
            self.removed(cx, first, here.max(1) as u64).await?;
            keys = &keys[here.max(1)..];
        }
        Ok(())
    }

    /// Takes `count` entries out of the bucket that `key` is in.
    async fn removed(&mut self, cx: &mut Context<'_>, key: &[u8], count: u64) -> Outcome {
        let mut path = self.path(cx, key).await?;
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
            let all = (Bound::Unbounded, Bound::Unbounded);
            if self.list(cx, self.levels, all, false, limit).await?.len() == limit {
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
    async fn halve(&self, cx: &mut Context<'_>, level: u8, from: Vec<u8>, to: Option<&[u8]>) -> Outcome {
        let children = self.list(cx, level - 1, between(&from, to), false, usize::MAX).await?;
        let middle = children.len() / 2;
        let second = match (children.get(middle.wrapping_sub(1)), children.get(middle)) {
            (Some(last), Some(first)) if level == 1 => separator(&last.subkey, &first.subkey),
            (Some(_), Some(first)) => first.subkey.clone(),
            _ => return Err(damaged()),
        };
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
            let in_front = (Bound::Included(from), Bound::Excluded(bucket.key.clone()));
            let behind = (Bound::Excluded(bucket.key.clone()), to.map_or(Bound::Unbounded, Bound::Excluded));
            let (left, right) = match self.list(cx, level, in_front, true, 1).await?.pop() {
                Some(left) => (Bucket::of(left)?, bucket),
                None => match self.list(cx, level, behind, false, 1).await?.pop() {
                    Some(right) => (bucket, Bucket::of(right)?),
                    // It is alone there: perhaps what is above can be merged.
                    None => continue,
                },
            };
            if left.children + right.children > self.merged_max() {
                return Ok(());
            }
            self.delete(cx, level, &right.key)?;
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
            let all = (Bound::Unbounded, Bound::Unbounded);
            let buckets = self.list(cx, self.levels, all, false, 2).await?;
            let [only] = &buckets[..] else { return Ok(()) };
            self.delete(cx, self.levels, &only.subkey)?;
            self.levels -= 1;
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
