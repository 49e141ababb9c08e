//! The knobs of a running tree, in atomics.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use weir_model::engine::{Scope, TreeKnobs};

use crate::options::TreeOptions;

impl TreeOptions {
    /// The knobs of a tree that no policy controls: jobs start at once and without limits, as these options say.
    pub fn knobs(&self) -> TreeKnobs {
        TreeKnobs {
            scope: Scope::All,
            flush_gather: 1,
            write_buffers: self.write_buffers_max,
            intra_l0_fan_in: INTRA_L0_FAN_IN,
            intra_l0_from: 0,
            intra_l0_bytes: u64::MAX,
            warm: true,
            l0_gathers: true,
            pending_stalls: true,
        }
    }
}

/// How many runs a merge within level 0 takes at least (FX-22).
const INTRA_L0_FAN_IN: usize = 4;

/// The knobs, which writers and pickers read without a lock. A reader may see one part of a change before the rest.
pub(crate) struct Knobs {
    scope: AtomicU8,
    flush_gather: AtomicUsize,
    write_buffers: AtomicUsize,
    intra_l0_fan_in: AtomicUsize,
    intra_l0_from: AtomicUsize,
    intra_l0_bytes: AtomicU64,
    warm: AtomicBool,
    l0_gathers: AtomicBool,
    pending_stalls: AtomicBool,
}

impl Knobs {
    pub fn new(knobs: TreeKnobs) -> Self {
        let new = Self {
            scope: AtomicU8::new(0),
            flush_gather: AtomicUsize::new(0),
            write_buffers: AtomicUsize::new(0),
            intra_l0_fan_in: AtomicUsize::new(0),
            intra_l0_from: AtomicUsize::new(0),
            intra_l0_bytes: AtomicU64::new(0),
            warm: AtomicBool::new(false),
            l0_gathers: AtomicBool::new(false),
            pending_stalls: AtomicBool::new(false),
        };
        new.set(knobs);
        new
    }

    pub fn set(&self, knobs: TreeKnobs) {
        let scope = Scope::ALL.iter().position(|&scope| scope == knobs.scope).unwrap_or(0);
        self.scope.store(scope as u8, Ordering::Relaxed);
        self.flush_gather.store(knobs.flush_gather.max(1), Ordering::Relaxed);
        self.write_buffers.store(knobs.write_buffers.max(2), Ordering::Relaxed);
        self.intra_l0_fan_in.store(knobs.intra_l0_fan_in.max(2), Ordering::Relaxed);
        self.intra_l0_from.store(knobs.intra_l0_from, Ordering::Relaxed);
        self.intra_l0_bytes.store(knobs.intra_l0_bytes, Ordering::Relaxed);
        self.warm.store(knobs.warm, Ordering::Relaxed);
        self.l0_gathers.store(knobs.l0_gathers, Ordering::Relaxed);
        self.pending_stalls.store(knobs.pending_stalls, Ordering::Relaxed);
    }

    pub fn get(&self) -> TreeKnobs {
        TreeKnobs {
            scope: self.scope(),
            flush_gather: self.flush_gather.load(Ordering::Relaxed),
            write_buffers: self.write_buffers(),
            intra_l0_fan_in: self.intra_l0_fan_in.load(Ordering::Relaxed),
            intra_l0_from: self.intra_l0_from.load(Ordering::Relaxed),
            intra_l0_bytes: self.intra_l0_bytes.load(Ordering::Relaxed),
            warm: self.warm.load(Ordering::Relaxed),
            l0_gathers: self.l0_gathers.load(Ordering::Relaxed),
            pending_stalls: self.pending_stalls.load(Ordering::Relaxed),
        }
    }

    /// Every write calls this, and [`Self::write_buffers`].
    pub fn scope(&self) -> Scope {
        Scope::ALL[usize::from(self.scope.load(Ordering::Relaxed))]
    }

    /// Whether bytes of pending compactions stall writes. Every write calls this, too.
    pub fn pending_stalls(&self) -> bool {
        self.pending_stalls.load(Ordering::Relaxed) && self.scope() == Scope::All
    }

    /// Every write calls this, and [`Self::scope`].
    pub fn write_buffers(&self) -> usize {
        self.write_buffers.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_stop_a_tree_for_ever_is_raised() {
        let wild = TreeKnobs {
            scope: Scope::IntraL0,
            flush_gather: 0,
            write_buffers: 0,
            intra_l0_fan_in: 0,
            intra_l0_from: 0,
            intra_l0_bytes: 0,
            warm: false,
            l0_gathers: false,
            pending_stalls: false,
        };
        let tame = TreeKnobs { flush_gather: 1, write_buffers: 2, intra_l0_fan_in: 2, ..wild };
        assert_eq!(Knobs::new(wild).get(), tame);
    }
}
