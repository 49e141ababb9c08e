//! The bytes of a record: encoding and decoding, no I/O.

use weir_io::{AlignedBuf, PAGE};
use weir_model::LogIndex;

/// Bytes before the payload: crc32c u32 | payload length u32 | kind u8 and index u56 as one u64; all little-endian.
pub const HEADER_BYTES: usize = 16;

/// The largest payload: a batch of the largest value and its keys fits, and a damaged length cannot ask for more.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// The largest index (56 bits). The first is 1.
pub const INDEX_MAX: LogIndex = (1 << 56) - 1;

/// Payload bytes of a [`Kind::Mark`].
const MARK_BYTES: usize = 16;
/// Payload bytes of a [`Kind::Link`].
const LINK_BYTES: usize = 16;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A payload that was appended.
    Data = 1,
    /// A [`crate::record::Mark`]. Its index is that of the next data record; it takes no index itself.
    Mark = 2,
    /// A mark after which nothing was written: the log was closed, and everything before it is on the device.
    Close = 3,
    /// A [`Link`], the first record of a segment. Its index is that of the next data record; it takes no index itself.
    Link = 4,
}

/// A segment's description of the segment in front of it, so that a segment that is missing in the middle is not taken
/// for the end of the log.
///
/// It is a record, not a part of the header, because the header is made ahead of time: nobody knows then where the
/// segment in front of it will end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The number of the segment whose records are in front of this one's; 0 = there was none.
    pub previous: u64,
    /// Where the last write to it ended, in bytes from its beginning.
    pub end: u64,
}

/// The state of the log when it wrote the records around the mark.
///
/// The durable index distinguishes a torn tail from corruption. A damaged record above the index of every mark had not
/// been acknowledged as durable, so the sync mode allows losing it and all after it. A damaged record at or below one
/// of these indexes had been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Every record up to this one was on the device.
    pub durable: LogIndex,
    /// The term of the records that follow (0 until the log is replicated).
    pub term: u64,
}

/// A valid record in borrowed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind of the record.
    pub kind: Kind,
    /// Its own index (data) or the next one (mark, link).
    pub index: LogIndex,
    /// The payload.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Bytes that the record takes in the file.
    pub fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// The mark, if the record is one.
    pub fn mark(&self) -> Option<Mark> {
        if !matches!(self.kind, Kind::Mark | Kind::Close) {
            return None;
        }
        let [durable, term] = two_words(self.payload)?;
        Some(Mark { durable, term })
    }

    /// The link, if the record is one.
    pub fn link(&self) -> Option<Link> {
        if self.kind != Kind::Link {
            return None;
        }
        let [previous, end] = two_words(self.payload)?;
        Some(Link { previous, end })
    }
}

fn two_words(payload: &[u8]) -> Option<[u64; 2]> {
    let (first, second) = payload.split_first_chunk::<8>()?;
    Some([u64::from_le_bytes(*first), u64::from_le_bytes(*second.first_chunk::<8>()?)])
}

/// The result of decoding the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A record with a valid checksum.
    Record(Record<'a>),
    /// This may be a record, but its end is missing: it needs this many bytes in all.
    Incomplete(usize),
    /// Certainly not a record of this segment.
    Invalid,
}

/// The header fields of a possible record: only their plausibility was checked.
#[derive(Clone, Copy)]
struct Header {
    crc: u32,
    payload_len: usize,
    kind: Kind,
    index: LogIndex,
}

fn header(bytes: &[u8]) -> Option<Header> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let (payload_len, rest) = rest.split_first_chunk::<4>()?;
    let kind_and_index = u64::from_le_bytes(*rest.first_chunk::<8>()?);
    let payload_len = u32::from_le_bytes(*payload_len) as usize;
    let kind = match (kind_and_index >> 56) as u8 {
        1 => Kind::Data,
        2 if payload_len == MARK_BYTES => Kind::Mark,
        3 if payload_len == MARK_BYTES => Kind::Close,
        4 if payload_len == LINK_BYTES => Kind::Link,
        _ => return None,
    };
    let index = kind_and_index & INDEX_MAX;
    let is_plausible = index > 0 && payload_len <= PAYLOAD_BYTES_MAX;
    is_plausible.then_some(Header { crc: u32::from_le_bytes(*crc), payload_len, kind, index })
}

