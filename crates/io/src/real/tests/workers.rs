//! The worker threads: the order of their tasks, how many there are, what a failure does to them, and their end.

use std::collections::HashSet;
use std::sync::{Barrier, mpsc};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::super::threads::{Lane, Task, Threads};
use super::super::transfer::{Handle, Request, SECTOR, Transfer, Verb};
use super::*;

const LANES: [Lane; 2] = [Lane::Foreground, Lane::Background];

fn call(body: impl FnOnce() + Send + 'static) -> Task {
    Task::Call(Box::new(body))
}

/// Gives the only worker of `lane` a task that ends when the sender is used or dropped, and waits until it has begun.
fn keep_busy(threads: &Threads, lane: Lane) -> mpsc::Sender<()> {
    let (begun, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let body = move || {
        begun.send(()).unwrap();
        let _ = released.recv();
    };
    threads.submit(lane, call(body));
    begins.recv().unwrap();
    release
}

#[test]
fn a_lane_begins_its_tasks_in_the_order_of_their_submission() {
    for lane in LANES {
        let (threads, order) = (Threads::new(1, 1, 100), Arc::<Mutex<Vec<u32>>>::default());
        let release = keep_busy(&threads, lane);
        for number in 0..50 {
            let order = Arc::clone(&order);
            threads.submit(lane, call(move || order.lock().push(number)));
        }
        drop(release);
        drop(threads);
        assert_eq!(*order.lock(), (0..50).collect::<Vec<u32>>(), "{lane:?}");
    }
}

#[test]
fn a_lane_works_on_as_many_tasks_at_a_time_as_it_may_and_no_more() {
    const WORKERS: usize = 3;
    for lane in LANES {
        let threads = Threads::new(WORKERS, WORKERS, 100);
        let (tell, told) = mpsc::channel();
        // A task ends only when as many are under way as may be.
        let all = Arc::new(Barrier::new(WORKERS));
        for _ in 0..10 * WORKERS {
            let (tell, all) = (tell.clone(), Arc::clone(&all));
            let body = move || {
                all.wait();
                tell.send(thread::current().id()).unwrap();
            };
            threads.submit(lane, call(body));
        }
        let workers: HashSet<ThreadId> = (0..10 * WORKERS).map(|_| told.recv().unwrap()).collect();
        assert_eq!(workers.len(), WORKERS, "{lane:?}");
    }
}

#[test]
fn what_a_full_lane_has_no_room_for_is_done_by_the_caller_at_once() {
    for (lane, other) in [(Lane::Foreground, Lane::Background), (Lane::Background, Lane::Foreground)] {
        let threads = Threads::new(1, 1, 1);
        let release = keep_busy(&threads, lane);
        let (tell, told) = mpsc::channel();
        let submit = |lane| {
            let tell = tell.clone();
            threads.submit(lane, call(move || tell.send(thread::current().id()).unwrap()));
        };
        submit(lane);
        assert!(told.try_recv().is_err(), "it waits for the worker");
        submit(lane);
        assert_eq!(told.try_recv(), Ok(thread::current().id()), "there is no room for a second one");
        submit(other);
        assert_ne!(told.recv().unwrap(), thread::current().id(), "the other lane has room");
        drop(release);
        assert_ne!(told.recv().unwrap(), thread::current().id());
    }
}

#[test]
fn a_task_that_panics_is_an_error_to_whoever_waits_and_its_worker_goes_on() {
    for lane in LANES {
        let threads = Threads::new(1, 1, 100);
        let worker = || {
            let (tell, told) = mpsc::channel();
            threads.submit(lane, call(move || tell.send(thread::current().id()).unwrap()));
            told.recv().unwrap()
        };
        let before = worker();
        let (completer, wait) = completion::slot::<u32>();
        let body = move || {
            let _completer = completer;
            panic!("planted: a task that panics must not stop the lane");
        };
        threads.submit(lane, call(body));
        assert_eq!(block_on(wait).unwrap_err().kind(), ErrorKind::Device);
        assert_eq!(worker(), before, "{lane:?}");
    }
}

#[test]
fn a_transfer_that_fails_is_an_error_to_whoever_waits_and_the_next_one_is_done() {
    let dir = Dir::new();
    let path = dir.at("table");
    std::fs::write(&path, [7; PAGE]).unwrap();
    for lane in LANES {
        let threads = Threads::new(1, 1, 100);
        let submit = |verb| {
            // The kernel takes no write for it.
            let fd = std::fs::File::open(&path).unwrap().into();
            let path = path.clone();
            let handle =
                Handle { fd, path, direct: false, aligned: false, write: true, dsync: false, read_unit: SECTOR };
            let transfer = Transfer::new(Arc::new(handle), verb, 0, AlignedBuf::with_len(PAGE));
            let (completer, wait) = completion::slot();
            threads.submit(lane, Task::Transfer(Request { transfer, completer }));
            wait
        };
        let (write, read) = (submit(Verb::Write), submit(Verb::Read));
        let error = block_on(write).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("table"), "{error}");
        assert!(block_on(read).unwrap()[..] == [7; PAGE], "{lane:?}");
    }
}

#[test]
fn the_end_finishes_what_was_submitted_and_waits_for_it() {
    let (threads, done) = (Threads::new(1, 1, 100), Arc::new(AtomicUsize::new(0)));
    let releases = LANES.map(|lane| keep_busy(&threads, lane));
    for number in 0..100 {
        let done = Arc::clone(&done);
        let body = move || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        threads.submit(LANES[number % 2], call(body));
    }
    thread::scope(|scope| {
        let end = scope.spawn(move || drop(threads));
        assert_eq!(done.load(Ordering::Relaxed), 0, "the workers are busy");
        drop(releases);
        end.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 100);
    });
}

/// A file may keep the workers alive, and a worker may be the one that drops the last file.
#[test]
fn a_task_may_drop_its_own_workers_and_what_is_behind_it_is_done_all_the_same() {
    for lane in LANES {
        let threads = Arc::new(Threads::new(1, 1, 100));
        let (release, released) = mpsc::channel();
        let own = Arc::clone(&threads);
        let body = move || {
            released.recv().unwrap();
            drop(own);
        };
        threads.submit(lane, call(body));
        let (counter, waker) = Counter::new();
        for _ in 0..10 {
            let waker = waker.clone();
            threads.submit(lane, call(move || waker.wake()));
        }
        drop(threads);
        release.send(()).unwrap();
        counter.wait_for(10);
    }
}

/// A thread inherits the niceness of the thread that starts it.
#[test]
fn a_niced_submitter_makes_no_worker_nice() {
    const WORKERS: usize = 3;
    let nice = || rustix::process::getpriority_process(None).unwrap();
    let here = nice();
    let nicer = (here + 1).min(19);
    let threads = Threads::new(WORKERS, WORKERS, 100);
    for lane in LANES {
        let (tell, told) = mpsc::channel();
        let submit = || {
            be_nice(nicer);
            assert_eq!(nice(), nicer);
            // All workers have to be there before one of the tasks ends.
            let all = Arc::new(Barrier::new(WORKERS));
            for _ in 0..WORKERS {
                let (tell, all) = (tell.clone(), Arc::clone(&all));
                let body = move || {
                    all.wait();
                    tell.send(nice()).unwrap();
                };
                threads.submit(lane, call(body));
            }
        };
        thread::scope(|scope| scope.spawn(submit).join().unwrap());
        assert!((0..WORKERS).all(|_| told.recv().unwrap() == here), "{lane:?}");
    }
}
