//! The simulated disk: every byte in memory, time from the clock, and a fault model in words.
//!
//! # What a power cut may do, and why it can be survived
//!
//! The model is POSIX at its least generous, because what survives it survives every file system.
//!
//! - **A write** that is not yet covered by a complete [`File::sync`](crate::File::sync) may be there, be lost, or be
//!   torn: any of its 512-byte sectors may be there without the others. Writes may survive in any combination; order
//!   means nothing. A sector is never half old and half new: disks do not tear sectors. *Survivable*: code that needs
//!   order waits for a sync between two writes; code that must recognise its writes puts a checksum on them.
//! - **A sync** covers the writes that were complete when it was *submitted*, and they are durable when it is complete.
//!   Writes in flight at that moment are not covered. *Survivable*: wait for the write before you sync it.
//! - **A write through an O_DSYNC handle** is durable when it is complete, with the length it needs. While in flight
//!   it may be torn like any other.
//! - **The length** of a file is a change of its own: the bytes may be there without the length (then they are gone),
//!   or the length without the bytes (then there are zeros, or what was there before). A sync covers both.
//! - **Names** (create, rename, link, remove, new and removed directories) survive or not one by one, in any
//!   combination, until [`Fs::sync_dir`](crate::Fs::sync_dir) of their directory. A file that was created and synced is
//!   gone if its directory was not synced; a removed file may be back; a rename may not have happened. One rename is
//!   atomic, also between two directories: the file has the old name or the new one, and syncing either directory makes
//!   it durable. *Survivable*: sync the directory before you rely on a name; make a group of files valid by one rename.
//! - **Durable bytes stay** as they were, bit by bit. Preallocated space reads as zeros or as the old bytes.
//!
//! A killed process loses nothing of this: reopen the same [`SimFs`]. [`Keep::All`] gives the same as an image.
//!
//! # What may fail while the power is on
//!
//! - **EIO on a read**: nothing is returned; the next read may succeed. **A flipped bit**: the read succeeds with one
//!   wrong bit, the medium is as before; [`DiskImage::flip_bit`] and [`SimFs::flip_bit`] damage the medium.
//!   *Survivable* by checksums, and by an error that names file and offset.
//! - **EIO on a write**: any of its sectors may have been written. **A short write**: the first sectors were written.
//!   Both end in an error. *Survivable*: the bytes were not acknowledged, and the place is written again or given up.
//! - **EIO on a sync** (the Linux fsync surprise): of every write it covered, some sectors are durable and the others
//!   are *forgotten*: the next sync succeeds and knows nothing of them. Afterwards readers see either still the new
//!   bytes (which then vanish at a power cut) or already the bytes on the medium. *Survivable*: a file whose sync
//!   failed is never synced again and trusted; its content is written elsewhere.
//! - **EIO on names**: the operation may or may not have happened. A failed `sync_dir` leaves names as durable as they
//!   were, and may be tried again.
//! - **ENOSPC**: a write writes as many pages as fit, and fails; a reservation fails as a whole; a new name fails when
//!   not one page is free. Removing the last name of a file that nobody has open frees its space at once. *Survivable*:
//!   nothing else is wrong; free space and go on.
//! - **Slow periods** stretch the time of operations that start in them; in **hung periods** nothing starts. Nothing
//!   else changes.
//!
//! Some faults are *not* modelled, because nothing here could survive them: acknowledged syncs that lie, sectors that
//! lose their durable content by a power cut, misdirected writes. Two overlapping writes in flight at the same time
//! have no defined order on a real disk; here the one submitted later wins while the power is on.
//!
//! # Time
//!
//! Direct and O_DSYNC writes, and all reads, take time on the device. A buffered write takes none; its bytes take time
//! when the file is synced. Operations on names take the device's latency. There is no page cache for reads.

use std::path::Path;
use std::sync::Arc;

use super::counters::{Count, Counters, OpKind};
use super::cut::{CutPoint, Phase};
use super::device::{Device, DeviceSpec};
use super::disk::Shared;
use super::events::Event;
use super::fate::Keep;
use super::fault::{Fault, FaultPlan, Faults};
use super::image::DiskImage;
use crate::{Class, Clock, Rng};

/// A file system in memory on a simulated device. The module's documentation says what may go wrong.
pub struct SimFs {
    pub(super) shared: Arc<Shared>,
}

impl SimFs {
    /// An empty disk without a limit of space.
    pub fn new(clock: Arc<dyn Clock>, device: DeviceSpec, faults: FaultPlan, rng: Rng) -> Arc<Self> {
        Self::from_image(&DiskImage::new(), clock, device, faults, rng)
    }

