//! A file system that counts what reaches the one below, by a rule of its own making: of files behind the page cache, the pages
//! that became dirty since their last sync, as a set.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, PAGE, Result, Tag, forward_file, forward_fs};

/// What was seen of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered {
    pub read: u64,
    pub reads: u64,
    pub written: u64,
    pub writes: u64,
    pub syncs: u64,
}

type Counts = Arc<Mutex<[Metered; Class::ALL.len()]>>;

pub struct MeterFs {
    inner: Arc<dyn Fs>,
    counts: Counts,
}

impl MeterFs {
    pub fn new(inner: Arc<dyn Fs>) -> Arc<Self> {
        Arc::new(Self { inner, counts: Counts::default() })
    }

    pub fn seen(&self, class: Class) -> Metered {
        self.counts.lock()[class as usize]
    }
}

impl Fs for MeterFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let counts = Arc::clone(&self.counts);
        let opened = self.inner.open(path, options, tag);
        Op::pending(async move {
            let inner = opened.await?;
            let dirty = (!options.direct).then(Mutex::default);
            Ok(Arc::new(MeterFile { inner, counts, dirty }) as Arc<dyn File>)
        })
    }
    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        self.counts.lock()[tag.class as usize].syncs += 1;
        self.inner.sync_dir(path, tag)
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, lock);
}

struct MeterFile {
    inner: Arc<dyn File>,
    counts: Counts,
    /// Of a file behind the page cache: the numbers of its dirty pages.
    dirty: Option<Mutex<BTreeSet<u64>>>,
}

impl File for MeterFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let (counts, asked) = (Arc::clone(&self.counts), buf.len() as u64);
        {
            // Counted when asked for: who asked may be gone before the disk has answered.
            let seen = &mut counts.lock()[tag.class as usize];
            seen.reads += 1;
            seen.read += asked;
        }
        let correct = move |got: u64| counts.lock()[tag.class as usize].read -= asked - got;
        let length = move |result: &Result<AlignedBuf>| result.as_ref().map_or(asked, |buf| buf.len() as u64);
        match self.inner.read_at(offset, buf, tag) {
            Op::Ready(Some(result)) => {
                // Without waiting: from the page cache, where there is one.
                correct(if self.dirty.is_some() { 0 } else { length(&result) });
                Op::ready(result)
            }
            pending => Op::pending(async move {
                let result = pending.await;
                correct(length(&result));
                result
            }),
        }
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let (page, end) = (PAGE as u64, offset + buf.len() as u64);
        let bytes = match &self.dirty {
            None => buf.len() as u64,
            Some(dirty) => {
                let mut dirty = dirty.lock();
                (offset / page..end.div_ceil(page)).filter(|number| dirty.insert(*number)).count() as u64 * page
            }
        };
        {
            let seen = &mut self.counts.lock()[tag.class as usize];
            seen.writes += 1;
            seen.written += bytes;
        }
        self.inner.write_at(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        self.counts.lock()[tag.class as usize].syncs += 1;
        if let Some(dirty) = &self.dirty {
            dirty.lock().clear();
        }
        self.inner.sync(tag)
    }

    forward_file!(inner: allocate, set_len, len, data_end, is_direct);
}
