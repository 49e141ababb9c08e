//! A version edit: one atomic step from one version to the next. Its bytes are the payload of a manifest record.
//!
//! ```text
//! edit   := field*
//! field  := tag u8 | body
//! tag 1  persisted log index   varint
//! tag 2  next file number      varint
//! tag 3  next epoch            varint
//! tag 4  table removed         level u8 | id varint
//! tag 5  table added           level u8 | table meta
//! tag 6  owner                 tenant varint | partition varint
//! ```
//! An unknown tag is an error: a newer version wrote the manifest.

use weir_io::Owner;
use weir_model::{LogIndex, varint};

use super::{LEVELS, TableMeta};

const PERSISTED: u8 = 1;
const NEXT_FILE: u8 = 2;
const NEXT_EPOCH: u8 = 3;
const REMOVED: u8 = 4;
const ADDED: u8 = 5;
const OWNER: u8 = 6;

/// One atomic step from one version to the next. Removals are applied before additions, so that a move between levels
/// is one edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Whose tree it is. A copy that is made for another owner does not say: a backup, or a tree restored from one.
    pub owner: Option<Owner>,
    /// Every log record up to here is in tables.
    pub persisted: Option<LogIndex>,
    /// First file number not yet used.
    pub next_file: Option<u64>,
    /// First epoch not yet used.
    pub next_epoch: Option<u64>,
    /// (level, table number)
    pub removed: Vec<(usize, u64)>,
    /// (level, table)
    pub added: Vec<(usize, TableMeta)>,
}

impl Edit {
    /// The bytes of the edit.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(Owner { tenant, partition }) = self.owner {
            out.push(OWNER);
            varint::put(&mut out, u64::from(tenant));
            varint::put(&mut out, u64::from(partition));
        }
        let numbers = [(PERSISTED, self.persisted), (NEXT_FILE, self.next_file), (NEXT_EPOCH, self.next_epoch)];
        for (tag, number) in numbers {
            if let Some(number) = number {
                out.push(tag);
                varint::put(&mut out, number);
            }
        }
        for (level, id) in &self.removed {
            out.extend([REMOVED, *level as u8]);
            varint::put(&mut out, *id);
        }
        for (level, meta) in &self.added {
            out.extend([ADDED, *level as u8]);
            meta.encode(&mut out);
        }
        out
    }

    /// Reads an edit; `Err` is the offset of the field that does not decode.
    pub fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut edit = Edit::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            edit.take_field(&mut rest).ok_or(offset)?;
        }
        Ok(edit)
    }

    fn take_field(&mut self, rest: &mut &[u8]) -> Option<()> {
        match take_byte(rest)? {
            PERSISTED => self.persisted = Some(varint::take(rest)?),
            NEXT_FILE => self.next_file = Some(varint::take(rest)?),
            NEXT_EPOCH => self.next_epoch = Some(varint::take(rest)?),
            REMOVED => self.removed.push((take_level(rest)?, varint::take(rest)?)),
            ADDED => self.added.push((take_level(rest)?, TableMeta::decode(rest)?)),
            OWNER => self.owner = Some(Owner { tenant: take_u32(rest)?, partition: take_u32(rest)? }),
            _ => return None,
        }
        Some(())
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    varint::take(rest).and_then(|number| u32::try_from(number).ok())
}

fn take_level(rest: &mut &[u8]) -> Option<usize> {
    take_byte(rest).map(usize::from).filter(|&level| level < LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::engine::{Counter, Deadlines};

    fn deadlines() -> impl Strategy<Value = Deadlines> {
        proptest::collection::vec((1_u64.., 0_u64..1 << 50), 0..30).prop_map(|values| {
            let mut counter = Counter::new(1 << 40);
            values.iter().for_each(|&(at_ms, bytes)| counter.add(at_ms, bytes));
            counter.finish()
        })
    }

    fn meta() -> impl Strategy<Value = TableMeta> {
        (any::<[u64; 11]>(), any::<[Vec<u8>; 2]>(), deadlines()).prop_map(|(n, [smallest, largest], deadlines)| {
            TableMeta {
                id: n[0],
                epoch: n[1],
                bytes: n[2],
                entries: n[3],
                tombstones: n[4],
                expiring: n[5],
                smallest_seq: n[6],
                largest_seq: n[7],
                digest: n[10],
                smallest: smallest.into(),
                largest: largest.into(),
                raw_bytes: n[8],
                tombstone_bytes: n[9],
                deadlines,
            }
        })
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            owner: Option<[u32; 2]>,
            numbers: [Option<u64>; 3],
            removed in proptest::collection::vec((0..LEVELS, any::<u64>()), 0..4),
            added in proptest::collection::vec((0..LEVELS, meta()), 0..4),
        ) {
            let owner = owner.map(|[tenant, partition]| Owner { tenant, partition });
            let [persisted, next_file, next_epoch] = numbers;
            let edit = Edit { owner, persisted, next_file, next_epoch, removed, added };
            prop_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            if let Ok(edit) = Edit::decode(&bytes) {
                prop_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
            }
        }
    }
}
