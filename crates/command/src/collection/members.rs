//! Members: the fields of a hash, the members of a set or a sorted set. Each has a name, and is found by it.
//!
//! A small row keeps its members in the order in which they came; a large one keeps them in the order of a hash that
//! nobody knows.

use std::ops::Bound;

use weir_model::Value;
use weir_model::parts::{ELEMENT_SPACE, PLACE_BYTES, PackedPart, RowType};

use super::Collection;
use crate::context::{Context, Part, Subkeys};
use crate::error::Outcome;
use crate::reply::Replies;
use crate::rows::Waiting;

/// How many members are read between two turns.
const PAGE_MEMBERS: usize = 500;

/// A member of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's name.
    pub name: Vec<u8>,
    /// The value of a field, or the score of a member of a sorted set; empty for a member of a set.
    pub value: Value,
    /// First millisecond since 1970 at which the member no longer exists; `None` = it lives as long as its row.
    pub expire_at_ms: Option<u64>,
}

impl Member {
    pub(super) fn packed(part: PackedPart<'_>) -> Self {
        Self { name: part.subkey.into(), value: Value::copy_of(part.value), expire_at_ms: part.expire_at_ms }
    }

    pub(super) fn spread(Part { mut subkey, value }: Part) -> Self {
        subkey.drain(..PLACE_BYTES.min(subkey.len()));
        Self { name: subkey, value, expire_at_ms: None }
    }

    /// Whether the member still exists at `now_ms`.
    pub fn lives(&self, now_ms: u64) -> bool {
        self.expire_at_ms.is_none_or(|at| at > now_ms)
    }

    pub(super) fn bytes(&self) -> i64 {
        (self.name.len() + self.value.len()) as i64
    }
}

/// A step through the members.
pub struct MembersPage {
    /// Some of the members.
    pub members: Vec<Member>,
    /// Where to go on, as a number for a client, which may come back with it at any time; `None` at the end.
    pub next: Option<u32>,
}

impl Context<'_> {
    /// The value of the member `name` of the row of `key`, which has to be of the type `kind`. For a command that reads
    /// nothing else: the row and the member are of the same moment, but what the command reads later need not be.
    ///
    /// # Errors
    /// As [`Context::collection`].
    pub async fn value_of_member(&mut self, key: &[u8], kind: RowType, name: &[u8]) -> Outcome<Option<Value>> {
        match self.member_at_once(key, kind, name) {
            Some(value) => Ok(value),
            None => self.value_step_by_step(key, kind, name).await,
        }
    }

    /// The same for a row and a member that are read one after the other. Its future is boxed, so that the futures of
    /// handlers, which mostly do without it, stay small.
    fn value_step_by_step<'c>(
        &'c mut self,
        key: &'c [u8],
        kind: RowType,
        name: &'c [u8],
    ) -> Waiting<'c, Outcome<Option<Value>>> {
        Box::pin(async move {
            let before = self.judge_behind(key);
            let found = self.member_in(key, kind, name).await;
            if self.was_one_moment(key, before) {
                return found;
            }
            self.member_in(key, kind, name).await
        })
    }

    async fn member_in(&mut self, key: &[u8], kind: RowType, name: &[u8]) -> Outcome<Option<Value>> {
        match self.collection(key, kind).await? {
            Some(collection) => collection.member_value(self, name).await,
            None => Ok(None),
        }
    }
}

