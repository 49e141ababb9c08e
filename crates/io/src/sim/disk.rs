//! The state of a simulated disk, and the path of every operation through it: begin, do, finish.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use super::content::CHUNK;
use super::counters::{Counters, OpKind};
use super::cut::{CutPoint, Phase};
use super::device::Device;
use super::events::{Event, EventLog};
use super::fault::{Fault, Faults};
use super::hash::Fold;
use super::image::DiskImage;
use super::inode::{DirInode, FileInode, FileState, Inode};
use super::names::PendingNames;
use super::path::{components, not_a_dir, not_found};
use crate::{Clock, Error, ErrorKind, Nanos, Op, Result, Tag, sleep_until};

/// Called at every [`CutPoint`].
pub(super) type Hook = Box<dyn FnMut(&Arc<Shared>, &CutPoint<'_>) + Send>;

/// State shared by the file system, its open files and its operations in flight.
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    /// The unit of direct reads, in bytes.
    pub(super) sector_bytes: usize,
    /// The only lock that anybody waits for; inode locks are taken under it.
    state: Mutex<DiskState>,
    hook: Mutex<Option<Hook>>,
    /// Whether there is a hook; keeps the fast path off its lock.
    hooked: AtomicBool,
    /// Open handles, by the path that each was opened with. No other lock is taken under this one.
    pub(super) handles: Mutex<BTreeMap<PathBuf, usize>>,
}

pub(super) struct DiskState {
    pub(super) device: Device,
    pub(super) faults: Faults,
    pub(super) root: Arc<DirInode>,
    pub(super) names: PendingNames,
    /// The next number for an operation or an inode.
    next_number: u64,
    /// Syncs and synced writes in flight: the changes they cover become durable when they are complete, not before.
    landings: BinaryHeap<Reverse<Landing>>,
    pub(super) counters: Counters,
    pub(super) events: EventLog,
    /// Chunks that are free; `u64::MAX` is without limit.
    pub(super) free_chunks: u64,
    pub(super) locks: BTreeSet<PathBuf>,
    /// Changes submitted so far (see [`OpKind::is_change`]).
    pub(super) changes: u64,
    /// Where the power will be cut.
    pub(super) cut: Option<(u64, Phase)>,
    /// When the power was cut.
    off_since: Option<Nanos>,
}

/// The changes that become durable when an operation is complete.
pub(super) enum Land {
    Write(Arc<FileInode>),
    Sync(Arc<FileInode>),
    SyncDir(Arc<DirInode>),
    SyncAll,
}

struct Landing {
    at: Nanos,
    number: u64,
    submitted: Nanos,
    land: Land,
}

impl Ord for Landing {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Landing {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Landing {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Landing {}

/// An operation as it is submitted.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) kind: OpKind,
    pub(super) tag: Tag,
    pub(super) path: &'a Path,
    pub(super) path_hash: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl<'a> Request<'a> {
    /// An operation on names.
    pub(super) fn on(kind: OpKind, path: &'a Path, tag: Tag) -> Self {
        Self { kind, tag, path, path_hash: hash_path(path), offset: 0, len: 0 }
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        let error = Error::new(kind, self.kind.name(), self.path, message);
        if matches!(self.kind, OpKind::Read | OpKind::Write) { error.at(self.offset) } else { error }
    }

    pub(super) fn io_error(&self) -> Error {
        self.error(ErrorKind::Device, "input/output error (simulated)")
    }

    pub(super) fn no_space(&self) -> Error {
        self.error(ErrorKind::NoSpace, "no space left on the simulated disk")
    }

    fn power_is_off(&self) -> Error {
        self.error(ErrorKind::Device, "the power is off (simulated)")
    }

    fn cut_point(&self, index: u64, phase: Phase) -> CutPoint<'a> {
        CutPoint { index, phase, kind: self.kind, tag: self.tag, path: self.path, offset: self.offset, len: self.len }
    }
}

pub(super) fn hash_path(path: &Path) -> u64 {
    Fold::new().add_bytes(path.as_os_str().as_encoded_bytes()).value()
}

/// An operation that has begun: the state is locked, time and number are given.
pub(super) struct Begun<'a> {
    pub(super) state: MutexGuard<'a, DiskState>,
    pub(super) now: Nanos,
    pub(super) number: u64,
    /// The operation's number among the changes.
    index: u64,
    pub(super) fault: Option<Fault>,
}

/// The result of an operation.
pub(super) struct Outcome<T> {
    pub(super) result: Result<T>,
    /// When the caller learns of it.
    pub(super) done_at: Nanos,
    /// Bytes moved.
    pub(super) bytes: u64,
    pub(super) land: Option<Land>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, device: Device, faults: Faults, image: &DiskImage) -> Self {
        let (root, next_number) = image.mount();
        let sector_bytes = device.sector_bytes();
        let state = DiskState {
            device,
            faults,
            root,
            names: PendingNames::default(),
            next_number,
            landings: BinaryHeap::new(),
            counters: Counters::default(),
            events: EventLog::new(),
            free_chunks: u64::MAX,
            locks: BTreeSet::new(),
            changes: 0,
            cut: None,
            off_since: None,
        };
        let (hook, hooked, handles) = Default::default();
        Self { clock, sector_bytes, state: Mutex::new(state), hook, hooked, handles }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock()
    }

