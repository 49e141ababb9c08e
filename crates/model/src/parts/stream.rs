//! The layout of a stream: subkeys and values of its parts, and the detail of its head. Any bytes can be read safely.
//!
//! | space | subkey | value |
//! |---|---|---|
//! | 0 | entry's id | fields and values: each a varint length and the bytes |
//! | 1 | group | last id delivered, 16 bytes; entries read, varint (0 = unknown, else one more); pending entries and consumers, varints |
//! | 2 | group, consumer | last seen, ms varint; pending entries varint |
//! | 3 | group, entry's id | delivered at, ms varint; deliveries varint; consumer |
//! | 4 | group, consumer, entry's id | nothing |

use super::ELEMENT_SPACE;
use super::subkey::{put_bytes, put_u64, take_bytes, take_u64};
use crate::varint;

/// The space of entries.
pub const ENTRIES: u8 = ELEMENT_SPACE;
/// The space of groups.
pub const GROUPS: u8 = 1;
/// The space of consumers, by group.
pub const CONSUMERS: u8 = 2;
/// The space of pending entries, by group.
pub const PENDING: u8 = 3;
/// The space of pending entries, by consumer.
pub const PENDING_OF: u8 = 4;

/// An entry's id: its time, and a number that tells entries of the same millisecond apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds since 1970, unless the client said something else.
    pub ms: u64,
    /// The number.
    pub seq: u64,
}

impl EntryId {
    /// The smallest, which no entry has.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The largest.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The id with this time and number.
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// The next id; `None` behind the largest.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The previous id; `None` in front of the smallest.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// Appends the 16 bytes of the id.
    fn put(self, out: &mut Vec<u8>) {
        put_u64(out, self.ms);
        put_u64(out, self.seq);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { ms: take_u64(bytes)?, seq: take_u64(bytes)? })
    }

    /// The subkey of the entry.
    pub fn subkey(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.put(&mut out);
        out
    }

    /// The id in the subkey of an entry.
    pub fn of_subkey(subkey: &[u8]) -> Option<Self> {
        whole(subkey, Self::take)
    }
}

/// Decodes all of `bytes` with `take`.
fn whole<T>(mut bytes: &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Option<T> {
    take(&mut bytes).filter(|_| bytes.is_empty())
}

/// The value of an entry with these words: each field is followed by its value.
pub fn entry_value<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for word in words {
        varint::put(&mut out, word.len() as u64);
        out.extend_from_slice(word);
    }
    out
}

/// The words of an entry, from its value; `None` if that is damaged.
pub fn entry_words(mut value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut words = Vec::new();
    while !value.is_empty() {
        words.push(varint::take_slice(&mut value)?);
    }
    words.len().is_multiple_of(2).then_some(words)
}

/// The detail of the head of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamDetail {
    /// The first entry that still exists; 0-0 where there is none.
    pub first: EntryId,
    /// The last entry that was ever added.
    pub last: EntryId,
    /// The largest entry that was deleted by its id.
    pub max_deleted: EntryId,
    /// How many entries were ever added.
    pub added: u64,
    /// Its groups.
    pub groups: u64,
}

impl StreamDetail {
    /// Encodes the detail: three ids and two varints.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(3 * 16 + 6);
        [self.first, self.last, self.max_deleted].into_iter().for_each(|id| id.put(&mut out));
        varint::put(&mut out, self.added);
        varint::put(&mut out, self.groups);
        out
    }

    /// Decodes the detail.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, |bytes| {
            let [first, last, max_deleted] = [EntryId::take(bytes)?, EntryId::take(bytes)?, EntryId::take(bytes)?];
            Some(Self { first, last, max_deleted, added: varint::take(bytes)?, groups: varint::take(bytes)? })
        })
    }
}

/// The stored value of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupValue {
    /// The last entry that was delivered to somebody as a new one.
    pub delivered: EntryId,
    /// How many entries of the stream the group has read; `None` = unknown.
    pub read: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// Its consumers.
    pub consumers: u64,
}

impl GroupValue {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        self.delivered.put(&mut out);
        for number in [self.read.map_or(0, |read| read.saturating_add(1)), self.pending, self.consumers] {
            varint::put(&mut out, number);
        }
        out
    }

    /// Decodes the value.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, |bytes| {
            let delivered = EntryId::take(bytes)?;
            let read = varint::take(bytes)?.checked_sub(1);
            Some(Self { delivered, read, pending: varint::take(bytes)?, consumers: varint::take(bytes)? })
        })
    }
}

/// The stored value of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerValue {
    /// When the consumer last asked for something, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Its pending entries.
    pub pending: u64,
}

