//! Where memory is booked that data takes for longer than an operation.

/// Told of every block of memory taken and given back. It is asked with locks held: it must not wait, nor call back.
pub trait Memory: Send + Sync {
    /// `bytes` more have been taken from the system.
    fn take(&self, bytes: usize);

    /// `bytes` went back to the system.
    fn give_back(&self, bytes: usize);
}

/// For tools and tests: nobody counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbooked;

impl Memory for Unbooked {
    fn take(&self, _: usize) {}

    fn give_back(&self, _: usize) {}
}
