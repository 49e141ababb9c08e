//! One suite for every backend, and what belongs to the machine alone.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::{AlignedBuf, Class, Clock, ErrorKind, File, Fs, Op, OpenOptions, Owner, PAGE, Rng, Spawn, Tag, yield_now};

const READ: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Read);
const FLUSH: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Flush);

/// A directory of its own per test, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("weir-io-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every way to drive the disk: each backend from a thread that may not block, and calls made inline.
fn each_way(test: impl Fn(Arc<RealFs>, &Dir)) {
    for backend in [Backend::Threads, Backend::Uring] {
        test(with_backend(backend), &Dir::new());
    }
    let _scope = blocking_scope();
    test(with_backend(Backend::Threads), &Dir::new());
}

fn with_backend(backend: Backend) -> Arc<RealFs> {
    RealFs::new(RealFsOptions { backend, ..RealFsOptions::default() })
}

fn open(fs: &RealFs, path: &Path, options: OpenOptions) -> Arc<dyn File> {
    block_on(fs.open(path, options, FLUSH)).unwrap()
}

/// A page that says which page it is.
fn page(number: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::with_len(PAGE);
    for chunk in buf.chunks_exact_mut(8) {
        chunk.copy_from_slice(&number.to_le_bytes());
    }
    buf
}

#[test]
fn direct_bytes_come_back() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        let mut all = AlignedBuf::new();
        for number in 0..64 {
            all.extend_from_slice(&page(number));
        }
        let written = block_on(file.write_at(0, all, FLUSH)).unwrap();
        block_on(file.sync(FLUSH)).unwrap();
        block_on(fs.sync_dir(&dir.0, FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), 64 * PAGE as u64);

        let again = open(&fs, &dir.at("table"), OpenOptions::read());
        let read = block_on(again.read_at(0, AlignedBuf::with_len(64 * PAGE), READ)).unwrap();
        assert!(read[..] == written[..]);
        let one = block_on(again.read_at(17 * PAGE as u64, AlignedBuf::with_len(PAGE), READ)).unwrap();
        assert!(one[..] == page(17)[..]);
    });
}

#[test]
fn a_read_across_the_end_is_cut_to_what_is_there() {
    each_way(|fs, dir| {
        let log = open(&fs, &dir.at("log"), OpenOptions::create_new_buffered());
        block_on(log.write_at(0, AlignedBuf::copy_of(&[7; PAGE + 100]), FLUSH)).unwrap();
        block_on(log.sync(FLUSH)).unwrap();
        for options in [OpenOptions::read(), OpenOptions::read_buffered()] {
            let file = open(&fs, &dir.at("log"), options);
            let read = |page: u64, pages: usize| {
                block_on(file.read_at(page * PAGE as u64, AlignedBuf::with_len(pages * PAGE), READ)).unwrap()
            };
            assert_eq!(read(0, 8).len(), PAGE + 100, "{options:?}");
            assert_eq!(read(1, 1)[..], [7; 100], "{options:?}");
            assert_eq!(read(2, 1).len(), 0, "{options:?}");
            assert_eq!(read(1000, 1).len(), 0, "{options:?}");
        }
    });
}

#[test]
fn buffered_writes_and_cached_reads_are_done_at_once() {
    let (fs, dir) = (with_backend(Backend::Threads), Dir::new());
    let log = open(&fs, &dir.at("log"), OpenOptions::create_new_buffered());
    assert!(!log.is_direct());
    let write = log.write_at(3, AlignedBuf::copy_of(b"record"), FLUSH);
    assert!(matches!(write, Op::Ready(_)));
    block_on(write).unwrap();
    let read = log.read_at(3, AlignedBuf::with_len(6), READ);
    assert!(matches!(read, Op::Ready(_)));
    assert_eq!(block_on(read).unwrap()[..], *b"record");
}

#[test]
fn every_write_of_a_dsync_file_leaves_the_callers_thread() {
    let (fs, dir) = (with_backend(Backend::Threads), Dir::new());
    let options = OpenOptions { dsync: true, ..OpenOptions::create_new_buffered() };
    let log = open(&fs, &dir.at("log"), options);
    let write = log.write_at(0, AlignedBuf::copy_of(b"record"), FLUSH);
    assert!(matches!(write, Op::Pending(_)));
    assert_eq!(block_on(write).unwrap()[..], *b"record");
}

