//! Counts over an order: they give the rank of a part, and the part at a rank, without a walk through all parts.
//!
//! The parts of one space, the *entries*, are divided into buckets of some dozen neighbours. [Tallies](Tally) list the
//! buckets, with the number of entries of each; a tally lists some dozen buckets. If one tally is not enough, the
//! tallies of the lowest level are in turn the buckets of tallies on the next level, and so on up to a level with a
//! single tally, the root. So a rank takes one tally of each level, each of which is read by its key and summed up, and
//! a walk through one bucket.
//!
//! ```text
//! level 2     "": 130   k: 96                        the root, at ""
//! level 1     "": 40  c: 33  f: 57 │ k: 51  p: 45    tallies at "" and k
//! entries     a a2 b ... │ c ... │ f ... │ k ... │ p ...
//! ```
//!
//! A bucket reaches from its own key up to the key of the next bucket. A tally stands at the key of its first bucket,
//! and the first tally of a level at the empty key. A short order has no levels. A level is added when there are too
//! many buckets for one tally, and is removed when the root has a single bucket.
//!
//! Rows that were made before there were tallies have a separate part for each bucket; [`early`] reads those. A change
//! there writes a tally in place of these parts, so such a row is a mixture for a while.

mod change;
mod early;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use weir_io::ErrorKind;
use weir_model::Value;
use weir_model::parts::{Bucket, DamagedTally, Life, OrderDetail, Tally, TallyBucket, tally_space};

use crate::context::{Context, Part, Subkeys};
use crate::error::{Error, Outcome};

/// How many neighbours make a bucket, at least; a bucket has up to twice as many. To find a rank, half a bucket is
/// walked through. This and [`TALLY_FAN`] were measured with sets of 100,000 members (`docs/benchmarks/types.md`): with
/// half or twice as many neighbours, or half as many buckets, no command is cheaper on both engines.
const FAN: u64 = 32;

/// How many buckets make a tally, at least; a tally has up to twice as many. A change of a count writes one tally of
/// each level anew, which is some bytes for each of its buckets.
const TALLY_FAN: usize = 48;

/// Most bytes of a tally that has more than a few buckets.
const TALLY_BYTES_MAX: usize = 4 << 10;

/// A tally with fewer buckets is not divided, however long their keys are.
const DIVIDED_BUCKETS_MIN: usize = 8;

/// How many parts are read in one step.
const PAGE_PARTS: usize = 256;

/// The counts of an order.
#[derive(Clone, Debug)]
pub struct Counted<'k> {
    /// The row's key.
    key: &'k [u8],
    life: Life,
    /// The space of the entries.
    space: u8,
    fan: u64,
    tally_fan: usize,
    /// How many levels there are.
    levels: u8,
    /// Some of the counts are in tallies.
    is_tallied: bool,
    /// The place of the second bucket: see [`OrderDetail::second`].
    second: Vec<u8>,
    /// No entry stands in front of this place.
    first: Vec<u8>,
}

/// A tally that was read.
#[derive(Clone, Debug)]
struct Counts {
    level: u8,
    key: Vec<u8>,
    tally: Value,
    /// The keys of the separate parts of an earlier version that this tally replaces when it is written.
    early: Vec<Vec<u8>>,
}

/// A bucket on the way down to a place.
#[derive(Clone, Debug)]
struct Step {
    /// The tally that lists the bucket.
    counts: Counts,
    /// The bucket's number in that tally.
    index: usize,
    /// Where the bucket begins.
    key: Vec<u8>,
    /// How many entries the buckets in front of it have in that tally.
    before: u64,
    /// How many entries the bucket has.
    entries: u64,
}

/// The error for counts that were read and are not those that were written.
pub(super) fn damaged() -> Error {
    weir_io::Error::new(ErrorKind::Corruption, "read", "a sorted set", "its parts do not fit together").into()
}

impl From<DamagedTally> for Error {
    fn from(_: DamagedTally) -> Self {
        damaged()
    }
}

/// The sum of `counts`. It overflows only if what was read is not what was written.
fn sum_of(mut counts: impl Iterator<Item = u64>) -> Outcome<u64> {
    counts.try_fold(0, u64::checked_add).ok_or_else(damaged)
}

/// From the key `from` on, up to the key `to`, which is not included; `None` = to the end.
fn between(from: &[u8], to: Option<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(from.into()), to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.into())))
}

impl Counts {
    fn buckets(&self) -> Outcome<Vec<Bucket>> {
        Ok(Tally::decode(&self.key, &self.tally)?)
    }

