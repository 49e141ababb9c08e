//! Over how many threads the connections are spread: as few as can do the work.
//!
//! A thread that sleeps between two requests costs more than it helps: it has to be woken for each, in the middle of what its processor
//! did, and finds one request where a busier thread finds a dozen. So one thread serves all until it is at its end. Then twice as many try, and
//! stay only if they serve more: where clients share the processors, or are the slower side, they would not.

use std::collections::VecDeque;

use weir_io::Nanos;

use crate::stats::Work;

/// How often it is looked at.
pub(crate) const LOOK_NANOS: Nanos = 100_000_000;

/// What is judged is the mean of so many looks with the same number of threads: on a machine shared with others one look differs from the next by a tenth.
const LOOKS: usize = 4;
/// At this share of its time a thread is at its end. One that is full still sleeps for a moment now and then.
const FULL: f64 = 0.9;
/// More threads are to serve so many times what fewer did.
const GAIN: f64 = 1.1;
/// One thread fewer is enough while all together are no busier than this, in threads that it would leave: it will take less work, too.
const FEWER: f64 = 0.95;
/// A trial that has gained nothing is repeated after so many looks, then after twice as many, up to the second number. A wrong judgement,
/// because the load fell just then, must not last; and a trial in vain may cost a third of what is served while it goes on.
const WAIT_LOOKS: (u32, u32) = (10, 160);
/// Where more or less is served than when it gained nothing, by this factor, it is another load, and may gain from more threads.
const OTHER_LOAD: f64 = 1.25;

/// What threads did between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Processor time of all, as a part of the time that passed: two busy threads have 2.0.
    pub(crate) busy: f64,
    /// The same of the busiest.
    pub(crate) busiest: f64,
    /// Commands served in a second.
    pub(crate) rate: f64,
}

impl Done {
    /// What threads did in so many seconds.
    pub(crate) fn between(before: &[Work], now: &[Work], seconds: f64) -> Self {
        let mut done = Self::default();
        for (before, now) in before.iter().zip(now) {
            let read = now.read.saturating_sub(before.read);
            let busy =
                if read == 0 { 0.0 } else { now.processor.saturating_sub(before.processor) as f64 / read as f64 };
            done.busy += busy;
            done.busiest = done.busiest.max(busy);
            done.rate += now.commands.saturating_sub(before.commands) as f64 / seconds;
        }
        done
    }

    fn is_full(&self) -> bool {
        self.busiest >= FULL
    }
}

/// More threads are being tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// How many there were.
    from: usize,
    /// Commands that they served in a second.
    rate: f64,
}

/// A trial that gained nothing.
#[derive(Clone, Copy, Debug)]
struct Vain {
    /// What was served then.
    rate: f64,
    /// Looks since then.
    looks: u32,
    /// Looks until it is repeated.
    wait: u32,
}

impl Vain {
    fn is_over(&self, rate: f64) -> bool {
        self.looks >= self.wait || self.is_other(rate)
    }

    fn is_other(&self, rate: f64) -> bool {
        rate > self.rate * OTHER_LOAD || rate * OTHER_LOAD < self.rate
    }
}

/// How many threads serve, of those that there are.
#[derive(Debug)]
pub(crate) struct Spread {
    threads: usize,
    serving: usize,
    /// Until the next look connections are on their way, to more threads or to fewer.
    is_settling: bool,
    /// The last [`LOOKS`] with these threads.
    lately: VecDeque<Done>,
    trial: Option<Trial>,
    vain: Option<Vain>,
}

impl Spread {
    /// Begins with one of `threads`.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, serving: 1, is_settling: false, lately: VecDeque::new(), trial: None, vain: None }
    }

    /// How many are to serve from now on, after the serving ones did this since the last look.
    pub(crate) fn look(&mut self, done: Done) -> usize {
        if !std::mem::take(&mut self.is_settling) {
            if self.lately.len() == LOOKS {
                self.lately.pop_front();
            }
            self.lately.push_back(done);
            let before = self.serving;
            self.judge(done);
            if self.serving != before {
                self.lately.clear();
                self.is_settling = true;
            }
        }
        self.serving
    }

    fn judge(&mut self, last: Done) {
        let has_seen_enough = self.lately.len() == LOOKS;
        if let Some(trial) = self.trial {
            if has_seen_enough {
                self.end(trial);
            }
            return;
        }
        if let Some(vain) = &mut self.vain {
            vain.looks += 1;
        }
        if self.serving > 1 && has_seen_enough {
            let busy = mean(self.lately.iter().map(|done| done.busy));
            if busy <= FEWER * (self.serving - 1) as f64 {
                self.serving -= 1;
                return;
            }
        }
        // After one look that is full, and not after several: what comes in a burst is waiting.
        if last.is_full() && self.serving < self.threads {
            let rate = mean(self.lately.iter().rev().take_while(|done| done.is_full()).map(|done| done.rate));
            if self.vain.is_none_or(|vain| vain.is_over(rate)) {
                self.trial = Some(Trial { from: self.serving, rate });
                self.serving = (2 * self.serving).min(self.threads);
            }
        }
    }

    fn end(&mut self, trial: Trial) {
        self.trial = None;
        if mean(self.lately.iter().map(|done| done.rate)) >= trial.rate * GAIN {
            self.vain = None;
            return;
        }
        self.serving = trial.from;
        let again = self.vain.filter(|vain| !vain.is_other(trial.rate));
        let wait = again.map_or(WAIT_LOOKS.0, |vain| (2 * vain.wait).min(WAIT_LOOKS.1));
        self.vain = Some(Vain { rate: trial.rate, looks: 0, wait });
    }
}

