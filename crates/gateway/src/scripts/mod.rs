//! Scripts of one tenant: which it has sent, and which are running.
//!
//! | | |
//! |---|---|
//! | [`cache`] | scripts by their digests, for `EVALSHA` |
//! | [`job`] | a script on a thread of its own, and what it asks for |

mod cache;
mod job;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weir_command::error::Error;
use weir_io::{Clock, Nanos};

pub(crate) use self::cache::Cache;
pub(crate) use self::job::{Asked, Job};

/// Threads on which scripts run. Each serves one at a time.
pub(crate) const THREADS: usize = 8;
/// How nice they are: whoever serves clients goes first.
pub(crate) const NICE: i32 = 10;
/// Scripts of one tenant that run at the same time: others find threads whatever it does.
const RUNNING_MAX: usize = 2;
/// Most bytes that a script writes, and publishes: they are in memory until it has ended.
pub(crate) const WRITTEN_BYTES_MAX: usize = 64 << 20;
/// How long a script may run. Nothing of it is written then.
const TIME_MAX: Nanos = 10_000_000_000;

const TOO_LONG: Error =
    Error::new("ERR the script took longer than 10 seconds and was ended: nothing of it was written");
const KILLED: Error = Error::new("ERR Error running script: Script killed by user with SCRIPT KILL...");
const TOO_LARGE: Error =
    Error::new("ERR the script writes or publishes more than 64 MB and was ended: nothing of it was written");
const GONE: Error = Error::new("ERR whoever ran the script is gone");

/// See the module.
pub(crate) struct Scripts {
    pub(crate) cache: Mutex<Cache>,
    /// Places for those that run.
    pub(crate) places: Semaphore,
    running: Mutex<Vec<Arc<Control>>>,
}

impl Default for Scripts {
    fn default() -> Self {
        Self { cache: Mutex::default(), places: Semaphore::new(RUNNING_MAX), running: Mutex::default() }
    }
}

/// Ends a script.
pub(crate) struct Control {
    clock: Arc<dyn Clock>,
    until: Nanos,
    is_killed: AtomicBool,
    is_too_large: AtomicBool,
    is_abandoned: AtomicBool,
}

impl Control {
    /// It has asked for more than it may.
    pub(crate) fn end_as_too_large(&self) {
        self.is_too_large.store(true, Ordering::Relaxed);
    }

    /// Why the script has to end now.
    fn why_end(&self) -> Option<Error> {
        if self.is_killed.load(Ordering::Relaxed) {
            return Some(KILLED);
        }
        if self.is_too_large.load(Ordering::Relaxed) {
            return Some(TOO_LARGE);
        }
        if self.is_abandoned.load(Ordering::Relaxed) {
            return Some(GONE);
        }
        (self.clock.now() >= self.until).then_some(TOO_LONG)
    }
}

/// A script that runs; when this is dropped, it has to end.
pub(crate) struct Running<'a> {
    of: &'a Scripts,
    pub(crate) control: Arc<Control>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.control.is_abandoned.store(true, Ordering::Relaxed);
        self.of.running.lock().retain(|other| !Arc::ptr_eq(other, &self.control));
    }
}

impl Scripts {
    /// A script begins to run.
    pub(crate) fn begin(&self, clock: &Arc<dyn Clock>) -> Running<'_> {
        let control = Arc::new(Control {
            clock: Arc::clone(clock),
            until: clock.now().saturating_add(TIME_MAX),
            is_killed: AtomicBool::new(false),
            is_too_large: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        });
        self.running.lock().push(Arc::clone(&control));
        Running { of: self, control }
    }

    /// Lets all that run end, without an effect; `false` where none runs.
    pub(crate) fn kill(&self) -> bool {
        let running = self.running.lock();
        running.iter().for_each(|control| control.is_killed.store(true, Ordering::Relaxed));
        !running.is_empty()
    }
}
