//! The gated file system over a disk that remembers what it was asked for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::*;
use proptest::prelude::*;
use weir_admission::waits::{self, Followed};
use weir_admission::{
    Direction, Gate, GatedFs, Ledger, Limits, OwnGate, PartitionGate, Parts, Rank, Rates, ReadQueue, Sharers,
    UNLIMITED, Wait,
};
use weir_io::sim::Sim;
use weir_io::{AlignedBuf, Class, File, Fs, Nanos, Op, OpenOptions, Owner, PAGE, Tag, sleep_until};

/// A node with a disk and partitions on it.
struct Node {
    sim: Sim,
    disk: Arc<TraceDisk>,
    gate: Arc<Gate>,
    ledger: Arc<Ledger>,
}

struct Partition {
    gate: Arc<PartitionGate>,
    file: Arc<dyn File>,
}

impl Node {
    fn new(seed: u64, limits: Limits, ns_per_byte: u64) -> Self {
        let sim = Sim::new(seed);
        let disk = TraceDisk::new(sim.clock(), ns_per_byte);
        let gate = node_gate(&sim, limits);
        Self { sim, disk, gate, ledger: Ledger::new() }
    }

    fn partition(&self, number: u32) -> Partition {
        let gate = PartitionGate::new(owner(number), &self.sim.clock());
        let inner = Arc::new(TraceFs(Arc::clone(&self.disk)));
        let fs = GatedFs::partition(inner, Arc::clone(&gate), Arc::clone(&self.gate), &self.ledger, self.sim.spawner());
        let open = fs.open(Path::new("file"), OpenOptions::read(), tag(Class::Maintenance));
        Partition { gate, file: self.sim.block_on(open).expect("the disk has one file") }
    }

    fn issued(&self, write: bool) -> u64 {
        self.disk.seen.lock().iter().filter(|seen| seen.write == write).map(|seen| seen.bytes as u64).sum()
    }

    /// Asserts that the ledger and the disk say the same.
    fn check_books(&self) {
        let total = self.ledger.total();
        for (direction, write) in [(Direction::Read, false), (Direction::Write, true)] {
            assert_eq!(total.total(direction).bytes, self.issued(write), "{direction:?}");
            let ops = self.disk.seen.lock().iter().filter(|seen| seen.write == write).count() as u64;
            assert_eq!(total.total(direction).ops, ops, "{direction:?}");
        }
    }
}

fn tag(class: Class) -> Tag {
    // The owner in the tag does not count: the file system has an owner of its own.
    Tag::new(Owner::default(), class)
}

fn pattern(len: usize) -> AlignedBuf {
    let bytes: Vec<u8> = (0..len).map(|index| (index / 7 % 251) as u8).collect();
    AlignedBuf::copy_of(&bytes)
}

#[test]
fn background_is_cut_into_grants_and_foreground_is_not() {
    let node = Node::new(1, Limits::bytes(100_000_000), 10);
    let partition = node.partition(1);
    let len = 1 << 20;
    let written = node.sim.block_on(partition.file.write_at(0, pattern(len), tag(Class::Flush))).expect("no faults");
    assert_eq!(&*written, &*pattern(len), "the buffer comes back whole");
    assert_eq!(&node.disk.content.lock()[..], &*pattern(len));
    let largest = node.disk.seen.lock().iter().map(|seen| seen.bytes).max();
    assert_eq!(largest, Some(49_152));
    // Across the end of the file: the last piece is short, and what lies beyond the end is not asked for again and
    // again.
    let offset = len as u64 - 100 * PAGE as u64;
    for class in [Class::CompactDeep, Class::Read] {
        node.disk.seen.lock().clear();
        let got = node.sim.block_on(partition.file.read_at(offset, AlignedBuf::with_len(len), tag(class)));
        assert_eq!(&*got.expect("no faults"), &pattern(len)[offset as usize..], "{class:?}");
        let pieces = node.disk.seen.lock().len();
        assert_eq!(pieces, if class == Class::Read { 1 } else { 100_usize.div_ceil(12) + 1 }, "{class:?}");
    }
    // The I/O of a slow partition is cut into smaller pieces, which its burst can hold.
    partition.gate.background().set_limits(Limits::bytes(1_000_000));
    node.disk.seen.lock().clear();
    node.sim.block_on(partition.file.write_at(0, pattern(100_000), tag(Class::Flush))).expect("no faults");
    assert!(node.disk.seen.lock().iter().all(|seen| seen.bytes <= 16_384));
}

