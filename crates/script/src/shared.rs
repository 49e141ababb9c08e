//! What a machine's functions share with the run that they are called in.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::error::Error;
use weir_command::reply::Protocol;

use crate::bridge::World;
use crate::chance::Chance;

/// See the module.
pub(crate) struct Shared(Mutex<RunState>);

struct RunState {
    /// `None` while nothing runs.
    world: Option<Arc<dyn World>>,
    /// What replies of commands are told in.
    protocol: Protocol,
    /// Why the script has to end.
    end: Option<Error>,
    chance: Chance,
}

impl Shared {
    /// Of a machine in which nothing runs.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(RunState { world: None, protocol: Protocol::Resp2, end: None, chance: Chance::seeded(0) }))
    }

    /// A run begins. Nothing is left of the one before.
    pub(crate) fn begin(&self, world: &Arc<dyn World>, seed: u64) {
        let state = RunState {
            world: Some(Arc::clone(world)),
            protocol: Protocol::Resp2,
            end: None,
            chance: Chance::seeded(seed),
        };
        *self.0.lock() = state;
    }

    /// The run is over; gives why it had to end, if it had to.
    pub(crate) fn finish(&self) -> Option<Error> {
        let mut state = self.0.lock();
        state.world = None;
        state.end.take()
    }

    /// What the run may ask.
    pub(crate) fn world(&self) -> Option<Arc<dyn World>> {
        self.0.lock().world.clone()
    }

    /// Whether the script has to end.
    pub(crate) fn has_to_end(&self) -> bool {
        let mut state = self.0.lock();
        if state.end.is_none() {
            state.end = state.world.as_ref().and_then(|world| world.why_end());
        }
        state.end.is_some()
    }

    /// There is no memory left: whether the script has to end therefore.
    pub(crate) fn has_to_end_without_memory(&self) -> bool {
        let mut state = self.0.lock();
        if state.end.is_none() {
            state.end = state.world.as_ref().and_then(|world| world.no_memory());
        }
        state.end.is_some()
    }

    /// The script has to end with `error`.
    pub(crate) fn end_with(&self, error: Error) {
        self.0.lock().end.get_or_insert(error);
    }

    /// What replies of commands are told in.
    pub(crate) fn protocol(&self) -> Protocol {
        self.0.lock().protocol
    }

    /// Replies of commands are told in `protocol` from now on.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.0.lock().protocol = protocol;
    }

    /// The next number of its chance, from 0 up to 1, which is not among them.
    pub(crate) fn random(&self) -> f64 {
        self.0.lock().chance.next()
    }

    /// Its chance goes on from `seed`.
    pub(crate) fn seed(&self, seed: u64) {
        self.0.lock().chance = Chance::seeded(seed);
    }
}
