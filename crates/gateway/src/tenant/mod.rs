//! What the connections of one tenant share: its account, and limits on what they may hold together.

pub mod account;
pub(crate) mod byte_budget;
pub(crate) mod byte_limit;
pub(crate) mod connection_limits;
pub(crate) mod draws;
pub mod tenancy;
