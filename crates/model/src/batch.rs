//! A batch of changes and its bytes.
//!
//! ```text
//! batch  := change*
//! change := kind u8 | key_len varint | key | body
//! kind 0 (delete)       body := nothing
//! kind 1 (put)          body := value_len varint | value
//! kind 2 (put, expires) body := expire_at_ms varint | value_len varint | value
//! kind 3 (head)         body := head_len varint | head
//! kind 4 (head, expires) body := expire_at_ms varint | head_len varint | head
//! kind 5 (cover)        body := bytes varint
//! ```

use std::fmt;

use crate::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX, parts, varint};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const HEAD: u8 = 3;
const HEAD_EXPIRING: u8 = 4;
const COVER: u8 = 5;

/// Most bytes that a change takes besides its key and its value: its kind, two lengths and a deadline.
const FRAME_BYTES_MAX: usize = 1 + 3 * varint::BYTES_MAX;

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value from now on, until `expire_at_ms` (milliseconds since 1970; `None` = for ever).
    Put {
        /// At most [`STORED_KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
        /// At most [`VALUE_BYTES_MAX`] bytes.
        value: &'a [u8],
        /// First millisecond at which the key no longer exists.
        expire_at_ms: Option<u64>,
    },
    /// The key no longer exists from now on.
    Delete {
        /// At most [`STORED_KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
    },
    /// The key has a row of many parts from now on, until `expire_at_ms`.
    Head {
        /// The key of the row.
        key: &'a [u8],
        /// The bytes of a [`parts::Head`].
        head: &'a [u8],
        /// As in a put.
        expire_at_ms: Option<u64>,
    },
    /// The parts whose keys begin with `key` are dead.
    Cover {
        /// A [`parts::cover_key`].
        key: &'a [u8],
        /// About how many bytes their keys and values have.
        bytes: u64,
    },
}

impl<'a> Change<'a> {
    /// The key that changes.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Change::Put { key, .. } | Change::Delete { key } | Change::Head { key, .. } => key,
            Change::Cover { key, .. } => key,
        }
    }

    /// How many bytes the change takes in a batch.
    pub fn encoded_len(&self) -> usize {
        let with_len = |bytes: &[u8]| varint::len(bytes.len() as u64) + bytes.len();
        let body = match self {
            Change::Put { value, expire_at_ms, .. } | Change::Head { head: value, expire_at_ms, .. } => {
                expire_at_ms.map_or(0, varint::len) + with_len(value)
            }
            Change::Delete { .. } => 0,
            Change::Cover { bytes, .. } => varint::len(*bytes),
        };
        1 + with_len(self.key()) + body
    }

    /// The largest version of a row of many parts that was known when this change was made; 0 if the change is not
    /// about such a row. The sequence number that the row's head or cover gets is larger.
    #[inline]
    pub fn newest_version(&self) -> u64 {
        match self {
            Change::Put { .. } | Change::Delete { .. } => 0,
            Change::Head { head, .. } => parts::HeadRef::parse(head).map_or(0, |head| head.version - 1),
            Change::Cover { key, .. } => parts::version_of(key).unwrap_or(0),
        }
    }
}

/// Bytes that are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the change that does not decode, in bytes from the start of the batch.
    pub offset: usize,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the change at byte {} of the batch is malformed", self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// Changes that become visible together, in order, already encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    count: usize,
}

