//! Cuts a value that is too large for one request into parts.

use std::collections::BTreeMap;

use weir_command::rdb::packs::{intset, listpack, ziplist, zipmap};
use weir_command::rdb::streams::{id_of, take_id, take_ms, take_node, take_raw_id};
use weir_command::rdb::{
    Field, Refusal, Turns, kind, mortal_field, take_bytes_len, take_deadline, take_score, text_f64,
};
use weir_command::stream_lag::added_up_to;
use weir_io::Yield;
use weir_model::parts::stream::{EntryId, PendingValue, StreamDetail};

use super::input::{Bytes, Input};
use crate::failure::Result;

/// Bytes of a part, about: a part that is a single piece of the file may have more.
const PART_BYTES: usize = 256 << 10;
/// Most elements of a part.
const PART_ELEMENTS: usize = 1000;
/// Bytes of a pack, and of the entries in a node, that are read whatever the longest string is: that limit is about
/// their elements.
const PACK_BYTES_MAX: usize = 16 << 20;
/// Pending entries of one group that are kept until their consumers come, with 32 bytes each.
const PENDING_MAX: usize = 2_000_000;

/// A part of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The next values of a list.
    Values(Vec<Vec<u8>>),
    /// Members of a set.
    Members(Vec<Vec<u8>>),
    /// Fields of a hash.
    Fields(Vec<Field>),
    /// Members of a sorted set, each with its score.
    Scores(Vec<(Vec<u8>, f64)>),
    /// The next entries of a stream.
    Entries(BTreeMap<EntryId, Vec<Vec<u8>>>),
    /// The counts of a stream, behind all its entries.
    Counts {
        /// The last entry that there ever was.
        last: EntryId,
        /// How many entries there ever were.
        added: u64,
        /// The largest entry that was deleted by its id.
        max_deleted: EntryId,
    },
    /// A group of a stream.
    Group {
        /// Its name.
        name: Vec<u8>,
        /// The last entry that was delivered.
        delivered: EntryId,
        /// How many entries were read, if known.
        read: Option<u64>,
    },
    /// A consumer of the last group, with some of its pending entries.
    Consumer {
        /// The group's name.
        group: Vec<u8>,
        /// The consumer's name.
        name: Vec<u8>,
        /// Entries that it has got and not acknowledged.
        pending: Vec<(EntryId, PendingValue)>,
    },
    /// The rest of the value cannot be taken, for this reason.
    Refused(String),
}

/// Where in the value we are.
enum Stage {
    Begin,
    /// This many elements or nodes are left.
    Elements(usize),
    Counts,
    /// This many groups are left.
    Groups(usize),
    Consumers {
        left: usize,
        groups_left: usize,
        group: Vec<u8>,
        pending: BTreeMap<EntryId, (u64, u64)>,
    },
    Owned {
        left: usize,
        consumers_left: usize,
        groups_left: usize,
        group: Vec<u8>,
        name: Vec<u8>,
        pending: BTreeMap<EntryId, (u64, u64)>,
    },
    End,
}

/// A value that is being read part by part.
pub(super) struct Cut {
    kind: u8,
    stage: Stage,
    /// The deadline, in milliseconds since 1970, from which those of the fields of a hash count.
    first_ms: u64,
    /// What was read of the detail of a stream.
    detail: StreamDetail,
}

/// The elements that are gathered for one part.
#[derive(Default)]
struct Gathered {
    strings: Vec<Vec<u8>>,
    scores: Vec<f64>,
    /// The deadline of each field, if the hash tells them apart from the names.
    deadlines: Vec<Option<u64>>,
    bytes: usize,
}

impl Gathered {
    fn is_full(&self) -> bool {
        self.strings.len() >= PART_ELEMENTS || self.bytes >= PART_BYTES
    }

    fn add(&mut self, string: Vec<u8>) {
        self.bytes += string.len();
        self.strings.push(string);
    }

