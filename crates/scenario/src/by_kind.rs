//! What clients saw of their operations, by kind, in the seconds that count.

use hdrhistogram::Histogram;
use weir_io::Nanos;

use crate::mix::Kind;
use crate::outcome::{Latency, OfKind};

/// Counts operations as they happen: all together first, and then each of [`Kind::ALL`].
pub struct ByKind {
    each: [One; 1 + Kind::ALL.len()],
    /// Seconds that are left before operations count.
    warm_up: u64,
    /// Seconds that counted.
    seconds: u64,
}

/// Operations of one kind.
struct One {
    all: Histogram<u64>,
    /// Waits in the second under way.
    now: Histogram<u64>,
    /// The highest 99th percentile of all seconds, in nanoseconds.
    worst_p99: Nanos,
}

impl One {
    fn new() -> Self {
        // Histograms that grow with what they hold.
        let growing = |digits| Histogram::new(digits).expect("a constant precision is valid");
        Self { all: growing(3), now: growing(2), worst_p99: 0 }
    }

    fn end_second(&mut self, counts: bool) {
        if counts {
            self.worst_p99 = self.worst_p99.max(self.now.value_at_quantile(0.99));
        } else {
            self.all.reset();
        }
        self.now.reset();
    }
}

impl ByKind {
    /// A count of nothing yet. What is done in the first `warm_up` seconds does not count.
    pub fn new(warm_up: u64) -> Self {
        Self { each: std::array::from_fn(|_| One::new()), warm_up, seconds: 0 }
    }

    /// Notes that an operation of `kind` was answered `waited` after it was to be sent.
    pub fn note(&mut self, kind: Kind, waited: Nanos) {
        for place in [0, 1 + kind as usize] {
            let one = &mut self.each[place];
            for histogram in [&mut one.all, &mut one.now] {
                histogram.record(waited).expect("it grows with what it holds");
            }
        }
    }

    /// Ends a second, and returns how many operations were done in it.
    pub fn end_second(&mut self) -> u64 {
        let (counts, done) = (self.warm_up == 0, self.each[0].now.len());
        self.each.iter_mut().for_each(|one| one.end_second(counts));
        self.warm_up = self.warm_up.saturating_sub(1);
        self.seconds += u64::from(counts);
        done
    }

    /// A row for all operations together, and one for each kind that occurred.
    pub fn rows(&self) -> Vec<OfKind> {
        let names = std::iter::once("all").chain(Kind::ALL.map(Kind::name));
        let row = |(kind, one): (&str, &One)| OfKind {
            kind: kind.to_owned(),
            done: one.all.len(),
            per_sec: one.all.len() as f64 / self.seconds.max(1) as f64,
            latency_us: Latency::of(&one.all),
            worst_p99_us: one.worst_p99 as f64 / 1e3,
        };
        names.zip(&self.each).filter(|(_, one)| !one.all.is_empty()).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_counts_begins_after_the_warm_up_and_each_kind_has_a_row() {
        let mut by_kind = ByKind::new(1);
        by_kind.note(Kind::Get, 900 * MS);
        assert_eq!(by_kind.end_second(), 1);
        by_kind.note(Kind::Get, MS);
        by_kind.note(Kind::Get, 3 * MS);
        assert_eq!(by_kind.end_second(), 2);
        by_kind.note(Kind::Update, 9 * MS);
        by_kind.note(Kind::Get, 2 * MS);
        assert_eq!(by_kind.end_second(), 2);
        let rows = by_kind.rows();
        // In milliseconds: one histogram is exact to 0.1 %, the other to 1 %.
        let ms = |us: f64| (us / 1e3).round();
        let of = |row: &OfKind| (row.kind.clone(), row.done, row.per_sec, ms(row.latency_us.max), ms(row.worst_p99_us));
        let wanted = [("all", 4, 2.0, 9.0, 9.0), ("update", 1, 0.5, 9.0, 9.0), ("get", 3, 1.5, 3.0, 3.0)];
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            wanted.map(|(kind, a, b, c, d)| (kind.to_owned(), a, b, c, d))
        );
    }
}
