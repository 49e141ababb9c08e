//! Rows of many parts as handlers see them. Whether a row is packed in its head or spread over keys of its own is
//! decided here, and nowhere else.
//!
//! A handler asks its context for a [`Collection`], reads and changes it, and [saves](Context::save) it. Changes of a
//! packed row are made in memory and are written with its head, in one record; those of a spread row are written part
//! by part. A packed row that has grown too large is spread, and stays spread.
//!
//! | | |
//! |---|---|
//! | [`members`] | what a hash, a set and a sorted set have in common: parts found by name, in no order |
//! | [`fields`] | fields of a hash that expire |
//! | [`layout`] | which keys the parts of a packed row get when it is spread |
//! | [`random`] | random members |
//! | [`sets`] | members of a set |
//! | [`scored`] | the members of a sorted set in the order of their scores: how it is read |
//! | [`rescored`] | how that order is changed |
//! | [`counted`] | ranks in that order without a walk |
//! | [`values`] | what a list has: values by their index |
//! | [`ordered`] | parts by their subkeys, in several orders |
//! | [`streams`] | what a stream has: entries by their ids, groups of consumers |

mod counted;
mod fields;
mod layout;
mod members;
mod ordered;
mod random;
mod rescored;
mod scored;
mod sets;
mod streams;
mod values;

use weir_io::plant::{Plant, is_planted};
use weir_model::parts::{Head, Life, Packed, PackedPart, RowType};
use weir_model::{Content, Row};

pub use self::members::Member;
pub use self::random::room_to_choose;
pub use self::rescored::{AT_ONCE_BYTES_MAX, NOT_A_SCORE, TOO_MANY_AT_ONCE, stored_one_by_one, weight};
pub use self::scored::{Scored, ScoredPage, ScoredRef, Stretch, above, place, score_in};
pub use self::sets::NUMBERS_MAX;
pub use self::streams::{
    DAMAGED as STREAM_DAMAGED, EntriesPage, Entry, EntryRef, Group, Keep, NAME_BYTES_MAX, PAGE_ENTRIES, Pending,
    Stream, Trim,
};
pub use self::values::{End, Walk};
use crate::context::Context;
use crate::error::{Outcome, WRONG_TYPE};

/// Most parts of a packed row.
const PACKED_PARTS_MAX: u64 = 128;
/// Most bytes of a packed row's parts: every change writes all of them.
const PACKED_BYTES_MAX: usize = 2 << 10;

/// The detail of a hash or a set that Redis would no longer keep as a small one.
const LARGE: u8 = 1;

/// A row of many parts. [`Context::save`] writes what was changed.
pub struct Collection<'k> {
    key: &'k [u8],
    head: Head,
    expire_at_ms: Option<u64>,
    /// The head has to be written, and not only parts.
    is_changed: bool,
    /// Hashes only: some field has another deadline than before.
    deadlines_changed: bool,
    /// Hashes only: how many fields are known to have expired, and are still counted in the head.
    expired: u64,
    /// Hashes only: the subkey of the last deadline that was swept; empty if none was.
    swept_to: Vec<u8>,
}

impl Context<'_> {
    /// The row of `key`, which has to be of the type `kind`. If the row is spread, all reads from now on see the same
    /// moment.
    ///
    /// # Errors
    /// As [`Context::get`], and if the row is of another type.
    pub async fn collection<'k>(&mut self, key: &'k [u8], kind: RowType) -> Outcome<Option<Collection<'k>>> {
        let found = self.head_of_one_moment(key, kind).await?;
        Ok(found.map(|found| Collection::found(key, found, self.now_ms())))
    }

    /// As [`Context::collection`], for a row that may be of any of `kinds`. It is looked up once, whichever it is.
    ///
    /// # Errors
    /// As [`Context::collection`].
    pub(crate) async fn collection_of<'k>(
        &mut self,
        key: &'k [u8],
        kinds: &[RowType],
    ) -> Outcome<Option<Collection<'k>>> {
        match self.row_of_one_moment(key).await? {
            None => Ok(None),
            Some(Row { content: Content::Parts(head), expire_at_ms }) if kinds.contains(&head.kind) => {
                Ok(Some(Collection::found(key, (*head, expire_at_ms), self.now_ms())))
            }
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// As [`Context::collection`], or a new row if there is none. A new row exists once it is saved with a part.
    ///
    /// # Errors
    /// As [`Context::collection`].
    pub async fn collection_or_new<'k>(&mut self, key: &'k [u8], kind: RowType) -> Outcome<Collection<'k>> {
        Ok(match self.collection(key, kind).await? {
            Some(collection) => collection,
            None => self.new_collection(key, kind),
        })
    }

    /// A row without parts, which replaces whatever is at `key` when it is saved.
    pub fn new_collection<'k>(&mut self, key: &'k [u8], kind: RowType) -> Collection<'k> {
        let head = Head { packed: Some(Packed::default()), ..self.new_head(kind) };
        Collection::new(key, head, None)
    }

    /// Writes what was changed. A row without parts is deleted.
    ///
    /// # Errors
    /// The key is too long.
    pub fn save(&mut self, collection: &mut Collection<'_>) -> Outcome {
        if !std::mem::take(&mut collection.is_changed) {
            return Ok(());
        }
        if collection.head.count == 0 && collection.head.kind != RowType::Stream {
            return self.delete(collection.key);
        }
        self.put_head(collection.key, &collection.head, collection.expire_at_ms)
    }
}

