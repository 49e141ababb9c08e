//! `examples/embed.rs` does what it says: runs that close and runs that crash, one after the other, lose nothing.
#![allow(clippy::disallowed_methods, missing_docs, reason = "a test on a real directory")]

#[path = "../examples/embed.rs"]
mod example;

use std::path::PathBuf;

#[test]
fn a_second_run_finds_what_the_first_one_wrote_closed_or_not() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("embed-{}", std::process::id()));
    let said = [false, true, false, false].iter().enumerate().map(|(number, &crash)| {
        example::run(&dir, number as u64 + 1, crash).unwrap_or_else(|error| panic!("run {number}: {error}"))
    });
    let said: Vec<String> = said.collect();
    std::fs::remove_dir_all(&dir).expect("ours");
    assert!(said[0].starts_with("found 0 keys, 0 records"), "{said:?}");
    assert!(said[1].starts_with("found 5000 keys, 0 records"), "the first run closed it: {said:?}");
    assert!(
        said[2].starts_with("found 10000 keys, ") && !said[2].contains(" keys, 0 records"),
        "the second did not: {said:?}"
    );
    assert!(said[3].starts_with("found 15000 keys, 0 records") && said[3].ends_with("20000"), "{said:?}");
}
