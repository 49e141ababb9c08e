//! Values of every type, as Redis' dump files have them; [`super::streams`] has streams.

use std::collections::BTreeSet;

use weir_io::Yield;
use weir_model::parts::StreamShape;

use super::kind::*;
use super::packs::{Open, Pack};
use super::reader::{Reader, Turns};
use super::{Lack, Refusal, push_long_len, push_string, take, take_array, take_bytes_len};
use crate::number::parse_i64;
use crate::room::Room;

/// A node of a quicklist that is a single value.
pub(super) const PLAIN: usize = 1;
/// A node of a quicklist that is a listpack.
pub(super) const PACKED: usize = 2;

/// The last deadline that a field may have, in milliseconds since 1970: Redis keeps 46 bits.
pub const FIELD_DEADLINE_MS_MAX: u64 = (1 << 46) - 1;

/// A field of a hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name.
    pub name: Vec<u8>,
    /// The field's value.
    pub value: Vec<u8>,
    /// The field's deadline, in milliseconds since 1970; `None` = it has none.
    pub expire_at_ms: Option<u64>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// The string's bytes.
    String(Vec<u8>),
    /// The values in order; not empty.
    List(Vec<Vec<u8>>),
    /// Different members; not empty.
    Set(Vec<Vec<u8>>),
    /// Different fields with their values; not empty.
    Hash(Vec<Field>),
    /// Different members with their scores, none of which is NaN; not empty.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// A stream, which may have no entries.
    Stream(Box<StreamShape>),
}

/// The value in `body`, which is a type and the content of a value. All strings in it may have at most `bytes_max`
/// bytes together.
///
/// # Errors
/// `body` is no value, its strings are longer, or it has more than [`super::ELEMENTS_MAX`] elements.
pub async fn load(body: &[u8], bytes_max: usize, yields: Yield) -> Result<Loaded, Refusal> {
    load_in(body, bytes_max, Turns::new(yields)).await.map(|(loaded, _)| loaded)
}

/// The same, in these `turns`, whose room is given back with what the value takes of it.
pub(super) async fn load_in(body: &[u8], bytes_max: usize, turns: Turns) -> Result<(Loaded, Room), Refusal> {
    let (&kind, rest) = body.split_first().ok_or(Refusal::Format)?;
    let mut reader = Reader::new(rest, bytes_max, turns);
    let loaded = match kind {
        STRING => Loaded::String(reader.string().await?),
        LIST => Loaded::List(reader.strings().await?),
        SET => Loaded::Set(reader.strings().await?),
        SET_LISTPACK => Loaded::Set(reader.pack(Pack::listpack).await?),
        HASH => Loaded::Hash(reader.fields().await?),
        HASH_METADATA => Loaded::Hash(reader.mortal_fields().await?),
        HASH_LISTPACK_EX => Loaded::Hash(reader.packed_mortal_fields().await?),
        SORTED_SET | SORTED_SET_2 => Loaded::SortedSet(reader.scores(kind == SORTED_SET_2).await?),
        HASH_ZIPMAP => Loaded::Hash(reader.packed_fields(Pack::zipmap).await?),
        LIST_ZIPLIST => Loaded::List(reader.pack(Pack::ziplist).await?),
        SET_INTSET => Loaded::Set(reader.pack(Pack::intset).await?),
        HASH_ZIPLIST => Loaded::Hash(reader.packed_fields(Pack::ziplist).await?),
        HASH_LISTPACK => Loaded::Hash(reader.packed_fields(Pack::listpack).await?),
        SORTED_SET_ZIPLIST => Loaded::SortedSet(reader.packed_scores(Pack::ziplist).await?),
        SORTED_SET_LISTPACK => Loaded::SortedSet(reader.packed_scores(Pack::listpack).await?),
        QUICKLIST | QUICKLIST_2 => Loaded::List(reader.nodes(kind == QUICKLIST_2).await?),
        STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 => {
            Loaded::Stream(Box::new(reader.stream(kind).await?))
        }
        _ => return Err(Refusal::Format),
    };
    check(&loaded, &mut reader.turns).await?;
    // A string may be followed by anything, which is ignored: it has always been so.
    let is_whole = reader.rest.is_empty() || kind == STRING;
    if is_whole { Ok((loaded, reader.turns.into_room())) } else { Err(Refusal::Format) }
}

