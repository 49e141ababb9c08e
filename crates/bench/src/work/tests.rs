//! Every work on a contestant in memory, right and wrong ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::contestant::Lane;
use crate::memory::Memory;

fn size() -> Size {
    Size { items: 500, value_bytes: 64, sync_items: 100, recovery_bytes: 16_000, reads: Until::Ops(400) }
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

/// Keeps `outstanding` tickets, and answers them in another order than it took them.
struct Shuffling(Box<dyn Contestant>, AtomicU64);

impl Contestant for Shuffling {
    fn version(&self) -> String {
        self.0.version()
    }
    fn remarks(&self) -> String {
        self.0.remarks()
    }
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value)
    }
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(key, see)
    }
    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.0.scan(from, limit, see)
    }
    fn settle(&self) -> Result<()> {
        self.0.settle()
    }
    fn shape(&self) -> String {
        self.0.shape()
    }
    fn lanes(&self, outstanding: usize) -> crate::contestant::Lanes {
        crate::contestant::Lanes { threads: 2, per_thread: outstanding / 2 }
    }
    fn read_lane(&self, outstanding: usize, lane: &mut dyn Lane) -> Result<()> {
        self.1.fetch_max(outstanding as u64, Ordering::Relaxed);
        loop {
            let mut tickets = Vec::new();
            while tickets.len() < outstanding
                && let Some(ticket) = lane.next()
            {
                tickets.push(ticket);
            }
            if tickets.is_empty() {
                return Ok(());
            }
            for ticket in tickets.into_iter().rev() {
                self.get(&ticket.key, &mut |value| lane.done(&ticket, Some(value)))?;
            }
        }
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

#[test]
fn a_contestant_may_keep_many_reads_under_way_on_few_threads() {
    let dir = dir("lanes");
    run_in(&dir, Task::Load).expect("the load runs");
    let open = |_: &Settings| -> Result<Box<dyn Contestant>> {
        Ok(Box::new(Shuffling(Memory::open(&dir), AtomicU64::new(0))))
    };
    let outcome = run(Task::Measure(Work::ReadRandom16), &open, &size(), 1, &|_| ()).expect("the work runs");
    assert_eq!(outcome.ops, 400);
    assert!(outcome.remarks.contains("2 threads x 8 reads"), "{}", outcome.remarks);
}
