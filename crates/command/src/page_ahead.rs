//! Parts that were read for one command, and are kept for the commands after it.
//!
//! Commands that run as one group and take from an end of a row, or around a set, each look at a part or two, and
//! beginning a scan takes longer than passing a dozen parts. So the second such look reads more parts than it needs.
//! Once these are too long to be kept, no more are read than are needed. Nobody else writes to the rows meanwhile, so
//! stored parts stay as they were read. What the commands have changed themselves is looked up anew each time.

use weir_model::engine::Passed;

use crate::rows::{PartPage, PartRange};
use crate::stored_parts::StoredParts;

/// How many parts are read at once, where fewer are wanted.
const AHEAD_PARTS: usize = 16;

/// Pages with more bytes than this are not kept.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A page of parts that was read ahead, for the commands after the one that read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageAhead {
    /// A page that was read: a range, and all parts in it. Boxed, because every connection has room for a draft.
    page: Option<Box<(PartRange, StoredParts)>>,
    /// Some page was read.
    has_read: bool,
    /// A few parts have taken more bytes than are kept, so no further ones are read ahead.
    is_too_long: bool,
}

impl PageAhead {
    /// How many parts to read if `limit` are wanted.
    pub fn wanted(&self, limit: usize) -> usize {
        if self.has_read && !self.is_too_long { limit.max(AHEAD_PARTS) } else { limit }
    }

    /// Keeps a page of `range` that was read; gives the part of it that was asked for, up to `limit` parts.
    pub fn keep(&mut self, range: &PartRange, page: PartPage, limit: usize) -> PartPage {
        let is_kept = page.parts.is_shorter_than(KEPT_BYTES_MAX);
        self.has_read = true;
        self.is_too_long |= !is_kept && limit < AHEAD_PARTS;
        if page.parts.len() <= limit && limit >= AHEAD_PARTS || !is_kept {
            return cut(page, range, limit);
        }
        let covered = match &page.next {
            None => range.clone(),
            Some(rest) if range.reverse => PartRange { from: rest.to.clone(), ..range.clone() },
            Some(rest) => PartRange { to: rest.from.clone(), ..range.clone() },
        };
        self.page = Some(Box::new((covered, page.parts.clone())));
        cut(page, range, limit)
    }

    /// Up to `limit` parts of `range`, if the kept page has them.
    pub fn find(&self, range: &PartRange, limit: usize) -> Option<PartPage> {
        let (covered, parts) = &**self.page.as_ref().filter(|page| page.0.reverse == range.reverse)?;
        let (begins_here, ends_here) = (range.from >= covered.from, range.to <= covered.to);
        if !if range.reverse { ends_here } else { begins_here } {
            return None;
        }
        let is_in_front = |key: &[u8]| if range.reverse { *key >= range.to[..] } else { *key < range.from[..] };
        let is_in = |key: &[u8]| if range.reverse { *key >= range.from[..] } else { *key < range.to[..] };
        let first = parts.partition_point(is_in_front);
        let (mut found, mut bytes) = (StoredParts::default(), 0);
        for part in parts.iter().skip(first).take_while(|part| is_in(part.key)).take(limit) {
            bytes += (part.key.len() + part.value.len()) as u64;
            found.push_stored(part);
        }
        if found.len() < limit && !(begins_here && ends_here) {
            return None;
        }
        let next = (found.len() == limit).then(|| rest_of(range, &found)).flatten();
        let passed = Passed { entries: found.len() as u64, bytes };
        Some(PartPage { parts: found, next, passed })
    }
}

/// The first `limit` parts of `page`, which is of `range`.
fn cut(mut page: PartPage, range: &PartRange, limit: usize) -> PartPage {
    if page.parts.len() > limit {
        // The command that is given the other parts pays for having passed them.
        let others = page.parts.iter().skip(limit).map(|part| (part.key.len() + part.value.len()) as u64);
        page.passed.bytes = page.passed.bytes.saturating_sub(others.sum());
        page.passed.entries = page.passed.entries.saturating_sub((page.parts.len() - limit) as u64);
        page.parts.truncate(limit);
        page.next = rest_of(range, &page.parts);
    }
    page
}

