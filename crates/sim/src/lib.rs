//! Whole-node simulation and crash tests.
