//! A journal: a durable list of edits, and `CURRENT`, which names its file. A tree's manifest is one, a node's catalogue another. Bytes in
//! `docs/format/manifest.md`.
//!
//! 1. An edit is appended as one record and synced; only then does the new version become visible.
//! 2. When an append or its sync fails, nobody knows whether the record is durable. The file is never written again: the next
//!    edit first rolls to a new file that holds a snapshot of what is in memory.
//! 3. A roll writes the snapshot, syncs it and its name, then renames `CURRENT.tmp` over `CURRENT` and syncs the directory.
//! 4. On recovery a broken record with nothing valid behind it is a torn tail; with something valid behind it, corruption.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::try_join;
use weir_io::{AlignedBuf, Class, Error, ErrorKind, File, Fs, OpenOptions, Result, Tag};

/// What a journal is a list of.
pub trait Entry: Sized {
    /// The first eight bytes of the file.
    const MAGIC: &[u8; 8];
    /// What stands before the number in the file's name.
    const PREFIX: &str;

    /// The bytes of one record.
    fn encode(&self) -> Vec<u8>;

    /// Decodes any bytes.
    ///
    /// # Errors
    /// The offset of what does not decode.
    fn decode(bytes: &[u8]) -> Result<Self, usize>;
}

const FORMAT: u32 = 2;
const FILE_HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 16;
const CURRENT: &str = "CURRENT";
/// A journal longer than this is rolled: 4 MiB are about 40,000 edits, replayed in milliseconds.
const ROLL_BYTES: u64 = 4 << 20;

/// The name of file `number`.
pub fn file_name<E: Entry>(number: u64) -> String {
    format!("{}{number:06}", E::PREFIX)
}

/// The number in the name of a journal; `None` for other files.
pub fn file_number<E: Entry>(name: &str) -> Option<u64> {
    let number = name.strip_prefix(E::PREFIX)?.parse().ok()?;
    (name == file_name::<E>(number)).then_some(number)
}

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

    /// Goes on with file `number`, which was just recovered, without writing to it: the first edit rolls. So opening costs two syncs,
    /// and works on a full disk.
    ///
    /// They are needed before anything that the journal does not name may be removed: what was read may have been in the page
    /// cache only, left there by a killed process, and a power cut would take it back.
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
                // On a full disk this is tried ten times a second: attempts must not pile up. Nothing names the file, so what
                // cannot be removed now is removed at the next opening.
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

    /// Whether the next edit must go to a new manifest (rule 2, or the file has grown long).
    pub fn needs_roll(&self) -> bool {
        self.uncertain || self.end >= ROLL_BYTES
    }

    /// Replaces this file by `number`, holding `snapshot`. Gives the path of the old file, which nothing needs any more.
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

fn encode_current<E: Entry>(number: u64) -> String {
    let name = file_name::<E>(number);
    format!("{name} {:08x}\n", crc32c::crc32c(name.as_bytes()))
}

/// The file number in the bytes of a `CURRENT` file.
pub fn decode_current<E: Entry>(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix(E::PREFIX)?.split(' ').next()?.parse().ok()?;
    (text == encode_current::<E>(number)).then_some(number)
}

fn file_header<E: Entry>() -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(E::MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let crc = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn append_record(buf: &mut AlignedBuf, number: u32, payload: &[u8]) {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..8].copy_from_slice(&number.to_le_bytes());
    header[8..12].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let crc = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    buf.extend_from_slice(&header);
    buf.extend_from_slice(payload);
}

/// Why bytes are not a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where, in bytes from the start of the file.
    pub offset: u64,
    /// What disagrees.
    pub message: String,
}

