//! A pointer that readers load without a lock while a writer replaces it.
//!
//! `arc_swap` does the same for pointers that seldom change. Its writer looks through what every thread of the process
//! reads at that moment; here that was a third of a `SET`, since each `SET` replaces a pointer of its own. So readers
//! enter an epoch, and the writer gives up its reference to what it has replaced when all of them have left.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_epoch::{self as epoch, Guard};
use weir_model::prefetch::prefetch;

/// An `Option<Arc<T>>` to share.
pub(crate) struct AtomicArc<T: Send + Sync + 'static> {
    /// Null, or what `Arc::into_raw` gave: one count of it belongs to this pointer.
    pointer: AtomicPtr<T>,
    _owned: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> AtomicArc<T> {
    /// Points to `target`.
    pub fn new(target: Option<Arc<T>>) -> Self {
        Self { pointer: AtomicPtr::new(into_raw(target)), _owned: PhantomData }
    }

    /// What it points to.
    #[inline]
    pub fn load(&self) -> Option<Arc<T>> {
        let _guard = epoch::pin();
        let pointer = self.pointer.load(Ordering::Acquire);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `Arc::into_raw`. Its count was there when this thread had entered the epoch, so
        // that `replace` does not give it up before the thread leaves.
        unsafe {
            Arc::increment_strong_count(pointer);
            Some(Arc::from_raw(pointer))
        }
    }

    /// What it points to, as long as this thread is in the epoch of `guard`, without counting references.
    #[inline]
    pub fn get<'g>(&'g self, _guard: &'g Guard) -> Option<&'g T> {
        // SAFETY: as in `load`; nobody changes what an `Arc` shares.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// Whether it points to nothing.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Has the processor fetch the beginning of what it points to.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.pointer.load(Ordering::Relaxed));
    }

    /// Points to `target` from now on. What it pointed to before loses its count when no reader can be on its way to
    /// it.
    pub fn replace(&self, target: Option<Arc<T>>) {
        let before = self.pointer.swap(into_raw(target), Ordering::AcqRel);
        if before.is_null() {
            return;
        }
        // SAFETY: it came from `Arc::into_raw`, and its count is this pointer's until here. A thread that enters the
        // epoch from now on does not find it; one that is in the epoch has left when this runs. It is sent to another
        // thread: `T` may be.
        unsafe {
            let before = Arc::from_raw(before);
            epoch::pin().defer_unchecked(move || drop(before));
        }
    }

    /// Points to `target` from now on. The pointer `behind` in `target`, which points to nothing, takes over what this
    /// one has pointed to. There may be only one writer.
    pub fn put_in_front(&self, target: Arc<T>, behind: impl FnOnce(&T) -> &Self) {
        // The count goes along with the pointer: a reader on its way to the old target finds it counted.
        behind(&target).pointer.store(self.pointer.load(Ordering::Relaxed), Ordering::Relaxed);
        self.pointer.store(into_raw(Some(target)), Ordering::Release);
    }

    /// Takes what it points to, which nobody else can load any more.
    pub fn take(&mut self) -> Option<Arc<T>> {
        let pointer = std::mem::replace(self.pointer.get_mut(), std::ptr::null_mut());
        // SAFETY: it came from `Arc::into_raw`, and its count was this pointer's.
        (!pointer.is_null()).then(|| unsafe { Arc::from_raw(pointer) })
    }
}

impl<T: Send + Sync + 'static> Drop for AtomicArc<T> {
    fn drop(&mut self) {
        self.take();
    }
}

fn into_raw<T>(target: Option<Arc<T>>) -> *mut T {
    target.map_or(std::ptr::null_mut(), |target| Arc::into_raw(target).cast_mut())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Counted(Arc<AtomicUsize>, u64);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "it is about threads")]
    fn readers_see_whole_targets_in_order_and_every_target_goes_once() {
        const TARGETS: u64 = 20_000;
        let dropped = Arc::new(AtomicUsize::new(0));
        let target = |number| Some(Arc::new(Counted(Arc::clone(&dropped), number)));
        let mut pointer = AtomicArc::new(target(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (mut last, mut kept) = (0, Vec::new());
                    while last < TARGETS - 1 {
                        let seen = pointer.load().expect("it always points to something");
                        assert!(seen.1 >= last, "{} behind {last}", seen.1);
                        assert!(pointer.get(&epoch::pin()).expect("as before").1 >= seen.1);
                        last = seen.1;
                        if kept.len() < 100 {
                            kept.push(seen);
                        }
                    }
                    assert!(kept.is_sorted_by_key(|kept| kept.1));
                });
            }
            for number in 1..TARGETS {
                pointer.replace(target(number));
            }
        });
        assert_eq!(pointer.take().map(|last| last.1), Some(TARGETS - 1));
        assert!(pointer.is_none() && pointer.load().is_none() && pointer.get(&epoch::pin()).is_none());
        // Epochs advance as threads enter them. What this thread has put off itself is dropped when it flushes.
        while dropped.load(Ordering::SeqCst) < TARGETS as usize {
            epoch::pin().flush();
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), TARGETS as usize);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "it is about threads")]
    fn what_stands_behind_keeps_what_stood_in_front_and_lets_it_go_once() {
        struct Link(u64, AtomicArc<Link>, Arc<AtomicUsize>);
        impl Drop for Link {
            fn drop(&mut self) {
                self.2.fetch_add(1, Ordering::SeqCst);
            }
        }
        const LINKS: u64 = 2_000;
        let dropped = Arc::new(AtomicUsize::new(0));
        let link = |number| Arc::new(Link(number, AtomicArc::new(None), Arc::clone(&dropped)));
        let first = AtomicArc::new(Some(link(0)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut last = 0;
                while last < LINKS - 1 {
                    let guard = epoch::pin();
                    let seen = first.get(&guard).expect("it always points to something");
                    assert!(seen.0 >= last);
                    last = seen.0;
                    assert!(seen.1.get(&guard).is_none_or(|behind| behind.0 + 1 == last));
                }
            });
            for number in 1..LINKS {
                first.put_in_front(link(number), |link| &link.1);
                // Of the links behind, only one is left.
                if let Some(behind) = first.load().and_then(|newest| newest.1.load()) {
                    behind.1.replace(None);
                }
            }
        });
        drop(first);
        while dropped.load(Ordering::SeqCst) < LINKS as usize {
            epoch::pin().flush();
            std::thread::yield_now();
        }
        assert_eq!(dropped.load(Ordering::SeqCst), LINKS as usize);
    }
}
