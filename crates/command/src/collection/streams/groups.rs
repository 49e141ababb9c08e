//! Groups of consumers. Each entry is delivered to one consumer of a group, and is *pending* until this consumer
//! acknowledges it.

use std::collections::BTreeMap;
use std::ops::Bound;

use weir_model::parts::stream::{
    CONSUMERS, ConsumerValue, EntryId, GROUPS, GroupValue, PENDING, PENDING_OF, PendingValue, consumer_subkey,
    group_prefix, pending_of_prefix, pending_of_subkey, pending_subkey,
};

use super::{DAMAGED, PAGE_ENTRIES, Stream};
use crate::context::{Context, Subkeys};
use crate::error::{Error, Outcome};
use crate::events::Classes;

/// Longest name of a group or a consumer, in bytes: a subkey has to hold two of them, with every byte escaped, and an
/// id.
pub const NAME_BYTES_MAX: usize = 8 << 10;

/// Most pending entries that are removed at once with their group or consumer.
const ENDED_MAX: u64 = 100_000;
const TOO_MANY: Error =
    Error::new("ERR too many entries are pending: acknowledge some of them (XACK) until there are at most 100000");

/// A group, and those of its consumers that were looked at. [`Stream::save_group`] writes what was changed.
#[derive(Debug)]
pub struct Group {
    /// The group's name.
    pub name: Vec<u8>,
    /// What is stored of the group, with the changes so far.
    pub value: GroupValue,
    /// What is stored of the group, without these changes.
    stored: Option<GroupValue>,
    consumers: BTreeMap<Vec<u8>, Consumer>,
}

/// A consumer of a group.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    /// What is stored of the consumer, with the changes so far.
    pub value: ConsumerValue,
    /// What is stored of the consumer, without these changes.
    stored: Option<ConsumerValue>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry's id.
    pub id: EntryId,
    /// What is stored of the delivery.
    pub value: PendingValue,
}