/// Decodes the bytes of a journal into its edits and the offset of a torn tail.
pub fn decode<E: Entry>(bytes: &[u8]) -> Result<(Vec<E>, Option<u64>), Broken> {
    let broken = |offset: usize, message: &str| Broken { offset: offset as u64, message: message.into() };
    let header = bytes.get(..FILE_HEADER_BYTES).ok_or_else(|| broken(0, "shorter than its header"))?;
    if header[..8] != E::MAGIC[..] {
        return Err(broken(0, "not a file of this kind"));
    }
    if header != file_header::<E>() {
        return Err(broken(8, "unknown format version, or its checksum disagrees"));
    }
    let mut edits = Vec::new();
    let mut offset = FILE_HEADER_BYTES;
    while offset < bytes.len() {
        let Some(payload) = record_at(bytes, offset, edits.len() as u32) else {
            if valid_header_after(bytes, offset, edits.len() as u32) {
                return Err(broken(offset, "a broken record before a valid one"));
            }
            return match edits.is_empty() {
                true => Err(broken(offset, "the first record is broken")),
                false => Ok((edits, Some(offset as u64))),
            };
        };
        let start = offset + RECORD_HEADER_BYTES;
        let edit = E::decode(payload).map_err(|at| broken(start + at, "an edit that does not decode"))?;
        edits.push(edit);
        offset = start + payload.len();
    }
    match edits.is_empty() {
        true => Err(broken(offset, "no record")),
        false => Ok((edits, None)),
    }
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// The length and number in the record header at `offset`, if the header's own checksum agrees.
fn header_at(bytes: &[u8], offset: usize) -> Option<(usize, u32)> {
    let header = bytes.get(offset..offset + RECORD_HEADER_BYTES)?;
    (word(header, 12) == crc32c::crc32c(&header[..12])).then(|| (word(header, 0) as usize, word(header, 4)))
}

fn record_at(bytes: &[u8], offset: usize, number: u32) -> Option<&[u8]> {
    let (length, found) = header_at(bytes, offset)?;
    let start = offset + RECORD_HEADER_BYTES;
    let payload = bytes.get(start..start.checked_add(length)?)?;
    (found == number && word(bytes, offset + 8) == crc32c::crc32c(payload)).then_some(payload)
}

/// Whether a later record's header stands anywhere behind `offset`: then the record at `offset` was not the last.
fn valid_header_after(bytes: &[u8], offset: usize, number: u32) -> bool {
    (offset + 1..bytes.len()).any(|at| header_at(bytes, at).is_some_and(|(_, found)| found > number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Edit;
    use proptest::prelude::*;

    fn manifest(edits: &[Edit]) -> Vec<u8> {
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(&file_header::<Edit>());
        for (number, edit) in edits.iter().enumerate() {
            append_record(&mut buf, number as u32, &edit.encode());
        }
        buf.to_vec()
    }

    fn edits(count: u64) -> Vec<Edit> {
        (0..count).map(|n| Edit { persisted: Some(n * 1000), removed: vec![(1, n)], ..Edit::default() }).collect()
    }

    #[test]
    fn a_cut_at_any_byte_gives_a_prefix() {
        let edits = edits(5);
        let bytes = manifest(&edits);
        let first_end = manifest(&edits[..1]).len();
        for cut in first_end..bytes.len() {
            let (found, _) = decode::<Edit>(&bytes[..cut]).expect("a torn tail is no corruption");
            assert_eq!(found, edits[..found.len()], "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_is_corruption_or_cuts_the_last_record() {
        let edits = edits(5);
        let bytes = manifest(&edits);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match decode::<Edit>(&flipped) {
                Err(broken) => assert!(broken.offset <= (bit / 8) as u64, "bit {bit}: {broken:?}"),
                Ok((found, torn)) => {
                    assert_eq!(found, edits[..4], "bit {bit}: only the last record may be taken for a torn one");
                    assert!(torn.is_some());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut whole = file_header::<Edit>().to_vec();
            whole.extend(&bytes);
            let _ = (decode::<Edit>(&bytes), decode::<Edit>(&whole), decode_current::<Edit>(&bytes));
        }
    }
}
