//! The tree from outside. One program, as each is compiled and linked anew; what silences panics has its own.

mod embed;
mod manifest_class;
mod many_versions;
mod pinning;
mod strangers;
mod table_sizes;
mod tree_faults;
mod tree_model;
mod tree_threads;
