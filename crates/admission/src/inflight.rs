//! How much device time background I/O may have in flight (house rule 6).

use std::collections::VecDeque;

use weir_io::Nanos;

/// A lease older than this no longer counts. A job may be parked by not polling it, with an I/O that the device has
/// long finished but nobody has looked at. Such an I/O must not stop everybody else's background work.
pub(crate) const OVERDUE: Nanos = 100_000_000;

/// Names a lease within its [`InFlight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseId(u64);

impl LeaseId {
    /// The id of every foreground I/O: these are only counted.
    const FOREGROUND: LeaseId = LeaseId(u64::MAX);
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    given_at: Nanos,
    device_time: Nanos,
    /// Whether no foreground was in flight beside it.
    alone: bool,
}

impl Lease {
    /// When the device should have finished the transfer.
    fn moved_at(&self) -> Nanos {
        self.given_at.saturating_add(self.device_time)
    }
}

/// Device time lent to background I/O, oldest first.
///
/// On a slow device one grant takes the whole limit. It is in flight alone, and while its completion travels back the
/// device would be idle, for one latency after each grant. So a *long* lease counts no longer than its transfer should
/// take, if nothing but background is in flight. Beside foreground the device has something to do meanwhile, and one
/// more background I/O would be in front of the next read. (What foreground owes to background by a share passes in any
/// case: see `Lane::next_rank`.)
#[derive(Debug)]
pub(crate) struct InFlight {
    /// A new lease is given while less than this is lent, in nanoseconds of device time.
    limit: Nanos,
    lent: Nanos,
    /// A lease becomes `None` once it is given back. The front is never `None`.
    leases: VecDeque<Option<Lease>>,
    /// The id of the front.
    first: u64,
    /// How many leases take the whole limit.
    long: usize,
    /// How many foreground I/Os are in flight that began beside a long lease.
    foreground: usize,
}

impl InFlight {
    pub(crate) const fn new(limit: Nanos) -> Self {
        Self { limit, lent: 0, leases: VecDeque::new(), first: 0, long: 0, foreground: 0 }
    }

