//! Reading and writing a journal.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::try_join;
use weir_io::{AlignedBuf, Class, Error, ErrorKind, File, Fs, OpenOptions, Result, Tag};

use crate::codec::{
    Appended, Contents, Entry, append_record, contents, decode_current, encode_current, file_header, file_name, seed,
};
use crate::files::{read_file, remove_if_there, write_file};
use crate::garbage::{Begun, Garbage};

const CURRENT: &str = "CURRENT";
const TEMPORARY: &str = "CURRENT.tmp";
/// A journal longer than this is rolled: 4 MiB are about 40,000 edits, replayed in milliseconds.
const ROLL_BYTES: u64 = 4 << 20;

/// What recovery found.
pub struct Recovered<E> {
    /// Number of the file that `CURRENT` names.
    pub number: u64,
    /// Its edits, oldest first; the first is a snapshot.
    pub edits: Vec<E>,
    /// Offset of a torn last record, if there was one.
    pub torn_at: Option<u64>,
    /// The record that [`Journal::confirm`] writes again.
    pub(crate) appended: Option<Appended>,
}

impl<E: Entry> Recovered<E> {
    /// File `number`, with these contents.
    pub(crate) fn new(number: u64, contents: Contents<E>) -> Self {
        let Contents { edits, torn_at, appended } = contents;
        Self { number, edits, torn_at, appended }
    }

    /// The file, in `dir`.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(file_name::<E>(self.number))
    }
}

/// The journal being written.
///
/// It is opened or created with a `salt`: a random number that clients must not know. They choose the keys in its
/// edits, and without the salt a key could contain bytes that pass for a record.
pub struct Journal<E> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    tag: Tag,
    /// The random number that the salts of its files are made of.
    salt: u64,
    number: u64,
    file: Arc<dyn File>,
    end: u64,
    records: u32,
    /// An append failed (rule 2), or another process wrote the file: it is not written again.
    uncertain: bool,
    /// Files that are named by an edit which may or may not be in the journal's file, and later files of the journal
    /// that may or may not have become the current one. They may go once the journal has been rolled.
    doubtful: Vec<PathBuf>,
    /// The record of another process that [`Journal::confirm`] writes again.
    unconfirmed: Option<Appended>,
    entries: PhantomData<fn(E)>,
}

