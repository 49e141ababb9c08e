//! Dump files of a tenant that are streamed to its clients. Only one is streamed at a time, because each goes through
//! all data of the tenant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The state of a tenant's streamed dumps.
#[derive(Default)]
pub(crate) struct Dumps {
    is_under_way: AtomicBool,
    /// Why the last dump ended early; `None` if it did not.
    failed: Mutex<Option<Arc<str>>>,
}

/// The turn to stream a dump.
pub(crate) struct Turn<'d>(&'d Dumps);

impl Dumps {
    /// Takes the turn if nobody has it.
    pub(crate) fn begin(&self) -> Option<Turn<'_>> {
        let is_ours = !self.is_under_way.swap(true, Ordering::Acquire);
        is_ours.then(|| Turn(self))
    }

    /// Whether a dump is being streamed.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Relaxed)
    }

    /// Why the last dump ended early, if it did.
    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.failed.lock().clone()
    }
}

impl Turn<'_> {
    /// Records how the dump has ended.
    pub(crate) fn ends(&self, failed: Option<&[u8]>) {
        *self.0.failed.lock() = failed.map(|why| String::from_utf8_lossy(why).into());
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_under_way.store(false, Ordering::Release);
    }
}
