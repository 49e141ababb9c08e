//! Records, of which the stream of a snapshot file consists. Bytes in `docs/format/memory.md`.
//!
//! ```text
//! stream := row* end
//! row    := kind u8 | key_len varint | key | (expire_at_ms varint)? | value_len varint | value
//! end    := 0 u8 | rows varint | bytes varint | seq varint | persisted varint
//! ```
//!
//! Kind 1 is a value that lives for ever, kind 2 one that expires; 3 and 4 are heads of rows of many parts, 5 is a
//! cover. There are no tombstones: what is not in the file does not exist.

use weir_model::engine::{Kind, Seq};
use weir_model::{LogIndex, STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX, varint};

const END: u8 = 0;
const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const HEAD: u8 = 3;
const HEAD_EXPIRING: u8 = 4;
const COVER: u8 = 5;

/// How a file ends: what was in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The sequence number that the rows are as of.
    pub seq: Seq,
    /// Every log record up to here is in them.
    pub persisted: LogIndex,
}

impl End {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(END);
        [self.rows, self.bytes, self.seq, self.persisted].into_iter().for_each(|number| varint::put(out, number));
    }
}

/// Appends all of a row but the bytes of its value.
pub(crate) fn put_head(out: &mut Vec<u8>, kind: Kind, key: &[u8], expire_at_ms: u64, value_len: usize) {
    out.push(match (kind, expire_at_ms) {
        (Kind::Head, 0) => HEAD,
        (Kind::Head, _) => HEAD_EXPIRING,
        (Kind::Cover, _) => COVER,
        (_, 0) => PUT,
        _ => PUT_EXPIRING,
    });
    varint::put(out, key.len() as u64);
    out.extend_from_slice(key);
    if expire_at_ms != 0 {
        varint::put(out, expire_at_ms);
    }
    varint::put(out, value_len as u64);
}

/// What a record begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head<'a> {
    /// A row, whose value of `value_len` bytes follows.
    Row { kind: Kind, key: &'a [u8], expire_at_ms: u64, value_len: usize },
    /// Nothing follows.
    End(End),
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// They are the beginning of one.
    Short,
    /// They are not.
    Broken,
}

/// The most bytes that a head takes.
pub(crate) const HEAD_BYTES_MAX: usize = 1 + 3 * varint::BYTES_MAX + STORED_KEY_BYTES_MAX;

/// Takes the head of a record off `bytes`.
///
/// # Errors
/// `Short` if more bytes may make a head of them; never for [`HEAD_BYTES_MAX`] or more.
pub(crate) fn take_head<'a>(bytes: &mut &'a [u8]) -> Result<Head<'a>, Refused> {
    let before = bytes.len();
    let refused = move || if before < HEAD_BYTES_MAX { Refused::Short } else { Refused::Broken };
    let (&kind, mut rest) = bytes.split_first().ok_or(Refused::Short)?;
    let head = match kind {
        END => {
            let mut number = || varint::take(&mut rest).ok_or_else(refused);
            Head::End(End { rows: number()?, bytes: number()?, seq: number()?, persisted: number()? })
        }
        PUT | PUT_EXPIRING | HEAD | HEAD_EXPIRING | COVER => {
            let expires = matches!(kind, PUT_EXPIRING | HEAD_EXPIRING);
            let key_len = varint::take(&mut rest).ok_or_else(refused)?;
            if key_len > STORED_KEY_BYTES_MAX as u64 {
                return Err(Refused::Broken);
            }
            let (key, behind) = rest.split_at_checked(key_len as usize).ok_or_else(refused)?;
            rest = behind;
            let expire_at_ms = if expires { varint::take(&mut rest).ok_or_else(refused)? } else { 0 };
            let value_len = varint::take(&mut rest).ok_or_else(refused)?;
            if value_len > VALUE_BYTES_MAX as u64 || (expires && expire_at_ms == 0) {
                return Err(Refused::Broken);
            }
            let kind = match kind {
                PUT | PUT_EXPIRING => Kind::Put,
                COVER => Kind::Cover,
                _ => Kind::Head,
            };
            Head::Row { kind, key, expire_at_ms, value_len: value_len as usize }
        }
        _ => return Err(Refused::Broken),
    };
    *bytes = rest;
    Ok(head)
}

/// Takes a stream apart as it comes.
#[derive(Default)]
pub struct Decoder {
    /// Bytes that have come and were not taken yet.
    bytes: Vec<u8>,
    /// The row whose value is still coming.
    row: Option<Begun>,
    last_key: Option<Vec<u8>>,
    seen: End,
    end: Option<End>,
}

struct Begun {
    kind: Kind,
    expire_at_ms: u64,
    value_len: usize,
    value: Vec<u8>,
}

