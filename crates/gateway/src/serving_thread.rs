//! The threads that serve connections.

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingThread {
    /// Its number among all.
    pub(crate) index: usize,
    /// Whether it is for long requests and noisy neighbours.
    pub(crate) is_long: bool,
}
