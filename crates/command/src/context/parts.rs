//! What handlers see of rows of many parts: heads, single parts, and bounded pages of parts in order.
//!
//! A row is read and written part by part, and its head along with its parts where the head changes. A handler that
//! makes a row asks for a [head](Context::new_head), whose version no other row has; so the new row has no parts. A
//! handler that deletes a row, or puts something else in its place, needs to know nothing of its parts.
//!
//! Where rows are not locked, two reads may see two different moments.

use std::cmp::Ordering;
use std::ops::Bound;

use weir_admission::request_units::Module;
use weir_model::parts::{Head, Life, PLACE_BYTES, RowType, SUBKEY_BYTES_MAX};
use weir_model::{Change, Content, Row, StoredKey, Value};

use super::{Asked, Context, check_value};
use crate::draft::Draft;
use crate::error::{KEY_TOO_LONG, Outcome, WRONG_TYPE};
use crate::in_hand::letting_go;
use crate::rows::{PartPage, PartRange};
use crate::stored_parts::{StoredPart, StoredParts};

/// Some of the parts of a row, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subkeys {
    /// The space (that is, the order) that the subkeys are in.
    pub space: u8,
    /// Where the subkeys begin.
    pub from: Bound<Vec<u8>>,
    /// Where the subkeys end.
    pub to: Bound<Vec<u8>>,
    /// Largest first.
    pub reverse: bool,
}

impl Subkeys {
    /// All subkeys of `space`.
    pub fn all(space: u8) -> Self {
        Self { space, from: Bound::Unbounded, to: Bound::Unbounded, reverse: false }
    }

    fn range(self, life: Life) -> PartRange {
        let behind = |subkey: &[u8]| [&life.part(self.space, subkey)[..], &[0]].concat();
        let from = match self.from {
            Bound::Unbounded => life.space(self.space).0,
            Bound::Included(subkey) => life.part(self.space, &subkey),
            Bound::Excluded(subkey) => behind(&subkey),
        };
        let to = match self.to {
            Bound::Unbounded => life.space(self.space).1,
            Bound::Included(subkey) => behind(&subkey),
            Bound::Excluded(subkey) => life.part(self.space, &subkey),
        };
        PartRange { to: if to < from { from.clone() } else { to }, from, reverse: self.reverse }
    }
}

/// A part that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The subkey: where the part stands in its order.
    pub subkey: Vec<u8>,
    /// The part's value.
    pub value: Value,
}

/// A bounded step through the parts of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsPage {
    /// Living parts, in the order that was asked for.
    pub parts: Vec<Part>,
    /// What has yet to be read; `None` at the end.
    pub next: Option<Subkeys>,
}

/// The same without a copy of each part: for code that looks at each part once.
#[derive(Default)]
pub(crate) struct StoredPartsPage {
    parts: StoredParts,
    /// Where the subkeys begin in the stored keys.
    subkey_at: usize,
    /// What has yet to be read; `None` at the end.
    pub next: Option<Subkeys>,
}

impl StoredPartsPage {
    /// Parts with their subkeys as their keys.
    pub fn of_subkeys(parts: StoredParts, next: Option<Subkeys>) -> Self {
        Self { parts, subkey_at: 0, next }
    }

    /// The part with the number `index`, with its subkey as its key.
    pub fn get(&self, index: usize) -> Option<StoredPart<'_>> {
        self.parts.get(index).map(|part| part.behind(self.subkey_at))
    }

    /// Each part by itself, with its key and value in memory of its own.
    pub fn into_owned(self) -> PartsPage {
        let parts = self.parts.into_owned(self.subkey_at).map(|(subkey, value)| Part { subkey, value });
        PartsPage { parts: parts.collect(), next: self.next }
    }

    /// Each part, in the order asked for, with its subkey as its key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = StoredPart<'_>> + ExactSizeIterator {
        self.parts.iter().map(|part| part.behind(self.subkey_at))
    }
}

/// A head, and when its row expires; `None` if there is no row.
type FoundHead = Outcome<Option<(Head, Option<u64>)>>;

