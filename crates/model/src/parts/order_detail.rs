//! The description of a sorted set's order by score in the set's head: where it begins and ends, and how it is counted.
//!
//! An order whose front is removed again and again, as a queue's is, begins with parts that are dead until a merge
//! drops them. A search for the first member would step over all of them, each time. So the head says where the first
//! member stands.
//!
//! ```text
//! detail := nothing | large u8 | (levels varint | (second bound | (first bound | last bound)?)?)?
//! levels := of counts, and 16 more where some of them are tallies
//! bound  := length varint | so many bytes
//! ```

use super::TALLY_LEVELS_MAX;
use crate::varint;

/// Marks a row that Redis would not keep as a small one.
const LARGE: u8 = 1;

/// Added to the number of levels where some of the counts are tallies. Versions of Weir that do not know tallies do not
/// know that many levels either.
const TALLIED: u8 = 16;

/// The longest [bound](OrderDetail::cut) of an order, in bytes.
pub const ORDER_BOUND_BYTES_MAX: usize = 64;

/// The detail of the head of a sorted set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderDetail {
    /// Whether Redis would not keep the set as a small one.
    pub is_large: bool,
    /// How many levels of counts the order has.
    pub levels: u8,
    /// Whether some of the counts are [tallies](super::Tally). `false` where there is no level.
    pub is_tallied: bool,
    /// Of the buckets that are parts of their own, none begins between the first one and this place. Empty where this
    /// is not known, or too long to be kept.
    pub second: Vec<u8>,
    /// The bounds of the outermost places.
    pub ends: Option<OrderEnds>,
}

/// The [bounds](OrderDetail::cut) of the first place in the order and of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderEnds {
    /// The bound of the first place: no member stands in front of it.
    pub first: Vec<u8>,
    /// The bound of the last place: nothing behind it is a member, except for places that begin with it.
    pub last: Vec<u8>,
}

impl OrderDetail {
    /// The bound of `place`: its first bytes. Bounds are in the order of their places, or equal.
    pub fn cut(place: &[u8]) -> &[u8] {
        &place[..place.len().min(ORDER_BOUND_BYTES_MAX)]
    }

    /// Encodes the detail. Numbers at the end that are not known are left out.
    ///
    /// # Panics
    /// If a bound is longer than [`ORDER_BOUND_BYTES_MAX`], or that of an end is empty; or if there are tallies and no
    /// level.
    pub fn encode(&self) -> Vec<u8> {
        let Self { is_large, levels, is_tallied, second, ends } = self;
        let known = match (levels, second.is_empty(), ends) {
            (_, _, Some(_)) => 3,
            (_, false, None) => 2,
            (1.., true, None) => 1,
            (0, true, None) => 0,
        };
        if known == 0 {
            return if *is_large { vec![LARGE] } else { Vec::new() };
        }
        assert!(*levels > 0 || !is_tallied, "tallies are of a level");
        let mut out = vec![u8::from(*is_large)];
        varint::put(&mut out, u64::from(if *is_tallied { levels + TALLIED } else { *levels }));
        let mut put = |bound: &[u8]| {
            assert!(bound.len() <= ORDER_BOUND_BYTES_MAX, "a bound is cut");
            varint::put(&mut out, bound.len() as u64);
            out.extend_from_slice(bound);
        };
        if known >= 2 {
            put(second);
        }
        if let Some(OrderEnds { first, last }) = ends {
            assert!(!first.is_empty() && !last.is_empty(), "a place has a score");
            put(first);
            put(last);
        }
        out
    }

