//! Versions of a row: the newest, and behind it those that some reader may still need.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_epoch::Guard;
use weir_io::plant::{Plant, is_planted};
use weir_model::Value;
use weir_model::engine::{Entry, Found, Kind, Seq, is_expired};
use weir_model::prefetch::{LINE_BYTES, prefetch};

use crate::atomic_arc::AtomicArc;
use crate::short::Bytes;

/// What a change made of a key.
pub(crate) struct Version {
    pub seq: Seq,
    pub kind: Kind,
    /// How many bytes of versions may still gather behind it before the writer looks through them. Only the writer uses
    /// it.
    patience: AtomicU32,
    /// First millisecond since 1970 at which the value no longer exists; 0 = lives for ever.
    pub expire_at_ms: u64,
    /// Empty for a tombstone.
    pub value: Bytes,
    /// The next older one. Only the writer changes it, and only to leave out what no reader needs.
    pub older: AtomicArc<Version>,
}

/// The most lines of a value that are fetched ahead: the processor foresees the lines behind them by itself.
const PREFETCHED_LINES_MAX: usize = 4;

/// The versions that a look through older ones has kept may grow by one part in this many until the next look. So an
/// overwrite looks at a few versions, however many wait for one commit.
const KEPT_FOR_ONE_MORE: u64 = 4;

/// They may also grow by no more than this many bytes for each version that was kept. Otherwise thousands of small ones
/// could gather in front of a large one, and a reader would have to go through them.
const MORE_BYTES_MAX: u64 = 256;

/// Bytes of a version beside those of its value: itself, and the two counters of its `Arc`.
const VERSION_BYTES: usize = size_of::<Version>() + 2 * size_of::<usize>();

impl Version {
    /// A version in front of `older`.
    pub fn new(seq: Seq, kind: Kind, expire_at_ms: u64, value: &[u8], older: Option<Arc<Version>>) -> Arc<Self> {
        let patience = AtomicU32::new(0);
        Arc::new(Self { seq, kind, patience, expire_at_ms, value: Bytes::new(value), older: AtomicArc::new(older) })
    }

    /// Bytes of memory that a version with a value of `value_bytes` bytes takes.
    pub const fn bytes_of(value_bytes: usize) -> u64 {
        (VERSION_BYTES + Bytes::heap_bytes(value_bytes)) as u64
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        Self::bytes_of(self.value.len())
    }

    /// Whether it is the only one of its row.
    pub fn is_alone(&self) -> bool {
        self.older.is_none()
    }

    /// The newest version at or before `at`, from `self` on. `None` also if the writer has meanwhile taken out a
    /// version that a reader at `at` would have needed, because `at` is in the past and nobody holds it.
    pub fn visible(self: Arc<Self>, at: Seq) -> Option<Arc<Self>> {
        let mut version = self;
        while version.seq > at {
            version = version.older.load()?;
        }
        Some(version)
    }

    /// Like [`Version::visible`], for as long as this thread is in the epoch of `guard`, and without counting
    /// references.
    pub fn visible_in<'g>(&'g self, at: Seq, guard: &'g Guard) -> Option<&'g Self> {
        let mut version = self;
        while version.seq > at {
            version = version.older.get(guard)?;
        }
        Some(version)
    }

    /// Has the processor fetch its value.
    #[inline]
    pub fn prefetch_value(&self) {
        let is_elsewhere = Bytes::heap_bytes(self.value.len()) > 0;
        let lines = if is_elsewhere { self.value.len().div_ceil(LINE_BYTES).min(PREFETCHED_LINES_MAX) } else { 0 };
        (0..lines).for_each(|line| prefetch(self.value.as_ptr().wrapping_add(line * LINE_BYTES)));
    }

    /// Whether a scan that sees it answers with it.
    pub fn is_answer(&self, now_ms: u64) -> bool {
        self.kind.is_value() && !is_expired(self.expire_at_ms, now_ms)
    }

