//! What commands cost in capacity units (FX-1).
//!
//! Every command is charged before it runs, so that it is refused as a whole or not at all. This charge follows from
//! what the command table says about the command and from the bytes that it brings along. Afterwards it is settled by
//! what the command really read and wrote.
//!
//! - A read costs a unit for every 4 KiB of each value, at least one for each key, found or not.
//! - A write costs a unit for every KiB of each key and value, at least one for each key, whether the key changed or
//!   not. A look at an old value of up to 4 KiB is included; a longer old value costs read units.
//! - A command that goes through many keys costs a unit for every ten of them, and for every 4 KiB of keys and values
//!   that it passes: values lie beside their keys. It pays a page at a time, and waits between the pages.
//! - Parts that a writing command looks up are included as long as it writes as many; beyond that, ten lookups cost a
//!   read unit.
//! - A command that touches no data is free: a tenant above its limits can still ask what is going on.
//!
//! A bill also counts the command's [`Work`], from which its request units follow (XS-19). A command that is free in
//! capacity units still costs request units, charged afterwards.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use weir_admission::Unit;
use weir_admission::cost::{read_units, write_units};
use weir_admission::request_units::{Module, Prices, Work};
use weir_io::Yield;
use weir_model::engine::Passed;
use weir_model::parts::Part;
use weir_model::{BatchRef, Change};

use crate::args::Args;
use crate::rows::Page;
use crate::table::Command;
use crate::turn::end_turn;

/// How many keys of a scan cost one read unit together.
const SCANNED_PER_UNIT: usize = 10;

/// How many parts cost one read unit together, where a command looks them up and does not write them.
const PARTS_PER_UNIT: u64 = 10;

/// What one command has cost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    reads: u64,
    writes: u64,
    /// Parts that were looked up where the command could write them, and parts that it has written.
    parts_looked_up: u64,
    parts_written: u64,
    /// Read units, and thousandths of request units, that were charged since the command began.
    reads_paid: u64,
    milli_paid: u64,
    /// The work that was done.
    pub work: Work,
}

/// A bill in a box of its own: it goes along with every command, and is too large to be copied for each. The box is
/// allocated when something is counted.
#[derive(Clone, Debug, Default)]
pub struct OwnBill(Option<Box<Bill>>);

impl OwnBill {
    /// Resets all counts, and keeps the allocation.
    #[inline]
    pub fn clear(&mut self) {
        if let Some(bill) = &mut self.0 {
            bill.clear();
        }
    }
}

impl Deref for OwnBill {
    type Target = Bill;

    #[inline]
    fn deref(&self) -> &Bill {
        static EMPTY: LazyLock<Bill> = LazyLock::new(Bill::default);
        self.0.as_deref().unwrap_or_else(|| &EMPTY)
    }
}

impl DerefMut for OwnBill {
    #[inline]
    fn deref_mut(&mut self) -> &mut Bill {
        self.0.get_or_insert_default()
    }
}

/// What a command is charged before it runs. Every command carries one along: it is small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Read and write units, as far as can be told before it runs.
    reads: u64,
    writes: u64,
    /// The same in thousandths of request units; 0 where nobody asked for them, or the command is free.
    milli_units: u64,
    /// The least read and write units that the command costs in the end.
    least_reads: u64,
    least_writes: u64,
    /// The request units were paid from what the tenant had saved up.
    is_saved: bool,
}

impl Charge {
    /// What `command` costs as far as can be told; in request units, too, if there are `prices`.
    pub async fn of(command: &Command, args: Args<'_>, yields: Yield, prices: Option<&Prices>) -> Self {
        let (mut charge, written_bytes) = Self::in_capacity_units(command, args, yields).await;
        if let Some(prices) = prices.filter(|_| charge != Self::default()) {
            let mut work = Work::default();
            add_request(&mut work, args, 0);
            work.count(Module::RowCommand, 1);
            work.count(Module::RowFound, charge.least_reads);
            work.count(Module::RowWritten, charge.least_writes);
            work.count(Module::WrittenByte, written_bytes);
            charge.milli_units = prices.of(&work).milli_units;
        }
        charge
    }

