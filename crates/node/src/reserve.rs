//! Space that is set aside, so that a full disk can be emptied.
//!
//! Dropping or emptying a tenant begins with an edit of the catalogue, and an edit may need a new journal: two files
//! with their blocks. On a full disk there is no room for these files, so they are made beforehand, in `reserve/`:
//! empty files with space reserved behind their end. An edit that stores nothing new and meets `NoSpace` *draws* on
//! them: they are renamed to where the new journal should be. The space goes from file to file and is never free in
//! between, so nobody else who waits for space can take it.
//!
//! Every journal is made with the same room. So an old journal gives back what the next one takes, and that space is
//! set aside at once. If it cannot be set aside, the attempt is repeated in the background.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::select;
use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use weir_io::{Clock, Error, ErrorKind, Event, File, Fs, Nanos, Op, OpenOptions, Result, Tag, forward_fs, sleep_until};

use crate::layout::TAG;

/// The files, each with its future role. There are as many as two journals take: one journal for each copy of the
/// catalogue, or for a second try.
const SPARES: [(&str, Role); 4] = [
    ("journal-1", Role::Journal),
    ("current-1", Role::Current),
    ("journal-2", Role::Journal),
    ("current-2", Role::Current),
];
/// The space of a `CURRENT`: one block of any file system.
const CURRENT_BYTES: u64 = 4096;
/// A journal that holds a snapshot has at least this much room behind it for edits to come: hundreds of them.
const EDITS_BYTES: u64 = 64 << 10;
/// Room for what a journal has in addition to its snapshot: the headers of the file and of the record.
const HEADERS_BYTES: u64 = 4096;
/// How long it waits before it tries again to set space aside, in nanoseconds.
const RETRY_AFTER: Nanos = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Journal,
    Current,
}

impl Role {
    /// The role of the catalogue's new file `path`.
    fn of(path: &Path) -> Self {
        match path.file_name() {
            Some(name) if name == "CURRENT.tmp" => Role::Current,
            _ => Role::Journal,
        }
    }
}

/// Files with space that is set aside for the catalogue.
pub(crate) struct Reserve {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// New files are made from the space that is set aside.
    drawing: AtomicBool,
    /// Held by whoever takes or makes one of the files: nobody may still be making a file into which somebody else
    /// writes a journal. Taken before `state`.
    files: AsyncMutex<()>,
    state: Mutex<SpareFiles>,
    /// Something was drawn, more is wanted, space has become free, or the node has ended.
    news: Arc<Event>,
}

struct SpareFiles {
    /// Bytes that a journal should have.
    journal_bytes: u64,
    /// Bytes that each of [`SPARES`] has.
    held: [u64; SPARES.len()],
    /// Rises when it is worth trying again at once.
    tries: u64,
}

impl SpareFiles {
    fn wanted(&self, spare: usize) -> u64 {
        match SPARES[spare].1 {
            Role::Journal => self.journal_bytes,
            Role::Current => CURRENT_BYTES,
        }
    }

    /// Which of [`SPARES`] is taken next as a file of this role.
    fn next(&self, role: Role) -> Option<usize> {
        (0..SPARES.len()).find(|&spare| SPARES[spare].1 == role && self.held[spare] > 0)
    }

    /// Whether some of [`SPARES`] has less than it should.
    fn is_missing(&self) -> bool {
        (0..SPARES.len()).any(|spare| self.held[spare] < self.wanted(spare))
    }
}

impl Reserve {
    /// A reserve in the directory `dir` of a node, with nothing set aside yet.
    pub fn new(fs: &Arc<dyn Fs>, dir: &Path) -> Arc<Self> {
        let state = SpareFiles { journal_bytes: EDITS_BYTES, held: [0; SPARES.len()], tries: 0 };
        let (drawing, files, news) = Default::default();
        Arc::new(Self { fs: Arc::clone(fs), dir: dir.join("reserve"), drawing, files, state: Mutex::new(state), news })
    }

    /// The same disk, on which new files are made from the reserve while somebody [draws](Reserve::draw).
    pub fn fs(self: &Arc<Self>) -> Arc<dyn Fs> {
        Arc::new(ReservedFs { inner: Arc::clone(&self.fs), reserve: Arc::clone(self) })
    }

    /// Until the result is dropped, new files are made from the reserve. One at a time: whoever draws holds the
    /// catalogue.
    pub fn draw(self: &Arc<Self>) -> Drawing {
        self.drawing.store(true, Ordering::Relaxed);
        Drawing(Arc::clone(self))
    }

    /// Whether a journal that begins with a snapshot of `bytes` bytes has room in the file that is taken next. If not,
    /// nobody should [draw](Reserve::draw): the journal would fail, and the file's space would be free for others. Also
    /// true if there is no such file, because taking it tells why that fails.
    pub fn fits(&self, bytes: u64) -> bool {
        let state = self.state.lock();
        state.next(Role::Journal).is_none_or(|spare| bytes.saturating_add(HEADERS_BYTES) <= state.held[spare])
    }

    /// The catalogue is `bytes` long as one snapshot. A journal of it has room for as much again, and for the edits of
    /// a small catalogue.
    pub fn cover(&self, bytes: u64) {
        let journal_bytes = (2 * bytes + EDITS_BYTES).next_power_of_two();
        let mut state = self.state.lock();
        if journal_bytes > state.journal_bytes {
            state.journal_bytes = journal_bytes;
            drop(state);
            self.news.notify();
        }
    }

