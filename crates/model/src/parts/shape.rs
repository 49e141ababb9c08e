//! Rows as wholes, and how each is laid out in parts. A row that is [mapped](Shape::map) and
//! [reduced](Shape::reduce) is the same row. Commands do not do this, they read and write part by part: it is the
//! description of the layouts that they keep, and what tests compare with.
//!
//! | row | space 0: subkey → value | space 1 | detail of the head |
//! |---|---|---|---|
//! | hash | field → value | | |
//! | list | position i64 → value | | position of the first value: 8 bytes, as in a subkey |
//! | set | member → nothing | | |
//! | sorted set | member → score, 8 bytes as in a subkey | score f64, member → nothing | |
//! | stream | milliseconds u64, number u64 → fields | | last entry: 16 bytes, as in a subkey |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::subkey::{put_f64, put_i64, put_u64, take_f64, take_i64, take_u64};
use super::{Head, RowType};
use crate::varint;

/// A row as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// One value, which stands at the row's key.
    String(Vec<u8>),
    /// Values by field.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Values in order, the first at a position.
    List(i64, Vec<Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Scores by member. A score is not NaN.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// Entries by time and number, each with fields and values in the order given; and the last entry there ever was.
    Stream(BTreeMap<EntryId, Fields>, EntryId),
}

/// Milliseconds since 1970, and a number that tells entries of the same millisecond apart.
type EntryId = (u64, u64);

/// Fields and their values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// What a row is laid out as.
#[derive(Clone, Debug, PartialEq)]
pub enum Mapped {
    /// A value at the row's key, without parts.
    Value(Vec<u8>),
    /// A head, and parts in the order of their keys: space, subkey, value.
    Parts(Head, Vec<(u8, Vec<u8>, Vec<u8>)>),
}

/// A head and parts that do not make up a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotARow;

impl fmt::Display for NotARow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the head and the parts do not make up a row")
    }
}

impl std::error::Error for NotARow {}

fn position(index: i64) -> Vec<u8> {
    let mut out = Vec::new();
    put_i64(&mut out, index);
    out
}

fn entry_id((milliseconds, number): EntryId) -> Vec<u8> {
    let mut out = Vec::new();
    put_u64(&mut out, milliseconds);
    put_u64(&mut out, number);
    out
}

fn score(number: f64) -> Vec<u8> {
    let mut out = Vec::new();
    put_f64(&mut out, number).expect("a score is not NaN");
    out
}