#[test]
fn no_node_token_is_held_while_waiting_at_the_partition() {
    // FX-16.
    let node = Node::new(2, Limits::bytes(100_000_000), 0);
    let partition = node.partition(1);
    partition.gate.foreground().set_limits(Limits::bytes(1_000_000));
    let full = node.gate.tokens(Direction::Read);
    node.disk.content.lock().resize(1 << 20, 0);
    let read = |len| partition.file.read_at(0, AlignedBuf::with_len(len), tag(Class::Read));
    // Drains the partition's burst of 100 ms and leaves a debt of 100 ms.
    node.sim.block_on(read(200_000)).expect("no faults");
    node.sim.run_until(50 * MS);
    assert_eq!(node.gate.tokens(Direction::Read), full);
    let waiting = read(4096);
    assert!(matches!(waiting, Op::Pending(_)));
    assert_eq!(partition.gate.foreground().waiting(Rank::Foreground), 1);
    assert_eq!(node.gate.tokens(Direction::Read), full, "waits at the partition, has nothing of the node");
    assert_eq!(node.gate.waiting(Rank::Foreground), 0);
    assert_eq!(node.disk.seen.lock().len(), 1);
    node.sim.block_on(waiting).expect("no faults");
    assert_eq!(node.sim.now(), 100 * MS + 4096 * US, "debt first, then 4096 bytes at 1 byte/us");
    assert_eq!(node.gate.tokens(Direction::Read), full - 4096);
    node.check_books();
}

#[test]
fn how_long_clients_wait_at_which_gate_is_booked() {
    let node = Node::new(2, Limits::bytes(10_000_000), 0);
    let partition = node.partition(1);
    node.disk.content.lock().resize(1 << 20, 0);
    // Each leaves a debt at one gate that the next one waits for.
    let read = |class| {
        let began = node.sim.now();
        let read = partition.file.read_at(0, AlignedBuf::with_len(400_000), tag(class));
        let request = Followed::new(async {
            read.await.expect("no faults");
            waits::so_far()
        });
        let [quota, stall, gates @ ..] = node.sim.block_on(request);
        assert_eq!([quota, stall], [0, 0]);
        // The sums of the request are the time that it has waited.
        let took = node.sim.now() - began;
        assert!(class == Class::CompactDeep || gates.iter().sum::<Nanos>() == took, "{gates:?} of {took}");
        took
    };
    let waited = || [Wait::Partition, Wait::Node].map(|wait| node.ledger.total().waited(wait));
    read(Class::Read);
    assert_eq!(waited(), [0, 0], "a full bucket");
    let at_node = read(Class::Read);
    assert!(at_node >= 10 * MS);
    assert_eq!(waited(), [0, at_node]);
    node.gate.set_limits(Limits::UNLIMITED);
    partition.gate.foreground().set_limits(Limits::bytes(1_000_000));
    read(Class::Read);
    let at_partition = read(Class::Read);
    assert!(at_partition >= 10 * MS);
    assert_eq!(waited(), [at_partition, at_node]);
    partition.gate.background().set_limits(Limits::bytes(1_000_000));
    assert!(read(Class::CompactDeep) >= 10 * MS);
    assert_eq!(waited(), [at_partition, at_node], "no client waits for a compaction");
}

#[test]
fn who_has_waited_to_read_all_the_time_is_told_from_who_has_not() {
    let node = Node::new(3, Limits::bytes(1_000_000), 0);
    let (partition, account) = (node.partition(1), node.ledger.account(owner(1)));
    let read = |class| partition.file.read_at(0, AlignedBuf::with_len(100_000), tag(class));
    let queue = || account.read_queue();
    node.sim.block_on(read(Class::Read)).expect("no faults");
    let (one, other, log) = (read(Class::Read), read(Class::Read), read(Class::Log));
    assert_eq!(queue(), ReadQueue { waiting: 2, emptied: 0 }, "others than reads do not count");
    node.sim.block_on(one).expect("no faults");
    assert_eq!(queue(), ReadQueue { waiting: 1, emptied: 0 }, "somebody has waited all the time");
    drop(other);
    assert_eq!(queue(), ReadQueue { waiting: 0, emptied: 1 }, "it gave up");
    let next = read(Class::Read);
    assert_eq!(queue(), ReadQueue { waiting: 1, emptied: 1 }, "not all the time");
    node.gate.set_limits(Limits::UNLIMITED);
    partition.gate.foreground().set_limits(Limits::bytes(1_000));
    node.sim.block_on(async { (next.await.expect("no faults"), log.await.expect("no faults")) });
    drop(read(Class::Read));
    let at_own_gate = read(Class::Read);
    assert_eq!(queue(), ReadQueue { waiting: 0, emptied: 2 }, "what its tenant bought is nobody else's fault");
    drop(at_own_gate);
}