impl Stream<'_> {
    /// The group called `name`.
    ///
    /// # Errors
    /// The group cannot be read.
    pub async fn group(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<Group>> {
        let Some(value) = self.row.ordered(cx, GROUPS, name).await? else { return Ok(None) };
        Group::stored(name, &value).map(Some)
    }

    /// A new group, which exists once it is saved.
    pub fn new_group(&mut self, name: &[u8], delivered: EntryId, read: Option<u64>) -> Group {
        self.detail.groups += 1;
        let value = GroupValue { delivered, read, ..GroupValue::default() };
        Group { name: name.into(), value, stored: None, consumers: BTreeMap::new() }
    }

    /// Writes what was changed of `group` and its consumers.
    ///
    /// # Errors
    /// As [`Context::put_part`].
    pub fn save_group(&mut self, cx: &mut Context<'_>, group: &mut Group) -> Outcome {
        for (name, consumer) in &mut group.consumers {
            if consumer.stored != Some(consumer.value) {
                let before = consumer.stored.map(|stored| stored.encode().len());
                let subkey = consumer_subkey(&group.name, name);
                self.row.put_ordered(cx, CONSUMERS, &subkey, before, &consumer.value.encode())?;
                consumer.stored = Some(consumer.value);
            }
        }
        if group.stored != Some(group.value) {
            let before = group.stored.map(|stored| stored.encode().len());
            self.row.put_ordered(cx, GROUPS, &group.name, before, &group.value.encode())?;
            group.stored = Some(group.value);
        }
        Ok(())
    }

    /// The consumer of `group` called `name`.
    ///
    /// # Errors
    /// The consumer cannot be read.
    pub async fn consumer<'g>(
        &self,
        cx: &mut Context<'_>,
        group: &'g mut Group,
        name: &[u8],
    ) -> Outcome<Option<&'g mut Consumer>> {
        if !group.consumers.contains_key(name) {
            let subkey = consumer_subkey(&group.name, name);
            let Some(value) = self.row.ordered(cx, CONSUMERS, &subkey).await? else { return Ok(None) };
            let value = ConsumerValue::decode(&value).ok_or(DAMAGED)?;
            group.consumers.insert(name.into(), Consumer { value, stored: Some(value) });
        }
        Ok(group.consumers.get_mut(name))
    }

    /// As [`Stream::consumer`], or a new consumer if there is none.
    ///
    /// # Errors
    /// The consumer cannot be read.
    pub async fn consumer_or_new<'g>(
        &self,
        cx: &mut Context<'_>,
        group: &'g mut Group,
        name: &[u8],
    ) -> Outcome<&'g mut Consumer> {
        if self.consumer(cx, group, name).await?.is_none() {
            group.value.consumers += 1;
            cx.tell(Classes::STREAM, "xgroup-createconsumer", self.row.key);
        }
        Ok(group.consumers.entry(name.into()).or_default())
    }

    /// What is stored of the entry with this id, if it is pending.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn pending(&self, cx: &mut Context<'_>, group: &Group, id: EntryId) -> Outcome<Option<PendingValue>> {
        let value = self.row.ordered(cx, PENDING, &pending_subkey(&group.name, id)).await?;
        value.map(|value| PendingValue::decode(&value).ok_or(DAMAGED)).transpose()
    }

    /// Makes `id` pending with `value`; before, it was pending with `before`, or not at all. A consumer that does not
    /// exist is made.
    ///
    /// # Errors
    /// A consumer cannot be read.
    pub async fn put_pending(
        &mut self,
        cx: &mut Context<'_>,
        group: &mut Group,
        id: EntryId,
        before: Option<&PendingValue>,
        value: &PendingValue,
    ) -> Outcome {
        if before.is_none_or(|before| before.consumer != value.consumer) {
            if let Some(before) = before {
                self.leave(cx, group, &before.consumer, id).await?;
            }
            self.consumer_or_new(cx, group, &value.consumer).await?.value.pending += 1;
            let subkey = pending_of_subkey(&group.name, &value.consumer, id);
            self.row.put_ordered(cx, PENDING_OF, &subkey, None, &[])?;
        }
        group.value.pending += u64::from(before.is_none());
        let before = before.map(|before| before.encode().len());
        self.row.put_ordered(cx, PENDING, &pending_subkey(&group.name, id), before, &value.encode())
    }

    /// Notes that `id` is not pending for `consumer` any more.
    async fn leave(&mut self, cx: &mut Context<'_>, group: &mut Group, consumer: &[u8], id: EntryId) -> Outcome {
        if let Some(consumer) = self.consumer(cx, group, consumer).await? {
            consumer.value.pending = consumer.value.pending.saturating_sub(1);
        }
        self.row.remove_ordered(cx, PENDING_OF, &pending_of_subkey(&group.name, consumer, id), 0)
    }

    /// Makes `id` no longer pending. It was pending with `value`.
    ///
    /// # Errors
    /// The consumer cannot be read.
    pub async fn end_pending(
        &mut self,
        cx: &mut Context<'_>,
        group: &mut Group,
        id: EntryId,
        value: &PendingValue,
    ) -> Outcome {
        self.leave(cx, group, &value.consumer, id).await?;
        group.value.pending = group.value.pending.saturating_sub(1);
        self.row.remove_ordered(cx, PENDING, &pending_subkey(&group.name, id), value.encode().len())
    }

    /// The pending entries of `group` from `from` to `to`; only those of `consumer`, if one is given.
    pub fn pending_range(&self, group: &Group, consumer: Option<&[u8]>, from: EntryId, to: EntryId) -> Subkeys {
        let (space, prefix) = match consumer {
            None => (PENDING, group_prefix(&group.name)),
            Some(consumer) => (PENDING_OF, pending_of_prefix(&group.name, consumer)),
        };
        let at = |id: EntryId| Bound::Included([&prefix[..], &id.subkey()].concat());
        Subkeys { space, from: at(from), to: at(to), reverse: false }
    }

    /// Up to `limit` pending entries of a [range](Stream::pending_range), and what is left of it. A page may be empty
    /// although more entries follow.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub async fn pending_page(
        &self,
        cx: &mut Context<'_>,
        group: &Group,
        range: Subkeys,
        limit: usize,
    ) -> Outcome<(Vec<Pending>, Option<Subkeys>)> {
        let is_of_group = range.space == PENDING;
        let page = self.row.ordered_page(cx, range, limit.min(PAGE_ENTRIES)).await?;
        let mut pending = Vec::with_capacity(page.parts.len());
        for part in page.parts {
            let id = pending_id(&part.subkey)?;
            let value = match is_of_group {
                true => PendingValue::decode(&part.value).ok_or(DAMAGED)?,
                false => self.pending(cx, group, id).await?.ok_or(DAMAGED)?,
            };
            pending.push(Pending { id, value });
        }
        Ok((pending, page.next))
    }

    /// As [`Stream::pending_page`], the ids alone of up to [`PAGE_ENTRIES`] of them.
    ///
    /// # Errors
    /// The entries cannot be read.
    pub async fn pending_ids(&self, cx: &mut Context<'_>, range: Subkeys) -> Outcome<(Vec<EntryId>, Option<Subkeys>)> {
        let page = self.row.ordered_page(cx, range, PAGE_ENTRIES).await?;
        Ok((page.parts.iter().map(|part| pending_id(&part.subkey)).collect::<Outcome<_>>()?, page.next))
    }

    /// Up to [`PAGE_ENTRIES`] groups whose names are behind `behind`, by name.
    ///
    /// # Errors
    /// The groups cannot be read.
    pub async fn groups_behind(&self, cx: &mut Context<'_>, behind: Option<&[u8]>) -> Outcome<Vec<Group>> {
        let from = behind.map_or(Bound::Unbounded, |behind| Bound::Excluded(behind.into()));
        let mut left = Some(Subkeys { from, ..Subkeys::all(GROUPS) });
        while let Some(subkeys) = left {
            let page = self.row.ordered_page(cx, subkeys, PAGE_ENTRIES).await?;
            if !page.parts.is_empty() {
                return page.parts.into_iter().map(|part| Group::stored(&part.subkey, &part.value)).collect();
            }
            left = page.next;
        }
        Ok(Vec::new())
    }

    /// Up to [`PAGE_ENTRIES`] consumers of `group` whose names are behind `behind`, by name.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn consumers_behind(
        &self,
        cx: &mut Context<'_>,
        group: &Group,
        behind: Option<&[u8]>,
    ) -> Outcome<Vec<(Vec<u8>, ConsumerValue)>> {
        let prefix = group_prefix(&group.name);
        let all = within(CONSUMERS, &prefix);
        let from = behind.map_or(all.from, |behind| Bound::Excluded([&prefix[..], behind].concat()));
        let mut left = Some(Subkeys { from, ..all });
        while let Some(subkeys) = left {
            let page = self.row.ordered_page(cx, subkeys, PAGE_ENTRIES).await?;
            if !page.parts.is_empty() {
                let consumers = page.parts.into_iter().map(|part| {
                    let name = part.subkey.get(prefix.len()..).ok_or(DAMAGED)?.to_vec();
                    Ok((name, ConsumerValue::decode(&part.value).ok_or(DAMAGED)?))
                });
                return consumers.collect();
            }
            left = page.next;
        }
        Ok(Vec::new())
    }

    /// Removes `group`, with its consumers and pending entries.
    ///
    /// # Errors
    /// There are too many of them, or they cannot be read.
    pub async fn end_group(&mut self, cx: &mut Context<'_>, group: &Group) -> Outcome {
        if group.value.pending.saturating_add(group.value.consumers) > ENDED_MAX {
            return Err(TOO_MANY);
        }
        let prefix = group_prefix(&group.name);
        for space in [CONSUMERS, PENDING, PENDING_OF] {
            let mut left = Some(within(space, &prefix));
            while let Some(subkeys) = left {
                let page = self.row.ordered_page(cx, subkeys, PAGE_ENTRIES).await?;
                for part in page.parts {
                    self.row.remove_ordered(cx, space, &part.subkey, part.value.len())?;
                }
                left = page.next;
                cx.yields().now().await;
            }
        }
        if let Some(stored) = group.stored {
            self.row.remove_ordered(cx, GROUPS, &group.name, stored.encode().len())?;
        }
        self.detail.groups = self.detail.groups.saturating_sub(1);
        Ok(())
    }

    /// Removes the consumer of `group` called `name`, with all entries that are pending for it; gives how many these
    /// were, or `None` if there is no such consumer.
    ///
    /// # Errors
    /// There are too many of them, or they cannot be read.
    pub async fn end_consumer(&mut self, cx: &mut Context<'_>, group: &mut Group, name: &[u8]) -> Outcome<Option<u64>> {
        let Some(&mut Consumer { value, stored }) = self.consumer(cx, group, name).await? else { return Ok(None) };
        if value.pending > ENDED_MAX {
            return Err(TOO_MANY);
        }
        let mut left = Some(self.pending_range(group, Some(name), EntryId::MIN, EntryId::MAX));
        while let Some(range) = left {
            let (pending, rest) = self.pending_page(cx, group, range, PAGE_ENTRIES).await?;
            for Pending { id, value } in pending {
                self.end_pending(cx, group, id, &value).await?;
            }
            left = rest;
            cx.yields().now().await;
        }
        group.consumers.remove(name);
        group.value.consumers = group.value.consumers.saturating_sub(1);
        if let Some(stored) = stored {
            self.row.remove_ordered(cx, CONSUMERS, &consumer_subkey(&group.name, name), stored.encode().len())?;
        }
        Ok(Some(value.pending))
    }
}

