//! Where partitions that should leave the node are handed to whoever can move them (FX-4, FX-5).

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::policy::Violation;

/// Moves partitions to other nodes, or tells somebody who does.
pub trait Mover: Send + Sync + 'static {
    /// The node is short: called once a second while it is, with the partitions that should leave now, and once with
    /// `None` when the shortage is over. Must not block: the next decision about everybody's compactions waits for it.
    fn hear(&self, violation: Option<&Violation>);
}

/// Holds the mover, and whether it was told of a shortage.
#[derive(Default)]
pub(crate) struct Desk(Mutex<(Option<Arc<dyn Mover>>, bool)>);

impl Desk {
    pub fn set(&self, mover: Arc<dyn Mover>) {
        self.0.lock().0 = Some(mover);
    }

    /// Passes on what the policies decided.
    pub fn decided(&self, violation: Option<&Violation>) {
        let mut desk = self.0.lock();
        let was = std::mem::replace(&mut desk.1, violation.is_some());
        let mover = desk.0.clone().filter(|_| was || violation.is_some());
        drop(desk);
        if let Some(mover) = mover {
            mover.hear(violation);
        }
    }
}
