//! Counts of sorted sets that are left until several commands have run.

use super::Context;
use crate::uncounted::CountChange;
use weir_model::parts::Life;

impl Context<'_> {
    /// A member of the sorted set of `key`, whose `life` it is, has come to `place` in its order (`more` is 1), or has
    /// gone from there (-1). It is yet to be counted. To be said behind the change itself.
    pub(crate) fn note_uncounted(&mut self, key: &[u8], life: Life, place: Vec<u8>, more: i64) {
        let at = self.draft.mark();
        self.draft.uncounted_mut().note((self.call.database, key, life), at, place, more);
    }

    /// What is yet to be counted in the life `life` of a row: it is in the hands of the caller.
    pub(crate) fn take_uncounted(&mut self, life: Life) -> Vec<CountChange> {
        self.draft.uncounted_mut().take(life)
    }

    /// Whether somebody else counts what this command notes.
    pub(crate) fn counts_later(&self) -> bool {
        self.call.counts_later
    }
}
