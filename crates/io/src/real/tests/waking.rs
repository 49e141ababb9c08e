//! The slot between a worker and the task that waits.

use super::*;

#[test]
fn the_last_waker_is_woken_once() {
    let (completer, wait) = completion::slot::<u32>();
    let mut wait = std::pin::pin!(wait);
    let (first, first_waker) = Counter::new();
    let (second, second_waker) = Counter::new();
    assert!(wait.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert!(wait.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
    let other = std::thread::spawn(move || completer.complete(Ok(5)));
    second.wait_for(1);
    other.join().unwrap();
    assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    assert!(matches!(wait.poll(&mut Context::from_waker(&first_waker)), Poll::Ready(Ok(5))));
}

#[test]
fn an_operation_whose_worker_died_is_an_error_and_not_a_hang() {
    let (completer, wait) = completion::slot::<u32>();
    drop(completer);
    assert_eq!(block_on(wait).unwrap_err().kind(), ErrorKind::Device);
}
