//! Replaces the ring where it is not built in (cargo feature `uring`).

use super::threads::Lane;
use super::transfer::Request;

/// A ring that does not exist.
pub(super) enum Uring {}

impl Uring {
    /// Always an error.
    pub(super) fn new(_queue_max: usize) -> std::io::Result<Self> {
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "this program was built without it"))
    }

    /// Never called: there is no ring to call it on.
    pub(super) fn submit(&self, _lane: Lane, _request: Request) {
        match *self {}
    }
}
