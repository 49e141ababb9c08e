//! Counts over an order: which rank a part has, and which part a rank, without a walk through all of them.
//!
//! The parts of one space, the *entries*, are divided into buckets of some hundred neighbours. The space behind has
//! one part for each bucket: where it begins, and how many there are. Where these are many, they are divided into
//! buckets themselves, in the next space, and so on: a *level* each. A bucket goes from its own key up to the next
//! one's; the first of a level begins at the empty key. So a rank is a sum over a few short lists.
//!
//! Where entries are taken from the front, again and again, the buckets there go, too, and are dead parts until a merge
//! drops them. So the counts know where the second bucket begins, and nobody looks between the empty key and that.
//!
//! A short order has no level at all. A level comes when the list below it is too long, and goes when it has a single
//! bucket.
//!
//! ```text
//! bucket := key: where it begins        value: entries varint | children varint
//! ```
//!
//! Of the first level, children are entries; of the others, buckets of the level below.

mod change;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use weir_io::ErrorKind;
use weir_model::parts::{Life, ORDER_BOUND_BYTES_MAX, OrderDetail};
use weir_model::varint;

use crate::context::{Context, Part, Subkeys};
use crate::error::{Error, Outcome};

/// How many neighbours make a bucket, about: a rank is found in half as many steps a level. With 32, a hundred thousand
/// entries would need a level more, and each of them one record more when it comes.
pub const FAN: u64 = 64;

/// Most levels: with the usual fan enough for some thirty million entries, of which the highest list is short.
pub const LEVELS_MAX: u8 = 3;

/// Parts that are read in one step.
const PAGE_PARTS: usize = 256;

/// Parts that are read in one step where one of them is looked for.
const LOOK_PARTS: usize = 16;

/// The counts of an order.
#[derive(Clone, Debug)]
pub struct Counted<'k> {
    /// The row's key.
    key: &'k [u8],
    life: Life,
    /// The space of the entries; those behind have the levels.
    space: u8,
    fan: u64,
    /// How many levels there are.
    levels: u8,
    /// Where the second bucket of the first level begins; empty where nobody knows.
    second: Vec<u8>,
    /// No entry stands in front of this place.
    first: Vec<u8>,
}

/// One of a level.
#[derive(Clone, Debug)]
struct Bucket {
    key: Vec<u8>,
    entries: u64,
    children: u64,
}

impl Bucket {
    fn of(part: Part) -> Outcome<Self> {
        let mut rest = &part.value[..];
        let numbers = varint::take(&mut rest).zip(varint::take(&mut rest)).filter(|_| rest.is_empty());
        let (entries, children) = numbers.ok_or_else(damaged)?;
        Ok(Self { key: part.subkey, entries, children })
    }

    fn value(&self) -> Vec<u8> {
        let mut value = Vec::new();
        varint::put(&mut value, self.entries);
        varint::put(&mut value, self.children);
        value
    }
}

/// What is read is not what was written.
pub(super) fn damaged() -> Error {
    weir_io::Error::new(ErrorKind::Corruption, "read", "a sorted set", "its parts do not fit together").into()
}

/// From a key on, up to another in front of which it ends: `None` where there is no end.
fn between(from: &[u8], to: Option<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(from.into()), to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.into())))
}

impl<'k> Counted<'k> {
    /// Of the entries in `space` of the row of `key`, whose `life` it is, as `detail` has them.
    pub fn new(key: &'k [u8], life: Life, space: u8, detail: &OrderDetail) -> Self {
        let first = detail.ends.as_ref().map(|ends| ends.first.clone()).unwrap_or_default();
        Self { key, life, space, fan: FAN, levels: detail.levels, second: detail.second.clone(), first }
    }

    /// Writes what is known of the counts into `detail`.
    pub fn tell(self, detail: &mut OrderDetail) {
        (detail.levels, detail.second) = (self.levels, self.second);
    }

    /// An entry was put at `place`.
    fn include(&mut self, place: &[u8]) {
        if *place < self.first[..] {
            self.first = place.into();
        }
    }

    /// The second bucket of the first level begins at `key` now; `None` where there is none.
    fn note_second(&mut self, key: Option<Vec<u8>>) {
        self.second = key.filter(|key| key.len() <= ORDER_BOUND_BYTES_MAX).unwrap_or_default();
    }