/// A place between two changes of a batch. The default is in front of all changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchMark {
    bytes: usize,
    count: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for `bytes` bytes.
    pub fn with_room_for(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// Adds a change.
    ///
    /// # Panics
    /// If key or value are longer than their limits; the protocol layer refuses them before.
    pub fn push(&mut self, change: Change<'_>) {
        self.push_behind(&[], change);
    }

    /// Adds a put, delete or head of a row of `database`, with its key as users know it ([`crate::StoredKey`]).
    ///
    /// # Panics
    /// As [`Batch::push`].
    pub fn push_row(&mut self, database: u8, change: Change<'_>) {
        self.push_behind(&[database], change);
    }

    /// Adds a put or delete of a part, with its subkey as its key.
    ///
    /// # Panics
    /// As [`Batch::push`].
    pub fn push_part(&mut self, life: parts::Life, space: u8, change: Change<'_>) {
        self.push_behind(&life.front(space), change);
    }

    /// Adds a put or delete of the part of a [placed](parts::placed) member, with the member's name as the key.
    ///
    /// # Panics
    /// As [`Batch::push`].
    pub fn push_member(&mut self, life: parts::Life, space: u8, change: Change<'_>) {
        self.push_behind(&life.placed_front(space, change.key()), change);
    }

    #[inline]
    fn push_behind(&mut self, prefix: &[u8], change: Change<'_>) {
        let key = change.key();
        let key_len = prefix.len() + key.len();
        assert!(key_len <= STORED_KEY_BYTES_MAX, "key of {key_len} bytes");
        let kind = match change {
            Change::Delete { .. } => DELETE,
            Change::Put { expire_at_ms: None, .. } => PUT,
            Change::Put { expire_at_ms: Some(_), .. } => PUT_EXPIRING,
            Change::Head { expire_at_ms: None, .. } => HEAD,
            Change::Head { expire_at_ms: Some(_), .. } => HEAD_EXPIRING,
            Change::Cover { .. } => COVER,
        };
        let value_len = match change {
            Change::Put { value, .. } | Change::Head { head: value, .. } => value.len(),
            Change::Delete { .. } | Change::Cover { .. } => 0,
        };
        // Otherwise a new batch would grow several times for its first change.
        self.bytes.reserve(FRAME_BYTES_MAX + key_len + value_len);
        self.bytes.push(kind);
        varint::put(&mut self.bytes, key_len as u64);
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        match change {
            Change::Put { value, expire_at_ms, .. } | Change::Head { head: value, expire_at_ms, .. } => {
                assert!(value.len() <= VALUE_BYTES_MAX, "value of {} bytes", value.len());
                if let Some(at) = expire_at_ms {
                    varint::put(&mut self.bytes, at);
                }
                varint::put(&mut self.bytes, value.len() as u64);
                self.bytes.extend_from_slice(value);
            }
            Change::Delete { .. } => {}
            Change::Cover { bytes, .. } => varint::put(&mut self.bytes, bytes),
        }
        self.count += 1;
    }

    /// Adds a put without expiry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.push(Change::Put { key, value, expire_at_ms: None });
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: &[u8]) {
        self.push(Change::Delete { key });
    }

    /// The place where the next change will be.
    pub fn mark(&self) -> BatchMark {
        BatchMark { bytes: self.bytes.len(), count: self.count }
    }

    /// Removes the changes behind `mark`, which must be a mark of this batch.
    pub fn rewind(&mut self, mark: BatchMark) {
        self.bytes.truncate(mark.bytes);
        self.count = mark.count;
    }

    /// The changes from `mark` on.
    pub fn since(&self, mark: BatchMark) -> BatchRef<'_> {
        BatchRef { bytes: &self.bytes[mark.bytes..], count: self.count - mark.count }
    }

    /// The changes from `mark` on, each with its place.
    pub fn marked_since(&self, mark: BatchMark) -> impl Iterator<Item = (BatchMark, Change<'_>)> {
        let (mut rest, mut place) = (&self.bytes[mark.bytes..], mark);
        std::iter::from_fn(move || {
            let at = place;
            let change = take_change(&mut rest).filter(|_| at.count < self.count)?;
            place = BatchMark { bytes: self.bytes.len() - rest.len(), count: at.count + 1 };
            Some((at, change))
        })
    }

    /// The change at `mark`.
    ///
    /// # Panics
    /// If there is no change at `mark`.
    pub fn at(&self, mark: BatchMark) -> Change<'_> {
        take_change(&mut &self.bytes[mark.bytes..]).expect("a place in front of a change")
    }

    /// The key of the change at `mark`.
    ///
    /// # Panics
    /// If there is no change at `mark`.
    pub fn key_at(&self, mark: BatchMark) -> &[u8] {
        let after_kind = self.bytes.get(mark.bytes + 1..);
        after_kind.and_then(|mut rest| varint::take_slice(&mut rest)).expect("a place in front of a change")
    }

    /// The same batch without the changes at `places`, which ascend.
    ///
    /// # Panics
    /// If there is no change at one of them.
    pub fn without(&self, places: &[BatchMark]) -> Self {
        let (mut bytes, mut from) = (Vec::with_capacity(self.bytes.len()), 0);
        for place in places {
            let mut rest = &self.bytes[place.bytes..];
            take_change(&mut rest).expect("a place in front of a change");
            bytes.extend_from_slice(&self.bytes[from..place.bytes]);
            from = self.bytes.len() - rest.len();
        }
        bytes.extend_from_slice(&self.bytes[from..]);
        Self { bytes, count: self.count - places.len() }
    }

    /// Removes all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded bytes: the payload of a log record.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The changes, in order.
    pub fn as_ref(&self) -> BatchRef<'_> {
        BatchRef { bytes: &self.bytes, count: self.count }
    }
}