#[test]
fn what_direct_io_cannot_do_is_refused_with_path_and_offset() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        let error = block_on(file.write_at(100, AlignedBuf::with_len(PAGE), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Invalid, Some(100)));
        assert_eq!(error.path(), dir.at("table"));
        let error = block_on(file.read_at(0, AlignedBuf::with_len(10), READ)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let reader = open(&fs, &dir.at("table"), OpenOptions::read());
        let error = block_on(reader.write_at(0, AlignedBuf::with_len(PAGE), FLUSH)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn where_direct_io_is_refused_the_page_cache_serves_and_it_is_told() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        // Depends on where the system keeps its temporary files, but must agree.
        assert_eq!(fs.direct_refused().is_some(), !file.is_direct());
        let refused = open(&fs, Path::new("/proc/version"), OpenOptions::read());
        assert!(!refused.is_direct() && fs.direct_refused().is_some());
        let read = block_on(refused.read_at(0, AlignedBuf::with_len(PAGE), READ)).unwrap();
        assert!(read.starts_with(b"Linux"));
        // What would be refused elsewhere is refused here.
        let error = block_on(refused.read_at(1, AlignedBuf::with_len(PAGE), READ)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_full_device_is_no_space() {
    each_way(|fs, _| {
        let options = OpenOptions { write: true, ..OpenOptions::read_buffered() };
        let full = open(&fs, Path::new("/dev/full"), options);
        let error = block_on(full.write_at(8, AlignedBuf::copy_of(b"x"), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8)));
        // Through the backend too: a synced write does not run on the caller's thread.
        let full = open(&fs, Path::new("/dev/full"), OpenOptions { dsync: true, ..options });
        let error = block_on(full.write_at(8, AlignedBuf::copy_of(b"x"), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8)));
    });
}

#[test]
fn names_behave() {
    each_way(|fs, dir| {
        let deep = dir.at("a/b/c");
        block_on(fs.create_dir_all(&deep, FLUSH)).unwrap();
        block_on(fs.create_dir_all(&deep, FLUSH)).unwrap();
        drop(open(&fs, &deep.join("one"), OpenOptions::create_new_buffered()));
        let again = block_on(fs.open(&deep.join("one"), OpenOptions::create_new(), FLUSH));
        assert_eq!(again.err().map(|error| error.kind()), Some(ErrorKind::AlreadyExists));
        block_on(fs.hard_link(&deep.join("one"), &deep.join("two"), FLUSH)).unwrap();
        block_on(fs.rename(&deep.join("one"), &deep.join("three"), FLUSH)).unwrap();
        let names = |path: &Path| {
            let entries = block_on(fs.list(path, FLUSH)).unwrap();
            entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect::<Vec<_>>()
        };
        assert_eq!(names(&deep), [("three".to_string(), false), ("two".to_string(), false)]);
        assert_eq!(names(&dir.at("a/b")), [("c".to_string(), true)]);
        block_on(fs.sync_dir(&deep, FLUSH)).unwrap();

        let missing = block_on(fs.rename(&deep.join("one"), &deep.join("four"), FLUSH)).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("four"), "{missing}");
        assert_eq!(block_on(fs.remove(&deep.join("one"), FLUSH)).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(block_on(fs.list(&dir.at("none"), FLUSH)).unwrap_err().kind(), ErrorKind::NotFound);
        block_on(fs.remove(&deep.join("two"), FLUSH)).unwrap();
        block_on(fs.remove(&deep.join("three"), FLUSH)).unwrap();
        block_on(fs.remove_dir(&deep, FLUSH)).unwrap();
        assert_eq!(names(&dir.at("a/b")), []);
    });
}

#[test]
fn allocated_space_reads_as_zero_and_lengths_change_both_ways() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("segment"), OpenOptions::create_new());
        let pages = |count: u64| count * PAGE as u64;
        block_on(file.allocate(pages(16), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(16));
        let read = block_on(file.read_at(pages(15), AlignedBuf::copy_of(&[1; PAGE]), READ)).unwrap();
        assert_eq!(read[..], [0; PAGE]);
        block_on(file.allocate(pages(4), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(4));
        block_on(file.set_len(pages(8), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(8));
        block_on(file.set_len(0, FLUSH)).unwrap();
        block_on(file.allocate(0, FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), 0);
    });
}

#[test]
fn a_lock_has_one_holder_and_says_who() {
    each_way(|fs, dir| {
        let held = block_on(fs.lock(&dir.at("LOCK"))).unwrap();
        let Err(error) = block_on(fs.lock(&dir.at("LOCK"))) else { panic!("two holders of one lock") };
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        assert_eq!(error.path(), dir.at("LOCK"));
        drop(held);
        drop(block_on(fs.lock(&dir.at("LOCK"))).unwrap());
    });
}

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
        // Reads dropped in flight: were their buffers freed, the device would write into the next ones, checked below.
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
    // The kernel cancels what a dying thread left in a ring: the rest must be done all the same.
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
            // All of it, and a part in the middle: then the read begins in the cache and goes on elsewhere.
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
    // Where nothing can be measured there is still a backend.
    let fs = RealFs::new(RealFsOptions { probe_dir: Some(dir.at("missing")), ..RealFsOptions::default() });
    assert_ne!(fs.backend().backend, Backend::Auto);
}

