//! The bytes of a journal and of `CURRENT`, as `docs/format/manifest.md` has them.

use weir_io::AlignedBuf;

/// What a journal is a list of.
pub trait Entry: Sized {
    /// The first eight bytes of the file.
    const MAGIC: &[u8; 8];
    /// The part of the file's name before the number.
    const PREFIX: &str;

    /// The bytes of one record.
    fn encode(&self) -> Vec<u8>;

    /// Decodes any bytes.
    ///
    /// # Errors
    /// The offset of what does not decode.
    fn decode(bytes: &[u8]) -> Result<Self, usize>;
}

const FORMAT: u32 = 3;
const FILE_HEADER_BYTES: usize = 24;
/// Files that earlier versions have written: their header has no salt, and the checksums of their records no seed.
const FORMAT_WITHOUT_SALT: u32 = 2;
const FILE_HEADER_BYTES_WITHOUT_SALT: usize = 16;
const RECORD_HEADER_BYTES: usize = 16;

/// The largest number of a file. Files are numbered one by one, so no file gets a larger number. A file whose name has
/// one is a stranger, and the numbers behind it would soon run out.
pub const NUMBER_MAX: u64 = u64::MAX >> 1;

/// The name of file `number`.
pub fn file_name<E: Entry>(number: u64) -> String {
    format!("{}{number:06}", E::PREFIX)
}

/// The number in the name of a journal; `None` for other files.
pub fn file_number<E: Entry>(name: &str) -> Option<u64> {
    let number = name.strip_prefix(E::PREFIX)?.parse().ok()?;
    (number <= NUMBER_MAX && name == file_name::<E>(number)).then_some(number)
}

pub(crate) fn encode_current<E: Entry>(number: u64) -> String {
    let name = file_name::<E>(number);
    format!("{name} {:08x}\n", crc32c::crc32c(name.as_bytes()))
}

/// The file number in the bytes of a `CURRENT` file.
pub fn decode_current<E: Entry>(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix(E::PREFIX)?.split(' ').next()?.parse().ok()?;
    (number <= NUMBER_MAX && text == encode_current::<E>(number)).then_some(number)
}

