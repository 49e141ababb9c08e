//! A file system that limits the memory of all long reads under way.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs};

use crate::pool::Pool;

/// Reads of clients that are longer than this, in bytes, count against the limit.
const LONG_BYTES: usize = 1 << 20;

/// An [`Fs`] for a node, below the gates of its partitions: a read that has its tokens waits for memory, not the other
/// way round.
///
/// A value is read in one piece. A client that asks for forty values of 64 MiB would have them all in memory at the
/// same time, and the gateway can count a value against its tenant's limit only once the value is there. So the buffer
/// of a long read of a client ([`File::read_new`]) is allocated when the memory is free. All tenants share the memory,
/// and those that wait get it in a fair order.
pub struct ReadMemoryFs {
    inner: Arc<dyn Fs>,
    memory: Arc<Pool>,
}

impl ReadMemoryFs {
    /// `inner`, with `bytes_max` of memory for long reads under way. A longer read passes alone.
    pub fn new(inner: Arc<dyn Fs>, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { inner, memory: Pool::new(bytes_max) })
    }
}

impl Fs for ReadMemoryFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let memory = Arc::clone(&self.memory);
        let limited = move |inner: Arc<dyn File>| -> Arc<dyn File> { Arc::new(ReadMemoryFile { inner, memory }) };
        match self.inner.open(path, options, tag) {
            Op::Ready(result) => Op::Ready(result.map(|result| result.map(limited))),
            pending => Op::pending(async move { pending.await.map(limited) }),
        }
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, volume, lock);
}

struct ReadMemoryFile {
    inner: Arc<dyn File>,
    memory: Arc<Pool>,
}

impl File for ReadMemoryFile {
    fn read_new(&self, offset: u64, len: usize, tag: Tag) -> Op<AlignedBuf> {
        if tag.class != Class::Read || len <= LONG_BYTES {
            return self.inner.read_new(offset, len, tag);
        }
        let (memory, inner) = (Arc::clone(&self.memory), Arc::clone(&self.inner));
        Op::pending(async move {
            // The memory is asked for at the first poll, not at the submission. An update that has submitted several
            // reads awaits the first alone, and may have to read once more for it. If the others held memory meanwhile,
            // it could wait for that for ever, and all tenants with it.
            let permit = memory.acquire(tag.owner.tenant, len as u64).await;
            let read = inner.read_new(offset, len, tag).await;
            // The caller has the buffer now, and counts it against its own limit.
            drop(permit);
            read
        })
    }

    forward_file!(inner: read_at, write_at, sync, sync_begins, allocate, reserve, set_len, len, data_end, is_direct, read_unit);
}
