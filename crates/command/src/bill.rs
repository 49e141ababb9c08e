//! What commands cost in capacity units (FX-1).
//!
//! Every command is charged before it runs, so that it is refused as a whole or not at all, by what the command table
//! says about it and by the bytes it brings along; afterwards it is settled by what it really read and wrote.
//!
//! - A read costs a unit for every 4 KiB of each value, at least one for each key, found or not.
//! - A write costs a unit for every KiB of each key and value, at least one for each key, whether it changed or not. A
//!   look at old values of up to 4 KiB is included; longer ones are read units.
//! - What goes through many keys costs a unit for every ten of them, and for every 4 KiB of keys and values that it
//!   passes: values lie beside their keys. It pays a page at a time, and waits between the pages.
//! - What touches no data is free: a tenant above its limits can still ask what is going on.

use weir_admission::Unit;
use weir_admission::cost::{read_units, write_units};
use weir_io::Yield;
use weir_model::{BatchRef, Change};

use crate::args::Args;
use crate::rows::Page;
use crate::table::Command;
use crate::turn::end_turn;

/// Keys of a scan that cost one read unit together.
const SCANNED_PER_UNIT: usize = 10;

/// Units of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    reads: u64,
    writes: u64,
    /// Read units paid since the command began, beside what was charged before.
    reads_paid: u64,
}

/// What a command is charged before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    estimate: Bill,
    /// The least it costs in the end.
    least: Bill,
}

impl Charge {
    /// What `command` costs as far as can be told.
    pub async fn of(command: &Command, args: Args<'_>, yields: Yield) -> Self {
        let writes = command.flags.contains(&"write");
        let (first, last, step) = command.keys_with(args.get(1));
        // Some have no flag, and subcommands that read a key.
        let looks = command.flags.contains(&"readonly") || step > 0 && args.len() > first as usize;
        if !writes && !looks {
            return Self::default();
        }
        let end = args.len();
        // A command that goes through all keys counts as one with one.
        let (first, step) = if step == 0 { (end, 1) } else { (first as usize, step as usize) };
        let last = if last < 0 { end.saturating_sub(last.unsigned_abs() as usize) } else { last as usize };
        let keys = (first..(last + 1).min(end)).step_by(step);
        let count = ((keys.len() + command.counted_keys(args).map_or(0, |keys| keys.len())) as u64).max(1);
        if !writes {
            let bill = Bill { reads: count, ..Bill::default() };
            return Self { estimate: bill, least: bill };
        }
        // All that follows a key up to the next is taken for its value, options included.
        let cost = |key: usize| {
            let next = if key + step > last { end } else { key + step };
            let bytes: usize = (key..next).filter_map(|index| args.get(index)).map(<[u8]>::len).sum();
            write_units(bytes as u64)
        };
        let mut estimate = 0;
        for (index, key) in keys.enumerate() {
            end_turn(yields, index).await;
            estimate += cost(key);
        }
        Self {
            estimate: Bill { writes: estimate.max(1), ..Bill::default() },
            least: Bill { writes: count, ..Bill::default() },
        }
    }

    /// Units charged in advance.
    pub fn units(self, unit: Unit) -> u64 {
        self.estimate.units(unit)
    }

    /// Units owed in all, when `bill` says what was done.
    pub fn owed(self, unit: Unit, bill: Bill) -> u64 {
        bill.units(unit).max(self.least.units(unit))
    }
}

impl Bill {
    fn units(self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads,
            Unit::Write => self.writes,
        }
    }

    /// A key was looked up, and found with a value of `found` bytes; by a command that writes, a short one is included
    /// in the write.
    #[inline]
    pub fn read(&mut self, found: Option<usize>, writes: bool) {
        let units = read_units(found.unwrap_or(0) as u64);
        self.reads += units - u64::from(writes);
    }

    /// `changes` were written. The database in front of their keys costs nothing.
    pub fn wrote(&mut self, changes: BatchRef<'_>) {
        self.writes += changes.iter().map(|change| write_units(bytes(&change) - 1)).sum::<u64>();
    }

    /// A page of keys was gone through.
    pub fn scanned(&mut self, page: &Page) {
        self.passed(page.passed_bytes, page.keys.len());
    }

    /// So many bytes were passed for so many keys.
    pub fn passed(&mut self, bytes: u64, keys: usize) {
        let passed = if bytes == 0 { 0 } else { read_units(bytes) };
        self.reads += passed.max(keys.div_ceil(SCANNED_PER_UNIT) as u64);
    }

    /// Read units that the command has cost and not paid; they are paid now.
    pub fn take_unpaid(&mut self) -> u64 {
        let unpaid = self.reads.saturating_sub(self.reads_paid);
        self.reads_paid += unpaid;
        unpaid
    }

    /// So many read units were charged since the command began.
    pub fn paid(&mut self, units: u64) {
        self.reads_paid += units;
    }

    /// What of `unit` was charged since the command began.
    pub fn charged(self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads_paid,
            Unit::Write => 0,
        }
    }
}

/// Bytes of key, with its database, and value.
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

    /// What a command line is charged in advance: reads and writes.
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
        let (_, charge) = polled::turns(Charge::of(command, args, Yield::PLAIN));
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
            bill.read(found, writes);
        }
        assert_eq!(bill.reads, 1 + 1 + 2);
    }

    #[test]
    fn what_is_owed_is_what_was_done_and_never_less_than_one_for_each_key() {
        let least = Bill { writes: 3, ..Bill::default() };
        let charge = Charge { estimate: Bill { writes: 4, ..Bill::default() }, least };
        assert_eq!(charge.owed(Unit::Write, Bill::default()), 3);
        assert_eq!(charge.owed(Unit::Write, Bill { reads: 2, writes: 9, reads_paid: 0 }), 9);
        assert_eq!(charge.owed(Unit::Read, Bill { reads: 2, writes: 9, reads_paid: 0 }), 2);
    }
}