/// The id in the subkey of a pending entry.
fn pending_id(subkey: &[u8]) -> Outcome<EntryId> {
    subkey.last_chunk::<16>().and_then(|id| EntryId::of_subkey(id)).ok_or(DAMAGED)
}

/// All subkeys of `space` that begin with `prefix`. The prefix ends as escaped bytes do, so its last byte can be raised
/// by one.
fn within(space: u8, prefix: &[u8]) -> Subkeys {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    Subkeys { space, from: Bound::Included(prefix.into()), to: Bound::Excluded(end), reverse: false }
}

impl Group {
    fn stored(name: &[u8], value: &[u8]) -> Outcome<Self> {
        let value = GroupValue::decode(value).ok_or(DAMAGED)?;
        Ok(Self { name: name.into(), value, stored: Some(value), consumers: BTreeMap::new() })
    }

    /// Puts the consumer `name`, which the group must not have yet and which was last seen at `seen_ms` (milliseconds
    /// since 1970), into a group that comes as a whole: nobody is told.
    pub fn add_consumer(&mut self, name: &[u8], seen_ms: u64) {
        self.value.consumers += 1;
        let value = ConsumerValue { seen_ms, ..ConsumerValue::default() };
        self.consumers.insert(name.into(), Consumer { value, stored: None });
    }
}
