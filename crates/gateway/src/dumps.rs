//! Dump files of a tenant that are streamed to its clients: one at a time, for each goes through all that there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// See the module.
#[derive(Default)]
pub(crate) struct Dumps {
    is_under_way: AtomicBool,
    /// Why the last one ended before its end; `None` = it did not.
    failed: Mutex<Option<Arc<str>>>,
}

/// The turn to stream one.
pub(crate) struct Turn<'d>(&'d Dumps);

impl Dumps {
    /// The turn, if nobody has it.
    pub(crate) fn begin(&self) -> Option<Turn<'_>> {
        let is_ours = !self.is_under_way.swap(true, Ordering::Acquire);
        is_ours.then(|| Turn(self))
    }

    /// Whether one is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Why the last one ended before its end.
    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.failed.lock().clone()
    }
}

impl Turn<'_> {
    /// Says how it has ended.
    pub(crate) fn ends(&self, failed: Option<&[u8]>) {
        *self.0.failed.lock() = failed.map(|why| String::from_utf8_lossy(why).into());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_under_way.store(false, Ordering::Release);
    }
}