impl<E: Entry> Journal<E> {
    /// Like [`Journal::recover`]; if there is no `CURRENT`, creates `dir`.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    pub async fn recover_or_make_dir(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<Option<Recovered<E>>> {
        let recovered = Self::recover(fs, dir, tag).await?;
        if recovered.is_none() {
            fs.create_dir_all(dir, tag).await?;
            if let Some(parent) = dir.parent() {
                // The directory's name must be durable before anything in it is. Where there is a journal, it has been
                // for long.
                fs.sync_dir(parent, tag).await?;
            }
        }
        Ok(recovered)
    }

    /// Like [`Journal::recover`], for a `dir` that should be the directory of a `whose`.
    ///
    /// # Errors
    /// As [`Journal::recover`]; `NotFound` if there is no `CURRENT`.
    pub async fn recover_known(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, whose: &str) -> Result<Recovered<E>> {
        let none = || {
            Error::new(ErrorKind::NotFound, "find CURRENT in", dir, format!("this is not the directory of a {whose}"))
        };
        Self::recover(fs, dir, tag).await?.ok_or_else(none)
    }

    /// Goes on with what was recovered. If that is nothing, begins file number `next`, with the edit that `first` makes
    /// of the number behind it; `next` becomes that number.
    ///
    /// # Errors
    /// I/O.
    pub async fn open(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        tag: Tag,
        salt: u64,
        recovered: Option<Recovered<E>>,
        next: &mut u64,
        first: impl FnOnce(u64) -> E,
    ) -> Result<Self> {
        match recovered {
            Some(recovered) => Self::resume(fs, dir, tag, salt, recovered.number, recovered.appended).await,
            None => {
                let number = *next;
                *next += 1;
                Self::create(fs, dir, tag, salt, number, &first(*next)).await
            }
        }
    }

    /// Reads the file that `CURRENT` of `dir` names; `None` if there is no `CURRENT`.
    ///
    /// # Errors
    /// `Corruption`, with file and offset, also where the file that `CURRENT` names is missing; I/O.
    pub async fn recover(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<Option<Recovered<E>>> {
        let current = dir.join(CURRENT);
        let bytes = match read_file(fs, &current, tag).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = decode_current::<E>(&bytes)
            .ok_or_else(|| Error::corruption(&current, 0, "the content is not a file name with a valid checksum"))?;
        let path = dir.join(file_name::<E>(number));
        let bytes = read_file(fs, &path, tag).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corruption(&path, 0, "the file is missing, although CURRENT names it"),
            _ => error,
        })?;
        let contents = contents(&bytes).map_err(|broken| Error::corruption(&path, broken.offset, broken.message))?;
        Ok(Some(Recovered::new(number, contents)))
    }

    /// Goes on with file `number`, which was just recovered with the record `appended` at its end, without writing to
    /// it: the first edit rolls. So opening costs two syncs, and works on a full disk and on one that takes no writes.
    ///
    /// The syncs are needed because what was read may have been in the page cache only, left there by a killed process,
    /// and a power cut would take it back. They may not be enough: see [`Journal::confirm`].
    pub async fn resume(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        tag: Tag,
        salt: u64,
        number: u64,
        appended: Option<Appended>,
    ) -> Result<Self> {
        let file = fs.open(&dir.join(file_name::<E>(number)), OpenOptions::read_buffered(), tag).await?;
        // The device takes both in one go.
        try_join(file.sync(tag), fs.sync_dir(dir, tag)).await?;
        Ok(Self { uncertain: true, unconfirmed: appended, ..Self::new(fs, dir, tag, salt, number, file) })
    }

    /// Makes certain that the device has what was recovered. It must be called before anything is removed that the
    /// recovered edits give up; a roll makes it needless.
    ///
    /// If the process before met an error when it synced the last record, the page cache takes the record for clean,
    /// and another sync succeeds and writes nothing. So the record is written again as it is, in its place, which
    /// cannot harm it if it is there and needs no space.
    ///
    /// # Errors
    /// I/O. The next call tries again.
    pub async fn confirm(&mut self) -> Result<()> {
        if let Some(Appended { offset, bytes }) = &self.unconfirmed {
            let options = OpenOptions { write: true, ..OpenOptions::read_buffered() };
            let file = self.fs.open(&self.dir.join(file_name::<E>(self.number)), options, self.tag).await?;
            file.write_at(*offset, AlignedBuf::copy_of(bytes), self.tag).await?;
            file.sync(self.tag).await?;
            self.unconfirmed = None;
        }
        Ok(())
    }

    fn new(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, salt: u64, number: u64, file: Arc<dyn File>) -> Self {
        let (fs, dir) = (Arc::clone(fs), dir.into());
        Self {
            fs,
            dir,
            tag,
            salt,
            number,
            file,
            end: 0,
            records: 0,
            uncertain: false,
            doubtful: Vec::new(),
            unconfirmed: None,
            entries: PhantomData,
        }
    }

    /// Starts file `number` with `snapshot` and makes it the current one.
    pub async fn create(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, salt: u64, number: u64, snapshot: &E) -> Result<Self> {
        let new = Self::write(fs, dir, tag, salt, number, snapshot).await?;
        make_current(fs, dir, tag).await?;
        Ok(new)
    }

    /// Starts file `number` with `snapshot`. All that is left to be done is [`make_current`].
    async fn write(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, salt: u64, number: u64, snapshot: &E) -> Result<Self> {
        let path = dir.join(file_name::<E>(number));
        let mut buf = AlignedBuf::new();
        let salt_of_file = salt_of_file(salt, number);
        buf.extend_from_slice(&file_header::<E>(salt_of_file));
        append_record(&mut buf, seed(salt_of_file), 0, &snapshot.encode());
        let end = buf.len() as u64;
        let written = async {
            let file = write_file(fs, &path, buf, tag).await?;
            fs.sync_dir(dir, tag).await?;
            write_temporary::<E>(fs, dir, tag, number).await?;
            Ok(file)
        };
        let file = match written.await {
            Ok(file) => file,
            Err(error) => {
                // On a full disk this is tried ten times a second: attempts must not pile up. Nothing names the file,
                // so if it cannot be removed now, the next opening removes it.
                let _ = fs.remove(&path, tag).await;
                return Err(error);
            }
        };
        Ok(Self { end, records: 1, ..Self::new(fs, dir, tag, salt, number, file) })
    }

    /// Everything that is written from now on has this class, and its urgency.
    pub fn set_class(&mut self, class: Class) {
        self.tag.class = class;
    }

    /// The number of the file being written.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the next edit must go to a new file (rule 2, or the file has grown long).
    pub fn needs_roll(&self) -> bool {
        self.uncertain || self.end >= ROLL_BYTES
    }

    /// Replaces this file by file `number`, which holds `snapshot`. The old file becomes garbage, and with it the files
    /// that only an edit names whose append has failed.
    pub async fn roll(&mut self, number: u64, snapshot: &E, garbage: &Garbage) -> Result<()> {
        let new = Self::write(&self.fs, &self.dir, self.tag, self.salt, number, snapshot).await?;
        // If this fails, or is given up half-way, nobody knows whether `CURRENT` names the new file.
        self.doubtful.push(self.dir.join(file_name::<E>(number)));
        make_current(&self.fs, &self.dir, self.tag).await?;
        self.doubtful.pop();
        let old = std::mem::replace(self, new);
        garbage.add(old.doubtful.into_iter().chain([old.dir.join(file_name::<E>(old.number))]));
        Ok(())
    }

    /// Like [`Journal::append`], for an edit that names the files of `begun`. From now on they belong to the journal:
    /// whatever happens, they are removed only when the journal surely does not name them.
    pub async fn append_naming(&mut self, edit: &E, begun: Begun) -> Result<()> {
        self.doubtful.extend(begun.take());
        self.append(edit).await?;
        self.doubtful.clear();
        Ok(())
    }

    /// Makes `edit` durable. After an error its fate is unknown: see rule 2.
    pub async fn append(&mut self, edit: &E) -> Result<()> {
        let mut buf = AlignedBuf::new();
        append_record(&mut buf, seed(salt_of_file(self.salt, self.number)), self.records, &edit.encode());
        let length = buf.len() as u64;
        // Set before the first await: a job dropped in the middle leaves the same doubt as an error.
        self.uncertain = true;
        self.file.write_at(self.end, buf, self.tag).await?;
        self.file.sync(self.tag).await?;
        self.uncertain = false;
        self.end += length;
        self.records += 1;
        Ok(())
    }
}

/// The salt of file `number` of a journal with this salt: so no two files of it have the same one.
fn salt_of_file(salt: u64, number: u64) -> u64 {
    salt ^ number
}

/// Makes journal `number` of `dir`, which is complete and durable, the current one: for repairs.
///
/// # Errors
/// I/O. `CURRENT` is as it was, or names the journal.
pub async fn point_at<E: Entry>(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, number: u64) -> Result<()> {
    write_temporary::<E>(fs, dir, tag, number).await?;
    make_current(fs, dir, tag).await
}

/// Writes the next content of `CURRENT` to a file beside it.
async fn write_temporary<E: Entry>(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, number: u64) -> Result<()> {
    let temporary = dir.join(TEMPORARY);
    remove_if_there(fs, &temporary, tag).await?;
    write_file(fs, &temporary, AlignedBuf::copy_of(encode_current::<E>(number).as_bytes()), tag).await?;
    Ok(())
}

/// Puts the file that was written in the place of `CURRENT`.
async fn make_current(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag) -> Result<()> {
    fs.rename(&dir.join(TEMPORARY), &dir.join(CURRENT), tag).await?;
    fs.sync_dir(dir, tag).await
}
