//! The scenarios of [`weir_scenario`], in virtual time: a device of exactly the planned bandwidth, and a second that
//! always takes a second. Processor time costs nothing here.

mod cases;
mod virtual_time;

pub use cases::Cases;
pub use virtual_time::{capacity, compare, density, image, run};

/// The name of this world in an outcome.
pub(crate) const WORLD: &str = "virtual";
