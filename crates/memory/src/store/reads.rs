//! Reading. The only lock taken is that of the list of snapshots, where several rows are read as of one moment.

use std::sync::atomic::Ordering;

use crossbeam_epoch as epoch;
use weir_model::engine::{Entry, Found, Kind, Lookup, Range, Reads, Records, Scan, Seq, Snapshot};

use super::Store;
use crate::index::PREFETCHED_MAX;
use crate::scan::StoreWalk;

impl Reads for Store {
    fn get(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Lookup {
        living(match snapshot {
            Some(snapshot) => self.get_at(key, snapshot.seq()),
            None => self.newest(key, || self.published()),
        })
    }

    fn get_latest(&self, key: &[u8]) -> Lookup {
        ready(self.newest(key, || self.applied_seq()))
    }

    fn see_latest(&self, key: &[u8], see: &mut dyn FnMut(Option<Entry<'_>>)) {
        self.index.see_newest(key, |newest| {
            // A change of a batch that is being applied is not to be seen, but perhaps an older version is.
            if newest.is_none_or(|newest| newest.seq <= self.applied_seq()) {
                see(newest.map(|newest| newest.entry(key)));
            }
        });
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Lookup> {
        let at = self.published();
        let mut found: Vec<Option<Found>> = keys.iter().map(|key| self.get_at(key, at)).collect();
        // Nothing was left out that a reader at `at` needs, unless something newer was published meanwhile.
        if self.published() != at {
            self.retries.fetch_add(1, Ordering::Relaxed);
            let snapshot = self.snapshot();
            found = keys.iter().map(|key| self.get_at(key, snapshot.seq())).collect();
        }
        found.into_iter().map(living).collect()
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        let guard = epoch::pin();
        for keys in keys.chunks(PREFETCHED_MAX) {
            self.index.prefetch(keys.iter().copied(), &guard);
        }
    }

    fn scan(&self, range: Range, snapshot: Option<&Snapshot>) -> Scan {
        let seq = || snapshot.map_or_else(|| self.published(), Snapshot::seq);
        let hold = self.snapshots.take(seq);
        Scan::new(StoreWalk::new(&self.index, range, hold, self.env.clock.unix_ms()))
    }

    fn scan_latest(&self, range: Range) -> Scan {
        let hold = self.snapshots.take(|| self.applied_seq());
        Scan::new(StoreWalk::new(&self.index, range, hold, self.env.clock.unix_ms()))
    }

    fn holds_heads(&self) -> bool {
        self.booked.has_heads()
    }

    fn may_hold_head(&self, key: &[u8]) -> bool {
        self.index.see_newest(key, |newest| newest.is_some_and(|newest| newest.kind == Kind::Head))
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshots.take(|| self.published())
    }
}

impl Store {
    /// The version of `key` as of `at`, which must be held, or must still be the published number when the look-up
    /// ends.
    fn get_at(&self, key: &[u8], at: Seq) -> Option<Found> {
        self.index.newest(key)?.visible(at).map(|version| version.found())
    }

    /// The version of `key` as of the number that `at` returns at some moment while this runs.
    fn newest(&self, key: &[u8], at: impl Fn() -> Seq) -> Option<Found> {
        loop {
            // A row is removed when no reader sees anything in it any more.
            let newest = self.index.newest(key)?;
            let now = at();
            if newest.seq <= now {
                return Some(newest.found());
            }
            let older = newest.visible(now);
            // If nothing more was published, nothing was left out that a reader at `now` needs.
            if at() == now {
                return older.map(|version| version.found());
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn living(found: Option<Found>) -> Lookup {
    ready(found.filter(|found| found.kind.is_value()))
}

fn ready(found: Option<Found>) -> Lookup {
    Lookup::Ready(Some(Ok(found)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
    use weir_io::{Fs, Owner};
    use weir_model::Batch;

    use super::*;
    use crate::{Budget, Env, StoreOptions};

    fn open(sim: &Sim) -> Arc<Store> {
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
        let (owner, budget) = (Owner { tenant: 1, partition: 1 }, Arc::new(Budget::new(u64::MAX)));
        let env = Env { fs, dir: "/store".into(), owner, clock: sim.clock(), budget, salt: 7 };
        sim.block_on(Store::open(env, StoreOptions::default())).expect("opens")
    }

    #[test]
    fn a_read_begins_again_where_what_it_needed_was_left_out_meanwhile() {
        let sim = Sim::new(1);
        let store = open(&sim);
        let write = |index, key: &[u8], value: &[u8]| {
            let mut batch = Batch::new();
            batch.put(key, value);
            store.apply(index, batch.as_ref()).last_seq
        };
        let first = write(1, b"a", b"1");
        store.publish(first);
        let second = write(2, b"a", b"2");
        let asked = std::cell::Cell::new(0);
        let found = store.newest(b"a", || {
            let published = store.published();
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                // The older version, which the reader is about to look for, goes.
                store.publish(second);
                write(3, b"b", b"1");
                assert_eq!(store.memory_bytes()[1], 0);
            }
            published
        });
        assert_eq!(found.map(|found| found.value.to_vec()).as_deref(), Some(&b"2"[..]));
        assert_eq!(store.read_retries(), 1);
    }

    #[test]
    fn reads_go_on_while_a_writer_holds_its_lock() {
        let sim = Sim::new(1);
        let store = open(&sim);
        let mut batch = Batch::new();
        [b"a", b"b"].into_iter().for_each(|key| batch.put(key, b"1"));
        store.publish(store.apply(1, batch.as_ref()).last_seq);
        store.apply(2, batch.as_ref());

        // The lock is not re-entrant: a read that took it here would wait for ever.
        let _writer = store.writer.lock();
        let is_there = |lookup: Lookup| matches!(lookup, Lookup::Ready(Some(Ok(Some(_)))));
        assert!(is_there(store.get(b"a", None)) && is_there(store.get_latest(b"a")));
        assert!(store.multi_get(&[b"a", b"b"]).into_iter().all(is_there));
        let snapshot = store.snapshot();
        assert!(is_there(store.get(b"b", Some(&snapshot))));
        let mut scan = store.scan(Range::all(), None);
        let first = sim.block_on(scan.next()).expect("scan").map(|entry| entry.key.to_vec());
        assert_eq!(first.as_deref(), Some(&b"a"[..]));
        assert_eq!((store.published(), store.applied_seq(), store.read_retries()), (2, 4, 0));
    }
}
