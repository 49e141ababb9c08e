//! A node with many tenants on a disk that is full, or that fails. An operator and clients do everything that can be
//! done, in an order drawn from a seed, and what they see is compared with what they were told.
//!
//! Nothing may be lost, nothing dropped may return, reads always work, and what was refused works again once the cause
//! is gone, without a restart.

mod model;
mod town;

pub mod fault;
pub mod full;

use weir_log::SyncMode;

use crate::engines::Engines;

/// How a node and its tenants are set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The engines that keep tenants' rows.
    pub engines: Engines,
    /// What an acknowledgement promises.
    pub sync: SyncMode,
}
