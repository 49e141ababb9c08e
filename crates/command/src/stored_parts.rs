//! Parts as they are stored, in their order. They lie one behind the other in one piece of memory, so that a page of
//! hundreds of parts does not cost an allocation for each.

use std::fmt;

use weir_model::Value;

use crate::reply::Replies;

/// Longer values are kept by themselves, and are not copied again when they are answered.
const SHORT_BYTES_MAX: usize = 4 << 10;

/// Room for a short part. Its key takes at least a third of it.
const PART_BYTES: usize = 32;

/// Stored parts in their order, in one piece of memory.
#[derive(Clone, Default)]
pub struct StoredParts {
    /// The keys, each followed by its value if that is short.
    bytes: Vec<u8>,
    places: Vec<Place>,
    long: Vec<Value>,
}

/// Where a part stands.
#[derive(Clone, Copy)]
struct Place {
    key: usize,
    /// Where the key ends, and a short value begins.
    value: usize,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    /// Where a short value ends.
    Short(usize),
    /// The number of a long value.
    Long(usize),
}

/// One of the parts.
#[derive(Clone, Copy, Debug)]
pub struct StoredPart<'p> {
    /// Its stored key.
    pub key: &'p [u8],
    /// Its value.
    pub value: &'p [u8],
    long: Option<&'p Value>,
}

impl<'p> StoredPart<'p> {
    /// The same part without the first `len` bytes of its key.
    pub(crate) fn behind(self, len: usize) -> Self {
        Self { key: &self.key[len..], ..self }
    }

    /// A copy of the value. A long one is shared, and not copied.
    pub fn to_value(&self) -> Value {
        self.long.map_or_else(|| Value::copy_of(self.value), Value::clone)
    }

    /// Answers with the part's value.
    pub fn tell_value(&self, replies: &mut Replies) {
        match self.long {
            Some(long) => replies.bulk_value(long.clone()),
            None => replies.bulk(self.value),
        }
    }
}

impl StoredParts {
    /// No parts yet, with room for `parts` short ones.
    pub fn with_room_for(parts: usize) -> Self {
        Self { bytes: Vec::with_capacity(parts * PART_BYTES), places: Vec::with_capacity(parts), long: Vec::new() }
    }

    /// Adds a part behind all others.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        if value.len() > SHORT_BYTES_MAX {
            return self.push_long(key, value.to_vec().into());
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let value = at + key.len();
        self.places.push(Place { key: at, value, end: End::Short(self.bytes.len()) });
    }

    fn push_long(&mut self, key: &[u8], value: Value) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.places.push(Place { key: at, value: self.bytes.len(), end: End::Long(self.long.len()) });
        self.long.push(value);
    }

    /// Adds `part`, which other stored parts hold, behind all others.
    pub fn push_stored(&mut self, part: StoredPart<'_>) {
        match part.long {
            Some(long) => self.push_long(part.key, long.clone()),
            None => self.push(part.key, part.value),
        }
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether no part has a long value, and all parts together have fewer than `bytes` bytes.
    pub(crate) fn is_shorter_than(&self, bytes: usize) -> bool {
        self.long.is_empty() && self.bytes.len() < bytes
    }

    /// How many parts at the front have keys that are `before` something. The keys have to ascend, or descend.
    pub(crate) fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.places.partition_point(|place| before(self.at(place).key))
    }

    /// Keeps only the first `len` parts.
    pub fn truncate(&mut self, len: usize) {
        self.places.truncate(len);
    }

    /// The part with the number `index`.
    pub fn get(&self, index: usize) -> Option<StoredPart<'_>> {
        self.places.get(index).map(|place| self.at(place))
    }

    /// The last part.
    pub fn last(&self) -> Option<StoredPart<'_>> {
        self.places.last().map(|place| self.at(place))
    }

    /// All parts, in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = StoredPart<'_>> + ExactSizeIterator {
        self.places.iter().map(|place| self.at(place))
    }

    #[inline]
    fn at(&self, &Place { key, value, end }: &Place) -> StoredPart<'_> {
        let key = &self.bytes[key..value];
        match end {
            End::Short(end) => StoredPart { key, value: &self.bytes[value..end], long: None },
            End::Long(number) => StoredPart { key, value: &self.long[number], long: Some(&self.long[number]) },
        }
    }

    /// Each part by itself: its key without the bytes in front of `subkey_at`, and its value.
    pub fn into_owned(self, subkey_at: usize) -> impl ExactSizeIterator<Item = (Vec<u8>, Value)> {
        let Self { bytes, places, long } = self;
        places.into_iter().map(move |Place { key, value, end }| {
            let subkey = bytes[(key + subkey_at).min(value)..value].to_vec();
            let value = match end {
                End::Short(end) => Value::copy_of(&bytes[value..end]),
                End::Long(number) => long[number].clone(),
            };
            (subkey, value)
        })
    }
}

impl PartialEq for StoredParts {
    fn eq(&self, other: &Self) -> bool {
        let pair = |part: StoredPart<'_>| (part.key.to_vec(), part.value.to_vec());
        self.iter().map(pair).eq(other.iter().map(pair))
    }
}

impl Eq for StoredParts {}

impl fmt::Debug for StoredParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'p> FromIterator<(&'p [u8], &'p [u8])> for StoredParts {
    fn from_iter<I: IntoIterator<Item = (&'p [u8], &'p [u8])>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|(key, value)| all.push(key, value));
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_come_back_as_they_were_put_in(
            parts in proptest::collection::vec((any::<Vec<u8>>(), 0..3 * SHORT_BYTES_MAX, any::<u8>()), 0..12),
            len in 0..14_usize,
            subkey_at in 0..9_usize,
        ) {
            let parts: Vec<(Vec<u8>, Vec<u8>)> =
                parts.into_iter().map(|(key, len, byte)| (key, vec![byte; len])).collect();
            let mut stored: StoredParts = parts.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            let copy = |stored: &StoredParts| -> Vec<(Vec<u8>, Vec<u8>)> {
                stored.iter().map(|part| (part.key.to_vec(), part.value.to_vec())).collect()
            };
            prop_assert_eq!(copy(&stored), parts.clone());
            let mut again = StoredParts::default();
            stored.iter().for_each(|part| again.push_stored(part));
            prop_assert_eq!(&again, &stored);
            prop_assert_eq!(stored.last().map(|part| part.key.to_vec()), parts.last().map(|(key, _)| key.clone()));
            stored.truncate(len);
            let left = &parts[..len.min(parts.len())];
            prop_assert_eq!(copy(&stored), left);
            let owned: Vec<(Vec<u8>, Vec<u8>)> =
                stored.into_owned(subkey_at).map(|(key, value)| (key, value.to_vec())).collect();
            let wanted = left.iter().map(|(key, value)| (key.iter().skip(subkey_at).copied().collect(), value.clone()));
            prop_assert_eq!(owned, wanted.collect::<Vec<(Vec<u8>, Vec<u8>)>>());
        }
    }
}
