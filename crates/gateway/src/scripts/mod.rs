//! Scripts of one tenant: which ones it has sent, and which are running.
//!
//! | | |
//! |---|---|
//! | [`cache`] | scripts by their digests, for `EVALSHA` |
//! | [`known`] | a script, and what is known of its runs |
//! | [`machines`] | what scripts run in, kept from one to the next |
//! | [`functions`] | libraries, in a row and in memory |
//! | [`permission`] | what a script is told that it may do |
//! | [`here`] | a script that runs where its client is served, and when it leaves |
//! | [`job`] | a script on a thread of its own, and what it asks for |

mod cache;
mod functions;
pub(crate) mod here;
mod job;
mod known;
mod machines;
mod permission;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_command::error::{Error, Outcome};
use weir_io::{Clock, Nanos};

pub(crate) use self::cache::Cache;
pub(crate) use self::functions::{BYTES_MAX as FUNCTIONS_BYTES_MAX, Functions};
pub(crate) use self::job::{Asked, Job, LIMITS};
pub(crate) use self::known::{Known, Pace};
pub(crate) use self::machines::{Machines, NodeMachines};
use crate::auth::users::User;

/// Threads on which scripts run. Each runs one script at a time.
pub(crate) const THREADS: usize = 8;
/// How nice these threads are: threads that serve clients go first.
pub(crate) const NICE: i32 = 10;
/// How many scripts of one tenant may have threads at the same time, so that other tenants find some.
const RUNNING_MAX: usize = 2;
/// Most bytes that a script may write and publish, and most bytes of events that it may cause. They are kept in memory
/// until it has ended.
pub(crate) const WRITTEN_BYTES_MAX: usize = 64 << 20;
/// Most bytes of keys that a script may ask for without having declared them. They are kept until it has ended.
pub(crate) const ASKED_BYTES_MAX: usize = 64 << 20;
/// How long a script may run. If it takes longer, nothing of it is written.
const TIME_MAX: Nanos = 10_000_000_000;

pub(crate) const TOO_LONG: Error =
    Error::new("ERR the script took longer than 10 seconds and was ended: nothing of it was written");
const KILLED: Error = Error::new("ERR Script killed by user with SCRIPT KILL...");
pub(crate) const TOO_LARGE: Error =
    Error::new("ERR the script writes or publishes more than 64 MB and was ended: nothing of it was written");
pub(crate) const TOO_MANY_KEYS: Error =
    Error::new("ERR the script asks for more than 64 MB of keys that it has not declared: nothing of it was written");
const GONE: Error = Error::new("ERR whoever ran the script is gone");
const ENDING: Error = Error::new("ERR the server is ending");

/// How many bytes of a line that a script logs are kept.
const LOGGED_BYTES_MAX: usize = 256;

/// Logs a line of a script. The log belongs to the operator: no tenant may fill it, or cause an alarm.
fn log(level: u8, text: &[u8]) {
    tracing::debug!("a script says at level {level}: {}", text[..text.len().min(LOGGED_BYTES_MAX)].escape_ascii());
}

/// Logs that a stored library cannot be loaded. Another version of this program has accepted it; no tenant can cause
/// this.
fn left_out(library: &str, why: &Error) {
    let why = &why.text()[..why.text().len().min(LOGGED_BYTES_MAX)];
    tracing::warn!("the library {library} of functions cannot be loaded and is left out: {}", why.escape_ascii());
}

/// The scripts of one tenant.
pub(crate) struct Scripts {
    pub(crate) cache: Mutex<Cache>,
    pub(crate) functions: Functions,
    pub(crate) machines: Machines,
    /// Whether scripts may run the commands that only tests of clients need.
    pub(crate) may_debug: AtomicBool,
    /// Places for the scripts that have threads.
    places: Arc<Semaphore>,
    running: Mutex<Vec<Arc<Control>>>,
}

/// A function that is running.
pub(crate) struct RunningFunction {
    pub(crate) name: String,
    /// The first words of the command that called it.
    pub(crate) command: Vec<Vec<u8>>,
}

