//! Tests of the tree from outside, in one program, for each program is compiled and linked anew. Tests that silence
//! panics have a program of their own.

mod embed;
mod manifest_class;
mod many_versions;
mod pinning;
mod strangers;
mod table_sizes;
mod tree_faults;
mod tree_model;
mod tree_threads;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
