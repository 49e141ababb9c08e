//! Amounts of resources: what something takes of a machine, or what a machine has a second.

use std::ops::{AddAssign, Index, IndexMut};

/// The resources that can run short (XS-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Dimension {
    /// Processor time, in nanoseconds.
    Cpu = 0,
    /// Bytes that are moved in memory.
    Memory = 1,
    /// Bytes of the device.
    Io = 2,
    /// Bytes of requests and replies.
    Network = 3,
}

impl Dimension {
    /// All of them, in their order.
    pub const ALL: [Dimension; 4] = [Dimension::Cpu, Dimension::Memory, Dimension::Io, Dimension::Network];

    /// The dimension's name in files, metrics and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Cpu => "cpu",
            Dimension::Memory => "memory",
            Dimension::Io => "io",
            Dimension::Network => "network",
        }
    }
}

/// How many parts a logical unit has. The price of a request is rounded up to one part.
pub const MILLI: u64 = 1000;

/// How many parts a unit of [`Resources`] has, because a byte costs less than a nanosecond.
pub const THOUSAND: u64 = 1000;

/// Amounts by dimension, in thousandths of its unit. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources([u64; Dimension::ALL.len()]);

impl Resources {
    /// These amounts, in the order of [`Dimension::ALL`].
    pub const fn new(thousandths: [u64; Dimension::ALL.len()]) -> Self {
        Self(thousandths)
    }

    /// `times` as much.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self(self.0.map(|amount| amount.saturating_mul(times)))
    }

    /// Whole units of `dimension`.
    pub fn whole(&self, dimension: Dimension) -> u64 {
        self[dimension] / THOUSAND
    }
}

impl AddAssign for Resources {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(amount, more)| *amount = amount.saturating_add(more));
    }
}

impl Index<Dimension> for Resources {
    type Output = u64;

    #[inline]
    fn index(&self, dimension: Dimension) -> &u64 {
        &self.0[dimension as usize]
    }
}

impl IndexMut<Dimension> for Resources {
    fn index_mut(&mut self, dimension: Dimension) -> &mut u64 {
        &mut self.0[dimension as usize]
    }
}
