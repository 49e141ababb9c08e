//! The arguments of scenarios on the command line, the same in both worlds.

mod bursts;
mod capacity;
mod density;
mod scenario;
mod shape;
mod shortage;
mod sleepers;
mod steady;
mod ycsb;

pub use bursts::Bursts;
pub use capacity::Capacity;
pub use density::Density;
pub use scenario::{Replay, Scenario, Surge, Waves};
pub use shape::Shape;
pub use shortage::Shortage;
pub use sleepers::Sleepers;
pub use steady::Steady;
pub use ycsb::Ycsb;
