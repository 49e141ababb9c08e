//! Latches: rows that a read-modify-write works on without the order lock.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The latched rows. Guarded by the order lock. Whoever has latched a row shares it, so that under the lock nothing is
/// copied or freed.
#[derive(Debug, Default)]
pub struct Latches(BTreeSet<Arc<[u8]>>);

impl Latches {
    /// Whether any of `keys` is latched.
    pub fn any<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        !self.0.is_empty() && keys.any(|key| self.0.contains(key))
    }

    /// Whether no row is latched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many rows are latched.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Latches `row`; `false` if it is latched already.
    pub fn latch(&mut self, row: &Arc<[u8]>) -> bool {
        self.0.insert(Arc::clone(row))
    }

    /// Releases `rows`.
    pub fn release(&mut self, rows: &[Arc<[u8]>]) {
        for row in rows {
            self.0.remove(&row[..]);
        }
    }
}
