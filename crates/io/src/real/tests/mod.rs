//! One suite for every backend, and tests that concern the machine alone.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::{AlignedBuf, Class, Clock, ErrorKind, File, Fs, Op, OpenOptions, Owner, PAGE, Rng, Spawn, Tag, yield_now};

mod clock;
mod files;
mod lock;
mod queue;
mod spawn;
mod transfer;
mod waking;
mod workers;

const READ: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Read);
const FLUSH: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Flush);

/// A directory for one test, removed at the end.
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

/// A page whose bytes say which page it is.
fn page(number: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::with_len(PAGE);
    for chunk in buf.chunks_exact_mut(8) {
        chunk.copy_from_slice(&number.to_le_bytes());
    }
    buf
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
