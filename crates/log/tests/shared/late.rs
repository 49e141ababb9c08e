//! A write that is answered long after the next one has failed.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind};
use weir_io::{AlignedBuf, Clock, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs, sleep_until};
use weir_log::{SharedLog, SharedOptions, SyncMode, WriteAheadLog};

use super::carry::polled;
use super::{CAP_BYTES, SharedGroup, open, open_members, write};
use crate::common::{DIR, options, world};

/// A disk that answers one write a second late.
struct LateFs {
    inner: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    /// Whether this is to be the next write.
    is_next: Arc<AtomicBool>,
}

struct LateFile {
    inner: Arc<dyn File>,
    clock: Arc<dyn Clock>,
    is_next: Arc<AtomicBool>,
}

impl Fs for LateFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let opened = self.inner.open(path, options, tag);
        let (clock, is_next) = (Arc::clone(&self.clock), Arc::clone(&self.is_next));
        Op::pending(async move { Ok(Arc::new(LateFile { inner: opened.await?, clock, is_next }) as Arc<dyn File>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, lock);
}

impl File for LateFile {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let written = self.inner.write_at(offset, buf, tag);
        if !self.is_next.swap(false, Ordering::SeqCst) {
            return written;
        }
        let clock = Arc::clone(&self.clock);
        Op::pending(async move {
            let written = written.await;
            sleep_until(&clock, clock.now() + 1_000_000_000).await;
            written
        })
    }

    forward_file!(inner: read_at, sync, allocate, set_len, len, data_end, is_direct, read_unit);
}

#[test]
fn what_is_acknowledged_while_the_log_fails_behind_it_is_carried_too() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let late = LateFs { inner: Arc::clone(&fs) as Arc<dyn Fs>, clock: sim.clock(), is_next: Arc::default() };
        let is_next = Arc::clone(&late.is_next);
        let log = SharedOptions { log: options(SyncMode::Always, 1), cap_bytes: CAP_BYTES };
        let keeper = Arc::new(group.clone());
        let log =
            SharedLog::open(Arc::new(late), Path::new(DIR), log, 0, &|_| true, keeper).await.expect("a fresh disk");
        let members = open_members(&log, SyncMode::Always, &group).await.expect("a fresh disk");
        // So that there is a segment with room for both.
        for bytes in [10 << 10, 10] {
            write(&members[0], &group, |_| vec![1; bytes]).await.expect("nothing fails yet");
        }
        is_next.store(true, Ordering::SeqCst);
        let mut long = pin!(write(&members[0], &group, |_| vec![2; 10]));
        assert!(polled(long.as_mut(), 0).await.is_none());
        fs.fail_next(Some(OpKind::Write), Fault::Error);
        write(&members[0], &group, |_| vec![3; 10]).await.expect_err("its write fails");
        assert!(polled(long.as_mut(), 0).await.is_none(), "it is in flight");
        log.carry(0).await.expect("the log can be read");
        long.await.expect("it was written");
        members[1].replace(0).await.expect("nobody is waited for");
        assert_eq!((members[0].stats().durable, members[0].commit(4).await.is_err()), (3, true));
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, SyncMode::Always, &group, 2, 2).await.expect("it is whole");
        let members = open_members(&log, SyncMode::Always, &group).await.expect("it is whole");
        assert_eq!(members[0].last(), 3);
    });
}
