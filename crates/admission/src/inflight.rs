//! How much device time background I/O may have under way (house rule 6).

use std::collections::VecDeque;

use weir_io::Nanos;

/// A lease older than this no longer counts. A job may be parked by not polling it, with an I/O that the device has
/// long finished but nobody has looked at; it must not stop everybody else's background work.
pub(crate) const OVERDUE: Nanos = 100_000_000;

/// Names a lease within its [`InFlight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseId(u64);

/// Device time lent to background I/O, oldest first.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// A new lease is given while less than this is lent, in nanoseconds of device time.
    limit: Nanos,
    lent: Nanos,
    /// `(given at, device time)`; `None` once given back. The front is never `None`.
    leases: VecDeque<Option<(Nanos, Nanos)>>,
    /// Id of the front.
    first: u64,
}

impl InFlight {
    pub(crate) const fn new(limit: Nanos) -> Self {
        Self { limit, lent: 0, leases: VecDeque::new(), first: 0 }
    }

    /// Whether anybody counts.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit != Nanos::MAX
    }

    /// Whether one more may go; otherwise when the oldest lease becomes overdue.
    pub(crate) fn admit(&mut self, now: Nanos) -> Result<(), Nanos> {
        loop {
            if self.lent < self.limit {
                return Ok(());
            }
            match self.leases.front() {
                Some(&Some((given_at, _))) if now < given_at.saturating_add(OVERDUE) => {
                    return Err(given_at.saturating_add(OVERDUE));
                }
                Some(_) => self.release(LeaseId(self.first)),
                // Nothing lent and yet no room: the limit is 0, which would stop everything for ever.
                None => return Ok(()),
            }
        }
    }

    /// Lends `device_time` to one I/O. `None` if nobody counts.
    pub(crate) fn lend(&mut self, device_time: Nanos, now: Nanos) -> Option<LeaseId> {
        if !self.is_limited() {
            return None;
        }
        // At least 1 ns, so that an empty lease still counts as one.
        let device_time = device_time.max(1);
        self.lent = self.lent.saturating_add(device_time);
        self.leases.push_back(Some((now, device_time)));
        Some(LeaseId(self.first + self.leases.len() as u64 - 1))
    }

    /// Gives a lease back; one that was overdue is gone already, which is fine.
    pub(crate) fn release(&mut self, id: LeaseId) {
        let Some(index) = id.0.checked_sub(self.first) else { return };
        if let Some((_, device_time)) = self.leases.get_mut(index as usize).and_then(Option::take) {
            self.lent -= device_time;
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
    fn a_forgotten_lease_stops_counting() {
        let mut flight = InFlight::new(1000);
        let parked = flight.lend(2000, 7).expect("limited");
        assert_eq!(flight.admit(OVERDUE + 6), Err(OVERDUE + 7));
        assert_eq!(flight.admit(OVERDUE + 7), Ok(()));
        let next = flight.lend(2000, OVERDUE + 7).expect("limited");
        flight.release(parked);
        assert_eq!(flight.lent, 2000, "an overdue lease is not given back twice");
        flight.release(next);
        assert_eq!(flight.lent, 0);
    }
}
