//! The books: every device byte and operation, by owner, class and direction (house rule 8), and the bytes that users
//! read and wrote. The quotient of the two is the amplification that a tenant causes.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::{Class, Nanos, Owner};

use crate::limits::Direction;
use crate::waits::Cause;

const CLASSES: usize = Class::ALL.len();

/// Bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Device bytes.
    pub bytes: u64,
    /// Operations of the device; where the bytes are a user's, keys and batches. A write that the page cache takes in
    /// beside pages that are dirty already is not an operation of its own: it goes out with them.
    pub ops: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.ops += other.ops;
    }
}

/// A gate that a client's I/O waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Wait {
    /// The partition's own gate: what its tenant bought is used up.
    Partition = 0,
    /// The node's gate: others use the device.
    Node = 1,
}

impl Wait {
    /// The same gate among all causes that a request waits for.
    pub const fn cause(self) -> Cause {
        match self {
            Wait::Partition => Cause::Partition,
            Wait::Node => Cause::Node,
        }
    }
}

/// What was booked, by class and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booked {
    device: [[Amount; 2]; CLASSES],
    user: [Amount; 2],
    waited: [Nanos; 2],
}

impl Booked {
    /// The sum over all classes.
    pub fn total(&self, direction: Direction) -> Amount {
        let mut total = Amount::default();
        self.device.iter().for_each(|class| total += class[direction as usize]);
        total
    }

    /// What users themselves read or wrote: keys and values, before caches and amplification.
    pub fn user(&self, direction: Direction) -> Amount {
        self.user[direction as usize]
    }

    /// How long reads and log writes of clients waited at a gate, in nanoseconds, summed over all of them.
    pub fn waited(&self, wait: Wait) -> Nanos {
        self.waited[wait as usize]
    }

    /// Device bytes per user byte; `None` before a user did anything.
    pub fn amplification(&self, direction: Direction) -> Option<f64> {
        let user = self.user(direction).bytes;
        (user > 0).then(|| self.total(direction).bytes as f64 / user as f64)
    }

    fn amounts(&self) -> impl Iterator<Item = &Amount> {
        self.device.iter().chain([&self.user]).flatten()
    }

    fn amounts_mut(&mut self) -> impl Iterator<Item = &mut Amount> {
        self.device.iter_mut().chain([&mut self.user]).flatten()
    }

    /// What was added since `earlier`, an older snapshot of the same account.
    #[must_use]
    pub fn since(&self, earlier: &Booked) -> Booked {
        let mut delta = *self;
        for (amount, earlier) in delta.amounts_mut().zip(earlier.amounts()) {
            amount.bytes = amount.bytes.saturating_sub(earlier.bytes);
            amount.ops = amount.ops.saturating_sub(earlier.ops);
        }
        for (waited, earlier) in delta.waited.iter_mut().zip(earlier.waited) {
            *waited = waited.saturating_sub(earlier);
        }
        delta
    }
}

impl Index<(Class, Direction)> for Booked {
    type Output = Amount;

    fn index(&self, (class, direction): (Class, Direction)) -> &Amount {
        &self.device[class as usize][direction as usize]
    }
}

impl AddAssign<&Booked> for Booked {
    fn add_assign(&mut self, other: &Booked) {
        self.amounts_mut().zip(other.amounts()).for_each(|(amount, other)| *amount += *other);
        self.waited.iter_mut().zip(other.waited).for_each(|(waited, other)| *waited += other);
    }
}

#[derive(Debug, Default)]
struct Cell {
    bytes: AtomicU64,
    ops: AtomicU64,
}

impl Cell {
    #[inline]
    fn add(&self, bytes: u64, ops: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
    }

    fn amount(&self) -> Amount {
        Amount { bytes: self.bytes.load(Ordering::Relaxed), ops: self.ops.load(Ordering::Relaxed) }
    }
}

/// One owner's page in the [`Ledger`]. Booking takes two relaxed additions: no lock, no order.
#[derive(Debug, Default)]
pub struct Account {
    device: [[Cell; 2]; CLASSES],
    user: [Cell; 2],
    waited: [AtomicU64; 2],
    reads_waiting: AtomicU64,
    reads_emptied: AtomicU64,
}

