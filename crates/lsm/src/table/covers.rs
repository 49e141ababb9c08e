//! What a table says of the covers in it, so that the tree knows of them without reading data.
//!
//! A point stands for one cover, or for several that follow one another. A table has at most [`POINTS_MAX`], 20 KiB in
//! memory: where it has more covers, neighbours that cover least share a point. So the cover of a large row, whose
//! tables can be dropped for it, keeps a point of its own. The covers of small rows are known by their sum, which is
//! enough to say where a rewrite is worth it.

use weir_model::engine::{Entry, Kind, Seq};
use weir_model::{parts, varint};

/// Most points of a table.
pub const POINTS_MAX: usize = 512;

/// One cover, or several neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverPoint {
    /// The smallest version that is covered.
    pub first: u64,
    /// The largest version that is covered. If it is not the smallest, nothing is said of the versions in between.
    pub last: u64,
    /// A read at this sequence number sees all of these covers.
    pub seq: Seq,
    /// How many entries these covers are.
    pub count: u64,
    /// About how many bytes of keys and values they cover.
    pub bytes: u64,
}

impl CoverPoint {
    /// Whether it says that all parts of the life `version` are dead.
    pub fn is_of(&self, version: u64) -> bool {
        self.first == version && self.last == version
    }

    fn join(self, next: Self) -> Self {
        Self {
            first: self.first,
            last: next.last,
            seq: self.seq.max(next.seq),
            count: self.count.saturating_add(next.count),
            bytes: self.bytes.saturating_add(next.bytes),
        }
    }
}

/// Takes the covers of a table in order.
#[derive(Debug, Default)]
pub(super) struct CoverCounter {
    points: Vec<CoverPoint>,
}

impl CoverCounter {
    /// Takes the next `entry` of the table, of whatever kind.
    #[inline]
    pub(super) fn note(&mut self, entry: &Entry<'_>) {
        if entry.kind == Kind::Cover
            && let Some(version) = parts::version_of(entry.key)
        {
            self.add(version, entry.seq, parts::covered_bytes(entry.value).unwrap_or(0));
        }
    }

    fn add(&mut self, version: u64, seq: Seq, bytes: u64) {
        match self.points.last_mut() {
            // An older entry of the same cover: its life was over by then.
            Some(last) if last.last == version => {
                last.count += 1;
                if last.first == version {
                    (last.seq, last.bytes) = (last.seq.min(seq), last.bytes.min(bytes));
                }
            }
            _ => {
                if self.points.len() >= 2 * POINTS_MAX {
                    self.shrink();
                }
                self.points.push(CoverPoint { first: version, last: version, seq, count: 1, bytes });
            }
        }
    }

    /// The points of all covers that were noted. The counter is empty afterwards.
    pub(super) fn finish(&mut self) -> Vec<CoverPoint> {
        while self.points.len() > POINTS_MAX {
            self.shrink();
        }
        std::mem::take(&mut self.points)
    }

    /// Joins every other point with its neighbour, except for the half of these pairs that cover most.
    fn shrink(&mut self) {
        let covered = |pair: &[CoverPoint]| pair.iter().fold(0_u64, |sum, point| sum.saturating_add(point.bytes));
        let mut sums: Vec<u64> = self.points.chunks_exact(2).map(covered).collect();
        let middle = sums.len() / 2;
        let (_, &mut most, _) = sums.select_nth_unstable(middle);
        let mut joined = Vec::with_capacity(self.points.len());
        for pair in self.points.chunks(2) {
            match *pair {
                [a, b] if covered(pair) <= most => joined.push(a.join(b)),
                _ => joined.extend_from_slice(pair),
            }
        }
        self.points = joined;
    }
}

pub(super) fn encode(points: &[CoverPoint], out: &mut Vec<u8>) {
    varint::put(out, points.len() as u64);
    let mut before = 0;
    for point in points {
        for number in [point.first - before, point.last - point.first, point.seq, point.count, point.bytes] {
            varint::put(out, number);
        }
        before = point.last;
    }
}

/// The reverse of [`encode`]; takes what it reads off `bytes`.
pub(super) fn decode(bytes: &mut &[u8]) -> Option<Vec<CoverPoint>> {
    let len = varint::take(bytes).filter(|&len| len <= POINTS_MAX as u64)?;
    let mut points: Vec<CoverPoint> = Vec::with_capacity(len as usize);
    for _ in 0..len {
        let mut number = || varint::take(bytes);
        let [step, span, seq, count, bytes] = [number()?, number()?, number()?, number()?, number()?];
        let before = points.last().map(|point| point.last);
        if count == 0 || (before.is_some() && step == 0) {
            return None;
        }
        let first = before.unwrap_or(0).checked_add(step)?;
        points.push(CoverPoint { first, last: first.checked_add(span)?, seq, count, bytes });
    }
    Some(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(covers: &[(u64, Seq, u64)]) -> Vec<CoverPoint> {
        let mut counter = CoverCounter::default();
        covers.iter().for_each(|&(version, seq, bytes)| counter.add(version, seq, bytes));
        counter.finish()
    }

    #[test]
    fn few_covers_have_a_point_each() {
        let point = |version, seq, count, bytes| CoverPoint { first: version, last: version, seq, count, bytes };
        assert_eq!(count(&[(3, 9, 100), (5, 8, 7), (5, 6, 9)]), [point(3, 9, 1, 100), point(5, 6, 2, 7)]);
    }

    #[test]
    fn of_many_the_large_ones_keep_their_points() {
        let is_large = |version: u64| version.is_multiple_of(1000);
        let covers: Vec<_> =
            (1..=100_000).map(|version| (version, version + 7, if is_large(version) { 1 << 30 } else { 10 })).collect();
        let points = count(&covers);
        assert!(points.len() <= POINTS_MAX && points.len() > POINTS_MAX / 4, "{}", points.len());
        let large = points.iter().filter(|point| point.first == point.last && is_large(point.first)).count();
        assert_eq!(large, 100);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(versions in proptest::collection::btree_set(1_u64..1 << 56, 0..5_000), bytes: u32) {
            let covers: Vec<_> =
                versions.iter().map(|&version| (version, version ^ 5, version % (u64::from(bytes) + 1))).collect();
            let points = count(&covers);
            prop_assert!(points.len() <= POINTS_MAX);
            let mut rest = &covers[..];
            for point in &points {
                let (these, later) = rest.split_at(point.count as usize);
                prop_assert_eq!((point.first, point.last), (these[0].0, these[these.len() - 1].0));
                prop_assert_eq!(Some(point.seq), these.iter().map(|cover| cover.1).max());
                prop_assert_eq!(point.bytes, these.iter().map(|cover| cover.2).sum::<u64>());
                rest = later;
            }
            prop_assert!(rest.is_empty());
            let mut encoded = Vec::new();
            encode(&points, &mut encoded);
            let mut left = &encoded[..];
            prop_assert_eq!(decode(&mut left), Some(points));
            prop_assert!(left.is_empty());
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            if let Some(points) = decode(&mut &bytes[..]) {
                let mut encoded = Vec::new();
                encode(&points, &mut encoded);
                prop_assert_eq!(decode(&mut &encoded[..]), Some(points));
            }
        }
    }
}