    /// Also gives how many bytes the command writes, as far as can be told.
    async fn in_capacity_units(command: &Command, args: Args<'_>, yields: Yield) -> (Self, u64) {
        let writes = command.flags.contains(&"write") && command.writes_with(args);
        let (first, last, step) = command.keys_with(args.get(1));
        // Some commands have no flag, and there are subcommands that read a key.
        let looks = command.flags.contains(&"readonly") || step > 0 && args.len() > first as usize;
        if !writes && !looks {
            return (Self::default(), 0);
        }
        let end = args.len();
        // A command that goes through all keys counts as a command with one key.
        let (first, step) = if step == 0 { (end, 1) } else { (first as usize, step as usize) };
        let last = if last < 0 { end.saturating_sub(last.unsigned_abs() as usize) } else { last as usize };
        let keys = (first..(last + 1).min(end)).step_by(step);
        let count = ((keys.len() + command.counted_keys(args).map_or(0, |keys| keys.len())) as u64).max(1);
        if !writes {
            return (Self { reads: count, least_reads: count, ..Self::default() }, 0);
        }
        // Everything between a key and the next one is taken for its value, options included.
        let bytes_of = |key: usize| {
            let next = if key + step > last { end } else { key + step };
            let bytes: usize = (key..next).filter_map(|index| args.get(index)).map(<[u8]>::len).sum();
            bytes as u64
        };
        let (mut writes, mut written_bytes) = (0, 0);
        for (index, key) in keys.enumerate() {
            end_turn(yields, index).await;
            let bytes = bytes_of(key);
            writes += write_units(bytes);
            written_bytes += bytes;
        }
        (Self { writes: writes.max(1), least_writes: count, ..Self::default() }, written_bytes)
    }

    /// Units charged in advance.
    pub fn units(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads,
            Unit::Write => self.writes,
            Unit::Request => self.milli_units,
        }
    }

    /// The request units were paid from what the tenant had saved up (XS-25).
    pub fn pay_from_savings(&mut self) {
        self.is_saved = true;
    }

    /// Whether the request units were paid from what the tenant had saved up.
    pub fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Units owed in all for the work on `bill`, when that work costs `milli_units` thousandths of request units.
    pub fn owed(&self, unit: Unit, bill: &Bill, milli_units: u64) -> u64 {
        match unit {
            Unit::Read => bill.capacity_units(unit).max(self.least_reads),
            Unit::Write => bill.capacity_units(unit).max(self.least_writes),
            Unit::Request => milli_units,
        }
    }
}

/// Adds to `work` what the words of a request cost, whatever is done for them, and what a reply of `reply_bytes` costs.
#[inline]
pub fn add_request(work: &mut Work, args: Args<'_>, reply_bytes: u64) {
    // The request ends where its last word ends; the bytes around the words are counted already.
    let end = args.spans().last().map_or(0, |span| span.start + span.len);
    work.count_all([
        (Module::Command, 1),
        (Module::Word, args.len() as u64),
        (Module::RequestByte, u64::from(end)),
        (Module::ReplyByte, reply_bytes),
    ]);
}

impl Bill {
    /// Resets what is counted and what was paid.
    #[inline]
    fn clear(&mut self) {
        (self.reads_paid, self.milli_paid) = (0, 0);
        self.forget();
    }

