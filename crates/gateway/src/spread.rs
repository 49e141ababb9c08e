//! Chooses over how many threads the connections are spread: as few as can do the work.
//!
//! A thread that sleeps between two requests costs more than it helps. It has to be woken for each request, which
//! interrupts what its processor was doing, and then finds one request where a busier thread finds a dozen. So one
//! thread serves everybody until it is full. Then twice as many threads are tried, and they stay only if they serve
//! more. Where the clients are the slower side, more threads would not serve more. Where the machine has no spare
//! processor, because the clients use them all, no trial is made.

use std::collections::VecDeque;

use weir_io::Nanos;

use crate::stats::Work;
use weir_io::real::IdleTime;

/// How often the threads are looked at.
pub(crate) const LOOK_NANOS: Nanos = 100_000_000;

/// The number of looks, all with the same number of threads, whose mean is judged. On a machine shared with others one
/// look differs from the next by a tenth.
const LOOKS: usize = 4;
/// A thread is full if it is busy for this share of its time. A full thread still sleeps now and then, up to a seventh
/// of the time, while the machine gives its clients no processor. A trial shows whether more threads would help then.
const FULL: f64 = 0.85;
/// How many processors must have had nothing else to do before a trial is made. Clients that wait for a full thread
/// leave more than this.
const SPARE: f64 = 0.25;
/// More threads must serve at least this many times what fewer did.
const GAIN: f64 = 1.1;
/// One thread fewer is enough while all threads together are no busier than this share of the threads that would be
/// left. Fewer threads need less work for the same requests, too.
const FEWER: f64 = 0.95;
/// How many looks pass before a trial that gained nothing is repeated. The wait doubles after each further one, up to
/// the second number. A wrong judgement, made because the load fell just then, must not last. But a trial in vain may
/// cost a third of the throughput while it goes on.
const WAIT_LOOKS: (u32, u32) = (10, 160);
/// If the rate differs by this factor from the rate at the vain trial, the load is a different one that may gain from
/// more threads, and the wait is a quarter as long. The trial is not repeated at once, or a load that goes up and down
/// would be on trial half of the time.
const OTHER_LOAD: f64 = 1.25;

/// The counters of the threads at one look.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    at: Nanos,
    work: Vec<Work>,
    idle: Option<IdleTime>,
}

impl Sight {
    /// The counters at the time `at`.
    pub(crate) fn new(at: Nanos, work: Vec<Work>, idle: Option<IdleTime>) -> Self {
        Self { at, work, idle }
    }
}

/// What threads did between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Time that the threads did not sleep, as a part of the time that passed: two busy threads have 2.0. A thread that
    /// waits for a disk or for a processor does not sleep, because it cannot serve more than it does.
    pub(crate) busy: f64,
    /// The same for the busiest thread alone.
    pub(crate) busiest: f64,
    /// Commands served a second.
    pub(crate) rate: f64,
    /// Processors of the machine that had nothing else to do; infinite where nobody knows.
    pub(crate) spare: f64,
}

impl Done {
    /// What threads did between two looks.
    pub(crate) fn between(before: &Sight, now: &Sight) -> Self {
        let nanos = now.at.saturating_sub(before.at).max(1);
        let idle = now.idle.zip(before.idle).map(|(now, before)| now.processors_since(before, nanos));
        let (nanos, mut done) = (nanos as f64, Self { spare: idle.unwrap_or(f64::INFINITY), ..Self::default() });
        for (before, now) in before.work.iter().zip(&now.work) {
            let busy = (1.0 - now.asleep.saturating_sub(before.asleep) as f64 / nanos).max(0.0);
            done.busy += busy;
            done.busiest = done.busiest.max(busy);
            done.rate += now.commands.saturating_sub(before.commands) as f64 * 1e9 / nanos;
        }
        done
    }
}

/// A trial of more threads.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// How many threads served before the trial.
    from: usize,
    /// Commands that these served a second.
    rate: f64,
}

/// A trial that gained nothing.
#[derive(Clone, Copy, Debug)]
struct Vain {
    /// How many threads served before the trial, and how many commands a second.
    trial: Trial,
    /// Looks since then.
    looks: u32,
    /// Looks until the trial is repeated.
    wait: u32,
}

