//! Commands whose reads all have to see the same moment. Such a command either holds a snapshot, or checks afterwards
//! that nobody has written meanwhile.

use weir_admission::request_units::Module;
use weir_model::parts::RowType;
use weir_model::{Content, Row, Value};

use super::{Asked, Context};
use crate::error::Outcome;
use crate::in_hand::letting_go;
use crate::rows::MemberAtOnce;

impl Context<'_> {
    /// From now on all reads see the same moment: what is committed now, where the row of `key` is. Where rows are
    /// locked, nothing has to be done.
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

    /// Whether all reads of the command see the same moment.
    pub fn is_of_one_moment(&self) -> bool {
        self.is_locked || self.moment.is_some() || self.judged_reads.is_some()
    }

    /// Reads the row of `key` from now on without a snapshot, if that is possible; [`Context::was_one_moment`] tells
    /// afterwards, from the number that this gives, whether all reads have seen the same moment. Mostly nothing is
    /// written meanwhile. If something was, the command reads again; it must not have answered anything yet.
    pub(crate) fn judge_behind(&mut self, key: &[u8]) -> Option<u64> {
        let before = if self.is_of_one_moment() { None } else { self.rows.settled(key) };
        if before.is_some() {
            self.judged_reads = Some(0);
            self.call.bill.work.count(Module::Judged, 1);
        }
        before
    }

    /// Whether all reads since [`Context::judge_behind`] gave `before` have seen the same moment. A single read always
    /// has. If they have not, they are struck off the bill, and the caller has to read [again](Context::read_anew).
    /// Reads from now on are not judged any more.
    pub(crate) fn was_one_moment(&mut self, key: &[u8], before: Option<u64>) -> bool {
        let reads = self.judged_reads.take().unwrap_or_default();
        let was = reads <= 1 || before.is_none_or(|before| self.rows.settled(key) == Some(before));
        if !was {
            self.read_anew();
        }
        was
    }

    /// As [`Context::was_one_moment`], for a command that has read some of the row and `goes_on` to read the rest: it
    /// takes a snapshot for the rest, and tells whether the reads before have seen the same moment.
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
            // Where nothing is judged, a snapshot is held already, or is not needed.
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

    /// The value of the member `name` of the row of `key`, which has to be of the type `kind`, where it can be had at
    /// once. It counts and costs what the judged reads of the row and of the member would. `None` if the caller has to
    /// make these reads: nothing was counted then.
    pub(crate) fn member_at_once(&mut self, key: &[u8], kind: RowType, name: &[u8]) -> Option<Option<Value>> {
        if self.is_of_one_moment() {
            // Where rows are locked, the command may have written the row itself.
            return None;
        }
        let number = self.number();
        let found = self.rows.member_at_once(number, key, kind, name, self.now_ms())?;
        self.is_in_hand = false;
        self.call.bill.work.count(Module::Judged, 1);
        let row = Asked::Row(number, key);
        Some(match found {
            MemberAtOnce::NoRow => {
                self.met_bytes(row, None);
                None
            }
            MemberAtOnce::Packed { head_bytes, passed, compared, value } => {
                self.met_head(row, head_bytes);
                self.passed_packed(passed);
                self.compared_packed(compared);
                if value.is_some() {
                    self.copied_parts(1);
                    if kind != RowType::Set {
                        self.copied_values(1);
                    }
                }
                value
            }
            MemberAtOnce::Spread { head_bytes, value } => {
                self.met_head(row, head_bytes);
                self.met_bytes(Asked::Part(key, &[]), value.as_deref().map(<[u8]>::len));
                value
            }
        })
    }

    /// Counts the head of a row that was found, and puts it on the bill.
    fn met_head(&mut self, row: Asked<'_>, bytes: usize) {
        self.call.bill.work.count(Module::HeadRead, 1);
        self.met_bytes(row, Some(bytes));
    }

    /// Counts one more read, if reads are being judged.
    #[inline]
    pub(crate) fn judged_read(&mut self) {
        if let Some(reads) = &mut self.judged_reads {
            *reads += 1;
        }
    }

    /// Forgets all reads so far, because they have not seen the same moment, or because more is needed than they have
    /// found. They are made again, and count and cost what they do then.
    pub(crate) fn read_anew(&mut self) {
        self.host.let_go();
        self.call.bill.forget();
        (self.call.hits, self.call.misses) = (0, 0);
    }

    /// The row of `key`. If it has parts with keys of their own, all reads from now on see the same moment, and the row
    /// is returned as it is at that moment: it may be gone meanwhile, or be another one. It counts and costs one look.
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
            // Mostly nothing was written meanwhile, and the row is the same.
            if before.is_none() || self.rows.settled(key) != before {
                row = self.fetch(asked, books).await?;
            }
        }
        Ok(self.met(asked, row))
    }
}
