//! Memory that rows take, and how much a tenant may have.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_model::engine::Kind;

/// The memory of one tenant: all its stores count here, and none of them takes more than is left.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    max: AtomicU64,
}

impl Budget {
    /// A budget of `max` bytes.
    pub fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max: AtomicU64::new(max) }
    }

    /// Bytes that rows take: keys, newest values, and what the index needs for them. Older versions that are kept for
    /// readers come on top. They are at most as much again for each snapshot that is held, besides the versions that
    /// wait for a commit and a quarter of those. While a snapshot is held, a row that is not written again also keeps
    /// the versions that waited together.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that rows may take.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the bytes that rows may take. If it is lower than what they use, nothing is taken away, but new data is
    /// refused.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Whether `bytes` more would be too many.
    pub(crate) fn is_exceeded_by(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) > self.max()
    }

    fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one store takes of its tenant's budget.
#[derive(Debug)]
pub(crate) struct Booked {
    budget: std::sync::Arc<Budget>,
    rows: AtomicU64,
    newest: AtomicU64,
    older: AtomicU64,
    /// Rows whose newest version is a head or a cover.
    heads: AtomicU64,
}

impl Booked {
    pub fn to(budget: std::sync::Arc<Budget>) -> Self {
        Self {
            budget,
            rows: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            older: AtomicU64::new(0),
            heads: AtomicU64::new(0),
        }
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Rows, of which some may be deleted and not yet removed.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of rows with their newest versions.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// Bytes of older versions.
    pub fn older(&self) -> u64 {
        self.older.load(Ordering::Relaxed)
    }

    /// Whether there is a head or a cover.
    pub fn has_heads(&self) -> bool {
        self.heads.load(Ordering::Acquire) > 0
    }

    /// Notes that `kind` is that of a row's newest version from now on.
    pub fn head_added(&self, kind: Kind) {
        if matches!(kind, Kind::Head | Kind::Cover) {
            self.heads.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that `kind` is not that of a row's newest version any more.
    pub fn head_removed(&self, kind: Kind) {
        if matches!(kind, Kind::Head | Kind::Cover) {
            self.heads.fetch_sub(1, Ordering::Release);
        }
    }

    /// Books a row with its first version.
    pub fn row_added(&self, row: u64, version: u64) {
        add(&self.rows, 1);
        add(&self.newest, row + version);
        self.budget.add(row + version);
    }

    /// Takes a row with its last version off the books.
    pub fn row_removed(&self, row: u64, version: u64) {
        subtract(&self.rows, 1);
        subtract(&self.newest, row + version);
        self.budget.subtract(row + version);
    }

    /// Notes that a newer version has come in front of another.
    pub fn replaced(&self, before: u64, now: u64) {
        add(&self.older, before);
        // Sums wrap around, so this may be less, too. Mostly it is the same.
        let more = now.wrapping_sub(before);
        if more != 0 {
            add(&self.newest, more);
            self.budget.add(more);
        }
    }

    /// Notes that older versions have been left out.
    pub fn trimmed(&self, bytes: u64) {
        subtract(&self.older, bytes);
    }
}

/// Adds to a counter of one store without an atomic read-modify-write: only the writer, which holds its lock, books.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// The same with the other sign.
fn subtract(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.budget.subtract(*self.newest.get_mut());
    }
}
