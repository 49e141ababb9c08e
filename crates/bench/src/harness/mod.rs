//! What every comparison is built from: contestants that take turns, runs in processes of their own, and data that is
//! kept from run to run.

pub mod children;
pub mod kept;
pub mod session;
mod turns;

pub use turns::in_turn;