/// The whole of `bytes` as what `take` takes.
fn whole<T>(mut bytes: &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Result<T, NotARow> {
    take(&mut bytes).filter(|_| bytes.is_empty()).ok_or(NotARow)
}

fn take_entry_id(bytes: &mut &[u8]) -> Option<EntryId> {
    Some((take_u64(bytes)?, take_u64(bytes)?))
}

/// `fields := (field_len varint | field | value_len varint | value)*`
fn put_fields(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in fields.iter().flat_map(|(field, value)| [field, value]) {
        varint::put(&mut out, word.len() as u64);
        out.extend_from_slice(word);
    }
    out
}

fn take_fields(mut bytes: &[u8]) -> Result<Fields, NotARow> {
    let mut fields = Fields::new();
    while !bytes.is_empty() {
        let mut word = || varint::take_slice(&mut bytes).map(<[u8]>::to_vec).ok_or(NotARow);
        fields.push((word()?, word()?));
    }
    Ok(fields)
}

impl Shape {
    /// Lays it out as the life `version` of its row.
    ///
    /// # Panics
    /// If a score is NaN, or a list goes beyond the last position.
    pub fn map(&self, version: u64) -> Mapped {
        type Parts = Vec<(u8, Vec<u8>, Vec<u8>)>;
        let (kind, detail, mut parts): (_, _, Parts) = match self {
            Shape::String(value) => return Mapped::Value(value.clone()),
            Shape::Hash(fields) => {
                let parts = fields.iter().map(|(field, value)| (0, field.clone(), value.clone()));
                (RowType::Hash, Vec::new(), parts.collect())
            }
            Shape::List(first, values) => {
                let parts = (*first..).zip(values).map(|(index, value)| (0, position(index), value.clone()));
                (RowType::List, position(*first), parts.collect())
            }
            Shape::Set(members) => {
                let parts = members.iter().map(|member| (0, member.clone(), Vec::new()));
                (RowType::Set, Vec::new(), parts.collect())
            }
            Shape::SortedSet(scores) => {
                let parts = scores.iter().flat_map(|(member, &number)| {
                    let by_score = [&score(number)[..], member].concat();
                    [(0, member.clone(), score(number)), (1, by_score, Vec::new())]
                });
                (RowType::SortedSet, Vec::new(), parts.collect())
            }
            Shape::Stream(entries, last) => {
                let parts = entries.iter().map(|(&id, fields)| (0, entry_id(id), put_fields(fields)));
                (RowType::Stream, entry_id(*last), parts.collect())
            }
        };
        parts.sort_unstable();
        let of_space_0 = || parts.iter().filter(|(space, ..)| *space == 0);
        let count = of_space_0().count() as u64;
        let bytes = of_space_0().map(|(_, subkey, value)| (subkey.len() + value.len()) as u64).sum();
        Mapped::Parts(Head { kind, version, count, bytes, detail }, parts)
    }

    /// The row that was laid out.
    ///
    /// # Errors
    /// There is no such row.
    pub fn reduce(mapped: &Mapped) -> Result<Self, NotARow> {
        let (head, parts) = match mapped {
            Mapped::Value(value) => return Ok(Shape::String(value.clone())),
            Mapped::Parts(head, parts) => (head, parts),
        };
        let of_space_0 = || parts.iter().filter(|(space, ..)| *space == 0).map(|(_, subkey, value)| (subkey, value));
        let shape = match head.kind {
            RowType::Hash => Shape::Hash(of_space_0().map(|(field, value)| (field.clone(), value.clone())).collect()),
            RowType::List => {
                Shape::List(whole(&head.detail, take_i64)?, of_space_0().map(|(_, value)| value.clone()).collect())
            }
            RowType::Set => Shape::Set(of_space_0().map(|(member, _)| member.clone()).collect()),
            RowType::SortedSet => {
                let scores = of_space_0().map(|(member, value)| Ok((member.clone(), whole(value, take_f64)?)));
                Shape::SortedSet(scores.collect::<Result<_, NotARow>>()?)
            }
            RowType::Stream => {
                let entries = of_space_0().map(|(id, value)| Ok((whole(id, take_entry_id)?, take_fields(value)?)));
                Shape::Stream(entries.collect::<Result<_, NotARow>>()?, whole(&head.detail, take_entry_id)?)
            }
        };
        // Positions, orders and counts follow from the rest: where they do not, it was no row.
        if shape.map(head.version) == *mapped { Ok(shape) } else { Err(NotARow) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoredKey;
    use crate::parts::{Life, Part, VERSION_MAX};
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..5)
    }

    fn number() -> impl Strategy<Value = f64> {
        // -0.0 is stored as 0.0.
        any::<f64>().prop_filter("ordered", |n| !n.is_nan()).prop_map(|n| n + 0.0)
    }

    fn shape() -> impl Strategy<Value = Shape> {
        let id = || (0..3_u64, any::<u64>());
        prop_oneof![
            word().prop_map(Shape::String),
            btree_map(word(), word(), 0..8).prop_map(Shape::Hash),
            (-1000..1000_i64, vec(word(), 0..8)).prop_map(|(first, values)| Shape::List(first, values)),
            btree_set(word(), 0..8).prop_map(Shape::Set),
            btree_map(word(), number(), 0..8).prop_map(Shape::SortedSet),
            (btree_map(id(), vec((word(), word()), 0..4), 0..8), id())
                .prop_map(|(entries, last)| Shape::Stream(entries, last)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_mapped_and_reduced_is_the_same(shape in shape(), version in 1..=VERSION_MAX) {
            prop_assert_eq!(Shape::reduce(&shape.map(version)), Ok(shape));
        }

        /// Through the bytes of head and keys, as a tree has them: in the order of the keys.
        #[test]
        fn a_row_comes_back_from_its_stored_bytes(shape in shape(), row in word(), version in 1..=VERSION_MAX) {
            let mapped = shape.map(version);
            let Mapped::Parts(head, parts) = mapped else { return Ok(()) };
            let life = Life::new(&StoredKey::new(3, &row), version);
            let mut stored: Vec<_> =
                parts.iter().map(|(space, subkey, value)| (life.part(*space, subkey), value.clone())).collect();
            prop_assert!(stored.is_sorted(), "parts are in the order of their keys");
            stored.sort();
            let parts = stored.iter().map(|(key, value)| {
                let part = Part::parse(key).expect("own keys parse");
                assert_eq!((part.database, part.row(), part.version), (3, row.clone(), version));
                (part.space, part.subkey.to_vec(), value.clone())
            });
            let head = Head::decode(&head.encode()).expect("own bytes decode");
            prop_assert_eq!(Shape::reduce(&Mapped::Parts(head, parts.collect())), Ok(shape));
        }

        #[test]
        fn a_row_without_one_of_its_parts_is_none(shape in shape(), lost: proptest::sample::Index) {
            if let Mapped::Parts(head, mut parts) = shape.map(1)
                && !parts.is_empty()
            {
                parts.remove(lost.index(parts.len()));
                prop_assert_eq!(Shape::reduce(&Mapped::Parts(head, parts)), Err(NotARow));
            }
        }
    }
}
