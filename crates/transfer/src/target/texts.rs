//! Strings that wait to be written in the order of their keys.
//!
//! A dump has its keys in the order of a hash table. Written like that, every key belongs to another place of the
//! target's memtable, and its processor waits for memory each time. Written in order, a key finds the place of the one
//! before it in the processor's cache.

use super::{Batch, Whole};

/// Most bytes of names and values that are put in order together.
pub(super) const TEXTS_BYTES_MAX: usize = 64 << 20;
/// Most strings that are put in order together, however short they are.
const TEXTS_MAX: usize = 1 << 20;
/// Most bytes of a string that is gathered, name and value. The longer it is, the less its place in the memtable counts
/// beside the copy.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Strings of one database.
#[derive(Default)]
pub(super) struct Texts {
    database: u8,
    /// Bytes of names and values that make it full.
    pub(super) bytes_max: usize,
    /// Names and values, in the order in which they came.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where a string lies in the bytes: its name, and its value behind that.
#[derive(Clone, Copy)]
struct Place {
    /// Eight bytes of the name, behind the prefix that all names share: most comparisons need no look at the name.
    head: u64,
    start: u32,
    name_len: u16,
    value_len: u16,
    expire_at_ms: Option<u64>,
}

impl Texts {
    /// None yet, of database 0. `bytes_max` bytes make it full.
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(TEXTS_BYTES_MAX);
        // A buffer that grows would be copied, and take twice the memory. What is not used of it takes none.
        Self { bytes_max, bytes: Vec::with_capacity(bytes_max + TEXT_BYTES_MAX), ..Self::default() }
    }

    /// Forgets all strings and keeps their memory. The next ones are of `database`.
    pub(super) fn reset(&mut self, database: u8) {
        self.database = database;
        self.bytes.clear();
        self.places.clear();
    }

    /// Whether the string is short enough to be put in order with others.
    pub(super) fn fits(whole: &Whole<'_>, text: &[u8]) -> bool {
        whole.key.len() + text.len() <= TEXT_BYTES_MAX
    }

    /// Whether a string of `database` may be pushed.
    pub(super) fn takes(&self, database: u8) -> bool {
        self.database == database && self.bytes.len() < self.bytes_max && self.places.len() < TEXTS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Appends a string that [fits](Self::fits).
    pub(super) fn push(&mut self, whole: &Whole<'_>, text: &[u8]) {
        debug_assert!(Self::fits(whole, text) && self.bytes.len() <= TEXTS_BYTES_MAX);
        let (start, name_len, value_len) = (self.bytes.len() as u32, whole.key.len() as u16, text.len() as u16);
        self.bytes.extend_from_slice(whole.key);
        self.bytes.extend_from_slice(text);
        self.places.push(Place { head: 0, start, name_len, value_len, expire_at_ms: whole.expire_at_ms });
    }

    fn name(&self, place: &Place) -> &[u8] {
        &self.bytes[place.start as usize..][..usize::from(place.name_len)]
    }

    fn value(&self, place: &Place) -> &[u8] {
        &self.bytes[place.start as usize + usize::from(place.name_len)..][..usize::from(place.value_len)]
    }

    /// Puts the strings in the order of their names; those of one name stay as they came.
    pub(super) fn sort(&mut self) {
        let mut places = std::mem::take(&mut self.places);
        let Some(first) = places.first().map(|place| self.name(place)) else { return };
        let shared = places.iter().fold(first.len(), |shared, place| {
            first[..shared].iter().zip(self.name(place)).take_while(|(a, b)| a == b).count()
        });
        for place in &mut places {
            let rest = &self.name(place)[shared..];
            let (mut head, len) = ([0; 8], rest.len().min(8));
            head[..len].copy_from_slice(&rest[..len]);
            place.head = u64::from_be_bytes(head);
        }
        places.sort_by(|a, b| a.head.cmp(&b.head).then_with(|| self.name(a).cmp(self.name(b))));
        self.places = places;
    }

    /// Batches that write the strings in their order, each beginning as `empty`: at least one for each of `lanes`, if
    /// there are so many strings.
    pub(super) fn batches(&self, empty: &Batch, lanes: usize) -> impl Iterator<Item = Batch> {
        let most = self.places.len().div_ceil(lanes);
        let mut places = self.places.iter().peekable();
        std::iter::from_fn(move || {
            places.peek()?;
            let mut batch = empty.clone();
            batch.database = self.database;
            while !batch.is_full()
                && batch.keys.len() < most
                && let Some(place) = places.next()
            {
                let whole = Whole { key: self.name(place), expire_at_ms: place.expire_at_ms };
                batch.begin(whole.key);
                whole.push_text(&mut batch, self.value(place));
                batch.finish();
            }
            Some(batch)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resp::take_request;

    proptest! {
        #[test]
        fn strings_are_written_in_order(
            database in 0_u8..16,
            all in proptest::collection::vec((".{0,3}", proptest::collection::vec(any::<u8>(), 0..12), any::<Option<u8>>()), 0..2_000),
        ) {
            let mut texts = Texts::new(usize::MAX);
            texts.push(&Whole { key: b"forgotten", expire_at_ms: None }, b"");
            texts.reset(database);
            for (name, value, end) in &all {
                let name = format!("user:{name}");
                let whole = Whole { key: name.as_bytes(), expire_at_ms: end.map(u64::from) };
                prop_assert!(texts.takes(database) && Texts::fits(&whole, value));
                texts.push(&whole, value);
            }
            texts.sort();
            let (mut expected, mut written) = (all, Vec::new());
            expected.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
            for batch in texts.batches(&Batch::within(1 << 20), 4) {
                prop_assert_eq!(batch.database, database);
                prop_assert_eq!(batch.finished.len(), batch.requests.len());
                let mut rest = batch.requests.bytes_from(0);
                while let Some(words) = take_request(&mut rest).expect("requests") {
                    written.push(words);
                }
            }
            prop_assert_eq!(written.len(), expected.len());
            for (words, (name, value, end)) in written.iter().zip(&expected) {
                let name = format!("user:{name}");
                let mut wanted: Vec<&[u8]> = vec![b"SET", name.as_bytes(), value];
                let end = end.map(|end| end.to_string());
                wanted.extend(end.iter().flat_map(|end| [b"PXAT".as_slice(), end.as_bytes()]));
                prop_assert_eq!(words, &wanted);
            }
        }
    }

    #[test]
    fn no_more_than_the_bound_is_put_in_order_together() {
        let mut texts = Texts::new(1_000);
        texts.reset(3);
        assert!(texts.is_empty() && !texts.takes(2));
        let whole = Whole { key: b"name", expire_at_ms: None };
        assert!(Texts::fits(&whole, &[0; TEXT_BYTES_MAX - 4]) && !Texts::fits(&whole, &[0; TEXT_BYTES_MAX - 3]));
        while texts.takes(3) {
            texts.push(&whole, &[0; 96]);
        }
        assert_eq!(texts.places.len(), 10);
        assert!(!texts.is_empty());
    }
}