    fn capacity_units(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads + self.parts_looked_up.saturating_sub(self.parts_written) / PARTS_PER_UNIT,
            Unit::Write => self.writes,
            Unit::Request => 0,
        }
    }

    /// A key was looked up, and found with a value of `found` bytes. For a command that writes, the look at a short
    /// value is included in the write. A row that `is_in_hand` was written or read just before, and the engine was
    /// not asked for it.
    #[inline]
    pub fn read(&mut self, found: Option<usize>, writes: bool, is_in_hand: bool) {
        let units = read_units(found.unwrap_or(0) as u64);
        self.reads += units - u64::from(writes);
        self.looked_up([Module::RowFound, Module::RowMissing], found, is_in_hand);
    }

    /// Counts a lookup; as one of the two modules if the engine was asked.
    #[inline]
    fn looked_up(&mut self, [there, missing]: [Module; 2], found: Option<usize>, is_in_hand: bool) {
        self.work.count(if found.is_some() { there } else { missing }, u64::from(!is_in_hand));
        if is_in_hand {
            self.work.count(Module::InHand, 1);
        }
        self.work.count(Module::ReadByte, found.unwrap_or(0) as u64);
    }

    /// Forgets what was done, so that it costs nothing. What was paid stays paid.
    #[inline]
    pub fn forget(&mut self) {
        let Self { reads, writes, parts_looked_up, parts_written, reads_paid: _, milli_paid: _, work } = self;
        (*reads, *writes, *parts_looked_up, *parts_written) = (0, 0, 0, 0);
        work.clear();
    }

    /// A writing command of a script has written nothing, and is charged a look.
    pub fn looked(&mut self) {
        self.reads += 1;
    }

    /// A part of a row was looked up; otherwise as [`Bill::read`].
    #[inline]
    pub fn read_part(&mut self, found: Option<usize>, writes: bool, is_in_hand: bool) {
        let units = read_units(found.unwrap_or(0) as u64);
        self.reads += units - u64::from(writes);
        self.parts_looked_up += u64::from(writes);
        self.looked_up([Module::PartFound, Module::PartMissing], found, is_in_hand);
    }

    /// `changes` were written. The database in front of their keys costs no capacity units.
    pub fn wrote(&mut self, changes: BatchRef<'_>) {
        for change in changes.iter() {
            self.writes += write_units(bytes(&change) - 1);
            let module = module_of(&change);
            self.parts_written += u64::from(module != Module::RowWritten);
            self.work.count(module, 1);
            if matches!(change, Change::Head { .. }) {
                self.work.count(Module::HeadWritten, 1);
            }
        }
        if !changes.is_empty() {
            // Counted in the encoding that the log writes.
            self.work.count(Module::WrittenByte, changes.as_bytes().len() as u64);
        }
    }

    /// `change`, which was counted as [written](Bill::wrote), is left out: nobody will see it. Its capacity units are
    /// paid all the same, because they are charged for what was asked for.
    pub fn left_out(&mut self, change: &Change<'_>) {
        self.work.discount(module_of(change), 1);
        self.work.discount(Module::WrittenByte, change.encoded_len() as u64);
        self.work.count(Module::LeftOut, 1);
    }

    /// A page of keys was gone through.
    pub fn scanned(&mut self, page: &Page) {
        self.passed(&page.passed, page.keys.len(), Module::KeyScanned);
    }

    /// A page of parts was gone through, which gave `parts`.
    pub fn scanned_parts(&mut self, passed: &Passed, parts: usize) {
        self.passed(passed, parts, Module::Scanned);
    }

    fn passed(&mut self, passed: &Passed, found: usize, module: Module) {
        let units = if passed.bytes == 0 { 0 } else { read_units(passed.bytes) };
        self.reads += units.max(found.div_ceil(SCANNED_PER_UNIT) as u64);
        self.work.count_all([(Module::Page, 1), (module, found as u64), (Module::ScannedByte, passed.bytes)]);
        let others = passed.entries.saturating_sub(found as u64);
        if others > 0 {
            self.work.count(Module::Passed, others);
        }
    }

    /// Takes the read units that the command has cost and not yet paid; from now on they count as paid.
    pub fn take_unpaid(&mut self) -> u64 {
        let unpaid = self.capacity_units(Unit::Read).saturating_sub(self.reads_paid);
        self.reads_paid += unpaid;
        unpaid
    }

    /// Takes the thousandths of request units, by `prices`, that the command has cost and not yet paid; from now on
    /// they count as paid.
    pub fn take_unpaid_milli(&mut self, prices: &Prices) -> u64 {
        let unpaid = prices.of(&self.work).milli_units.saturating_sub(self.milli_paid);
        self.milli_paid += unpaid;
        unpaid
    }

    /// `units` of `unit` were charged since the command began.
    pub fn paid(&mut self, unit: Unit, units: u64) {
        match unit {
            Unit::Read => self.reads_paid += units,
            Unit::Request => self.milli_paid += units,
            Unit::Write => {}
        }
    }

    /// How many of `unit` were charged since the command began.
    pub fn charged(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads_paid,
            Unit::Request => self.milli_paid,
            Unit::Write => 0,
        }
    }
}