impl Vain {
    fn is_over(&self, rate: f64) -> bool {
        let is_other = rate > self.trial.rate * OTHER_LOAD || rate * OTHER_LOAD < self.trial.rate;
        self.looks >= if is_other { (self.wait / 4).max(WAIT_LOOKS.0) } else { self.wait }
    }
}

/// How many of the threads serve.
#[derive(Debug)]
pub(crate) struct Spread {
    threads: usize,
    serving: usize,
    /// Set until the next look: connections are still moving to more threads or to fewer. Those that are served ten
    /// times a second, which count most, have moved by then.
    is_settling: bool,
    /// The last [`LOOKS`] with the current number of threads.
    lately: VecDeque<Done>,
    trial: Option<Trial>,
    vain: Option<Vain>,
}

impl Spread {
    /// Begins with one serving thread of `threads`.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, serving: 1, is_settling: false, lately: VecDeque::new(), trial: None, vain: None }
    }

    /// How many threads are to serve from now on, given what the serving ones did since the last look.
    pub(crate) fn look(&mut self, done: Done) -> usize {
        if !std::mem::take(&mut self.is_settling) {
            if self.lately.len() == LOOKS {
                self.lately.pop_front();
            }
            self.lately.push_back(done);
            let before = self.serving;
            self.judge();
            if self.serving != before {
                self.lately.clear();
                self.is_settling = true;
            }
        }
        self.serving
    }

    fn judge(&mut self) {
        if let Some(vain) = &mut self.vain {
            vain.looks += 1;
        }
        if self.lately.len() < LOOKS {
            return;
        }
        let rate = self.mean(|done| done.rate);
        if let Some(trial) = self.trial.take() {
            self.end(trial, rate);
        } else if self.serving > 1 && self.mean(|done| done.busy) <= FEWER * (self.serving - 1) as f64 {
            self.serving -= 1;
        } else if self.serving < self.threads
            && self.mean(|done| done.busiest) >= FULL
            && self.mean(|done| done.spare) >= SPARE
            && self.vain.is_none_or(|vain| vain.trial.from != self.serving || vain.is_over(rate))
        {
            self.trial = Some(Trial { from: self.serving, rate });
            self.serving = (2 * self.serving).min(self.threads);
        }
    }

    fn end(&mut self, trial: Trial, rate: f64) {
        if rate >= trial.rate * GAIN {
            self.vain = None;
            return;
        }
        self.serving = trial.from;
        let again = self.vain.filter(|vain| vain.trial.from == trial.from);
        let wait = again.map_or(WAIT_LOOKS.0, |vain| (2 * vain.wait).min(WAIT_LOOKS.1));
        self.vain = Some(Vain { trial, looks: 0, wait });
    }

    /// The mean over the recent looks, of which there is at least one.
    fn mean(&self, of: impl Fn(&Done) -> f64) -> f64 {
        self.lately.iter().map(of).sum::<f64>() / self.lately.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `serves` says what a given number of threads does.
    fn run(spread: &mut Spread, looks: u32, serves: impl Fn(usize) -> Done) -> Vec<usize> {
        let mut serving = spread.serving;
        let mut look = || {
            serving = spread.look(serves(serving));
            serving
        };
        (0..looks).map(|_| look()).collect()
    }

    /// Threads that are always full, whatever their number, and serve `each` commands a second each.
    fn full(each: f64) -> impl Fn(usize) -> Done {
        move |serving| Done { busy: serving as f64, busiest: 1.0, rate: each * serving as f64, spare: 1.0 }
    }

    #[test]
    fn one_serves_until_it_is_full_and_then_as_many_as_bring_something() {
        let mut spread = Spread::new(6);
        let light = |busy: f64| move |_| Done { busy, busiest: busy, rate: 100.0 * busy, spare: 1.0 };
        assert_eq!(run(&mut spread, 9, light(0.8)), [1; 9]);
        assert_eq!(run(&mut spread, 4, light(0.3)), [1; 4]);
        // Four looks that are full; then one look while connections move, and four to judge. The same four say that
        // more threads may be tried.
        let served = run(&mut spread, 30, full(100.0));
        assert_eq!(
            [&served[..3], &served[3..9], &served[9..15], &served[15..]],
            [&[1; 3][..], &[2; 6], &[4; 6], &[6; 15]]
        );
    }

    /// The looks at which a trial of more than one thread began.
    fn trials(served: &[usize]) -> Vec<usize> {
        (0..served.len()).filter(|&look| served[look] == 2 && (look == 0 || served[look - 1] == 1)).collect()
    }

    #[test]
    fn threads_that_serve_no_more_are_given_back_and_tried_ever_less_often() {
        let mut spread = Spread::new(2);
        // The clients are the slower side: two threads share what one did.
        let clients = |serving: usize| Done { busy: 1.0, busiest: 1.0 / serving as f64, rate: 100.0, spare: 1.0 };
        let served = run(&mut spread, 520, clients);
        assert_eq!(trials(&served), [3, 19, 45, 91, 177, 343, 509], "after 10, 20, 40, 80, 160 and 160 looks");
        assert_eq!(served.iter().filter(|&&serving| serving == 2).count(), 5 * 7);
        // More threads would serve more now: the next trial finds that, and they are kept.
        let served = run(&mut spread, 300, full(100.0));
        assert_eq!(trials(&served), [509 + 166 - 520]);
        assert_eq!(served[299], 2);
    }

    #[test]
    fn another_load_waits_a_quarter_as_long() {
        let vain = |_| Done { busy: 1.0, busiest: 1.0, rate: 100.0, spare: 1.0 };
        for (rate, first) in [(120.0, 80), (126.0, 20), (81.0, 80), (79.0, 20)] {
            let mut spread = Spread::new(2);
            let served = run(&mut spread, 97, vain);
            assert_eq!(trials(&served), [3, 19, 45, 91]);
            let other = |_| Done { rate, ..vain(1) };
            assert_eq!(trials(&run(&mut spread, 81, other))[0], first, "{rate}");
        }
    }

    #[test]
    fn what_was_served_before_a_burst_is_not_compared_with() {
        let mut spread = Spread::new(2);
        run(&mut spread, 9, |_| Done::default());
        let burst = |_| Done { busy: 1.0, busiest: 1.0, rate: 100.0, spare: 1.0 };
        assert_eq!(run(&mut spread, 9, burst), [1, 1, 1, 2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn what_four_threads_gained_nothing_from_two_may() {
        let mut spread = Spread::new(4);
        let up_to_two = |serving: usize| Done {
            busy: serving as f64,
            busiest: 1.0,
            rate: 100.0 * serving.min(2) as f64,
            spare: 1.0,
        };
        let served = run(&mut spread, 60, up_to_two);
        assert!(served.contains(&4) && spread.serving == 2);
        run(&mut spread, 8, |_| Done::default());
        assert_eq!(spread.serving, 1);
        assert_eq!(run(&mut spread, 6, up_to_two), [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn who_has_little_to_do_goes_one_by_one() {
        let mut spread = Spread::new(4);
        run(&mut spread, 30, full(100.0));
        assert_eq!(spread.serving, 4);
        let some = |serving: usize| Done { busy: 1.0, busiest: 1.0 / serving as f64, rate: 100.0, spare: 1.0 };
        assert_eq!(run(&mut spread, 10, some), [4, 3, 3, 3, 3, 3, 2, 2, 2, 2]);
        assert_eq!(run(&mut spread, 50, some), [2; 50], "one would be full");
        let less = |serving: usize| Done { busy: 0.8, busiest: 0.8 / serving as f64, rate: 80.0, spare: 1.0 };
        assert_eq!(run(&mut spread, 9, less), [1; 9]);
    }

    #[test]
    fn nobody_tries_where_no_processor_is_to_spare() {
        let mut spread = Spread::new(2);
        let with = |spare| move |serving| Done { spare, ..full(100.0)(serving) };
        assert_eq!(run(&mut spread, 30, with(0.2)), [1; 30]);
        assert_eq!(run(&mut spread, 9, with(f64::INFINITY)), [2; 9]);
    }

    #[test]
    fn one_thread_is_never_spread() {
        assert_eq!(run(&mut Spread::new(1), 30, full(100.0)), [1; 30]);
    }
}