    fn part(self, kind: u8) -> Option<Part> {
        use kind::*;
        Some(match kind {
            LIST | LIST_ZIPLIST | QUICKLIST | QUICKLIST_2 => Part::Values(self.strings),
            SET | SET_INTSET | SET_LISTPACK => Part::Members(self.strings),
            HASH | HASH_ZIPMAP | HASH_ZIPLIST | HASH_LISTPACK | HASH_METADATA => {
                let deadlines = self.deadlines.into_iter().chain(std::iter::repeat(None));
                let field = |((name, value), expire_at_ms)| Field { name, value, expire_at_ms };
                Part::Fields(paired(self.strings)?.into_iter().zip(deadlines).map(field).collect())
            }
            HASH_LISTPACK_EX => Part::Fields(mortal(self.strings)?),
            SORTED_SET | SORTED_SET_2 => Part::Scores(self.strings.into_iter().zip(self.scores).collect()),
            _ => {
                let scored = |(member, score): (_, Vec<u8>)| Some((member, text_f64(&score)?));
                Part::Scores(paired(self.strings)?.into_iter().map(scored).collect::<Option<_>>()?)
            }
        })
    }
}

fn too_long(what: &str, bytes_max: usize) -> Part {
    Part::Refused(format!("it has {what} of more than {bytes_max} bytes"))
}

fn paired(strings: Vec<Vec<u8>>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut strings = strings.into_iter();
    let mut pairs = Vec::new();
    while let Some(first) = strings.next() {
        pairs.push((first, strings.next()?));
    }
    Some(pairs)
}

/// Fields, each with its value and its deadline.
fn mortal(strings: Vec<Vec<u8>>) -> Option<Vec<Field>> {
    let mut strings = strings.into_iter();
    let mut fields = Vec::new();
    while let Some(name) = strings.next() {
        fields.push(mortal_field(name, &mut strings)?);
    }
    Some(fields)
}

impl Cut {
    /// A value of this type, of which nothing has been read yet.
    pub(super) fn new(kind: u8) -> Self {
        Self { kind, stage: Stage::Begin, first_ms: 0, detail: StreamDetail::default() }
    }