impl<'k> Collection<'k> {
    fn new(key: &'k [u8], head: Head, expire_at_ms: Option<u64>) -> Self {
        let (is_changed, deadlines_changed, expired, swept_to) = Default::default();
        Self { key, head, expire_at_ms, is_changed, deadlines_changed, expired, swept_to }
    }

    /// The row of `key` from a head that was read, and from the time at which the row expires.
    pub(crate) fn found(key: &'k [u8], (head, expire_at_ms): (Head, Option<u64>), now_ms: u64) -> Self {
        let mut row = Self::new(key, head, expire_at_ms);
        row.drop_packed_expired(now_ms);
        row
    }

    /// Sets when the row expires (milliseconds since 1970; `None` = never).
    pub fn expires_at(&mut self, expire_at_ms: Option<u64>) {
        self.expire_at_ms = expire_at_ms;
        self.is_changed = true;
    }

    /// How many parts users count. For a hash, expired fields are included until they have been
    /// [counted](Collection::count_expired).
    pub fn len(&self) -> u64 {
        self.head.count.saturating_sub(self.expired)
    }

    /// The row's type.
    pub fn kind(&self) -> RowType {
        self.head.kind
    }

    /// Whether Redis would not keep the row as a small one.
    pub fn is_large(&self) -> bool {
        self.head.is_large()
    }

    /// Bytes of the row's subkeys and values.
    pub fn bytes(&self) -> u64 {
        self.head.bytes
    }

    /// Whether the row has no part. Then it does not exist, or will not exist once it is saved.
    pub fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// The life that the keys of its parts belong to, if its parts have keys of their own.
    pub(crate) fn life(&self) -> Life {
        Life::new(self.head.version)
    }

    /// The parts, if they stand in the row's head.
    fn packed(&self) -> Option<&Packed> {
        self.head.packed.as_ref()
    }

    /// Books parts that came (`parts` and `bytes` positive) or went.
    fn count(&mut self, parts: i64, bytes: i64) {
        let (parts, bytes) =
            if is_planted(Plant::CountLeft) && self.packed().is_none() { (0, 0) } else { (parts, bytes) };
        self.head.count = self.head.count.saturating_add_signed(parts);
        self.head.bytes = self.head.bytes.saturating_add_signed(bytes);
        // The head is written even if the numbers stay the same: whoever watches the row looks at its head.
        self.is_changed = true;
    }

    /// Changes a packed row by `change`, and spreads it if it has grown too large. To be called only on a packed row.
    fn change_packed(&mut self, cx: &mut Context<'_>, change: impl FnOnce(&mut Packed)) -> Outcome {
        self.is_changed = true;
        let Some(packed) = &mut self.head.packed else { return Ok(()) };
        change(packed);
        cx.changed_packed(self.head.count, packed.as_bytes().len());
        if self.head.count <= PACKED_PARTS_MAX && packed.as_bytes().len() <= PACKED_BYTES_MAX {
            return Ok(());
        }
        if self.deadlines_changed || self.mortal().is_some() {
            self.note_packed_deadlines();
        }
        let packed = self.head.packed.take().unwrap_or_default();
        if self.head.kind == RowType::List {
            return self.spread_values(cx, &packed);
        }
        packed.iter().try_for_each(|part| self.spread(cx, &part))
    }

    /// Notes that Redis would not keep the row as a small one any more. A row never becomes small again.
    pub fn note_large(&mut self) {
        if !self.is_large() {
            match self.head.detail.first_mut() {
                Some(first) => *first = LARGE,
                None => self.head.detail.push(LARGE),
            }
            self.is_changed = true;
        }
    }

    /// Gives `part` keys of its own.
    fn spread(&self, cx: &mut Context<'_>, part: &PackedPart<'_>) -> Outcome {
        for (space, subkey, value) in layout::keys_of(&self.head, part) {
            cx.put_part(self.life(), space, &subkey, &value)?;
        }
        Ok(())
    }
}
