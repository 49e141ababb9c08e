//! Many operations at once: whose bytes are whose, and who works when the queues are full.

use super::*;

/// Awaits all of `ops`, in any order.
fn join<T: Unpin>(ops: Vec<Op<T>>) -> Vec<crate::Result<T>> {
    struct Join<T>(Vec<Result<crate::Result<T>, Op<T>>>);
    impl<T: Unpin> Future for Join<T> {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let mut pending = false;
            for slot in &mut self.0 {
                if let Err(op) = slot {
                    match Pin::new(op).poll(cx) {
                        Poll::Ready(result) => *slot = Ok(result),
                        Poll::Pending => pending = true,
                    }
                }
            }
            if pending { Poll::Pending } else { Poll::Ready(()) }
        }
    }
    impl<T> Unpin for Join<T> {}
    let mut join = Join(ops.into_iter().map(Err).collect());
    block_on(&mut join);
    join.0.into_iter().map(|slot| slot.unwrap_or_else(|_| panic!("still pending"))).collect()
}

#[test]
fn many_operations_from_many_threads_each_get_their_own_bytes() {
    const PAGES: u64 = 256;
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        let writes = (0..PAGES).map(|number| file.write_at(number * PAGE as u64, page(number), FLUSH)).collect();
        for result in join(writes) {
            result.unwrap();
        }
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..20 {
                        let wanted: Vec<u64> = (0..32).map(|_| rng.below(PAGES)).collect();
                        let read = |number: &u64| file.read_at(number * PAGE as u64, AlignedBuf::with_len(PAGE), READ);
                        for (number, result) in wanted.iter().zip(join(wanted.iter().map(read).collect())) {
                            assert!(result.unwrap()[..] == page(*number)[..], "page {number}");
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn a_dropped_operation_is_still_done_and_its_buffer_lives_until_then() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        for number in 0..64 {
            drop(file.write_at(number * PAGE as u64, page(number), FLUSH));
        }
        // Reads dropped in flight: were their buffers freed, the device would write into the next ones, which are
        // checked below.
        for number in 0..64 {
            drop(file.read_at(number * PAGE as u64, AlignedBuf::with_len(PAGE), READ));
            let mine = page(1000 + number);
            assert!(mine[..] == page(1000 + number)[..]);
        }
        // The last owners go: nothing submitted may be lost.
        drop((file, fs));
        let bytes = std::fs::read(dir.at("table")).unwrap();
        assert_eq!(bytes.len(), 64 * PAGE);
        for (number, bytes) in bytes.chunks(PAGE).enumerate() {
            assert!(*bytes == page(number as u64)[..], "page {number}");
        }
    });
}

#[test]
fn at_the_end_everything_submitted_has_completed() {
    const COUNT: u64 = 100;
    type Submit = fn(&dyn File, u64) -> Op<AlignedBuf>;
    let write: Submit = |file, number| file.write_at(number * PAGE as u64, page(number), READ);
    let read: Submit = |file, number| file.read_at(number * PAGE as u64, AlignedBuf::with_len(PAGE), READ);
    for backend in [Backend::Threads, Backend::Uring] {
        let dir = Dir::new();
        drop(open(&with_backend(backend), &dir.at("log"), OpenOptions::create_new()));
        // One kind at a time: waiting for the writes would give the reads all the time they need.
        for submit in [write, read] {
            let fs = with_backend(backend);
            let options = OpenOptions { write: true, dsync: true, ..OpenOptions::read() };
            let file = open(&fs, &dir.at("log"), options);
            let mut ops: Vec<_> = (0..COUNT).map(|number| submit(&*file, number)).collect();
            drop((file, fs));
            for op in &mut ops {
                let Poll::Ready(result) = Pin::new(op).poll(&mut Context::from_waker(Waker::noop())) else {
                    panic!("still under way")
                };
                assert_eq!(result.unwrap().len(), PAGE);
            }
        }
    }
}

#[test]
fn a_full_queue_makes_the_caller_work_and_loses_nothing() {
    let dir = Dir::new();
    let options = RealFsOptions {
        backend: Backend::Threads,
        foreground_threads: 1,
        background_threads: 1,
        queue_max: 1,
        probe_dir: None,
    };
    let fs = RealFs::new(options);
    let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
    let writes = (0..100).map(|number| file.write_at(number * PAGE as u64, page(number), FLUSH)).collect();
    for result in join(writes) {
        result.unwrap();
    }
    assert_eq!(block_on(file.len()).unwrap(), 100 * PAGE as u64);
}

#[test]
fn more_reads_than_the_ring_holds_all_come_back() {
    let (fs, dir) = (with_backend(Backend::Uring), Dir::new());
    let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
    block_on(file.write_at(0, page(3), FLUSH)).unwrap();
    let reads = (0..1000).map(|_| file.read_at(0, AlignedBuf::with_len(PAGE), READ)).collect();
    for result in join(reads) {
        assert!(result.unwrap()[..] == page(3)[..]);
    }
}