    /// What a scan shows of this version, which belongs to the row of `key`.
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> Entry<'a> {
        Entry { key, seq: self.seq, kind: self.kind, expire_at_ms: self.expire_at_ms, value: &self.value }
    }

    /// What a read finds in it.
    pub fn found(self: Arc<Self>) -> Found {
        let (seq, kind, expire_at_ms, value) = (self.seq, self.kind, self.expire_at_ms, &raw const self.value[..]);
        // SAFETY: nobody changes the value of a version, and it lives as long as the version.
        let value = unsafe { Value::held(self, value) };
        Found { seq, kind, expire_at_ms, value }
    }

    /// Like [`Version::trim`], for a version that has just come in front of `before`, but without a look that would be
    /// in vain: versions newer than the published one all stay, and few have come since the last look.
    pub fn trim_behind(&self, before: &Version, horizons: &Horizons, guard: &Guard) -> u64 {
        let left = u64::from(before.patience.load(Ordering::Relaxed)).checked_sub(before.bytes());
        match left {
            Some(left) if before.seq > horizons.published => {
                self.set_patience(left);
                0
            }
            _ => self.trim(horizons, guard),
        }
    }

    fn set_patience(&self, bytes: u64) {
        self.patience.store(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Leaves out every older version that no reader needs, and returns their bytes. Only the writer may call it. No
    /// reference is counted on the way: `guard` keeps the versions in memory.
    pub fn trim(&self, horizons: &Horizons, guard: &Guard) -> u64 {
        let (mut freed, mut more, mut kept) = (0, 0_u64, self);
        loop {
            let (mut next, mut last_gone) = (kept.older.get(guard), None);
            while let Some(version) = next.filter(|version| !horizons.need(version.seq, kept.seq)) {
                freed += version.bytes();
                last_gone = Some(version);
                next = version.older.get(guard);
            }
            if let Some(gone) = last_gone {
                kept.older.replace(gone.older.load());
            }
            let Some(version) = next else {
                self.set_patience(more);
                return freed;
            };
            more += (version.bytes() / KEPT_FOR_ONE_MORE).min(MORE_BYTES_MAX);
            kept = version;
        }
    }
}

impl Drop for Version {
    /// One after the other: where thousands of versions wait for one commit, each dropping the next would use up the
    /// stack.
    fn drop(&mut self) {
        if self.is_alone() {
            return;
        }
        let mut next = self.older.take();
        while let Some(mut version) = next.and_then(Arc::into_inner) {
            next = version.older.take();
        }
    }
}

/// The sequence numbers at which reads may be made: those that are held, and every one from the published one on.
#[derive(Clone, Debug)]
pub(crate) struct Horizons {
    pub published: Seq,
    /// Ascending.
    pub held: Vec<Seq>,
}

impl Horizons {
    /// Whether some reader needs the version `seq` of a key whose next newer version is `newer`.
    pub fn need(&self, seq: Seq, newer: Seq) -> bool {
        // Beyond what is published everything stays: a snapshot may yet be taken between any two versions.
        let is_held = || self.held.iter().any(|&held| (seq..newer).contains(&held));
        newer > self.published || (is_held() && !is_planted(Plant::HeldVersionLost))
    }

    /// The oldest of them: every reader sees what was written up to here, or something newer.
    pub fn oldest(&self) -> Seq {
        self.held.first().map_or(self.published, |&held| held.min(self.published))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_epoch::pin;
    use proptest::prelude::*;

    fn chain(seqs: &[Seq]) -> Option<Arc<Version>> {
        seqs.iter().fold(None, |older, &seq| Some(Version::new(seq, Kind::Put, 0, &seq.to_le_bytes(), older)))
    }

    #[test]
    fn one_version_for_each_reader_stays() {
        let trimmed = |published, held: &[Seq]| {
            let newest = chain(&[3, 5, 7, 9]).expect("four versions");
            newest.trim(&Horizons { published, held: held.into() }, &pin());
            let mut left: Vec<Seq> =
                (0..10).filter_map(|at| Arc::clone(&newest).visible(at)).map(|version| version.seq).collect();
            left.dedup();
            left
        };
        assert_eq!(trimmed(100, &[]), [9]);
        assert_eq!(trimmed(9, &[]), [9]);
        assert_eq!(trimmed(8, &[]), [7, 9], "9 is not published yet");
        assert_eq!(trimmed(4, &[]), [3, 5, 7, 9]);
        assert_eq!(trimmed(100, &[5]), [5, 9]);
        assert_eq!(trimmed(100, &[4, 8]), [3, 7, 9]);
    }

    /// Overwrites `newest` with `bytes` bytes. Returns how many versions that looked at, and how many bytes it freed.
    fn overwrite(newest: &mut Arc<Version>, bytes: usize, horizons: &Horizons) -> (usize, u64) {
        let version = Version::new(newest.seq + 1, Kind::Put, 0, &vec![0; bytes], Some(Arc::clone(newest)));
        let older = older(&version).count();
        let freed = version.trim_behind(newest, horizons, &pin());
        let is_put_off = version.patience.load(Ordering::Relaxed) < newest.patience.load(Ordering::Relaxed);
        *newest = version;
        (if is_put_off { 0 } else { older }, freed)
    }

    fn older(newest: &Arc<Version>) -> impl Iterator<Item = Arc<Version>> {
        std::iter::successors(newest.older.load(), |version| version.older.load())
    }

    #[test]
    fn overwrites_between_two_commits_look_at_few_of_those_before() {
        let mut newest = chain(&[1]).expect("one version");
        let waits = Horizons { published: 1, held: Vec::new() };
        let looked: usize = (0..1000).map(|_| overwrite(&mut newest, 8, &waits).0).sum();
        assert_eq!(older(&newest).count(), 1000, "all of them may be needed");
        assert!(looked < 8 * 1000, "{looked} looked at: a half of a thousand times a thousand without patience");
        let bytes = older_bytes(&newest);
        let committed = Horizons { published: newest.seq, held: Vec::new() };
        assert_eq!(overwrite(&mut newest, 8, &committed).1, bytes, "the first overwrite after the commit frees all");
        assert_eq!(older(&newest).count(), 1);
    }

    #[test]
    fn a_row_that_always_waits_for_some_commit_keeps_a_quarter_more_than_is_needed() {
        for (waiting, size) in [(1, 8), (3, 1 << 20), (800, 8), (800, 300), (40, 5000)] {
            let mut newest = chain(&[1]).expect("one version");
            let needed = (waiting + 2) * Version::bytes_of(size);
            for _ in 0..5 * waiting + 100 {
                let published = newest.seq.saturating_sub(waiting).max(1);
                overwrite(&mut newest, size, &Horizons { published, held: vec![1] });
                let kept = older_bytes(&newest);
                assert!(kept <= needed + needed / KEPT_FOR_ONE_MORE, "{kept} for {needed}");
            }
            assert_eq!(Arc::clone(&newest).visible(1).map(|version| version.seq), Some(1));
        }
    }

    #[test]
    fn patience_that_small_versions_have_left_is_not_for_large_ones() {
        let mut newest = chain(&[1]).expect("one version");
        for _ in 0..800 {
            overwrite(&mut newest, 8, &Horizons { published: 1, held: vec![1] });
        }
        let small = older_bytes(&newest);
        for _ in 0..200 {
            let published = newest.seq - 1;
            overwrite(&mut newest, 1 << 20, &Horizons { published, held: vec![1] });
            assert!(older_bytes(&newest) <= small + 2 * Version::bytes_of(1 << 20));
        }
    }

    #[test]
    fn patience_that_a_large_version_has_left_is_not_for_thousands_of_small_ones() {
        let horizons = |published| Horizons { published, held: vec![2] };
        let mut newest = chain(&[1]).expect("one version");
        overwrite(&mut newest, 1 << 24, &horizons(1));
        for _ in 0..10_000 {
            let published = newest.seq - 1;
            overwrite(&mut newest, 8, &horizons(published));
            assert!(older(&newest).count() < 16);
        }
        assert_eq!(newest.visible(2).map(|version| version.value.len()), Some(1 << 24));
    }

    #[test]
    fn patience_takes_no_room() {
        assert_eq!(size_of::<Version>(), 6 * size_of::<u64>());
    }

    #[test]
    fn a_long_chain_is_dropped_without_using_up_the_stack() {
        let newest = chain(&(1..200_000).collect::<Vec<_>>());
        drop(newest);
    }

    fn older_bytes(newest: &Arc<Version>) -> u64 {
        older(newest).map(|version| version.bytes()).sum()
    }

    proptest! {
        #[test]
        fn no_reader_sees_a_difference_and_what_was_freed_is_counted(
            versions in proptest::collection::btree_set(1_u64..60, 1..30),
            held in proptest::collection::btree_set(1_u64..50, 0..5),
            published in 0_u64..60,
        ) {
            let versions: Vec<Seq> = versions.into_iter().collect();
            let held: Vec<Seq> = held.into_iter().collect();
            let newest = chain(&versions).expect("at least one");
            let before = older_bytes(&newest);
            let freed = newest.trim(&Horizons { published, held: held.clone() }, &pin());
            prop_assert_eq!(before - freed, older_bytes(&newest));
            for at in held.into_iter().chain(published..61) {
                let wanted = versions.iter().rev().copied().find(|&seq| seq <= at);
                prop_assert_eq!(Arc::clone(&newest).visible(at).map(|version| version.seq), wanted);
            }
        }
    }
}
