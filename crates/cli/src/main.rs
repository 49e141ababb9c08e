//! The one binary: weir.
fn main() {}