/// The header of a file whose records have the seed that [`seed`] makes of `salt`.
pub(crate) fn file_header<E: Entry>(salt: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(E::MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[12..20].copy_from_slice(&salt.to_le_bytes());
    let crc = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// What the checksums of record headers are continued from.
///
/// Payloads contain keys that clients choose. Without a seed that clients do not know, a key could have the bytes of a
/// valid record header in it, and a torn record with this key would be taken for damage in front of a valid record.
pub(crate) fn seed(salt: u64) -> u32 {
    crc32c::crc32c(&salt.to_le_bytes())
}

pub(crate) fn append_record(buf: &mut AlignedBuf, seed: u32, number: u32, payload: &[u8]) {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..8].copy_from_slice(&number.to_le_bytes());
    header[8..12].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &header[..12]);
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

/// What the bytes of a journal contain.
pub struct Contents<E> {
    /// The edits, oldest first; the first is a snapshot.
    pub edits: Vec<E>,
    /// Offset of a torn last record, if there is one.
    pub torn_at: Option<u64>,
    /// The last whole record, if it was appended.
    pub appended: Option<Appended>,
}

/// The last record that was appended to a journal, as it was read. Its sync may have failed, so that the device may not
/// have it. The records in front of it are durable, for after a failed sync nothing is appended. So is the first one:
/// `CURRENT` names a file only when that is synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Decodes the bytes of a journal into its edits and the offset of a torn tail.
pub fn decode<E: Entry>(bytes: &[u8]) -> Result<(Vec<E>, Option<u64>), Broken> {
    contents(bytes).map(|Contents { edits, torn_at, .. }| (edits, torn_at))
}

/// Decodes the bytes of a journal.
pub fn contents<E: Entry>(bytes: &[u8]) -> Result<Contents<E>, Broken> {
    let broken = |offset: usize, message: &str| Broken { offset: offset as u64, message: message.into() };
    let Start { mut offset, seed } = start::<E>(bytes)?;
    let (mut edits, mut last) = (Vec::new(), 0..0);
    while offset < bytes.len() {
        let Some(payload) = record_at(bytes, offset, seed, edits.len() as u32) else {
            if valid_header_after(bytes, offset, seed, edits.len() as u32) {
                return Err(broken(offset, "a record is damaged, although a valid one follows it"));
            }
            if edits.is_empty() {
                return Err(broken(offset, "the first record is damaged"));
            }
            break;
        };
        let start = offset + RECORD_HEADER_BYTES;
        let edit = E::decode(payload).map_err(|at| broken(start + at, "the edit in a record cannot be decoded"))?;
        edits.push(edit);
        last = offset..start + payload.len();
        offset = last.end;
    }
    if edits.is_empty() {
        return Err(broken(offset, "the file contains no record"));
    }
    let torn_at = (offset < bytes.len()).then_some(offset as u64);
    let appended = (edits.len() > 1).then(|| Appended { offset: last.start as u64, bytes: bytes[last].to_vec() });
    Ok(Contents { edits, torn_at, appended })
}

/// What the header of a file says of its records.
struct Start {
    /// Where the first record begins.
    offset: usize,
    seed: u32,
}

/// Decodes the header of a file.
fn start<E: Entry>(bytes: &[u8]) -> Result<Start, Broken> {
    let broken = |offset: u64, message: &str| Broken { offset, message: message.into() };
    let short = || broken(0, "the file is shorter than its header");
    let old = bytes.get(..FILE_HEADER_BYTES_WITHOUT_SALT).ok_or_else(short)?;
    if old[..8] != E::MAGIC[..] {
        return Err(broken(0, "this is not a file of the expected kind: the magic number is missing"));
    }
    let is_sound = |header: &[u8], fields: usize| word(header, fields) == crc32c::crc32c(&header[..fields]);
    match word(old, 8) {
        FORMAT => {
            let header = bytes.get(..FILE_HEADER_BYTES).ok_or_else(short)?;
            let salt = u64::from_le_bytes(header[12..20].try_into().expect("eight bytes"));
            is_sound(header, 20).then(|| Start { offset: FILE_HEADER_BYTES, seed: seed(salt) })
        }
        FORMAT_WITHOUT_SALT => is_sound(old, 12).then_some(Start { offset: FILE_HEADER_BYTES_WITHOUT_SALT, seed: 0 }),
        _ => None,
    }
    .ok_or_else(|| broken(8, "the format version is unknown, or the header's checksum does not match"))
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

/// The length and number in the record header at `offset`, if the header's own checksum agrees.
fn header_at(bytes: &[u8], offset: usize, seed: u32) -> Option<(usize, u32)> {
    let header = bytes.get(offset..offset + RECORD_HEADER_BYTES)?;
    let is_sound = word(header, 12) == crc32c::crc32c_append(seed, &header[..12]);
    is_sound.then(|| (word(header, 0) as usize, word(header, 4)))
}

fn record_at(bytes: &[u8], offset: usize, seed: u32, number: u32) -> Option<&[u8]> {
    let (length, found) = header_at(bytes, offset, seed)?;
    let start = offset + RECORD_HEADER_BYTES;
    let payload = bytes.get(start..start.checked_add(length)?)?;
    (found == number && word(bytes, offset + 8) == crc32c::crc32c(payload)).then_some(payload)
}

/// Whether a later record's header stands anywhere behind `offset`: then the record at `offset` was not the last.
fn valid_header_after(bytes: &[u8], offset: usize, seed: u32, number: u32) -> bool {
    (offset + 1..bytes.len()).any(|at| header_at(bytes, at, seed).is_some_and(|(_, found)| found > number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of eight bytes each.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Edit(Vec<u64>);

    impl Entry for Edit {
        const MAGIC: &[u8; 8] = b"WEIRTEST";
        const PREFIX: &str = "TEST-";

        fn encode(&self) -> Vec<u8> {
            self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
        }

        fn decode(bytes: &[u8]) -> Result<Self, usize> {
            let (numbers, rest) = bytes.as_chunks();
            let whole =
                rest.is_empty().then(|| Edit(numbers.iter().map(|&number| u64::from_le_bytes(number)).collect()));
            whole.ok_or(bytes.len() - rest.len())
        }
    }

    const SALT: u64 = 7;

    fn journal(edits: &[Edit]) -> Vec<u8> {
        records(&file_header::<Edit>(SALT), seed(SALT), edits)
    }

    /// A file of format 2.
    fn journal_without_salt(edits: &[Edit]) -> Vec<u8> {
        let mut header = [&b"WEIRTEST"[..], &2_u32.to_le_bytes()].concat();
        header.extend(crc32c::crc32c(&header).to_le_bytes());
        records(&header, 0, edits)
    }

    fn records(header: &[u8], seed: u32, edits: &[Edit]) -> Vec<u8> {
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(header);
        for (number, edit) in edits.iter().enumerate() {
            append_record(&mut buf, seed, number as u32, &edit.encode());
        }
        buf.to_vec()
    }

    fn edits(count: u64) -> Vec<Edit> {
        (0..count).map(|number| Edit(vec![number * 1000, 1, number])).collect()
    }

    #[test]
    fn a_cut_at_any_byte_gives_a_prefix() {
        let edits = edits(5);
        let bytes = journal(&edits);
        let first_end = journal(&edits[..1]).len();
        for cut in first_end..bytes.len() {
            let (found, _) = decode::<Edit>(&bytes[..cut]).expect("a torn tail is no corruption");
            assert_eq!(found, edits[..found.len()], "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_is_corruption_or_cuts_the_last_record() {
        let edits = edits(5);
        let bytes = journal(&edits);
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

    #[test]
    fn files_of_earlier_versions_are_read() {
        let edits = edits(5);
        let bytes = journal_without_salt(&edits);
        assert_eq!(decode::<Edit>(&bytes), Ok((edits.clone(), None)));
        assert_eq!(decode::<Edit>(&bytes[..bytes.len() - 1]).expect("torn").0, edits[..4]);
    }

    /// Whoever knows the format but not the salt can write a key that looks like the header of a later record. The
    /// record with this key is torn all the same if the power fails while it is written.
    #[test]
    fn a_payload_cannot_pass_for_a_later_record() {
        let mut forged = AlignedBuf::new();
        append_record(&mut forged, 0, u32::MAX, b"");
        let (words, _) = forged.as_chunks();
        let edit = Edit([1].into_iter().chain(words.iter().map(|&word| u64::from_le_bytes(word))).chain([2]).collect());
        let all = [edits(3), vec![edit]].concat();
        let torn = |bytes: Vec<u8>| {
            let bytes = &bytes[..bytes.len() - 8];
            decode::<Edit>(bytes).map(|(found, torn)| (found.len(), torn.is_some()))
        };
        assert_eq!(torn(journal(&all)), Ok((3, true)));
        assert!(torn(journal_without_salt(&all)).is_err(), "the header is forged well enough where there is no salt");
    }

    #[test]
    fn a_name_with_a_number_that_no_file_gets_is_a_stranger_s() {
        for (number, known) in [(7, true), (NUMBER_MAX, true), (NUMBER_MAX + 1, false), (u64::MAX, false)] {
            let wanted = known.then_some(number);
            assert_eq!(file_number::<Edit>(&file_name::<Edit>(number)), wanted);
            assert_eq!(decode_current::<Edit>(encode_current::<Edit>(number).as_bytes()), wanted);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut whole = file_header::<Edit>(SALT).to_vec();
            whole.extend(&bytes);
            let _ = (decode::<Edit>(&bytes), decode::<Edit>(&whole), decode_current::<Edit>(&bytes));
        }
    }
}
