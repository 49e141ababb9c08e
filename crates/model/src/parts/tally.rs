//! A tally: neighbouring buckets of an order, and how many entries each of them has, in one value.
//!
//! ```text
//! tally  := front length varint | front | entries varint | bucket*
//! bucket := rest length varint | rest | entries varint
//! ```
//!
//! The first bucket begins where the tally does, at the place in the tally's subkey. The key of each other bucket is
//! the front, which they have in common, followed by the bucket's rest. They ascend.
//!
//! A search for one bucket does not decode all of them: it walks along the tally until it has found the bucket.

use std::fmt;
use std::ops::Range;

use crate::varint;

/// Most levels of tallies: with the fan that commands keep, enough for any number of members.
pub const TALLY_LEVELS_MAX: u8 = 8;

/// The space of the tallies of `level`; the lowest level is 1.
pub const fn tally_space(level: u8) -> u8 {
    4 + level
}

/// The value is not a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedTally;

impl fmt::Display for DamagedTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the counts of a sorted set are damaged")
    }
}

impl std::error::Error for DamagedTally {}

/// A run of neighbouring entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Where the bucket begins. It ends where the next one begins.
    pub key: Vec<u8>,
    /// How many entries the bucket has.
    pub entries: u64,
}

/// A tally, borrowed from its encoded bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'t> {
    front: &'t [u8],
    value: &'t [u8],
    /// Where the front ends and the buckets begin.
    begin: usize,
}

/// A bucket, borrowed from a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyBucket<'t> {
    /// How many buckets are in front of it.
    pub index: usize,
    /// How many entries these buckets have.
    pub before: u64,
    /// How many entries it has itself.
    pub entries: u64,
    /// The part of its key behind the front; empty for the first bucket.
    rest: &'t [u8],
    /// Where the encoded number of its entries begins.
    from: usize,
    to: usize,
}

/// A bucket in which entries came or went: see [`Tally::recount`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recounted {
    /// How many buckets are in front of it in its tally.
    pub index: usize,
    /// Where the bucket begins.
    pub key: Vec<u8>,
    /// How many entries the bucket has now.
    pub entries: u64,
    /// How many more entries that is than before.
    pub more: i64,
    /// The changes that fall into the bucket.
    pub changes: Range<usize>,
}

/// Iterates over the buckets of a tally.
struct Buckets<'t> {
    value: &'t [u8],
    left: &'t [u8],
    index: usize,
    before: u64,
}

impl<'t> Buckets<'t> {
    #[inline]
    fn take(&mut self) -> Option<TallyBucket<'t>> {
        let rest = if self.index == 0 { &[][..] } else { varint::take_slice(&mut self.left)? };
        let from = self.value.len() - self.left.len();
        let entries = varint::take(&mut self.left)?;
        let to = self.value.len() - self.left.len();
        let bucket = TallyBucket { index: self.index, before: self.before, entries, rest, from, to };
        self.index += 1;
        self.before = self.before.checked_add(entries)?;
        Some(bucket)
    }
}

impl<'t> Iterator for Buckets<'t> {
    type Item = Result<TallyBucket<'t>, DamagedTally>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() && self.index > 0 {
            return None;
        }
        let bucket = self.take().ok_or(DamagedTally);
        if bucket.is_err() {
            (self.left, self.index) = (&[], 1);
        }
        Some(bucket)
    }
}

impl<'t> Tally<'t> {
    /// The tally in `value`. Bytes behind its front are checked only as far as somebody iterates over them.
    ///
    /// # Errors
    /// If it has no front.
    #[inline]
    pub fn parse(value: &'t [u8]) -> Result<Self, DamagedTally> {
        let mut rest = value;
        let front = varint::take_slice(&mut rest).ok_or(DamagedTally)?;
        Ok(Self { front, value, begin: value.len() - rest.len() })
    }