/// The module that `change` counts as.
fn module_of(change: &Change<'_>) -> Module {
    match Part::parse(change.key()) {
        None => Module::RowWritten,
        Some(Part { space: 0, .. }) => Module::PartWritten,
        Some(_) => Module::IndexWritten,
    }
}

/// Bytes of the key, with its database, and of the value.
fn bytes(change: &Change<'_>) -> u64 {
    let value = match change {
        Change::Put { value, .. } | Change::Head { head: value, .. } => value.len(),
        Change::Delete { .. } | Change::Cover { .. } => 0,
    };
    (change.key().len() + value) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Span;
    use crate::{polled, table};
    use weir_model::Batch;

    /// What a command line is charged in advance, in read and write units.
    fn charged(line: &str) -> (u64, u64) {
        let mut start = 0;
        let spans = line.split(' ').map(|word| {
            let span = Span { start, len: word.len() as u32 };
            start += span.len + 1;
            span
        });
        let spans: Vec<Span> = spans.collect();
        let args = Args::new(line.as_bytes(), &spans);
        let command = table::find(args.at(0)).expect("a command");
        let (_, charge) = polled::turns(Charge::of(command, args, Yield::PLAIN, None));
        (charge.units(Unit::Read), charge.units(Unit::Write))
    }

    #[test]
    fn commands_are_charged_by_keys_and_bytes() {
        // FX-1.
        let kilobyte = "v".repeat(1023);
        for (line, expected) in [
            ("GET k".to_owned(), (1, 0)),
            ("MGET a b c".to_owned(), (3, 0)),
            ("EXISTS a a".to_owned(), (2, 0)),
            ("SINTERCARD 2 a b".to_owned(), (2, 0)),
            ("SCAN 0".to_owned(), (1, 0)),
            ("KEYS *".to_owned(), (1, 0)),
            ("SET k v".to_owned(), (0, 1)),
            (format!("SET k {kilobyte}"), (0, 1)),
            (format!("SET kk {kilobyte}"), (0, 2)),
            (format!("MSET a {kilobyte} bb {kilobyte}"), (0, 3)),
            ("DEL a b c".to_owned(), (0, 3)),
            ("INCR a".to_owned(), (0, 1)),
            ("FLUSHALL".to_owned(), (0, 1)),
            ("SORT k BY nosort".to_owned(), (1, 0)),
            ("SORT k STORE d".to_owned(), (0, 1)),
            ("PING".to_owned(), (0, 0)),
            ("INFO".to_owned(), (0, 0)),
            ("CLIENT ID".to_owned(), (0, 0)),
        ] {
            assert_eq!(charged(&line), expected, "{line}");
        }
    }

    #[test]
    fn the_database_in_front_of_a_key_costs_nothing() {
        let kilobyte = [b'v'; 1023];
        let (mut batch, mut bill) = (Batch::new(), Bill::default());
        for key in [&b"k"[..], b"kk"] {
            batch.push_row(3, Change::Put { key, value: &kilobyte, expire_at_ms: None });
        }
        bill.wrote(batch.as_ref());
        assert_eq!((bill.reads, bill.writes), (0, 1 + 2));
    }

    #[test]
    fn a_write_includes_a_look_at_a_short_value() {
        let mut bill = Bill::default();
        for (found, writes) in
            [(None, true), (Some(4096), true), (Some(4097), true), (None, false), (Some(4097), false)]
        {
            bill.read(found, writes, false);
        }
        assert_eq!(bill.reads, 1 + 1 + 2);
    }

    #[test]
    fn what_is_owed_is_what_was_done_and_never_less_than_one_for_each_key() {
        let charge = Charge { writes: 4, least_writes: 3, milli_units: 7, ..Charge::default() };
        let done = Bill { reads: 2, writes: 9, ..Bill::default() };
        assert_eq!(charge.owed(Unit::Write, &Bill::default(), 5), 3);
        assert_eq!(charge.owed(Unit::Write, &done, 5), 9);
        assert_eq!(charge.owed(Unit::Read, &done, 5), 2);
        assert_eq!((charge.units(Unit::Request), charge.owed(Unit::Request, &done, 5)), (7, 5));
    }

    #[test]
    fn parts_that_are_looked_up_and_not_written_cost_a_unit_for_ten() {
        let life = weir_model::parts::Life::new(1);
        let written = |parts: u64| {
            let (mut batch, mut bill) = (Batch::new(), Bill::default());
            for index in 0..parts {
                batch.push(Change::Put { key: &life.part(0, &index.to_be_bytes()), value: b"v", expire_at_ms: None });
            }
            bill.wrote(batch.as_ref());
            bill
        };
        for (looked_up, parts, expected) in [(1000, 1000, 0), (1000, 0, 100), (9, 0, 0), (29, 10, 1), (1, 5, 0)] {
            let mut bill = written(parts);
            (0..looked_up).for_each(|_| bill.read_part(Some(10), true, false));
            assert_eq!(bill.capacity_units(Unit::Read), expected, "{looked_up} looked up, {parts} written");
            assert_eq!(bill.take_unpaid(), expected);
            assert_eq!(bill.take_unpaid(), 0);
        }
    }

    #[test]
    fn work_is_counted_by_module() {
        let life = weir_model::parts::Life::new(1);
        let (mut batch, mut bill) = (Batch::new(), Bill::default());
        batch.push_row(0, Change::Put { key: b"k", value: b"123", expire_at_ms: None });
        batch.push_row(0, Change::Head { key: b"h", head: b"head", expire_at_ms: None });
        batch.push(Change::Put { key: &life.part(0, b"m"), value: b"", expire_at_ms: None });
        batch.push(Change::Delete { key: &life.part(1, b"sm") });
        bill.wrote(batch.as_ref());
        bill.read(Some(5), false, false);
        bill.read(None, false, false);
        bill.read(Some(2), false, true);
        bill.read_part(Some(7), false, false);
        bill.read_part(None, false, false);
        bill.read_part(None, false, true);
        bill.scanned_parts(&Passed { entries: 3, bytes: 99 }, 3);
        let expected = [
            (Module::RowFound, 1),
            (Module::RowMissing, 1),
            (Module::InHand, 2),
            (Module::PartFound, 1),
            (Module::PartMissing, 1),
            (Module::ReadByte, 14),
            (Module::RowWritten, 2),
            (Module::HeadWritten, 1),
            (Module::PartWritten, 1),
            (Module::IndexWritten, 1),
            (Module::WrittenByte, batch.as_bytes().len() as u64),
            (Module::Page, 1),
            (Module::Scanned, 3),
            (Module::ScannedByte, 99),
        ];
        assert_eq!(bill.work.counts().collect::<Vec<_>>(), expected);
        // Entries that are passed and not returned, and changes of a group that are left out.
        let mut bill = Bill::default();
        bill.scanned_parts(&Passed { entries: 12, bytes: 99 }, 3);
        bill.wrote(batch.as_ref());
        batch.as_ref().iter().take(3).for_each(|change| bill.left_out(&change));
        let of = |module: Module| bill.work[module];
        assert_eq!([Module::Passed, Module::LeftOut].map(of), [9, 3]);
        let left = batch.as_ref().iter().last().map_or(0, |change| change.encoded_len() as u64);
        assert_eq!([Module::RowWritten, Module::PartWritten, Module::IndexWritten].map(of), [0, 0, 1]);
        assert_eq!((of(Module::WrittenByte), bill.writes), (left, 4));
    }
}
