//! The lock of a data directory.

use super::super::lock::take;
use super::Dir;
use crate::ErrorKind;

#[test]
fn a_copy_of_the_descriptor_does_not_keep_what_was_let_go() {
    let dir = Dir::new();
    let path = dir.at("LOCK");
    let held = take(&path).expect("free");
    // A copy such as a process has that another thread is just starting.
    let copy = held.file.try_clone().expect("a descriptor");
    assert_eq!(take(&path).err().map(|error| error.kind()), Some(ErrorKind::Locked));
    drop(held);
    take(&path).expect("free again");
    drop(copy);
}
