//! The memory limit of long reads, also for reads that are not polled, or that are dropped.
#![allow(missing_docs, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::common::{SEC, TraceDisk, TraceFs, owner};
use weir_admission::ReadMemoryFs;
use weir_io::sim::Sim;
use weir_io::{Class, File, Fs, OpenOptions, Owner, Tag};

const TAG: Tag = Tag::new(Owner { tenant: 2, partition: 1 }, Class::Read);
const MIB: usize = 1 << 20;

/// A file of 8 MiB on a disk of 1 GB/s; all long reads together may take 4 MiB.
fn start(sim: &Sim) -> Arc<dyn File> {
    sim.set_time_limit(10 * SEC);
    let disk = TraceDisk::new(sim.clock(), 1);
    disk.content.lock().resize(8 * MIB, 7);
    let fs = ReadMemoryFs::new(Arc::new(TraceFs(disk)), 4 * MIB as u64);
    sim.block_on(fs.open("f".as_ref(), OpenOptions::read_buffered(), TAG)).expect("there is one file")
}

#[test]
fn a_read_that_nobody_polls_holds_no_memory() {
    let sim = Sim::new(1);
    let file = start(&sim);
    // An update has started reads of three values and awaits the first, which must read once more.
    let read = || file.read_new(0, 2 * MIB, Tag { owner: owner(1), ..TAG });
    let (first, second, third) = (read(), read(), read());
    sim.block_on(async {
        assert_eq!(first.await.expect("no faults").len(), 2 * MIB);
        assert_eq!(read().await.expect("no faults").len(), 2 * MIB);
        assert_eq!(file.read_new(0, 4 * MIB, TAG).await.expect("no faults").len(), 4 * MIB, "nor for another");
        assert_eq!(second.await.expect("no faults").len(), 2 * MIB);
        assert_eq!(third.await.expect("no faults").len(), 2 * MIB);
    });
}

#[test]
fn a_read_that_is_dropped_gives_its_memory_back() {
    let sim = Sim::new(1);
    let file = start(&sim);
    let mut reads: Vec<_> = (0..3).map(|_| file.read_new(0, 3 * MIB, TAG)).collect();
    // One read is under way and two wait; one of these was never polled.
    reads.iter_mut().take(2).for_each(|read| {
        let polled = Pin::new(read).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    });
    drop(reads);
    assert_eq!(sim.block_on(file.read_new(0, 8 * MIB, TAG)).expect("no faults").len(), 8 * MIB);
}
