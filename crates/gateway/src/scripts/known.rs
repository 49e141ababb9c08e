//! A script that is kept, and what is known of its runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_script::Script;

/// Runs after which one that takes long is tried where its client is served once more.
const AWAY_RUNS: u32 = 64;

/// How long the runs of a script or function take.
#[derive(Default)]
pub(crate) struct Pace {
    /// Runs that begin on a thread of their own.
    away: AtomicU32,
}

impl Pace {
    /// Whether the run that begins now does so on a thread of its own.
    pub(crate) fn begins_away(&self) -> bool {
        let one_less = |runs: u32| runs.checked_sub(1);
        self.away.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// It has taken too long to run where its client is served.
    pub(crate) fn took_long(&self) {
        self.away.store(AWAY_RUNS, Ordering::Relaxed);
    }
}

/// See the module.
pub(crate) struct Known {
    pub(crate) script: Arc<Script>,
    pub(crate) pace: Arc<Pace>,
}

impl Known {
    /// One that has not run yet.
    pub(crate) fn new(script: Script) -> Self {
        Self { script: Arc::new(script), pace: Arc::default() }
    }
}