/// What is left of `range` behind the last of `parts`.
fn rest_of(range: &PartRange, parts: &StoredParts) -> Option<PartRange> {
    let last = parts.last()?.key;
    Some(match range.reverse {
        true => PartRange { to: last.to_vec(), ..range.clone() },
        false => PartRange { from: [last, &[0]].concat(), ..range.clone() },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// What an engine does: keys are single bytes, and it gives a page of a range.
    fn read(stored: &BTreeSet<u8>, range: &PartRange, limit: usize) -> PartPage {
        let is_in = |key: &&u8| [**key][..] >= range.from[..] && [**key][..] < range.to[..];
        let found: Vec<u8> = stored.iter().filter(is_in).copied().collect();
        let wanted: Vec<u8> = if range.reverse { found.into_iter().rev().collect() } else { found };
        let parts: StoredParts = wanted.iter().take(limit).map(|key| (std::slice::from_ref(key), &b"v"[..])).collect();
        let next = (parts.len() == limit).then(|| rest_of(range, &parts)).flatten();
        PartPage { parts, next, passed: Passed::default() }
    }

    proptest! {
        #[test]
        fn what_is_in_hand_is_what_would_be_read(
            stored in proptest::collection::btree_set(0..60_u8, 0..60),
            asked in proptest::collection::vec((0..60_u8, 0..60_u8, any::<bool>(), 1..20_usize), 1..12),
        ) {
            let mut ahead = PageAhead::default();
            for (from, to, reverse, limit) in asked {
                let range = PartRange { from: vec![from], to: vec![to.max(from)], reverse };
                let page = ahead.find(&range, limit).unwrap_or_else(|| {
                    let page = read(&stored, &range, ahead.wanted(limit));
                    ahead.keep(&range, page, limit)
                });
                let wanted = read(&stored, &range, limit);
                prop_assert_eq!((&page.parts, page.parts.len() == limit), (&wanted.parts, wanted.next.is_some()));
                // All that is left can still be read.
                if let Some(next) = page.next {
                    let rest = read(&stored, &next, usize::MAX);
                    let all = read(&stored, &range, usize::MAX);
                    prop_assert_eq!(page.parts.len() + rest.parts.len(), all.parts.len());
                }
            }
        }
    }

    #[test]
    fn parts_that_are_too_long_to_be_kept_are_not_read_ahead_again() {
        let (value, mut ahead) = (vec![b'v'; KEPT_BYTES_MAX / 8], PageAhead::default());
        for (from, wanted) in (0_u8..).zip([1, AHEAD_PARTS, 1, 1]) {
            assert_eq!(ahead.wanted(1), wanted, "look {from}");
            let range = PartRange { from: vec![from], to: vec![60], reverse: false };
            let keys: Vec<u8> = (from..60).take(wanted).collect();
            let parts: StoredParts = keys.iter().map(|key| (std::slice::from_ref(key), &value[..])).collect();
            let page = PartPage { next: rest_of(&range, &parts), parts, passed: Passed::default() };
            assert_eq!(ahead.keep(&range, page, 1).parts.len(), 1);
        }
        // A page that many parts were asked for tells nothing of what a few of them take.
        let (range, mut ahead) = (PartRange { from: vec![0], to: vec![60], reverse: false }, PageAhead::default());
        let keys: Vec<u8> = (0..60).collect();
        let parts: StoredParts = keys.iter().map(|key| (std::slice::from_ref(key), &value[..])).collect();
        ahead.keep(&range, PartPage { parts, ..PartPage::default() }, 100);
        assert_eq!(ahead.wanted(1), AHEAD_PARTS);
    }

    #[test]
    fn the_second_look_serves_those_behind_it() {
        let (stored, mut ahead) = ((0..60).collect(), PageAhead::default());
        let mut read_pages = 0;
        for from in 0..16 {
            let range = PartRange { from: vec![from], to: vec![60], reverse: false };
            if ahead.find(&range, 2).is_none() {
                read_pages += 1;
                ahead.keep(&range, read(&stored, &range, ahead.wanted(2)), 2);
            }
        }
        assert_eq!(read_pages, 2);
    }
}