impl Context<'_> {
    /// The head of the row of `key`, which has to be of the type `kind`, and the row's expiry.
    ///
    /// # Errors
    /// As [`Context::get`], and if the row is of another type.
    pub async fn head(&mut self, key: &[u8], kind: RowType) -> Outcome<Option<(Head, Option<u64>)>> {
        match self.head_in_hand(key, kind) {
            Some(head) => head,
            None => head_of(self.get(key).await?, kind),
        }
    }

    /// As [`Context::head`], for a row that is read as [`Context::row_of_one_moment`] reads it.
    ///
    /// # Errors
    /// As [`Context::head`].
    pub(crate) async fn head_of_one_moment(
        &mut self,
        key: &[u8],
        kind: RowType,
    ) -> Outcome<Option<(Head, Option<u64>)>> {
        match self.head_in_hand(key, kind) {
            Some(head) => head,
            None => head_of(self.row_of_one_moment(key).await?, kind),
        }
    }

    /// The head that the previous command has written, if the draft still has it: then it need not be decoded. It
    /// counts and costs a look.
    fn head_in_hand(&mut self, key: &[u8], kind: RowType) -> Option<FoundHead> {
        let number = self.number();
        let (head, expire_at_ms) = self.draft.take_head(number, key)?;
        let lives = expire_at_ms.is_none_or(|at| at > self.now_ms());
        self.is_in_hand = true;
        self.met_bytes(Asked::Row(number, key), lives.then(|| head.stored_bytes()));
        Some(match head.kind == kind {
            _ if !lives => Ok(None),
            true => Ok(Some((head, expire_at_ms))),
            false => Err(WRONG_TYPE),
        })
    }

    /// A head for a row that is to be made. The row has no parts, whatever was at its key. The same command has to
    /// [put](Context::put_head) the head.
    pub fn new_head(&self, kind: RowType) -> Head {
        Head::new(kind, self.rows.new_version())
    }

    /// Sets the head of the row of `key`, until `expire_at_ms` (milliseconds since 1970; `None` = for ever).
    ///
    /// # Errors
    /// The key is too long.
    pub fn put_head(&mut self, key: &[u8], head: &Head, expire_at_ms: Option<u64>) -> Outcome {
        self.put_head_in(self.call.database, key, head, expire_at_ms)
    }

    /// The part at `subkey` of the row of `key`, whose `life` it is.
    ///
    /// # Errors
    /// As [`Context::get`].
    pub async fn part(&mut self, key: &[u8], life: Life, space: u8, subkey: &[u8]) -> Outcome<Option<Part>> {
        let value = self.part_value(key, life, space, subkey).await?;
        Ok(value.map(|value| Part { subkey: subkey.into(), value }))
    }

    /// The value of that part.
    ///
    /// # Errors
    /// As [`Context::get`].
    pub(crate) async fn part_value(
        &mut self,
        key: &[u8],
        life: Life,
        space: u8,
        subkey: &[u8],
    ) -> Outcome<Option<Value>> {
        self.value_of_part(key, &life.stored_part(space, subkey)).await
    }

    /// The value of the part of `member`, which is placed in `space`, of the row of `key`, whose `life` it is.
    ///
    /// # Errors
    /// As [`Context::get`].
    pub async fn member_part(&mut self, key: &[u8], life: Life, space: u8, member: &[u8]) -> Outcome<Option<Value>> {
        self.value_of_part(key, &life.stored_member(space, member)).await
    }

    async fn value_of_part(&mut self, key: &[u8], stored: &StoredKey) -> Outcome<Option<Value>> {
        let books = !self.is_locked;
        let row = self.read(Asked::Part(key, stored), books).await?.and_then(Row::into_string);
        Ok(row.map(|row| row.value))
    }

    /// Up to `limit` of `subkeys` of the row of `key`, whose `life` it is, including what the command itself has
    /// written. The work is bounded: a page may be empty although more parts follow.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub async fn parts(&mut self, key: &[u8], life: Life, subkeys: Subkeys, limit: usize) -> Outcome<PartsPage> {
        let page = self.stored_parts(key, life, subkeys, limit).await?;
        self.copied_parts(page.iter().len());
        self.copied_values(page.iter().len());
        Ok(page.into_owned())
    }

    /// As [`Context::parts`], without a copy of each part.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub(crate) async fn stored_parts(
        &mut self,
        key: &[u8],
        life: Life,
        subkeys: Subkeys,
        limit: usize,
    ) -> Outcome<StoredPartsPage> {
        self.pay_for_page().await?;
        let space = subkeys.space;
        let range = subkeys.range(life);
        let limit = limit.max(1);
        let in_hand = self.draft.is_of_several().then(|| self.draft.ahead().find(&range, limit)).flatten();
        let page = match in_hand {
            Some(page) => page,
            None => self.read_parts(key, &range, limit).await?,
        };
        self.call.bill.scanned_parts(&page.passed, page.parts.len());
        let page = if self.draft.is_empty() { page } else { with_own(&mut self.draft, page, &range, limit) };
        let at = Life::SUBKEY_AT;
        let next = page.next.map(|PartRange { from, to, reverse }| {
            let end = life.space(space).1;
            let to = if to >= end { Bound::Unbounded } else { Bound::Excluded(to[at..].into()) };
            Subkeys { space, from: Bound::Included(from[at..].into()), to, reverse }
        });
        Ok(StoredPartsPage { parts: page.parts, subkey_at: at, next })
    }

    /// How many of `subkeys` the row of `key`, whose `life` it is, has. Counts all of them, in steps of `limit`.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub(crate) async fn count_parts(&mut self, key: &[u8], life: Life, subkeys: Subkeys, limit: usize) -> Outcome<u64> {
        let (mut count, mut left) = (0, Some(subkeys));
        while let Some(subkeys) = left.take_if(|_| !self.draft.is_empty()) {
            let page = self.stored_parts(key, life, subkeys, limit).await?;
            count += page.iter().len() as u64;
            left = page.next;
        }
        let mut left = left.map(|subkeys| subkeys.range(life));
        while let Some(range) = left {
            self.pay_for_page().await?;
            let page = match &self.moment {
                None => self.rows.count_parts(key, range, limit),
                Some(moment) => moment.count_parts(range, limit),
            };
            let page = letting_go(page, || self.host.replies().own_values()).await?;
            self.call.bill.scanned_parts(&page.passed, page.parts);
            count += page.parts as u64;
            left = page.next;
        }
        Ok(count)
    }

    /// Pays, before a page is read, if much is owed.
    async fn pay_for_page(&mut self) -> Outcome {
        // A command that holds rows does not wait, and what it reads is bounded.
        if !self.is_locked && self.host.must_pay(&mut self.call.bill) {
            self.host.pay_page(&mut self.call.bill).await?;
        } else if self.call.bill.work[Module::Page] > 0 {
            self.host.note_cost(&self.call.bill);
        }
        self.judged_read();
        Ok(())
    }

    async fn read_parts(&mut self, key: &[u8], range: &PartRange, limit: usize) -> Outcome<PartPage> {
        let is_kept = self.draft.is_of_several() && self.is_locked;
        let wanted = if is_kept { self.draft.ahead().wanted(limit) } else { limit };
        let page = match &self.moment {
            None => self.rows.parts(key, range.clone(), wanted),
            Some(moment) => moment.parts(range.clone(), wanted),
        };
        let page = letting_go(page, || self.host.replies().own_values()).await?;
        Ok(if is_kept { self.draft.ahead().keep(range, page, limit) } else { page })
    }

    /// Sets the value of the part at `subkey`. The part lives as long as its row: no part expires by itself.
    ///
    /// # Errors
    /// The subkey is too long, or the value.
    pub fn put_part(&mut self, life: Life, space: u8, subkey: &[u8], value: &[u8]) -> Outcome {
        check_subkey(subkey)?;
        check_value(value)?;
        self.call.longest = self.call.longest.max(value.len());
        self.draft.push_part(life, space, Change::Put { key: subkey, value, expire_at_ms: None });
        Ok(())
    }

    /// Sets the value of the part of `member`, which is placed in `space`.
    ///
    /// # Errors
    /// The member is too long, or the value.
    pub fn put_member_part(&mut self, life: Life, space: u8, member: &[u8], value: &[u8]) -> Outcome {
        check_member(member)?;
        check_value(value)?;
        self.call.longest = self.call.longest.max(value.len());
        self.draft.push_member(life, space, Change::Put { key: member, value, expire_at_ms: None });
        Ok(())
    }

    /// Deletes the part of `member`, which is placed in `space`.
    ///
    /// # Errors
    /// The member is too long.
    pub fn delete_member_part(&mut self, life: Life, space: u8, member: &[u8]) -> Outcome {
        check_member(member)?;
        self.draft.push_member(life, space, Change::Delete { key: member });
        Ok(())
    }

    /// Deletes the part at `subkey`.
    ///
    /// # Errors
    /// The subkey is too long.
    pub fn delete_part(&mut self, life: Life, space: u8, subkey: &[u8]) -> Outcome {
        check_subkey(subkey)?;
        self.draft.push_part(life, space, Change::Delete { key: subkey });
        Ok(())
    }
}

