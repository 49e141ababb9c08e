//! Blocks: a snapshot file is one stream of bytes, cut into blocks of 64 KiB, each with a header of its own. Bytes in
//! `docs/format/memory.md`.

use weir_io::{AlignedBuf, PAGE};

/// Bytes of every block but the last, header included; the last ends at the next page.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 36;
/// The most payload that a block carries.
pub(crate) const PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES - HEADER_BYTES;

const MAGIC: &[u8; 8] = b"WEIRSNAP";
const FORMAT: u32 = 1;
/// Where the checksum is. It covers all other bytes of the block.
const CRC_AT: usize = 12;
const CRC_END: usize = 16;

/// Which block of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    /// Number of the file.
    pub file: u64,
    /// 0, 1, 2 ...
    pub block: u64,
}

fn checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_AT]), &block[CRC_END..])
}

/// Appends the block at `place` with `payload`, up to the next page. Returns its checksum.
pub(crate) fn append(out: &mut AlignedBuf, place: BlockId, payload: &[u8]) -> u32 {
    debug_assert!(out.len().is_multiple_of(PAGE) && payload.len() <= PAYLOAD_BYTES_MAX);
    let start = out.len();
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&place.file.to_le_bytes());
    header[24..32].copy_from_slice(&place.block.to_le_bytes());
    header[32..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.pad_to_page();
    let crc = checksum(&out[start..]);
    out[start + CRC_AT..start + CRC_END].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The payload of the block that is `block`, header and padding included, and its checksum.
///
/// # Errors
/// What disagrees.
pub fn decode(block: &[u8], place: BlockId) -> Result<(&[u8], u32), &'static str> {
    let header = block.get(..HEADER_BYTES).ok_or("the block is shorter than its header")?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    if header[..8] != MAGIC[..] {
        return Err("this is not a block of a snapshot: the magic number is missing");
    }
    if word(8) != FORMAT {
        return Err("the block has a format version that this program does not know");
    }
    let crc = word(CRC_AT);
    if crc != checksum(block) && !weir_io::plant::is_planted(weir_io::plant::Plant::ChecksumIgnored) {
        return Err("the checksum of the block does not match");
    }
    if (long(16), long(24)) != (place.file, place.block) {
        return Err("the block belongs to another file, or to another place in this one");
    }
    let payload =
        block[HEADER_BYTES..].get(..word(32) as usize).ok_or("the length in the header exceeds that of the block")?;
    if (HEADER_BYTES + payload.len()).next_multiple_of(PAGE) != block.len() {
        return Err("the length in the header is not that of the block");
    }
    Ok((payload, crc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: BlockId = BlockId { file: 3, block: 9 };

    fn block(payload: &[u8]) -> AlignedBuf {
        let mut out = AlignedBuf::new();
        append(&mut out, PLACE, payload);
        out
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_so_is_another_place() {
        let whole = block(b"some rows");
        assert_eq!(decode(&whole, PLACE).map(|(payload, _)| payload), Ok(&b"some rows"[..]));
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped, PLACE).is_err(), "bit {bit}");
        }
        assert!(decode(&whole, BlockId { file: 4, ..PLACE }).is_err());
        assert!(decode(&whole, BlockId { block: 8, ..PLACE }).is_err());
        assert!(decode(&whole[..PAGE / 2], PLACE).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes, PLACE);
        }

        #[test]
        fn every_payload_comes_back(len in 0..=PAYLOAD_BYTES_MAX, byte: u8) {
            let payload = vec![byte; len];
            let whole = block(&payload);
            prop_assert!(whole.len() <= BLOCK_BYTES);
            prop_assert_eq!(decode(&whole, PLACE).map(|(payload, _)| payload), Ok(&payload[..]));
        }
    }
}
