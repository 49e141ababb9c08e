//! A real disk that is made as slow as planned, where the kernel's throttle cannot be used (it needs root).
//!
//! There is one queue, first come, first served, for reads and writes alike. Every I/O waits until the bytes before it
//! have passed at the given rate, and then takes as long as the disk takes. Data written through the page cache passes
//! when it is synced, as on a disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::{AlignedBuf, Clock, File, Fs, Nanos, Op, OpenOptions, Tag, forward_file, forward_fs, sleep_until};

/// The queue.
struct Device {
    clock: Arc<dyn Clock>,
    bytes_per_sec: u64,
    /// When all that is queued will have passed.
    free_at: Mutex<Nanos>,
}

impl Device {
    /// When `bytes` that are queued now will have passed.
    fn queue(&self, bytes: u64) -> Nanos {
        let mut free_at = self.free_at.lock();
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_sec);
        *free_at = (*free_at).max(self.clock.now()) + nanos as Nanos;
        *free_at
    }

    async fn pass(&self, bytes: u64) {
        let at = self.queue(bytes);
        sleep_until(&self.clock, at).await;
    }
}

/// A file system whose I/O passes at a limited rate.
pub struct SlowedFs {
    inner: Arc<dyn Fs>,
    device: Arc<Device>,
}

impl SlowedFs {
    /// Limits `inner` to `bytes_per_sec` (at least 1), reads and writes together.
    pub fn new(inner: Arc<dyn Fs>, clock: Arc<dyn Clock>, bytes_per_sec: u64) -> Arc<Self> {
        let device = Device { clock, bytes_per_sec: bytes_per_sec.max(1), free_at: Mutex::default() };
        Arc::new(Self { inner, device: Arc::new(device) })
    }
}

impl Fs for SlowedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (device, opening) = (Arc::clone(&self.device), self.inner.open(path, options, tag));
        Op::pending(async move {
            let inner = opening.await?;
            Ok(Arc::new(SlowedFile { inner, device, dirty: Arc::default() }) as Arc<dyn File>)
        })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, lock);
}

struct SlowedFile {
    inner: Arc<dyn File>,
    device: Arc<Device>,
    /// Bytes in the page cache that no sync has covered.
    dirty: Arc<AtomicU64>,
}

impl SlowedFile {
    fn after<T: Send + Unpin + 'static>(
        &self,
        bytes: u64,
        io: impl FnOnce(&dyn File) -> Op<T> + Send + 'static,
    ) -> Op<T> {
        let (inner, device) = (Arc::clone(&self.inner), Arc::clone(&self.device));
        Op::pending(async move {
            device.pass(bytes).await;
            io(&*inner).await
        })
    }
}

impl File for SlowedFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        match self.inner.is_direct() {
            true => self.after(buf.len() as u64, move |file| file.read_at(offset, buf, tag)),
            false => self.inner.read_at(offset, buf, tag),
        }
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        if self.inner.is_direct() {
            return self.after(buf.len() as u64, move |file| file.write_at(offset, buf, tag));
        }
        self.dirty.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.inner.write_at(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        match self.dirty.swap(0, Ordering::Relaxed) {
            0 => self.inner.sync(tag),
            bytes => self.after(bytes, move |file| file.sync(tag)),
        }
    }

    forward_file!(inner: allocate, reserve, set_len, len, data_end, is_direct, read_unit);
}

#[cfg(test)]
mod tests {
    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
    use weir_io::{Class, Owner};

    use super::*;

    #[test]
    fn bytes_pass_one_after_the_other_at_the_rate() {
        let sim = Sim::new(1);
        let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let clock = sim.clock();
        let slowed = SlowedFs::new(disk, Arc::clone(&clock), 1 << 20);
        let tag = Tag { owner: Owner { tenant: 1, partition: 1 }, class: Class::Flush };
        sim.block_on(async {
            slowed.create_dir_all(Path::new("/d"), tag).await.expect("a directory");
            let direct = slowed.open(Path::new("/d/direct"), OpenOptions::create_new(), tag).await.expect("opens");
            let begin = clock.now();
            let (first, second) = (
                direct.write_at(0, AlignedBuf::with_len(512 << 10), tag),
                direct.write_at(512 << 10, AlignedBuf::with_len(512 << 10), tag),
            );
            first.await.expect("written");
            assert_eq!(clock.now() - begin, 500_000_000);
            second.await.expect("written");
            assert_eq!(clock.now() - begin, 1_000_000_000);

            let buffered =
                slowed.open(Path::new("/d/log"), OpenOptions::create_new_buffered(), tag).await.expect("opens");
            let begin = clock.now();
            buffered.write_at(0, AlignedBuf::with_len(256 << 10), tag).await.expect("in the page cache");
            assert_eq!(clock.now() - begin, 0);
            buffered.sync(tag).await.expect("on the disk");
            assert_eq!(clock.now() - begin, 250_000_000);
        });
    }
}
