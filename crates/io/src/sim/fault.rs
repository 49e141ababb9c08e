//! What goes wrong, and when: exactly ("the third sync") or by chance, all from one seed.

use super::counters::{OP_KINDS, OpKind};
use crate::{Nanos, Rng};

/// A way in which one operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO. A failed write may have written any of its sectors, a failed operation on names may have happened; a
    /// failed [`OpKind::Sync`] has lost unsynced data, see the fault model.
    Error,
    /// ENOSPC: for writes, reservations and new names.
    NoSpace,
    /// Only the first sectors of a write are written, and the caller is told of an error.
    ShortWrite,
    /// One bit of what a read returns is wrong, and nobody is told.
    FlipBit,
}

/// A stretch of virtual time in which the device is slow or hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    from: Nanos,
    pub(super) until: Nanos,
    /// How many times slower; `None` is a hang: nothing starts before the end.
    pub(super) slowdown: Option<u64>,
}

impl Period {
    pub(super) fn contains(&self, at: Nanos) -> bool {
        (self.from..self.until).contains(&at)
    }
}

/// The faults of one run. Starts as [`FaultPlan::none`].
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    exact: Vec<Exact>,
    chances: Vec<(OpKind, Fault, f64)>,
    periods: Vec<Period>,
}

#[derive(Clone, Copy, Debug)]
struct Exact {
    kind: Option<OpKind>,
    nth: u64,
    fault: Fault,
}

impl FaultPlan {
    /// A disk that never fails. It can still lose power.
    pub fn none() -> Self {
        Self::default()
    }

    /// Makes the `nth` operation (from 0) of `kind`, or of all operations, go wrong in the way of `fault`. A fault that
    /// makes no sense for the operation it hits becomes a [`Fault::Error`].
    #[must_use]
    pub fn fail_nth(mut self, kind: Option<OpKind>, nth: u64, fault: Fault) -> Self {
        self.exact.push(Exact { kind, nth, fault });
        self
    }

    /// Makes every operation of `kind` go wrong in the way of `fault` with probability `p`.
    #[must_use]
    pub fn chance(mut self, kind: OpKind, fault: Fault, p: f64) -> Self {
        self.chances.push((kind, fault, p));
        self
    }

    /// Makes operations that start in `from..until` of virtual time take `slowdown` times as long.
    #[must_use]
    pub fn slow(mut self, from: Nanos, until: Nanos, slowdown: u64) -> Self {
        self.periods.push(Period { from, until, slowdown: Some(slowdown) });
        self
    }

    /// Makes operations that would start in `from..until` of virtual time wait until then.
    #[must_use]
    pub fn hang(mut self, from: Nanos, until: Nanos) -> Self {
        self.periods.push(Period { from, until, slowdown: None });
        self
    }
}

/// A plan in progress.
pub(super) struct Faults {
    plan: FaultPlan,
    rng: Rng,
    /// Operations so far, in total and of each kind.
    total: u64,
    of_kind: [u64; OP_KINDS],
}

impl Faults {
    /// The plan at its start, and the periods for the device.
    pub(super) fn new(mut plan: FaultPlan, rng: Rng) -> (Self, Vec<Period>) {
        let periods = std::mem::take(&mut plan.periods);
        (Self { plan, rng, total: 0, of_kind: [0; OP_KINDS] }, periods)
    }

    /// Replaces the planned faults. Counts go on, and `nth` still counts from the beginning of the run.
    pub(super) fn set(&mut self, mut plan: FaultPlan) -> Vec<Period> {
        let periods = std::mem::take(&mut plan.periods);
        self.plan = plan;
        periods
    }

    /// Makes the next operation of `kind` (or of any kind) go wrong.
    pub(super) fn fail_next(&mut self, kind: Option<OpKind>, fault: Fault) {
        let nth = kind.map_or(self.total, |kind| self.of_kind[kind as usize]);
        self.plan.exact.push(Exact { kind, nth, fault });
    }

    /// Counts one operation of `kind`, and says what goes wrong with it.
    pub(super) fn draw(&mut self, kind: OpKind) -> Option<Fault> {
        let (total, nth) = (self.total, self.of_kind[kind as usize]);
        self.total += 1;
        self.of_kind[kind as usize] += 1;
        let mut hit = None;
        for exact in &self.plan.exact {
            let due = match exact.kind {
                Some(wanted) => wanted == kind && exact.nth == nth,
                None => exact.nth == total,
            };
            if due {
                hit = Some(exact.fault);
            }
        }
        for (wanted, fault, p) in &self.plan.chances {
            // Drawn whether or not another fault has hit, so that plans do not disturb one another.
            if *wanted == kind && self.rng.chance(*p) {
                hit = hit.or(Some(*fault));
            }
        }
        let fits = |fault: &Fault| match fault {
            Fault::Error => true,
            Fault::NoSpace => kind.may_need_space(),
            Fault::ShortWrite => kind == OpKind::Write,
            Fault::FlipBit => kind == OpKind::Read,
        };
        hit.map(|fault| if fits(&fault) { fault } else { Fault::Error })
    }

    /// The generator for the details of a fault.
    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}