    /// Whether leases are counted at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit != Nanos::MAX
    }

    /// Whether one more I/O may go; otherwise when to ask again, if no lease is given back before.
    pub(crate) fn admit(&mut self, now: Nanos) -> Result<(), Nanos> {
        loop {
            if self.lent < self.limit {
                return Ok(());
            }
            // Nothing is lent and still there is no room: the limit is 0, which would stop everything for ever.
            let Some(&Some(oldest)) = self.leases.front() else { return Ok(()) };
            let overdue_at = oldest.given_at.saturating_add(OVERDUE);
            if now < overdue_at {
                return match self.room_at() {
                    Some(at) if at <= now => Ok(()),
                    at => Err(at.unwrap_or(overdue_at).min(overdue_at)),
                };
            }
            self.release(LeaseId(self.first));
        }
    }

    /// When a long lease stops counting without which there would be room. Where two count at once, neither of them
    /// makes room.
    fn room_at(&self) -> Option<Nanos> {
        if self.long == 0 {
            return None;
        }
        let counts = |lease: &&Lease| {
            lease.alone && self.is_long(lease.device_time) && self.lent - lease.device_time < self.limit
        };
        self.leases.iter().flatten().filter(counts).map(Lease::moved_at).min()
    }

    fn is_long(&self, device_time: Nanos) -> bool {
        device_time >= self.limit
    }

    /// Lends `device_time` to one I/O. `None` if leases are not counted.
    pub(crate) fn lend(&mut self, device_time: Nanos, now: Nanos) -> Option<LeaseId> {
        if !self.is_limited() {
            return None;
        }
        // At least 1 ns, so that an empty lease still counts as one.
        let device_time = device_time.max(1);
        self.lent = self.lent.saturating_add(device_time);
        self.long += usize::from(self.is_long(device_time));
        self.leases.push_back(Some(Lease { given_at: now, device_time, alone: self.foreground == 0 }));
        Some(LeaseId(self.first + self.leases.len() as u64 - 1))
    }

    /// A foreground I/O goes to the device. `None` if that makes no difference.
    pub(crate) fn foreground(&mut self) -> Option<LeaseId> {
        if self.long == 0 {
            return None;
        }
        self.foreground += 1;
        for lease in self.leases.iter_mut().flatten() {
            lease.alone = false;
        }
        Some(LeaseId::FOREGROUND)
    }

    /// Gives a lease back. One that was overdue is gone already, which is fine.
    pub(crate) fn release(&mut self, id: LeaseId) {
        if id == LeaseId::FOREGROUND {
            self.foreground -= 1;
            return;
        }
        let Some(index) = id.0.checked_sub(self.first) else { return };
        if let Some(lease) = self.leases.get_mut(index as usize).and_then(Option::take) {
            self.lent -= lease.device_time;
            self.long -= usize::from(self.is_long(lease.device_time));
        }
        while let Some(None) = self.leases.front() {
            self.leases.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_grant_beyond_the_limit_and_no_more() {
        let mut flight = InFlight::new(1000);
        assert_eq!(flight.admit(0), Ok(()));
        let first = flight.lend(900, 0).expect("limited");
        assert_eq!(flight.admit(0), Ok(()));
        let second = flight.lend(500, 5).expect("limited");
        assert_eq!(flight.admit(5), Err(OVERDUE));
        flight.release(second);
        assert_eq!(flight.admit(5), Ok(()));
        flight.release(first);
        flight.release(first);
        assert_eq!(flight.lent, 0);
        assert!(flight.leases.is_empty());
    }

    #[test]
    fn one_that_takes_the_whole_limit_counts_until_it_should_be_moved() {
        let mut flight = InFlight::new(1000);
        let first = flight.lend(1500, 10).expect("limited");
        assert_eq!([flight.admit(10), flight.admit(1509), flight.admit(1510)], [Err(1510), Err(1510), Ok(())]);
        let second = flight.lend(1500, 1510).expect("limited");
        assert_eq!(flight.admit(9000), Err(OVERDUE + 10), "one on its way back, one under way, and no more");
        flight.release(first);
        assert_eq!([flight.admit(3009), flight.admit(3010)], [Err(3010), Ok(())]);
        flight.release(second);
        assert_eq!((flight.lent, flight.long), (0, 0));
    }

    #[test]
    fn beside_foreground_it_counts_until_it_is_given_back() {
        let mut flight = InFlight::new(1000);
        assert_eq!(flight.foreground(), None, "nobody waits behind it");
        let first = flight.lend(1500, 0).expect("limited");
        let read = flight.foreground().expect("beside a long one");
        assert_eq!(flight.admit(1500), Err(OVERDUE));
        flight.release(first);
        let second = flight.lend(1500, 2000).expect("limited");
        flight.release(read);
        assert_eq!(flight.admit(5000), Err(OVERDUE + 2000), "it went behind the read");
        flight.release(second);
        flight.lend(1500, 6000).expect("limited");
        assert_eq!(flight.admit(7500), Ok(()));
    }

    #[test]
    fn a_forgotten_lease_stops_counting() {
        let mut flight = InFlight::new(1000);
        let parked = flight.lend(999, 7).expect("limited");
        let done = flight.lend(999, 7).expect("limited");
        assert_eq!(flight.admit(OVERDUE + 6), Err(OVERDUE + 7));
        assert_eq!(flight.admit(OVERDUE + 7), Ok(()));
        flight.release(done);
        let next = flight.lend(2000, OVERDUE + 7).expect("limited");
        flight.release(parked);
        assert_eq!(flight.lent, 2000, "an overdue lease is not given back twice");
        flight.release(next);
        assert_eq!(flight.lent, 0);
    }
}
