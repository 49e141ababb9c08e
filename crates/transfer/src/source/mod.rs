//! A Redis whose replica we are.

mod acks;
mod attach;
mod socket;
mod watch;

pub use acks::Acks;
pub use attach::{Attached, Snapshot, attach};
pub use socket::SocketBytes;
pub use watch::watch;