#[test]
fn the_faster_backend_is_chosen_and_the_ring_on_a_tie() {
    assert_eq!(choose::choice(50_000.0, 30_000.0).backend, Backend::Threads);
    assert_eq!(choose::choice(50_000.0, 50_000.0).backend, Backend::Uring);
    assert_eq!(choose::choice(50_000.0, 46_000.0).backend, Backend::Uring);
}

mod transfers {
    use rustix::io::Errno;

    use super::super::transfer::{Handle, Step, Transfer, Verb};
    use super::*;

    fn transfer(verb: Verb, direct: bool) -> Transfer {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let handle = Handle { fd, path: "/data/table".into(), direct, aligned: direct, write: true, dsync: false };
        Transfer::new(Arc::new(handle), verb, 8192, AlignedBuf::with_len(4 * PAGE))
    }

    fn again(step: Step) -> bool {
        matches!(step, Step::Again)
    }

    fn finished(step: Step) -> crate::Result<()> {
        match step {
            Step::Again => panic!("not finished"),
            Step::Finished(result) => result,
        }
    }

    #[test]
    fn interruptions_and_cancellations_change_nothing() {
        for verb in [Verb::Read, Verb::Write, Verb::Sync] {
            let mut transfer = transfer(verb, true);
            for error in [Errno::INTR, Errno::CANCELED, Errno::AGAIN] {
                assert!(again(transfer.advance(Err(error))));
                assert_eq!((transfer.position(), transfer.rest().len()), (8192, 4 * PAGE));
            }
        }
    }

    #[test]
    fn a_short_read_goes_on_and_stops_at_the_end_of_the_file() {
        let mut buffered = transfer(Verb::Read, false);
        assert!(again(buffered.advance(Ok(100))));
        assert_eq!((buffered.position(), buffered.rest().len()), (8292, 4 * PAGE - 100));
        finished(buffered.advance(Ok(0))).unwrap();
        let mut direct = transfer(Verb::Read, true);
        assert!(again(direct.advance(Ok(PAGE))));
        assert_eq!(direct.position(), 8192 + PAGE as u64);
        // Going on from the middle of a sector would be refused: this is the end.
        finished(direct.advance(Ok(100))).unwrap();
    }

    #[test]
    fn a_short_write_goes_on_from_a_sector() {
        let mut direct = transfer(Verb::Write, true);
        assert!(again(direct.advance(Ok(1000))));
        assert_eq!((direct.position(), direct.rest().len()), (8192 + 512, 4 * PAGE - 512));
        finished(direct.advance(Ok(4 * PAGE - 512))).unwrap();
        let mut buffered = transfer(Verb::Write, false);
        assert!(again(buffered.advance(Ok(1000))));
        assert_eq!(buffered.position(), 9192);
        assert_eq!(finished(buffered.advance(Ok(0))).unwrap_err().kind(), ErrorKind::Device);
    }

    #[test]
    fn errors_say_what_where_and_of_which_kind() {
        let mut write = transfer(Verb::Write, true);
        assert!(again(write.advance(Ok(PAGE))));
        let error = finished(write.advance(Err(Errno::NOSPC))).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8192 + PAGE as u64)));
        assert!(error.to_string().starts_with("cannot write /data/table at offset 12288: "), "{error}");
        let error = finished(transfer(Verb::Sync, true).advance(Err(Errno::IO))).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Device, None));
        assert_eq!(
            finished(transfer(Verb::Write, true).advance(Err(Errno::DQUOT))).unwrap_err().kind(),
            ErrorKind::NoSpace
        );
    }
}

/// Counts its wakes and unparks the test's thread.
struct Counter(AtomicUsize, std::thread::Thread);

impl Counter {
    fn new() -> (Arc<Self>, Waker) {
        let counter = Arc::new(Self(AtomicUsize::new(0), std::thread::current()));
        (Arc::clone(&counter), Waker::from(counter))
    }

    fn wait_for(&self, wakes: usize) {
        while self.0.load(Ordering::Acquire) < wakes {
            std::thread::park();
        }
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
        self.1.unpark();
    }
}

