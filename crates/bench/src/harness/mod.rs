//! What every comparison is made with: contestants that take turns, runs in processes of their own, and data that are
//! kept from run to run.

pub mod children;
pub mod kept;
pub mod session;
mod turns;

pub use turns::in_turn;
