//! How many entries a group has read, and how many it has not: pure functions of the head of a stream.
//!
//! A stream counts the entries that were added to it. That tells how many entries are in front of an id, as long as no
//! entry in between was deleted. The largest id that was deleted tells whether one was; if so, the number is not known.

use weir_model::parts::stream::{EntryId, GroupValue, StreamDetail};

/// Whether an entry from `from` on may have been deleted by its id, behind the first existing entry.
fn has_gaps(detail: &StreamDetail, len: u64, from: EntryId) -> bool {
    let deleted = detail.max_deleted;
    len > 0 && deleted != EntryId::MIN && deleted >= detail.first && from <= deleted
}

/// How many entries were added up to `id`, which need not be that of an entry; `None` if that is not known.
pub fn added_up_to(detail: &StreamDetail, len: u64, id: EntryId) -> Option<u64> {
    let StreamDetail { first, last, max_deleted, added, .. } = *detail;
    if added == 0 {
        return Some(0);
    }
    // In an empty stream every id is behind all entries, and so is the last entry's id in any stream.
    if id == last || (len == 0 && id < last) {
        return Some(added);
    }
    if id > last {
        return None;
    }
    let is_whole = max_deleted == EntryId::MIN || max_deleted < first;
    if !is_whole || id > first {
        return None;
    }
    Some(added.saturating_sub(len).saturating_add(u64::from(id == first)))
}

/// How many entries a group has read that has just been given the new entry `id`.
pub fn read_with(detail: &StreamDetail, len: u64, read: Option<u64>, id: EntryId) -> Option<u64> {
    match read {
        Some(read) if !has_gaps(detail, len, id) => Some(read.saturating_add(1)),
        read if detail.added == 0 => read,
        _ => added_up_to(detail, len, id),
    }
}

/// How many entries `group` has yet to read; `None` if that is not known.
pub fn lag(detail: &StreamDetail, len: u64, group: &GroupValue) -> Option<i64> {
    if detail.added == 0 {
        return Some(0);
    }
    let read = match group.read {
        Some(read) if !has_gaps(detail, len, group.delivered) => Some(read),
        _ => added_up_to(detail, len, group.delivered),
    };
    // As in Redis, the difference wraps: clients and payloads may set both numbers to whatever they like.
    read.map(|read| detail.added.wrapping_sub(read) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(first: u64, last: u64, max_deleted: u64, added: u64) -> StreamDetail {
        let [first, last, max_deleted] = [first, last, max_deleted].map(|ms| EntryId::new(ms, 0));
        StreamDetail { first, last, max_deleted, added, groups: 1 }
    }

    #[test]
    fn what_was_added_is_known_at_the_ends_and_where_nothing_was_deleted() {
        let whole = detail(3, 9, 0, 10);
        let at = |ms| added_up_to(&whole, 5, EntryId::new(ms, 0));
        assert_eq!([1, 3, 5, 9, 10].map(at), [Some(5), Some(6), None, Some(10), None]);
        let holed = detail(3, 9, 5, 10);
        assert_eq!(added_up_to(&holed, 5, EntryId::new(3, 0)), None);
        assert_eq!(added_up_to(&detail(0, 0, 0, 0), 0, EntryId::new(3, 0)), Some(0));
        assert_eq!(added_up_to(&detail(0, 9, 9, 4), 0, EntryId::new(3, 0)), Some(4));
    }

    #[test]
    fn a_group_lags_by_what_it_has_not_read() {
        let group = |ms, read| GroupValue { delivered: EntryId::new(ms, 0), read, ..GroupValue::default() };
        let whole = detail(3, 9, 0, 10);
        assert_eq!(lag(&whole, 5, &group(4, Some(7))), Some(3));
        assert_eq!(lag(&whole, 5, &group(4, None)), None);
        assert_eq!(lag(&whole, 5, &group(9, None)), Some(0));
        assert_eq!(lag(&detail(3, 9, 5, 10), 4, &group(4, Some(7))), None);
        assert_eq!(read_with(&whole, 5, Some(6), EntryId::new(4, 0)), Some(7));
        assert_eq!(read_with(&whole, 5, None, EntryId::new(3, 0)), Some(6));
    }
}
