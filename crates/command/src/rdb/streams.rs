//! Streams as Redis' dump files have them: nodes of entries, each of which is a listpack behind the id that the ids in
//! it are relative to; then numbers; then groups with their pending entries.
//!
//! ```text
//! node   := id 16 bytes, big-endian | listpack
//! first elements of a listpack := entries | deleted entries | number of fields | fields… | 0
//! entry  := flags | ms - node's ms | number - node's number | (number of fields)? | words… | elements of this entry
//! flags  := 1 it is deleted | 2 its fields are those of the node, and its words are only values
//! ```

use std::collections::BTreeMap;

use weir_model::parts::stream::{ConsumerValue, EntryId, GroupValue, PendingValue, StreamDetail};
use weir_model::parts::{GroupShape, StreamShape};

use super::kind::{STREAM_LISTPACKS, STREAM_LISTPACKS_3};
use super::packs::{Listpack, Pack};
use super::reader::{Reader, Turns};
use super::{Lack, Refusal, push_long_len, push_string, take, take_array, take_bytes_len};
use crate::number::parse_i64;
use crate::stream_lag::added_up_to;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Most entries and bytes of a node that Weir writes: as many as Redis puts into one.
const NODE_ENTRIES: usize = 100;
const NODE_BYTES: usize = 4096;

/// What a word takes in a listpack at least, beside its bytes.
const WORD_BYTES: usize = 2;

/// How many elements an entry has beside its words and their number: flags, and two differences.
const ENTRY_ELEMENTS: usize = 3;

type Words = Vec<Vec<u8>>;

/// An entry of a node that is to be written: its id and its words.
pub(crate) type NodeEntry<'w> = (EntryId, Vec<&'w [u8]>);

/// Cuts the entries of a stream, in order, into nodes.
#[derive(Default)]
pub(crate) struct NodeCut {
    entries: usize,
    bytes: usize,
}

impl NodeCut {
    /// Counts the next entry, which has `bytes` bytes; gives whether a node begins with it.
    pub(crate) fn begins(&mut self, bytes: usize) -> bool {
        let is_full = self.entries == NODE_ENTRIES || self.bytes.saturating_add(bytes) > NODE_BYTES;
        let begins = self.entries == 0 || is_full;
        if begins {
            *self = Self::default();
        }
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        begins
    }
}

fn id_bytes(id: EntryId) -> Vec<u8> {
    [id.ms.to_be_bytes(), id.seq.to_be_bytes()].concat()
}

fn push_id(out: &mut Vec<u8>, id: EntryId) {
    push_long_len(out, id.ms);
    push_long_len(out, id.seq);
}

/// Appends an id as 16 bytes.
pub(crate) fn push_raw_id(out: &mut Vec<u8>, id: EntryId) {
    out.extend_from_slice(&id_bytes(id));
}

