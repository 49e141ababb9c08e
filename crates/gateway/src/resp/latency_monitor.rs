//! Commands of one tenant that took longer than `latency-monitor-threshold`, for `LATENCY`. Each kind of event has a
//! ring of samples, at most one a second, as in Redis.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many samples of an event are kept.
const SAMPLES_MAX: usize = 160;

/// A second since 1970, and the longest time in that second, in milliseconds.
pub(super) type Sample = (u64, u64);

/// What is known of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Samples, the oldest first.
    pub(super) samples: VecDeque<Sample>,
    /// The longest time since the last reset, in milliseconds.
    pub(super) longest_ms: u64,
}

/// The events of one tenant.
#[derive(Default)]
pub(crate) struct LatencyMonitor {
    /// The threshold in milliseconds; 0 = nothing is watched.
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl LatencyMonitor {
    pub(super) fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    pub(super) fn set_threshold_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether an event that took this long is kept.
    #[inline]
    pub(super) fn wants(&self, ms: u64) -> bool {
        let threshold = self.threshold_ms();
        threshold > 0 && ms >= threshold
    }

    /// `event` took `ms` milliseconds, and ended in this second.
    pub(super) fn add(&self, event: &'static str, second: u64, ms: u64) {
        let mut events = self.events.lock();
        let event = events.entry(event).or_default();
        event.longest_ms = event.longest_ms.max(ms);
        match event.samples.back_mut() {
            Some((last, longest)) if *last == second => *longest = ms.max(*longest),
            _ => {
                event.samples.push_back((second, ms));
                if event.samples.len() > SAMPLES_MAX {
                    event.samples.pop_front();
                }
            }
        }
    }

    /// All events since the last reset.
    pub(super) fn events(&self) -> Vec<(&'static str, Event)> {
        self.events.lock().iter().map(|(name, event)| (*name, event.clone())).collect()
    }

    /// What is known of the event called `name`, in capital or small letters.
    pub(super) fn event(&self, name: &[u8]) -> Option<Event> {
        let events = self.events.lock();
        events.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(_, event)| event.clone())
    }

    /// Forgets the events with these names, or all events if there are no names. Returns how many it forgot.
    pub(super) fn reset<'a>(&self, names: impl Iterator<Item = &'a [u8]> + Clone) -> usize {
        let mut events = self.events.lock();
        let (before, all) = (events.len(), names.clone().next().is_none());
        events.retain(|known, _| !all && !names.clone().any(|name| name.eq_ignore_ascii_case(known.as_bytes())));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_of_each_second_is_kept() {
        let monitor = LatencyMonitor::default();
        assert!(!monitor.wants(u64::MAX));
        monitor.set_threshold_ms(10);
        assert!(monitor.wants(10) && !monitor.wants(9));
        for (second, ms) in [(1, 10), (1, 30), (1, 20), (2, 15)] {
            monitor.add("command", second, ms);
        }
        let event = monitor.event(b"COMMAND").expect("an event");
        assert_eq!((event.samples, event.longest_ms), (VecDeque::from([(1, 30), (2, 15)]), 30));
        (0..1000).for_each(|second| monitor.add("fast-command", second, 1));
        assert_eq!(monitor.event(b"fast-command").expect("an event").samples.len(), SAMPLES_MAX);
        assert_eq!(monitor.reset([&b"nosuch"[..], b"command"].into_iter()), 1);
        assert_eq!(monitor.reset([].into_iter()), 1);
        assert!(monitor.events().is_empty());
    }
}
