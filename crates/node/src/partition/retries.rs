//! Jobs that fail: how long the other jobs of their class wait after that, and which failures the log warns of.
//!
//! The pauses double from [`RETRY_AFTER`] to [`RETRY_AFTER_MAX`], until a job of the class succeeds. Damage stays, and
//! a merge that meets a damaged block has read everything in front of it by then. Two kinds of failures do not make
//! the pauses grow, because they may be over at any moment and writes wait for that: a full disk, and an error of the
//! device in a flush. Nor do failed drops of tables, which read nothing.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use weir_io::{Class, Error, ErrorKind, Nanos};
use weir_model::engine::{JobFacts, StallCause};

/// How long a failed job waits at first before it is tried again, in nanoseconds.
pub(super) const RETRY_AFTER: Nanos = 100_000_000;
/// The longest pause, in nanoseconds.
const RETRY_AFTER_MAX: Nanos = 60_000_000_000;
/// A larger exponent would give no longer pause.
const DOUBLINGS_MAX: u32 = 10;

/// The classes of jobs that have failed. Drops of tables have a place of their own in each class: how they end says
/// nothing about merges.
#[derive(Default)]
pub(crate) struct Retries(Mutex<BTreeMap<(Class, bool), Streak>>);

/// What is known of the jobs of one class.
#[derive(Default)]
struct Streak {
    /// Failures in a row that make the pauses grow.
    failures: u32,
    /// When the pause ends.
    not_before: Nanos,
    /// The last failure; `None` since a job has succeeded.
    last: Option<Error>,
    /// The last failure that the log warned of, unless it is over. Damage is not over when another job succeeds.
    warned: Option<Error>,
}

/// What follows from the failure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    /// How long to wait before the next attempt.
    pub pause: Nanos,
    /// The log has not warned of it yet.
    pub is_news: bool,
}

impl Retries {
    /// A job has failed.
    pub(super) fn failed(&self, facts: &JobFacts, error: &Error, now: Nanos) -> Retry {
        let mut streaks = self.0.lock();
        let streak = streaks.entry((facts.class, facts.is_drop)).or_default();
        let grows = match error.kind() {
            _ if facts.is_drop => false,
            ErrorKind::NoSpace => false,
            ErrorKind::Corruption => true,
            _ => facts.class != Class::Flush,
        };
        let before = if grows { streak.failures } else { 0 };
        let pause = (RETRY_AFTER << before).min(RETRY_AFTER_MAX);
        streak.failures = if grows { (before + 1).min(DOUBLINGS_MAX) } else { 0 };
        // Other errors name the file that was to be made, which is another one each time.
        let is_same_damage = |warned: &Error| error.kind() != ErrorKind::Corruption || warned.path() == error.path();
        let is_known = |warned: &Error| warned.kind() == error.kind() && is_same_damage(warned);
        let is_news = !streak.warned.as_ref().is_some_and(is_known);
        if is_news {
            streak.warned = Some(error.clone());
        }
        streak.last = Some(error.clone());
        streak.not_before = now + pause;
        Retry { pause, is_news }
    }

    /// A job has succeeded.
    pub(super) fn succeeded(&self, facts: &JobFacts) {
        if let Some(streak) = self.0.lock().get_mut(&(facts.class, facts.is_drop)) {
            let warned = streak.warned.take().filter(|warned| warned.kind() == ErrorKind::Corruption);
            *streak = Streak { warned, ..Streak::default() };
        }
    }

    /// Everything may be tried at once.
    pub(super) fn end_pauses(&self) {
        self.0.lock().values_mut().for_each(|streak| streak.not_before = 0);
    }

    /// Whether jobs of `class` must wait for the end of a pause. What is due may be a drop, so they also wait while
    /// drops of the class pause.
    pub(super) fn is_pausing(&self, class: Class, now: Nanos) -> bool {
        self.0.lock().iter().any(|((of, _), streak)| *of == class && now < streak.not_before)
    }

    /// Whether drops must wait for the end of a pause.
    pub(super) fn are_drops_pausing(&self, now: Nanos) -> bool {
        self.0.lock().iter().any(|((_, is_drop), streak)| *is_drop && now < streak.not_before)
    }

    /// Whether any jobs must wait for the end of a pause. Costs less than to find out what is due.
    pub(super) fn is_any_pausing(&self, now: Nanos) -> bool {
        self.0.lock().values().any(|streak| now < streak.not_before)
    }