    #[inline]
    fn buckets(&self) -> Buckets<'t> {
        Buckets { value: self.value, left: &self.value[self.begin..], index: 0, before: 0 }
    }

    /// The last bucket that begins at `place` or in front of it; the first bucket counts as beginning in front of
    /// everything.
    ///
    /// # Errors
    /// If the tally is damaged.
    pub fn bucket_of(&self, place: &[u8]) -> Result<TallyBucket<'t>, DamagedTally> {
        let rest = place.strip_prefix(self.front);
        // If the place does not begin with the front, all buckets but the first are on the same side of it.
        let are_in_front = place > self.front;
        let is_at_most = |bucket: &TallyBucket<'_>| match rest {
            Some(rest) => !is_less(rest, bucket.rest),
            None => are_in_front,
        };
        let mut buckets = self.buckets();
        let mut found = buckets.next().ok_or(DamagedTally)??;
        for bucket in buckets {
            let bucket = bucket?;
            if !is_at_most(&bucket) {
                break;
            }
            found = bucket;
        }
        Ok(found)
    }

    /// The bucket with the entry that has `rank` other entries of the tally in front of it; `None` if there are not so
    /// many.
    ///
    /// # Errors
    /// If the tally is damaged.
    pub fn bucket_with(&self, rank: u64) -> Result<Option<TallyBucket<'t>>, DamagedTally> {
        for bucket in self.buckets() {
            let bucket = bucket?;
            if rank - bucket.before < bucket.entries {
                return Ok(Some(bucket));
            }
        }
        Ok(None)
    }

    /// Where the bucket with the number `index` begins, in the tally that begins at `key`; `None` if there are not so
    /// many.
    ///
    /// # Errors
    /// If the tally is damaged.
    pub fn key_of(&self, key: &[u8], index: usize) -> Result<Option<Vec<u8>>, DamagedTally> {
        let bucket = self.buckets().nth(index).transpose()?;
        Ok(bucket.map(|bucket| self.begin_of(key, &bucket)))
    }

    /// Where `bucket` begins, a bucket of this tally, which begins at `key`.
    #[inline]
    pub fn begin_of(&self, key: &[u8], bucket: &TallyBucket<'_>) -> Vec<u8> {
        if bucket.index == 0 { key.into() } else { [self.front, bucket.rest].concat() }
    }

    /// Counts entries that came or went in the tally in `value`, which begins at `key`. `changes` are places in
    /// ascending order, each with how many more entries are there now. Returns the new value and the buckets that the
    /// changes fall into, in their order.
    ///
    /// # Errors
    /// If the tally is damaged, or has fewer entries than went.
    pub fn recount(
        key: &[u8],
        value: &[u8],
        changes: &[(Vec<u8>, i64)],
    ) -> Result<(Vec<u8>, Vec<Recounted>), DamagedTally> {
        let tally = Tally::parse(value)?;
        let (mut buckets, mut recounted, mut done) = (tally.buckets(), Vec::new(), 0);
        let (mut out, mut copied) = (Vec::with_capacity(value.len() + varint::BYTES_MAX), 0);
        let mut bucket = buckets.next().ok_or(DamagedTally)??;
        // If a place does not begin with the front, all buckets but the first are on the same side of it.
        let is_in_front_of = |place: &[u8], next: &TallyBucket<'_>| match place.strip_prefix(tally.front) {
            Some(rest) => is_less(rest, next.rest),
            None => place < tally.front,
        };
        while done < changes.len() {
            let next = buckets.next().transpose()?;
            let mut end = done;
            while changes.get(end).is_some_and(|(place, _)| next.is_none_or(|next| is_in_front_of(place, &next))) {
                end += 1;
            }
            if end > done {
                let more = changes[done..end].iter().map(|(_, count)| count).sum();
                let entries = bucket.entries.checked_add_signed(more).ok_or(DamagedTally)?;
                out.extend_from_slice(&value[copied..bucket.from]);
                varint::put(&mut out, entries);
                copied = bucket.to;
                let key = tally.begin_of(key, &bucket);
                recounted.push(Recounted { index: bucket.index, key, entries, more, changes: done..end });
                done = end;
            }
            let Some(next) = next else { break };
            bucket = next;
        }
        out.extend_from_slice(&value[copied..]);
        Ok((out, recounted))
    }

    /// All buckets of the tally that begins at `key`.
    ///
    /// # Errors
    /// If the tally is damaged, or not in the one form that [`Tally::encode`] gives it.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Vec<Bucket>, DamagedTally> {
        let tally = Tally::parse(value)?;
        let bucket = |bucket: TallyBucket<'_>| Bucket { key: tally.begin_of(key, &bucket), entries: bucket.entries };
        let buckets: Vec<Bucket> = tally.buckets().map(|found| found.map(bucket)).collect::<Result<_, _>>()?;
        let ascends = buckets.is_sorted_by(|a, b| a.key < b.key);
        if ascends && Tally::encode(&buckets) == value { Ok(buckets) } else { Err(DamagedTally) }
    }

    /// The tally of `buckets`, which ascend; there must be at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn encode(buckets: &[Bucket]) -> Vec<u8> {
        let (first, others) = buckets.split_first().expect("a tally has a bucket");
        let front = match others {
            [] => &[][..],
            [one] => &one.key,
            [one, .., last] => &one.key[..common(&one.key, &last.key)],
        };
        let mut value = Vec::with_capacity(front.len() + 8 * buckets.len());
        varint::put(&mut value, front.len() as u64);
        value.extend_from_slice(front);
        varint::put(&mut value, first.entries);
        for Bucket { key, entries } in others {
            let rest = &key[front.len()..];
            varint::put(&mut value, rest.len() as u64);
            value.extend_from_slice(rest);
            varint::put(&mut value, *entries);
        }
        value
    }
}

/// Whether `a` is in front of `b`. Most differ in their first byte; for them no comparison function is called.
#[inline]
fn is_less(a: &[u8], b: &[u8]) -> bool {
    match (a.first(), b.first()) {
        (Some(first), Some(other)) if first != other => first < other,
        _ => a < b,
    }
}