#[test]
fn giving_up_at_the_node_gives_the_partition_its_tokens_back() {
    let node = Node::new(3, Limits::bytes(1_000_000), 0);
    let partition = node.partition(1);
    partition.gate.foreground().set_limits(Limits::bytes(10_000_000));
    let file = &partition.file;
    node.sim.block_on(file.write_at(0, pattern(500_000), tag(Class::Log))).expect("no faults");
    node.sim.run_until(200 * MS);
    let full = partition.gate.foreground().tokens(Direction::Write);
    for polled in [false, true] {
        let mut op = file.write_at(0, pattern(8192), tag(Class::Log));
        if polled {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::future::Future::poll(std::pin::Pin::new(&mut op), &mut context).is_pending());
        }
        assert_eq!(node.gate.waiting(Rank::Foreground), 1);
        assert_eq!(partition.gate.foreground().tokens(Direction::Write), full - 8192);
        drop(op);
        assert_eq!(node.gate.waiting(Rank::Foreground), 0);
        assert_eq!(partition.gate.foreground().tokens(Direction::Write), full);
    }
    node.check_books();
}

#[test]
fn a_read_never_waits_behind_a_wall_of_compaction() {
    // House rule 6: 32 partitions write as much as they can through a device of 100 MB/s; reads go on.
    let node = Node::new(4, Limits::bytes(100_000_000), 10);
    node.disk.content.lock().resize(8 << 20, 0);
    for number in 0..32 {
        let partition = node.partition(number);
        node.sim.spawn(async move {
            loop {
                partition.file.write_at(0, pattern(1 << 20), tag(Class::CompactDeep)).await.expect("no faults");
            }
        });
    }
    let reader = node.partition(99);
    let (clock, mut rng) = (node.sim.clock(), node.sim.rng());
    let mut latencies: Vec<Nanos> = node.sim.block_on(async {
        let mut latencies = Vec::new();
        while clock.now() < 10 * SEC {
            sleep_until(&clock, clock.now() + rng.below(2 * MS)).await;
            let asked = clock.now();
            let buf = AlignedBuf::with_len(4096);
            reader.file.read_at(rng.below(1000) * 4096, buf, tag(Class::Read)).await.expect("no faults");
            latencies.push(clock.now() - asked);
        }
        latencies
    });
    assert!(latencies.len() > 3000);
    let (p99, worst) = (percentile(&mut latencies, 0.99), percentile(&mut latencies, 1.0));
    assert!(*node.disk.longest_queue.lock() <= 2 * MS, "{} ns queued", node.disk.longest_queue.lock());
    assert!(p99 <= 2 * MS && worst <= 3 * MS, "p99 {p99} ns, worst {worst} ns");
    let total = node.issued(true) + node.issued(false);
    assert!(total as f64 > 0.98 * 10.0 * 1e8, "the device is kept busy: {total}");
    node.check_books();
}

