//! Fields of a hash that expire before their row does, and the agenda of all hashes that have such fields.
//!
//! Such a field stands in a space of its own, with its deadline in front of its value, and once more in the order of
//! the deadlines. Engines know nothing of these deadlines: the reader hides a field that has expired, and a record of
//! the log removes it, together with its share of the numbers in the head. So the numbers are right at any time.
//!
//! ```text
//! detail   := nothing | 1 | large u8 | fields varint | first_ms varint | last_ms varint | row_ms varint
//! MORTAL   := placed field → deadline u64 | value
//! DEADLINE := deadline u64 | placed field → nothing
//! agenda   := 80 | 0 u64 | 0 | first_ms u64 | the row's stored key → nothing
//! ```

use super::{Life, Part};
use crate::varint;

/// The space of fields that expire.
pub const MORTAL_SPACE: u8 = 1;
/// The space that has the deadlines of these fields in order.
pub const DEADLINE_SPACE: u8 = 2;

/// A deadline at the beginning of a value or a subkey.
pub const DEADLINE_BYTES: usize = 8;

/// The life that no row has: its parts are the agenda.
const NOBODYS: u64 = 0;

/// Marks a row that Redis would not keep as a small one.
const LARGE: u8 = 1;

/// The fields of a hash that expire, as its head describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MortalFields {
    /// The number of such fields, at least 1. They are among the parts that the head counts.
    pub count: u64,
    /// The earliest deadline, in milliseconds since 1970.
    pub first_ms: u64,
    /// The latest deadline.
    pub last_ms: u64,
}

/// The detail of the head of a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashDetail {
    /// Whether Redis would not keep the hash as a small one.
    pub is_large: bool,
    /// `None` where all fields last as long as their row.
    pub mortal: Option<MortalFields>,
    /// Where some fields expire: the deadline of the row itself. The deadline stored beside the head may be that of the
    /// last field.
    pub row_ms: Option<u64>,
}

impl HashDetail {
    /// Encodes the detail.
    pub fn encode(&self) -> Vec<u8> {
        let Some(MortalFields { count, first_ms, last_ms }) = self.mortal else {
            return if self.is_large { vec![LARGE] } else { Vec::new() };
        };
        let mut out = vec![u8::from(self.is_large)];
        for number in [count, first_ms, last_ms, self.row_ms.unwrap_or(0)] {
            varint::put(&mut out, number);
        }
        out
    }

    /// Decodes `bytes`; `None` if [`HashDetail::encode`] cannot have produced them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (is_large, mut rest) = match bytes {
            [] => return Some(Self::default()),
            [LARGE] => return Some(Self { is_large: true, ..Self::default() }),
            [large @ (0 | LARGE), rest @ ..] => (*large == LARGE, rest),
            _ => return None,
        };
        let mut number = || varint::take_shortest(&mut rest);
        let (count, first_ms, last_ms, row_ms) = (number()?, number()?, number()?, number()?);
        let is_sound = count > 0 && first_ms > 0 && first_ms <= last_ms && rest.is_empty();
        let mortal = Some(MortalFields { count, first_ms, last_ms });
        is_sound.then_some(Self { is_large, mortal, row_ms: Some(row_ms).filter(|&at| at > 0) })
    }
}

/// The stored value of a field that expires.
pub fn mortal_value(deadline_ms: u64, value: &[u8]) -> Vec<u8> {
    [&deadline_ms.to_be_bytes()[..], value].concat()
}

/// Splits `stored`, a value or a subkey, into the deadline at its front and the rest; `None` if it is too short.
pub fn take_deadline(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (deadline, rest) = stored.split_first_chunk()?;
    Some((u64::from_be_bytes(*deadline), rest))
}

/// The key in the agenda of the row with the stored key `row`, whose first field expires at `first_ms`.
pub fn agenda_key(first_ms: u64, row: &[u8]) -> Vec<u8> {
    Life::new(NOBODYS).part(0, &[&first_ms.to_be_bytes(), row].concat())
}

/// The deadline and the row of an entry of the agenda; `None` if `key` is not in the agenda.
pub fn agenda_of(key: &[u8]) -> Option<(u64, &[u8])> {
    let part = Part::parse(key).filter(|part| part.version == NOBODYS && part.space == 0)?;
    take_deadline(part.subkey)
}

/// The key range of the agenda: its first key, and the first key behind it.
pub fn agenda() -> (Vec<u8>, Vec<u8>) {
    Life::new(NOBODYS).space(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_detail_comes_back(is_large: bool, mortal: Option<(u64, u64, u64)>, row_ms: Option<u64>) {
            let mortal = mortal.map(|(count, a, b)| {
                MortalFields { count: count.max(1), first_ms: a.min(b).max(1), last_ms: a.max(b).max(1) }
            });
            let row_ms = row_ms.filter(|&at| at > 0 && mortal.is_some());
            let detail = HashDetail { is_large, mortal, row_ms };
            prop_assert_eq!(HashDetail::decode(&detail.encode()), Some(detail));
        }

        #[test]
        fn any_bytes_are_a_detail_or_refused(bytes in proptest::collection::vec(0..4_u8, 0..8)) {
            if let Some(detail) = HashDetail::decode(&bytes) {
                prop_assert_eq!(detail.encode(), bytes);
            }
        }

        #[test]
        fn the_agenda_is_in_the_order_of_deadlines(a: (u64, Vec<u8>), b: (u64, Vec<u8>)) {
            let key = |(at, row): &(u64, Vec<u8>)| agenda_key(*at, row);
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            let entry = key(&a);
            prop_assert_eq!(agenda_of(&entry), Some((a.0, &a.1[..])));
            let (from, to) = agenda();
            prop_assert!(from <= key(&a) && key(&a) < to && to <= super::super::cover_key(1).to_vec());
        }
    }

    #[test]
    fn others_are_not_of_the_agenda() {
        assert_eq!(agenda_of(&Life::new(1).part(0, &[0; 20])), None);
        assert_eq!(agenda_of(b"\x00key"), None);
        assert_eq!(agenda_of(&Life::new(0).part(0, b"short")), None);
    }
}
