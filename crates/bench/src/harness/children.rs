//! Child processes that run, so that they can be ended when this program is told to end.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// The children that run. An order to a child that is ended fails.
#[derive(Debug, Default)]
pub struct Children(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    running: Vec<u32>,
    ended: bool,
}

impl Children {
    /// Ends all children, and every child that is added later.
    pub fn end(&self) {
        let mut ids = self.0.lock();
        ids.ended = true;
        ids.running.drain(..).for_each(kill);
    }

    /// Whether they were ended.
    pub fn are_ended(&self) -> bool {
        self.0.lock().ended
    }

    pub(super) fn add(&self, id: u32) {
        let mut ids = self.0.lock();
        if ids.ended { kill(id) } else { ids.running.push(id) }
    }

    /// Removes a child before it is waited for: after that its number may become another process's.
    pub(super) fn remove(&self, id: u32) {
        self.0.lock().running.retain(|&other| other != id);
    }
}

/// A child that has ended already keeps its number until it was waited for.
fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // Fails harmlessly if the child has ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}