impl Collection<'_> {
    /// Counts that the names of `members` members were copied out, and their values if they have values.
    pub(super) fn copied(&self, cx: &mut Context<'_>, members: usize) {
        cx.copied_parts(members);
        if self.kind() != RowType::Set {
            cx.copied_values(members);
        }
    }

    /// The member `name`.
    ///
    /// # Errors
    /// The member cannot be read.
    pub async fn member(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<Member>> {
        let now_ms = cx.now_ms();
        Ok(self.field(cx, name).await?.filter(|member| member.lives(now_ms)))
    }

    /// The value of the member `name`, without a copy of its name.
    ///
    /// # Errors
    /// The member cannot be read.
    pub async fn member_value(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<Value>> {
        let now_ms = cx.now_ms();
        let found = self.field_value(cx, name).await?;
        Ok(found.filter(|(_, expire_at_ms)| expire_at_ms.is_none_or(|at| at > now_ms)).map(|(value, _)| value))
    }

    /// Puts a member in the place of `before`, the member of the same name, if there is one.
    ///
    /// # Errors
    /// The name is too long.
    pub fn put_member(&mut self, cx: &mut Context<'_>, before: Option<&Member>, name: &[u8], value: &[u8]) -> Outcome {
        let bytes = (name.len() + value.len()) as i64;
        self.count(i64::from(before.is_none()), bytes - before.map_or(0, Member::bytes));
        if self.packed().is_none() {
            return cx.put_member_part(self.life(), ELEMENT_SPACE, name, value);
        }
        self.change_packed(cx, |packed| {
            packed.put(PackedPart { space: ELEMENT_SPACE, subkey: name, value, expire_at_ms: None });
        })
    }

    /// Takes out `member`, which has to be there.
    ///
    /// # Errors
    /// The name is too long.
    pub fn remove_member(&mut self, cx: &mut Context<'_>, member: &Member) -> Outcome {
        self.count(-1, -member.bytes());
        if self.packed().is_none() {
            return cx.delete_member_part(self.life(), ELEMENT_SPACE, &member.name);
        }
        self.change_packed(cx, |packed| {
            packed.remove(ELEMENT_SPACE, &member.name);
        })
    }

    /// Some members from the place `from` on: about `limit`, or all of them if the row is packed. A caller that goes on
    /// until the end meets every member that is there all the time.
    ///
    /// # Errors
    /// The members cannot be read.
    pub async fn members_from(&self, cx: &mut Context<'_>, from: u32, limit: usize) -> Outcome<MembersPage> {
        if let Some(packed) = self.packed() {
            let members: Vec<Member> = packed.iter().map(Member::packed).collect();
            cx.passed_packed(members.len());
            self.copied(cx, members.len());
            return Ok(MembersPage { members, next: None });
        }
        if self.has_mortal_parts() {
            return self.living_fields_from(cx, from, limit).await;
        }
        let (parts, next) = self.placed_from(cx, ELEMENT_SPACE, from, limit).await?;
        Ok(MembersPage { members: parts.into_iter().map(Member::spread).collect(), next })
    }

    /// Some placed parts of `space` from the place `from` on, about `limit` of them, and the place behind them.
    pub(super) async fn placed_from(
        &self,
        cx: &mut Context<'_>,
        space: u8,
        from: u32,
        limit: usize,
    ) -> Outcome<(Vec<Part>, Option<u32>)> {
        let limit = limit.max(1);
        let mut left = Some(Subkeys { from: Bound::Included(from.to_be_bytes().into()), ..Subkeys::all(space) });
        let mut parts: Vec<Part> = Vec::new();
        while let Some(subkeys) = left {
            // One part more than wanted tells where to go on.
            let page = cx.parts(self.key, self.life(), subkeys, limit + 1).await?;
            left = page.next;
            parts.extend(page.parts);
            // The number tells places apart, but not the members of one place, so these are returned together.
            let places = |at: usize| (place(&parts[at - 1].subkey), place(&parts[at].subkey));
            if let Some(end) = (limit..parts.len()).find(|&at| places(at).0 < places(at).1) {
                let next = places(end).1;
                parts.truncate(end);
                return Ok((parts, Some(next)));
            }
            // The work of a page is bounded, so it may have met few living parts.
            let next = left.as_ref().filter(|_| parts.len() <= limit).and_then(|left| match &left.from {
                Bound::Included(subkey) => Some(place(subkey)),
                _ => None,
            });
            let last = parts.last().map_or(from, |part| place(&part.subkey));
            if let Some(next) = next.filter(|&next| next > last) {
                return Ok((parts, Some(next)));
            }
        }
        Ok((parts, None))
    }

    /// Hands name and value of every member to `tell`, which writes them to the answer. The answer is sent while the
    /// row is read, however many members there are.
    ///
    /// # Errors
    /// The members cannot be read; the client is gone.
    pub async fn tell_members(
        &self,
        cx: &mut Context<'_>,
        mut tell: impl FnMut(&mut Replies, &[u8], &[u8]),
    ) -> Outcome {
        if let Some(packed) = self.packed() {
            cx.passed_packed(self.len() as usize);
            let replies = cx.replies();
            packed.iter().for_each(|part| tell(replies, part.subkey, part.value));
            return Ok(());
        }
        let mut next = Some(0).filter(|_| self.has_mortal_parts());
        while let Some(from) = next {
            let page = self.living_fields_from(cx, from, PAGE_MEMBERS).await?;
            next = page.next;
            let replies = cx.replies();
            page.members.iter().for_each(|field| tell(replies, &field.name, &field.value));
            cx.drain().await?;
            cx.yields().now().await;
        }
        let mut left = Some(Subkeys::all(ELEMENT_SPACE)).filter(|_| !self.has_mortal_parts());
        while let Some(subkeys) = left {
            let page = cx.stored_parts(self.key, self.life(), subkeys, PAGE_MEMBERS).await?;
            let replies = cx.replies();
            for part in page.iter() {
                tell(replies, part.key.get(PLACE_BYTES..).unwrap_or_default(), part.value);
            }
            left = page.next;
            cx.drain().await?;
            cx.end_step(left.is_some()).await;
        }
        Ok(())
    }
}

/// The place that a subkey begins with.
pub(super) fn place(subkey: &[u8]) -> u32 {
    subkey.first_chunk().map_or(u32::MAX, |place| u32::from_be_bytes(*place))
}
