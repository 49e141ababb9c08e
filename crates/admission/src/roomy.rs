//! A file system whose long reads take only so much memory together.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs};

use crate::room::Room;

/// Reads of clients that are longer than this, in bytes, wait for room.
const LONG_BYTES: usize = 1 << 20;

/// An [`Fs`] for a node, below the gates of its partitions: a read that has its tokens waits for memory, not the other way round.
///
/// A value is read in one piece. Whoever asks for forty values of 64 MiB at the same time would have them all in memory at the same
/// time, and the limit of what a tenant has in hand is known to the gateway only once they are there. So the buffers of long reads of
/// clients ([`File::read_new`]) are made when there is room for them; the room is for all tenants, fair among them.
pub struct RoomyFs {
    inner: Arc<dyn Fs>,
    room: Arc<Room>,
}

impl RoomyFs {
    /// `inner`, with `bytes_max` for long reads under way; a longer one passes alone.
    pub fn new(inner: Arc<dyn Fs>, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { inner, room: Room::new(bytes_max) })
    }
}

impl Fs for RoomyFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let room = Arc::clone(&self.room);
        let roomy = move |inner: Arc<dyn File>| -> Arc<dyn File> { Arc::new(RoomyFile { inner, room }) };
        match self.inner.open(path, options, tag) {
            Op::Ready(result) => Op::Ready(result.map(|result| result.map(roomy))),
            pending => Op::pending(async move { pending.await.map(roomy) }),
        }
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, volume, lock);
}

struct RoomyFile {
    inner: Arc<dyn File>,
    room: Arc<Room>,
}

impl File for RoomyFile {
    fn read_new(&self, offset: u64, len: usize, tag: Tag) -> Op<AlignedBuf> {
        if tag.class != Class::Read || len <= LONG_BYTES {
            return self.inner.read_new(offset, len, tag);
        }
        let (room, inner) = (Arc::clone(&self.room), Arc::clone(&self.inner));
        Op::pending(async move {
            // Asked for by whoever polls, not by whoever submits: of several reads at once an update awaits the first alone, and that one
            // may have to read once more. What the others held meanwhile it could wait for for ever, and with it all tenants.
            let taken = room.take(tag.owner.tenant, len as u64).await;
            let read = inner.read_new(offset, len, tag).await;
            // Whoever polls has the buffer now, and says so where it counts what it has in hand.
            drop(taken);
            read
        })
    }

    forward_file!(inner: read_at, write_at, sync, sync_begins, allocate, reserve, set_len, len, data_end, is_direct);
}
