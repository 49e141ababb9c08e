//! House rules and chores of the repository.
fn main() {}
