//! What the tenants of one class get done in each second, and how long their requests take.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::Nanos;
use weir_scenario::report::sharing::ClassSeries;

use super::world::SECOND;

/// The seconds of one class, noted in the order of time.
pub(super) struct Series {
    from: Nanos,
    /// The seconds that have begun. The last one has no P99 yet.
    seconds: Vec<Second>,
    /// What the requests took that were done in the last second.
    took: Vec<Nanos>,
}

#[derive(Clone, Copy, Default)]
struct Second {
    bytes: u64,
    p99: Nanos,
}

impl Series {
    /// A series whose first second begins at `from`, for all tenants of a class together.
    pub(super) fn beginning(from: Nanos) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { from, seconds: Vec::new(), took: Vec::new() }))
    }

    /// Notes that a request is done at `now`, and how long that took.
    pub(super) fn took(&mut self, now: Nanos, took: Nanos) {
        self.go_on_to(now);
        self.took.push(took);
    }

    /// Notes that `bytes` have been read or written at `now`.
    pub(super) fn moved(&mut self, now: Nanos, bytes: u64) {
        self.go_on_to(now).bytes += bytes;
    }

    /// The second of `now`, with those before it ended.
    fn go_on_to(&mut self, now: Nanos) -> &mut Second {
        let second = ((now - self.from) / SECOND) as usize;
        if second >= self.seconds.len() {
            self.end_second();
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    fn end_second(&mut self) {
        self.took.sort_unstable();
        let last = self.took.len().saturating_sub(1);
        if let (Some(second), Some(&p99)) = (self.seconds.last_mut(), self.took.get(last - last / 100)) {
            second.p99 = p99;
        }
        self.took.clear();
    }

    /// The first `seconds` of them, as the page has them; bytes were divided by `scale`.
    pub(super) fn shown(&mut self, class: String, seconds: u64, scale: u64) -> ClassSeries {
        self.end_second();
        self.seconds.resize(seconds as usize, Second::default());
        ClassSeries {
            class,
            bytes_per_sec: self.seconds.iter().map(|second| second.bytes * scale).collect(),
            p99_us: self.seconds.iter().map(|second| second.p99 as f64 / 1e3).collect(),
        }
    }
}

/// The name of a class or a kind of tenants, as the JSON has it.
pub(super) fn name_of(class: impl fmt::Debug) -> String {
    format!("{class:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Class;

    #[test]
    fn each_second_has_its_bytes_and_the_p99_of_what_was_done_in_it() {
        let series = Series::beginning(5 * SECOND);
        let mut series = series.lock();
        for number in 1..=200 {
            series.took(5 * SECOND + number, 1_000 * number);
        }
        series.moved(6 * SECOND - 1, 10);
        series.took(8 * SECOND, 7_000);
        series.moved(8 * SECOND, 20);
        series.took(9 * SECOND, 9_000);
        let shown = series.shown(name_of(Class::Steady), 4, 32);
        assert_eq!(shown.class, "steady");
        assert_eq!(shown.bytes_per_sec, [320, 0, 0, 640]);
        assert_eq!(shown.p99_us, [199.0, 0.0, 0.0, 7.0], "what is done after the end is in no second");
    }
}
