//! The precedence of a thread among others that want the same processor: its niceness, and how soon it runs once it is
//! woken. On Linux both belong to the thread, and threads that it starts inherit them.

use rustix::process::{getpriority_process, setpriority_process};

/// A thread that is woken goes before a running one if its slice is the shorter one. This is the shortest slice that
/// the kernel accepts.
const PROMPT_SLICE_NANOS: u64 = 100_000;

/// Sets the niceness of the calling thread (-20 to 19). If the system refuses, only smoothness suffers.
pub fn be_nice(nice: i32) {
    let _ = setpriority_process(None, nice);
}

/// Lets the calling thread run as soon as it is woken, in short turns: for threads that a client waits for and that do
/// little at a time. Otherwise threads with turns of the ordinary length (1.4 ms on two processors) finish theirs
/// first, and a thread that waited for several of them waited for milliseconds. The thread's share of the processor
/// stays the same.
///
/// Linux 6.12 and later; elsewhere, and where the system refuses, nothing changes.
pub fn be_prompt() {
    // Setting the slice sets the niceness too, so read it first.
    let Ok(nice) = getpriority_process(None) else { return };
    let attributes = attributes(nice, PROMPT_SLICE_NANOS);
    // SAFETY: the kernel reads `size` bytes of a structure that outlives the call. Thread 0 is the calling one; there
    // are no flags.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

const fn attributes(nice: i32, slice: u64) -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice,
        sched_deadline: 0,
        sched_period: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Niceness and slice of the calling thread; a slice of zero where the kernel has none.
    fn now() -> (i32, u64) {
        let mut attributes = attributes(0, 0);
        // SAFETY: the kernel writes at most `size` bytes to a structure of that size.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, attributes.size, 0) };
        assert_eq!(result, 0);
        (attributes.sched_nice, attributes.sched_runtime)
    }

    #[test]
    fn promptness_and_niceness_leave_each_other_alone() {
        let inside = || {
            let (before, ordinary) = now();
            be_prompt();
            let (nice, slice) = now();
            assert_eq!(nice, before);
            be_nice(before + 1);
            assert_eq!(now(), (before + 1, slice));
            be_prompt();
            assert_eq!(now(), (before + 1, slice));
            let heir = thread::spawn(now).join();
            assert_eq!(heir.ok(), Some((before + 1, slice)));
            (ordinary, slice)
        };
        let (ordinary, slice) = thread::spawn(inside).join().expect("no assertion failed");
        // An older kernel reports zero before and after.
        assert!(slice == PROMPT_SLICE_NANOS || ordinary == 0, "{ordinary}, {slice}");
    }
}