    /// Why the jobs that would end a stall of this cause fail again and again, with pauses that grow; `None` if they do
    /// not, or if they may be tried by now: what failed may be gone, with its tables.
    pub(super) fn lasting_failure(&self, cause: StallCause, now: Nanos) -> Option<Error> {
        let class = match cause {
            StallCause::Memtables => Class::Flush,
            StallCause::L0Runs => Class::CompactL0,
            StallCause::PendingBytes => Class::CompactDeep,
        };
        let streaks = self.0.lock();
        let streak = streaks.get(&(class, false)).filter(|streak| streak.failures > 1 && now < streak.not_before)?;
        streak.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: Nanos = 1_000_000_000;

    fn facts(class: Class) -> JobFacts {
        let level = (class != Class::Flush).then_some(1);
        JobFacts { class, level, output_level: 2, inputs: 1, input_bytes: 1, is_drop: false, is_urgent: false }
    }

    fn damage(path: &str) -> Error {
        Error::corruption(path, 4096, "the checksum is wrong")
    }

    fn error(kind: ErrorKind, path: &str) -> Error {
        Error::new(kind, "create", path, "no")
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_begin_anew_after_a_success() {
        let (retries, deep) = (Retries::default(), facts(Class::CompactDeep));
        let pauses = |count| Vec::from_iter((0..count).map(|_| retries.failed(&deep, &damage("1.sst"), 0).pause));
        let tenth = SEC / 10;
        let grown = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map(|times| times * tenth);
        assert_eq!(pauses(10), grown);
        assert_eq!(pauses(100), [60 * SEC; 100]);
        assert!(retries.is_pausing(Class::CompactDeep, 60 * SEC - 1) && retries.is_any_pausing(60 * SEC - 1));
        assert!(!retries.is_pausing(Class::CompactDeep, 60 * SEC) && !retries.is_any_pausing(60 * SEC));
        assert!(!retries.is_pausing(Class::CompactL0, 1), "level 0 has not failed");
        let refused = |now| retries.lasting_failure(StallCause::PendingBytes, now).is_some();
        assert!(refused(60 * SEC - 1) && !refused(60 * SEC), "the damaged table may be gone by then");
        retries.succeeded(&facts(Class::CompactL0));
        assert_eq!(pauses(1), [60 * SEC]);
        retries.succeeded(&deep);
        assert!(!retries.is_any_pausing(0) && !refused(0));
        assert_eq!(pauses(2), [tenth, 2 * tenth]);
        retries.end_pauses();
        assert!(!retries.is_any_pausing(0));
    }

    #[test]
    fn a_full_disk_is_tried_again_soon_and_so_is_a_flush_unless_it_meets_damage() {
        let retries = Retries::default();
        let pause = |class, error: &Error| {
            let pauses = [0; 6].map(|_| retries.failed(&facts(class), error, 0).pause);
            pauses[5]
        };
        for class in [Class::Flush, Class::CompactL0, Class::CompactDeep] {
            assert_eq!(pause(class, &error(ErrorKind::NoSpace, "2.sst")), RETRY_AFTER);
        }
        assert_eq!(pause(Class::Flush, &error(ErrorKind::Device, "2.sst")), RETRY_AFTER);
        assert_eq!(pause(Class::CompactL0, &error(ErrorKind::Device, "2.sst")), 32 * RETRY_AFTER);
        assert_eq!(pause(Class::Flush, &damage("1.sst")), 32 * RETRY_AFTER);
    }

    #[test]
    fn drops_pause_shortly_and_their_success_does_not_end_the_pauses_of_merges() {
        let (retries, deep) = (Retries::default(), facts(Class::CompactDeep));
        let drops = JobFacts { is_drop: true, ..deep };
        for _ in 0..6 {
            assert_eq!(retries.failed(&drops, &error(ErrorKind::Device, "MANIFEST"), 0).pause, RETRY_AFTER);
        }
        assert!(retries.are_drops_pausing(RETRY_AFTER - 1) && !retries.are_drops_pausing(RETRY_AFTER));
        assert!(retries.is_pausing(Class::CompactDeep, 0) && !retries.is_pausing(Class::CompactDeep, RETRY_AFTER));
        retries.failed(&deep, &damage("1.sst"), 0);
        retries.succeeded(&drops);
        assert!(!retries.are_drops_pausing(0) && retries.is_pausing(Class::CompactDeep, 0));
    }

    #[test]
    fn the_log_warns_once_of_each_failure() {
        let (retries, deep) = (Retries::default(), facts(Class::CompactDeep));
        let is_news = |error: Error| retries.failed(&deep, &error, 0).is_news;
        assert_eq!(["2.sst", "3.sst"].map(|path| is_news(error(ErrorKind::NoSpace, path))), [true, false]);
        assert_eq!(["1.sst", "1.sst", "7.sst"].map(|path| is_news(damage(path))), [true, false, true]);
        retries.succeeded(&deep);
        assert!(!is_news(damage("7.sst")), "the damage is still there");
        assert!(is_news(error(ErrorKind::NoSpace, "9.sst")));
        retries.succeeded(&deep);
        assert!(is_news(error(ErrorKind::NoSpace, "10.sst")), "the disk had space meanwhile");
    }
}