    /// The state, after everything complete by now has become durable.
    pub(super) fn settled(&self) -> MutexGuard<'_, DiskState> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.settle(now);
        state
    }

    pub(super) fn set_hook(&self, hook: Option<Hook>) {
        self.hooked.store(hook.is_some(), Relaxed);
        *self.hook.lock() = hook;
    }

    /// First half of every operation.
    pub(super) fn begin(self: &Arc<Self>, request: &Request<'_>) -> Result<Begun<'_>> {
        if request.kind.is_change() {
            self.call_hook(request, None, Phase::Before);
        }
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.off_since.is_some() {
            return Err(request.power_is_off());
        }
        state.settle(now);
        let index = state.changes;
        if request.kind.is_change() {
            if state.cut == Some((index, Phase::Before)) {
                state.off_since = Some(now);
                return Err(request.power_is_off());
            }
            state.changes += 1;
        }
        let fault = state.faults.draw(request.kind);
        let number = state.new_number();
        Ok(Begun { state, now, number, index, fault })
    }

    /// Second half of every operation.
    pub(super) fn finish<T: Send + Unpin + 'static>(
        self: &Arc<Self>,
        request: &Request<'_>,
        begun: Begun<'_>,
        outcome: Outcome<T>,
    ) -> Op<T> {
        let Begun { mut state, now, number, index, fault: _ } = begun;
        let Outcome { result, done_at, bytes, land } = outcome;
        let ok = result.is_ok();
        let Request { kind, tag, path, path_hash, offset, len } = *request;
        state.counters.book(tag.class, kind, bytes);
        let who = u64::from(tag.owner.tenant) << 32 | u64::from(tag.owner.partition);
        let what = (kind as u64) << 16 | (tag.class as u64) << 8 | u64::from(ok);
        let path_text = || path.to_string_lossy().into_owned();
        let event = || Event { submitted: now, done_at, kind, tag, path: path_text(), offset, len, ok };
        state.events.add(path_hash, event, [now, done_at, who << 20 ^ what, offset, len]);

        if kind.is_change() {
            if self.hooked.load(Relaxed) {
                drop(state);
                self.call_hook(request, Some(index), Phase::During);
                state = self.state.lock();
            }
            if state.cut == Some((index, Phase::During)) {
                state.off_since.get_or_insert(now);
                // Unlock before the result is dropped: it may be a file, which takes the lock when it is closed.
                drop(state);
                return Op::ready(Err(request.power_is_off()));
            }
        }
        if let Some(land) = land {
            let landing = Landing { at: done_at, number, submitted: now, land };
            if done_at <= now { landing.land(&mut state) } else { state.landings.push(Reverse(landing)) }
        }
        drop(state);
        if done_at <= now {
            return Op::ready(result);
        }
        let (shared, sleep, cut_off) = (Arc::clone(self), sleep_until(&self.clock, done_at), request.power_is_off());
        Op::pending(async move {
            sleep.await;
            if shared.was_cut_off(done_at) { Err(cut_off) } else { result }
        })
    }

    /// Whether an operation complete at `done_at` was still in flight when the power was cut.
    fn was_cut_off(&self, done_at: Nanos) -> bool {
        self.state.lock().off_since.is_some_and(|off| done_at > off)
    }

    pub(super) fn cut_power(&self) {
        let now = self.clock.now();
        self.state.lock().off_since.get_or_insert(now);
    }

    /// Calls the hook. Without `index` the change is the next one.
    fn call_hook(self: &Arc<Self>, request: &Request<'_>, index: Option<u64>, phase: Phase) {
        if !self.hooked.load(Relaxed) {
            return;
        }
        let index = index.unwrap_or_else(|| self.lock().changes);
        // The hook is taken out while it runs, so that it may use the file system without being called again.
        let Some(mut hook) = self.hook.lock().take() else { return };
        hook(self, &request.cut_point(index, phase));
        let mut slot = self.hook.lock();
        if slot.is_none() && self.hooked.load(Relaxed) {
            *slot = Some(hook);
        }
    }
}