#[test]
fn an_urgent_flush_passes_as_foreground_and_is_booked_as_flush() {
    // U-11.
    let node = Node::new(5, Limits::bytes(10_000_000), 0);
    let (busy, stalled) = (node.partition(1), node.partition(2));
    let reads = Arc::new(AtomicU64::new(0));
    for _ in 0..8 {
        let (file, reads) = (Arc::clone(&busy.file), Arc::clone(&reads));
        node.sim.spawn(async move {
            loop {
                file.write_at(0, pattern(8192), tag(Class::Log)).await.expect("no faults");
                reads.fetch_add(1, Relaxed);
            }
        });
    }
    node.sim.run_until(SEC);
    // One write waits at its partition's gate, which has no rate; the other waits at the node's gate, behind strict
    // foreground.
    stalled.gate.background().set_limits(Limits::bytes(65_536));
    let at_the_node = stalled.file.write_at(0, pattern(4096), tag(Class::Flush));
    node.sim.run_until(2 * SEC);
    assert_eq!((node.gate.waiting(Rank::Flush), stalled.gate.background().waiting(Rank::Flush)), (1, 0));
    stalled.gate.background().set_limits(Limits::bytes(0));
    let at_its_own = stalled.file.write_at(16_384, pattern(4096), tag(Class::Flush));
    node.sim.run_until(3 * SEC);
    assert_eq!((node.gate.waiting(Rank::Flush), stalled.gate.background().waiting(Rank::Flush)), (1, 1));
    // The flush becomes urgent: writes from now on pass, and writes that wait keep their places.
    stalled.gate.set_flush_is_urgent(true);
    let before = node.sim.now();
    node.sim.block_on(stalled.file.write_at(0, pattern(28_672), tag(Class::Flush))).expect("no faults");
    assert!(node.sim.now() - before < 100 * MS);
    assert_eq!((node.gate.waiting(Rank::Flush), stalled.gate.background().waiting(Rank::Flush)), (1, 1));
    // A client awaits the partition: writes that wait pass, too.
    stalled.gate.set_is_awaited(true);
    let before = node.sim.now();
    for write in [at_its_own, at_the_node, stalled.file.write_at(0, pattern(28_672), tag(Class::Flush))] {
        node.sim.block_on(write).expect("no faults");
    }
    assert!(node.sim.now() - before < 100 * MS);
    let booked = node.ledger.account(owner(2)).booked();
    assert_eq!(booked[(Class::Flush, Direction::Write)].bytes, 65_536);
}

#[test]
fn nobody_waits_long_behind_an_urgent_flush_of_his_own_partition() {
    // A partition of 1 MB/s whose flush of 1 MiB may pass as foreground: its next tokens are 4 ms away at any time.
    let node = Node::new(8, Limits::bytes(100_000_000), 0);
    node.disk.is_cached.store(true, Relaxed);
    node.disk.content.lock().resize(4 << 20, 0);
    let partition = node.partition(1);
    partition.gate.foreground().set_limits(Limits::bytes(1_000_000));
    partition.gate.set_flush_is_urgent(true);
    let flushed = Arc::new(AtomicU64::new(0));
    let (file, told, clock) = (Arc::clone(&partition.file), Arc::clone(&flushed), node.sim.clock());
    node.sim.spawn(async move {
        file.write_at(0, pattern(1 << 20), tag(Class::Flush)).await.expect("no faults");
        told.store(clock.now(), Relaxed);
    });
    node.sim.run_until(200 * MS);
    for number in 0..20 {
        let asked = node.sim.now();
        let record = AlignedBuf::with_len(PAGE);
        node.sim
            .block_on(partition.file.write_at((512 + number) * PAGE as u64, record, tag(Class::Log)))
            .expect("no faults");
        assert_eq!(node.sim.now(), asked, "a record moves nothing yet");
        let read = AlignedBuf::with_len(PAGE);
        node.sim.block_on(partition.file.read_at(0, read, tag(Class::Read))).expect("no faults");
        // The read waits for the record, two pieces of the flush and itself, 4.1 ms each.
        assert!(node.sim.now() - asked < 17 * MS, "{} ns", node.sim.now() - asked);
        node.sim.run_until(asked + 40 * MS);
    }
    node.sim.run_until(4 * SEC);
    // The time of all bytes together, less the burst.
    let (flushed, bytes) = (flushed.load(Relaxed), (1 << 20) + 40 * PAGE as u64);
    assert!((SEC..SEC * bytes / 1_000_000).contains(&flushed), "the flush is paid for: {flushed} ns");
}

#[test]
fn a_sync_is_one_operation() {
    let node = Node::new(6, Limits::Shared(Rates { bytes: UNLIMITED, ops: 100 }), 0);
    let partition = node.partition(1);
    node.sim.block_on(async {
        for _ in 0..101 {
            partition.file.sync(tag(Class::Log)).await.expect("no faults");
        }
    });
    assert_eq!(node.sim.now(), SEC);
    node.check_books();
}

