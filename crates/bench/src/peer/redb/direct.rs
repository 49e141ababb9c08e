//! A file that bypasses the page cache, as the other contestants' files do. Otherwise all of the machine's memory would
//! cache the B-tree, and its reads would not be reads of the device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use parking_lot::Mutex;
use redb::StorageBackend;
use rustix::fs::OFlags;
use weir_io::AlignedBuf;

/// Offsets and lengths of direct I/O are multiples of this.
const BLOCK: u64 = 4096;

/// A file of direct I/O, whose length need not be a multiple of a block.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: File,
    /// The length that redb set; the file's own length is a multiple of a block.
    len: Mutex<u64>,
}

impl DirectFile {
    /// Opens `path`; creates it if it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let direct = OFlags::DIRECT.bits() as i32;
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(direct).open(path)?;
        let len = Mutex::new(file.metadata()?.len());
        Ok(Self { file, len })
    }

    /// The blocks in which `len` bytes from `offset` on lie.
    fn blocks(&self, offset: u64, len: usize) -> io::Result<(u64, AlignedBuf)> {
        let (from, to) = (offset / BLOCK * BLOCK, (offset + len as u64).next_multiple_of(BLOCK));
        let mut blocks = AlignedBuf::with_len((to - from) as usize);
        self.file.read_exact_at(&mut blocks, from)?;
        Ok((from, blocks))
    }
}

impl StorageBackend for DirectFile {
    fn len(&self) -> io::Result<u64> {
        Ok(*self.len.lock())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (from, blocks) = self.blocks(offset, out.len())?;
        let at = (offset - from) as usize;
        out.copy_from_slice(&blocks[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len.next_multiple_of(BLOCK))?;
        *self.len.lock() = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset.is_multiple_of(BLOCK) && (data.len() as u64).is_multiple_of(BLOCK) {
            return self.file.write_all_at(&AlignedBuf::copy_of(data), offset);
        }
        // Nobody else writes to parts of these blocks meanwhile: only the header is not whole pages.
        let (from, mut blocks) = self.blocks(offset, data.len())?;
        let at = (offset - from) as usize;
        blocks[at..at + data.len()].copy_from_slice(data);
        self.file.write_all_at(&blocks, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_blocks_are_written_and_read() {
        let path = std::env::temp_dir().join(format!("weir-direct-{}", std::process::id()));
        let file = DirectFile::open(&path).expect("opens");
        file.set_len(3 * BLOCK).expect("set");
        file.write(0, &vec![1; 2 * BLOCK as usize]).expect("written");
        file.write(BLOCK - 3, &[7; 6]).expect("written");
        let mut out = [0; 10];
        file.read(BLOCK - 5, &mut out).expect("read");
        assert_eq!((out, file.len().expect("known")), ([1, 1, 7, 7, 7, 7, 7, 7, 1, 1], 3 * BLOCK));
        drop(file);
        std::fs::remove_file(&path).expect("removed");
    }
}
