//! What commands want written, and how their reads see it.
//!
//! Several commands may write into one draft, one after the other, and each may write thousands of parts. So once there
//! are more than a few changes, the last change of a key is looked up in a map, and not searched for.
//!
//! Commands that write to the same row write its head again and again. All of the draft is applied at once, so nobody
//! ever sees any of these heads but the last. The others are left out when [the draft is settled](Draft::settle).

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use weir_model::parts::{Head, HeadRef, Life};
use weir_model::{Batch, BatchMark, BatchRef, Change};

use crate::chunk_in_hand::ChunkInHand;
use crate::events::{Classes, KeyEvent};
use crate::page_ahead::PageAhead;
use crate::uncounted::Uncounted;

/// Up to this number, changes are searched one by one.
const FEW: usize = 8;
/// Changes for which the map has room from the beginning: a map that grows hashes all keys again.
const LEARNED_MIN: usize = 56;
/// Bytes for which a draft of several commands has room from the beginning.
const ROOM_BYTES: usize = 1 << 10;
/// Bytes that it takes for each change to find the last one of a key, and to leave out those in front of it.
const FOUND_BYTES: usize = size_of::<LastChange>() + size_of::<BatchMark>();
/// Bytes that a change in order takes besides its key.
const IN_ORDER_BYTES: usize = size_of::<(Box<[u8]>, BatchMark)>();

/// What one command or several want written. Every command hands it on, so it is small.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    batch: Batch,
    /// Where the last change stands, if there is one and its place is known.
    newest: Option<BatchMark>,
    is_of_several: bool,
    /// See [`Draft::is_quiet`].
    pub(crate) is_quiet: bool,
    /// The events to tell when the draft is applied.
    pub(crate) events: Vec<KeyEvent>,
    /// Fields that most drafts of a single command do without.
    more: Option<Box<More>>,
}

/// What is known of a draft besides its changes.
#[derive(Clone, Debug, Default)]
struct More {
    /// The head of a spread row that the last change has left, and when the row expires, decoded for the next command,
    /// which is mostly about the same row. Kept only where there may be a next command.
    head: Option<(Head, Option<u64>)>,
    /// The chunk of a list that was read or written last, unless a part was changed after that. Kept only where there
    /// may be a next command.
    chunk: Option<ChunkInHand>,
    last: LastChanges,
    /// For keys that begin with `in_order_front`, the last change of each, as far as `ordered` has come.
    in_order: BTreeMap<Box<[u8]>, BatchMark>,
    in_order_front: Option<Vec<u8>>,
    in_order_bytes: usize,
    ordered: BatchMark,
    /// Changes of counts that have to be made before the draft is applied.
    uncounted: Uncounted,
    /// Parts that were read ahead, where there may be a next command.
    ahead: PageAhead,
}

impl From<Batch> for Draft {
    fn from(batch: Batch) -> Self {
        Self { batch, ..Self::default() }
    }
}

impl Draft {
    /// A draft for several commands, one after the other.
    pub fn of_several() -> Self {
        Self { batch: Batch::with_room_for(ROOM_BYTES), is_of_several: true, ..Self::default() }
    }

    /// Whether the draft is for several commands.
    pub(crate) fn is_of_several(&self) -> bool {
        self.is_of_several
    }

    /// Whether the changes count for nobody who watches their rows or keeps values of them: all of them are of
    /// [quiet](crate::Command::is_quiet) commands.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Changes of counts that have to be made before the draft is applied, if there are any.
    pub(crate) fn uncounted(&self) -> Option<&Uncounted> {
        self.more.as_ref().map(|more| &more.uncounted)
    }

    /// The same, to be changed.
    pub(crate) fn uncounted_mut(&mut self) -> &mut Uncounted {
        &mut self.more().uncounted
    }

    /// Parts that were read ahead, where there may be a next command.
    pub(crate) fn ahead(&mut self) -> &mut PageAhead {
        &mut self.more().ahead
    }

    /// All changes.
    pub fn into_batch(self) -> Batch {
        self.batch
    }

    /// All changes, and the events to tell when they are applied.
    pub fn into_parts(self) -> (Batch, Vec<KeyEvent>) {
        debug_assert!(self.uncounted().is_none_or(Uncounted::is_empty), "whoever lets commands leave it counts it");
        (self.batch, self.events)
    }

