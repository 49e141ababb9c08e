//! The counts of a sorted set: that they add up, and that tallies say of each bucket what the level below has in it.
//!
//! A level is a row of parts, a row of tallies, or the one here and the other there. Where all of it are tallies, each
//! of them is compared with its bucket of the level above.

use super::digest::Digest;
use super::{Flaw, flaw};
use crate::parts::{OrderDetail, TALLY_LEVELS_MAX, Tally, tally_space};
use crate::varint;

/// The first space of counts that are parts of their own, and how many levels of these there are.
const PARTS_FROM: u8 = 2;
const PART_LEVELS: usize = 3;

const LEVELS: usize = TALLY_LEVELS_MAX as usize;

/// What the counts have said so far.
#[derive(Default)]
pub(super) struct CountsSeen {
    parts: [Parts; PART_LEVELS],
    tallies: [Tallies; LEVELS],
    /// Where the second bucket of the first level begins, of those that are parts.
    second: Option<Vec<u8>>,
    /// Buckets of each level, with what they count: by parts and by tallies.
    buckets: [Digest; LEVELS],
}

/// Buckets of a level that are parts of their own: how many, and what they count together.
#[derive(Clone, Copy, Default)]
struct Parts {
    buckets: u64,
    members: u64,
    children: u64,
    /// One of them begins in front of all.
    has_first: bool,
}

#[derive(Clone, Copy, Default)]
struct Tallies {
    tallies: u64,
    buckets: u64,
    members: u64,
    /// Where each begins, and what it counts.
    sums: Digest,
}

impl CountsSeen {
    /// The next part of a sorted set, which is in neither of its orders.
    pub fn part(&mut self, space: u8, subkey: &[u8], value: &[u8]) -> Result<(), Flaw> {
        if let Some(level) = (0..PART_LEVELS).find(|&level| PARTS_FROM + level as u8 == space) {
            return self.bucket(level, subkey, value);
        }
        match (1..=TALLY_LEVELS_MAX).find(|&level| tally_space(level) == space) {
            Some(level) => self.tally(usize::from(level) - 1, subkey, value),
            None => flaw("it has parts that such a row does not have"),
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

    /// Whether all of it is there, and adds up to `members`, as a head with this `detail` says.
    pub fn check(&self, members: u64, detail: &OrderDetail) -> Result<(), Flaw> {
        const UNSUMMED: Flaw = Flaw("its counts do not add up");
        let levels = usize::from(detail.levels);
        let has_tallies = self.tallies.iter().any(|seen| seen.tallies > 0);
        if has_tallies != detail.is_tallied {
            return Err(UNSUMMED);
        }
        let is_second = match self.second.as_deref() {
            // Those that it stood in front of may be in tallies by now.
            first if has_tallies => first.is_none_or(|first| first >= &detail.second[..]),
            first => first == Some(&detail.second[..]),
        };
        if !detail.second.is_empty() && !is_second {
            return flaw("its head does not say where its counts go on");
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
                return flaw("its counts do not begin at the beginning");
            }
            if is_there && parts.buckets == 0 && tallies.sums != self.above(level, levels, members) {
                return Err(UNSUMMED);
            }
            below = buckets;
        }
        Ok(())
    }

    /// What the tallies of `level` are to say, of `levels`: as the buckets of the level above, or as all `members`.
    fn above(&self, level: usize, levels: usize, members: u64) -> Digest {
        if level + 1 < levels {
            return self.buckets[level + 1];
        }
        let mut all = Digest::default();
        all.add(&[&[], &members.to_le_bytes()]);
        all
    }
}