#[test]
fn the_last_waker_is_woken_once() {
    let (completer, wait) = completion::slot::<u32>();
    let mut wait = std::pin::pin!(wait);
    let (first, first_waker) = Counter::new();
    let (second, second_waker) = Counter::new();
    assert!(wait.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
    let other = std::thread::spawn(move || completer.complete(Ok(5)));
    second.wait_for(1);
    other.join().unwrap();
    assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    assert!(matches!(wait.poll(&mut Context::from_waker(&first_waker)), Poll::Ready(Ok(5))));
}

#[test]
fn an_operation_whose_worker_died_is_an_error_and_not_a_hang() {
    let (completer, wait) = completion::slot::<u32>();
    drop(completer);
    assert_eq!(block_on(wait).unwrap_err().kind(), ErrorKind::Device);
}

#[test]
fn timers_fire_in_order_and_never_early() {
    struct Fired(u64, u64, Arc<parking_lot::Mutex<Vec<(u64, bool)>>>, Arc<RealClock>, Waker);
    impl Wake for Fired {
        fn wake(self: Arc<Self>) {
            self.2.lock().push((self.0, self.3.now() >= self.1));
            self.4.wake_by_ref();
        }
    }
    let clock = RealClock::new();
    // Order is promised among timers armed before the first is due. Where this thread was held up while arming, the
    // round says nothing: another, with twice the lead.
    for lead_ms in (1..).map(|round| 1 << round) {
        let fired = Arc::default();
        let (counter, waker) = Counter::new();
        let start = clock.now() + lead_ms * 1_000_000;
        // Armed out of order: the thread must notice an earlier timer while it waits for a later one.
        for number in [5_u64, 3, 9, 1, 7, 0, 8, 2, 6, 4] {
            let at = start + number * 100_000;
            let (fired, clock_too) = (Arc::clone(&fired), Arc::clone(&clock));
            clock.wake_at(at, Waker::from(Arc::new(Fired(number, at, fired, clock_too, waker.clone()))));
        }
        let in_time = clock.now() < start;
        counter.wait_for(10);
        let fired = fired.lock();
        assert!(fired.iter().all(|&(_, due)| due));
        if in_time {
            assert_eq!(*fired, (0..10).map(|number| (number, true)).collect::<Vec<_>>());
            return;
        }
    }
}

#[test]
fn a_timer_does_not_wait_for_a_later_one_armed_before() {
    let clock = RealClock::new();
    let shared: Arc<dyn Clock> = clock.clone();
    clock.wake_at(u64::MAX, Waker::noop().clone());
    // Some rounds find the timer thread already waiting for the end of time.
    for _ in 0..50 {
        block_on(crate::sleep_until(&shared, clock.now() + 100_000));
    }
}

#[test]
fn a_sleep_ends_and_a_clock_with_timers_can_go() {
    let clock = RealClock::new();
    let at = clock.now() + 1_000_000;
    let shared: Arc<dyn Clock> = clock.clone();
    block_on(crate::sleep_until(&shared, at));
    assert!(clock.now() >= at);
    let (counter, waker) = Counter::new();
    clock.wake_at(u64::MAX, waker.clone());
    clock.wake_at(0, waker);
    assert_eq!(counter.0.load(Ordering::Acquire), 1, "a time gone by wakes at once");
    drop((shared, clock));
    assert_eq!(Arc::strong_count(&counter), 1, "the clock's end lets go of its wakers");
}

#[test]
fn spawned_tasks_all_run_and_yield_to_each_other() {
    let spawn = RealSpawn::new(2, 10);
    let (counter, waker) = Counter::new();
    for _ in 0..100 {
        let waker = waker.clone();
        spawn.spawn(Box::pin(async move {
            for _ in 0..10 {
                yield_now().await;
            }
            waker.wake();
        }));
    }
    spawn.spawn(Box::pin(async { panic!("planted: a job that panics must not stop the others") }));
    spawn.spawn({
        let waker = waker.clone();
        Box::pin(async move { waker.wake() })
    });
    counter.wait_for(101);
}

#[test]
fn dropping_the_executor_drops_tasks_that_nobody_wakes() {
    let spawn = RealSpawn::new(1, 0);
    let held = Arc::new(());
    let (counter, waker) = Counter::new();
    let owned = Arc::clone(&held);
    spawn.spawn(Box::pin(async move {
        waker.wake();
        std::future::pending::<()>().await;
        drop(owned);
    }));
    counter.wait_for(1);
    assert_eq!(Arc::strong_count(&held), 2);
    drop(spawn);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_block_on_inside_a_block_on_swallows_no_wake() {
    struct Outer(u32);
    impl Future for Outer {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.0 += 1;
            if self.0 > 1 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            block_on(yield_now());
            Poll::Pending
        }
    }
    block_on(Outer(0));
}
