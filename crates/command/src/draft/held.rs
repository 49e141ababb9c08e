//! Heads that are held back.
//!
//! Commands that run as one often write the head of the same row one after the other, and only the last of these heads
//! is ever seen. So while the next command is known to be about the same row, the head that a command leaves stands
//! here, and not among the changes. The next command finds it here, without decoding it, and leaves another in its
//! place; the first one is then never encoded. It has cost what a change costs, and is left out like one.
//!
//! A head is written where another kind of change of its row follows, or when the commands go on to other rows.

use std::ops::Range;

use weir_model::parts::Head;
use weir_model::{BatchMark, BatchRef, Change};

use super::Draft;

/// A head that is not among the changes yet.
#[derive(Clone, Debug)]
struct Held {
    /// The stored key of the row.
    key: Vec<u8>,
    head: Head,
    expire_at_ms: Option<u64>,
    /// The number of the command that has put the head.
    by: usize,
    /// How many bytes the change would take in a batch.
    encoded_len: u64,
    /// Bytes of the key and of the encoded head.
    bytes: u64,
}

impl Held {
    /// The life of the row, if its parts have keys of their own.
    fn life(&self) -> Option<u64> {
        life_in(&self.head)
    }
}

/// The head that is held back, and what became of those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldHeads {
    now: Option<Held>,
    /// The running command has put `now`.
    is_own: bool,
    /// The head is of a spread row, nothing was written since it was put, and nobody has looked at it.
    is_fresh: bool,
    /// What the running command has found in `now`, and replaced or written.
    before: Option<Held>,
    /// Where `before` stands among the changes, and where it ends, if it was written and not replaced.
    written: Option<(BatchMark, BatchMark)>,
    /// Memory for the key of the next head.
    spare: Vec<u8>,
    /// The number of the running command.
    by: usize,
    /// The head that the running command leaves is to be held back.
    holds: bool,
    /// Heads that were replaced: the number of the command that has put each, and the bytes it would take in a batch.
    replaced: Vec<(usize, u64)>,
    /// Heads that were written after the command that has put them: the place of each, in order, and the number of that
    /// command.
    late: Vec<(BatchMark, usize)>,
}

impl HeldHeads {
    /// How many heads were replaced, which would else be among the changes.
    pub fn replaced_len(&self) -> usize {
        self.replaced.len()
    }

    /// Whether no head is held back.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.now.is_none()
    }

    /// A change is added.
    #[inline]
    pub fn change_follows(&mut self) {
        self.is_fresh = false;
    }

    /// The running command is not taken back any more.
    fn end_command(&mut self) {
        self.is_own = false;
        if let Some(before) = self.before.take() {
            if self.written.take().is_none() {
                self.replaced.push((before.by, before.encoded_len));
            }
            self.spare = before.key;
        }
    }

    fn of(&self, database: u8, key: &[u8]) -> Option<&Held> {
        self.now.as_ref().filter(|held| held.key.split_first() == Some((&database, key)))
    }

    /// Drops the head that is held back, if an earlier command has put it, and if a change that leaves `life` has the
    /// same effect without it. Tells whether it did.
    fn replace(&mut self, life: Option<u64>) -> bool {
        if self.is_own {
            return false;
        }
        // The code that applies the end of a life has to see it.
        let goes = self.now.take_if(|held| held.life().is_none() || held.life() == life);
        let Some(held) = goes else { return false };
        self.before = Some(held);
        true
    }

    fn put(&mut self, (database, key): (u8, &[u8]), head: &Head, expire_at_ms: Option<u64>) {
        let (key_len, head_len) = (1 + key.len(), head.encoded_len());
        let encoded_len = Change::encoded_head_len(key_len, head_len, expire_at_ms) as u64;
        let (by, bytes) = (self.by, (key_len + head_len) as u64);
        let mut stored = std::mem::take(&mut self.spare);
        stored.clear();
        stored.push(database);
        stored.extend_from_slice(key);
        self.now = Some(Held { key: stored, head: head.clone(), expire_at_ms, by, encoded_len, bytes });
        self.is_own = true;
        // As with a head that is kept behind the last change.
        self.is_fresh = head.packed.is_none();
    }

    /// `held` was written between the two marks.
    fn wrote(&mut self, held: Held, (from, to): (BatchMark, BatchMark)) {
        if std::mem::take(&mut self.is_own) {
            self.spare = held.key;
            return;
        }
        self.late.push((from, held.by));
        self.before = Some(held);
        self.written = Some((from, to));
    }

    /// The running command, which began at `mark`, is taken back.
    pub fn rewind(&mut self, mark: BatchMark) {
        if std::mem::take(&mut self.is_own) {
            self.now = None;
        }
        if let Some(before) = self.before.take() {
            self.now = Some(before);
            self.written = None;
        }
        self.late.truncate(self.late.partition_point(|&(place, _)| place < mark));
        self.is_fresh = false;
    }
}

