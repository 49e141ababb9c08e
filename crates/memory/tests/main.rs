//! The store in memory from outside. One program, as each is compiled and linked anew.

mod dead_parts;
mod store_damage;
mod store_model;
mod store_threads;
