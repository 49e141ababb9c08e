//! The counts of a sorted set: whether they add up, and whether tallies agree with the buckets of the level below.
//!
//! The buckets of a level are parts of their own, or in tallies, or some the one and some the other. Where a whole
//! level consists of tallies, each tally is compared with its bucket of the level above.

use super::digest::Digest;
use super::{Flaw, flaw};
use crate::parts::{OrderDetail, TALLY_LEVELS_MAX, Tally, tally_space};
use crate::varint;

/// The first space of counts that are parts of their own, and how many levels these can have.
const PARTS_FROM: u8 = 2;
const PART_LEVELS: usize = 3;

const LEVELS: usize = TALLY_LEVELS_MAX as usize;

/// The counts seen so far.
#[derive(Default)]
pub(super) struct CountsSeen {
    parts: [Parts; PART_LEVELS],
    tallies: [Tallies; LEVELS],
    /// Where the second bucket of the first level begins, of the buckets that are parts.
    second: Option<Vec<u8>>,
    /// The buckets of each level with their counts, both from parts and from tallies.
    buckets: [Digest; LEVELS],
}

/// The buckets of a level that are parts of their own: how many, and the sum of their counts.
#[derive(Clone, Copy, Default)]
struct Parts {
    buckets: u64,
    members: u64,
    children: u64,
    /// Whether one of them begins in front of everything.
    has_first: bool,
}

#[derive(Clone, Copy, Default)]
struct Tallies {
    tallies: u64,
    buckets: u64,
    members: u64,
    /// Where each tally begins, and the sum of its counts.
    sums: Digest,
}

impl CountsSeen {
    /// Takes the next part of a sorted set that is in neither of the set's orders.
    pub fn part(&mut self, space: u8, subkey: &[u8], value: &[u8]) -> Result<(), Flaw> {
        if let Some(level) = (0..PART_LEVELS).find(|&level| PARTS_FROM + level as u8 == space) {
            return self.bucket(level, subkey, value);
        }
        match (1..=TALLY_LEVELS_MAX).find(|&level| tally_space(level) == space) {
            Some(level) => self.tally(usize::from(level) - 1, subkey, value),
            None => flaw("it has parts of a kind that its type does not have"),
        }
    }

    fn bucket(&mut self, level: usize, key: &[u8], mut value: &[u8]) -> Result<(), Flaw> {
        let numbers = varint::take(&mut value).zip(varint::take(&mut value)).filter(|_| value.is_empty());
        let (members, children) = numbers.ok_or(Flaw("a count is damaged"))?;
        let seen = &mut self.parts[level];
        seen.buckets += 1;
        seen.members = seen.members.saturating_add(members);
        seen.children = seen.children.saturating_add(children);
        seen.has_first |= key.is_empty();
        self.buckets[level].add(&[key, &members.to_le_bytes()]);
        if level == 0 && !key.is_empty() && self.second.is_none() {
            self.second = Some(key.into());
        }
        Ok(())
    }

    fn tally(&mut self, level: usize, key: &[u8], value: &[u8]) -> Result<(), Flaw> {
        let buckets = Tally::decode(key, value).map_err(|_| Flaw("a count is damaged"))?;
        let members = buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.entries));
        let seen = &mut self.tallies[level];
        seen.tallies += 1;
        seen.buckets += buckets.len() as u64;
        seen.members = seen.members.saturating_add(members);
        seen.sums.add(&[key, &members.to_le_bytes()]);
        for bucket in &buckets {
            self.buckets[level].add(&[&bucket.key, &bucket.entries.to_le_bytes()]);
        }
        Ok(())
    }

    /// Whether all counts are there, and add up to `members`, as a head with this `detail` says.
    pub fn check(&self, members: u64, detail: &OrderDetail) -> Result<(), Flaw> {
        const UNSUMMED: Flaw = Flaw("its counts do not add up");
        let levels = usize::from(detail.levels);
        let has_tallies = self.tallies.iter().any(|seen| seen.tallies > 0);
        if has_tallies != detail.is_tallied {
            return Err(UNSUMMED);
        }
        let is_second = match self.second.as_deref() {
            // The buckets that it stood in front of may be in tallies by now.
            first if has_tallies => first.is_none_or(|first| first >= &detail.second[..]),
            first => first == Some(&detail.second[..]),
        };
        if !detail.second.is_empty() && !is_second {
            return flaw("the second bucket of its counts is not the one that its head names");
        }
        let mut below = members;
        for level in 0..LEVELS {
            let parts = self.parts.get(level).copied().unwrap_or_default();
            let tallies = &self.tallies[level];
            let buckets = parts.buckets + tallies.buckets;
            let is_there = level < levels;
            if is_there != (buckets > 0) || is_there && parts.members.saturating_add(tallies.members) != members {
                return Err(UNSUMMED);
            }
            if !has_tallies && is_there && parts.children != below {
                return Err(UNSUMMED);
            }
            if !has_tallies && is_there && !parts.has_first {
                return flaw("the first bucket of its counts is missing");
            }
            if is_there && parts.buckets == 0 && tallies.sums != self.above(level, levels, members) {
                return Err(UNSUMMED);
            }
            below = buckets;
        }
        Ok(())
    }

    /// What the tallies of `level`, one of `levels`, must amount to: the buckets of the level above, or all `members`.
    fn above(&self, level: usize, levels: usize, members: u64) -> Digest {
        if level + 1 < levels {
            return self.buckets[level + 1];
        }
        let mut all = Digest::default();
        all.add(&[&[], &members.to_le_bytes()]);
        all
    }
}
