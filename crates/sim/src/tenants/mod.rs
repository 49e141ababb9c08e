//! A node with many tenants on a disk that is full, or fails: an operator and clients do everything there is to do, in
//! an order drawn from a seed, and what they see is compared with what they were told.
//!
//! Nothing may be lost, nothing dropped may return, reads always work; and what was refused works again when its cause
//! has gone, without a restart.

mod model;
mod town;

pub mod fault;
pub mod full;

use weir_log::SyncMode;

use crate::engines::Engines;

/// How a node and its tenants are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What tenants keep their rows in.
    pub engines: Engines,
    /// What an acknowledgement promises.
    pub sync: SyncMode,
}