impl ConsumerValue {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        varint::put(&mut out, self.seen_ms);
        varint::put(&mut out, self.pending);
        out
    }

    /// Decodes the value.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        whole(bytes, |bytes| Some(Self { seen_ms: varint::take(bytes)?, pending: varint::take(bytes)? }))
    }
}

/// The stored value of an entry that was delivered and not acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingValue {
    /// When it was delivered last, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
    /// The consumer that has it.
    pub consumer: Vec<u8>,
}

impl PendingValue {
    /// Encodes the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.consumer.len());
        varint::put(&mut out, self.delivered_ms);
        varint::put(&mut out, self.deliveries);
        out.extend_from_slice(&self.consumer);
        out
    }

    /// Decodes the value.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let (delivered_ms, deliveries) = (varint::take(&mut bytes)?, varint::take(&mut bytes)?);
        Some(Self { delivered_ms, deliveries, consumer: bytes.into() })
    }
}

/// The common beginning of the subkeys of `group` in [`CONSUMERS`], [`PENDING`] and [`PENDING_OF`].
pub fn group_prefix(group: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(group.len() + 18);
    put_bytes(&mut out, group);
    out
}

/// The subkey of a consumer.
pub fn consumer_subkey(group: &[u8], consumer: &[u8]) -> Vec<u8> {
    let mut out = group_prefix(group);
    out.extend_from_slice(consumer);
    out
}

/// The subkey of a pending entry of `group`.
pub fn pending_subkey(group: &[u8], id: EntryId) -> Vec<u8> {
    let mut out = group_prefix(group);
    id.put(&mut out);
    out
}

/// The common beginning of the subkeys of a consumer's pending entries.
pub fn pending_of_prefix(group: &[u8], consumer: &[u8]) -> Vec<u8> {
    let mut out = group_prefix(group);
    put_bytes(&mut out, consumer);
    out
}

/// The subkey of a pending entry of `consumer`.
pub fn pending_of_subkey(group: &[u8], consumer: &[u8], id: EntryId) -> Vec<u8> {
    let mut out = pending_of_prefix(group, consumer);
    id.put(&mut out);
    out
}

/// Splits a subkey of [`CONSUMERS`], [`PENDING`] or [`PENDING_OF`] into the group and the rest.
pub fn split_group(mut subkey: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let group = take_bytes(&mut subkey)?;
    Some((group, subkey))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> impl Strategy<Value = EntryId> {
        let number = || prop_oneof![0..3_u64, Just(u64::MAX), any::<u64>()];
        (number(), number()).prop_map(|(ms, seq)| EntryId { ms, seq })
    }

    proptest! {
        #[test]
        fn ids_are_ordered_and_come_back(a in id(), b in id()) {
            prop_assert_eq!(a.subkey().cmp(&b.subkey()), a.cmp(&b));
            prop_assert_eq!(EntryId::of_subkey(&a.subkey()), Some(a));
            prop_assert_eq!(a.next().is_none_or(|next| next > a && next.previous() == Some(a)), true);
            prop_assert_eq!(a.previous().is_none_or(|before| before < a && before.next() == Some(a)), true);
        }

        #[test]
        fn what_is_kept_comes_back(
            ids in (id(), id(), id()), numbers in any::<(u64, u64, u64)>(), read in any::<Option<u32>>(), name: Vec<u8>
        ) {
            let (first, last, max_deleted) = ids;
            let detail = StreamDetail { first, last, max_deleted, added: numbers.0, groups: numbers.1 };
            prop_assert_eq!(StreamDetail::decode(&detail.encode()), Some(detail));
            let read = read.map(u64::from);
            let group = GroupValue { delivered: first, read, pending: numbers.0, consumers: numbers.1 };
            prop_assert_eq!(GroupValue::decode(&group.encode()), Some(group));
            let consumer = ConsumerValue { seen_ms: numbers.2, pending: numbers.0 };
            prop_assert_eq!(ConsumerValue::decode(&consumer.encode()), Some(consumer));
            let pending = PendingValue { delivered_ms: numbers.0, deliveries: numbers.1, consumer: name };
            prop_assert_eq!(PendingValue::decode(&pending.encode()), Some(pending));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (entry_words(&bytes), StreamDetail::decode(&bytes), GroupValue::decode(&bytes));
            let _ = (ConsumerValue::decode(&bytes), PendingValue::decode(&bytes), split_group(&bytes));
        }

        #[test]
        fn words_of_an_entry_come_back(words in proptest::collection::vec(any::<Vec<u8>>(), 0..6)) {
            let value = entry_value(words.iter().map(Vec::as_slice));
            let is_even = words.len().is_multiple_of(2);
            let expected = is_even.then(|| words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(entry_words(&value), expected);
        }
    }
}
