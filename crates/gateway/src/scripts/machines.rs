//! Idle machines of one tenant, so that its next script need not wait for a new one. No other tenant's script ever runs
//! in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_command::error::Outcome;
use weir_script::Machine;

/// How many machines are kept for one tenant.
const KEPT_MAX: usize = 4;
/// How many machines are kept for all tenants of a node. Each takes some 150 KB if scripts are small.
const NODE_KEPT_MAX: usize = 256;
/// Seconds after which unused machines are given up.
const IDLE_SECONDS: u32 = 10;

/// How many machines a node keeps for all of its tenants now.
#[derive(Default)]
pub(crate) struct NodeMachines(AtomicUsize);

impl NodeMachines {
    fn try_add(&self) -> bool {
        let more = |kept| (kept < NODE_KEPT_MAX).then_some(kept + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// The idle machines of one tenant.
pub(crate) struct Machines {
    kept: Mutex<Vec<Machine>>,
    /// Seconds since a machine was last given back.
    idle: AtomicU32,
    node: Arc<NodeMachines>,
}

impl Machines {
    /// No machines yet, for a tenant of the node.
    pub(crate) fn new(node: &Arc<NodeMachines>) -> Self {
        Self { kept: Mutex::default(), idle: AtomicU32::new(0), node: Arc::clone(node) }
    }

    /// The machine that was used last, or a new one.
    ///
    /// # Errors
    /// No machine can be made.
    pub(crate) fn take(&self) -> Outcome<Machine> {
        let kept = self.kept.lock().pop();
        match kept {
            Some(machine) => {
                self.node.0.fetch_sub(1, Ordering::Relaxed);
                Ok(machine)
            }
            None => Machine::new(),
        }
    }

    /// Keeps `machine`, if there is room for it.
    pub(crate) fn put(&self, machine: Machine) {
        self.idle.store(0, Ordering::Relaxed);
        if !machine.is_small() {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX && self.node.try_add() {
            kept.push(machine);
        }
    }

    /// Once a second: gives up machines that nobody uses.
    pub(crate) fn sweep(&self) {
        if self.idle.fetch_add(1, Ordering::Relaxed) >= IDLE_SECONDS {
            let idle = std::mem::take(&mut *self.kept.lock());
            self.node.0.fetch_sub(idle.len(), Ordering::Relaxed);
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.node.0.fetch_sub(self.kept.get_mut().len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_and_for_a_while() {
        let node = Arc::default();
        let (ada, eve) = (Machines::new(&node), Machines::new(&node));
        let kept = || node.0.load(Ordering::Relaxed);
        for _ in 0..KEPT_MAX + 1 {
            ada.put(Machine::new().expect("a machine"));
        }
        assert_eq!(kept(), KEPT_MAX);
        assert!(ada.take().is_ok() && kept() == KEPT_MAX - 1);
        eve.put(Machine::new().expect("a machine"));
        for _ in 0..IDLE_SECONDS {
            ada.sweep();
        }
        assert_eq!(kept(), KEPT_MAX);
        ada.sweep();
        assert_eq!(kept(), 1);
        drop(eve);
        assert_eq!(kept(), 0);
        node.0.store(NODE_KEPT_MAX, Ordering::Relaxed);
        ada.put(Machine::new().expect("a machine"));
        assert!(ada.kept.lock().is_empty(), "other tenants have all places");
        node.0.store(0, Ordering::Relaxed);
    }
}
