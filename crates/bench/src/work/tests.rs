//! Every work on a contestant in memory, right and wrong ones.

use std::path::{Path, PathBuf};

use super::*;
use crate::entry::Entry;
use crate::harness::kept::{fresh, remove};
use crate::memory::{KEEPS_ROWS, Memory};

fn size() -> Size {
    Size { items: 500, value_bytes: 64, sync_items: 100, recovery_bytes: 16_000, parts: 800, reads: Until::Ops(400) }
}

/// A directory name of its own for every test; nothing is created there.
fn dir(name: &str) -> PathBuf {
    PathBuf::from("/memory").join(name)
}

fn run_in(dir: &Path, task: Task) -> Result<Outcome> {
    run(task, &|_| Ok(Memory::open(dir)), &size(), 1, &|_| ())
}

#[test]
fn names_are_found_again_and_an_unknown_one_is_explained() {
    for work in Work::ALL {
        assert_eq!(Work::parse(work.name()).expect("its own name"), work);
    }
    assert!(Work::parse("fillfast").expect_err("no such work").to_string().contains("fillrandom"));
}

#[test]
fn every_work_runs_to_its_end_and_counts_its_operations() {
    let dir = dir("every");
    for work in Work::ALL {
        if work == Work::Recovery {
            run_in(&dir, Task::LeaveLog).expect("the log is left");
        }
        let outcome = run_in(&dir, Task::Measure(work)).expect("the work runs");
        let expected = match work {
            Work::FillSeq | Work::FillRandom => 500,
            Work::FillSync => 100,
            Work::Recovery => 200,
            Work::DeleteRow => 1,
            _ => 400,
        };
        assert_eq!((outcome.ops, outcome.work.as_str()), (expected, work.name()));
        assert!(outcome.ops_per_sec > 0.0 && outcome.seconds > 0.0, "{outcome:?}");
    }
}

#[test]
fn a_lost_item_fails_the_reads() {
    let dir = dir("lost");
    for work in [Work::ReadRandom, Work::Scan] {
        let failure = run_in(&dir, Task::Measure(work)).expect_err("nothing is there to read");
        assert!(failure.to_string().contains("item"), "{failure}");
    }
}

#[test]
fn a_wrong_value_fails_the_reads() {
    let dir = dir("wrong");
    run_in(&dir, Task::Load).expect("the load runs");
    let store = Memory::open(&dir);
    (0..500).for_each(|item| store.put(&data::key(item), &[0xff; 64]).expect("memory takes it"));
    for work in [Work::ReadRandom, Work::ReadCached, Work::Scan] {
        run_in(&dir, Task::Measure(work)).expect_err("every value is wrong");
    }
}

#[test]
fn an_item_that_a_kill_lost_fails_the_recovery() {
    let dir = dir("killed");
    run_in(&dir, Task::Measure(Work::Recovery)).expect_err("no log was left");
}

#[test]
fn a_row_that_is_deleted_and_stays_fails_the_deletion() {
    let failure = run_in(&dir(KEEPS_ROWS), Task::Measure(Work::DeleteRow)).expect_err("it is there all the same");
    assert!(failure.to_string().contains("is there"), "{failure}");
}

/// What the deletion of a row of this many parts logs in a real store.
fn logged(engine: Engine, parts: u32) -> (u64, u64) {
    let dir = std::env::temp_dir().join(format!("weir-deleterow-{}-{}-{parts}", engine.name(), std::process::id()));
    fresh(&dir).expect("there is room");
    let entry = Entry { engine, library: None };
    let size = Size { parts, ..size() };
    let outcome = run(Task::Measure(Work::DeleteRow), &|settings| entry.open(&dir, settings), &size, 1, &|_| ());
    remove(&dir).expect("ours");
    let deletion = outcome.expect("the work runs").deletion.expect("it deletes");
    (deletion.log_records, deletion.log_bytes)
}

#[test]
fn the_log_takes_as_much_for_the_deletion_of_a_small_row_as_of_a_large_one() {
    for engine in [Engine::Weir, Engine::WeirMemory] {
        let (small, large) = (logged(engine, 8), logged(engine, 8000));
        // The cover says how many bytes are dead, in a varint.
        assert!(small.0 == large.0 && large.1 - small.1 <= 3, "{}: {small:?}, {large:?}", engine.name());
        assert_eq!(small.0, 1, "{}", engine.name());
    }
}
