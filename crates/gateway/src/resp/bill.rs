//! What commands cost in capacity units (FX-1).
//!
//! Every command is charged before it runs, so that it is refused as a whole or not at all, by what the command table
//! says about it and by the bytes it brings along; afterwards it is settled by what it really read and wrote.
//!
//! - A read costs a unit for every 4 KiB of each value, at least one for each key, found or not.
//! - A write costs a unit for every KiB of each key and value, at least one for each key, whether it changed or not. A
//!   look at old values of up to 4 KiB is included; longer ones are read units.
//! - What goes through many keys costs a unit for every ten of them, and for every 4 KiB of keys and values that it passes:
//!   values lie beside their keys. It pays a page at a time, and waits between the pages.
//! - What touches no data is free: a tenant above its limits can still ask what is going on.

use std::ops::Deref;

use weir_model::{Batch, Change};
use weir_node::Unit;
use weir_node::cost::{read_units, write_units};

use super::commands::end_turn;
use super::frame::Args;
use super::table::Command;
use crate::store::{Entry, Page};

/// Keys of a scan that cost one read unit together.
const SCANNED_PER_UNIT: usize = 10;

/// Units of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bill {
    reads: u64,
    writes: u64,
    /// Read units paid since the command began, beside what was charged before.
    reads_paid: u64,
}

/// What a command is charged before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    estimate: Bill,
    /// The least it costs in the end.
    least: Bill,
}

impl Charge {
    /// What `command` costs as far as can be told.
    pub(super) async fn of(command: &Command, args: Args<'_>) -> Self {
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
        let count = (keys.len() as u64).max(1);
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
            end_turn(index).await;
            estimate += cost(key);
        }
        Self {
            estimate: Bill { writes: estimate.max(1), ..Bill::default() },
            least: Bill { writes: count, ..Bill::default() },
        }
    }

    /// Units charged in advance.
    pub(super) fn units(self, unit: Unit) -> u64 {
        self.estimate.units(unit)
    }

    /// Units owed in all, when `bill` says what was done.
    pub(super) fn owed(self, unit: Unit, bill: Bill) -> u64 {
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

    /// A key was looked up.
    pub(super) fn got<V: Deref<Target = [u8]>>(&mut self, entry: Option<&Entry<V>>) {
        self.reads += read_units(entry.map_or(0, |entry| entry.value.len() as u64));
    }

    /// Keys were looked up and `batch` written, as one.
    pub(super) fn updated<V: Deref<Target = [u8]>>(&mut self, entries: &[Option<Entry<V>>], batch: &Batch) {
        for entry in entries.iter().flatten() {
            self.reads += read_units(entry.value.len() as u64) - 1;
        }
        self.wrote_batch(batch);
    }

    /// `changes` were written, with keys as their user knows them.
    pub(super) fn wrote<'c>(&mut self, changes: impl Iterator<Item = Change<'c>>) {
        self.writes += changes.map(|change| write_units(bytes(&change))).sum::<u64>();
    }

    /// `batch` was written. The database in front of its keys costs nothing.
    pub(super) fn wrote_batch(&mut self, batch: &Batch) {
        let prefix = u64::from(batch.database().is_some());
        self.writes += batch.as_ref().iter().map(|change| write_units(bytes(&change) - prefix)).sum::<u64>();
    }

    /// So many bytes of key and value were carried to another database.
    pub(super) fn carried(&mut self, bytes: usize) {
        self.writes += write_units(bytes as u64);
    }

    /// A page of keys was gone through.
    pub(super) fn scanned(&mut self, page: &Page) {
        let passed = if page.passed_bytes == 0 { 0 } else { read_units(page.passed_bytes) };
        self.reads += passed.max(page.keys.len().div_ceil(SCANNED_PER_UNIT) as u64);
    }

    /// Read units that the command has cost and not paid; they are paid now.
    pub(super) fn take_unpaid(&mut self) -> u64 {
        let unpaid = self.reads.saturating_sub(self.reads_paid);
        self.reads_paid += unpaid;
        unpaid
    }

    /// So many read units were charged since the command began.
    pub(super) fn paid(&mut self, units: u64) {
        self.reads_paid += units;
    }

    /// What of `unit` was charged since the command began.
    pub(super) fn charged(self, unit: Unit) -> u64 {
        match unit {
            Unit::Read => self.reads_paid,
            Unit::Write => 0,
        }
    }
}

/// Bytes of key and value.
fn bytes(change: &Change<'_>) -> u64 {
    let value = match change {
        Change::Put { value, .. } => value.len(),
        Change::Delete { .. } => 0,
    };
    (change.key().len() + value) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::frame::{Limits, Progress, State};
    use crate::resp::parse::parse;
    use crate::resp::table;
    use weir_io::real::block_on;

    /// What a command line is charged in advance: reads and writes.
    fn charged(line: &str) -> (u64, u64) {
        let input = format!("{line}\r\n");
        let mut state = State::new();
        let parsed = parse(input.as_bytes(), &Limits::default(), &mut state);
        assert!(matches!(parsed, Ok(Progress::Request(_))), "{line}");
        let args = state.args(input.as_bytes());
        let charge = block_on(Charge::of(table::find(args.at(0)).expect("a command"), args));
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
        for mut batch in [Batch::new(), Batch::in_database(3)] {
            let mut bill = Bill::default();
            batch.put(b"k", &kilobyte);
            bill.updated::<Vec<u8>>(&[None], &batch);
            assert_eq!((bill.reads, bill.writes), (0, 1));
            batch.put(b"kk", &kilobyte);
            bill.wrote_batch(&batch);
            assert_eq!((bill.reads, bill.writes), (0, 1 + 1 + 2));
        }
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
