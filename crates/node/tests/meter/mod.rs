//! A file system that counts the I/O that reaches the one below, by a rule of its own: for files behind the page cache,
//! the pages that became dirty since their last sync, as a set. It books the I/O by the directory in which the file is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, PAGE, Result, Tag, forward_file, forward_fs};

/// I/O that was seen of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered {
    pub read: u64,
    pub reads: u64,
    pub written: u64,
    pub writes: u64,
    /// Runs of pages that became dirty, and direct writes.
    pub runs: u64,
    pub syncs: u64,
}

impl AddAssign for Metered {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.reads += other.reads;
        self.written += other.written;
        self.writes += other.writes;
        self.runs += other.runs;
        self.syncs += other.syncs;
    }
}

/// The owner of some I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// The file is in the directory of this partition.
    Partition(u32),
    /// The file is elsewhere, and the I/O was done in the name of this tenant.
    Tenant(u32),
}

impl Whose {
    fn new(path: &Path, tag: Tag) -> Self {
        let mut parts = path.iter().skip_while(|part| *part != "partitions").skip(1);
        let number = parts.next().and_then(|part| part.to_str()?.parse().ok());
        number.map_or(Self::Tenant(tag.owner.tenant), Self::Partition)
    }
}

/// What was seen, by class.
pub type Seen = [Metered; Class::ALL.len()];

#[derive(Default)]
struct Counts(Mutex<BTreeMap<Whose, Seen>>);

impl Counts {
    fn book(&self, path: &Path, tag: Tag, book: impl FnOnce(&mut Metered)) {
        book(&mut self.0.lock().entry(Whose::new(path, tag)).or_default()[tag.class as usize]);
    }
}

pub struct MeterFs {
    inner: Arc<dyn Fs>,
    counts: Arc<Counts>,
}

impl MeterFs {
    pub fn new(inner: Arc<dyn Fs>) -> Arc<Self> {
        Arc::new(Self { inner, counts: Arc::default() })
    }

    pub fn seen(&self, class: Class) -> Metered {
        let mut sum = Metered::default();
        self.counts.0.lock().values().for_each(|seen| sum += seen[class as usize]);
        sum
    }

    /// What was seen of each owner.
    pub fn seen_of_each(&self) -> BTreeMap<Whose, Seen> {
        self.counts.0.lock().clone()
    }
}

impl Fs for MeterFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (counts, path) = (Arc::clone(&self.counts), path.to_path_buf());
        let opened = self.inner.open(&path, options, tag);
        Op::pending(async move {
            let inner = opened.await?;
            let dirty = (!options.direct).then(Mutex::default);
            Ok(Arc::new(MeterFile { inner, counts, path, dirty }) as Arc<dyn File>)
        })
    }
    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        self.counts.book(path, tag, |seen| seen.syncs += 1);
        self.inner.sync_dir(path, tag)
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, lock);
}

struct MeterFile {
    inner: Arc<dyn File>,
    counts: Arc<Counts>,
    path: PathBuf,
    /// The numbers of the file's dirty pages, if it is behind the page cache.
    dirty: Option<Mutex<BTreeSet<u64>>>,
}

impl File for MeterFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let (counts, path, asked) = (Arc::clone(&self.counts), self.path.clone(), buf.len() as u64);
        // Counted when asked for: the caller may be gone before the disk has answered.
        counts.book(&path, tag, |seen| {
            seen.reads += 1;
            seen.read += asked;
        });
        let correct = move |got: u64| counts.book(&path, tag, |seen| seen.read -= asked - got);
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
        let (bytes, runs) = match &self.dirty {
            None => (buf.len() as u64, 1),
            Some(dirty) => {
                let mut dirty = dirty.lock();
                let (first, behind) = (offset / page, end.div_ceil(page));
                let touches = dirty.range(first.saturating_sub(1)..=behind).next().is_some();
                let new = (first..behind).filter(|number| dirty.insert(*number)).count() as u64;
                (new * page, u64::from(!touches))
            }
        };
        self.counts.book(&self.path, tag, |seen| {
            seen.writes += 1;
            seen.runs += runs;
            seen.written += bytes;
        });
        self.inner.write_at(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        self.counts.book(&self.path, tag, |seen| seen.syncs += 1);
        if let Some(dirty) = &self.dirty {
            dirty.lock().clear();
        }
        self.inner.sync(tag)
    }

    forward_file!(inner: allocate, reserve, set_len, len, data_end, is_direct, read_unit);
}
