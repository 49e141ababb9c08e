//! Streams: entries in the order of their ids, and groups of consumers that share them out.
//!
//! | | |
//! |---|---|
//! | [`entries`](self) | reads: pages of entries, in both directions |
//! | [`trim`] | removal of entries from the front |
//! | [`groups`] | groups, consumers, and entries that were delivered and not acknowledged |

use std::ops::{Bound, Range};

use weir_model::parts::RowType;
use weir_model::parts::stream::{ENTRIES, EntryId, StreamDetail, entry_value};
use weir_model::{Value, varint};

use super::Collection;
use crate::context::{Context, Part, StoredPartsPage, Subkeys};
use crate::error::{Error, Outcome};

mod groups;
mod trim;

pub use groups::{Group, NAME_BYTES_MAX, Pending};
pub use trim::{Keep, Trim};

/// Most entries that are read between two turns.
pub const PAGE_ENTRIES: usize = 500;

/// The error for a part that cannot be read, or that is missing although its row counts it.
pub const DAMAGED: Error =
    Error::new("ERR stored data is damaged: a stream has a part that cannot be read, or lacks one");

/// A stream that was read or is to be made. [`Context::save_stream`] writes what was changed.
pub struct Stream<'k> {
    row: Collection<'k>,
    detail: StreamDetail,
}

/// An entry of a stream.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The entry's id.
    pub id: EntryId,
    /// The entry's fields and values, as they are stored.
    value: Value,
}

impl Entry {
    fn of(part: Part) -> Outcome<Self> {
        Ok(Self { id: EntryId::of_subkey(&part.subkey).ok_or(DAMAGED)?, value: part.value })
    }

    /// The entry, borrowed.
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef { id: self.id, value: &self.value }
    }

    /// Bytes of the entry.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }

    /// Its words, each as what is stored of the entry and where the word is in it.
    pub fn shared_words(&self) -> impl Iterator<Item = (Value, Range<usize>)> {
        let mut rest = &self.value[..];
        std::iter::from_fn(move || {
            let word = varint::take_slice(&mut rest)?;
            let end = self.value.len() - rest.len();
            Some((self.value.clone(), end - word.len()..end))
        })
    }
}

/// An entry, borrowed from where it was read.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'p> {
    /// The entry's id.
    pub id: EntryId,
    value: &'p [u8],
}

impl<'p> EntryRef<'p> {
    /// How many words the entry has, and the words: its fields, each followed by its value.
    ///
    /// # Errors
    /// The entry is damaged.
    pub fn words(&self) -> Outcome<(usize, impl Iterator<Item = &'p [u8]>)> {
        let (mut rest, mut count) = (self.value, 0);
        while !rest.is_empty() {
            varint::take_slice(&mut rest).ok_or(DAMAGED)?;
            count += 1;
        }
        let mut rest = self.value;
        let words = std::iter::from_fn(move || varint::take_slice(&mut rest));
        if count % 2 == 0 { Ok((count, words)) } else { Err(DAMAGED) }
    }

    /// Bytes of the entry.
    pub fn bytes(&self) -> usize {
        self.value.len()
    }
}

/// Entries that were read, without a copy of each, in the order that was asked for.
pub struct EntriesPage(StoredPartsPage);

impl EntriesPage {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.iter().len()
    }

    /// Each entry, in order.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<EntryRef<'_>>> {
        self.0.iter().map(|part| Ok(EntryRef { id: EntryId::of_subkey(part.key).ok_or(DAMAGED)?, value: part.value }))
    }
}

impl Context<'_> {
    /// The stream of `key`.
    ///
    /// # Errors
    /// As [`Context::collection`].
    pub async fn stream<'k>(&mut self, key: &'k [u8]) -> Outcome<Option<Stream<'k>>> {
        self.collection(key, RowType::Stream).await?.map(Stream::of).transpose()
    }

    /// A stream without entries, which takes the place of whatever is at `key` when it is saved.
    pub fn new_stream<'k>(&mut self, key: &'k [u8]) -> Stream<'k> {
        let mut row = self.new_collection(key, RowType::Stream);
        row.is_changed = true;
        Stream { row, detail: StreamDetail::default() }
    }

    /// Writes what was changed. A stream exists even without entries.
    ///
    /// # Errors
    /// The key is too long.
    pub fn save_stream(&mut self, stream: &mut Stream<'_>) -> Outcome {
        let detail = stream.detail.encode();
        if detail != stream.row.head.detail {
            stream.row.head.detail = detail;
            stream.row.is_changed = true;
        }
        self.save(&mut stream.row)
    }
}

impl<'k> Stream<'k> {
    /// The stream that `row` is.
    ///
    /// # Errors
    /// Its head is damaged.
    pub(crate) fn of(row: Collection<'k>) -> Outcome<Self> {
        let detail = StreamDetail::decode(&row.head.detail).ok_or(DAMAGED)?;
        Ok(Self { row, detail })
    }

