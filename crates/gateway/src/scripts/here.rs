//! A script that runs on the thread that serves its client, as long as it takes no longer than other commands do. It
//! leaves when it has used up its time, when its machine grows, and when a command has to wait. Then nothing of it is
//! applied, and it runs anew on a [thread](super::job) of its own. That is safe: it has had no effect so far, and its
//! random numbers are the same again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_command::error::Error;
use weir_io::{Clock, Nanos};
use weir_script::{Limits, World};

use super::permission::{MoreTurns, may};
use super::{left_out, log};
use crate::auth::users::User;

/// What the script may use. This number of instructions is many for a rate limiter and few for a loop that does not
/// end.
pub(crate) const LIMITS: Limits = Limits { instructions: 100, memory_bytes: 512 << 10 };
/// The longest script, in bytes, that is compiled on a thread that serves clients.
pub(crate) const SOURCE_BYTES_MAX: usize = 4 << 10;
/// How long the script may take.
const NANOS_MAX: Nanos = 300_000;
/// After this many checks the script leaves, whatever the clock says. There is one check before each command, and one
/// every few instructions.
const LOOKS_MAX: u32 = 1000;
/// No client sees this error, because the script is run again.
const LEAVES: Error = Error::new("ERR the script runs elsewhere");

/// A script that runs on the thread that serves its client.
pub(crate) struct Here {
    clock: Arc<dyn Clock>,
    user: Arc<User>,
    until: Nanos,
    looks: AtomicU32,
    is_used_up: AtomicBool,
    waits: AtomicBool,
}

/// Why a script has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The script has used up its time, its checks or its memory.
    UsedUp,
    /// A command has to wait.
    Waits,
}

impl Here {
    /// A script of `user` begins.
    pub(crate) fn begin(clock: &Arc<dyn Clock>, user: &Arc<User>) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(clock),
            user: Arc::clone(user),
            until: clock.now().saturating_add(NANOS_MAX),
            looks: AtomicU32::new(0),
            is_used_up: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        })
    }

    /// How often it was checked whether the script has to end: after some instructions, and before each command.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed).into()
    }

    /// A command has to wait. Returns the error that ends the script.
    pub(crate) fn leave_to_wait(&self) -> Error {
        self.waits.store(true, Ordering::Relaxed);
        LEAVES
    }

    /// Why the script has left, if it has.
    pub(crate) fn left(&self) -> Option<Left> {
        match () {
            () if self.waits.load(Ordering::Relaxed) => Some(Left::Waits),
            () if self.is_used_up.load(Ordering::Relaxed) => Some(Left::UsedUp),
            () => None,
        }
    }
}

impl World for Here {
    fn may(&self, words: &[Vec<u8>]) -> Option<bool> {
        may(Some(&self.user), words, Some(1)).unwrap_or_else(|MoreTurns| {
            // What the script is told does not matter, because it is run again elsewhere.
            self.waits.store(true, Ordering::Relaxed);
            Some(false)
        })
    }

    fn log(&self, level: u8, text: &[u8]) {
        log(level, text);
    }

    fn left_out(&self, library: &str, why: &Error) {
        left_out(library, why);
    }

    fn why_end(&self) -> Option<Error> {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks < LOOKS_MAX && self.clock.now() < self.until {
            return None;
        }
        self.no_memory()
    }

    fn no_memory(&self) -> Option<Error> {
        self.is_used_up.store(true, Ordering::Relaxed);
        Some(LEAVES)
    }
}
