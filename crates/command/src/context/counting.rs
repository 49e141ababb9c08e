//! Counts of sorted sets that are brought up to date only after several commands have run.

use super::Context;
use crate::uncounted::CountChange;
use weir_model::parts::Life;

impl Context<'_> {
    /// A member of the sorted set of `key`, whose `life` it is, has come to `place` in the set's order (`more` is 1),
    /// or has gone from there (-1). The change has yet to be counted. To be called after the change itself.
    pub(crate) fn note_uncounted(&mut self, key: &[u8], life: Life, place: Vec<u8>, more: i64) {
        let at = self.draft.mark();
        self.draft.uncounted_mut().note((self.call.database, key, life), at, place, more);
    }

    /// Takes the changes of counts that are noted for the life `life` of a row; the caller has to count them.
    pub(crate) fn take_uncounted(&mut self, life: Life) -> Vec<CountChange> {
        self.draft.uncounted_mut().take(life)
    }

    /// Whether the caller counts the changes that this command notes.
    pub(crate) fn counts_later(&self) -> bool {
        self.call.counts_later
    }
}