impl Context<'_> {
    /// Deletes the agenda's entry with the stored key `entry`, which belongs to no row.
    pub(crate) fn forget_agenda(&mut self, entry: &[u8]) {
        self.draft.push(Change::Delete { key: entry });
    }
}

fn head_of(row: Option<Row>, kind: RowType) -> Outcome<Option<(Head, Option<u64>)>> {
    match row {
        None => Ok(None),
        Some(Row { content: Content::Parts(head), expire_at_ms }) if head.kind == kind => {
            Ok(Some((*head, expire_at_ms)))
        }
        Some(_) => Err(WRONG_TYPE),
    }
}

fn check_subkey(subkey: &[u8]) -> Outcome {
    if subkey.len() > SUBKEY_BYTES_MAX { Err(KEY_TOO_LONG) } else { Ok(()) }
}

fn check_member(member: &[u8]) -> Outcome {
    if member.len() > SUBKEY_BYTES_MAX - PLACE_BYTES { Err(KEY_TOO_LONG) } else { Ok(()) }
}

/// `page`, which is a step through `range`, with the changes of `draft`.
fn with_own(draft: &mut Draft, page: PartPage, range: &PartRange, limit: usize) -> PartPage {
    let PartPage { parts, next, passed } = page;
    // The part of the range that the page covers; `next` goes on behind it.
    let (from, to) = match &next {
        None => (&range.from, &range.to),
        Some(rest) if range.reverse => (&rest.to, &range.to),
        Some(rest) => (&range.from, &rest.from),
    };
    let own = draft.last_in(&from[..]..&to[..]);
    let own: Box<dyn Iterator<Item = Change<'_>>> = if range.reverse { Box::new(own.rev()) } else { Box::new(own) };
    let mut own = own.peekable();
    if own.peek().is_none() && parts.len() <= limit {
        drop(own);
        return PartPage { parts, next, passed };
    }
    let (mut stored, mut all) = (parts.iter().peekable(), StoredParts::default());
    // One part more than wanted tells whether there are more. The loop is bounded, because a command may have written
    // very many.
    while all.len() <= limit {
        let order = match (own.peek(), stored.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(change), Some(part)) if range.reverse => part.key.cmp(change.key()),
            (Some(change), Some(part)) => change.key().cmp(part.key),
        };
        if order.is_ge()
            && let Some(part) = stored.next().filter(|_| order.is_gt())
        {
            all.push_stored(part);
        }
        if order.is_le()
            && let Some(Change::Put { key, value, .. }) = own.next()
        {
            all.push(key, value);
        }
    }
    drop(own);
    let mut page = PartPage { parts: all, next, passed };
    if let Some(first_left) = page.parts.get(limit).map(|part| part.key.to_vec()) {
        page.parts.truncate(limit);
        let last = page.parts.last().expect("a limit is at least 1").key.to_vec();
        page.next = Some(match range.reverse {
            true => PartRange { from: range.from.clone(), to: last, reverse: true },
            false => PartRange { from: first_left, to: range.to.clone(), reverse: false },
        });
    }
    page
}