    /// A disk that starts as `image`, all of it durable. Shares the image's memory.
    pub fn from_image(
        image: &DiskImage,
        clock: Arc<dyn Clock>,
        device: DeviceSpec,
        faults: FaultPlan,
        mut rng: Rng,
    ) -> Arc<Self> {
        let device_rng = rng.fork("device");
        let (faults, periods) = Faults::new(faults, rng);
        Arc::new(Self::of(Arc::new(Shared::new(clock, Device::new(device, periods, device_rng), faults, image))))
    }

    fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// One image that a power cut at this moment may leave, drawn at random ([`Keep::Random`]). The disk itself goes
    /// on.
    pub fn crash(&self, rng: &mut Rng) -> DiskImage {
        self.crash_keeping(Keep::Random, rng)
    }

    /// One image that a power cut at this moment may leave. Each call draws one possible outcome.
    pub fn crash_keeping(&self, keep: Keep, rng: &mut Rng) -> DiskImage {
        self.shared.settled().crash(keep, rng)
    }

    /// Cuts the power now: every operation in flight or submitted later fails, and [`SimFs::crash`] shows this moment.
    pub fn cut_power(&self) {
        self.shared.cut_power();
    }

    /// Cuts the power at change number `index`.
    pub fn cut_power_at(&self, index: u64, phase: Phase) {
        self.shared.lock().cut = Some((index, phase));
    }

    /// Calls `hook` at every [`CutPoint`] from now on. The hook may use the disk; its own operations do not call it.
    pub fn on_cut_point(&self, mut hook: impl FnMut(&SimFs, &CutPoint<'_>) + Send + 'static) {
        let hook = move |shared: &Arc<Shared>, point: &CutPoint<'_>| hook(&SimFs::of(Arc::clone(shared)), point);
        self.shared.set_hook(Some(Box::new(hook)));
    }

    /// Removes the hook.
    pub fn clear_hook(&self) {
        self.shared.set_hook(None);
    }

    /// Changes submitted so far: the index of the next [`CutPoint`].
    pub fn changes(&self) -> u64 {
        self.shared.lock().changes
    }

    /// Replaces the planned faults. Periods planned earlier stay.
    pub fn set_faults(&self, plan: FaultPlan) {
        let mut state = self.shared.lock();
        for period in state.faults.set(plan) {
            state.device.add_period(period);
        }
    }

    /// Makes the next operation of `kind`, or the next of any kind, go wrong. Called from [`SimFs::on_cut_point`] in
    /// [`Phase::Before`], it hits that very operation: this is how a test fails "the third sync of a table".
    pub fn fail_next(&self, kind: Option<OpKind>, fault: Fault) {
        self.shared.lock().faults.fail_next(kind, fault);
    }

    /// Leaves `bytes` of free space (rounded down to pages); `u64::MAX` is without limit.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.shared.lock().set_free_bytes(bytes);
    }

    /// Makes the disk `bytes` large (rounded down to pages); the space of existing files is not free.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.lock().set_capacity(bytes);
    }

    /// Bytes of space that all files hold, including what they have reserved.
    pub fn held_bytes(&self) -> u64 {
        self.shared.lock().held_bytes()
    }

    /// Bytes that are free; `u64::MAX` is without limit.
    pub fn free_bytes(&self) -> u64 {
        self.shared.lock().free_bytes()
    }

    /// Flips a bit of a file on the medium, now. False if there is no such byte.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64, bit: u8) -> bool {
        let state = self.shared.lock();
        state.file(path.as_ref()).is_some_and(|file| file.state.lock().flip_bit(offset, bit))
    }

    /// Handles that are open on files of `dir` and the directories in it, by the path each was opened with. Files that
    /// have another name or none by now count too.
    pub fn open_files(&self, dir: impl AsRef<Path>) -> usize {
        let handles = self.shared.handles.lock();
        handles.iter().filter(|(path, _)| path.starts_with(dir.as_ref())).map(|(_, open)| open).sum()
    }

    /// Everything done so far, by class and kind.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters.clone()
    }

    /// What was done so far under one class and kind.
    pub fn count(&self, class: Class, kind: OpKind) -> Count {
        self.shared.lock().counters.get(class, kind)
    }

    /// A hash of all operations so far, each with its times, tag, path, offset and length.
    pub fn event_hash(&self) -> u64 {
        self.shared.lock().events.hash()
    }

    /// Records events from now on, to find where two runs diverge.
    pub fn record_events(&self) {
        self.shared.lock().events.record();
    }

    /// The events recorded since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.shared.lock().events.take()
    }
}
