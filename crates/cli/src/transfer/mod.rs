//! The commands that import and export data.

pub mod export;
pub mod import;
mod login;
mod progress;