    /// The step to the bucket that `find` finds, if it finds one.
    fn step(
        self,
        find: impl FnOnce(Tally<'_>) -> Result<Option<TallyBucket<'_>>, DamagedTally>,
    ) -> Outcome<Option<Step>> {
        let tally = Tally::parse(&self.tally)?;
        let Some(bucket) = find(tally)? else { return Ok(None) };
        let TallyBucket { index, before, entries, .. } = bucket;
        let key = tally.begin_of(&self.key, &bucket);
        Ok(Some(Step { index, key, before, entries, counts: self }))
    }

    /// Where the bucket with the number `index` begins.
    fn key_of(&self, index: usize) -> Outcome<Option<Vec<u8>>> {
        Ok(Tally::parse(&self.tally)?.key_of(&self.key, index)?)
    }
}

/// Where the last bucket of `path` ends, which is where the next one begins, in its tally or in one further up; `None`
/// if there is no next bucket.
fn end_of(path: &[Step]) -> Outcome<Option<Vec<u8>>> {
    for step in path.iter().rev() {
        if let Some(end) = step.counts.key_of(step.index + 1)? {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

impl<'k> Counted<'k> {
    /// The counts over the entries in `space` of the row of `key`, whose `life` it is, as `detail` describes them.
    pub fn new(key: &'k [u8], life: Life, space: u8, detail: &OrderDetail) -> Self {
        let first = detail.ends.as_ref().map(|ends| ends.first.clone()).unwrap_or_default();
        Self {
            key,
            life,
            space,
            fan: FAN,
            tally_fan: TALLY_FAN,
            levels: detail.levels,
            is_tallied: detail.is_tallied,
            second: detail.second.clone(),
            first,
        }
    }

    /// Writes what is known of the counts into `detail`.
    pub fn tell(self, detail: &mut OrderDetail) {
        (detail.levels, detail.is_tallied, detail.second) = (self.levels, self.is_tallied, self.second);
    }

    /// Notes that an entry was put at `place`.
    fn include(&mut self, place: &[u8]) {
        if *place < self.first[..] {
            self.first = place.into();
        }
    }

    /// All parts of `space` in a range.
    async fn list(
        &self,
        cx: &mut Context<'_>,
        space: u8,
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Outcome<Vec<Part>> {
        let mut found = Vec::new();
        let mut left = Some(Subkeys { space, from, to, reverse: false });
        while let Some(subkeys) = left {
            let page = cx.parts(self.key, self.life, subkeys, PAGE_PARTS).await?;
            found.extend(page.parts);
            left = page.next;
        }
        Ok(found)
    }

    /// The places of the entries from `from` on, up to `to`, which is not included.
    async fn entries(&self, cx: &mut Context<'_>, from: &[u8], to: Option<&[u8]>) -> Outcome<Vec<Vec<u8>>> {
        let parts = self.list(cx, self.space, between(from.max(&self.first), to)).await?;
        Ok(parts.into_iter().map(|part| part.subkey).collect())
    }

    /// The tally of `level` at `key`; `None` if the counts there are not written as tallies yet.
    async fn tally(&self, cx: &mut Context<'_>, level: u8, key: &[u8]) -> Outcome<Option<Value>> {
        if !self.is_tallied {
            return Ok(None);
        }
        cx.part_value(self.key, self.life, tally_space(level), key).await
    }

    /// The counts of `level` from `key` on. A bucket of the level above begins at `key`: the last one of `path`.
    async fn counts(&self, cx: &mut Context<'_>, level: u8, key: Vec<u8>, path: &[Step]) -> Outcome<Counts> {
        if let Some(tally) = self.tally(cx, level, &key).await? {
            return Ok(Counts { level, key, tally, early: Vec::new() });
        }
        self.early(cx, level, key, end_of(path)?).await
    }

    /// The way down to the bucket that `place` is in, the highest level first; empty if there are no levels.
    async fn path(&self, cx: &mut Context<'_>, place: &[u8]) -> Outcome<Vec<Step>> {
        let (mut path, mut key) = (Vec::with_capacity(usize::from(self.levels)), Vec::new());
        for level in (1..=self.levels).rev() {
            let counts = self.counts(cx, level, key, &path).await?;
            let step = counts.step(|tally| tally.bucket_of(place).map(Some))?.ok_or_else(damaged)?;
            cx.passed_packed(step.index + 1);
            key = step.key.clone();
            path.push(step);
        }
        Ok(path)
    }

    /// How many entries stand in front of `place`.
    ///
    /// # Errors
    /// The counts or entries cannot be read.
    pub async fn before(&self, cx: &mut Context<'_>, place: &[u8]) -> Outcome<u64> {
        let path = self.path(cx, place).await?;
        let mut before = sum_of(path.iter().map(|step| step.before))?;
        let from = path.last().map_or(&[][..], |step| &step.key);
        let (from, to) = between(from.max(&self.first), Some(place));
        let subkeys = Subkeys { space: self.space, from, to, reverse: false };
        before += cx.count_parts(self.key, self.life, subkeys, PAGE_PARTS).await?;
        Ok(before)
    }

    /// A place in front of the entry at `rank`, and how many entries stand between the two: at most as many as a bucket
    /// has. `None` if there is no entry at that rank.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub async fn near(&self, cx: &mut Context<'_>, mut rank: u64) -> Outcome<Option<(Vec<u8>, u64)>> {
        let (mut path, mut key) = (Vec::with_capacity(usize::from(self.levels)), Vec::new());
        for level in (1..=self.levels).rev() {
            let counts = self.counts(cx, level, key, &path).await?;
            let Some(step) = counts.step(|tally| tally.bucket_with(rank))? else { return Ok(None) };
            cx.passed_packed(step.index + 1);
            rank -= step.before;
            key = step.key.clone();
            path.push(step);
        }
        Ok(Some((key.max(self.first.clone()), rank)))
    }
}
