//! The files that everything in a directory depends on: `FORMAT`, and both copies of the catalogue. Each is lost,
//! damaged, or replaced by an older copy or by another directory's, one at a time. The node opens with exactly the
//! right tenants or refuses with the name of the file, `weir check` says so, nothing is deleted, and after a repair all
//! tenants are there.

mod carried;
mod cuts;
mod tampering;
mod world;
