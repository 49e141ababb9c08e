//! The log from outside: crashes, damage, wakes, closing, and the contract of every log. They are one program, because
//! each program is linked anew.

mod closing;
mod common;
mod contract;
mod crash;
mod damage;
mod shared;
mod spare;
mod truncation;
mod wakes;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