/// Refuses a value that is empty, or that has something twice.
async fn check(loaded: &Loaded, turns: &mut Turns) -> Result<(), Refusal> {
    let is_sound = match loaded {
        // A stream is checked as it is read.
        Loaded::String(_) | Loaded::Stream(_) => true,
        Loaded::List(values) => !values.is_empty(),
        Loaded::Set(members) => are_different(members, |member| member, turns).await,
        Loaded::Hash(fields) => are_different(fields, |field| &field.name, turns).await,
        Loaded::SortedSet(scores) => {
            let are_numbers = scores.iter().all(|(_, score)| !score.is_nan());
            are_numbers && are_different(scores, |(member, _)| member, turns).await
        }
    };
    if is_sound { Ok(()) } else { Err(Refusal::Format) }
}

/// Whether there are things, and all of their names are different.
async fn are_different<T>(things: &[T], name: impl Fn(&T) -> &Vec<u8>, turns: &mut Turns) -> bool {
    let mut seen = BTreeSet::new();
    for thing in things {
        turns.end_turn().await;
        if !seen.insert(name(thing)) {
            return false;
        }
    }
    !seen.is_empty()
}

impl Reader<'_> {
    async fn strings(&mut self) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut strings = Vec::new();
        for _ in 0..self.count()? {
            strings.push(self.string().await?);
        }
        Ok(strings)
    }

    async fn fields(&mut self) -> Result<Vec<Field>, Refusal> {
        let mut fields = Vec::new();
        for _ in 0..self.count()? {
            fields.push(Field { name: self.string().await?, value: self.string().await?, expire_at_ms: None });
        }
        Ok(fields)
    }

    async fn packed_fields(&mut self, open: Open) -> Result<Vec<Field>, Refusal> {
        let mut elements = self.pack(open).await?.into_iter();
        let mut fields = Vec::new();
        while let Some(name) = elements.next() {
            self.turns.end_turn().await;
            fields.push(Field { name, value: elements.next().ok_or(Refusal::Format)?, expire_at_ms: None });
        }
        Ok(fields)
    }

    /// Reads the first deadline, which is in front of the fields.
    fn first_deadline(&mut self) -> Result<u64, Refusal> {
        Ok(u64::from_le_bytes(take_array(&mut self.rest)?))
    }

    async fn mortal_fields(&mut self) -> Result<Vec<Field>, Refusal> {
        let first_ms = self.first_deadline()?;
        let mut fields = Vec::new();
        for _ in 0..self.count()? {
            let expire_at_ms = take_deadline(&mut self.rest, first_ms)?;
            fields.push(Field { name: self.string().await?, value: self.string().await?, expire_at_ms });
        }
        check_deadlines(fields)
    }

    async fn packed_mortal_fields(&mut self) -> Result<Vec<Field>, Refusal> {
        self.first_deadline()?;
        let mut elements = self.pack(Pack::listpack).await?.into_iter();
        let mut fields = Vec::new();
        while let Some(name) = elements.next() {
            self.turns.end_turn().await;
            fields.push(mortal_field(name, &mut elements).ok_or(Refusal::Format)?);
        }
        check_deadlines(fields)
    }

    async fn scores(&mut self, is_binary: bool) -> Result<Vec<(Vec<u8>, f64)>, Refusal> {
        let mut scores = Vec::new();
        for _ in 0..self.count()? {
            let member = self.string().await?;
            scores.push((member, take_score(&mut self.rest, is_binary)?));
        }
        Ok(scores)
    }

    async fn packed_scores(&mut self, open: Open) -> Result<Vec<(Vec<u8>, f64)>, Refusal> {
        let mut elements = self.pack(open).await?.into_iter();
        let mut scores = Vec::new();
        while let Some(member) = elements.next() {
            self.turns.end_turn().await;
            let score = elements.next().and_then(|score| text_f64(&score)).ok_or(Refusal::Format)?;
            scores.push((member, score));
        }
        Ok(scores)
    }

    async fn pack(&mut self, open: Open) -> Result<Vec<Vec<u8>>, Refusal> {
        let packed = self.string().await?;
        self.turns.unpack(&packed, open).await
    }

    async fn nodes(&mut self, has_kinds: bool) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut values = Vec::new();
        for _ in 0..self.count()? {
            let kind = if has_kinds { take_bytes_len(&mut self.rest)? } else { 0 };
            match (has_kinds, kind) {
                (false, _) => values.extend(self.pack(Pack::ziplist).await?),
                (true, PLAIN) => values.push(self.string().await?),
                (true, PACKED) => values.extend(self.pack(Pack::listpack).await?),
                _ => return Err(Refusal::Format),
            }
        }
        Ok(values)
    }
}

