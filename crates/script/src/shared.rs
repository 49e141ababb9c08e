//! What a machine's functions share with the run that they are called in.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_command::error::Error;
use weir_command::reply::Protocol;

use crate::bridge::{MEMORY_BYTES_MAX, World};
use crate::chance::Chance;

/// How many results of [`Shared::try_keep`] there may be. Each belongs to a function that holds a text of the machine,
/// and the machine has places for 8,000 of its values that Weir holds, arguments of its functions among them.
const KEPT_MAX: usize = 4000;

/// The state of the current run, as the machine's functions see it.
pub(crate) struct Shared(Mutex<RunState>);

struct RunState {
    /// `None` while nothing runs.
    world: Option<Arc<dyn World>>,
    /// The protocol of the replies of commands.
    protocol: Protocol,
    /// Why the script has to end.
    end: Option<Error>,
    chance: Chance,
    /// How many bytes of memory the run may use.
    memory_bytes: usize,
    /// How many bytes the machine's values keep beside the machine's own memory. Garbage that is not freed yet counts.
    kept_bytes: usize,
    /// How many values keep them.
    kept: usize,
}

/// Bytes that a value of the machine keeps beside the machine's own memory; given back when dropped.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut state = self.shared.0.lock();
        state.kept_bytes -= self.bytes;
        state.kept -= 1;
    }
}

impl Shared {
    /// The state of a machine in which nothing runs.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(RunState {
            world: None,
            protocol: Protocol::Resp2,
            end: None,
            chance: Chance::seeded(0),
            memory_bytes: MEMORY_BYTES_MAX,
            kept_bytes: 0,
            kept: 0,
        }))
    }

    /// Begins a run. Nothing is left of the run before but garbage.
    pub(crate) fn begin(&self, world: &Arc<dyn World>, seed: u64, memory_bytes: usize) {
        let mut state = self.0.lock();
        *state = RunState {
            world: Some(Arc::clone(world)),
            protocol: Protocol::Resp2,
            end: None,
            chance: Chance::seeded(seed),
            memory_bytes,
            kept_bytes: state.kept_bytes,
            kept: state.kept,
        };
    }

    /// Ends the run; gives why it had to end, if it had to.
    pub(crate) fn finish(&self) -> Option<Error> {
        let mut state = self.0.lock();
        state.world = None;
        state.end.take()
    }

    /// The world of the current run.
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

    /// Whether the script has to end because there is no memory left.
    pub(crate) fn has_to_end_without_memory(&self) -> bool {
        let mut state = self.0.lock();
        if state.end.is_none() {
            state.end = state.world.as_ref().and_then(|world| world.no_memory());
        }
        state.end.is_some()
    }

    /// Makes the script end with `error`.
    pub(crate) fn end_with(&self, error: Error) {
        self.0.lock().end.get_or_insert(error);
    }

    /// How many bytes of memory the run may use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.lock().memory_bytes
    }

    /// Books `bytes` that are kept until the result is dropped. `None` if more would be kept than the run may use, or
    /// by too many.
    pub(crate) fn try_keep(self: &Arc<Self>, bytes: usize) -> Option<Kept> {
        let mut state = self.0.lock();
        let kept_bytes = state.kept_bytes.checked_add(bytes).filter(|&kept| kept <= state.memory_bytes)?;
        let kept = Some(state.kept + 1).filter(|&kept| kept <= KEPT_MAX)?;
        (state.kept_bytes, state.kept) = (kept_bytes, kept);
        Some(Kept { shared: Arc::clone(self), bytes })
    }

    /// The protocol of the replies of commands.
    pub(crate) fn protocol(&self) -> Protocol {
        self.0.lock().protocol
    }

    /// Sets the protocol of the replies of commands.
    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.0.lock().protocol = protocol;
    }

    /// The next random number, from 0 up to 1, which is not included.
    pub(crate) fn random(&self) -> f64 {
        self.0.lock().chance.next()
    }

    /// Seeds the random numbers.
    pub(crate) fn seed(&self, seed: u64) {
        self.0.lock().chance = Chance::seeded(seed);
    }
}
