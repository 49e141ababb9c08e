//! The parts of a small row, which stand in its head one after the other.
//!
//! ```text
//! packed := part*
//! part   := tag u8 | (subkey_len varint | subkey)? | (value_len varint | value)? | (expire_at_ms varint)?
//! tag    := space << 3 | 4 if it expires | 2 if it has a value | 1 if it has a subkey
//! ```
//!
//! Parts keep the order in which they were put in: a small hash is listed in the order in which it was filled.

use std::ops::Range;

use super::SPACES;
use crate::varint;

const HAS_SUBKEY: u8 = 1;
const HAS_VALUE: u8 = 2;
const EXPIRES: u8 = 4;
const SPACE_SHIFT: u32 = 3;
const _: () = assert!(SPACES as u32 == 1 << (u8::BITS - SPACE_SHIFT), "a space fits a tag");

/// The parts of a small row, encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed(Vec<u8>);

/// One packed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPart<'a> {
    /// The order of its row that the part stands in, less than [`SPACES`].
    pub space: u8,
    /// The place in that order.
    pub subkey: &'a [u8],
    /// The part's value.
    pub value: &'a [u8],
    /// First millisecond since 1970 at which the part no longer exists; `None` = it lasts as long as its row.
    pub expire_at_ms: Option<u64>,
}

impl<'a> PackedPart<'a> {
    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let (&tag, after) = rest.split_first()?;
        let mut bytes = after;
        let subkey = take_if(tag & HAS_SUBKEY != 0, &mut bytes)?;
        let value = take_if(tag & HAS_VALUE != 0, &mut bytes)?;
        let expire_at_ms = if tag & EXPIRES == 0 { None } else { Some(varint::take(&mut bytes)?) };
        *rest = bytes;
        Some(Self { space: tag >> SPACE_SHIFT, subkey, value, expire_at_ms })
    }

    /// Appends the bytes of the part.
    ///
    /// # Panics
    /// If the space is too large.
    fn put(&self, out: &mut Vec<u8>) {
        assert!(self.space < SPACES, "space {}", self.space);
        let flag = |is: bool, flag| if is { flag } else { 0 };
        out.push(
            self.space << SPACE_SHIFT
                | flag(!self.subkey.is_empty(), HAS_SUBKEY)
                | flag(!self.value.is_empty(), HAS_VALUE)
                | flag(self.expire_at_ms.is_some(), EXPIRES),
        );
        for word in [self.subkey, self.value] {
            if !word.is_empty() {
                varint::put(out, word.len() as u64);
                out.extend_from_slice(word);
            }
        }
        if let Some(at) = self.expire_at_ms {
            varint::put(out, at);
        }
    }
}

/// The parts in `bytes`, which are packed parts, in their order. The iteration ends at damaged bytes.
fn parts_in(bytes: &[u8]) -> impl Iterator<Item = PackedPart<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || PackedPart::take(&mut rest))
}

/// What a search for a part has found, and how far it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSearch<'a> {
    /// The part, if it is there.
    pub found: Option<PackedPart<'a>>,
    /// How many parts were passed, with the one that was found.
    pub passed: usize,
    /// How many of them have a subkey of the same length, so that all of it had to be compared.
    pub compared: usize,
}

impl<'a> PackedSearch<'a> {
    /// Looks in `bytes`, which are packed parts, for the part at `subkey` in `space`. Ends at damaged bytes.
    pub fn new(bytes: &'a [u8], space: u8, subkey: &[u8]) -> Self {
        let (mut passed, mut compared) = (0, 0);
        let found = parts_in(bytes).find(|part| {
            passed += 1;
            compared += usize::from(part.subkey.len() == subkey.len());
            part.space == space && part.subkey == subkey
        });
        Self { found, passed, compared }
    }
}

fn take_if<'a>(is_there: bool, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    if is_there { varint::take_slice(bytes) } else { Some(&[]) }
}

impl Packed {
    /// Takes `bytes` as packed parts, unchecked: [`Packed::is_sound`] checks them.
    pub fn of(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `bytes` is the exact encoding of some parts.
    pub fn is_sound(bytes: &[u8]) -> bool {
        let (mut rest, mut again) = (bytes, Vec::with_capacity(bytes.len()));
        while let Some(part) = PackedPart::take(&mut rest) {
            part.put(&mut again);
        }
        again == bytes
    }

    /// The parts, in their order. The iteration ends at damaged bytes.
    pub fn iter(&self) -> impl Iterator<Item = PackedPart<'_>> {
        parts_in(&self.0)
    }

