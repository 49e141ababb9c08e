//! Timers.

use super::*;

#[test]
fn timers_fire_in_order_and_never_early() {
    struct Fired(u64, u64, Arc<parking_lot::Mutex<Vec<(u64, bool)>>>, Arc<RealClock>, Waker);
    impl Wake for Fired {
        fn wake(self: Arc<Self>) {
            self.2.lock().push((self.0, self.3.now() >= self.1));
            self.4.wake_by_ref();
        }
    }
    let clock = RealClock::new();
    // Order is promised only among timers armed before the first is due. If this thread was held up while arming, the
    // round proves nothing: try another, with twice the lead.
    for lead_ms in (1..).map(|round| 1 << round) {
        let fired = Arc::default();
        let (counter, waker) = Counter::new();
        let start = clock.now() + lead_ms * 1_000_000;
        // The timers are armed out of order: the thread must notice an earlier timer while it waits for a later one.
        for number in [5_u64, 3, 9, 1, 7, 0, 8, 2, 6, 4] {
            let at = start + number * 100_000;
            let (fired, clock_too) = (Arc::clone(&fired), Arc::clone(&clock));
            clock.wake_at(at, Waker::from(Arc::new(Fired(number, at, fired, clock_too, waker.clone()))));
        }
        let in_time = clock.now() < start;
        counter.wait_for(10);
        let fired = fired.lock();
        assert!(fired.iter().all(|&(_, due)| due));
        if in_time {
            assert_eq!(*fired, (0..10).map(|number| (number, true)).collect::<Vec<_>>());
            return;
        }
    }
}

#[test]
fn a_timer_does_not_wait_for_a_later_one_armed_before() {
    let clock = RealClock::new();
    let shared: Arc<dyn Clock> = clock.clone();
    clock.wake_at(u64::MAX, Waker::noop().clone());
    // Some rounds find the timer thread already waiting for the end of time.
    for _ in 0..50 {
        block_on(crate::sleep_until(&shared, clock.now() + 100_000));
    }
}

#[test]
fn a_sleep_ends_and_a_clock_with_timers_can_go() {
    let clock = RealClock::new();
    let at = clock.now() + 1_000_000;
    let shared: Arc<dyn Clock> = clock.clone();
    block_on(crate::sleep_until(&shared, at));
    assert!(clock.now() >= at);
    let (counter, waker) = Counter::new();
    clock.wake_at(u64::MAX, waker.clone());
    clock.wake_at(0, waker);
    assert_eq!(counter.0.load(Ordering::Acquire), 1, "a time gone by wakes at once");
    drop((shared, clock));
    assert_eq!(Arc::strong_count(&counter), 1, "the clock's end lets go of its wakers");
}

#[test]
fn a_sleep_that_is_given_up_leaves_no_timer_behind() {
    let clock: Arc<dyn Clock> = RealClock::new();
    let sleep = || Box::pin(crate::sleep_until(&clock, u64::MAX));
    let (counter, waker) = Counter::new();
    let (other, waker_of_other) = Counter::new();
    // The counter itself, and the waker.
    let at_rest = 2;
    let mut staying = sleep();
    assert!(staying.as_mut().poll(&mut Context::from_waker(&waker_of_other)).is_pending());
    for _ in 0..3 {
        let mut given_up = sleep();
        assert!(given_up.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(Arc::strong_count(&counter) > at_rest, "the clock is to wake it");
    }
    assert_eq!(Arc::strong_count(&counter), at_rest);
    assert_eq!(Arc::strong_count(&other), at_rest + 2, "the sleep keeps one, and the clock another");
    assert!(staying.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(Arc::strong_count(&other), at_rest, "another task waits for it now");
}