/// How many bytes the record at the front of `bytes` takes by its own header; `None` if it is no record at all.
pub fn needed(bytes: &[u8]) -> Option<usize> {
    header(bytes).map(|header| HEADER_BYTES + header.payload_len)
}

/// Whether the header of a possible record says that it is a data record.
pub(crate) fn is_data(bytes: &[u8]) -> bool {
    header(bytes).is_some_and(|header| header.kind == Kind::Data)
}

/// The index in the header of a possible record.
pub(crate) fn plausible_index(bytes: &[u8]) -> Option<LogIndex> {
    header(bytes).map(|header| header.index)
}

/// Decodes the record at the front of `bytes`, which may be anything. `seed` is that of the segment ([`seed`]).
pub fn decode(bytes: &[u8], seed: u32) -> Decoded<'_> {
    if bytes.len() < HEADER_BYTES {
        return Decoded::Incomplete(HEADER_BYTES);
    }
    let Some(header) = header(bytes) else { return Decoded::Invalid };
    let end = HEADER_BYTES + header.payload_len;
    if bytes.len() < end {
        return Decoded::Incomplete(end);
    }
    if crc32c::crc32c_append(seed, &bytes[4..end]) != header.crc {
        return Decoded::Invalid;
    }
    Decoded::Record(Record { kind: header.kind, index: header.index, payload: &bytes[HEADER_BYTES..end] })
}

/// Finds the first valid mark in `bytes` whose durable index is at least `durable`. It looks at every offset below
/// `starts` (a mark may end after that). So it finds marks that a damaged record in front would otherwise hide.
pub fn find_mark(bytes: &[u8], starts: usize, seed: u32, durable: LogIndex) -> Option<(usize, Mark)> {
    let last = bytes.len().saturating_sub(HEADER_BYTES + MARK_BYTES - 1).min(starts);
    (0..last).find_map(|at| {
        // Check the two header bytes that distinguish a mark first, before anything more expensive.
        if bytes[at + 4] != MARK_BYTES as u8 || !matches!(bytes[at + 15], 2 | 3) {
            return None;
        }
        match decode(&bytes[at..at + HEADER_BYTES + MARK_BYTES], seed) {
            Decoded::Record(record) => record.mark().filter(|mark| mark.durable >= durable).map(|mark| (at, mark)),
            _ => None,
        }
    })
}

/// The seed for the checksums of a segment: records of another segment, or of an earlier life of this file, do not
/// verify.
pub fn seed(segment_id: u64, salt: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&segment_id.to_le_bytes()), &salt.to_le_bytes())
}

/// Appends a record without its checksum. [`seal`] fills that in later, when the segment is known.
pub(crate) fn push(buf: &mut AlignedBuf, kind: Kind, index: LogIndex, payload: &[u8]) {
    push_tagged(buf, kind, index, &[], payload);
}