/// Of at least one.
fn mean(all: impl Iterator<Item = f64>) -> f64 {
    let (sum, number) = all.fold((0.0, 0.0), |(sum, number), each| (sum + each, number + 1.0));
    sum / number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `serves` says what so many threads do.
    fn run(spread: &mut Spread, looks: u32, serves: impl Fn(usize) -> Done) -> Vec<usize> {
        let mut serving = spread.serving;
        let mut look = || {
            serving = spread.look(serves(serving));
            serving
        };
        (0..looks).map(|_| look()).collect()
    }

    /// Threads that are full, whatever their number, and serve this much each.
    fn full(each: f64) -> impl Fn(usize) -> Done {
        move |serving| Done { busy: serving as f64, busiest: 1.0, rate: each * serving as f64 }
    }

    #[test]
    fn one_serves_until_it_is_full_and_then_as_many_as_bring_something() {
        let mut spread = Spread::new(6);
        let light = |_| Done { busy: 0.8, busiest: 0.8, rate: 80.0 };
        assert_eq!(run(&mut spread, 9, light), [1; 9]);
        let served = run(&mut spread, 30, full(100.0));
        assert_eq!([&served[..6], &served[6..12], &served[12..]], [&[2; 6][..], &[4; 6], &[6; 18]]);
    }

    #[test]
    fn threads_that_serve_no_more_are_given_back_and_tried_ever_less_often() {
        let mut spread = Spread::new(2);
        // The clients are the slower side: two threads share what one did.
        let clients = |serving: usize| Done { busy: 1.0, busiest: 1.0 / serving as f64, rate: 100.0 };
        let served = run(&mut spread, 520, clients);
        let begins = |&look: &usize| served[look] == 2 && (look == 0 || served[look - 1] == 1);
        let begun: Vec<usize> = (0..served.len()).filter(begins).collect();
        assert_eq!(begun, [0, 16, 42, 88, 174, 340, 506], "after 10, 20, 40, 80, 160 and 160 looks");
        assert_eq!(served.iter().filter(|&&serving| serving == 2).count(), 5 * begun.len());
        // More would be served now: found by the next trial, and kept.
        let served = run(&mut spread, 300, full(100.0));
        assert_eq!(served.iter().position(|&serving| serving == 2), Some(506 + 166 - 520));
        assert_eq!(served[299], 2);
    }

    #[test]
    fn another_load_is_tried_at_once() {
        let vain = |_| Done { busy: 1.0, busiest: 1.0, rate: 100.0 };
        for (rate, is_tried) in [(120.0, false), (126.0, true), (81.0, false), (79.0, true)] {
            let mut spread = Spread::new(2);
            assert_eq!(run(&mut spread, 7, vain), [2, 2, 2, 2, 2, 1, 1]);
            assert_eq!(spread.look(Done { rate, ..vain(1) }) == 2, is_tried, "{rate}");
        }
    }

    #[test]
    fn what_was_served_before_a_burst_is_not_compared_with() {
        let mut spread = Spread::new(2);
        run(&mut spread, 9, |_| Done::default());
        let burst = |_| Done { busy: 1.0, busiest: 1.0, rate: 100.0 };
        assert_eq!(run(&mut spread, 6, burst), [2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn who_has_little_to_do_goes_one_by_one() {
        let mut spread = Spread::new(4);
        run(&mut spread, 20, full(100.0));
        assert_eq!(spread.serving, 4);
        let some = |serving: usize| Done { busy: 1.0, busiest: 1.0 / serving as f64, rate: 100.0 };
        assert_eq!(run(&mut spread, 10, some), [4, 3, 3, 3, 3, 3, 2, 2, 2, 2]);
        assert_eq!(run(&mut spread, 50, some), [2; 50], "one would be full");
        let less = |serving: usize| Done { busy: 0.8, busiest: 0.8 / serving as f64, rate: 80.0 };
        assert_eq!(run(&mut spread, 9, less), [1; 9]);
    }

    #[test]
    fn one_thread_is_never_spread() {
        assert_eq!(run(&mut Spread::new(1), 30, full(100.0)), [1; 30]);
    }
}
