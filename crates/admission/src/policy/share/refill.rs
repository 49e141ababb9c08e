//! How fast a full pool gives something back: the refill rate R of the [law](super::delta), measured (DF-4).
//!
//! What counts is the worst that a tenant could have met: the least that came back within any window that was as long
//! as the promised delay and in which somebody waited all the time. Flushes give back whole memtables, so the least of
//! a short window is less than the average: each delay has a window of its own. A bad window is forgotten after one to
//! two [spans](SPAN).

use std::collections::VecDeque;

use weir_io::Nanos;

use super::delta::refilled;

/// How long a bad window is remembered at least, in nanoseconds: a minute.
const SPAN: Nanos = 60_000_000_000;

/// How much comes back at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refill {
    /// Lengths of windows in nanoseconds, and units a second that came back in them.
    windows: Vec<(Nanos, u64)>,
    /// Units that come back within a delay for which nothing was measured.
    unknown: u64,
}

impl Refill {
    /// The refill that was measured in windows of these lengths, in units a second. Where nothing was measured, nothing
    /// comes back.
    pub fn cautious(windows: impl IntoIterator<Item = (Nanos, u64)>) -> Self {
        Self { windows: windows.into_iter().collect(), unknown: 0 }
    }

    /// The same, but where nothing was measured, and so nothing can be known yet, as much comes back as anybody could
    /// want.
    #[must_use]
    pub fn hopeful(self) -> Self {
        Self { unknown: u64::MAX, ..self }
    }

    /// Units that come back at least within `delta` nanoseconds: the least of a window, as often as that window fits
    /// into `delta`.
    pub fn within(&self, delta: Nanos) -> u64 {
        if delta == 0 {
            return 0;
        }
        let whole = |&(window, rate): &(Nanos, u64)| {
            let windows = delta / window.max(1);
            (windows > 0).then(|| refilled(windows * window, rate))
        };
        self.windows.iter().filter_map(whole).max().unwrap_or(self.unknown)
    }
}

/// Measures the refill in windows of one length.
#[derive(Clone, Debug)]
pub struct RefillMeter {
    window: Nanos,
    /// Since when somebody has waited without a break.
    waited_since: Option<Nanos>,
    /// What came back in the last window, and when, the oldest first.
    freed: VecDeque<(Nanos, u64)>,
    in_window: u64,
    span_began: Nanos,
    /// The least that came back in a window, in this span and in the one before.
    least: [Option<u64>; 2],
}

impl RefillMeter {
    /// A meter for windows of `window` nanoseconds.
    pub fn new(window: Nanos) -> Self {
        let freed = VecDeque::new();
        Self { window: window.max(1), waited_since: None, freed, in_window: 0, span_began: 0, least: [None; 2] }
    }

    /// Takes in that `units` came back at `now`.
    pub fn free(&mut self, now: Nanos, units: u64) {
        if self.waited_since.is_some() {
            self.freed.push_back((now, units));
            self.in_window += units;
        }
    }

    /// Looks at the window that ends now, which counts. To be called often while somebody waits, and when that ends.
    pub fn look(&mut self, now: Nanos, is_waited_for: bool) {
        if !is_waited_for {
            self.waited_since = None;
            self.freed.clear();
            self.in_window = 0;
            return;
        }
        let since = *self.waited_since.get_or_insert(now);
        let begin = now.saturating_sub(self.window);
        while let Some(&(at, units)) = self.freed.front()
            && at <= begin
        {
            self.freed.pop_front();
            self.in_window -= units;
        }
        if now - since < self.window {
            return;
        }
        if now - self.span_began >= SPAN && self.least[0].is_some() {
            self.least = [None, self.least[0]];
            self.span_began = now;
        }
        let least = &mut self.least[0];
        *least = Some(least.map_or(self.in_window, |least| least.min(self.in_window)));
    }

    /// Units that come back in a second, at least; `None` as long as nobody has waited for a whole window.
    pub fn units_per_sec(&self) -> Option<u64> {
        let least = self.least.into_iter().flatten().min()?;
        let rate = u128::from(least) * 1_000_000_000 / u128::from(self.window);
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Gives back `units` every `every` milliseconds between `from` and `until`, and looks every millisecond.
    fn run(meter: &mut RefillMeter, (from, until): (u64, u64), every: u64, units: u64) {
        for ms in from..until {
            if ms.is_multiple_of(every) {
                meter.free(ms * MS, units);
            }
            meter.look(ms * MS, true);
        }
    }

    #[test]
    fn nothing_is_known_before_a_whole_window_was_waited_for() {
        let mut meter = RefillMeter::new(100 * MS);
        meter.free(0, 1_000);
        run(&mut meter, (0, 100), 10, 50);
        assert_eq!(meter.units_per_sec(), None);
        meter.look(100 * MS, false);
        run(&mut meter, (101, 200), 10, 50);
        assert_eq!(meter.units_per_sec(), None, "the wait was interrupted");
        run(&mut meter, (200, 300), 10, 50);
        assert_eq!(meter.units_per_sec(), Some(5_000), "ten times in every window");
    }

    #[test]
    fn the_worst_window_counts_and_not_the_average() {
        let mut meter = RefillMeter::new(100 * MS);
        run(&mut meter, (0, 990), 10, 50);
        // The same on average, in lumps: there are windows with only three of them.
        run(&mut meter, (990, 2_000), 30, 150);
        assert_eq!(meter.units_per_sec(), Some(3 * 1_500));
        run(&mut meter, (2_000, 2_300), 1_000, 0);
        assert_eq!(meter.units_per_sec(), Some(0), "nothing came back for three windows");
    }

    #[test]
    fn a_bad_window_is_forgotten_after_a_while() {
        let mut meter = RefillMeter::new(100 * MS);
        run(&mut meter, (0, 300), 100, 0);
        run(&mut meter, (300, 59_000), 10, 50);
        assert_eq!(meter.units_per_sec(), Some(0));
        run(&mut meter, (59_000, 130_000), 10, 50);
        assert_eq!(meter.units_per_sec(), Some(5_000));
        meter.look(130_000 * MS, false);
        meter.look(900_000 * MS, true);
        assert_eq!(meter.units_per_sec(), Some(5_000), "while nobody waits nothing is forgotten");
    }

    #[test]
    fn a_delay_is_judged_by_the_windows_that_fit_into_it() {
        let refill = Refill::cautious([(100 * MS, 1_000), (350 * MS, 4_000)]);
        let within = [0, 99, 100, 199, 200, 349, 350, 700].map(|ms| refill.within(ms * MS));
        assert_eq!(within, [0, 0, 100, 100, 200, 300, 1_400, 2_800]);
        assert_eq!([0, 99, 100].map(|ms| refill.clone().hopeful().within(ms * MS)), [0, u64::MAX, 100]);
    }
}
