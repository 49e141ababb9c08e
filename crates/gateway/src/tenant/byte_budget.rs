//! Bytes of one kind that a tenant's connections may hold together. A connection that wants more waits until others
//! give some back.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget counts in this many bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// A budget of bytes.
pub(crate) struct ByteBudget {
    room: Arc<Semaphore>,
    units_max: u32,
    /// A connection that has the pass may hold more than there is room for, so that always one gets on. Without it,
    /// connections that hold a part and wait for the rest could wait for each other for ever.
    pass: Arc<Semaphore>,
}

impl ByteBudget {
    /// A budget of `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX);
        Self { room: Arc::new(Semaphore::new(units_max as usize)), units_max, pass: Arc::new(Semaphore::new(1)) }
    }

    /// A hold on nothing yet.
    pub(crate) fn hold(&self) -> Hold {
        let (room, pass) = (Arc::clone(&self.room), Arc::clone(&self.pass));
        Hold { room, units_max: self.units_max, pass, held: None, passed: None }
    }
}

/// The bytes that one connection holds; given back when dropped.
pub(crate) struct Hold {
    room: Arc<Semaphore>,
    units_max: u32,
    pass: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    passed: Option<OwnedSemaphorePermit>,
}

impl Hold {
    /// Whether it holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none() && self.passed.is_none()
    }

    /// Bytes held; unlimited with the pass.
    pub(crate) fn bytes(&self) -> u64 {
        match self.passed {
            Some(_) => u64::MAX,
            None => self.held.as_ref().map_or(0, |held| held.num_permits() as u64 * UNIT_BYTES),
        }
    }

    /// Units missing to hold `bytes`. If `bytes` exceeds the whole budget, this counts as the whole budget.
    fn missing(&self, bytes: u64) -> u32 {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.units_max);
        units.saturating_sub(self.held.as_ref().map_or(0, |held| held.num_permits() as u32))
    }

    fn take(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
    }

    /// Grows the hold to `bytes` in all, if there is room at once.
    pub(crate) fn try_grow_to(&mut self, bytes: u64) -> bool {
        if self.bytes() >= bytes {
            return true;
        }
        match Arc::clone(&self.room).try_acquire_many_owned(self.missing(bytes)) {
            Ok(more) => {
                self.take(more);
                true
            }
            Err(_) => false,
        }
    }

    /// The same for what may be put off or refused: never more than the whole budget, even if this is the only hold.
    pub(crate) fn try_grow_within(&mut self, bytes: u64) -> bool {
        bytes <= u64::from(self.units_max) * UNIT_BYTES && self.try_grow_to(bytes)
    }

    /// Grows the hold to `bytes` in all, as soon as there is room: first come, first served. One of the connections
    /// that hold something already may go on without room.
    pub(crate) async fn grow_to(&mut self, bytes: u64) {
        if self.try_grow_to(bytes) {
            return;
        }
        let more = Arc::clone(&self.room).acquire_many_owned(self.missing(bytes));
        if self.held.is_none() {
            // Our semaphores are never closed.
            self.held = more.await.ok();
            return;
        }
        tokio::select! {
            biased;
            more = more => if let Ok(more) = more { self.take(more) },
            pass = Arc::clone(&self.pass).acquire_owned() => self.passed = pass.ok(),
        }
    }

    /// What it holds, in a hold of its own. This one holds nothing then.
    pub(crate) fn take_all(&mut self) -> Self {
        let (room, pass) = (Arc::clone(&self.room), Arc::clone(&self.pass));
        Self { room, units_max: self.units_max, pass, held: self.held.take(), passed: self.passed.take() }
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        if bytes == 0 {
            (self.held, self.passed) = (None, None);
            return;
        }
        let units = bytes.div_ceil(UNIT_BYTES);
        if let Some(held) = &mut self.held {
            drop(held.split((held.num_permits() as u64).saturating_sub(units) as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_wants_more_waits_until_others_give_some_back() {
        let budget = ByteBudget::new(100 * UNIT_BYTES);
        let (mut first, mut second) = (budget.hold(), budget.hold());
        assert!(first.try_grow_to(60 * UNIT_BYTES) && !second.try_grow_to(41 * UNIT_BYTES));
        {
            let mut waiting = pin!(second.grow_to(50 * UNIT_BYTES - 5));
            assert!(poll(waiting.as_mut()).is_pending());
            first.shrink_to(51 * UNIT_BYTES);
            assert!(poll(waiting.as_mut()).is_pending());
            first.shrink_to(49 * UNIT_BYTES + 1);
            assert!(poll(waiting.as_mut()).is_ready());
        }
        assert_eq!((first.bytes(), second.bytes()), (50 * UNIT_BYTES, 50 * UNIT_BYTES));
        drop(first);
        second.shrink_to(0);
        assert!(second.is_empty() && budget.hold().try_grow_to(100 * UNIT_BYTES));
    }

    #[test]
    fn more_than_there_ever_is_room_for_is_all_of_it() {
        let budget = ByteBudget::new(10 * UNIT_BYTES);
        let mut hold = budget.hold();
        assert!(hold.try_grow_to(u64::MAX - 5000));
        assert_eq!(hold.bytes(), 10 * UNIT_BYTES);
        assert!(!budget.hold().try_grow_to(1));
    }

    #[test]
    fn those_who_hold_a_part_do_not_wait_for_each_other() {
        let budget = ByteBudget::new(10 * UNIT_BYTES);
        let (mut first, mut second) = (budget.hold(), budget.hold());
        assert!(first.try_grow_to(5 * UNIT_BYTES) && second.try_grow_to(5 * UNIT_BYTES));
        assert!(poll(pin!(first.grow_to(8 * UNIT_BYTES))).is_ready(), "one goes on without room");
        let mut waiting = pin!(second.grow_to(8 * UNIT_BYTES));
        assert!(poll(waiting.as_mut()).is_pending());
        first.shrink_to(0);
        assert!(poll(waiting.as_mut()).is_ready());
    }
}