impl Landing {
    fn land(self, state: &mut DiskState) {
        let Landing { number, submitted, land, .. } = self;
        match land {
            Land::Write(file) => file.state.lock().land_write(number),
            Land::Sync(file) => file.state.lock().land_sync(number, submitted),
            Land::SyncDir(dir) => state.names.land_sync(&dir, number, submitted),
            Land::SyncAll => state.files().iter().for_each(|file| file.state.lock().land_sync(number, submitted)),
        }
    }
}

impl DiskState {
    pub(super) fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn settle(&mut self, now: Nanos) {
        let until = self.off_since.map_or(now, |off| off.min(now));
        while self.landings.peek().is_some_and(|Reverse(landing)| landing.at <= until) {
            let Some(Reverse(landing)) = self.landings.pop() else { return };
            landing.land(self);
        }
    }

    /// The directory at the end of the path `names`.
    pub(super) fn dir(&self, action: &'static str, path: &Path, names: &[&str]) -> Result<Arc<DirInode>> {
        let mut dir = Arc::clone(&self.root);
        for name in names {
            let next = match dir.state.lock().names.get(*name) {
                Some(Inode::Dir(next)) => Arc::clone(next),
                Some(Inode::File(_)) => return Err(not_a_dir(action, path)),
                None => return Err(not_found(action, path)),
            };
            dir = next;
        }
        Ok(dir)
    }

    pub(super) fn file(&self, path: &Path) -> Option<Arc<FileInode>> {
        let names = components("open", path).ok()?;
        let (name, parents) = names.split_last()?;
        let dir = self.dir("open", path, parents).ok()?;
        let found = dir.state.lock().names.get(*name).cloned();
        match found? {
            Inode::File(file) => Some(file),
            Inode::Dir(_) => None,
        }
    }

    /// Every file that has a name, in the order of the names.
    pub(super) fn files(&self) -> Vec<Arc<FileInode>> {
        let (mut files, mut dirs) = (Vec::new(), vec![Arc::clone(&self.root)]);
        while let Some(dir) = dirs.pop() {
            for inode in dir.state.lock().names.values() {
                match inode {
                    Inode::File(file) => files.push(Arc::clone(file)),
                    Inode::Dir(dir) => dirs.push(Arc::clone(dir)),
                }
            }
        }
        files
    }

    /// Takes up to `wanted` chunks; returns how many were free.
    pub(super) fn take_space(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.free_chunks);
        if self.free_chunks != u64::MAX {
            self.free_chunks -= taken;
        }
        taken
    }

    pub(super) fn give_space(&mut self, chunks: u64) {
        if self.free_chunks != u64::MAX {
            self.free_chunks += chunks;
        }
    }

    /// Runs `change` on a file and books the space that the change freed.
    pub(super) fn shrinking<T>(
        &mut self,
        file: &FileInode,
        change: impl FnOnce(&mut FileState, &mut Faults) -> T,
    ) -> T {
        let mut state = file.state.lock();
        let before = state.chunks_held();
        let result = change(&mut state, &mut self.faults);
        let given = before.saturating_sub(state.chunks_held());
        drop(state);
        self.give_space(given);
        result
    }

    /// Frees the space of a file that has neither name nor handle any more.
    pub(super) fn release(&mut self, file: &FileInode) {
        let state = file.state.lock();
        if state.links == 0 && state.handles == 0 && self.free_chunks != u64::MAX {
            let held = state.chunks_held();
            drop(state);
            self.give_space(held);
        }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        if self.free_chunks == u64::MAX { u64::MAX } else { self.free_chunks * CHUNK as u64 }
    }

    /// The space of all files, in bytes. A file with two names counts once.
    pub(super) fn held_bytes(&self) -> u64 {
        let held: BTreeMap<u64, u64> =
            self.files().iter().map(|file| (file.number, file.state.lock().chunks_held())).collect();
        held.values().sum::<u64>() * CHUNK as u64
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.set_free_bytes(bytes.saturating_sub(self.held_bytes()));
    }

    pub(super) fn set_free_bytes(&mut self, bytes: u64) {
        self.free_chunks = if bytes == u64::MAX { u64::MAX } else { bytes / CHUNK as u64 };
    }
}