/// Decides when a script has to end.
pub(crate) struct Control {
    began: Nanos,
    function: Option<Arc<RunningFunction>>,
    clock: Arc<dyn Clock>,
    until: Nanos,
    is_killed: AtomicBool,
    is_abandoned: AtomicBool,
    /// How often it was checked whether the script has to end.
    looks: AtomicU64,
    /// The user who runs the script.
    user: OnceLock<Arc<User>>,
    /// The thread of the script keeps the control, too: so the place is not free before the thread is, even if the
    /// client has gone meanwhile.
    _place: OwnedSemaphorePermit,
}

impl Control {
    /// Tells that `user` runs the script.
    pub(crate) fn is_of(&self, user: &Arc<User>) {
        // If a connection runs several scripts under this control, the user is the same.
        self.user.get_or_init(|| Arc::clone(user));
    }

    /// How often it was checked whether the script has to end: after some instructions, and before each command.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Why the script has to end now.
    fn why_end(&self) -> Option<Error> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.is_killed.load(Ordering::Relaxed) {
            return Some(KILLED);
        }
        if self.is_abandoned.load(Ordering::Relaxed) {
            return Some(GONE);
        }
        (self.clock.now() >= self.until).then_some(TOO_LONG)
    }
}

/// A script that is running. When this is dropped, the script has to end.
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
    /// No scripts yet, for a tenant of the node.
    pub(crate) fn new(machines: &Arc<NodeMachines>) -> Self {
        Self {
            cache: Mutex::default(),
            functions: Functions::default(),
            machines: Machines::new(machines),
            may_debug: AtomicBool::new(false),
            places: Arc::new(Semaphore::new(RUNNING_MAX)),
            running: Mutex::default(),
        }
    }

    /// Waits for a place among the threads of scripts.
    ///
    /// # Errors
    /// The server is ending.
    pub(crate) async fn place(&self) -> Outcome<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| ENDING)
    }

    /// Waits for a place among the threads of scripts. Then a script begins to run there.
    ///
    /// # Errors
    /// The server is ending.
    pub(crate) async fn begin(
        &self,
        clock: &Arc<dyn Clock>,
        function: Option<Arc<RunningFunction>>,
    ) -> Outcome<Running<'_>> {
        let place = self.place().await?;
        let began = clock.now();
        let control = Arc::new(Control {
            began,
            function,
            clock: Arc::clone(clock),
            until: began.saturating_add(TIME_MAX),
            is_killed: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            user: OnceLock::new(),
            _place: place,
        });
        self.running.lock().push(Arc::clone(&control));
        Ok(Running { of: self, control })
    }

    /// The function that has run longest, and when it began.
    pub(crate) fn running_function(&self) -> Option<(Arc<RunningFunction>, Nanos)> {
        let running = self.running.lock();
        running.iter().find_map(|control| Some((Arc::clone(control.function.as_ref()?), control.began)))
    }

    /// Makes all running scripts end, without an effect. `false` if none is running.
    pub(crate) fn kill(&self) -> bool {
        let running = self.running.lock();
        running.iter().for_each(|control| control.is_killed.store(true, Ordering::Relaxed));
        !running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use weir_io::sim::SimClock;

    use super::*;

    #[test]
    fn a_place_is_taken_for_as_long_as_the_thread_of_the_script() {
        let (scripts, clock) = (Scripts::new(&Arc::default()), SimClock::new() as Arc<dyn Clock>);
        let begin = || scripts.begin(&clock, None).now_or_never().map(|running| running.expect("a place"));
        let all: Vec<Running<'_>> = (0..RUNNING_MAX).map_while(|_| begin()).collect();
        let of_threads: Vec<Arc<Control>> = all.iter().map(|running| Arc::clone(&running.control)).collect();
        assert!(all.len() == RUNNING_MAX && begin().is_none());
        // The clients go. Their scripts end when they are checked next.
        drop(all);
        assert!(of_threads.iter().all(|control| control.why_end() == Some(GONE)) && begin().is_none());
        drop(of_threads);
        assert!(begin().is_some());
    }
}
