//! What everything in a directory hangs on: `FORMAT`, and both copies of the catalogue. Lost, damaged, replaced by an
//! older copy or by another directory's, one at a time: the node opens with exactly the right tenants or refuses with
//! the name of the file, `weir check` says so, nothing is deleted, and after a repair all tenants are there.

mod carried;
mod cuts;
mod tampering;
mod world;
