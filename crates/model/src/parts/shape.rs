//! Rows as wholes, and how each is laid out in parts. A row that is [mapped](Shape::map) and then
//! [reduced](Shape::reduce) is the same row. Commands do not use this module; they read and write part by part. The
//! module describes the layouts that they maintain, and tests compare with it.
//!
//! | row | space 0: subkey → value | space 1 | detail of the head |
//! |---|---|---|---|
//! | hash | field, [placed](super::placed) → value | | |
//! | list | position i64 → value; not the chunks of [`super::list`] | | position of the first value: 8 bytes, as in a subkey |
//! | set | member, placed → nothing | | |
//! | sorted set | member, placed → score, 8 bytes ([`score_value`]) | score f64, member → nothing; 1 if it is -0.0 | |
//! | stream | entry's id → fields | groups; more in spaces 2 to 4 ([`super::stream`]) | ids and numbers |
//!
//! Where the parts stand in the head there are no places, no positions, and nothing of space 1: these follow from the
//! rest. The counts of a large sorted set, in spaces 2 to 12, belong to no shape: they follow from space 1 and from the
//! set's history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::stream_shape::{Parts, StreamShape};
use super::subkey::{put_f64, put_i64, score_of, score_value, take_i64};
use super::{Head, PLACE_BYTES, Packed, PackedPart, RowType, is_placed, placed};

/// A row as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// One value, which stands at the row's key.
    String(Vec<u8>),
    /// Values by field.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Values in order, and the position of the first one.
    List(i64, Vec<Vec<u8>>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// Scores by member. A score is not NaN.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// Entries, and groups of consumers.
    Stream(Box<StreamShape>),
}

/// The layout of a row.
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

fn score(number: f64) -> Vec<u8> {
    score_value(number).expect("a score is not NaN").to_vec()
}

/// Subkey and value in the order by score.
///
/// # Panics
/// If the score is NaN.
pub fn scored(number: f64, member: &[u8]) -> (Vec<u8>, &'static [u8]) {
    let mut subkey = Vec::with_capacity(8 + member.len());
    put_f64(&mut subkey, number).expect("a score is not NaN");
    subkey.extend_from_slice(member);
    (subkey, if number == 0.0 && number.is_sign_negative() { &NEGATIVE_ZERO } else { &[] })
}

/// The value beside a score that is -0.0.
const NEGATIVE_ZERO: [u8; 1] = [1];