fn fields<'w>(words: &'w [&'w [u8]]) -> impl Iterator<Item = &'w [u8]> {
    words.iter().copied().step_by(2)
}

/// The listpack of a node with `entries`, of which there has to be at least one.
fn node(entries: &[NodeEntry<'_>]) -> Vec<u8> {
    let (first, master) = &entries[0];
    let mut pack = Listpack::default();
    pack.number(entries.len() as i64);
    pack.number(0);
    pack.number(master.len() as i64 / 2);
    fields(master).for_each(|field| pack.string(field));
    pack.number(0);
    for (id, words) in entries {
        let is_same = fields(words).eq(fields(master));
        pack.number(if is_same { SAME_FIELDS } else { 0 });
        // As C does it, even if the number goes down with a new millisecond.
        pack.number(id.ms.wrapping_sub(first.ms) as i64);
        pack.number(id.seq.wrapping_sub(first.seq) as i64);
        let elements = if is_same {
            words.iter().skip(1).step_by(2).for_each(|value| pack.string(value));
            ENTRY_ELEMENTS + words.len() / 2
        } else {
            pack.number(words.len() as i64 / 2);
            words.iter().for_each(|word| pack.string(word));
            ENTRY_ELEMENTS + 1 + words.len()
        };
        pack.number(elements as i64);
    }
    pack.end()
}

/// Appends a node with `entries`, of which there has to be at least one. How many nodes there are comes in front of the
/// first.
pub(crate) fn push_node(out: &mut Vec<u8>, entries: &[NodeEntry<'_>]) {
    push_string(out, &id_bytes(entries[0].0));
    push_string(out, &node(entries));
}

/// Appends what stands between the nodes and the groups: the numbers of a stream of `len` entries, and how many groups
/// follow.
pub(crate) fn push_detail(out: &mut Vec<u8>, len: u64, detail: &StreamDetail) {
    push_long_len(out, len);
    [detail.last, detail.first, detail.max_deleted].into_iter().for_each(|id| push_id(out, id));
    push_long_len(out, detail.added);
    push_long_len(out, detail.groups);
}

/// Appends a group up to its pending entries. They follow, and then the number of its consumers, and the consumers.
pub(crate) fn push_group(out: &mut Vec<u8>, name: &[u8], group: &GroupValue) {
    push_string(out, name);
    push_id(out, group.delivered);
    push_long_len(out, group.read.unwrap_or(u64::MAX));
    push_long_len(out, group.pending);
}

/// Appends a pending entry of a group.
pub(crate) fn push_pending(out: &mut Vec<u8>, id: EntryId, pending: &PendingValue) {
    push_raw_id(out, id);
    out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
    push_long_len(out, pending.deliveries);
}

/// Appends a consumer up to the ids of its pending entries, which follow.
pub(crate) fn push_consumer(out: &mut Vec<u8>, name: &[u8], consumer: &ConsumerValue) {
    push_string(out, name);
    out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
    push_long_len(out, consumer.pending);
}

fn detail(stream: &StreamShape) -> StreamDetail {
    StreamDetail {
        first: stream.entries.keys().next().copied().unwrap_or_default(),
        last: stream.last,
        max_deleted: stream.max_deleted,
        added: stream.added,
        groups: stream.groups.len() as u64,
    }
}

/// The id in 16 bytes.
pub fn id_of(bytes: &[u8]) -> Option<EntryId> {
    let (ms, seq) = bytes.split_first_chunk()?;
    Some(EntryId::new(u64::from_be_bytes(*ms), u64::from_be_bytes(seq.try_into().ok()?)))
}

/// The elements of a listpack, one after the other.
struct Elements(std::vec::IntoIter<Vec<u8>>);

impl Elements {
    fn word(&mut self) -> Result<Vec<u8>, Refusal> {
        self.0.next().ok_or(Refusal::Format)
    }

    fn number(&mut self) -> Result<i64, Refusal> {
        parse_i64(&self.word()?).ok_or(Refusal::Format)
    }

    /// Takes `count` words. A node that announces more words than it has gets no memory for them.
    fn words(&mut self, count: i64) -> Result<Words, Refusal> {
        let count = usize::try_from(count).ok().filter(|&count| count <= self.0.len()).ok_or(Refusal::Format)?;
        (0..count).map(|_| self.word()).collect()
    }
}

/// The `values` of an entry behind the fields of its node. The fields are copied, so they are taken out of `left` as if
/// they were written in each entry: a short node may have long fields and many entries.
fn with_fields(fields: &Words, values: Words, left: &mut usize) -> Result<Words, Refusal> {
    let bytes = fields.iter().map(|field| field.len() + WORD_BYTES).sum();
    *left = left.checked_sub(bytes).ok_or(Refusal::TooLong)?;
    Ok(fields.iter().cloned().zip(values).flat_map(|(field, value)| [field, value]).collect())
}

/// Adds the entries of a node to `entries`, and takes what they have beyond `pack` out of `left`.
///
/// # Errors
/// `pack` is no node, or its entries do not come behind those that are there; or not as much is left.
pub async fn take_node(
    first: EntryId,
    pack: &[u8],
    left: &mut usize,
    entries: &mut BTreeMap<EntryId, Vec<Vec<u8>>>,
    turns: &mut Turns,
) -> Result<(), Refusal> {
    let mut elements = Elements(turns.unpack(pack, Pack::listpack).await?.into_iter());
    let (living, deleted, count) = (elements.number()?, elements.number()?, elements.number()?);
    let master = elements.words(count)?;
    if elements.number()? != 0 {
        return Err(Refusal::Format);
    }
    let (mut met, mut met_deleted) = (0, 0);
    while elements.0.len() > 0 {
        turns.end_turn().await;
        let flags = elements.number()?;
        let ms = first.ms.wrapping_add(elements.number()? as u64);
        let seq = first.seq.wrapping_add(elements.number()? as u64);
        let is_deleted = flags & DELETED != 0;
        let words = if flags & SAME_FIELDS != 0 {
            let values = elements.words(count)?;
            if is_deleted { values } else { with_fields(&master, values, left)? }
        } else {
            let count = elements.number()?;
            elements.words(count.checked_mul(2).ok_or(Refusal::Format)?)?
        };
        // The number of elements of the entry, for readers that go backwards.
        elements.number()?;
        if is_deleted {
            met_deleted += 1;
            continue;
        }
        met += 1;
        let id = EntryId::new(ms, seq);
        let is_behind = entries.last_key_value().is_none_or(|(last, _)| *last < id);
        if !is_behind || id == EntryId::MIN || words.is_empty() {
            return Err(Refusal::Format);
        }
        entries.insert(id, words);
    }
    if met == living && met_deleted == deleted { Ok(()) } else { Err(Refusal::Format) }
}

/// Takes an id that is written as two numbers.
///
/// # Errors
/// There is no id.
pub fn take_id(rest: &mut &[u8]) -> Result<EntryId, Lack> {
    Ok(EntryId::new(take_bytes_len(rest)? as u64, take_bytes_len(rest)? as u64))
}

/// Takes an id that is written as 16 bytes.
///
/// # Errors
/// There is no id.
pub fn take_raw_id(rest: &mut &[u8]) -> Result<EntryId, Lack> {
    id_of(take(rest, 16)?).ok_or(Lack::Malformed)
}

/// Takes milliseconds since 1970.
///
/// # Errors
/// There is no time.
pub fn take_ms(rest: &mut &[u8]) -> Result<u64, Lack> {
    take_array(rest).map(u64::from_le_bytes)
}

impl Reader<'_> {
    fn long(&mut self) -> Result<u64, Refusal> {
        Ok(take_bytes_len(&mut self.rest)? as u64)
    }

    fn id(&mut self) -> Result<EntryId, Refusal> {
        Ok(take_id(&mut self.rest)?)
    }

    fn raw_id(&mut self) -> Result<EntryId, Refusal> {
        Ok(take_raw_id(&mut self.rest)?)
    }

    /// A stream, whose type is `kind`.
    pub(super) async fn stream(&mut self, kind: u8) -> Result<StreamShape, Refusal> {
        let has_counters = kind != STREAM_LISTPACKS;
        let mut stream = StreamShape::default();
        for _ in 0..self.count()? {
            let first = id_of(&self.string().await?).ok_or(Refusal::Format)?;
            let pack = self.string().await?;
            take_node(first, &pack, &mut self.left, &mut stream.entries, &mut self.turns).await?;
        }
        let len = self.long()?;
        stream.last = self.id()?;
        let behind = stream.entries.last_key_value().is_some_and(|(last, _)| *last > stream.last);
        if len != stream.entries.len() as u64 || behind {
            return Err(Refusal::Format);
        }
        stream.added = len;
        if has_counters {
            // The first entry's id, which is known.
            self.id()?;
            stream.max_deleted = self.id()?;
            stream.added = self.long()?;
        }
        let detail = detail(&stream);
        for _ in 0..self.count()? {
            let name = self.string().await?;
            let mut group = self.group(kind).await?;
            if !has_counters {
                group.read = added_up_to(&detail, len, group.delivered);
            }
            if stream.groups.insert(name, group).is_some() {
                return Err(Refusal::Format);
            }
        }
        Ok(stream)
    }

    async fn group(&mut self, kind: u8) -> Result<GroupShape, Refusal> {
        let mut group = GroupShape { delivered: self.id()?, ..GroupShape::default() };
        if kind != STREAM_LISTPACKS {
            group.read = Some(self.long()?).filter(|&read| read != u64::MAX);
        }
        let mut unowned = BTreeMap::new();
        for _ in 0..self.count()? {
            self.turns.end_turn().await;
            let (id, delivered_ms) = (self.raw_id()?, take_ms(&mut self.rest)?);
            let pending = PendingValue { delivered_ms, deliveries: self.long()?, consumer: Vec::new() };
            if unowned.insert(id, pending).is_some() {
                return Err(Refusal::Format);
            }
        }
        for _ in 0..self.count()? {
            let (consumer, seen_ms) = (self.string().await?, take_ms(&mut self.rest)?);
            if kind == STREAM_LISTPACKS_3 {
                // The time at which the consumer last got something is not kept.
                take_ms(&mut self.rest)?;
            }
            for _ in 0..self.count()? {
                self.turns.end_turn().await;
                // Each of the consumer's entries gets a copy of the name.
                self.left = self.left.checked_sub(consumer.len()).ok_or(Refusal::TooLong)?;
                let id = self.raw_id()?;
                let pending = unowned.remove(&id).ok_or(Refusal::Format)?;
                group.pending.insert(id, PendingValue { consumer: consumer.clone(), ..pending });
            }
            if group.consumers.insert(consumer, seen_ms).is_some() {
                return Err(Refusal::Format);
            }
        }
        if unowned.is_empty() { Ok(group) } else { Err(Refusal::Format) }
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Yield;

    use super::super::{Loaded, load};
    use super::*;
    use crate::polled::turns;

    const BYTES_MAX: usize = 32 << 20;

    fn loaded(body: &[u8]) -> Result<Loaded, Refusal> {
        turns(load(body, BYTES_MAX, Yield::PLAIN)).1
    }

    /// A stream of one node, whose entries all have its one field.
    fn of_same_fields(field: &[u8], entries: i64, flags: i64) -> Vec<u8> {
        let (living, deleted) = if flags & DELETED == 0 { (entries, 0) } else { (0, entries) };
        let mut pack = Listpack::default();
        pack.number(living);
        pack.number(deleted);
        pack.number(1);
        pack.string(field);
        pack.number(0);
        for entry in 0..entries {
            pack.number(flags);
            pack.number(entry);
            pack.number(0);
            pack.string(b"v");
            pack.number(ENTRY_ELEMENTS as i64 + 1);
        }
        let mut body = vec![STREAM_LISTPACKS];
        push_long_len(&mut body, 1);
        push_string(&mut body, &id_bytes(EntryId::new(1, 0)));
        push_string(&mut body, &pack.end());
        push_long_len(&mut body, living as u64);
        push_id(&mut body, EntryId::new(entries as u64, 0));
        push_long_len(&mut body, 0);
        body
    }

    #[test]
    fn fields_that_many_entries_share_count_in_each_of_them() {
        let long = vec![b'f'; 1 << 20];
        assert_eq!(loaded(&of_same_fields(&long, 10_000, SAME_FIELDS)).err(), Some(Refusal::TooLong));
        assert!(loaded(&of_same_fields(&long, 30, SAME_FIELDS)).is_ok());
        assert!(loaded(&of_same_fields(b"f", 10_000, SAME_FIELDS)).is_ok());
        assert!(loaded(&of_same_fields(&long, 10_000, SAME_FIELDS | DELETED)).is_ok(), "nothing is kept of these");
    }

    /// Redis 5 and 6 do not write how many entries a group has read.
    #[test]
    fn what_a_group_of_an_old_stream_has_read_follows_from_its_last_entry() {
        let mut body = of_same_fields(b"f", 3, SAME_FIELDS);
        // The last number is that of the groups.
        body.pop();
        push_long_len(&mut body, 4);
        for delivered in 0..4 {
            push_string(&mut body, format!("group-{delivered}").as_bytes());
            push_id(&mut body, EntryId::new(delivered, 0));
            // Nothing is pending, and there are no consumers.
            body.extend([0, 0]);
        }
        let Ok(Loaded::Stream(stream)) = loaded(&body) else { panic!("no stream") };
        let read: Vec<_> = stream.groups.values().map(|group| group.read).collect();
        assert_eq!(read, [Some(0), Some(1), None, Some(3)]);
    }
}
