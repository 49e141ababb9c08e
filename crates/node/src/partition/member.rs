//! A member of a hash, a set or a sorted set that is found without waiting: the commonest reads of such rows ask for
//! one member, and most of them find all that they need in memory.

use weir_admission::Direction;
use weir_command::{LONG_VALUE_BYTES, MemberAtOnce};
use weir_model::Value;
use weir_model::engine::{Entry, Found, Kind, Lookup, Seq};
use weir_model::parts::{ELEMENT_SPACE, HeadRef, Life, PackedSearch, RowType};

use super::Partition;

/// What a row says of one of its members.
enum Told {
    /// All there is to know. The row's head has about this many bytes.
    All(MemberAtOnce, usize),
    /// If there is such a member, it is a part of this life. The head has about this many bytes.
    Part(Life, usize),
}

impl Partition {
    /// The member `name` of the row at `row`, as [`Rows::member_at_once`] says. The row's head is looked at where it
    /// stands.
    ///
    /// [`Rows::member_at_once`]: weir_command::Rows::member_at_once
    pub fn member_at_once(&self, row: &[u8], kind: RowType, name: &[u8], now_ms: u64) -> Option<MemberAtOnce> {
        let now = self.settled()?;
        let mut told = None;
        self.engine.see_latest(row, &mut |entry| told = member_in(entry, now, now_ms, (kind, name)));
        let (member, reads, bytes) = match told? {
            Told::All(member, bytes) => (member, 1, bytes),
            Told::Part(life, head_bytes) => {
                let Lookup::Ready(Some(Ok(found))) = self.engine.get_latest(&life.stored_member(ELEMENT_SPACE, name))
                else {
                    return None;
                };
                let value = match found.filter(|found| found.kind.is_value()) {
                    None => None,
                    Some(Found { kind: Kind::Put, expire_at_ms: 0, value, .. }) if value.len() < LONG_VALUE_BYTES => {
                        Some(value)
                    }
                    Some(_) => return None,
                };
                if self.settled() != Some(now) {
                    // Something was written meanwhile, and this may be a part of an earlier life of the row.
                    return None;
                }
                let bytes = head_bytes + value.as_deref().map_or(0, <[u8]>::len);
                (MemberAtOnce::Spread { head_bytes, value }, 2, bytes)
            }
        };
        self.account.book_user_together(Direction::Read, bytes as u64, reads);
        Some(member)
    }
}

/// What the row whose newest version is `entry` says of its member `name`; `None` if it has no simple answer. That is
/// so if the version is newer than `now`, if the row has expired (then whoever reads it deletes it) or is of another
/// type than `kind`, and if it has fields that expire.
fn member_in(entry: Option<Entry<'_>>, now: Seq, now_ms: u64, (kind, name): (RowType, &[u8])) -> Option<Told> {
    if entry.is_some_and(|entry| entry.seq > now) {
        return None;
    }
    let Some(entry) = entry.filter(|entry| entry.kind.is_value()) else {
        return Some(Told::All(MemberAtOnce::NoRow, 0));
    };
    if entry.kind != Kind::Head || entry.is_expired(now_ms) {
        return None;
    }
    let head = HeadRef::parse(entry.value).filter(|head| head.kind == kind && head.mortal().is_none())?;
    let head_bytes = head.stored_bytes();
    let Some(packed) = head.packed else { return Some(Told::Part(Life::new(head.version), head_bytes)) };
    let PackedSearch { found, passed, compared } = PackedSearch::new(packed, ELEMENT_SPACE, name);
    let value = found.map(|part| Value::copy_of(part.value));
    Some(Told::All(MemberAtOnce::Packed { head_bytes, passed, compared, value }, head_bytes))
}

#[cfg(test)]
mod tests;