    /// Up to `limit` parts of `level` (0: entries) between `from` and `to`; all where there is no limit.
    async fn list(
        &self,
        cx: &mut Context<'_>,
        level: u8,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reverse: bool,
        limit: usize,
    ) -> Outcome<Vec<Part>> {
        let mut found = Vec::new();
        let mut left = Some(Subkeys { space: self.space + level, from, to, reverse });
        while let Some(subkeys) = left.take_if(|_| found.len() < limit) {
            let page = cx.parts(self.key, self.life, subkeys, (limit - found.len()).min(PAGE_PARTS)).await?;
            found.extend(page.parts);
            left = page.next;
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Up to `limit` buckets of `level` that begin at `from` or behind, and in front of `to` or there.
    async fn buckets(
        &self,
        cx: &mut Context<'_>,
        level: u8,
        from: &[u8],
        to: Bound<Vec<u8>>,
        limit: usize,
    ) -> Outcome<Vec<Part>> {
        if !from.is_empty() || self.second.is_empty() {
            return self.list(cx, level, (Bound::Included(from.into()), to), false, limit).await;
        }
        let mut found = vec![self.first_of(cx, level).await?];
        if found.len() < limit {
            let behind = (Bound::Included(self.second.clone()), to);
            found.extend(self.list(cx, level, behind, false, limit - 1).await?);
        }
        Ok(found)
    }

    /// The first bucket of `level`.
    async fn first_of(&self, cx: &mut Context<'_>, level: u8) -> Outcome<Part> {
        cx.part(self.key, self.life, self.space + level, &[]).await?.ok_or_else(damaged)
    }

    /// Entries from `from` on, up to `to`, in front of which they end.
    async fn entries(&self, cx: &mut Context<'_>, from: &[u8], to: Option<&[u8]>, limit: usize) -> Outcome<Vec<Part>> {
        self.list(cx, 0, between(from.max(&self.first), to), false, limit).await
    }

    /// How many entries stand in front of the place `key`.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn before(&self, cx: &mut Context<'_>, key: &[u8]) -> Outcome<u64> {
        let (mut from, mut before) = (Vec::new(), 0);
        for level in (1..=self.levels).rev() {
            let mut buckets = self.buckets(cx, level, &from, Bound::Included(key.into()), usize::MAX).await?;
            let last = buckets.pop().ok_or_else(damaged)?;
            for bucket in buckets {
                before += Bucket::of(bucket)?.entries;
            }
            from = last.subkey;
        }
        let entries = self.entries(cx, &from, Some(key), usize::MAX).await?;
        Ok(before + entries.len() as u64)
    }

    /// The place of the entry in front of which there are `rank` others; `None` where there are not so many.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn at(&self, cx: &mut Context<'_>, mut rank: u64) -> Outcome<Option<Vec<u8>>> {
        let (mut from, mut to) = (Vec::new(), None::<Vec<u8>>);
        for level in (1..=self.levels).rev() {
            let (mut bucket, mut next) = (None, Some(from));
            while let Some(begin) = next.take() {
                let mut parts = self.buckets(cx, level, &begin, between(&begin, to.as_deref()).1, LOOK_PARTS).await?;
                // The last one of a full step is the first of the next: it says where the one before it ends.
                let is_full = parts.len() == LOOK_PARTS;
                next = if is_full { parts.last().map(|last| last.subkey.clone()) } else { None };
                let ends = parts.iter().skip(1).map(|part| part.subkey.clone()).collect::<Vec<_>>();
                parts.truncate(parts.len() - usize::from(is_full));
                for (part, end) in parts.into_iter().zip(ends.into_iter().map(Some).chain([None])) {
                    let here = Bucket::of(part)?;
                    if rank < here.entries {
                        to = end.or(to);
                        bucket = Some(here);
                        break;
                    }
                    rank -= here.entries;
                }
                next = next.filter(|_| bucket.is_none());
            }
            let Some(Bucket { key, .. }) = bucket else { return Ok(None) };
            from = key;
        }
        let limit = usize::try_from(rank).unwrap_or(usize::MAX).saturating_add(1);
        let mut entries = self.entries(cx, &from, to.as_deref(), limit).await?;
        let found = entries.pop().filter(|_| entries.len() as u64 == rank);
        Ok(found.map(|entry| entry.subkey))
    }
}
