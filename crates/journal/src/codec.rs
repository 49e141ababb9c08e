//! The bytes of a journal and of `CURRENT`, as `docs/format/manifest.md` has them.

use weir_io::AlignedBuf;

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

/// The name of file `number`.
pub fn file_name<E: Entry>(number: u64) -> String {
    format!("{}{number:06}", E::PREFIX)
}

/// The number in the name of a journal; `None` for other files.
pub fn file_number<E: Entry>(name: &str) -> Option<u64> {
    let number = name.strip_prefix(E::PREFIX)?.parse().ok()?;
    (name == file_name::<E>(number)).then_some(number)
}

pub(crate) fn encode_current<E: Entry>(number: u64) -> String {
    let name = file_name::<E>(number);
    format!("{name} {:08x}\n", crc32c::crc32c(name.as_bytes()))
}

/// The file number in the bytes of a `CURRENT` file.
pub fn decode_current<E: Entry>(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix(E::PREFIX)?.split(' ').next()?.parse().ok()?;
    (text == encode_current::<E>(number)).then_some(number)
}

pub(crate) fn file_header<E: Entry>() -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(E::MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let crc = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

pub(crate) fn append_record(buf: &mut AlignedBuf, number: u32, payload: &[u8]) {
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

    fn journal(edits: &[Edit]) -> Vec<u8> {
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(&file_header::<Edit>());
        for (number, edit) in edits.iter().enumerate() {
            append_record(&mut buf, number as u32, &edit.encode());
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

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut whole = file_header::<Edit>().to_vec();
            whole.extend(&bytes);
            let _ = (decode::<Edit>(&bytes), decode::<Edit>(&whole), decode_current::<Edit>(&bytes));
        }
    }
}
