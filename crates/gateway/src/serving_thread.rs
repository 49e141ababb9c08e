//! The threads that serve connections.

/// One thread that serves connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingThread {
    /// Its number among all these threads.
    pub(crate) index: usize,
    /// Whether it is for long requests and noisy neighbours.
    pub(crate) is_long: bool,
}