    /// Space may have become free: the missing space is set aside now, and not at the next try.
    pub fn try_now(&self) {
        self.state.lock().tries += 1;
        self.news.notify();
    }

    /// Bytes that are set aside; 0 unless all bytes that should be set aside are.
    pub fn bytes(&self) -> u64 {
        let state = self.state.lock();
        if state.is_missing() { 0 } else { state.held.iter().sum() }
    }

    /// Takes the next file of the reserve and makes it the file `path`.
    async fn take(&self, path: &Path, options: OpenOptions, tag: Tag) -> Result<Arc<dyn File>> {
        let _files = self.files.lock().await;
        let role = Role::of(path);
        let taken = {
            let mut state = self.state.lock();
            let spare = state.next(role);
            spare.inspect(|&spare| state.held[spare] = 0)
        };
        let Some(spare) = taken else {
            let message = "the disk is full, and the space that was set aside for the catalogue is used up: free \
                           space on this file system";
            return Err(Error::new(ErrorKind::NoSpace, "create", path, message));
        };
        self.news.notify();
        self.fs.rename(&self.dir.join(SPARES[spare].0), path, tag).await?;
        self.fs.open(path, OpenOptions { create_new: false, ..options }, tag).await
    }

    /// Sets aside the space that is missing, as far as there is space.
    pub async fn fill(&self) -> Result<()> {
        let _files = self.files.lock().await;
        if !self.state.lock().is_missing() {
            return Ok(());
        }
        self.fs.create_dir_all(&self.dir, TAG).await?;
        if let Some(parent) = self.dir.parent() {
            self.fs.sync_dir(parent, TAG).await?;
        }
        let mut outcome = Ok(());
        for (spare, (name, _)) in SPARES.iter().enumerate() {
            let wanted = {
                let state = self.state.lock();
                Some(state.wanted(spare)).filter(|&wanted| state.held[spare] < wanted)
            };
            let Some(wanted) = wanted else { continue };
            match self.set_aside(name, wanted).await {
                Ok(()) => self.state.lock().held[spare] = wanted,
                Err(error) => outcome = Err(error),
            }
        }
        outcome.and(self.fs.sync_dir(&self.dir, TAG).await)
    }

    async fn set_aside(&self, name: &str, bytes: u64) -> Result<()> {
        let path = self.dir.join(name);
        let there = OpenOptions { write: true, create_new: false, direct: false, dsync: false };
        let file = match self.fs.open(&path, there, TAG).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.fs.open(&path, OpenOptions::create_new_buffered(), TAG).await?
            }
            opened => opened?,
        };
        if file.len().await? > 0 {
            // The file had become a journal, and the loss of the machine took its new name back.
            file.set_len(0, TAG).await?;
        }
        file.reserve(bytes, TAG).await?;
        file.sync(TAG).await
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.news.notify();
    }
}

/// The right to make new files from the reserve: see [`Reserve::draw`].
pub(crate) struct Drawing(Arc<Reserve>);

impl Drop for Drawing {
    fn drop(&mut self) {
        self.0.drawing.store(false, Ordering::Relaxed);
    }
}

/// The file system of [`Reserve::fs`].
struct ReservedFs {
    inner: Arc<dyn Fs>,
    reserve: Arc<Reserve>,
}

impl Fs for ReservedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        if !options.create_new {
            return self.inner.open(path, options, tag);
        }
        let (reserve, path) = (Arc::clone(&self.reserve), path.to_path_buf());
        if reserve.drawing.load(Ordering::Relaxed) {
            return Op::pending(async move { reserve.take(&path, options, tag).await });
        }
        let opening = self.inner.open(&path, options, tag);
        Op::pending(async move {
            let file = opening.await?;
            if Role::of(&path) == Role::Journal {
                let bytes = reserve.state.lock().journal_bytes;
                match file.reserve(bytes, tag).await {
                    // Not possible on this file system.
                    Err(error) if error.kind() == ErrorKind::Invalid => {}
                    // Without this room, the file would give back too little for the next one.
                    reserved => reserved?,
                }
            }
            Ok(file)
        })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, volume, lock);
}

/// Keeps `reserve` complete, until it is dropped.
pub(crate) async fn keep(reserve: Weak<Reserve>, clock: Arc<dyn Clock>) {
    let mut was_missing = false;
    loop {
        let Some(present) = reserve.upgrade() else { return };
        let (news, tries) = (Arc::clone(&present.news), present.state.lock().tries);
        let filled = present.fill().await;
        match &filled {
            Ok(()) if was_missing => tracing::info!("space for the catalogue is set aside again"),
            Err(error) if error.kind() == ErrorKind::Invalid => {
                tracing::warn!(
                    %error,
                    "no space can be set aside for the catalogue: if the disk becomes full, tenants cannot be dropped \
                     or emptied"
                );
                return;
            }
            Err(error) if !was_missing => {
                tracing::warn!(
                    %error,
                    "cannot set space aside for the catalogue yet: as long as the disk is full, tenants cannot be \
                     dropped or emptied"
                );
            }
            Ok(()) | Err(_) => {}
        }
        was_missing = filled.is_err();
        drop(present);
        let is_due = || {
            let Some(reserve) = reserve.upgrade() else { return Some(()) };
            let state = reserve.state.lock();
            let is_due = if was_missing { state.tries > tries } else { state.is_missing() };
            is_due.then_some(())
        };
        match filled {
            Ok(()) => news.wait(is_due).await,
            Err(_) => {
                select(pin!(sleep_until(&clock, clock.now() + RETRY_AFTER)), pin!(news.wait(is_due))).await;
            }
        }
    }
}