/// Takes the deadline in front of a field of a hash whose first deadline is `first_ms`, in milliseconds since 1970;
/// `None` if the field has none.
///
/// # Errors
/// There is no deadline, or it is beyond 64 bits.
pub fn take_deadline(rest: &mut &[u8], first_ms: u64) -> Result<Option<u64>, Lack> {
    match take_bytes_len(rest)?.checked_sub(1) {
        None => Ok(None),
        Some(later) => first_ms.checked_add(later as u64).map(Some).ok_or(Lack::Malformed),
    }
}

/// The field `name` of a hash in a pack. Its value and its deadline, which is 0 if it has none, are the next two of
/// `elements`; `None` if they are not.
pub fn mortal_field(name: Vec<u8>, elements: &mut impl Iterator<Item = Vec<u8>>) -> Option<Field> {
    let (value, deadline) = (elements.next()?, elements.next()?);
    let deadline = u64::try_from(parse_i64(&deadline)?).ok()?;
    Some(Field { name, value, expire_at_ms: Some(deadline).filter(|&at_ms| at_ms > 0) })
}

/// Takes a score: 8 bytes, or a text with its length in front.
///
/// # Errors
/// There is none, or it is not a number.
pub fn take_score(rest: &mut &[u8], is_binary: bool) -> Result<f64, Lack> {
    if is_binary {
        return take_array(rest).map(f64::from_le_bytes);
    }
    match take_array(rest)? {
        [253] => Err(Lack::Malformed),
        [254] => Ok(f64::INFINITY),
        [255] => Ok(f64::NEG_INFINITY),
        [len] => text_f64(take(rest, usize::from(len))?).ok_or(Lack::Malformed),
    }
}

/// The score in a pack's element `text`.
pub fn text_f64(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Refuses deadlines that no command could have given.
fn check_deadlines(fields: Vec<Field>) -> Result<Vec<Field>, Refusal> {
    let is_sound = |field: &Field| field.expire_at_ms.is_none_or(|at| (1..=FIELD_DEADLINE_MS_MAX).contains(&at));
    if fields.iter().all(is_sound) { Ok(fields) } else { Err(Refusal::Format) }
}

/// Appends a field of a hash, its name and its value. `first_ms` is the first deadline of the hash's fields, if there
/// is any. `None` if the field has a deadline in front of that, or although there is none: it cannot be written then.
pub(crate) fn push_field(
    out: &mut Vec<u8>,
    first_ms: Option<u64>,
    (name, value): (&[u8], &[u8]),
    expire_at_ms: Option<u64>,
) -> Option<()> {
    match (first_ms, expire_at_ms) {
        (None, None) => {}
        (None, Some(_)) => return None,
        (Some(_), None) => push_long_len(out, 0),
        (Some(first_ms), Some(at_ms)) => push_long_len(out, at_ms.checked_sub(first_ms)?.checked_add(1)?),
    }
    push_string(out, name);
    push_string(out, value);
    Some(())
}