/// How many bytes `a` and `b` have in common at their beginnings.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(7), Just(u8::MAX)], 0..5)
    }

    fn count() -> impl Strategy<Value = u64> {
        prop_oneof![0..4_u64, 120..140_u64, Just(1 << 40)]
    }

    /// The buckets of a tally: the first begins at the tally's key, and the keys of all begin with the same front.
    fn buckets() -> impl Strategy<Value = Vec<Bucket>> {
        (word(), btree_map(word(), count(), 1..9)).prop_map(|(front, counts): (Vec<u8>, BTreeMap<Vec<u8>, u64>)| {
            let bucket = |(index, (rest, entries)): (usize, (Vec<u8>, u64))| match index {
                0 => Bucket { key: rest[..rest.len().min(1)].into(), entries },
                _ => Bucket { key: [&front[..], &rest].concat(), entries },
            };
            let mut buckets: Vec<Bucket> = counts.into_iter().enumerate().map(bucket).collect();
            buckets.sort_by(|a, b| a.key.cmp(&b.key));
            buckets.dedup_by(|a, b| a.key == b.key);
            buckets
        })
    }

    proptest! {
        #[test]
        fn a_tally_comes_back_and_is_searched(buckets in buckets(), place in word(), rank in 0..300_u64) {
            let (key, value) = (buckets[0].key.clone(), Tally::encode(&buckets));
            prop_assert_eq!(Tally::decode(&key, &value), Ok(buckets.clone()));
            let tally = Tally::parse(&value).expect("own bytes");

            let index = buckets[1..].partition_point(|bucket| bucket.key <= place);
            let before = |index: usize| buckets[..index].iter().map(|bucket| bucket.entries).sum::<u64>();
            let found = tally.bucket_of(&place).expect("own bytes");
            let wanted = (index, before(index), buckets[index].entries);
            prop_assert_eq!((found.index, found.before, found.entries), wanted);
            prop_assert_eq!(tally.begin_of(&key, &found), buckets[index].key.clone());

            let index = (0..buckets.len()).find(|&index| before(index + 1) > rank);
            let found = tally.bucket_with(rank).expect("own bytes");
            prop_assert_eq!(found.map(|bucket| bucket.index), index);
            for index in 0..=buckets.len() {
                let wanted = buckets.get(index).map(|bucket| bucket.key.clone());
                prop_assert_eq!(tally.key_of(&key, index), Ok(wanted));
            }
        }

        #[test]
        fn entries_are_counted_in_the_buckets_that_they_are_in(
            mut buckets in buckets(), changes in btree_map(word(), -1..3_i64, 0..9)
        ) {
            let (key, value) = (buckets[0].key.clone(), Tally::encode(&buckets));
            let changes: Vec<(Vec<u8>, i64)> = changes.into_iter().collect();
            let mut wanted: Vec<Recounted> = Vec::new();
            for (at, (place, more)) in changes.iter().enumerate() {
                let index = buckets[1..].partition_point(|bucket| bucket.key <= *place);
                match wanted.last_mut().filter(|last| last.index == index) {
                    Some(last) => (last.more, last.changes.end) = (last.more + more, at + 1),
                    None => {
                        let key = buckets[index].key.clone();
                        wanted.push(Recounted { index, key, entries: 0, more: *more, changes: at..at + 1 });
                    }
                }
            }
            let mut is_possible = true;
            for recounted in &mut wanted {
                let bucket = &mut buckets[recounted.index];
                let entries = bucket.entries.checked_add_signed(recounted.more);
                is_possible &= entries.is_some();
                (bucket.entries, recounted.entries) = (entries.unwrap_or(0), entries.unwrap_or(0));
            }
            let wanted = if is_possible { Ok((Tally::encode(&buckets), wanted)) } else { Err(DamagedTally) };
            prop_assert_eq!(Tally::recount(&key, &value, &changes), wanted);
        }

        #[test]
        fn any_bytes_are_a_tally_or_refused(key in word(), bytes in vec(0..5_u8, 0..16), place in word(), rank: u64) {
            if let Ok(buckets) = Tally::decode(&key, &bytes) {
                prop_assert_eq!(Tally::encode(&buckets), bytes.clone());
            }
            if let Ok(tally) = Tally::parse(&bytes) {
                // The results do not matter.
                let _ = (tally.bucket_of(&place), tally.bucket_with(rank), tally.key_of(&key, 3));
                let _ = Tally::recount(&key, &bytes, &[(place.clone(), 1), ([&place[..], &[9]].concat(), -1)]);
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_too_much_is_refused() {
        let buckets = [("", 3), ("ab", 200), ("ac", 1)].map(|(key, entries)| Bucket { key: key.into(), entries });
        let value = Tally::encode(&buckets);
        assert_eq!(value, [1, b'a', 3, 1, b'b', 200, 1, 1, b'c', 1]);
        // A cut behind a bucket leaves a tally of fewer buckets, which might have a longer front.
        for len in 0..value.len() {
            assert_eq!(Tally::decode(b"", &value[..len]), Err(DamagedTally), "{len} bytes");
        }
        assert_eq!(Tally::decode(b"ab", &value), Err(DamagedTally), "it does not ascend");
        // Additions must not overflow, whatever the numbers are.
        let full = [1, b'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, b'b', 1];
        assert_eq!(Tally::parse(&full).expect("a front").bucket_of(b"b"), Err(DamagedTally));
    }
}
