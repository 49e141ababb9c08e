//! What clients saw of their requests, by whether the partition was awake when they were sent.

use hdrhistogram::Histogram;
use weir_io::Nanos;

use crate::outcome::{Answered, Latency, ratio};

/// A request that is done within this time after it was to be sent is in time: the 10 ms of the peer's own papers.
pub const DONE: Nanos = 10_000_000;

/// Counts requests as they are answered.
pub struct ByState {
    asleep: Answers,
    awake: Answers,
    /// Reads that did not give what was acknowledged before.
    pub lost: u64,
}

struct Answers {
    /// Answered at most [`DONE`] after they were to be sent.
    in_time: u64,
    all: Histogram<u64>,
}

impl Answers {
    fn new() -> Self {
        Self { in_time: 0, all: Histogram::new(3).expect("a constant precision is valid") }
    }

    fn answered(&self) -> Answered {
        Answered {
            sent: self.all.len(),
            in_time: if self.all.is_empty() { 1.0 } else { ratio(self.in_time, self.all.len()) },
            latency_us: Latency::of(&self.all),
        }
    }
}

impl ByState {
    /// Notes a request whose partition `is_awake` when it was sent, and that was answered `waited` after it was to be
    /// sent; if not `done`, it was given up then.
    pub fn note(&mut self, is_awake: bool, waited: Nanos, done: bool) {
        let answers = if is_awake { &mut self.awake } else { &mut self.asleep };
        answers.in_time += u64::from(done && waited <= DONE);
        answers.all.record(waited).expect("it grows with what it holds");
    }

    /// The requests that found their partition asleep, on its way to sleep, or being woken.
    pub fn asleep(&self) -> Answered {
        self.asleep.answered()
    }

    /// All others.
    pub fn awake(&self) -> Answered {
        self.awake.answered()
    }
}

impl Default for ByState {
    fn default() -> Self {
        Self { asleep: Answers::new(), awake: Answers::new(), lost: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_not_in_time() {
        let mut by_state = ByState::default();
        assert_eq!((by_state.awake().sent, by_state.awake().in_time), (0, 1.0));
        by_state.note(false, DONE, true);
        by_state.note(false, DONE + 1, true);
        by_state.note(true, 0, false);
        let of = |answered: Answered| (answered.sent, answered.in_time);
        assert_eq!([of(by_state.asleep()), of(by_state.awake())], [(2, 0.5), (1, 0.0)]);
    }
}
