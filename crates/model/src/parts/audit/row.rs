//! The audit of one row: its head against its parts, and each order against the others. The memory it takes does not
//! depend on how many parts there are.

use std::collections::BTreeSet;

use super::counts::CountsSeen;
use super::digest::{Digest, Runs};
use super::list::{self, ListSeen};
use super::{Flaw, flaw};
use crate::parts::fields::{DEADLINE_BYTES, DEADLINE_SPACE, MORTAL_SPACE, take_deadline};
use crate::parts::list::POSITION_BYTES;
use crate::parts::stream::{self, ConsumerValue, EntryId, GroupValue, PendingValue, StreamDetail};
use crate::parts::{
    HashDetail, HeadRef, MortalFields, OrderDetail, OrderEnds, PLACE_BYTES, Packed, RowType, place_of, score_of,
    score_value, take_bytes, take_f64,
};

/// The data of a head, and what its parts have added up to so far.
pub(super) struct RowAudit {
    kind: RowType,
    version: u64,
    count: u64,
    bytes: u64,
    detail: Vec<u8>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    count: u64,
    bytes: u64,
    /// Entries of the second order, where each part has one.
    others: u64,
    /// Digests of the parts of the first order that must be in the second too, and of the parts of the second order.
    orders: [Digest; 2],
    mortal: Option<MortalFields>,
    /// For a sorted set: the outermost places in its order.
    ends: Option<OrderEnds>,
    /// For a sorted set that has counts. Boxed, because it is large and many rows are audited side by side.
    counts: Option<Box<CountsSeen>>,
    list: ListSeen,
    stream: StreamSeen,
}

#[derive(Default)]
struct StreamSeen {
    first: Option<EntryId>,
    last: EntryId,
    groups: u64,
    /// Consumers by group, as the groups say and as they exist; pending entries by group, by consumer, and one by one.
    consumers: (Digest, Runs),
    pending: (Digest, Runs),
    pending_of: (Digest, Runs),
}

impl RowAudit {
    pub fn new(head: &HeadRef<'_>) -> Self {
        let HeadRef { kind, version, count, bytes, detail, .. } = *head;
        Self { kind, version, count, bytes, detail: detail.into(), seen: Seen::default() }
    }

    /// Audits a row that stands in its head.
    pub fn packed(head: &HeadRef<'_>, packed: &[u8]) -> Result<(), Flaw> {
        if !Packed::is_sound(packed) {
            return flaw("its packed parts are damaged");
        }
        let (packed, mut audit, mut names) = (Packed::of(packed), Self::new(head), BTreeSet::new());
        let mut last_score = f64::NEG_INFINITY;
        for part in packed.iter() {
            if head.kind != RowType::List && !names.insert((part.space, part.subkey)) {
                return flaw("it has the same part twice");
            }
            if part.expire_at_ms.is_some() && (head.kind, part.space) != (RowType::Hash, 0) {
                return flaw("a part that is not a field has a deadline");
            }
            match (head.kind, part.space) {
                (RowType::Hash | RowType::Set, 0) => {
                    audit.count_part(part.subkey.len() + part.value.len());
                    audit.note_deadline(part.expire_at_ms);
                }
                (RowType::SortedSet, 0) => {
                    let score = score_of(part.value).filter(|&score| score >= last_score);
                    last_score = score.ok_or(Flaw("its members are not in the order of their scores"))?;
                    audit.count_part(part.subkey.len() + part.value.len());
                }
                (RowType::List, 0) if part.subkey.is_empty() => {
                    audit.count_part(POSITION_BYTES as usize + part.value.len());
                }
                (RowType::Stream, space) => audit.of_stream(space, part.subkey, part.value)?,
                _ => return flaw("it has parts of a kind that its type does not have"),
            }
        }
        audit.finish(true)
    }

    fn count_part(&mut self, bytes: usize) {
        self.seen.count += 1;
        self.seen.bytes += bytes as u64;
    }