    /// The part at `subkey` in `space`.
    pub fn get(&self, space: u8, subkey: &[u8]) -> Option<PackedPart<'_>> {
        self.iter().find(|part| part.space == space && part.subkey == subkey)
    }

    /// Replaces the part with the same space and subkey by `part`, or appends `part` if there is none.
    pub fn put(&mut self, part: PackedPart<'_>) {
        let place = self.find(part.space, part.subkey).unwrap_or(self.0.len()..self.0.len());
        self.replace(place, Some(part));
    }

    /// Inserts `part` in front of the part with the number `index`; appends it if there are not so many.
    pub fn insert(&mut self, index: usize, part: PackedPart<'_>) {
        let start = self.nth(index).map_or(self.0.len(), |place| place.start);
        self.replace(start..start, Some(part));
    }

    /// Removes the part at `subkey` in `space`; `false` if there is none.
    pub fn remove(&mut self, space: u8, subkey: &[u8]) -> bool {
        let place = self.find(space, subkey);
        place.map(|place| self.replace(place, None)).is_some()
    }

    /// Removes the part with the number `index`, if there is one.
    pub fn remove_nth(&mut self, index: usize) {
        if let Some(place) = self.nth(index) {
            self.replace(place, None);
        }
    }

    /// Keeps only the parts for which `keep` returns true; returns how many were removed.
    pub fn retain(&mut self, mut keep: impl FnMut(&PackedPart<'_>) -> bool) -> usize {
        let (mut kept, mut gone) = (Vec::with_capacity(self.0.len()), 0);
        for part in self.iter() {
            if keep(&part) {
                part.put(&mut kept);
            } else {
                gone += 1;
            }
        }
        self.0 = kept;
        gone
    }

    fn places(&self) -> impl Iterator<Item = (Range<usize>, PackedPart<'_>)> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let start = self.0.len() - rest.len();
            let part = PackedPart::take(&mut rest)?;
            Some((start..self.0.len() - rest.len(), part))
        })
    }

    fn find(&self, space: u8, subkey: &[u8]) -> Option<Range<usize>> {
        self.places().find(|(_, part)| part.space == space && part.subkey == subkey).map(|(place, _)| place)
    }

    fn nth(&self, index: usize) -> Option<Range<usize>> {
        self.places().nth(index).map(|(place, _)| place)
    }

    fn replace(&mut self, place: Range<usize>, part: Option<PackedPart<'_>>) {
        let mut bytes = Vec::new();
        if let Some(part) = part {
            part.put(&mut bytes);
        }
        self.0.splice(place, bytes);
    }
}

impl<'a> FromIterator<PackedPart<'a>> for Packed {
    fn from_iter<T: IntoIterator<Item = PackedPart<'a>>>(parts: T) -> Self {
        let mut bytes = Vec::new();
        parts.into_iter().for_each(|part| part.put(&mut bytes));
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Owned = (u8, Vec<u8>, Vec<u8>, Option<u64>);

    fn part((space, subkey, value, expire_at_ms): &Owned) -> PackedPart<'_> {
        PackedPart { space: *space, subkey, value, expire_at_ms: *expire_at_ms }
    }

    fn owned() -> impl Strategy<Value = Owned> {
        (0..3_u8, vec(0..3_u8, 0..3), any::<Vec<u8>>(), any::<Option<u64>>())
    }

    proptest! {
        /// Compares with a list of parts that is searched.
        #[test]
        fn parts_are_put_found_and_taken_out(steps in vec((owned(), 0..6_u8, 0..8_usize), 0..24)) {
            let (mut packed, mut model) = (Packed::default(), Vec::<Owned>::new());
            for (step, what, index) in steps {
                let place = model.iter().position(|part| (part.0, &part.1) == (step.0, &step.1));
                match what {
                    0..3 => {
                        packed.put(part(&step));
                        match place {
                            Some(place) => model[place] = step,
                            None => model.push(step),
                        }
                    }
                    3 if place.is_none() => {
                        packed.insert(index, part(&step));
                        model.insert(index.min(model.len()), step);
                    }
                    4 => {
                        packed.remove_nth(index);
                        model.drain(index.min(model.len())..(index + 1).min(model.len()));
                    }
                    _ => {
                        let found = place.map(|place| part(&model[place]));
                        prop_assert_eq!(packed.get(step.0, &step.1), found);
                        let passed = &model[..place.map_or(model.len(), |place| place + 1)];
                        let compared = passed.iter().filter(|part| part.1.len() == step.1.len()).count();
                        let search = PackedSearch { found, passed: passed.len(), compared };
                        prop_assert_eq!(PackedSearch::new(packed.as_bytes(), step.0, &step.1), search);
                        prop_assert_eq!(packed.remove(step.0, &step.1), place.map(|place| model.remove(place)).is_some());
                    }
                }
                prop_assert!(packed.iter().eq(model.iter().map(part)));
                prop_assert!(Packed::is_sound(packed.as_bytes()));
                prop_assert_eq!(&model.iter().map(part).collect::<Packed>(), &packed);
            }
            let gone = packed.retain(|part| part.expire_at_ms.is_none());
            let before = model.len();
            model.retain(|part| part.3.is_none());
            prop_assert!(packed.iter().eq(model.iter().map(part)) && gone == before - model.len());
        }

        #[test]
        fn any_bytes_are_parts_or_not_sound(bytes: Vec<u8>) {
            let packed = Packed::of(&bytes);
            let again: Packed = packed.iter().collect();
            prop_assert_eq!(Packed::is_sound(&bytes), again == packed);
        }
    }
}
