//! The executor of background tasks.

use super::*;

#[test]
fn spawned_tasks_all_run_and_yield_to_each_other() {
    let spawn = RealSpawn::new(2, 10);
    let (counter, waker) = Counter::new();
    for _ in 0..100 {
        let waker = waker.clone();
        spawn.spawn(Box::pin(async move {
            for _ in 0..10 {
                yield_now().await;
            }
            waker.wake();
        }));
    }
    spawn.spawn(Box::pin(async { panic!("planted: a job that panics must not stop the others") }));
    spawn.spawn({
        let waker = waker.clone();
        Box::pin(async move { waker.wake() })
    });
    counter.wait_for(101);
}

#[test]
fn dropping_the_executor_drops_tasks_that_nobody_wakes() {
    let spawn = RealSpawn::new(1, 0);
    let held = Arc::new(());
    let (counter, waker) = Counter::new();
    let owned = Arc::clone(&held);
    spawn.spawn(Box::pin(async move {
        waker.wake();
        std::future::pending::<()>().await;
        drop(owned);
    }));
    counter.wait_for(1);
    assert_eq!(Arc::strong_count(&held), 2);
    drop(spawn);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_block_on_inside_a_block_on_swallows_no_wake() {
    struct Outer(u32);
    impl Future for Outer {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.0 += 1;
            if self.0 > 1 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            block_on(yield_now());
            Poll::Pending
        }
    }
    block_on(Outer(0));
}