    fn note_deadline(&mut self, deadline: Option<u64>) {
        if let Some(at) = deadline {
            let seen = self.seen.mortal.unwrap_or(MortalFields { count: 0, first_ms: at, last_ms: at });
            let (first_ms, last_ms) = (seen.first_ms.min(at), seen.last_ms.max(at));
            self.seen.mortal = Some(MortalFields { count: seen.count + 1, first_ms, last_ms });
        }
    }

    /// Takes the next part of a row whose parts have keys of their own, in the order of the keys.
    pub fn part(&mut self, space: u8, subkey: &[u8], value: &[u8]) -> Result<(), Flaw> {
        match (self.kind, space) {
            (RowType::Hash, 0) => {
                let name = self.member(subkey)?;
                self.count_part(name.len() + value.len());
            }
            (RowType::Hash, MORTAL_SPACE) => {
                let name = self.member(subkey)?;
                let (at, value) = take_deadline(value).ok_or(Flaw("the deadline of a field is missing"))?;
                self.count_part(name.len() + value.len());
                self.note_deadline(Some(at));
                self.seen.orders[0].add(&[&at.to_be_bytes(), subkey]);
            }
            (RowType::Hash, DEADLINE_SPACE) if value.is_empty() && subkey.len() >= DEADLINE_BYTES => {
                let (at, field) = subkey.split_at(DEADLINE_BYTES);
                self.seen.orders[1].add(&[at, field]);
            }
            (RowType::List, 0) => {
                let detail = list::detail(&self.detail)?;
                let seen = self.seen.list.part(&detail, self.count, subkey, value)?;
                self.seen.count += seen.values;
                self.seen.bytes += seen.bytes;
            }
            (RowType::Set, 0) if value.is_empty() => {
                let name = self.member(subkey)?;
                self.count_part(name.len());
            }
            (RowType::SortedSet, 0) => {
                let name = self.member(subkey)?;
                score_of(value).ok_or(Flaw("a score is not a valid number"))?;
                self.count_part(name.len() + value.len());
                self.seen.orders[0].add(&[name, value]);
            }
            (RowType::SortedSet, 1) => {
                let mut name = subkey;
                let score = take_f64(&mut name).ok_or(Flaw("a score is not a valid number"))?;
                let score = match value {
                    [] => score,
                    [1] if score == 0.0 => -0.0,
                    _ => return flaw("the value stored with a score is damaged"),
                };
                self.seen.others += 1;
                match &mut self.seen.ends {
                    Some(ends) => ends.include(subkey),
                    None => self.seen.ends = Some(OrderEnds::of(subkey, subkey)),
                }
                let value = score_value(score).map_err(|_| Flaw("a score is not a valid number"))?;
                self.seen.orders[1].add(&[name, &value]);
            }
            (RowType::SortedSet, space) => self.seen.counts.get_or_insert_default().part(space, subkey, value)?,
            (RowType::Stream, space) => self.of_stream(space, subkey, value)?,
            _ => return flaw("it has parts of a kind that its type does not have"),
        }
        Ok(())
    }

