//! An unlimited gate allocates nothing, and neither does an I/O behind it that is done at once.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use common::*;
use weir_admission::{Direction, GatedFs, Ledger, Limits, PartitionGate, Quota, Rank, Request, Unit, UnitLimits};
use weir_io::sim::Sim;
use weir_io::{AlignedBuf, Class, Fs, Op, OpenOptions, Tag};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn passing_an_open_gate_allocates_nothing() {
    let sim = Sim::new(1);
    // The same holds when the gate is limited, as long as nothing waits.
    for limits in [Limits::UNLIMITED, Limits::bytes(1 << 40)] {
        let gate = node_gate(&sim, limits);
        let count = allocations(|| {
            for _ in 0..1000 {
                let request = gate.request(owner(1), Rank::Foreground, Direction::Read, 4096);
                assert!(matches!(request, Request::Ready(Some(_))));
            }
        });
        assert_eq!(count, 0, "{limits:?}");
        assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0, "the counter counts");
    }
}

#[test]
fn units_that_are_there_allocate_nothing() {
    let sim = Sim::new(1);
    for units in [0, 1 << 40] {
        let limits = UnitLimits { rcu: units, wcu: units, ..UnitLimits::default() };
        let quota = Quota::new(sim.clock(), &limits);
        let count = allocations(|| {
            for _ in 0..1000 {
                assert!(quota.try_admit(Unit::Read, 1) && quota.try_admit(Unit::Write, 3));
                quota.settle(Unit::Read, 0, 1, 2);
            }
        });
        assert_eq!(count, 0, "{units}");
    }
}

#[test]
fn an_io_that_is_done_at_once_allocates_nothing_on_its_way() {
    let sim = Sim::new(1);
    let disk = TraceDisk::new(sim.clock(), 0);
    disk.content.lock().resize(1 << 20, 0);
    disk.seen.lock().reserve(10_000);
    for limits in [Limits::UNLIMITED, Limits::bytes(1 << 40)] {
        let gate = PartitionGate::new(owner(1), &sim.clock());
        gate.foreground().set_limits(limits);
        let inner = Arc::new(TraceFs(Arc::clone(&disk)));
        let fs = GatedFs::partition(inner, gate, node_gate(&sim, limits), &Ledger::new(), sim.spawner());
        let tag = Tag::new(owner(1), Class::Log);
        let file = sim.block_on(fs.open(Path::new("file"), OpenOptions::read(), tag)).expect("no faults");
        let mut buf = AlignedBuf::with_len(4096);
        let count = allocations(|| {
            for _ in 0..1000 {
                let Op::Ready(Some(Ok(back))) = file.write_at(0, std::mem::take(&mut buf), tag) else {
                    panic!("nothing waits")
                };
                buf = back;
                let Op::Ready(Some(Ok(back))) = file.read_at(0, std::mem::take(&mut buf), tag) else {
                    panic!("nothing waits")
                };
                buf = back;
            }
        });
        assert_eq!(count, 0, "{limits:?}");
    }
}
