//! Where memory is booked that data occupies for longer than one operation.

/// Is told of every block of memory taken and given back. It is called with locks held: it must not wait, and must not
/// call back.
pub trait Memory: Send + Sync {
    /// `bytes` more have been taken from the system.
    fn take(&self, bytes: usize);

    /// `bytes` went back to the system.
    fn give_back(&self, bytes: usize);
}

/// Counts nothing: for tools and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbooked;

impl Memory for Unbooked {
    fn take(&self, _: usize) {}

    fn give_back(&self, _: usize) {}
}