    /// The member in a subkey, if it stands at the place that the row's version gives it.
    fn member<'k>(&self, subkey: &'k [u8]) -> Result<&'k [u8], Flaw> {
        let (place, name) = subkey.split_at_checked(PLACE_BYTES).ok_or(Flaw("the place of a member is missing"))?;
        if place != place_of(self.version, name).to_be_bytes() {
            return flaw("a member is stored at the wrong place");
        }
        Ok(name)
    }

    fn of_stream(&mut self, space: u8, subkey: &[u8], value: &[u8]) -> Result<(), Flaw> {
        const DAMAGED: Flaw = Flaw("a part of the stream is damaged");
        self.seen.bytes += (subkey.len() + value.len()) as u64;
        let seen = &mut self.seen.stream;
        match space {
            stream::ENTRIES => {
                let id = EntryId::of_subkey(subkey).ok_or(DAMAGED)?;
                stream::entry_words(value).ok_or(DAMAGED)?;
                seen.first.get_or_insert(id);
                seen.last = seen.last.max(id);
                self.seen.count += 1;
            }
            stream::GROUPS => {
                let group = GroupValue::decode(value).ok_or(DAMAGED)?;
                seen.groups += 1;
                Runs::expect(&mut seen.consumers.0, subkey, group.consumers, group.pending);
                Runs::expect(&mut seen.pending.0, subkey, group.pending, 0);
            }
            stream::CONSUMERS => {
                let (group, consumer) = stream::split_group(subkey).ok_or(DAMAGED)?;
                let pending = ConsumerValue::decode(value).ok_or(DAMAGED)?.pending;
                seen.consumers.1.add(&group, pending);
                Runs::expect(&mut seen.pending_of.0, &stream::pending_of_prefix(&group, consumer), pending, 0);
            }
            stream::PENDING => {
                let (group, id) = stream::split_group(subkey).ok_or(DAMAGED)?;
                let consumer = PendingValue::decode(value).ok_or(DAMAGED)?.consumer;
                seen.pending.1.add(&group, 0);
                self.seen.orders[0].add(&[&group, &consumer, id]);
            }
            stream::PENDING_OF if value.is_empty() => {
                let (group, mut id) = stream::split_group(subkey).ok_or(DAMAGED)?;
                let consumer = take_bytes(&mut id).ok_or(DAMAGED)?;
                seen.pending_of.1.add(&stream::pending_of_prefix(&group, &consumer), 0);
                self.seen.orders[1].add(&[&group, &consumer, id]);
            }
            _ => return flaw("it has parts of a kind that its type does not have"),
        }
        Ok(())
    }

    /// Ends the audit: there are no more parts.
    pub fn finish(self, is_packed: bool) -> Result<(), Flaw> {
        let Seen { count, bytes, others, orders, mortal, ends, counts, list, stream } = self.seen;
        if count != self.count {
            return flaw("the number of parts in its head is wrong");
        }
        if bytes != self.bytes {
            return flaw("the number of bytes in its head is wrong");
        }
        if count == 0 && self.kind != RowType::Stream {
            return flaw("it has no parts");
        }
        if orders[0] != orders[1] {
            return flaw("the two orders of its parts do not agree");
        }
        match self.kind {
            RowType::Hash => match HashDetail::decode(&self.detail) {
                Some(detail) if detail.mortal == mortal => Ok(()),
                _ => flaw("the deadlines in its head are not those of its fields"),
            },
            RowType::List if is_packed => list::detail(&self.detail).map(drop),
            RowType::List => list.check(&list::detail(&self.detail)?),
            RowType::Set => Ok(()),
            RowType::SortedSet if is_packed => Ok(()),
            RowType::SortedSet if others != count => flaw("the two orders of its parts do not agree"),
            RowType::SortedSet => {
                let detail = OrderDetail::decode(&self.detail).ok_or(Flaw("its head is damaged"))?;
                if detail.ends.is_some() && detail.ends != ends {
                    return flaw("the beginning and the end in its head are wrong");
                }
                counts.unwrap_or_default().check(count, &detail)
            }
            RowType::Stream => check_stream(&self.detail, stream),
        }
    }
}

fn check_stream(detail: &[u8], seen: StreamSeen) -> Result<(), Flaw> {
    let detail = StreamDetail::decode(detail).ok_or(Flaw("its head is damaged"))?;
    if detail.first != seen.first.unwrap_or_default() || detail.last < seen.last {
        return flaw("the beginning and the end in its head are wrong");
    }
    if detail.groups != seen.groups {
        return flaw("the number of groups in its head is wrong");
    }
    let agrees = [seen.consumers, seen.pending, seen.pending_of].map(|(told, runs)| told == runs.finish());
    if agrees == [true; 3] {
        Ok(())
    } else {
        flaw("the numbers of consumers and pending entries in its groups are wrong")
    }
}