#[test]
fn what_a_thread_submitted_outlives_it() {
    // The kernel cancels requests that a dying thread left in a ring: they must be done all the same.
    each_way(|fs, dir| {
        let options = OpenOptions { dsync: true, ..OpenOptions::create_new() };
        let file = open(&fs, &dir.at("log"), options);
        for round in 0..20 {
            let writes = || -> Vec<_> {
                (0..8).map(|i| file.write_at((round * 8 + i) * PAGE as u64, page(round * 8 + i), READ)).collect()
            };
            let reads = || -> Vec<_> {
                let read = |i| file.read_at((round * 8 + i) * PAGE as u64, AlignedBuf::with_len(PAGE), READ);
                (0..8).map(read).collect()
            };
            for result in join(std::thread::scope(|scope| scope.spawn(writes).join().unwrap())) {
                result.unwrap();
            }
            for (i, result) in
                join(std::thread::scope(|scope| scope.spawn(reads).join().unwrap())).into_iter().enumerate()
            {
                assert!(result.unwrap()[..] == page(round * 8 + i as u64)[..]);
            }
        }
    });
}

#[test]
fn what_the_page_cache_lacks_is_fetched() {
    each_way(|fs, dir| {
        let path = dir.at("log");
        let log = open(&fs, &path, OpenOptions::create_new_buffered());
        let content: Vec<u8> = (0..200_003_u32).map(|i| (i % 251) as u8).collect();
        block_on(log.write_at(0, AlignedBuf::copy_of(&content), FLUSH)).unwrap();
        block_on(log.sync(FLUSH)).unwrap();
        let evict = |offset, len| {
            let file = std::fs::File::open(&path).unwrap();
            rustix::fs::fadvise(&file, offset, std::num::NonZeroU64::new(len), rustix::fs::Advice::DontNeed).unwrap();
        };
        for (offset, len) in [(0, 200_003), (64 << 10, 64 << 10)] {
            // First the whole range is evicted, and then a part in the middle: that read begins in the cache and goes
            // on elsewhere.
            evict(offset, len);
            let read = block_on(log.read_at(1, AlignedBuf::with_len(300_000), READ)).unwrap();
            assert!(read[..] == content[1..]);
        }
    });
}

#[test]
fn foreground_work_does_not_wait_for_blocked_background_work() {
    let threads = threads::Threads::new(1, 2, 100);
    let gate = Arc::new(parking_lot::Mutex::new(()));
    let closed = gate.lock();
    for _ in 0..50 {
        let gate = Arc::clone(&gate);
        threads.submit(threads::Lane::Background, threads::Task::Call(Box::new(move || drop(gate.lock()))));
    }
    let (counter, waker) = Counter::new();
    threads.submit(threads::Lane::Foreground, threads::Task::Call(Box::new(move || waker.wake())));
    counter.wait_for(1);
    drop(closed);
}

#[test]
fn the_backend_is_measured_where_asked_and_leaves_nothing_behind() {
    let dir = Dir::new();
    let fs = RealFs::new(RealFsOptions { probe_dir: Some(dir.0.clone()), ..RealFsOptions::default() });
    assert_ne!(fs.backend().backend, Backend::Auto);
    assert!(!fs.backend().reason.is_empty());
    assert_eq!(block_on(fs.list(&dir.0, FLUSH)).unwrap(), []);
    // Where nothing can be measured, there is still a backend.
    let fs = RealFs::new(RealFsOptions { probe_dir: Some(dir.at("missing")), ..RealFsOptions::default() });
    assert_ne!(fs.backend().backend, Backend::Auto);
}

#[test]
fn a_measurement_removes_what_one_that_was_killed_has_left() {
    let dir = Dir::new();
    for name in [".weir-probe-1", ".weir-probe-4000000000", "other"] {
        std::fs::write(dir.at(name), b"").unwrap();
    }
    let [threads, ring] = [(); 2].map(|()| device::Device::new(&RealFsOptions::default(), None));
    choose::measure(&dir.0, &threads, &ring).unwrap();
    let left = block_on(RealFs::new(RealFsOptions::default()).list(&dir.0, FLUSH)).unwrap();
    assert_eq!(left.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["other"]);
}

#[test]
fn the_faster_backend_is_chosen_and_the_ring_on_a_tie() {
    assert_eq!(choose::choice(50_000.0, 30_000.0).backend, Backend::Threads);
    assert_eq!(choose::choice(50_000.0, 50_000.0).backend, Backend::Uring);
    assert_eq!(choose::choice(50_000.0, 46_000.0).backend, Backend::Uring);
}
