//! A simulated machine: one seed gives one day.
