//! Child processes that run, so that whoever is told to end can end them.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// See the module. What was asked of a child that is ended fails.
#[derive(Debug, Default)]
pub struct Children(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    running: Vec<u32>,
    ended: bool,
}

impl Children {
    /// Ends all, and all that come later.
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

    /// Before it is waited for: then its number may become another's.
    pub(super) fn remove(&self, id: u32) {
        self.0.lock().running.retain(|&other| other != id);
    }
}

/// A child that has ended already keeps its number until it was waited for.
fn kill(id: u32) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It fails harmlessly where that has happened.
        let _ = kill_process(pid, Signal::KILL);
    }
}
