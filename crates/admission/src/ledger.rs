//! The books: every device byte and operation, by owner, class and direction (house rule 8).

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::{Class, Owner};

use crate::limits::Direction;

const CLASSES: usize = Class::ALL.len();

/// Bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Device bytes.
    pub bytes: u64,
    /// Operations.
    pub ops: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.ops += other.ops;
    }
}

/// What was booked, by class and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booked([[Amount; 2]; CLASSES]);

impl Booked {
    /// Sum over classes.
    pub fn total(&self, direction: Direction) -> Amount {
        let mut total = Amount::default();
        self.0.iter().for_each(|class| total += class[direction as usize]);
        total
    }

    /// What was added since `earlier`, an older snapshot of the same account.
    #[must_use]
    pub fn since(&self, earlier: &Booked) -> Booked {
        let mut delta = *self;
        for (class, earlier) in delta.0.iter_mut().zip(&earlier.0) {
            for (amount, earlier) in class.iter_mut().zip(earlier) {
                amount.bytes = amount.bytes.saturating_sub(earlier.bytes);
                amount.ops = amount.ops.saturating_sub(earlier.ops);
            }
        }
        delta
    }

    /// Bytes booked beyond what the device says it moved (negative: bytes that passed no door), as a share of the
    /// latter. The house promises within 1 %, plus file-system metadata.
    pub fn deviation(&self, direction: Direction, device_bytes: u64) -> f64 {
        (self.total(direction).bytes as f64 - device_bytes as f64) / (device_bytes.max(1) as f64)
    }
}

impl Index<(Class, Direction)> for Booked {
    type Output = Amount;

    fn index(&self, (class, direction): (Class, Direction)) -> &Amount {
        &self.0[class as usize][direction as usize]
    }
}

impl AddAssign<&Booked> for Booked {
    fn add_assign(&mut self, other: &Booked) {
        for (class, other) in self.0.iter_mut().zip(&other.0) {
            for (amount, other) in class.iter_mut().zip(other) {
                *amount += *other;
            }
        }
    }
}

#[derive(Debug, Default)]
struct Cell {
    bytes: AtomicU64,
    ops: AtomicU64,
}

/// One owner's page in the [`Ledger`]. Booking is two relaxed additions: no lock, no order.
#[derive(Debug, Default)]
pub struct Account {
    cells: [[Cell; 2]; CLASSES],
}

impl Account {
    /// Books one operation of `bytes`.
    #[inline]
    pub fn book(&self, class: Class, direction: Direction, bytes: u64) {
        let cell = &self.cells[class as usize][direction as usize];
        cell.bytes.fetch_add(bytes, Ordering::Relaxed);
        cell.ops.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back `bytes` of an operation that turned out shorter (a read across the end of a file).
    pub(crate) fn correct(&self, class: Class, direction: Direction, bytes: u64) {
        self.cells[class as usize][direction as usize].bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What was booked so far. Operations under way at this moment may be in it half.
    pub fn booked(&self) -> Booked {
        Booked(self.cells.each_ref().map(|class| {
            class
                .each_ref()
                .map(|cell| Amount { bytes: cell.bytes.load(Ordering::Relaxed), ops: cell.ops.load(Ordering::Relaxed) })
        }))
    }
}

/// All accounts of a node.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    open: BTreeMap<Owner, Arc<Account>>,
    /// Accounts of owners that left, whose last I/Os may still be under way, and the sum of those that are over.
    closing: Vec<Arc<Account>>,
    closed: Booked,
}

impl Accounts {
    /// Sums up what nobody can book to any more.
    fn settle(&mut self) {
        let closed = &mut self.closed;
        self.closing.retain(|account| {
            let over = Arc::strong_count(account) == 1;
            if over {
                *closed += &account.booked();
            }
            !over
        });
    }
}

impl Ledger {
    /// Empty books.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The account of `owner`, opened if need be.
    pub fn account(&self, owner: Owner) -> Arc<Account> {
        Arc::clone(self.accounts.lock().open.entry(owner).or_default())
    }

    /// The owner left this node. What it did stays in the [`Ledger::total`].
    pub fn close(&self, owner: Owner) {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.open.remove(&owner) {
            accounts.closing.push(account);
        }
        accounts.settle();
    }

    /// Every open account, by owner.
    pub fn snapshot(&self) -> Vec<(Owner, Booked)> {
        self.accounts.lock().open.iter().map(|(owner, account)| (*owner, account.booked())).collect()
    }

    /// Sum over all owners, including those that left.
    pub fn total(&self) -> Booked {
        let mut accounts = self.accounts.lock();
        accounts.settle();
        let mut total = accounts.closed;
        for account in accounts.open.values().chain(&accounts.closing) {
            total += &account.booked();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_an_owner_leaves_with_an_io_under_way() {
        let ledger = Ledger::new();
        let owner = Owner { tenant: 3, partition: 4 };
        let account = ledger.account(owner);
        account.book(Class::Flush, Direction::Write, 4096);
        ledger.close(owner);
        account.book(Class::Read, Direction::Read, 8192);
        drop(account);
        ledger.account(owner).book(Class::Read, Direction::Read, 1);
        let total = ledger.total();
        assert_eq!(total[(Class::Flush, Direction::Write)], Amount { bytes: 4096, ops: 1 });
        assert_eq!(total.total(Direction::Read), Amount { bytes: 8193, ops: 2 });
        assert_eq!(ledger.total(), total, "settling twice counts once");
        assert_eq!(ledger.snapshot().len(), 1);
        assert_eq!(total.deviation(Direction::Read, 8193), 0.0);
        assert!(total.deviation(Direction::Read, 16386) < -0.49);
    }
}