impl Decoder {
    /// Takes in more of the stream and hands its rows to `take`: kind, key, time of expiry (0 = never), value.
    ///
    /// # Errors
    /// What is wrong with the stream.
    pub fn feed(&mut self, more: &[u8], mut take: impl FnMut(Kind, &[u8], u64, &[u8])) -> Result<(), &'static str> {
        self.bytes.extend_from_slice(more);
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = &bytes[..];
        let outcome = self.take_all(&mut rest, &mut take);
        self.bytes.extend_from_slice(rest);
        outcome
    }

    fn take_all(
        &mut self,
        rest: &mut &[u8],
        take: &mut impl FnMut(Kind, &[u8], u64, &[u8]),
    ) -> Result<(), &'static str> {
        loop {
            if let Some(row) = &mut self.row {
                let missing = row.value_len - row.value.len();
                if missing > rest.len() {
                    row.value.extend_from_slice(rest);
                    *rest = &[];
                    return Ok(());
                }
                let (last, behind) = rest.split_at(missing);
                *rest = behind;
                let key = self.last_key.as_deref().unwrap_or_default();
                self.seen.rows += 1;
                self.seen.bytes += (key.len() + row.value_len) as u64;
                if row.value.is_empty() {
                    take(row.kind, key, row.expire_at_ms, last);
                } else {
                    row.value.extend_from_slice(last);
                    take(row.kind, key, row.expire_at_ms, &row.value);
                }
                self.row = None;
            }
            if rest.is_empty() {
                return Ok(());
            }
            if self.end.is_some() {
                return Err("there are bytes after the end record");
            }
            match take_head(rest) {
                Err(Refused::Short) => return Ok(()),
                Err(Refused::Broken) => return Err("a record is malformed"),
                Ok(Head::End(end)) => self.end = Some(end),
                Ok(Head::Row { kind, key, expire_at_ms, value_len }) => {
                    if self.last_key.as_deref().is_some_and(|last| last >= key) {
                        return Err("the keys are not in order");
                    }
                    let last = self.last_key.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(key);
                    self.row = Some(Begun { kind, expire_at_ms, value_len, value: Vec::new() });
                }
            }
        }
    }

    /// What the stream says of itself, when all of it has come.
    ///
    /// # Errors
    /// It has no end, or is not what its end says.
    pub fn finish(self) -> Result<End, &'static str> {
        let end = self.end.ok_or("the end record is missing")?;
        match (end.rows, end.bytes) == (self.seen.rows, self.seen.bytes) {
            true => Ok(end),
            false => Err("the number of rows or bytes is not the one that the end record states"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// By key: an index of the kind, time of expiry, value.
    type Rows = BTreeMap<Vec<u8>, (u8, u64, Vec<u8>)>;

    /// Covers do not expire.
    fn kind_of(index: u8, expire_at_ms: u64) -> Kind {
        match index % 3 {
            0 if expire_at_ms == 0 => Kind::Cover,
            1 => Kind::Head,
            _ => Kind::Put,
        }
    }

    fn stream(rows: &Rows) -> (Vec<u8>, End) {
        let (mut out, mut end) = (Vec::new(), End { seq: 7, persisted: 9, ..End::default() });
        for (key, (kind, expire_at_ms, value)) in rows {
            put_head(&mut out, kind_of(*kind, *expire_at_ms), key, *expire_at_ms, value.len());
            out.extend_from_slice(value);
            end.rows += 1;
            end.bytes += (key.len() + value.len()) as u64;
        }
        end.encode(&mut out);
        (out, end)
    }

    type Decoded = Vec<(Vec<u8>, (Kind, u64, Vec<u8>))>;

    fn decode(bytes: &[u8], piece: usize) -> Result<(Decoded, End), &'static str> {
        let (mut decoder, mut rows) = (Decoder::default(), Decoded::new());
        for piece in bytes.chunks(piece) {
            decoder.feed(piece, |kind, key, expire_at_ms, value| {
                rows.push((key.to_vec(), (kind, expire_at_ms, value.to_vec())));
            })?;
        }
        Ok((rows, decoder.finish()?))
    }

    proptest! {
        #[test]
        fn a_stream_comes_back_whatever_pieces_it_comes_in(rows: Rows, piece in 1_usize..200) {
            let (bytes, end) = stream(&rows);
            let wanted = rows.into_iter().map(|(key, (kind, at, value))| (key, (kind_of(kind, at), at, value)));
            prop_assert_eq!(decode(&bytes, piece), Ok((wanted.collect(), end)));
        }

        #[test]
        fn a_stream_that_is_cut_or_goes_on_is_refused(rows: Rows, cut: prop::sample::Index, more: u8) {
            let (bytes, _) = stream(&rows);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())], 64).is_err());
            prop_assert!(decode(&[&bytes[..], &[more]].concat(), 64).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>, piece in 1_usize..50) {
            let _ = decode(&bytes, piece);
        }
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        for keys in [["b", "a"], ["a", "a"]] {
            let mut out = Vec::new();
            keys.iter().for_each(|key| put_head(&mut out, Kind::Put, key.as_bytes(), 0, 0));
            End { rows: 2, bytes: 2, ..End::default() }.encode(&mut out);
            assert_eq!(decode(&out, 64), Err("the keys are not in order"));
        }
    }
}