/// A valid batch in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> BatchRef<'a> {
    /// Checks that `bytes` is a batch.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            let change = take_change(&mut rest).ok_or(DecodeError { offset })?;
            if let Change::Head { key, head, .. } = change {
                let is_sound = !parts::is_part(key)
                    && parts::HeadRef::parse(head).is_some_and(|head| head.packed.is_none_or(parts::Packed::is_sound));
                is_sound.then_some(()).ok_or(DecodeError { offset })?;
            }
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_change(&mut rest) })
    }
}

#[inline]
fn take_change<'a>(rest: &mut &'a [u8]) -> Option<Change<'a>> {
    let (&kind, after) = rest.split_first()?;
    *rest = after;
    let key = varint::take_slice(rest).filter(|key| key.len() <= STORED_KEY_BYTES_MAX)?;
    let expire_at_ms = match kind {
        DELETE => return Some(Change::Delete { key }),
        PUT => None,
        PUT_EXPIRING => Some(varint::take(rest)?),
        _ => return take_of_parts(kind, key, rest),
    };
    let value = varint::take_slice(rest).filter(|value| value.len() <= VALUE_BYTES_MAX)?;
    Some(Change::Put { key, value, expire_at_ms })
}

/// Decodes a head or a cover. The content of heads is checked once, where a batch is [decoded](BatchRef::decode): code
/// that applies heads relies on it.
fn take_of_parts<'a>(kind: u8, key: &'a [u8], rest: &mut &'a [u8]) -> Option<Change<'a>> {
    let expire_at_ms = match kind {
        HEAD => None,
        HEAD_EXPIRING => Some(varint::take(rest)?),
        COVER => {
            let bytes = varint::take(rest)?;
            let is_cover = key.len() == parts::COVER_KEY_BYTES
                && parts::version_of(key).is_some_and(|version| (1..=parts::VERSION_MAX).contains(&version));
            return is_cover.then_some(Change::Cover { key, bytes });
        }
        _ => return None,
    };
    Some(Change::Head { key, head: varint::take_slice(rest)?, expire_at_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (Vec<u8>, Option<(Vec<u8>, Option<u64>)>);

    fn change((key, put): &Owned) -> Change<'_> {
        match put {
            Some((value, expire_at_ms)) => Change::Put { key, value, expire_at_ms: *expire_at_ms },
            None => Change::Delete { key },
        }
    }

    #[test]
    fn heads_and_covers_come_back_and_others_are_refused() {
        let head = parts::Head::new(parts::RowType::Hash, 300).encode();
        let cover = parts::cover_key(300);
        let changes = [
            Change::Head { key: b"\x03row", head: &head, expire_at_ms: None },
            Change::Head { key: b"\x03row", head: &head, expire_at_ms: Some(7) },
            Change::Cover { key: &cover, bytes: 301 },
        ];
        let mut batch = Batch::new();
        changes.iter().for_each(|&change| batch.push(change));
        let decoded = BatchRef::decode(batch.as_bytes()).expect("own bytes decode");
        assert!(decoded.iter().eq(changes));
        assert_eq!(changes.iter().map(Change::encoded_len).sum::<usize>(), batch.as_bytes().len());
        for wrong in [
            Change::Head { key: b"\x03row", head: &head[1..], expire_at_ms: None },
            Change::Head { key: &cover, head: &head, expire_at_ms: None },
            Change::Cover { key: b"\x83row", bytes: 1 },
            Change::Cover { key: &[&cover[..], &[0]].concat(), bytes: 1 },
            Change::Cover { key: b"\x03row", bytes: 1 },
            Change::Cover { key: &parts::cover_key(parts::VERSION_MAX + 1), bytes: 1 },
            Change::Cover { key: &parts::cover_key(0), bytes: 1 },
        ] {
            let mut batch = Batch::new();
            batch.push(wrong);
            assert!(BatchRef::decode(batch.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_pushed(changes: Vec<Owned>) {
            let mut batch = Batch::new();
            changes.iter().for_each(|owned| batch.push(change(owned)));
            let decoded = BatchRef::decode(batch.as_bytes()).expect("own bytes decode");
            prop_assert_eq!(decoded.len(), changes.len());
            prop_assert!(decoded.iter().eq(changes.iter().map(change)));
            prop_assert_eq!(decoded.iter().map(|change| change.encoded_len()).sum::<usize>(), batch.as_bytes().len());
        }

        #[test]
        fn a_database_stands_in_front_of_every_key(changes: Vec<Owned>, database in 0..16_u8) {
            let mut batch = Batch::new();
            changes.iter().for_each(|owned| batch.push_row(database, change(owned)));
            let decoded = BatchRef::decode(batch.as_bytes()).expect("own bytes decode");
            for (found, (key, _)) in decoded.iter().zip(&changes) {
                prop_assert_eq!(found.key(), [&[database], &key[..]].concat());
            }
            prop_assert_eq!(decoded.len(), changes.len());
        }

        #[test]
        fn the_front_of_its_part_stands_before_every_subkey(changes: Vec<Owned>, version in 1..9_u64, space in 0..4_u8) {
            let (mut batch, life) = (Batch::new(), parts::Life::new(version));
            changes.iter().for_each(|owned| batch.push_part(life, space, change(owned)));
            changes.iter().for_each(|owned| batch.push_member(life, space, change(owned)));
            let decoded = BatchRef::decode(batch.as_bytes()).expect("own bytes decode");
            let parts = changes.iter().map(|(subkey, _)| life.part(space, subkey));
            let members = changes.iter().map(|(member, _)| life.part(space, &parts::placed(version, member)));
            let keys: Vec<Vec<u8>> = parts.chain(members).collect();
            prop_assert!(decoded.iter().map(|change| change.key()).eq(keys.iter().map(|key| &key[..])));
        }

        #[test]
        fn what_is_rewound_was_never_pushed(before: Vec<Owned>, after: Vec<Owned>) {
            let mut batch = Batch::new();
            before.iter().for_each(|owned| batch.push(change(owned)));
            let (mark, copy) = (batch.mark(), batch.clone());
            after.iter().for_each(|owned| batch.push(change(owned)));
            prop_assert!(batch.since(mark).iter().eq(after.iter().map(change)));
            prop_assert!(batch.marked_since(mark).map(|(place, _)| batch.at(place)).eq(after.iter().map(change)));
            batch.rewind(mark);
            prop_assert_eq!(batch, copy);
        }

        #[test]
        fn what_is_left_out_was_never_pushed(changes: Vec<(Owned, bool)>) {
            let (mut batch, mut kept) = (Batch::new(), Batch::new());
            for (owned, stays) in &changes {
                batch.push(change(owned));
                if *stays {
                    kept.push(change(owned));
                }
            }
            let places: Vec<BatchMark> = batch.marked_since(BatchMark::default()).map(|(place, _)| place).collect();
            prop_assert!(places.iter().map(|&place| batch.key_at(place)).eq(changes.iter().map(|((key, _), _)| &key[..])));
            let gone = places.iter().zip(&changes).filter(|(_, (_, stays))| !stays).map(|(&place, _)| place);
            prop_assert_eq!(batch.without(&gone.collect::<Vec<_>>()), kept);
        }

        #[test]
        fn any_bytes_decode_or_are_refused_without_a_panic(bytes: Vec<u8>) {
            if let Ok(batch) = BatchRef::decode(&bytes) {
                prop_assert_eq!(batch.iter().count(), batch.len());
            }
        }
    }
}