#[test]
fn what_the_page_cache_takes_in_leaves_a_bounded_debt_of_operations() {
    // A thousand operations a second, and ten times as many small writes at once: all into one page; each into the page
    // next to the one before; each into a page of its own, far away.
    for (step, waits) in [(0, false), (PAGE as u64, false), (8 * PAGE as u64, true)] {
        let node = Node::new(7, Limits::Shared(Rates { bytes: 10_000_000_000, ops: 1000 }), 0);
        node.disk.is_cached.store(true, Relaxed);
        node.disk.content.lock().resize(1 << 20, 0);
        let (writer, reader) = (node.partition(1), node.partition(2));
        let done = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&done);
        node.sim.spawn(async move {
            for number in 0..10_000 {
                let buf = AlignedBuf::with_len(100);
                writer.file.write_at(number * step, buf, tag(Class::Log)).await.expect("no faults");
                counter.fetch_add(1, Relaxed);
            }
        });
        node.sim.run_until(MS);
        assert_eq!(done.load(Relaxed) < 10_000, waits, "{step}: {}", done.load(Relaxed));
        let took = read_4k(&node, &reader);
        assert!(took <= if waits { 210 * MS } else { 0 }, "{step}: {took} ns");
    }
}

/// How long a client's read takes.
fn read_4k(node: &Node, reader: &Partition) -> Nanos {
    let before = node.sim.now();
    let read = reader.file.read_at(0, AlignedBuf::with_len(4096), tag(Class::Read));
    node.sim.block_on(read).expect("no faults");
    node.sim.now() - before
}

#[test]
fn more_than_the_page_cache_may_take_in_starves_no_reader() {
    // An open loop of writes at twice the rate.
    let node = Node::new(8, Limits::Shared(Rates { bytes: 10_000_000_000, ops: 1000 }), 0);
    node.disk.is_cached.store(true, Relaxed);
    node.disk.content.lock().resize(1 << 20, 0);
    let (writer, reader) = (node.partition(1), node.partition(2));
    let (clock, spawner) = (node.sim.clock(), node.sim.spawner());
    node.sim.spawn(async move {
        for number in 0..20_000 {
            sleep_until(&clock, number * MS / 2).await;
            let write = writer.file.write_at(number * 8 * PAGE as u64, AlignedBuf::with_len(100), tag(Class::Log));
            spawner.spawn(Box::pin(async move { drop(write.await) }));
        }
    });
    node.sim.run_until(SEC);
    for _ in 0..10 {
        let took = read_4k(&node, &reader);
        assert!(took <= 210 * MS, "{took} ns");
    }
}

/// One I/O of a random day: class, offset, length in pages, whether it writes, and how long to wait before dropping it.
#[derive(Clone, Debug)]
struct Io {
    class: Class,
    page: u64,
    pages: usize,
    write: bool,
    drop_after: Option<Nanos>,
}

