//! What a scenario is told on the command line: the same in both worlds.

mod scenario;
mod shortage;

pub use scenario::{Replay, Scenario, Surge, Waves};
pub use shortage::Shortage;
