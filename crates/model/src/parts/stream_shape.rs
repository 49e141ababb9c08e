//! Streams as wholes ([`super::shape`]), and how they are laid out in parts ([`super::stream`]).

use std::collections::BTreeMap;

use super::stream::{self, ConsumerValue, EntryId, GroupValue, PendingValue, StreamDetail};

/// Space, subkey and value of each part.
pub(super) type Parts = Vec<(u8, Vec<u8>, Vec<u8>)>;

/// A stream as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamShape {
    /// The words of each entry: each field is followed by its value.
    pub entries: BTreeMap<EntryId, Vec<Vec<u8>>>,
    /// The last entry that was ever added.
    pub last: EntryId,
    /// The largest entry that was deleted by its id.
    pub max_deleted: EntryId,
    /// How many entries were ever added.
    pub added: u64,
    /// Groups by name.
    pub groups: BTreeMap<Vec<u8>, GroupShape>,
}

/// A group of consumers as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupShape {
    /// The last entry that was delivered to somebody as a new one.
    pub delivered: EntryId,
    /// How many entries the group has read; `None` = unknown.
    pub read: Option<u64>,
    /// When each consumer last asked for something, in milliseconds since 1970.
    pub consumers: BTreeMap<Vec<u8>, u64>,
    /// Entries delivered and not acknowledged, each to one of the consumers.
    pub pending: BTreeMap<EntryId, PendingValue>,
}

impl StreamShape {
    /// The detail of the stream's head.
    pub(super) fn detail(&self) -> StreamDetail {
        StreamDetail {
            first: self.entries.keys().next().copied().unwrap_or_default(),
            last: self.last,
            max_deleted: self.max_deleted,
            added: self.added,
            groups: self.groups.len() as u64,
        }
    }

    /// Space, subkey and value of each part, in the order of their keys.
    pub(super) fn parts(&self) -> Parts {
        let words = |words: &Vec<Vec<u8>>| stream::entry_value(words.iter().map(Vec::as_slice));
        let mut parts: Parts =
            self.entries.iter().map(|(id, entry)| (stream::ENTRIES, id.subkey(), words(entry))).collect();
        for (name, group) in &self.groups {
            let value = GroupValue {
                delivered: group.delivered,
                read: group.read,
                pending: group.pending.len() as u64,
                consumers: group.consumers.len() as u64,
            };
            parts.push((stream::GROUPS, name.clone(), value.encode()));
            for (consumer, &seen_ms) in &group.consumers {
                let pending = group.pending.values().filter(|pending| pending.consumer == *consumer).count() as u64;
                let value = ConsumerValue { seen_ms, pending };
                parts.push((stream::CONSUMERS, stream::consumer_subkey(name, consumer), value.encode()));
            }
            for (&id, pending) in &group.pending {
                parts.push((stream::PENDING, stream::pending_subkey(name, id), pending.encode()));
                let subkey = stream::pending_of_subkey(name, &pending.consumer, id);
                parts.push((stream::PENDING_OF, subkey, Vec::new()));
            }
        }
        parts.sort_unstable();
        parts
    }

    /// The stream with these parts, if they make up one. Parts that follow from others are not checked.
    pub(super) fn of(detail: &[u8], parts: &Parts) -> Option<Self> {
        let StreamDetail { last, max_deleted, added, .. } = StreamDetail::decode(detail)?;
        let mut whole = Self { last, max_deleted, added, ..Self::default() };
        for (space, subkey, value) in parts {
            let in_group = |groups: &mut BTreeMap<Vec<u8>, GroupShape>,
                            put: &dyn Fn(&mut GroupShape, &[u8]) -> bool| {
                let (group, rest) = stream::split_group(subkey)?;
                groups.get_mut(&group).map(|group| put(group, rest)).filter(|is_new| *is_new)
            };
            match *space {
                stream::ENTRIES => {
                    let words = stream::entry_words(value)?.into_iter().map(<[u8]>::to_vec);
                    whole.entries.insert(EntryId::of_subkey(subkey)?, words.collect());
                }
                stream::GROUPS => {
                    let GroupValue { delivered, read, .. } = GroupValue::decode(value)?;
                    let group = GroupShape { delivered, read, ..GroupShape::default() };
                    whole.groups.insert(subkey.clone(), group);
                }
                stream::CONSUMERS => {
                    let seen_ms = ConsumerValue::decode(value)?.seen_ms;
                    in_group(&mut whole.groups, &|group, name| group.consumers.insert(name.into(), seen_ms).is_none())?;
                }
                stream::PENDING => {
                    let pending = PendingValue::decode(value)?;
                    in_group(&mut whole.groups, &|group, id| {
                        let id = EntryId::of_subkey(id);
                        id.is_some_and(|id| group.pending.insert(id, pending.clone()).is_none())
                    })?;
                }
                // This part follows from the rest.
                _ => {}
            }
        }
        Some(whole)
    }
}
