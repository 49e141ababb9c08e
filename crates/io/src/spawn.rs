//! Where background work runs: handed in, like the disk and the clock.

use crate::BoxFuture;

/// Runs futures to completion somewhere: niced worker threads in production, the one executor in simulation.
pub trait Spawn: Send + Sync + 'static {
    /// Starts `future`. It runs until it is done or the executor is dropped.
    fn spawn(&self, future: BoxFuture<()>);
}