impl Draft {
    /// The command with the number `by` begins. If it `holds_head`, the command after it is about the same row, and
    /// about no other: the head that it leaves may be held back. The commands before it are not taken back any more.
    pub fn begin_command(&mut self, by: usize, holds_head: bool) {
        if !self.holds_heads() {
            self.write_held();
        }
        if holds_head || self.more.is_some() {
            let held = &mut self.more().held;
            held.end_command();
            (held.by, held.holds) = (by, holds_head);
        }
    }

    /// Whether the head that the running command leaves is to be held back.
    #[inline]
    pub(crate) fn holds_heads(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.held.holds)
    }

    /// Adds the head that is held back, if there is one, to the changes. From now on none is held back.
    pub fn write_held(&mut self) {
        let Some(more) = &mut self.more else { return };
        more.held.end_command();
        more.held.holds = false;
        self.write_head();
        if let Some(more) = &mut self.more {
            more.held.end_command();
        }
    }

    /// The same in the midst of a command.
    fn write_head(&mut self) {
        let Some(more) = &mut self.more else { return };
        let Some(held) = more.held.now.take() else { return };
        let (is_fresh, from) = (more.held.is_fresh, self.batch.mark());
        self.begin_change();
        let head = held.head.encode();
        self.batch.push(Change::Head { key: &held.key, head: &head, expire_at_ms: held.expire_at_ms });
        if is_fresh {
            self.keep_head(&held.head, held.expire_at_ms);
        }
        let to = self.batch.mark();
        self.more().held.wrote(held, (from, to));
    }

    /// The same if the head's key is in `keys`.
    pub(super) fn write_head_in(&mut self, keys: &Range<&[u8]>) {
        let held = self.more.as_ref().and_then(|more| more.held.now.as_ref());
        if held.is_some_and(|held| keys.contains(&&held.key[..])) {
            self.write_head();
        }
    }

    /// Makes way for a change of the row of `key` in the database with this number. The change leaves `life`.
    #[inline]
    pub(super) fn make_way(&mut self, database: u8, key: &[u8], life: impl FnOnce() -> Option<u64>) {
        let Some(more) = &mut self.more else { return };
        if more.held.of(database, key).is_some() && !more.held.replace(life()) {
            self.write_head();
        }
    }

    /// Holds back the head of `key` in the database with this number, whose row expires at `expire_at_ms`. No field of
    /// the row expires by itself.
    pub(crate) fn hold_head(&mut self, database: u8, key: &[u8], head: &Head, expire_at_ms: Option<u64>) {
        self.make_way(database, key, || life_in(head));
        // There is none any more, unless it is the head of another row.
        self.write_head();
        let more = self.more();
        more.head = None;
        more.held.put((database, key), head, expire_at_ms);
    }

    /// The head of `key` in the database with this number, and when the row expires, if the head is held back.
    pub(crate) fn held_head(&self, database: u8, key: &[u8]) -> Option<(&Head, Option<u64>)> {
        let held = self.more.as_ref()?.held.of(database, key)?;
        Some((&held.head, held.expire_at_ms))
    }

    /// Whether the head that is held back is looked at for the first time since it was put, with nothing written in
    /// between. Such a look costs no decoding; any other is counted as if the head had been decoded.
    pub(crate) fn is_first_look(&mut self) -> bool {
        self.more.as_mut().is_some_and(|more| std::mem::take(&mut more.held.is_fresh))
    }

    /// The changes of the running command, which began at `mark`. A head that is held back is not among them.
    pub(crate) fn own_since(&self, mark: BatchMark) -> [BatchRef<'_>; 2] {
        // A head of an earlier command may stand amid them.
        let (from, to) = self.more.as_ref().and_then(|more| more.held.written).unwrap_or((mark, mark));
        [self.batch.between(mark, from), self.batch.since(to)]
    }

    /// The head that the running command has put, if it is held back: its bytes with those of its key, and the bytes
    /// that it would take in a batch.
    pub(crate) fn own_held(&self) -> Option<(u64, u64)> {
        let held = &self.more.as_ref()?.held;
        held.now.as_ref().filter(|_| held.is_own).map(|head| (head.bytes, head.encoded_len))
    }

    /// Heads that were held back and never written, of which [`Draft::settle`] tells if they are among the changes: the
    /// number of the command that has put each, and how many bytes it would take in a batch.
    pub fn unwritten_heads(&self) -> &[(usize, u64)] {
        match &self.more {
            Some(more) if !self.is_short() => &more.held.replaced,
            _ => &[],
        }
    }

    /// Takes the places of heads that were held back and stand behind changes of later commands: each place, in order,
    /// with the number of the command that has put the head.
    pub fn take_late_heads(&mut self) -> Vec<(BatchMark, usize)> {
        self.more.as_mut().map_or_else(Vec::new, |more| std::mem::take(&mut more.held.late))
    }
}

/// The life of a row with this head, if its parts have keys of their own.
fn life_in(head: &Head) -> Option<u64> {
    head.packed.is_none().then_some(head.version)
}