    /// The next part; `None` after the last one.
    pub(super) async fn next<B: Bytes>(&mut self, input: &mut Input<B>, bytes_max: usize) -> Result<Option<Part>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::End) {
                Stage::Begin => self.stage = Stage::Elements(self.begin(input).await?),
                Stage::Elements(0) => match self.is_stream() {
                    true => self.stage = Stage::Counts,
                    false => return Ok(None),
                },
                Stage::Elements(left) if self.is_stream() => return self.nodes(left, input, bytes_max).await.map(Some),
                Stage::Elements(left) => return self.elements(left, input, bytes_max).await.map(Some),
                Stage::Counts => return self.counts(input).await.map(Some),
                Stage::Groups(0) | Stage::End => return Ok(None),
                Stage::Groups(left) => return self.group(left - 1, input, bytes_max).await.map(Some),
                Stage::Consumers { left: 0, groups_left, .. } => self.stage = Stage::Groups(groups_left),
                Stage::Consumers { left, groups_left, group, pending } => {
                    let name = self.text(input, bytes_max).await?;
                    input.piece(take_ms).await?;
                    if self.kind == kind::STREAM_LISTPACKS_3 {
                        input.piece(take_ms).await?;
                    }
                    let owned = input.piece(take_bytes_len).await?;
                    let (refused, name) = (name.is_none(), name.unwrap_or_default());
                    self.stage =
                        Stage::Owned { left: owned, consumers_left: left - 1, groups_left, group, name, pending };
                    if refused {
                        return Ok(Some(too_long("a consumer", bytes_max)));
                    }
                    if owned == 0 {
                        return self.owned(input).await.map(Some);
                    }
                }
                stage @ Stage::Owned { .. } => {
                    self.stage = stage;
                    return self.owned(input).await.map(Some);
                }
            }
        }
    }

    fn is_stream(&self) -> bool {
        [kind::STREAM_LISTPACKS, kind::STREAM_LISTPACKS_2, kind::STREAM_LISTPACKS_3].contains(&self.kind)
    }

    /// Reads how many elements, packs or nodes there are.
    async fn begin<B: Bytes>(&mut self, input: &mut Input<B>) -> Result<usize> {
        use kind::*;
        if [HASH_METADATA, HASH_LISTPACK_EX].contains(&self.kind) {
            self.first_ms = input.piece(take_ms).await?;
        }
        match self.kind {
            HASH_ZIPMAP | LIST_ZIPLIST | SET_INTSET | SORTED_SET_ZIPLIST | HASH_ZIPLIST | HASH_LISTPACK
            | HASH_LISTPACK_EX | SORTED_SET_LISTPACK | SET_LISTPACK => Ok(1),
            _ => input.piece(take_bytes_len).await,
        }
    }

    /// The next string; `None` if it is too long.
    async fn text<B: Bytes>(&self, input: &mut Input<B>, bytes_max: usize) -> Result<Option<Vec<u8>>> {
        Ok(input.string(bytes_max).await?.ok())
    }

    async fn elements<B: Bytes>(&mut self, mut left: usize, input: &mut Input<B>, bytes_max: usize) -> Result<Part> {
        use kind::*;
        let mut gathered = Gathered::default();
        let mut is_refused = false;
        while left > 0 && !gathered.is_full() {
            left -= 1;
            let is_plain = match self.kind {
                QUICKLIST_2 => input.piece(take_bytes_len).await? == 1,
                LIST | SET | HASH | SORTED_SET | SORTED_SET_2 => true,
                HASH_METADATA => {
                    let first_ms = self.first_ms;
                    gathered.deadlines.push(input.piece(|rest| take_deadline(rest, first_ms)).await?);
                    true
                }
                _ => false,
            };
            let text = self.text(input, if is_plain { bytes_max } else { bytes_max.max(PACK_BYTES_MAX) }).await?;
            match text {
                None => is_refused = true,
                Some(text) if is_plain => gathered.add(text),
                Some(pack) => {
                    let read = match self.kind {
                        HASH_ZIPMAP => zipmap,
                        SET_INTSET => intset,
                        LIST_ZIPLIST | QUICKLIST | SORTED_SET_ZIPLIST | HASH_ZIPLIST => ziplist,
                        _ => listpack,
                    };
                    let all = read(&pack).ok_or_else(|| input.broken("a pack that is none"))?;
                    is_refused |= all.iter().any(|one| one.len() > bytes_max);
                    all.into_iter().for_each(|one| gathered.add(one));
                }
            }
            match self.kind {
                HASH | HASH_METADATA => match self.text(input, bytes_max).await? {
                    Some(value) => gathered.add(value),
                    None => is_refused = true,
                },
                SORTED_SET | SORTED_SET_2 => {
                    let is_binary = self.kind == SORTED_SET_2;
                    gathered.scores.push(input.piece(|rest| take_score(rest, is_binary)).await?);
                }
                _ => {}
            }
        }
        self.stage = Stage::Elements(left);
        if is_refused {
            return Ok(too_long("an element", bytes_max));
        }
        gathered.part(self.kind).ok_or_else(|| input.broken("a pack that is none"))
    }

    async fn nodes<B: Bytes>(&mut self, mut left: usize, input: &mut Input<B>, bytes_max: usize) -> Result<Part> {
        let (mut entries, mut bytes, mut is_refused) = (BTreeMap::new(), 0, false);
        let mut turns = Turns::new(Yield::PLAIN);
        let node_bytes_max = bytes_max.max(PACK_BYTES_MAX);
        while left > 0 && entries.len() < PART_ELEMENTS && bytes < PART_BYTES {
            left -= 1;
            let first = self.text(input, bytes_max).await?.and_then(|id| id_of(&id));
            match (first, self.text(input, node_bytes_max).await?) {
                (Some(first), Some(pack)) => {
                    let mut room = node_bytes_max;
                    match take_node(first, &pack, &mut room, &mut entries, &mut turns).await {
                        Err(Refusal::TooLong | Refusal::TooMany) => is_refused = true,
                        taken => taken.map_err(|_| input.broken("a node that is none"))?,
                    }
                    bytes += pack.len() + (node_bytes_max - room);
                }
                (None, _) => return Err(input.broken("a node that is none")),
                (_, None) => is_refused = true,
            }
        }
        self.stage = Stage::Elements(left);
        if self.detail.first == EntryId::MIN {
            self.detail.first = entries.keys().next().copied().unwrap_or_default();
        }
        is_refused |= entries.values().flatten().any(|word: &Vec<u8>| word.len() > bytes_max);
        match is_refused {
            true => Ok(too_long("an entry", bytes_max)),
            false => Ok(Part::Entries(entries)),
        }
    }

    async fn counts<B: Bytes>(&mut self, input: &mut Input<B>) -> Result<Part> {
        let mut added = input.piece(take_bytes_len).await? as u64;
        let last = input.piece(take_id).await?;
        let mut max_deleted = EntryId::default();
        if self.kind != kind::STREAM_LISTPACKS {
            input.piece(take_id).await?;
            max_deleted = input.piece(take_id).await?;
            added = input.piece(take_bytes_len).await? as u64;
        }
        self.detail = StreamDetail { last, max_deleted, added, ..self.detail };
        self.stage = Stage::Groups(input.piece(take_bytes_len).await?);
        Ok(Part::Counts { last, added, max_deleted })
    }

    async fn group<B: Bytes>(&mut self, groups_left: usize, input: &mut Input<B>, bytes_max: usize) -> Result<Part> {
        let name = self.text(input, bytes_max).await?;
        let delivered = input.piece(take_id).await?;
        let read = match self.kind {
            // As many entries were added as there are.
            kind::STREAM_LISTPACKS => added_up_to(&self.detail, self.detail.added, delivered),
            _ => Some(input.piece(take_bytes_len).await? as u64).filter(|&read| read != u64::MAX),
        };
        let count = input.piece(take_bytes_len).await?;
        let mut pending = BTreeMap::new();
        for _ in 0..count {
            let id = input.piece(take_raw_id).await?;
            let told = (input.piece(take_ms).await?, input.piece(take_bytes_len).await? as u64);
            if pending.len() < PENDING_MAX {
                pending.insert(id, told);
            }
        }
        let left = input.piece(take_bytes_len).await?;
        let group = name.clone().unwrap_or_default();
        self.stage = Stage::Consumers { left, groups_left, group, pending };
        match name {
            _ if count > PENDING_MAX => {
                Ok(Part::Refused(format!("one of its groups has more than {PENDING_MAX} pending entries")))
            }
            Some(name) => Ok(Part::Group { name, delivered, read }),
            None => Ok(too_long("a group", bytes_max)),
        }
    }

    /// The next entries that the current consumer has got.
    async fn owned<B: Bytes>(&mut self, input: &mut Input<B>) -> Result<Part> {
        let Stage::Owned { left, consumers_left, groups_left, group, name, mut pending } =
            std::mem::replace(&mut self.stage, Stage::End)
        else {
            return Err(input.broken("a consumer that is none"));
        };
        let mut own = Vec::new();
        let some = left.min(PART_ELEMENTS);
        for _ in 0..some {
            let id = input.piece(take_raw_id).await?;
            if let Some((delivered_ms, deliveries)) = pending.remove(&id) {
                own.push((id, PendingValue { delivered_ms, deliveries, consumer: Vec::new() }));
            }
        }
        let part = Part::Consumer { group: group.clone(), name: name.clone(), pending: own };
        self.stage = match left - some {
            0 => Stage::Consumers { left: consumers_left, groups_left, group, pending },
            left => Stage::Owned { left, consumers_left, groups_left, group, name, pending },
        };
        Ok(part)
    }
}
