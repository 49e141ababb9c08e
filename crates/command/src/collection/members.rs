//! Members: the fields of a hash, the members of a set or a sorted set. Each has a name, and is found by it.
//!
//! A small row keeps them in the order in which they came; a large one in the order of a hash that nobody knows.

use std::ops::Bound;

use weir_model::Value;
use weir_model::parts::{PLACE_BYTES, PackedPart, placed};

use super::Collection;
use crate::context::{Context, Part, Subkeys};
use crate::error::Outcome;
use crate::reply::Replies;

/// The order that members stand in.
pub(super) const SPACE: u8 = 0;

/// Members that are read between two turns.
const PAGE_MEMBERS: usize = 500;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Vec<u8>,
    /// What it has: the value of a field, the score of a member of a sorted set.
    pub value: Value,
    /// First millisecond since 1970 at which it no longer exists; `None` = it stays as long as its row.
    pub expire_at_ms: Option<u64>,
}

impl Member {
    pub(super) fn packed(part: PackedPart<'_>) -> Self {
        Self { name: part.subkey.into(), value: part.value.to_vec().into(), expire_at_ms: part.expire_at_ms }
    }

    fn spread(Part { mut subkey, value, expire_at_ms }: Part) -> Self {
        subkey.drain(..PLACE_BYTES.min(subkey.len()));
        Self { name: subkey, value, expire_at_ms }
    }

    fn bytes(&self) -> i64 {
        (self.name.len() + self.value.len()) as i64
    }
}

/// A step through the members.
pub struct MembersPage {
    /// Some of them.
    pub members: Vec<Member>,
    /// Where to go on: a number for a client, who may come again with it at any time; `None` at the end.
    pub next: Option<u32>,
}

impl Collection<'_> {
    /// The member that is called `name`.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn member(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<Member>> {
        match self.packed() {
            Some(packed) => Ok(packed.get(SPACE, name).map(Member::packed)),
            None => {
                let part = cx.part(self.key, self.life(), SPACE, &placed(self.head.version, name)).await?;
                Ok(part.map(Member::spread))
            }
        }
    }

    /// Puts a member in the place of `before`, which is the one with its name, if there is one.
    ///
    /// # Errors
    /// The name is too long.
    pub fn put_member(
        &mut self,
        cx: &mut Context<'_>,
        before: Option<&Member>,
        name: &[u8],
        value: &[u8],
        expire_at_ms: Option<u64>,
    ) -> Outcome {
        let bytes = (name.len() + value.len()) as i64;
        self.count(i64::from(before.is_none()), bytes - before.map_or(0, Member::bytes));
        if self.packed().is_none() {
            return cx.put_part(self.life(), SPACE, &placed(self.head.version, name), value, expire_at_ms);
        }
        self.change_packed(cx, |packed| {
            packed.put(PackedPart { space: SPACE, subkey: name, value, expire_at_ms });
        })
    }

    /// Takes `member`, which is there, out.
    ///
    /// # Errors
    /// Of the batch.
    pub fn remove_member(&mut self, cx: &mut Context<'_>, member: &Member) -> Outcome {
        self.count(-1, -member.bytes());
        if self.packed().is_none() {
            return cx.delete_part(self.life(), SPACE, &placed(self.head.version, &member.name));
        }
        self.change_packed(cx, |packed| {
            packed.remove(SPACE, &member.name);
        })
    }

    /// Some members from the place `from` on: about `limit`, all where they are packed. Members that are there all the
    /// time are met by whoever goes on until the end.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn members_from(&self, cx: &mut Context<'_>, from: u32, limit: usize) -> Outcome<MembersPage> {
        if let Some(packed) = self.packed() {
            return Ok(MembersPage { members: packed.iter().map(Member::packed).collect(), next: None });
        }
        let mut left = Some(Subkeys { from: Bound::Included(from.to_be_bytes().into()), ..Subkeys::all(SPACE) });
        let (mut members, mut last) = (Vec::new(), from);
        while let Some(subkeys) = left {
            let page = cx.parts(self.key, self.life(), subkeys, limit).await?;
            left = page.next;
            for part in page.parts {
                last = place(&part.subkey);
                members.push(Member::spread(part));
            }
            // A number tells places apart, and no members of one place: those are given together.
            let next = left.as_ref().and_then(|left| match &left.from {
                Bound::Included(subkey) => Some(place(subkey)),
                _ => None,
            });
            if let Some(next) = next.filter(|&next| next > last) {
                return Ok(MembersPage { members, next: Some(next) });
            }
        }
        Ok(MembersPage { members, next: None })
    }

    /// Hands name and value of every member to `tell`, which writes to the answer. What is answered leaves meanwhile,
    /// however many there are.
    ///
    /// # Errors
    /// They cannot be read; whoever asked is gone.
    pub async fn tell_members(
        &self,
        cx: &mut Context<'_>,
        mut tell: impl FnMut(&mut Replies, &[u8], &[u8]),
    ) -> Outcome {
        if let Some(packed) = self.packed() {
            let replies = cx.replies();
            packed.iter().for_each(|part| tell(replies, part.subkey, part.value));
            return Ok(());
        }
        let mut left = Some(Subkeys::all(SPACE));
        while let Some(subkeys) = left {
            let page = cx.parts(self.key, self.life(), subkeys, PAGE_MEMBERS).await?;
            left = page.next;
            let replies = cx.replies();
            for part in &page.parts {
                tell(replies, part.subkey.get(PLACE_BYTES..).unwrap_or_default(), &part.value);
            }
            cx.drain().await?;
            cx.yields().now().await;
        }
        Ok(())
    }
}

fn place(subkey: &[u8]) -> u32 {
    subkey.first_chunk().map_or(u32::MAX, |place| u32::from_be_bytes(*place))
}
