//! What a command's work is, beyond its reads and writes: counted on its bill, and paid for between two pages.

use weir_admission::request_units::Module;

use super::Context;
use crate::error::Outcome;
use crate::float::is_whole;

impl Context<'_> {
    /// Pays and lets others run between two pages: see [`Host::pay_page`](crate::host::Host::pay_page).
    ///
    /// # Errors
    /// The server is shutting down.
    pub async fn end_page(&mut self) -> Outcome {
        self.host.pay_page(&mut self.call.bill).await
    }

    /// Counts `steps` steps of computing, for a command that computes more than its reads and writes tell.
    pub fn computed(&mut self, steps: usize) {
        self.call.bill.work.count(Module::Step, steps as u64);
    }

    /// Counts `comparisons` comparisons of two things that are being sorted.
    pub(crate) fn compared(&mut self, comparisons: usize) {
        self.call.bill.work.count(Module::Compared, comparisons as u64);
    }

    /// Counts the sorting of `things` things by code that does not tell how many comparisons it makes.
    pub(crate) fn ordered(&mut self, things: usize) {
        self.compared(things.saturating_mul(things.max(1).ilog2() as usize + 1));
    }

    /// All registers of a HyperLogLog were gone through `times` times.
    pub(crate) fn passed_registers(&mut self, times: usize) {
        self.call.bill.work.count(Module::Registers, times as u64);
    }

    /// `parts` parts were passed in a row that keeps all its parts in one piece (a packed row), or `parts` buckets in a
    /// tally.
    #[inline]
    pub fn passed_packed(&mut self, parts: usize) {
        self.call.bill.work.count(Module::PackedPart, parts as u64);
    }

    /// For `names` of the parts that were passed in a packed row, the name was compared with the one that was looked
    /// for.
    #[inline]
    pub(crate) fn compared_packed(&mut self, names: usize) {
        self.call.bill.work.count(Module::PackedCompared, names as u64);
    }

    /// `names` names of parts, or other texts, were copied out of a packed row or out of a page.
    #[inline]
    pub(crate) fn copied_parts(&mut self, names: usize) {
        self.call.bill.work.count(Module::PartCopied, names as u64);
    }

    /// `values` values of parts were copied.
    #[inline]
    pub(crate) fn copied_values(&mut self, values: usize) {
        self.call.bill.work.count(Module::ValueCopied, values as u64);
    }

    /// A packed row was changed, and has `parts` parts and `bytes` bytes now: the place of the change was looked for,
    /// and all bytes behind it were moved.
    pub(crate) fn changed_packed(&mut self, parts: u64, bytes: usize) {
        let work = &mut self.call.bill.work;
        work.count(Module::PackedChange, 1);
        work.count(Module::PackedPart, parts);
        work.count(Module::PackedByte, bytes as u64);
    }

    /// `numbers` numbers with a fraction were read or written as text.
    pub fn fractions(&mut self, numbers: usize) {
        self.call.bill.work.count(Module::Fraction, numbers as u64);
    }

    /// Answers with a number that may have a fraction.
    pub fn tell_f64(&mut self, number: f64) {
        self.fractions(usize::from(!is_whole(number)));
        self.replies().double(number);
    }
}
