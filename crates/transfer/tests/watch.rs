//! A transfer says that it is in step as long as it knows that, and no longer.
#![allow(missing_docs, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use support::run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_io::{Clock, Nanos};
use weir_transfer::address::Address;
use weir_transfer::source::watch;
use weir_transfer::tally::{Phase, Tally};

const SECOND: Nanos = 1_000_000_000;

/// A clock on which a pause of up to a second is over at once. Limits on how long something may take are longer, and
/// are never reached.
struct HastyClock(AtomicU64);

impl Clock for HastyClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        if at.saturating_sub(self.now()) <= SECOND {
            self.0.fetch_max(at, Ordering::Relaxed);
            waker.wake();
        }
    }

    fn unix_ms(&self) -> u64 {
        self.now() / 1_000_000
    }
}

/// A clock that stands still until it is told to go on. It knows of one wait, of up to a second.
#[derive(Default)]
struct StillClock {
    now: AtomicU64,
    wait: Mutex<Option<(Nanos, Waker)>>,
}

impl Clock for StillClock {
    fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        if at.saturating_sub(self.now()) <= SECOND {
            *self.wait.lock() = Some((at, waker));
        }
    }

    fn unix_ms(&self) -> u64 {
        self.now() / 1_000_000
    }
}

impl StillClock {
    /// Goes on to the end of the next wait. Gives how long that is.
    async fn go_on(&self) -> Nanos {
        while self.wait.lock().is_none() {
            tokio::task::yield_now().await;
        }
        let (at, waker) = self.wait.lock().take().expect("somebody waits");
        waker.wake();
        at - self.now.swap(at, Ordering::Relaxed)
    }
}

/// Answers the next question with a position.
async fn answer(stream: &mut TcpStream, position: u64) {
    let mut question = [0; 1000];
    assert!(stream.read(&mut question).await.expect("it asks") > 0);
    let info = format!("# Replication\r\nmaster_repl_offset:{position}\r\n");
    let reply = format!("${}\r\n{info}\r\n", info.len());
    stream.write_all(reply.as_bytes()).await.expect("it listens");
}

#[test]
fn a_source_that_goes_ahead_or_is_not_heard_of_is_not_in_step() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (clock, tally) = (Arc::new(HastyClock(AtomicU64::new(0))), Arc::<Tally>::default());
        tally.set_phase(Phase::Following);
        tally.apply(100);
        assert_eq!((tally.lag(), tally.is_in_step()), (None, false));
        let watching = tokio::spawn(watch(address, Arc::clone(&tally), clock.clone()));
        let (mut stream, _) = listener.accept().await.expect("it asks");
        answer(&mut stream, 100).await;
        while tally.lag().is_none() {
            tokio::task::yield_now().await;
        }
        tally.apply(100);
        assert_eq!((tally.lag(), tally.is_in_step()), (Some(0), true));
        // Nothing more is applied, as while the tenant does not answer.
        answer(&mut stream, 200).await;
        while tally.lag() == Some(0) {
            tokio::task::yield_now().await;
        }
        assert_eq!((tally.lag(), tally.is_in_step()), (Some(100), false));
        tally.apply(200);
        assert_eq!((tally.lag(), tally.is_in_step()), (Some(0), true));
        // The source takes no more connections.
        drop((stream, listener));
        let end = clock.now() + 10 * SECOND;
        while clock.now() < end {
            tokio::task::yield_now().await;
        }
        assert_eq!((tally.lag(), tally.is_in_step()), (None, false));
        watching.abort();
    });
}

#[test]
fn the_source_is_asked_as_soon_as_it_is_followed() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (clock, tally) = (Arc::<StillClock>::default(), Arc::<Tally>::default());
        tally.set_phase(Phase::Snapshot);
        let watching = tokio::spawn(watch(address, Arc::clone(&tally), clock.clone()));
        assert_eq!(clock.go_on().await, SECOND / 10);
        tally.set_phase(Phase::Following);
        let (mut stream, _) = listener.accept().await.expect("it asks");
        assert_eq!(clock.now(), SECOND / 10);
        answer(&mut stream, 100).await;
        assert_eq!(clock.go_on().await, SECOND);
        assert_eq!(tally.lag(), Some(100));
        watching.abort();
    });
}

#[test]
fn a_transfer_that_does_not_follow_is_not_in_step_and_has_no_lag() {
    let tally = Tally::default();
    assert_eq!(tally.lag(), None);
    for phase in [Phase::Connecting, Phase::Snapshot] {
        tally.set_phase(Phase::Following);
        tally.source.store(100, Ordering::Relaxed);
        tally.apply(100);
        assert!(tally.is_in_step());
        tally.set_phase(phase);
        assert_eq!((tally.lag(), tally.is_in_step()), (None, false), "{phase:?}");
        // An answer of the source that comes late.
        tally.tell_source(Some(100));
        assert_eq!((tally.lag(), tally.is_in_step()), (None, false), "{phase:?}");
    }
}

#[test]
fn the_moment_up_to_which_a_transfer_was_in_step_is_when_the_source_was_asked() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (clock, tally) = (Arc::new(HastyClock(AtomicU64::new(0))), Arc::<Tally>::default());
        let in_step_ms = || tally.in_step_ms.load(Ordering::Relaxed);
        tally.set_phase(Phase::Following);
        tally.apply(100);
        let watching = tokio::spawn(watch(address, Arc::clone(&tally), clock));
        let (mut stream, _) = listener.accept().await.expect("it asks");
        // It asks at 1 s, 2 s, and so on. Behind each question, the one before has counted.
        answer(&mut stream, 100).await;
        answer(&mut stream, 200).await;
        assert_eq!(in_step_ms(), 1_000);
        // Behind by 100.
        answer(&mut stream, 200).await;
        assert_eq!(in_step_ms(), 1_000);
        tally.apply(200);
        answer(&mut stream, 200).await;
        assert_eq!(in_step_ms(), 3_000);
        watching.abort();
    });
}
