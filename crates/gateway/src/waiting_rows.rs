//! Connections that wait for rows: their commands block until somebody fills a row (`BLPOP` and its kin).
//!
//! Each row that somebody waits for has a queue of waiting connections, in the order in which their waits began. A
//! write to the row wakes the first one, which tries its command again. When it has tried, the next one is woken, and
//! so on, until a connection that would take something has found nothing: then there is nothing for those behind it
//! either. So a push into a list for which a thousand connections wait costs two tries.
//!
//! Connections that only read (`XREAD`) are woken as well, but nobody waits until they have tried: in the middle of a
//! long reply they wait for their clients.
//!
//! If a write to the row comes while connections are trying, the tries begin again from the front when they have ended.
//! A connection that goes away in the middle of its try hands the turn to the next one.
//!
//! Nothing polls. If nobody waits for the rows of a tenant, a write of that tenant costs one look at a counter.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use weir_model::{Databases, StoredKey};

/// The rows of one tenant for which connections wait.
#[derive(Default)]
pub(crate) struct WaitingRows {
    /// Waits under way.
    count: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    rows: HashMap<Box<[u8]>, Queue>,
    last_number: u64,
}

/// The connections that wait for one row, in the order in which the waits began.
#[derive(Default)]
struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    /// The number of the waiter whose turn it is to try.
    trying: Option<u64>,
    /// Whether the row was written to during the tries.
    again: bool,
}

/// A connection in the queue of a row.
struct Waiter {
    wake: Arc<Wake>,
    /// Those behind it wait until it has tried.
    takes_turn: bool,
}

/// How a connection is woken.
#[derive(Default)]
struct Wake {
    is_woken: AtomicBool,
    waker: AtomicWaker,
}

impl Wake {
    fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The connection has found nothing, and nobody behind it would.
    Nothing,
    /// Connections behind it may find something.
    Other,
}

/// A place in the queues of some rows. Dropping it gives the place up.
pub(crate) struct RowWait {
    rows: Vec<Box<[u8]>>,
    number: u64,
    wake: Arc<Wake>,
    of: Arc<WaitingRows>,
}

impl WaitingRows {
    /// Waits for `rows` from now on, behind all who wait already. No write that comes after this call is missed, but
    /// one may have come before it: so try the command once more. If `takes_turn` is set, those behind wait for the
    /// outcome of each try.
    pub(crate) fn wait_for(self: &Arc<Self>, rows: &[StoredKey], databases: Databases, takes_turn: bool) -> RowWait {
        let wake = Arc::new(Wake::default());
        let mut queues = self.queues.lock();
        queues.last_number += 1;
        let number = queues.last_number;
        let mut rows: Vec<Box<[u8]>> = rows.iter().map(|row| named(row, databases)).collect();
        rows.sort_unstable();
        rows.dedup();
        for row in &rows {
            let waiter = Waiter { wake: Arc::clone(&wake), takes_turn };
            queues.rows.entry(row.clone()).or_default().waiters.insert(number, waiter);
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        drop(queues);
        RowWait { rows, number, wake, of: Arc::clone(self) }
    }

    /// Tells that `rows`, whose databases are stored as `databases` says, were written to.
    #[inline]
    pub(crate) fn written(&self, databases: Databases, rows: impl FnOnce() -> Vec<StoredKey>) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.wake_for(&rows(), databases);
        }
    }

    /// A write to `rows` begins. If it is dropped before it has [ended](Writing::end), the rows count as written to,
    /// because its change may have been applied: it may wait once more after that, and its connection may be cut then.
    #[inline]
    pub(crate) fn writing<F: Fn() -> Vec<StoredKey>>(&self, databases: Databases, rows: F) -> Writing<'_, F> {
        Writing { of: self, databases, rows, may_have_written: true }
    }

    /// Tells that all rows may have been written to, or deleted.
    pub(crate) fn all_written(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.queues.lock().rows.values_mut().for_each(Queue::written);
        }
    }

    #[cold]
    fn wake_for(&self, rows: &[StoredKey], databases: Databases) {
        let mut queues = self.queues.lock();
        for row in rows {
            if let Some(queue) = queues.rows.get_mut(&named(row, databases)[..]) {
                queue.written();
            }
        }
    }
}

/// A write to rows that is under way.
pub(crate) struct Writing<'a, F: Fn() -> Vec<StoredKey>> {
    of: &'a WaitingRows,
    databases: Databases,
    rows: F,
    /// Whether the rows may have been written to.
    may_have_written: bool,
}

