//! Request units (XS-17 to XS-21): what a request takes of a machine, in one number.
//!
//! - A request is counted as invocations of [`Module`]s and as the bytes that these handle ([`Work`]).
//! - A [`CostTable`] says what each of these takes, by [`Dimension`]. That gives the request's physical units, a
//!   vector.
//! - A [`Pod`] says how much there is a second. The share that a request takes of the dimension of which it takes most,
//!   times what the pod has in all, gives the request's logical units: one number, for limits and bills.
//! - [`Prices`] are a table and a pod, worked out once, so that a request is priced by additions and multiplications of
//!   integers.
//!
//! The formulas, and what was measured, are in `docs/policy/request-units.md`.

mod default_rows;
mod default_table;
mod module;
mod pod;
mod prices;
mod resources;
mod table;

pub use default_table::{default_pod, default_table};
pub use module::{Module, Work};
pub use pod::Pod;
pub use prices::{Price, Prices};
pub use resources::{Dimension, MILLI, Resources, THOUSAND};
pub use table::{CostTable, reference_read};