    /// Leaves out changes that a later change of the same key follows, except those that end a life of a row of many
    /// parts. Tells `left_out` of each change that goes, with its place, in order. The draft has the same effect
    /// afterwards. It must not be rewound beyond this point.
    pub fn settle(&mut self, mut left_out: impl FnMut(BatchMark, Change<'_>)) {
        if self.batch.len() <= FEW {
            return;
        }
        let Self { batch, more, .. } = self;
        let last = &mut more.get_or_insert_default().last;
        last.learn(batch);
        if !last.superseded.is_empty() {
            let mut superseded = std::mem::take(&mut last.superseded);
            superseded.sort_unstable();
            superseded.iter().for_each(|&mark| left_out(mark, self.batch.at(mark)));
            self.batch = self.batch.without(&superseded);
            self.forget_places();
        }
    }

    /// How many events are to be told when the changes are applied.
    pub fn events_len(&self) -> usize {
        self.events.len()
    }

    /// How many bytes of memory the events behind the first `len` take.
    pub fn events_bytes(&self, len: usize) -> usize {
        let behind = self.events.get(len..).unwrap_or_default();
        behind.iter().map(|event| size_of::<KeyEvent>() + event.key.len()).sum()
    }

    /// Notes that the connection `by` reads `key` behind the events so far, and keeps its value.
    pub fn keep(&mut self, key: &[u8], by: u64) {
        self.events.push(KeyEvent { class: Classes::KEPT, name: "", database: 0, key: key.into(), by });
    }

    /// Drops all events behind the first `len`.
    pub fn forget_events(&mut self, len: usize) {
        self.events.truncate(len);
    }

    /// All changes.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Bytes of memory that the changes take, with all that has to be known of them. What is kept of the last read is
    /// bounded, and does not count.
    pub fn bytes(&self) -> usize {
        let known = self.more.as_ref().map_or(0, |more| more.in_order_bytes + more.uncounted.bytes());
        self.batch.as_bytes().len() + FOUND_BYTES * self.batch.len() + known
    }

    /// Whether there is no change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Adds a change of a stored key.
    #[inline]
    pub(crate) fn push(&mut self, change: Change<'_>) {
        self.begin_part();
        self.batch.push(change);
    }

    /// Adds a change of a part, which has its subkey as its key.
    #[inline]
    pub(crate) fn push_part(&mut self, life: Life, space: u8, change: Change<'_>) {
        self.begin_part();
        self.batch.push_part(life, space, change);
    }

    /// Adds a change of the part of a placed member; the change has the member's name as its key.
    #[inline]
    pub(crate) fn push_member(&mut self, life: Life, space: u8, change: Change<'_>) {
        self.begin_part();
        self.batch.push_member(life, space, change);
    }

    /// Adds a change of a row of `database`.
    #[inline]
    pub(crate) fn push_row(&mut self, database: u8, change: Change<'_>) {
        self.begin_change();
        self.batch.push_row(database, change);
    }

    #[inline]
    fn begin_change(&mut self) {
        self.newest = Some(self.batch.mark());
        if let Some(more) = &mut self.more {
            more.head = None;
        }
    }

    /// Begins a change that may be one of a part.
    #[inline]
    fn begin_part(&mut self) {
        self.begin_change();
        if let Some(more) = &mut self.more {
            more.chunk = None;
        }
    }

    /// Keeps `head`, which the last change has left, of a row that expires at `expire_at_ms`.
    pub(crate) fn keep_head(&mut self, head: &Head, expire_at_ms: Option<u64>) {
        // Where fields expire, the written head has more in it than the changed one.
        if self.is_of_several && head.packed.is_none() && head.mortal().is_none() {
            self.more().head = Some((head.clone(), expire_at_ms));
        }
    }

    /// Takes the head of `key` in the database with this number, and when the row expires, if the last change has left
    /// that head and it is still kept here.
    pub(crate) fn take_head(&mut self, database: u8, key: &[u8]) -> Option<(Head, Option<u64>)> {
        let (newest, more) = (self.newest?, self.more.as_mut()?);
        let is_same = more.head.is_some() && self.batch.key_at(newest).split_first() == Some((&database, key));
        more.head.take_if(|_| is_same)
    }

    /// Keeps a chunk for the next command, if there may be one. The chunk is as the changes so far have left it.
    pub(crate) fn keep_chunk(&mut self, chunk: impl FnOnce() -> ChunkInHand) {
        if self.is_of_several {
            self.more().chunk = Some(chunk());
        }
    }

    /// Takes the chunk at `anchor` of the list whose `life` it is, if it is still kept here.
    pub(crate) fn take_chunk(&mut self, life: Life, anchor: i64) -> Option<ChunkInHand> {
        self.more.as_mut()?.chunk.take_if(|chunk| chunk.life == life && chunk.anchor == anchor)
    }

    /// Where the next change goes.
    pub fn mark(&self) -> BatchMark {
        self.batch.mark()
    }

    pub(crate) fn since(&self, mark: BatchMark) -> BatchRef<'_> {
        self.batch.since(mark)
    }

    /// Forgets the changes behind `mark`.
    pub fn rewind(&mut self, mark: BatchMark) {
        self.batch.rewind(mark);
        self.newest = None;
        if let Some(more) = &mut self.more {
            more.head = None;
            more.chunk = None;
            more.uncounted.rewind(mark);
            if more.last.learned.max(more.ordered) > mark {
                more.forget_places();
            }
        }
    }

    fn forget_places(&mut self) {
        self.newest = None;
        if let Some(more) = &mut self.more {
            more.head = None;
            more.forget_places();
        }
    }

