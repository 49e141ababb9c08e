//! A script that is kept, and how long its runs take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_script::Script;

/// After this many runs elsewhere, a script that takes long is tried once more on the thread that serves its client.
const AWAY_RUNS: u32 = 64;

/// How long the runs of a script or function take.
#[derive(Default)]
pub(crate) struct Pace {
    /// How many of the next runs begin on a thread of their own.
    away: AtomicU32,
}

impl Pace {
    /// Whether the run that begins now begins on a thread of its own.
    pub(crate) fn begins_away(&self) -> bool {
        let one_less = |runs: u32| runs.checked_sub(1);
        self.away.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// To be called when a run has taken too long for the thread that serves its client.
    pub(crate) fn took_long(&self) {
        self.away.store(AWAY_RUNS, Ordering::Relaxed);
    }
}

/// A kept script.
pub(crate) struct Known {
    pub(crate) script: Arc<Script>,
    pub(crate) pace: Arc<Pace>,
}

impl Known {
    /// A script that has not run yet.
    pub(crate) fn new(script: Script) -> Self {
        Self { script: Arc::new(script), pace: Arc::default() }
    }
}
