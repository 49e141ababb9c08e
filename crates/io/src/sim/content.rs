//! The bytes of a file, in copy-on-write chunks: two versions of a file share what they have in common.

use std::sync::Arc;

/// The unit of sharing, in bytes. A page: the log rewrites its last page again and again, and each time a shared chunk
/// must be copied.
pub(super) const CHUNK: usize = 4096;

/// The unit of tearing, in bytes: what a disk writes wholly or not at all.
pub(super) const SECTOR: u64 = 512;

/// The largest file, in bytes: a wrong offset must not make the simulator allocate the world.
pub(super) const LEN_MAX: u64 = 1 << 40;

pub(super) type Chunk = [u8; CHUNK];

/// One version of a file. Cloning costs one reference count per chunk; holes cost nothing.
#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    /// `None` reads as zeros, and so does everything behind the end of the vector.
    chunks: Vec<Option<Arc<Chunk>>>,
}

/// Splits `offset..offset + len` by chunk: index, start in the chunk, range in the buffer.
pub(super) fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % CHUNK as u64) as usize;
        let from = done;
        done = (from + CHUNK - start).min(len);
        Some(((at / CHUNK as u64) as usize, start, from..done))
    })
}

impl Content {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        for (index, start, range) in parts(0, bytes.len()) {
            content.put(index, start, &bytes[range]);
        }
        content.len = bytes.len() as u64;
        content
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Where the last chunk ends that holds bytes of its own, within the length.
    pub(super) fn data_end(&self) -> u64 {
        let backed = self.chunks.iter().rposition(Option::is_some).map_or(0, |index| index as u64 + 1);
        self.len.min(backed * CHUNK as u64)
    }

    /// Whether chunk `index` holds bytes of its own.
    pub(super) fn is_backed(&self, index: usize) -> bool {
        self.chunks.get(index).is_some_and(Option::is_some)
    }

    /// How many chunks from `index` on hold bytes of their own.
    pub(super) fn backed_from(&self, index: usize) -> u64 {
        self.chunks.iter().skip(index).flatten().count() as u64
    }

    /// Copies the bytes from `offset` on into `buf`; returns how many bytes there were.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for (index, start, range) in parts(offset, len) {
            let into = &mut buf[range];
            match self.chunks.get(index) {
                Some(Some(chunk)) => into.copy_from_slice(&chunk[start..start + into.len()]),
                _ => into.fill(0),
            }
        }
        len
    }

    /// Replaces a whole chunk. Does not change the length.
    pub(super) fn put_chunk(&mut self, index: usize, chunk: Arc<Chunk>) {
        *self.slot(index) = Some(chunk);
    }

    /// Writes `bytes` at `start` of chunk `index`, within that chunk. Does not change the length.
    pub(super) fn put(&mut self, index: usize, start: usize, bytes: &[u8]) {
        let chunk = self.slot(index).get_or_insert_with(|| Arc::new([0; CHUNK]));
        Arc::make_mut(chunk)[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes the file at least `len` bytes long.
    pub(super) fn extend(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Makes the file `len` bytes long; bytes cut off read as zero if the file grows again.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
        self.trim();
    }

    /// Forgets everything behind the end.
    pub(super) fn trim(&mut self) {
        self.chunks.truncate(self.len.div_ceil(CHUNK as u64) as usize);
        let tail = (self.len % CHUNK as u64) as usize;
        let last = (self.len / CHUNK as u64) as usize;
        if let Some(Some(chunk)) = self.chunks.get_mut(last)
            && chunk[tail..].iter().any(|&byte| byte != 0)
        {
            Arc::make_mut(chunk)[tail..].fill(0);
        }
    }

    /// Flips one bit, as a failing medium would. False if there is no such byte.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        if offset >= self.len {
            return false;
        }
        let (index, start) = ((offset / CHUNK as u64) as usize, (offset % CHUNK as u64) as usize);
        let chunk = self.slot(index).get_or_insert_with(|| Arc::new([0; CHUNK]));
        Arc::make_mut(chunk)[start] ^= 1 << (bit % 8);
        true
    }

    /// How many chunks the two versions share.
    #[cfg(test)]
    pub(super) fn shared_chunks(&self, other: &Content) -> usize {
        let pairs = self.chunks.iter().zip(&other.chunks);
        pairs.filter(|(a, b)| matches!((a, b), (Some(a), Some(b)) if Arc::ptr_eq(a, b))).count()
    }

    fn slot(&mut self, index: usize) -> &mut Option<Arc<Chunk>> {
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        &mut self.chunks[index]
    }
}

/// A new chunk with these bytes.
pub(super) fn chunk_of(bytes: &[u8]) -> Arc<Chunk> {
    Arc::<[u8]>::from(bytes).try_into().expect("callers pass exactly one chunk")
}
