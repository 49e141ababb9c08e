//! Commands that bring data in and out.

pub mod export;
pub mod import;
mod login;
mod progress;