impl<F: Fn() -> Vec<StoredKey>> Writing<'_, F> {
    /// The write has ended. `wrote` says whether it has changed anything.
    #[inline]
    pub(crate) fn end(mut self, wrote: bool) {
        self.may_have_written = wrote;
    }
}

impl<F: Fn() -> Vec<StoredKey>> Drop for Writing<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if self.may_have_written {
            self.of.written(self.databases, &self.rows);
        }
    }
}

/// A row under the name of its database. A waiting connection means the database of that name, even when databases are
/// exchanged.
fn named(row: &StoredKey, databases: Databases) -> Box<[u8]> {
    let mut named: Box<[u8]> = Box::from(&row[..]);
    if let Some(first) = named.first_mut() {
        *first = databases.name(*first);
    }
    named
}

impl Queue {
    /// The row of this queue was written to.
    fn written(&mut self) {
        match self.trying {
            Some(_) => self.again = true,
            None => self.let_try(0),
        }
    }

    /// Lets the first waiter whose number is `from` or larger and who takes a turn try, and all in front of it.
    fn let_try(&mut self, from: u64) {
        self.trying = self.waiters.range(from..).find_map(|(&number, waiter)| {
            waiter.wake.wake();
            waiter.takes_turn.then_some(number)
        });
    }

    /// The waiter with the number `number` has tried, or has gone.
    fn tried(&mut self, number: u64, tried: Tried) {
        if self.trying != Some(number) {
            return;
        }
        self.trying = None;
        if tried == Tried::Other {
            self.let_try(number + 1);
        }
        if self.trying.is_none() && std::mem::take(&mut self.again) {
            self.let_try(0);
        }
    }
}

impl RowWait {
    /// Resolves when it is time to try.
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.wake.waker.register(cx.waker());
        if self.wake.is_woken.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Tells that the connection has tried, and waits on. If it was woken again meanwhile, it keeps its turns until it
    /// has tried once more, because one of its rows may have been filled after the try looked at it.
    pub(crate) fn tried(&self, tried: Tried) {
        let mut queues = self.of.queues.lock();
        // Nobody is woken without this lock.
        if self.wake.is_woken.load(Ordering::Acquire) {
            return;
        }
        for row in &self.rows {
            if let Some(queue) = queues.rows.get_mut(row) {
                queue.tried(self.number, tried);
            }
        }
    }
}

