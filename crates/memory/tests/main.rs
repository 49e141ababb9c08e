//! Tests of the store in memory from outside, in one program, for each program is compiled and linked anew.

mod dead_parts;
mod due;
mod room;
mod store_damage;
mod store_model;
mod store_threads;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