    /// Decodes `bytes`; `None` if [`OrderDetail::encode`] cannot have produced them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (is_large, mut rest) = match bytes {
            [] => return Some(Self::default()),
            // A set that has shrunk was written like this, with no level, before bounds were kept.
            [LARGE] | [LARGE, 0] => return Some(Self { is_large: true, ..Self::default() }),
            [large @ (0 | LARGE), rest @ ..] => (*large == LARGE, rest),
            _ => return None,
        };
        let levels = u8::try_from(varint::take_shortest(&mut rest)?).ok()?;
        let is_tallied = levels > TALLIED;
        let levels = if is_tallied { levels - TALLIED } else { levels };
        if levels > TALLY_LEVELS_MAX {
            return None;
        }
        let mut detail = Self { is_large, levels, is_tallied, ..Self::default() };
        if rest.is_empty() {
            return Some(detail).filter(|_| levels > 0);
        }
        detail.second = take_bound(&mut rest)?;
        if rest.is_empty() {
            return Some(detail).filter(|detail| !detail.second.is_empty());
        }
        let (first, last) = (take_bound(&mut rest)?, take_bound(&mut rest)?);
        let is_whole = rest.is_empty() && !first.is_empty() && !last.is_empty();
        detail.ends = Some(OrderEnds { first, last });
        is_whole.then_some(detail)
    }
}

fn take_bound(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(varint::take_shortest(rest)?).ok().filter(|&len| len <= ORDER_BOUND_BYTES_MAX)?;
    let (bound, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(bound.into())
}

impl OrderEnds {
    /// The ends of an order with these outermost places.
    pub fn of(first: &[u8], last: &[u8]) -> Self {
        Self { first: OrderDetail::cut(first).into(), last: OrderDetail::cut(last).into() }
    }

    /// Extends the bounds for a member that stands at `place` now.
    pub fn include(&mut self, place: &[u8]) {
        let bound = OrderDetail::cut(place);
        if *bound < self.first[..] {
            self.first = bound.into();
        }
        if *bound > self.last[..] {
            self.last = bound.into();
        }
    }

    /// The first place at or behind which no member stands, whatever its score; `None` if there is no such place.
    pub fn behind(&self) -> Option<Vec<u8>> {
        let kept = self.last.iter().rposition(|&byte| byte != u8::MAX)?;
        let mut behind = self.last[..=kept].to_vec();
        behind[kept] += 1;
        Some(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::DETAIL_BYTES_MAX;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bound(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(u8::MAX), any::<u8>()], len)
    }

    #[test]
    fn details_of_earlier_versions_are_read() {
        let large = OrderDetail { is_large: true, ..OrderDetail::default() };
        assert_eq!(OrderDetail::decode(&[]), Some(OrderDetail::default()));
        assert_eq!(OrderDetail::decode(&[1]), Some(large.clone()));
        assert_eq!(OrderDetail::decode(&[1, 0]), Some(large.clone()));
        assert_eq!(OrderDetail::decode(&[1, 2]), Some(OrderDetail { levels: 2, ..large }));
    }

    proptest! {
        #[test]
        fn a_detail_comes_back(
            is_large: bool, levels in 0..=TALLY_LEVELS_MAX, tallied: bool, second in bound(0..65),
            ends in proptest::option::of((bound(1..65), bound(1..65)))
        ) {
            let ends = ends.map(|(first, last)| OrderEnds { first, last });
            let detail = OrderDetail { is_large, levels, is_tallied: tallied && levels > 0, second, ends };
            let bytes = detail.encode();
            prop_assert!(bytes.len() <= DETAIL_BYTES_MAX);
            // A small row of which nothing else is known has no detail.
            prop_assert_eq!(OrderDetail::decode(&bytes), Some(detail));
        }

        #[test]
        fn any_bytes_are_a_detail_or_refused(bytes in vec(prop_oneof![0..4_u8, 15..26_u8], 0..12)) {
            if let Some(detail) = OrderDetail::decode(&bytes) {
                let bytes = if bytes == [LARGE, 0] { vec![LARGE] } else { bytes };
                prop_assert_eq!(detail.encode(), bytes);
            }
        }

        #[test]
        fn whoever_is_included_is_between_the_ends(places in vec(bound(8..80), 1..9)) {
            let mut ends = OrderEnds::of(&places[0], &places[0]);
            places.iter().for_each(|place| ends.include(place));
            let (first, last) = (places.iter().min().expect("some"), places.iter().max().expect("some"));
            prop_assert_eq!(&ends, &OrderEnds::of(first, last));
            for place in &places {
                prop_assert!(*place >= ends.first && ends.behind().is_none_or(|behind| *place < behind));
            }
        }
    }
}
