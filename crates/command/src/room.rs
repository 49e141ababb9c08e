//! What a command may hold of its result, which it puts together in memory before it answers.
//!
//! The client may take the answer as slowly as it likes, and other commands run while this one reads its rows. So what
//! a command holds is bounded, and booked on its tenant.

use std::sync::Arc;

use crate::error::{Error, Outcome, TOO_MANY_RESULTS};

/// As many bytes of a result are not booked; beyond that, as many are booked at a time.
const STEP_BYTES: usize = 64 << 10;

/// A limit on what the commands of one tenant hold together of their results (S11).
pub trait ResultLimit: Send + Sync {
    /// Books `bytes` more for a command that has `held` so far; `false` if there is no room for them. A command that is
    /// the only one to hold any always has room: trying again would not help it.
    fn try_take(&self, bytes: usize, held: usize) -> bool;

    /// Gives back `bytes` that were booked.
    fn give_back(&self, bytes: usize);
}

/// The bytes that a command holds of its result. What is booked of them is given back when this is dropped.
pub struct Room {
    taken: usize,
    bytes_max: usize,
    too_large: Error,
    limit: Option<Arc<dyn ResultLimit>>,
    booked: usize,
}

impl Room {
    /// Room for `bytes_max`, within the `limit` of the tenant. Whoever takes more gets the error `too_large`.
    pub fn new(bytes_max: usize, too_large: Error, limit: Option<Arc<dyn ResultLimit>>) -> Self {
        Self { taken: 0, bytes_max, too_large, limit, booked: 0 }
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// That is more than the command may hold, or than the tenant's commands may hold together.
    pub fn take(&mut self, bytes: usize) -> Outcome {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken > self.bytes_max {
            return Err(self.too_large.clone());
        }
        if let Some(limit) = self.limit.as_ref().filter(|_| self.taken > self.booked.max(STEP_BYTES)) {
            let more = self.taken.next_multiple_of(STEP_BYTES) - self.booked;
            if !limit.try_take(more, self.booked) {
                return Err(TOO_MANY_RESULTS);
            }
            self.booked += more;
        }
        Ok(())
    }

    /// The command holds `bytes` less.
    pub fn give_back(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(limit) = self.limit.as_ref().filter(|_| self.booked > 0) {
            limit.give_back(self.booked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const TOO_LARGE: Error = Error::new("ERR too large");
    /// The tenant's commands may hold this many steps together.
    const STEPS_MAX: usize = 10;

    #[derive(Default)]
    struct Steps(AtomicUsize);

    impl ResultLimit for Steps {
        fn try_take(&self, bytes: usize, _: usize) -> bool {
            let fits = self.0.load(Ordering::Relaxed) + bytes <= STEPS_MAX * STEP_BYTES;
            self.0.fetch_add(if fits { bytes } else { 0 }, Ordering::Relaxed);
            fits
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn s11_what_a_command_holds_is_booked_beyond_what_is_free() {
        let limit = Arc::<Steps>::default();
        let room = |bytes_max| Room::new(bytes_max, TOO_LARGE, Some(Arc::clone(&limit) as Arc<dyn ResultLimit>));
        let booked = || limit.0.load(Ordering::Relaxed) / STEP_BYTES;
        let (mut one, mut other) = (room(6 * STEP_BYTES), room(usize::MAX));
        assert_eq!((one.take(STEP_BYTES), booked()), (Ok(()), 0), "a short result is free");
        assert_eq!((one.take(1), booked()), (Ok(()), 2));
        assert_eq!((one.take(STEP_BYTES - 1), booked()), (Ok(()), 2));
        one.give_back(STEP_BYTES);
        assert_eq!((one.take(5 * STEP_BYTES), booked()), (Ok(()), 6));
        assert_eq!((one.take(1), booked()), (Err(TOO_LARGE), 6));
        assert_eq!(other.take(5 * STEP_BYTES), Err(TOO_MANY_RESULTS));
        drop(one);
        assert_eq!((other.take(5 * STEP_BYTES), booked()), (Ok(()), 10));
        drop(other);
        assert_eq!(booked(), 0);
    }
}
