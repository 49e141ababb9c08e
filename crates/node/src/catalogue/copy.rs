//! One of the two copies of the catalogue: a directory with a journal. This reads a copy without changing anything, and
//! writes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Error, ErrorKind, Fs, OpenOptions, Result, Tag};
use weir_journal::{Appended, Contents, Journal};

use super::edit::CatalogueEdit;
use super::listings::Listings;
use super::stamp::Stamp;

/// Which of the two copies. An edit goes to the first one, and when it is durable there, to the mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `catalogue/`
    First,
    /// `catalogue.mirror/`
    Mirror,
}

impl Role {
    /// Both copies.
    pub const ALL: [Role; 2] = [Role::First, Role::Mirror];

    /// The name of the copy's directory.
    pub const fn name(self) -> &'static str {
        match self {
            Role::First => "catalogue",
            Role::Mirror => "catalogue.mirror",
        }
    }

    /// The copy's directory in the node's directory `dir`.
    pub fn dir(self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    /// The other copy.
    pub const fn other(self) -> Role {
        match self {
            Role::First => Role::Mirror,
            Role::Mirror => Role::First,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of a copy.
#[derive(Clone, Debug)]
pub struct CopyState {
    /// Its journal.
    pub path: PathBuf,
    /// The journal's number.
    pub number: u64,
    /// Which directory's catalogue this is.
    pub identity: u64,
    /// The stamp of its last edit.
    pub stamp: Stamp,
    /// The stamp that it knows to be durable in the mirror; `None` in the mirror itself.
    pub confirmed: Option<Stamp>,
    /// All edits, added up.
    pub listings: Listings,
    /// The record at the end of the journal, if it was appended.
    pub appended: Option<Appended>,
}

/// Why a copy cannot be believed.
#[derive(Clone, Debug)]
pub struct Unsound {
    /// The file that is missing or damaged.
    pub path: PathBuf,
    /// Where it is damaged, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub why: String,
    /// Whether the file is not there at all.
    pub is_missing: bool,
    /// The device's error, where that is the reason: nothing is known about the bytes then.
    pub device: Option<Error>,
}

impl Unsound {
    fn at(path: &Path, offset: u64, why: impl Into<String>) -> Self {
        Self { path: path.into(), offset, why: why.into(), is_missing: false, device: None }
    }

    /// Tells damage from failures of the device.
    ///
    /// # Errors
    /// The device's error, where that is the reason.
    pub fn only_damage(&self) -> Result<()> {
        self.device.clone().map_or(Ok(()), Err)
    }
}

/// A journal is rolled at 4 MiB, and a snapshot of a million tenants is smaller than this. A longer file is no journal.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// Reads the copy `role` of the node in `dir`. Changes nothing.
pub async fn read(fs: &Arc<dyn Fs>, dir: &Path, role: Role, tag: Tag) -> Result<CopyState, Unsound> {
    let own = role.dir(dir);
    let current = own.join("CURRENT");
    let bytes = read_file(fs, &current, tag).await?;
    let number = weir_journal::decode_current::<CatalogueEdit>(&bytes)
        .ok_or_else(|| Unsound::at(&current, 0, "the content is not a file name with a valid checksum"))?;
    read_journal(fs, &own, number, tag).await
}

/// Reads journal `number` in `own`, the directory of a copy.
pub async fn read_journal(fs: &Arc<dyn Fs>, own: &Path, number: u64, tag: Tag) -> Result<CopyState, Unsound> {
    let path = own.join(weir_journal::file_name::<CatalogueEdit>(number));
    let bytes = read_file(fs, &path, tag).await?;
    decode(path, number, &bytes)
}

/// Reads the first `length` bytes of journal `number` in `own`, in front of the damage: for repairs.
pub async fn read_prefix(
    fs: &Arc<dyn Fs>,
    own: &Path,
    number: u64,
    length: u64,
    tag: Tag,
) -> Result<CopyState, Unsound> {
    let path = own.join(weir_journal::file_name::<CatalogueEdit>(number));
    let bytes = read_file(fs, &path, tag).await?;
    let length = bytes.len().min(usize::try_from(length).unwrap_or(usize::MAX));
    decode(path, number, &bytes[..length])
}

/// The state that the bytes of the journal at `path` describe.
fn decode(path: PathBuf, number: u64, bytes: &[u8]) -> Result<CopyState, Unsound> {
    let Contents { edits, appended, .. } = weir_journal::contents::<CatalogueEdit>(bytes)
        .map_err(|broken| Unsound::at(&path, broken.offset, broken.message))?;
    let unsound = |why: String| Unsound::at(&path, 0, why);
    let Some(identity) = edits.first().and_then(|edit| edit.identity) else {
        return Err(unsound("the first record is not a snapshot of a catalogue".into()));
    };
    let (mut stamp, mut confirmed, mut listings) = (Stamp::default(), edits[0].confirmed, Listings::empty());
    for edit in edits {
        if edit.stamp.epoch <= stamp.epoch || edit.confirmed.is_some() != confirmed.is_some() {
            return Err(unsound(format!("edit {} does not follow edit {}", edit.stamp.epoch, stamp.epoch)));
        }
        (stamp, confirmed) = (edit.stamp, edit.confirmed);
        listings.apply(edit);
    }
    match listings.fault() {
        Some(fault) => Err(unsound(fault)),
        None => Ok(CopyState { path, number, identity, stamp, confirmed, listings, appended }),
    }
}

async fn read_file(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<AlignedBuf, Unsound> {
    let read = async {
        let file = fs.open(path, OpenOptions::read_buffered(), tag).await?;
        let length = file.len().await?;
        if length > JOURNAL_BYTES_MAX {
            return Ok(None);
        }
        file.read_at(0, AlignedBuf::with_len(length as usize), tag).await.map(Some)
    };
    match read.await {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(Unsound::at(path, 0, "the file is far too long to be part of a catalogue")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Unsound { is_missing: true, ..Unsound::at(path, 0, "the file is missing") })
        }
        Err(error) => Err(Unsound { device: Some(error.clone()), ..Unsound::at(path, 0, error.to_string()) }),
    }
}

/// The numbers of all journals in `own`, the directory of a copy: the journal in force, and those that crashes and
/// failed attempts left.
pub async fn journals(fs: &Arc<dyn Fs>, own: &Path, tag: Tag) -> Result<Vec<u64>> {
    let names = match fs.list(own, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    Ok(names.iter().filter_map(|entry| weir_journal::file_number::<CatalogueEdit>(&entry.name)).collect())
}

/// A copy being written.
pub struct CopyWriter {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    tag: Tag,
    /// The journal that is written; `None` before the first edit: nothing is ever added to a file that another process
    /// may have written.
    journal: Option<Journal<CatalogueEdit>>,
    /// The number of the journal that is in force.
    in_force: Option<u64>,
    /// The record that was found at its end.
    appended: Option<Appended>,
    /// First file number never used, not even by an attempt that failed.
    next_file: u64,
    /// A random number, for the salts of its journals.
    salt: u64,
}

impl CopyWriter {
    /// Writes the copy in `own`, which was `found` in this state. Changes nothing yet: the first edit rolls.
    pub async fn new(fs: &Arc<dyn Fs>, own: PathBuf, found: Option<&CopyState>, tag: Tag, salt: u64) -> Result<Self> {
        let next_file = journals(fs, &own, tag).await?.into_iter().max().map_or(1, |number| number + 1);
        let in_force = found.map(|found| found.number);
        let appended = found.and_then(|found| found.appended.clone());
        Ok(Self { fs: Arc::clone(fs), dir: own, tag, journal: None, in_force, appended, next_file, salt })
    }

    /// Makes durable what was found, which the last process may have left in the page cache only. Costs three syncs,
    /// and works on a full disk.
    pub async fn sync(&self) -> Result<()> {
        if let Some(number) = self.in_force {
            let appended = self.appended.clone();
            let resumed = Journal::<CatalogueEdit>::resume(&self.fs, &self.dir, self.tag, self.salt, number, appended);
            resumed.await?.confirm().await?;
        }
        Ok(())
    }

    /// Removes the files that crashes and failed attempts have left next to the journal in force.
    pub async fn tidy(&self) -> Result<()> {
        let in_force = self.in_force.map(weir_journal::file_name::<CatalogueEdit>);
        let names = self.fs.list(&self.dir, self.tag).await?;
        let is_left = |name: &str| name != "CURRENT" && in_force.as_deref() != Some(name);
        let left: Vec<_> = names.into_iter().filter(|entry| !entry.is_dir && is_left(&entry.name)).collect();
        if !left.is_empty() {
            // First of all it must be certain that `CURRENT` does not name one of them after a power cut.
            self.fs.sync_dir(&self.dir, self.tag).await?;
        }
        for entry in left {
            self.fs.remove(&self.dir.join(entry.name), self.tag).await?;
        }
        Ok(())
    }

    /// Whether the next edit must begin a new journal.
    pub fn needs_roll(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::needs_roll)
    }

    /// Whether the last [`CopyWriter::roll`] has succeeded.
    pub fn was_rolled(&self) -> bool {
        self.journal.is_some()
    }

    /// Makes `edit` durable; only if no roll is needed. After an error its fate is unknown.
    pub async fn append(&mut self, edit: &CatalogueEdit) -> Result<()> {
        match &mut self.journal {
            Some(journal) => journal.append(edit).await,
            None => Err(Error::new(ErrorKind::Invalid, "append to", &self.dir, "no journal is open")),
        }
    }

    /// Replaces the journal by one that holds `snapshot`. After an error nobody knows which of the two is in force.
    pub async fn roll(&mut self, snapshot: &CatalogueEdit) -> Result<()> {
        let number = self.next_file;
        self.next_file += 1;
        self.journal = None;
        self.journal = Some(Journal::create(&self.fs, &self.dir, self.tag, self.salt, number, snapshot).await?);
        if let Some(old) = self.in_force.replace(number) {
            let old = self.dir.join(weir_journal::file_name::<CatalogueEdit>(old));
            // A file that cannot be removed now is removed at the next opening.
            if let Err(error) = self.fs.remove(&old, self.tag).await {
                tracing::debug!(%error, "cannot remove the old journal of the catalogue yet");
            }
        }
        Ok(())
    }
}