/// The reads of an owner's clients that wait at the node's gate, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadQueue {
    /// How many reads wait.
    pub waiting: u64,
    /// How often the last of them has left, and the queue was empty. If that is the same as at an earlier look, and
    /// somebody waits both times, somebody has waited all the time.
    pub emptied: u64,
}

/// A read in the queue, until this is dropped.
pub(crate) struct QueuedRead(Arc<Account>);

impl Drop for QueuedRead {
    fn drop(&mut self) {
        if self.0.reads_waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.reads_emptied.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Account {
    /// Books `bytes` that reach the device in `ops` operations; 0 operations where they go out with pages that are
    /// dirty already.
    #[inline]
    pub fn book(&self, class: Class, direction: Direction, bytes: u64, ops: u64) {
        self.device[class as usize][direction as usize].add(bytes, ops);
    }

    /// Books one operation of a user, with the bytes of its keys and values.
    #[inline]
    pub fn book_user(&self, direction: Direction, bytes: u64) {
        self.book_user_together(direction, bytes, 1);
    }

    /// Books `ops` operations of a user, with the bytes of all their keys and values. The bytes are 0 if they were
    /// booked together with another operation's.
    #[inline]
    pub fn book_user_together(&self, direction: Direction, bytes: u64, ops: u64) {
        self.user[direction as usize].add(bytes, ops);
    }

    /// Books that a client's I/O waited at a gate for `nanos` nanoseconds.
    pub(crate) fn book_wait(&self, wait: Wait, nanos: Nanos) {
        self.waited[wait as usize].fetch_add(nanos, Ordering::Relaxed);
    }

    /// Books that a read of a client begins to wait at the node's gate.
    pub(crate) fn queue_read(self: &Arc<Self>) -> QueuedRead {
        self.reads_waiting.fetch_add(1, Ordering::Relaxed);
        QueuedRead(Arc::clone(self))
    }

    /// The reads that wait at the node's gate.
    pub fn read_queue(&self) -> ReadQueue {
        let emptied = self.reads_emptied.load(Ordering::Relaxed);
        ReadQueue { waiting: self.reads_waiting.load(Ordering::Relaxed), emptied }
    }

    /// Takes back `bytes` of an operation that turned out shorter (a read across the end of a file).
    pub(crate) fn correct(&self, class: Class, direction: Direction, bytes: u64) {
        self.device[class as usize][direction as usize].bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What was booked so far. Of operations that are being booked at this moment, only a part may be in it.
    pub fn booked(&self) -> Booked {
        let device = self.device.each_ref().map(|class| class.each_ref().map(Cell::amount));
        let waited = self.waited.each_ref().map(|waited| waited.load(Ordering::Relaxed));
        Booked { device, user: self.user.each_ref().map(Cell::amount), waited }
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
    /// Accounts of owners that left, whose last I/Os may still be under way, with their tenant; `None` once the tenant
    /// is forgotten.
    closing: Vec<(Option<u32>, Arc<Account>)>,
    /// Sums of the accounts that are over, by tenant: a partition that sleeps takes nothing from its tenant's total.
    closed: BTreeMap<u32, Booked>,
    /// The sum of tenants that no longer exist.
    forgotten: Booked,
}

impl Accounts {
    /// Adds up the accounts to which nobody can book any more.
    fn settle(&mut self) {
        let (closed, forgotten) = (&mut self.closed, &mut self.forgotten);
        self.closing.retain(|(tenant, account)| {
            let over = Arc::strong_count(account) == 1;
            if over {
                let sum = match tenant {
                    Some(tenant) => closed.entry(*tenant).or_default(),
                    None => &mut *forgotten,
                };
                *sum += &account.booked();
            }
            !over
        });
    }

    fn books(&mut self) -> Books {
        // From here on an account is in exactly one of the three places.
        self.settle();
        let mut books = Books { tenants: self.closed.clone(), dropped: self.forgotten };
        for (tenant, account) in &self.closing {
            let sum = match tenant {
                Some(tenant) => books.tenants.entry(*tenant).or_default(),
                None => &mut books.dropped,
            };
            *sum += &account.booked();
        }
        for (owner, account) in &self.open {
            *books.tenants.entry(owner.tenant).or_default() += &account.booked();
        }
        books
    }
}

/// Everything that was ever booked.
#[derive(Clone, Debug, PartialEq)]
pub struct Books {
    /// The sum of every tenant, by its number; 0 is the node itself.
    pub tenants: BTreeMap<u32, Booked>,
    /// The sum of tenants that no longer exist.
    pub dropped: Booked,
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

    /// Closes the account of an owner that no longer exists. What it did stays in the sum of its tenant. Somebody who
    /// still holds the account may go on booking to it. An owner that sleeps keeps its account.
    pub fn close(&self, owner: Owner) {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.open.remove(&owner) {
            accounts.closing.push((Some(owner.tenant), account));
        }
        accounts.settle();
    }

    /// Forgets a tenant that no longer exists and whose owners are closed. What it did, and what its last readers still
    /// do, stays in the [`Ledger::total`].
    pub fn forget(&self, tenant: u32) {
        let mut accounts = self.accounts.lock();
        accounts.settle();
        accounts.closing.iter_mut().filter(|(of, _)| *of == Some(tenant)).for_each(|(of, _)| *of = None);
        if let Some(booked) = accounts.closed.remove(&tenant) {
            accounts.forgotten += &booked;
        }
    }

    /// All books, at one moment.
    pub fn books(&self) -> Books {
        self.accounts.lock().books()
    }

    /// The sum of every tenant that is not forgotten, by its number; 0 is the node itself.
    pub fn tenants(&self) -> BTreeMap<u32, Booked> {
        self.books().tenants
    }

    /// The sum over all owners, including those that left.
    pub fn total(&self) -> Booked {
        let Books { tenants, dropped: mut total } = self.books();
        tenants.values().for_each(|booked| total += booked);
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
        account.book(Class::Flush, Direction::Write, 4096, 1);
        ledger.close(owner);
        account.book(Class::Read, Direction::Read, 8192, 1);
        drop(account);
        ledger.account(owner).book(Class::Read, Direction::Read, 1, 1);
        let total = ledger.total();
        assert_eq!(total[(Class::Flush, Direction::Write)], Amount { bytes: 4096, ops: 1 });
        assert_eq!(total.total(Direction::Read), Amount { bytes: 8193, ops: 2 });
        assert_eq!(ledger.total(), total, "settling twice counts once");
    }

    #[test]
    fn a_forgotten_tenant_whose_last_reader_goes_later_does_not_come_back() {
        let ledger = Ledger::new();
        let owner = Owner { tenant: 3, partition: 4 };
        let held_by_a_scan = ledger.account(owner);
        ledger.close(owner);
        ledger.forget(3);
        held_by_a_scan.book(Class::Read, Direction::Read, 8192, 1);
        assert_eq!(ledger.tenants().len(), 0);
        assert_eq!(ledger.total().total(Direction::Read).bytes, 8192);
        assert_eq!(ledger.books().dropped, ledger.total());
        drop(held_by_a_scan);
        assert_eq!(ledger.tenants().len(), 0, "settled into the sum of those that are no more");
        assert_eq!(ledger.total().total(Direction::Read).bytes, 8192);
    }

    #[test]
    fn a_tenant_keeps_its_sum_while_its_partitions_come_and_go() {
        let ledger = Ledger::new();
        for partition in 1..=3 {
            let owner = Owner { tenant: 7, partition };
            let account = ledger.account(owner);
            account.book(Class::Log, Direction::Write, 100, 1);
            account.book_user(Direction::Write, 20);
            ledger.close(owner);
        }
        let other = ledger.account(Owner { tenant: 8, partition: 9 });
        other.book(Class::Read, Direction::Read, 1, 1);
        let tenants = ledger.tenants();
        assert_eq!(tenants[&7][(Class::Log, Direction::Write)], Amount { bytes: 300, ops: 3 });
        assert_eq!(tenants[&7].user(Direction::Write), Amount { bytes: 60, ops: 3 });
        assert_eq!(tenants[&7].amplification(Direction::Write), Some(5.0));
        assert_eq!(tenants[&8].amplification(Direction::Read), None);
        let before = ledger.total();
        ledger.forget(7);
        assert_eq!(ledger.tenants().keys().collect::<Vec<_>>(), [&8]);
        assert_eq!(ledger.total(), before, "what was done was done");
    }
}