impl Drop for RowWait {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Ordering::SeqCst);
        let mut queues = self.of.queues.lock();
        for row in &self.rows {
            let Some(queue) = queues.rows.get_mut(row) else { continue };
            queue.waiters.remove(&self.number);
            // The connection may have left something in the row, or may never have tried.
            queue.tried(self.number, Tried::Other);
            if queue.waiters.is_empty() {
                queues.rows.remove(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use weir_io::Rng;

    use super::*;

    fn rows(names: &[u8]) -> Vec<StoredKey> {
        names.iter().map(|&name| StoredKey::new(0, &[name])).collect()
    }

    fn is_woken(place: &RowWait) -> bool {
        place.poll_woken(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_first_who_waits_is_woken_and_hands_on() {
        let waiting = Arc::new(WaitingRows::default());
        waiting.written(Databases::AS_NAMED, || unreachable!("nobody waits"));
        let [a, b, c] = [0; 3].map(|_| waiting.wait_for(&rows(b"x"), Databases::AS_NAMED, true));
        waiting.written(Databases::AS_NAMED, || rows(b"y"));
        assert!(![&a, &b, &c].into_iter().any(is_woken));
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(is_woken(&a) && !is_woken(&a) && !is_woken(&b));
        // `a` has taken something and goes. The next one tries, and finds nothing.
        drop(a);
        assert!(is_woken(&b) && !is_woken(&c));
        b.tried(Tried::Nothing);
        assert!(!is_woken(&b) && !is_woken(&c));
        // Another write comes in the middle of a try: the tries begin again from the front.
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(is_woken(&b));
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(!is_woken(&b));
        b.tried(Tried::Nothing);
        assert!(is_woken(&b) && !is_woken(&c));
        b.tried(Tried::Other);
        assert!(is_woken(&c));
        drop((b, c));
        assert_eq!((waiting.count.load(Ordering::SeqCst), waiting.queues.lock().rows.len()), (0, 0));
    }

    #[test]
    fn a_try_says_nothing_of_a_row_that_was_written_to_after_it() {
        let waiting = Arc::new(WaitingRows::default());
        let a = waiting.wait_for(&rows(b"xy"), Databases::AS_NAMED, true);
        let b = waiting.wait_for(&rows(b"y"), Databases::AS_NAMED, true);
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(is_woken(&a));
        // `a` has found nothing in `x`. Before it says so, `y` gets two values.
        waiting.written(Databases::AS_NAMED, || rows(b"y"));
        a.tried(Tried::Nothing);
        assert!(is_woken(&a) && !is_woken(&b));
        // `a` takes one of them, and the other one is left for `b`.
        drop(a);
        assert!(is_woken(&b));
    }

    #[test]
    fn nobody_waits_for_the_try_of_a_connection_that_only_reads() {
        let waiting = Arc::new(WaitingRows::default());
        let [a, b, c] =
            [false, true, false].map(|takes_turn| waiting.wait_for(&rows(b"x"), Databases::AS_NAMED, takes_turn));
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(is_woken(&a) && is_woken(&b) && !is_woken(&c));
        b.tried(Tried::Other);
        assert!(is_woken(&c));
        // Neither `a` nor `c` has told its outcome.
        waiting.written(Databases::AS_NAMED, || rows(b"x"));
        assert!(is_woken(&a) && is_woken(&b) && !is_woken(&c));
    }

    /// A connection of the random test.
    struct Waiter {
        place: RowWait,
        names: Vec<u8>,
        /// It has looked at its rows and has not told the outcome yet: whether it has taken something.
        took: Option<bool>,
    }

    impl Waiter {
        /// Looks at the rows if it is time to try, and takes one value if there is any.
        fn look(&mut self, content: &mut [u64; 3]) {
            if is_woken(&self.place) {
                let filled = self.names.iter().find(|&&name| content[usize::from(name)] > 0);
                filled.into_iter().for_each(|&name| content[usize::from(name)] -= 1);
                self.took = Some(filled.is_some());
            }
        }
    }

    /// Makes the next step of the waiter at `index`: it looks, or tells the outcome. `false` if it waits on.
    fn step(waiters: &mut Vec<Waiter>, index: usize, content: &mut [u64; 3]) -> bool {
        let waiter = &mut waiters[index];
        match waiter.took.take() {
            Some(true) => drop(waiters.remove(index)),
            Some(false) => waiter.place.tried(Tried::Nothing),
            None => {
                waiter.look(content);
                return waiter.took.is_some();
            }
        }
        true
    }

    /// Random pushes, pops, waits for several rows, tries, and ends of waits: as long as a row has something, everybody
    /// who waits for it is about to try. The runs are short, because a later push mends what was missed.
    #[test]
    fn nothing_lies_where_somebody_waits_for_it() {
        for seed in 0..10_000 {
            let mut rng = Rng::new(seed);
            let waiting = Arc::new(WaitingRows::default());
            let mut content = [0_u64; 3];
            let mut waiters: Vec<Waiter> = Vec::new();
            for _ in 0..40 {
                let any = |rng: &mut Rng, waiters: &[Waiter]| rng.below(waiters.len() as u64) as usize;
                match rng.below(20) {
                    0..6 => {
                        let names: Vec<u8> = (0..3).filter(|_| rng.chance(0.5)).collect();
                        if !names.is_empty() && names.iter().all(|&name| content[usize::from(name)] == 0) {
                            let place = waiting.wait_for(&rows(&names), Databases::AS_NAMED, true);
                            waiters.push(Waiter { place, names, took: None });
                        }
                    }
                    6..10 => {
                        let name = rng.below(3) as u8;
                        content[usize::from(name)] += 1 + rng.below(3);
                        waiting.written(Databases::AS_NAMED, || rows(&[name]));
                    }
                    10..14 => {
                        // Somebody who does not wait takes a value.
                        if let Some(filled) = content.iter_mut().find(|count| **count > 0) {
                            *filled -= 1;
                        }
                    }
                    14 if !waiters.is_empty() => {
                        let index = any(&mut rng, &waiters);
                        drop(waiters.remove(index));
                    }
                    // Whoever is woken tries, in any order, and others come between a look and its outcome.
                    _ if !waiters.is_empty() => {
                        let index = any(&mut rng, &waiters);
                        step(&mut waiters, index, &mut content);
                    }
                    _ => {}
                }
            }
            // All who are woken try until nobody is.
            while (0..waiters.len()).any(|index| step(&mut waiters, index, &mut content)) {}
            for Waiter { names, .. } in &waiters {
                assert!(
                    names.iter().all(|&name| content[usize::from(name)] == 0),
                    "seed {seed}: {content:?}, {names:?}"
                );
            }
        }
    }
}
