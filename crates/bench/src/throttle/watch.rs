//! Cleans up when this process is asked to end, because a control group outlives its maker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// The group to remove.
static GROUP: Mutex<Option<PathBuf>> = Mutex::new(None);
static STARTED: Once = Once::new();

/// From now on a SIGINT, SIGTERM or SIGHUP kills the processes in `group`, removes the group, and ends this process.
pub(super) fn remove_on_signals(group: &Path) {
    *GROUP.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.to_path_buf());
    STARTED.call_once(|| {
        thread::spawn(wait);
    });
}

/// Forgets the group, because it is removed already.
pub(super) fn forget() {
    *GROUP.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn wait() {
    // Without a runtime, signals have their default effect, and the next run sweeps away what this one leaves.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let number = runtime.block_on(async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [Ok(mut int), Ok(mut term), Ok(mut hup)] = kinds.map(signal) else { return None };
        tokio::select! {
            _ = int.recv() => Some(2),
            _ = term.recv() => Some(15),
            _ = hup.recv() => Some(1),
        }
    });
    let Some(number) = number else { return };
    if let Some(group) = GROUP.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for member in members.split_whitespace() {
            // These are our own children: no other process is put into the group.
            let _ = Command::new("kill").args(["-9", member]).status();
        }
        for _ in 0..50 {
            if fs::remove_dir(&group).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    std::process::exit(128 + number);
}