    /// How many entries the stream has.
    pub fn len(&self) -> u64 {
        self.row.len()
    }

    /// Whether the stream has no entries.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// What the head says of the stream besides its entries.
    pub fn detail(&self) -> &StreamDetail {
        &self.detail
    }

    /// The same detail, to be changed.
    pub fn detail_mut(&mut self) -> &mut StreamDetail {
        &mut self.detail
    }

    /// Sets when the row expires (milliseconds since 1970; `None` = never).
    pub fn expires_at(&mut self, expire_at_ms: Option<u64>) {
        self.row.expires_at(expire_at_ms);
    }

    /// Puts an entry with `words` behind all others. `id` has to be larger than the id of the last entry.
    ///
    /// # Errors
    /// As [`Context::put_part`].
    pub fn append<'w>(&mut self, cx: &mut Context<'_>, id: EntryId, words: impl Iterator<Item = &'w [u8]>) -> Outcome {
        if self.is_empty() {
            self.detail.first = id;
        }
        self.detail.last = id;
        self.detail.added = self.detail.added.saturating_add(1);
        self.row.put_ordered(cx, ENTRIES, &id.subkey(), None, &entry_value(words))
    }

    /// The entries from `from` to `to`; `None` where there are none.
    pub fn range(&self, from: EntryId, to: EntryId, reverse: bool) -> Option<Subkeys> {
        // Entries that were removed at the front are not passed again and again.
        let from = from.max(self.detail.first);
        let has_some = !self.is_empty() && from <= to;
        let (from, to) = (Bound::Included(from.subkey()), Bound::Included(to.subkey()));
        has_some.then_some(Subkeys { space: ENTRIES, from, to, reverse })
    }

    /// Up to `limit` entries of a [range](Stream::range), and what is left of it. A page may be empty although more
    /// entries follow.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub async fn entries(
        &self,
        cx: &mut Context<'_>,
        range: Subkeys,
        limit: usize,
    ) -> Outcome<(Vec<Entry>, Option<Subkeys>)> {
        let page = self.row.ordered_page(cx, range, limit.min(PAGE_ENTRIES)).await?;
        // The ids and words of the entries are taken apart.
        cx.copied_parts(page.parts.len());
        Ok((page.parts.into_iter().map(Entry::of).collect::<Outcome<_>>()?, page.next))
    }

    /// As [`Stream::entries`], without a copy of each entry: for code that looks at each entry once.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub async fn entries_page(
        &self,
        cx: &mut Context<'_>,
        range: Subkeys,
        limit: usize,
    ) -> Outcome<(EntriesPage, Option<Subkeys>)> {
        let mut page = self.row.stored_ordered_page(cx, range, limit.min(PAGE_ENTRIES)).await?;
        // The ids and words of the entries are taken apart.
        cx.copied_parts(page.iter().len());
        let left = page.next.take();
        Ok((EntriesPage(page), left))
    }

    /// The first entry from `from` to `to`, or with `reverse` the last one.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub async fn first_in(
        &self,
        cx: &mut Context<'_>,
        from: EntryId,
        to: EntryId,
        reverse: bool,
    ) -> Outcome<Option<Entry>> {
        let mut left = self.range(from, to, reverse);
        while let Some(range) = left {
            let (entries, rest) = self.entries(cx, range, 1).await?;
            if let Some(entry) = entries.into_iter().next() {
                return Ok(Some(entry));
            }
            left = rest;
            cx.yields().now().await;
        }
        Ok(None)
    }

    /// The entry with this id.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub async fn entry(&self, cx: &mut Context<'_>, id: EntryId) -> Outcome<Option<Entry>> {
        let value = self.row.ordered(cx, ENTRIES, &id.subkey()).await?;
        Ok(value.map(|value| Entry { id, value }))
    }

    /// Takes out the entry with this id; `false` if there is none.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub async fn remove(&mut self, cx: &mut Context<'_>, id: EntryId) -> Outcome<bool> {
        let Some(entry) = self.entry(cx, id).await? else { return Ok(false) };
        self.row.remove_ordered(cx, ENTRIES, &id.subkey(), entry.bytes())?;
        self.detail.max_deleted = self.detail.max_deleted.max(id);
        if id == self.detail.first {
            self.find_first(cx, id).await?;
        }
        Ok(true)
    }

    /// Finds the first entry behind `id`. There are no entries up to `id`.
    async fn find_first(&mut self, cx: &mut Context<'_>, id: EntryId) -> Outcome {
        let first = match id.next() {
            Some(next) => self.first_in(cx, next, EntryId::MAX, false).await?,
            None => None,
        };
        self.detail.first = first.map(|entry| entry.id).unwrap_or_default();
        Ok(())
    }
}