/// The same for a payload in two parts.
pub(crate) fn push_tagged(buf: &mut AlignedBuf, kind: Kind, index: LogIndex, tag: &[u8], payload: &[u8]) {
    let length = tag.len() + payload.len();
    let mut header = [0; HEADER_BYTES];
    header[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    header[8..].copy_from_slice(&(((kind as u64) << 56) | index).to_le_bytes());
    buf.reserve(HEADER_BYTES + length);
    buf.extend_from_slice(&header);
    buf.extend_from_slice(tag);
    buf.extend_from_slice(payload);
}

/// Appends `mark` (as [`Kind::Mark`] or [`Kind::Close`]) in front of the record `next`.
pub(crate) fn push_mark(buf: &mut AlignedBuf, kind: Kind, next: LogIndex, mark: Mark) {
    let mut payload = [0; MARK_BYTES];
    payload[..8].copy_from_slice(&mark.durable.to_le_bytes());
    payload[8..].copy_from_slice(&mark.term.to_le_bytes());
    push(buf, kind, next, &payload);
}

/// Appends `link` in front of the record `next`.
pub(crate) fn push_link(buf: &mut AlignedBuf, next: LogIndex, link: Link) {
    let mut payload = [0; LINK_BYTES];
    payload[..8].copy_from_slice(&link.previous.to_le_bytes());
    payload[8..].copy_from_slice(&link.end.to_le_bytes());
    push(buf, Kind::Link, next, &payload);
}

/// Fills in the checksums of all records in `buf`.
pub(crate) fn seal(buf: &mut [u8], seed: u32) {
    let mut at = 0;
    while at < buf.len() {
        let length: [u8; 4] = buf[at + 4..at + 8].try_into().expect("four bytes");
        let end = at + HEADER_BYTES + u32::from_le_bytes(length) as usize;
        let crc = crc32c::crc32c_append(seed, &buf[at + 4..end]);
        buf[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

/// The first multiple of a page at or after `offset`: after padding, records go on there.
pub(crate) fn next_page(offset: u64) -> u64 {
    offset.next_multiple_of(PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealed(payloads: &[Vec<u8>], seed: u32) -> AlignedBuf {
        let mut buf = AlignedBuf::new();
        push_link(&mut buf, 1, Link { previous: 4, end: 8_193 });
        for (index, payload) in (1..).zip(payloads) {
            push(&mut buf, Kind::Data, index, payload);
        }
        push_mark(&mut buf, Kind::Mark, payloads.len() as u64 + 1, Mark { durable: 7, term: 3 });
        super::seal(&mut buf, seed);
        buf
    }

    proptest! {
        #[test]
        fn records_decode_to_what_was_pushed(payloads: Vec<Vec<u8>>, id: u64) {
            let seed = seed(id, 1);
            let buf = sealed(&payloads, seed);
            let mut rest = &buf[..];
            let Decoded::Record(record) = decode(rest, seed) else { panic!("the link does not decode") };
            prop_assert_eq!((record.link(), record.mark()), (Some(Link { previous: 4, end: 8_193 }), None));
            rest = &rest[record.encoded_len()..];
            for (index, payload) in (1..).zip(&payloads) {
                let Decoded::Record(record) = decode(rest, seed) else { panic!("record {index} does not decode") };
                prop_assert_eq!(record, Record { kind: Kind::Data, index, payload });
                rest = &rest[record.encoded_len()..];
            }
            let Decoded::Record(record) = decode(rest, seed) else { panic!("the mark does not decode") };
            prop_assert_eq!((record.mark(), record.link()), (Some(Mark { durable: 7, term: 3 }), None));
            prop_assert_eq!(record.encoded_len(), rest.len());
            let found = find_mark(&buf, buf.len(), seed, 7).map(|(at, _)| at);
            prop_assert_eq!(found, Some(buf.len() - rest.len()));
            prop_assert_eq!(find_mark(&buf, buf.len(), seed, 8), None);
        }

        #[test]
        fn a_record_of_another_segment_or_with_a_flipped_bit_is_refused(
            payload: Vec<u8>, id: u64, other: u64, position: prop::sample::Index, bit in 0..8_u32
        ) {
            prop_assume!(id != other);
            let seed = super::seed(id, 1);
            let mut buf = AlignedBuf::new();
            push(&mut buf, Kind::Data, 5, &payload);
            super::seal(&mut buf, seed);
            let stranger = super::seed(other, 1);
            prop_assert!(stranger == seed || decode(&buf, stranger) == Decoded::Invalid);
            let at = position.index(buf.len());
            buf[at] ^= 1 << bit;
            prop_assert!(!matches!(decode(&buf, seed), Decoded::Record(_)));
        }

        #[test]
        fn no_record_has_index_0(payload: Vec<u8>, seed: u32) {
            let mut buf = AlignedBuf::new();
            push(&mut buf, Kind::Data, 0, &payload);
            super::seal(&mut buf, seed);
            prop_assert_eq!(decode(&buf, seed), Decoded::Invalid);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>, seed: u32) {
            if let Decoded::Record(record) = decode(&bytes, seed) {
                prop_assert!(record.encoded_len() <= bytes.len());
                let _ = (record.mark(), record.link());
            }
            let _ = find_mark(&bytes, bytes.len(), seed, 0);
        }
    }
}
