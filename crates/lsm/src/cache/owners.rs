//! The owners of blocks in the cache: a number for each, so that an entry need not carry more, and the bytes that each
//! tenant has with all its owners together.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::Owner;

/// How many rows of owners without tables are looked at before a new one is made. With more than one look, rows that
/// have become empty are found faster than new ones are needed.
const LOOKS: usize = 4;

/// The bytes that a tenant has in all shards, and its reserve. Counted while a shard is locked. Two shards may count at
/// the same time, so the figure is right except for blocks that come and go at this moment.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: AtomicU64,
    reserve: AtomicU64,
}

impl Held {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the tenant has a reserve, and it is enough for `coming` more bytes.
    pub(super) fn is_within_reserve(&self, coming: usize) -> bool {
        let reserve = self.reserve.load(Ordering::Relaxed);
        reserve > 0 && self.bytes.load(Ordering::Relaxed) + coming as u64 <= reserve
    }
}

/// A row belongs to its owner as long as that has tables open. Blocks that closed tables leave behind are dead, for
/// nobody asks for them under their numbers again. They belong to nobody until the last of them is gone; then the next
/// owner gets the row. An owner that opens tables again gets another row: its reserve is for blocks that it will read,
/// and not for those that it had once.
#[derive(Default)]
pub(super) struct Owners {
    /// Numbers of owners with tables.
    numbers: BTreeMap<Owner, u32>,
    rows: Vec<Row>,
    /// Numbers of rows without tables.
    resting: VecDeque<u32>,
    /// Bytes and reserves of all tenants with tables.
    tenants: BTreeMap<u32, Arc<Held>>,
    /// Bytes that closed tables have left behind. They have no reserve.
    nobody: Arc<Held>,
    /// Reserves by tenant, whether or not it has a row; other tenants have none.
    reserves: BTreeMap<u32, u64>,
}

struct Row {
    owner: Owner,
    tables: usize,
}

impl Owners {
    /// The number of `owner`, if it has one.
    pub(super) fn number(&self, owner: Owner) -> Option<u32> {
        self.numbers.get(&owner).copied()
    }

    /// Notes that a table of `owner` is opened, and returns the owner's number. `retire` says whether nothing is left
    /// under a number, and if so forgets its counts. `begin` is told of a number that is `owner`'s from now on.
    pub(super) fn enter(
        &mut self,
        owner: Owner,
        retire: impl FnMut(u32) -> bool,
        begin: impl FnOnce(u32, &Arc<Held>),
    ) -> u32 {
        let number = self.number(owner).unwrap_or_else(|| {
            let reused = self.reuse(retire);
            let row = Row { owner, tables: 0 };
            let number = reused.unwrap_or(self.rows.len() as u32);
            begin(number, &self.held(owner.tenant));
            match reused {
                Some(number) => self.rows[number as usize] = row,
                None => self.rows.push(row),
            }
            self.numbers.insert(owner, number);
            number
        });
        self.rows[number as usize].tables += 1;
        number
    }

    /// The bytes and the reserve of `tenant`, which are counted from now on if it had no table.
    fn held(&mut self, tenant: u32) -> Arc<Held> {
        let fresh = || {
            let reserve = AtomicU64::new(self.reserves.get(&tenant).copied().unwrap_or(0));
            Arc::new(Held { bytes: AtomicU64::new(0), reserve })
        };
        Arc::clone(self.tenants.entry(tenant).or_insert_with(fresh))
    }

    /// Bytes that `tenant` has.
    pub(super) fn bytes_of(&self, tenant: u32) -> u64 {
        self.tenants.get(&tenant).map_or(0, |held| held.bytes.load(Ordering::Relaxed))
    }

    /// Tenants with tables open, in order.
    pub(super) fn tenants(&self) -> Vec<u32> {
        self.tenants.keys().copied().collect()
    }

    /// Sets what is kept from now on, in bytes by tenant.
    pub(super) fn set_reserves(&mut self, reserves: BTreeMap<u32, u64>) {
        for (tenant, held) in &self.tenants {
            held.reserve.store(reserves.get(tenant).copied().unwrap_or(0), Ordering::Relaxed);
        }
        self.reserves = reserves;
    }

    /// Notes that a table of `number` is closed. If it was the last, `hand_over` is told to whom the blocks left behind
    /// belong now.
    pub(super) fn leave(&mut self, number: u32, hand_over: impl FnOnce(&Arc<Held>)) {
        let row = &mut self.rows[number as usize];
        row.tables -= 1;
        if row.tables > 0 {
            return;
        }
        let owner = row.owner;
        self.numbers.remove(&owner);
        if self.numbers.range(of_tenant(owner.tenant)).next().is_none() {
            self.tenants.remove(&owner.tenant);
        }
        hand_over(&self.nobody);
        self.resting.push_back(number);
    }

    /// The number of a row that nobody needs any more.
    fn reuse(&mut self, mut retire: impl FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..LOOKS.min(self.resting.len()) {
            let number = self.resting.pop_front()?;
            if retire(number) {
                return Some(number);
            }
            self.resting.push_back(number);
        }
        None
    }
}

fn of_tenant(tenant: u32) -> RangeInclusive<Owner> {
    Owner { tenant, partition: 0 }..=Owner { tenant, partition: u32::MAX }
}
