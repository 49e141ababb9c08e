//! The scenarios of [`weir_scenario`], in virtual time: a device of exactly the planned bandwidth, and a second that
//! always takes a second. What costs processor time costs nothing here.

mod cases;
mod virtual_time;

pub use cases::Cases;
pub use virtual_time::{capacity, compare, density, image, run};

/// How the outcome names this world.
pub(crate) const WORLD: &str = "virtual";