/// Decodes all of `bytes` with `take`.
fn whole<T>(mut bytes: &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Result<T, NotARow> {
    take(&mut bytes).filter(|_| bytes.is_empty()).ok_or(NotARow)
}

/// The first position of a list as its head has it, as an index.
fn first_of(detail: &[u8]) -> Result<i64, NotARow> {
    whole(detail, take_i64)
}

/// The parts of space 1 that follow from those of space 0.
fn by_score(kind: RowType, parts: &Parts) -> Parts {
    let members = parts.iter().filter(|_| kind == RowType::SortedSet);
    let parts = members.filter_map(|(_, member, value)| {
        let (subkey, beside) = scored(score_of(value)?, member);
        Some((1, subkey, beside.to_vec()))
    });
    parts.collect()
}

impl Shape {
    /// The type of the row, the detail of its head, and its parts of space 0 without places; `None` for a string.
    fn parts(&self) -> Option<(RowType, Vec<u8>, Parts)> {
        Some(match self {
            Shape::String(_) => return None,
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
                let parts = scores.iter().map(|(member, &number)| (0, member.clone(), score(number)));
                (RowType::SortedSet, Vec::new(), parts.collect())
            }
            Shape::Stream(stream) => (RowType::Stream, stream.detail().encode(), stream.parts()),
        })
    }

    /// Lays the row out as the life `version`: in its head if it `is_packed`, else in parts with keys of their own.
    ///
    /// # Panics
    /// If a score is NaN, or a list goes beyond the last position.
    pub fn map(&self, version: u64, is_packed: bool) -> Mapped {
        let Some((kind, detail, mut parts)) = self.parts() else {
            let Shape::String(value) = self else { unreachable!("only strings have no parts") };
            return Mapped::Value(value.clone());
        };
        let count = parts.iter().filter(|(space, ..)| *space == 0).count() as u64;
        let bytes = parts.iter().map(|(_, subkey, value)| (subkey.len() + value.len()) as u64).sum();
        let mut head = Head { kind, version, count, bytes, detail, packed: None };
        if is_packed {
            let packed = parts.iter().map(|(space, subkey, value)| PackedPart {
                space: *space,
                subkey: if kind == RowType::List { &[] } else { subkey },
                value,
                expire_at_ms: None,
            });
            head.packed = Some(packed.collect());
            return Mapped::Parts(head, Vec::new());
        }
        let derived = by_score(kind, &parts);
        if is_placed(kind) {
            parts.iter_mut().for_each(|(_, subkey, _)| *subkey = placed(version, subkey));
        }
        parts.extend(derived);
        parts.sort_unstable();
        Mapped::Parts(head, parts)
    }

    /// The row of which `mapped` is the layout.
    ///
    /// # Errors
    /// If there is no such row.
    pub fn reduce(mapped: &Mapped) -> Result<Self, NotARow> {
        let (head, spread) = match mapped {
            Mapped::Value(value) => return Ok(Shape::String(value.clone())),
            Mapped::Parts(head, parts) => (head, parts),
        };
        if head.kind == RowType::Stream {
            let parts: Parts = match &head.packed {
                Some(packed) => packed.iter().map(|part| (part.space, part.subkey.into(), part.value.into())).collect(),
                None => spread.clone(),
            };
            let shape = Shape::Stream(Box::new(StreamShape::of(&head.detail, &parts).ok_or(NotARow)?));
            return if shape.map(head.version, head.packed.is_some()) == *mapped { Ok(shape) } else { Err(NotARow) };
        }
        let mut parts: Vec<(Vec<u8>, Vec<u8>)> = match &head.packed {
            Some(packed) => packed.iter().map(|part| (part.subkey.to_vec(), part.value.to_vec())).collect(),
            None => {
                let of_space_0 = spread.iter().filter(|(space, ..)| *space == 0);
                of_space_0.map(|(_, subkey, value)| (subkey.clone(), value.clone())).collect()
            }
        };
        if head.packed.is_none() && is_placed(head.kind) {
            for (subkey, _) in &mut parts {
                subkey.splice(..PLACE_BYTES.min(subkey.len()), []);
            }
        }
        let shape = match head.kind {
            RowType::Hash => Shape::Hash(parts.into_iter().collect()),
            RowType::List => Shape::List(first_of(&head.detail)?, parts.into_iter().map(|(_, value)| value).collect()),
            RowType::Set => Shape::Set(parts.into_iter().map(|(member, _)| member).collect()),
            RowType::SortedSet => {
                let scores = parts.into_iter().map(|(member, value)| Ok((member, score_of(&value).ok_or(NotARow)?)));
                Shape::SortedSet(scores.collect::<Result<_, NotARow>>()?)
            }
            RowType::Stream => unreachable!("a stream was reduced above"),
        };
        // Places, positions, orders and counts follow from the rest: if they do not, this was no row. Packed parts may
        // stand in any order.
        let mut again = shape.map(head.version, head.packed.is_some());
        let mut given = mapped.clone();
        for mapped in [&mut again, &mut given] {
            if let Mapped::Parts(Head { packed: Some(packed), kind, .. }, _) = mapped
                && *kind != RowType::List
            {
                let before = packed.clone();
                let mut parts: Vec<PackedPart<'_>> = before.iter().collect();
                parts.sort_unstable_by_key(|part| (part.space, part.subkey));
                *packed = parts.into_iter().collect::<Packed>();
            }
        }
        if again == given { Ok(shape) } else { Err(NotARow) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::stream::{EntryId, PendingValue};
    use crate::parts::{GroupShape, Life, Part, VERSION_MAX};
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..5)
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![Just(-0.0), any::<f64>().prop_filter("ordered", |n| !n.is_nan())]
    }

    fn shape() -> impl Strategy<Value = Shape> {
        let id = || (0..3_u64, 0..4_u64).prop_map(|(ms, seq)| EntryId { ms, seq });
        let pending = |consumers: Vec<Vec<u8>>| {
            let one = (0..3_u64, 0..4_u64, proptest::sample::select(consumers));
            one.prop_map(|(delivered_ms, deliveries, consumer)| PendingValue { delivered_ms, deliveries, consumer })
        };
        let group = btree_map(word(), 0..9_u64, 1..4).prop_flat_map(move |consumers| {
            let pending = btree_map(id(), pending(consumers.keys().cloned().collect()), 0..5);
            (id(), any::<Option<u32>>(), pending).prop_map(move |(delivered, read, pending)| GroupShape {
                delivered,
                read: read.map(u64::from),
                consumers: consumers.clone(),
                pending,
            })
        });
        let entries = btree_map(id(), vec((word(), word()), 0..4), 0..8).prop_map(|entries| {
            let flat = |words: Vec<(Vec<u8>, Vec<u8>)>| words.into_iter().flat_map(|(a, b)| [a, b]).collect();
            entries.into_iter().map(|(id, words)| (id, flat(words))).collect()
        });
        let stream = (entries, id(), id(), any::<u64>(), btree_map(word(), group, 0..3)).prop_map(
            |(entries, last, max_deleted, added, groups)| {
                Shape::Stream(Box::new(StreamShape { entries, last, max_deleted, added, groups }))
            },
        );
        prop_oneof![
            word().prop_map(Shape::String),
            btree_map(word(), word(), 0..8).prop_map(Shape::Hash),
            (-1000..1000_i64, vec(word(), 0..8)).prop_map(|(first, values)| Shape::List(first, values)),
            btree_set(word(), 0..8).prop_map(Shape::Set),
            btree_map(word(), number(), 0..8).prop_map(Shape::SortedSet),
            stream,
        ]
    }

    proptest! {
        #[test]
        fn what_is_mapped_and_reduced_is_the_same(shape in shape(), version in 1..=VERSION_MAX, is_packed: bool) {
            prop_assert_eq!(Shape::reduce(&shape.map(version, is_packed)), Ok(shape));
        }

        /// The round trip goes through the bytes of head and keys, in the order of the keys, as a tree has them.
        #[test]
        fn a_row_comes_back_from_its_stored_bytes(shape in shape(), version in 1..=VERSION_MAX, is_packed: bool) {
            let mapped = shape.map(version, is_packed);
            let Mapped::Parts(head, parts) = mapped else { return Ok(()) };
            let life = Life::new(version);
            let mut stored: Vec<_> =
                parts.iter().map(|(space, subkey, value)| (life.part(*space, subkey), value.clone())).collect();
            prop_assert!(stored.is_sorted(), "parts are in the order of their keys");
            stored.sort();
            let parts = stored.iter().map(|(key, value)| {
                let part = Part::parse(key).expect("own keys parse");
                assert_eq!(part.version, version);
                (part.space, part.subkey.to_vec(), value.clone())
            });
            let head = Head::decode(&head.encode()).expect("own bytes decode");
            prop_assert_eq!(Shape::reduce(&Mapped::Parts(head, parts.collect())), Ok(shape));
        }

        #[test]
        fn a_row_without_one_of_its_parts_is_none(
            shape in shape(), lost: proptest::sample::Index, is_packed: bool
        ) {
            let Mapped::Parts(mut head, mut parts) = shape.map(1, is_packed) else { return Ok(()) };
            let parts_len = head.packed.as_ref().map_or(parts.len(), |packed| packed.iter().count());
            if parts_len == 0 {
                return Ok(());
            }
            match &mut head.packed {
                Some(packed) => packed.remove_nth(lost.index(parts_len)),
                None => drop(parts.remove(lost.index(parts.len()))),
            }
            prop_assert_eq!(Shape::reduce(&Mapped::Parts(head, parts)), Err(NotARow));
        }
    }
}
