//! Policies: pure functions from a sample to knob positions, one file per idea.

pub mod bandwidth;
