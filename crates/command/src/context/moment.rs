//! What a command reads is of one moment: a snapshot is held, or it is seen afterwards that nobody has written.

use weir_admission::request_units::Module;
use weir_model::{Content, Row};

use super::{Asked, Context};
use crate::error::Outcome;
use crate::in_hand::letting_go;

impl Context<'_> {
    /// All that is read from now on is of one moment: of what is committed now, where the row of `key` is. Nothing has
    /// to be done where rows are locked.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub async fn hold_moment(&mut self, key: &[u8]) -> Outcome {
        if !self.is_locked && self.moment.is_none() {
            self.call.bill.work.count(Module::Moment, 1);
            let moment = self.rows.moment(key);
            self.moment = letting_go(moment, || self.host.replies().own_values()).await?;
        }
        Ok(())
    }

    /// Whether all that it reads is of one moment.
    pub fn is_of_one_moment(&self) -> bool {
        self.is_locked || self.moment.is_some() || self.judged_reads.is_some()
    }

    /// Nothing is held for what is read of the row of `key` from now on, if that can be: whether it was of one moment,
    /// [`Context::was_one_moment`] says of what this gives. Mostly nothing is written meanwhile. Who has read at two
    /// moments reads again, and has answered nothing yet.
    pub(crate) fn judge_behind(&mut self, key: &[u8]) -> Option<u64> {
        let before = if self.is_of_one_moment() { None } else { self.rows.settled(key) };
        if before.is_some() {
            self.judged_reads = Some(0);
            self.call.bill.work.count(Module::Judged, 1);
        }
        before
    }

    /// Whether all that was read since [`Context::judge_behind`] gave `before` is of one moment: a single read always
    /// is. If not, it is forgotten, and to be [read anew](Context::read_anew). What is read from now on is judged by
    /// itself.
    pub(crate) fn was_one_moment(&mut self, key: &[u8], before: Option<u64>) -> bool {
        let reads = self.judged_reads.take().unwrap_or_default();
        let was = reads <= 1 || before.is_none_or(|before| self.rows.settled(key) == Some(before));
        if !was {
            self.read_anew();
        }
        was
    }

    /// The same where a command that has read some of the row `goes_on` to read the rest: a moment is held for that,
    /// and what was read before is to be of it.
    ///
    /// # Errors
    /// As [`Context::hold_moment`].
    pub(crate) async fn was_one_moment_so_far(
        &mut self,
        key: &[u8],
        before: Option<u64>,
        goes_on: bool,
    ) -> Outcome<bool> {
        if !goes_on || before.is_none() {
            // Where nothing was judged, a moment is held already, or need not be.
            return Ok(self.was_one_moment(key, before));
        }
        self.judged_reads = None;
        self.hold_moment(key).await?;
        let was = self.rows.settled(key) == before;
        if !was {
            self.read_anew();
            self.call.bill.work.count(Module::Moment, 1);
        }
        Ok(was)
    }

    /// One read more that is judged behind, where it is.
    #[inline]
    pub(crate) fn judged_read(&mut self) {
        if let Some(reads) = &mut self.judged_reads {
            *reads += 1;
        }
    }

    /// All that was read so far is forgotten, because it is not of one moment, and is read again: it counts and costs
    /// what it does then.
    pub(super) fn read_anew(&mut self) {
        self.host.let_go();
        self.call.bill.forget();
        (self.call.hits, self.call.misses) = (0, 0);
    }

    /// The row of `key`; where it has parts with keys of their own, all that is read from now on is of one moment, and
    /// the row as it is then: it may be gone, or another one. It counts and costs one look.
    ///
    /// # Errors
    /// As [`Context::get`].
    pub(crate) async fn row_of_one_moment(&mut self, key: &[u8]) -> Outcome<Option<Row>> {
        let (asked, books) = (Asked::Row(self.number(), key), !self.is_locked);
        let before = if self.is_of_one_moment() { None } else { self.rows.settled(key) };
        let mut row = self.fetch(asked, books).await?;
        let is_spread = |row: &Row| matches!(&row.content, Content::Parts(head) if head.packed.is_none());
        if !self.is_of_one_moment() && row.as_ref().is_some_and(is_spread) {
            self.hold_moment(key).await?;
            // Mostly nothing was written meanwhile, and the row is what it was.
            if before.is_none() || self.rows.settled(key) != before {
                row = self.fetch(asked, books).await?;
            }
        }
        Ok(self.met(asked, row))
    }
}
