//! How much processor time the machine has to spare.

use crate::Nanos;

/// The length of a tick in the kernel's accounting, on every Linux.
const TICK_NANOS: Nanos = 10_000_000;

/// The time that all processors together had to spare since the machine started: they were idle, or worked for threads
/// that give way to others, such as those of flushes and compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime(Nanos);

impl IdleTime {
    /// The spare time until now; `None` where the kernel does not tell.
    pub fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of `stat`: user, nice, system, idle, waiting for I/O, and more.
    fn of(stat: &str) -> Option<Self> {
        let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<u64>);
        let [_, nice, _, idle, io] = [(); 5].map(|()| fields.next().and_then(Result::ok));
        Some(Self((nice? + idle? + io?).saturating_mul(TICK_NANOS)))
    }

    /// How many processors had nothing else to do in the `nanos` since `before`.
    pub fn processors_since(self, before: Self, nanos: Nanos) -> f64 {
        self.0.saturating_sub(before.0) as f64 / nanos.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_of_all_processors() {
        let before = IdleTime::of("cpu  100 10 50 1000 5 0 3 2 0 0\ncpu0 1 2 3 4 5\n").expect("a line of the kernel");
        let now = IdleTime::of("cpu  150 20 60 1020 10 0 3 2 0 0\n").expect("a line of the kernel");
        let spare = now.processors_since(before, 200_000_000);
        assert!((spare - 1.75).abs() < 1e-9, "35 ticks in 20: {spare}");
    }

    #[test]
    fn what_is_no_such_line_tells_nothing() {
        for stat in ["", "cpu", "cpu  1 2 3 4", "cpu  1 2 3 x 5", "intr 1 2 3 4 5"] {
            assert_eq!(IdleTime::of(stat), None, "{stat:?}");
        }
    }
}