fn io() -> impl Strategy<Value = Io> {
    (0_usize..6, 0_u64..64, 1_usize..200, any::<bool>(), prop::option::weighted(0.2, 0..3 * MS)).prop_map(
        |(class, page, pages, write, drop_after)| Io { class: Class::ALL[class], page, pages, write, drop_after },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever the rates are, a file behind the gates reads and writes as without them, and what the disk was asked
    /// for is what was booked. With drops, the books still hold everything that was issued.
    #[test]
    fn gates_change_when_and_never_what(
        ios in prop::collection::vec(io(), 1..40),
        node_rate in prop_oneof![Just(UNLIMITED), Just(20_000_000), Just(400_000_000)],
        own_rate in prop_oneof![Just(UNLIMITED), Just(3_000_000), Just(100_000_000)],
    ) {
        let node = Node::new(7, Limits::bytes(node_rate), 5);
        let partition = node.partition(1);
        partition.gate.foreground().set_limits(Limits::bytes(own_rate));
        partition.gate.background().set_limits(Limits::bytes(own_rate));
        let mut model: Vec<u8> = Vec::new();
        let mut dropped = false;
        for (number, io) in ios.into_iter().enumerate() {
            let (start, len) = (io.page as usize * PAGE, io.pages * PAGE);
            if io.write && io.drop_after.is_none() {
                let buf = AlignedBuf::copy_of(&vec![number as u8 + 1; len]);
                model.resize(model.len().max(start + len), 0);
                model[start..start + len].fill(number as u8 + 1);
                node.sim.block_on(partition.file.write_at(start as u64, buf, tag(io.class))).expect("no faults");
            } else {
                let mut op = partition.file.read_at(start as u64, AlignedBuf::with_len(len), tag(io.class));
                if let Some(after) = io.drop_after {
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    if let std::task::Poll::Ready(result) = std::future::Future::poll(std::pin::Pin::new(&mut op), &mut context) {
                        result.expect("no faults");
                    } else {
                        node.sim.run_until(node.sim.now() + after);
                        drop(op);
                        dropped = true;
                    }
                    continue;
                }
                let got = node.sim.block_on(op).expect("no faults");
                let end = model.len().min(start + len);
                prop_assert_eq!(&*got, &model[start.min(end)..end]);
            }
        }
        node.sim.run_until(node.sim.now() + SEC);
        prop_assert!(Rank::ALL.iter().all(|&rank| node.gate.waiting(rank) == 0));
        if dropped {
            // A dropped read across the end of the file is booked as it was asked for: nobody saw how much it got.
            prop_assert!(node.ledger.total().total(Direction::Read).bytes >= node.issued(false));
            prop_assert_eq!(node.ledger.total().total(Direction::Write).bytes, node.issued(true));
        } else {
            node.check_books();
        }
    }
}

#[test]
fn a_partition_borrows_from_an_idle_node_and_gives_way_within_a_quantum() {
    // C-9: 10 MB/s are reserved, and the node has 100 MB/s.
    let sim = Sim::new(9);
    let node = node_gate(&sim, Limits::bytes(100_000_000));
    let disk = TraceDisk::new(sim.clock(), 0);
    let (clock, ledger) = (sim.clock(), Ledger::new());
    // An open loop of `rate` bytes a second.
    let read = |number: u32, borrows: bool, rate: u64, from: Nanos| {
        let gate = PartitionGate::new(owner(number), &sim.clock());
        gate.foreground().set_limits(Limits::bytes(10_000_000));
        gate.set_borrows(borrows);
        let inner = Arc::new(TraceFs(Arc::clone(&disk)));
        let fs = GatedFs::partition(inner, Arc::clone(&gate), Arc::clone(&node), &ledger, sim.spawner());
        let (clock, spawner) = (sim.clock(), sim.spawner());
        sim.spawn(async move {
            let tag = Tag::new(owner(number), Class::Log);
            let file = fs.open(Path::new("file"), OpenOptions::read(), tag).await.expect("no faults");
            for io in 0..3 * rate / 40_000 {
                sleep_until(&clock, from + io * 40_000 * SEC / rate).await;
                let file = Arc::clone(&file);
                spawner.spawn(Box::pin(async move {
                    let buf = AlignedBuf::with_len(40_960);
                    drop(file.write_at(0, buf, tag).await.expect("no faults"));
                }));
            }
        });
        ledger.account(owner(number))
    };
    let written = |account: &weir_admission::Account| account.booked()[(Class::Log, Direction::Write)].bytes as f64;
    let (strict, borrowing) = (read(1, false, 40_000_000, 0), read(2, true, 40_000_000, 0));
    sim.run_until(SEC);
    assert!((written(&strict) / 11_000_000.0 - 1.0).abs() < 0.02, "{}", written(&strict));
    assert!((written(&borrowing) / 40_960_000.0 - 1.0).abs() < 0.02, "{}", written(&borrowing));
    // Another owner needs all that the node can do: what was lent is back, except for a quantum's worth.
    let (full, node_gate) = (Arc::clone(&node), Arc::clone(&node));
    sim.spawn(async move {
        loop {
            drop(full.request(owner(9), Rank::Flush, Direction::Write, 40_960).await);
        }
    });
    let before = written(&borrowing);
    sim.run_until(SEC + 500 * MS);
    let got = written(&borrowing) - before;
    assert!(got <= 10_000_000.0 * 0.5 + 1_000_000.0 + 500_000.0, "{got} bytes in half a second");
    assert!(clock.now() == SEC + 500 * MS && node_gate.tokens(Direction::Write) < 1_000_000);
}

#[test]
fn a_slow_device_is_kept_busy_by_jobs_that_look_at_one_io_at_a_time() {
    // A grant of 4 KiB takes a millisecond of this device: only one is in flight at a time.
    let node = Node::new(8, Limits::bytes(4_000_000), 250);
    let partitions: Vec<Partition> = (0..8).map(|number| node.partition(number)).collect();
    node.disk.content.lock().resize(8 << 20, 0);
    for partition in partitions {
        partition.gate.background().set_limits(Limits::bytes(1_000_000));
        node.sim.spawn(async move {
            let read = || partition.file.read_at(0, AlignedBuf::with_len(32_768), tag(Class::CompactL0));
            let write = || partition.file.write_at(0, pattern(32_768), tag(Class::CompactL0));
            let mut ahead = read();
            loop {
                // Like a merge: it asks for the next window, and then writes what it made of the last one.
                let writes = [write(), write()];
                for write in writes {
                    write.await.expect("no faults");
                }
                ahead.await.expect("no faults");
                ahead = read();
            }
        });
    }
    node.sim.run_until(10 * SEC);
    let total = node.issued(true) + node.issued(false);
    assert!(total as f64 > 0.9 * 10.0 * 4e6, "the device is kept busy: {total}");
}

/// Bytes with a value from 1 to 9 belong to the owner of that number, all other bytes to nobody.
struct ByByte(Arc<Ledger>);

impl Sharers for ByByte {
    fn parts(&self, buf: &[u8]) -> Parts {
        let of = |number: u8| buf.iter().filter(|byte| **byte == number).count() as u64;
        let owned = (1..=9).map(|number| (number, of(number))).filter(|(_, bytes)| *bytes > 0);
        owned.map(|(number, bytes)| (self.0.account(owner(number.into())), bytes)).collect()
    }
}

#[test]
fn what_several_write_to_one_file_is_booked_to_each_by_its_part_and_nothing_is_lost() {
    let node = Node::new(1, Limits::UNLIMITED, 0);
    let inner = Arc::new(TraceFs(Arc::clone(&node.disk)));
    let sharers = Arc::new(ByByte(Arc::clone(&node.ledger)));
    let fs = GatedFs::shared(inner, Owner::default(), Arc::clone(&node.gate), &node.ledger, sharers);
    let file =
        node.sim.block_on(fs.open(Path::new("file"), OpenOptions::read(), tag(Class::Log))).expect("it is there");
    let write = |class, buf: &[u8]| {
        let write = file.write_at(0, AlignedBuf::copy_of(buf), tag(class));
        node.sim.block_on(write).expect("nothing fails");
    };
    let mut page = vec![0; PAGE];
    page[..300].fill(1);
    page[300..400].fill(2);
    write(Class::Log, &page);
    // A header belongs to nobody, and so does what is not a record.
    write(Class::Log, &vec![0; PAGE]);
    write(Class::Maintenance, &page);
    let booked = |number| node.ledger.account(owner(number)).booked()[(Class::Log, Direction::Write)].bytes;
    assert_eq!((booked(1), booked(2)), (PAGE as u64 * 3 / 4, PAGE as u64 / 4));
    let own = node.ledger.account(Owner::default()).booked();
    assert_eq!(own[(Class::Log, Direction::Write)].bytes, PAGE as u64);
    assert_eq!(own[(Class::Maintenance, Direction::Write)].bytes, PAGE as u64);
    node.check_books();
}

#[test]
fn who_has_others_write_for_it_waits_at_its_own_gate_and_nobody_else_does() {
    let sim = Sim::new(1);
    let (node, ledger) = (node_gate(&sim, Limits::UNLIMITED), Ledger::new());
    let gates = [1, 2].map(|number| PartitionGate::new(owner(number), &sim.clock()));
    let rates = Rates::bytes(100 << 10);
    gates[0].set_foreground(Limits::Shared(rates), None);
    let own = gates.each_ref().map(|gate| OwnGate::new(Arc::clone(gate), Arc::clone(&node), &ledger));
    let passed = (0..).map(|_| own[0].pass(10 << 10, false)).take_while(Option::is_none).count();
    assert!(passed < 30, "a burst of a tenth of a second, or a handful: {passed}");
    let waiting = own[0].pass(10 << 10, false).expect("the burst is used up");
    assert!(own[1].pass(1 << 30, false).is_none(), "another one's gate");
    let began = sim.clock().now();
    sim.block_on(waiting);
    assert!(sim.clock().now() > began, "it has waited for tokens");
    assert!(ledger.account(owner(1)).booked().waited(Wait::Partition) > 0);
}
