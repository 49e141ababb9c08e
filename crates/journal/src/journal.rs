//! Reading and writing a journal.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::try_join;
use weir_io::{AlignedBuf, Class, Error, ErrorKind, File, Fs, OpenOptions, Result, Tag};

use crate::codec::{Entry, append_record, decode, decode_current, encode_current, file_header, file_name};

const CURRENT: &str = "CURRENT";
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
}

/// The journal being written.
pub struct Journal<E> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    tag: Tag,
    number: u64,
    file: Arc<dyn File>,
    end: u64,
    records: u32,
    /// An append failed (rule 2), or another process wrote the file: it is not written again.
    uncertain: bool,
    entries: PhantomData<fn(E)>,
}

impl<E: Entry> Journal<E> {
    /// Reads what `CURRENT` of `dir` names; `None` if there is no `CURRENT`.
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
            .ok_or_else(|| Error::corruption(&current, 0, "not the name of a file with its checksum"))?;
        let path = dir.join(file_name::<E>(number));
        let bytes = read_file(fs, &path, tag).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corruption(&path, 0, "missing, yet CURRENT names it"),
            _ => error,
        })?;
        let (edits, torn_at) =
            decode(&bytes).map_err(|broken| Error::corruption(&path, broken.offset, broken.message))?;
        Ok(Some(Recovered { number, edits, torn_at }))
    }

    /// Goes on with file `number`, which was just recovered, without writing to it: the first edit rolls. So opening
    /// costs two syncs, and works on a full disk.
    ///
    /// They are needed before anything that the journal does not name may be removed: what was read may have been in
    /// the page cache only, left there by a killed process, and a power cut would take it back.
    pub async fn resume(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, number: u64) -> Result<Self> {
        let file = fs.open(&dir.join(file_name::<E>(number)), OpenOptions::read_buffered(), tag).await?;
        // The device takes both in one go.
        try_join(file.sync(tag), fs.sync_dir(dir, tag)).await?;
        Ok(Self {
            fs: Arc::clone(fs),
            dir: dir.into(),
            tag,
            number,
            file,
            end: 0,
            records: 0,
            uncertain: true,
            entries: PhantomData,
        })
    }

    /// Starts file `number` with `snapshot` and makes it the current one.
    pub async fn create(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, number: u64, snapshot: &E) -> Result<Self> {
        let path = dir.join(file_name::<E>(number));
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(&file_header::<E>());
        append_record(&mut buf, 0, &snapshot.encode());
        let end = buf.len() as u64;
        let temporary = dir.join("CURRENT.tmp");
        let written = async {
            let file = write_file(fs, &path, buf, tag).await?;
            fs.sync_dir(dir, tag).await?;
            remove_if_there(fs, &temporary, tag).await?;
            write_file(fs, &temporary, AlignedBuf::copy_of(encode_current::<E>(number).as_bytes()), tag).await?;
            Ok(file)
        };
        let file = match written.await {
            Ok(file) => file,
            Err(error) => {
                // On a full disk this is tried ten times a second: attempts must not pile up. Nothing names the file,
                // so what cannot be removed now is removed at the next opening.
                let _ = fs.remove(&path, tag).await;
                return Err(error);
            }
        };
        fs.rename(&temporary, &dir.join(CURRENT), tag).await?;
        fs.sync_dir(dir, tag).await?;
        Ok(Self {
            fs: Arc::clone(fs),
            dir: dir.into(),
            tag,
            number,
            file,
            end,
            records: 1,
            uncertain: false,
            entries: PhantomData,
        })
    }

    /// What is written from now on has this cause, and its urgency.
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

    /// Replaces this file by `number`, holding `snapshot`. Gives the path of the old file, which nothing needs any
    /// more.
    pub async fn roll(&mut self, number: u64, snapshot: &E) -> Result<PathBuf> {
        let old = self.dir.join(file_name::<E>(self.number));
        *self = Self::create(&self.fs, &self.dir, self.tag, number, snapshot).await?;
        Ok(old)
    }

    /// Makes `edit` durable. After an error its fate is unknown: see rule 2.
    pub async fn append(&mut self, edit: &E) -> Result<()> {
        let mut buf = AlignedBuf::new();
        append_record(&mut buf, self.records, &edit.encode());
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

/// Makes journal `number` of `dir`, which is complete and durable, the current one: for repairs.
///
/// # Errors
/// I/O. `CURRENT` is as it was, or names the journal.
pub async fn point_at<E: Entry>(fs: &Arc<dyn Fs>, dir: &Path, tag: Tag, number: u64) -> Result<()> {
    let temporary = dir.join("CURRENT.tmp");
    remove_if_there(fs, &temporary, tag).await?;
    write_file(fs, &temporary, AlignedBuf::copy_of(encode_current::<E>(number).as_bytes()), tag).await?;
    fs.rename(&temporary, &dir.join(CURRENT), tag).await?;
    fs.sync_dir(dir, tag).await
}

async fn read_file(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<AlignedBuf> {
    let file = fs.open(path, OpenOptions::read_buffered(), tag).await?;
    let length = file.len().await? as usize;
    file.read_at(0, AlignedBuf::with_len(length), tag).await
}

/// Creates `path` with `content` and makes that durable, but not the name.
async fn write_file(fs: &Arc<dyn Fs>, path: &Path, content: AlignedBuf, tag: Tag) -> Result<Arc<dyn File>> {
    let file = fs.open(path, OpenOptions::create_new_buffered(), tag).await?;
    file.write_at(0, content, tag).await?;
    file.sync(tag).await?;
    Ok(file)
}

async fn remove_if_there(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<()> {
    match fs.remove(path, tag).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
