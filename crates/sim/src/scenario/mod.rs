//! The scenarios of [`weir_scenario`], in virtual time: a device of exactly the planned bandwidth, and a second that
//! always takes a second. What costs processor time costs nothing here.

mod virtual_time;

pub use virtual_time::{compare, image, run};

/// How the outcome names this world.
const WORLD: &str = "virtual";