    /// The last change of the stored key `key`.
    pub(crate) fn last_of(&mut self, key: &[u8]) -> Option<Change<'_>> {
        // Most commands write the head of their row last, and the next one begins with it.
        if let Some(newest) = self.newest.filter(|&newest| self.batch.key_at(newest) == key) {
            return Some(self.batch.at(newest));
        }
        if self.batch.len() <= FEW {
            return self.batch.as_ref().iter().filter(|change| change.key() == key).last();
        }
        let Self { batch, more, .. } = self;
        let last = &mut more.get_or_insert_default().last;
        last.learn(batch);
        last.of(batch, key).map(|mark| batch.at(mark))
    }

    /// The last change of each stored key in `keys`, by key.
    pub(crate) fn last_in(&mut self, keys: Range<&[u8]>) -> impl DoubleEndedIterator<Item = Change<'_>> {
        let Self { batch, more, .. } = self;
        let more = more.get_or_insert_default();
        more.put_in_order(common(keys.start, keys.end), batch);
        let keys = (keys.start < keys.end).then_some(keys);
        let found = keys.map(|keys| {
            more.in_order.range::<[u8], _>((std::ops::Bound::Included(keys.start), std::ops::Bound::Excluded(keys.end)))
        });
        found.into_iter().flatten().map(|(_, &mark)| batch.at(mark))
    }
}

impl More {
    /// Forgets where the changes stand; that has to be learned anew.
    fn forget_places(&mut self) {
        self.last.forget();
        self.forget_order();
    }

    fn forget_order(&mut self) {
        self.in_order.clear();
        self.in_order_bytes = 0;
        self.ordered = BatchMark::default();
    }

    /// Puts keys that begin with `front` in order from now on. Most callers go through one order of one row, so the
    /// other keys that were changed along with it need not be put in order. Where callers ask for several orders, the
    /// front soon becomes short enough to cover all keys.
    fn put_in_order(&mut self, front: &[u8], batch: &Batch) {
        match &mut self.in_order_front {
            None => self.in_order_front = Some(front.into()),
            Some(known) if front.starts_with(known) => {}
            Some(known) => {
                known.truncate(common(known, front).len());
                self.forget_order();
            }
        }
        let front = self.in_order_front.as_deref().unwrap_or_default();
        for (mark, change) in batch.marked_since(self.ordered) {
            if change.key().starts_with(front) && self.in_order.insert(change.key().into(), mark).is_none() {
                self.in_order_bytes += IN_ORDER_BYTES + change.key().len();
            }
        }
        self.ordered = batch.mark();
    }
}

/// The bytes that `a` and `b` both begin with.
fn common<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    let len = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    &a[..len]
}

/// The last change of each key of a batch, as far as the map has learned them. Nobody iterates over it, so its random
/// order is never seen.
#[derive(Clone, Debug, Default)]
struct LastChanges {
    by_key: HashTable<LastChange>,
    hasher: RandomState,
    learned: BatchMark,
    /// Changes that need not be applied, because a later change of the same key has the same effect without them.
    superseded: Vec<BatchMark>,
}

/// The last change of a key.
#[derive(Clone, Copy, Debug)]
struct LastChange {
    mark: BatchMark,
    /// The life that the change leaves: see [`life_of`].
    life: Option<u64>,
}

impl LastChanges {
    /// Learns the changes that `batch` has gained since the last call.
    fn learn(&mut self, batch: &Batch) {
        let Self { by_key, hasher, superseded, .. } = self;
        let hash_of = |last: &LastChange| hasher.hash_one(batch.key_at(last.mark));
        let room = if by_key.is_empty() { LEARNED_MIN } else { 0 };
        by_key.reserve(batch.since(self.learned).len().max(room), hash_of);
        for (mark, change) in batch.marked_since(self.learned) {
            let key = change.key();
            let last = LastChange { mark, life: life_of(&change) };
            match by_key.entry(hasher.hash_one(key), |other| batch.key_at(other.mark) == key, hash_of) {
                Entry::Vacant(vacant) => {
                    vacant.insert(last);
                }
                Entry::Occupied(mut before) => {
                    let LastChange { mark, life } = *before.get();
                    // The code that applies the end of a life has to see it.
                    if life.is_none() || life == last.life {
                        superseded.push(mark);
                    }
                    *before.get_mut() = last;
                }
            }
        }
        self.learned = batch.mark();
    }

    fn of(&self, batch: &Batch, key: &[u8]) -> Option<BatchMark> {
        self.by_key.find(self.hasher.hash_one(key), |last| batch.key_at(last.mark) == key).map(|last| last.mark)
    }

    fn forget(&mut self) {
        self.by_key.clear();
        self.superseded.clear();
        self.learned = BatchMark::default();
    }
}

/// The version of the row of many parts, if these have keys of their own, that `change` leaves.
fn life_of(change: &Change<'_>) -> Option<u64> {
    match change {
        Change::Head { head, .. } => HeadRef::parse(head).filter(|head| head.packed.is_none()).map(|head| head.version),
        Change::Put { .. } | Change::Delete { .. } | Change::Cover { .. } => None,
    }
}

#[cfg(test)]
mod tests;
