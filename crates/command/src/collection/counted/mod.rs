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

/// Parts that are read in one step where one of them is looked for: about as many as a bucket has. To begin a step
/// takes as long as to look at a dozen.
const LOOK_PARTS: usize = 64;

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
        let (entries, children) = counts(&part.value)?;
        Ok(Self { key: part.subkey, entries, children })
    }

    fn value(&self) -> Vec<u8> {
        let mut value = Vec::new();
        varint::put(&mut value, self.entries);
        varint::put(&mut value, self.children);
        value
    }
}

/// How many entries and children the bucket with this value has.
fn counts(mut value: &[u8]) -> Outcome<(u64, u64)> {
    varint::take(&mut value).zip(varint::take(&mut value)).filter(|_| value.is_empty()).ok_or_else(damaged)
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

    /// Hands the key of each bucket of `level` that begins at `from` or behind, and in front of `to` or there, to
    /// `see`, with the number of its entries, until that says `false`.
    async fn each_bucket(
        &self,
        cx: &mut Context<'_>,
        level: u8,
        from: &[u8],
        to: Bound<Vec<u8>>,
        mut see: impl FnMut(&[u8], u64) -> bool,
    ) -> Outcome {
        let mut begin = from;
        if from.is_empty() && !self.second.is_empty() {
            let first = Bucket::of(self.first_of(cx, level).await?)?;
            if !see(&first.key, first.entries) {
                return Ok(());
            }
            begin = &self.second;
        }
        let (space, from) = (self.space + level, Bound::Included(begin.into()));
        let mut left = Some(Subkeys { space, from, to, reverse: false });
        while let Some(subkeys) = left {
            let page = cx.stored_parts(self.key, self.life, subkeys, LOOK_PARTS).await?;
            for part in page.iter() {
                if !see(part.key, counts(part.value)?.0) {
                    return Ok(());
                }
            }
            left = page.next;
        }
        Ok(())
    }

    /// How many entries stand in front of the place `key`.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn before(&self, cx: &mut Context<'_>, key: &[u8]) -> Outcome<u64> {
        let (mut from, mut before) = (Vec::new(), 0);
        for level in (1..=self.levels).rev() {
            let mut last: Option<(Vec<u8>, u64)> = None;
            let see = |bucket: &[u8], entries: u64| {
                let (key, here) = last.get_or_insert_default();
                before += std::mem::replace(here, entries);
                key.clear();
                key.extend_from_slice(bucket);
                true
            };
            self.each_bucket(cx, level, &from, Bound::Included(key.into()), see).await?;
            from = last.ok_or_else(damaged)?.0;
        }
        let (from, to) = between((&from[..]).max(&self.first), Some(key));
        let mut left = Some(Subkeys { space: self.space, from, to, reverse: false });
        while let Some(subkeys) = left {
            let page = cx.stored_parts(self.key, self.life, subkeys, PAGE_PARTS).await?;
            before += page.iter().len() as u64;
            left = page.next;
        }
        Ok(before)
    }

    /// The place of the entry in front of which there are `rank` others; `None` where there are not so many.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn at(&self, cx: &mut Context<'_>, mut rank: u64) -> Outcome<Option<Vec<u8>>> {
        let (mut from, mut to) = (Vec::new(), None::<Vec<u8>>);
        for level in (1..=self.levels).rev() {
            let (mut bucket, mut end) = (None::<Vec<u8>>, None::<Vec<u8>>);
            let see = |key: &[u8], entries: u64| {
                if bucket.is_some() {
                    // It says where the one before it ends.
                    end = Some(key.into());
                } else if rank < entries {
                    bucket = Some(key.into());
                } else {
                    rank -= entries;
                }
                end.is_none()
            };
            self.each_bucket(cx, level, &from, between(&from, to.as_deref()).1, see).await?;
            let Some(key) = bucket else { return Ok(None) };
            (from, to) = (key, end.or(to));
        }
        let (from, to) = between((&from[..]).max(&self.first), to.as_deref());
        let mut left = Some(Subkeys { space: self.space, from, to, reverse: false });
        while let Some(subkeys) = left {
            let limit = usize::try_from(rank).unwrap_or(usize::MAX).saturating_add(1).min(PAGE_PARTS);
            let page = cx.stored_parts(self.key, self.life, subkeys, limit).await?;
            if let Some(entry) = usize::try_from(rank).ok().and_then(|rank| page.iter().nth(rank)) {
                return Ok(Some(entry.key.into()));
            }
            rank -= page.iter().len() as u64;
            left = page.next;
        }
        Ok(None)
    }
}
