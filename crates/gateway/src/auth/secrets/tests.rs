//! What attempts cost, in numbers of hashes. Times are measured by `tests/timing.rs`, which runs by command.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use weir_io::sim::SimClock;
use weir_io::{BoxFuture, Spawn};

use super::*;
use crate::auth::secret::tests::{KEYED, SLOW};
use crate::tenant::tenancy::{Standing, Tenancy};

#[derive(Default)]
struct Active(Arc<[StoredUser]>);

impl Tenancy for Active {
    fn users(&self) -> Arc<[StoredUser]> {
        Arc::clone(&self.0)
    }

    fn standing(&self) -> Standing {
        Standing::Active
    }

    fn connections_max(&self) -> u32 {
        0
    }
}

/// Users of Ada: Eve, whose password is `CHOSEN`; one who is off, with the same password; one without a password; and
/// one who needs none.
fn users() -> Arc<[StoredUser]> {
    let none = secret::no_passwords(&mut |salt| salt.fill(3));
    let stored = secret::with_hash(none, &secret::sha256(CHOSEN)).expect("room");
    let user = |name: &str, rules: &[&str], has_password: bool| StoredUser {
        name: name.as_bytes().into(),
        rules: rules.iter().map(|rule| rule.as_bytes().into()).collect(),
        secret: has_password.then(|| weir_node::StoredSecret::new(stored.clone())),
    };
    [
        user("eve", &["on", "+@all"], true),
        user("none", &["on"], false),
        user("off", &["off", "+@all"], true),
        user("open", &["on", "nopass"], false),
    ]
    .into()
}

/// Tenants and their stored secrets. Counts how often it is asked.
struct TestDirectory {
    users: Arc<[StoredUser]>,
    tenants: BTreeMap<&'static str, (u32, Vec<u8>)>,
    asked: Arc<AtomicUsize>,
}

impl Directory<()> for TestDirectory {
    fn find(&self, name: &str) -> Option<(Grant<()>, Option<Vec<u8>>)> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (tenant, stored) = self.tenants.get(name)?;
        let grant =
            Grant { tenant: *tenant, name: name.into(), store: (), tenancy: Arc::new(Active(Arc::clone(&self.users))) };
        Some((grant, Some(stored.clone())))
    }
}

/// Runs each task on the calling thread, so that this thread counts all hashes.
struct AtOnce;

impl Spawn for AtOnce {
    fn spawn(&self, mut task: BoxFuture<()>) {
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}

/// Keeps tasks until it is told to run them.
#[derive(Default)]
struct Later(parking_lot::Mutex<Vec<BoxFuture<()>>>);

impl Spawn for Later {
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.lock().push(task);
    }
}

const CHOSEN: &[u8] = b"correct horse";

/// `ada` has a chosen secret and `bob` a generated one, which is returned.
fn start(spawn: Arc<dyn Spawn>) -> (Secrets<(), TestDirectory>, Vec<u8>, Arc<AtomicUsize>) {
    let mut random = |buffer: &mut [u8]| secret::system_random(buffer).expect("random bytes");
    let chosen = secret::choose(CHOSEN, &mut random).expect("memory");
    let (token, generated) = secret::generate(&mut random);
    let asked = Arc::new(AtomicUsize::new(0));
    let tenants = BTreeMap::from([("ada", (1, chosen)), ("bob", (2, generated))]);
    let directory = TestDirectory { users: users(), tenants, asked: Arc::clone(&asked) };
    let doorman = Secrets::new(directory, SimClock::new(), SlowHash::new(spawn), false).expect("random bytes");
    (doorman, token.as_bytes().to_vec(), asked)
}

fn peer(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 1))
}

#[test]
fn s3_whatever_is_wrong_costs_the_same_work() {
    let (doorman, token, asked) = start(Arc::new(AtOnce));
    let cost = |name: &[u8], secret: &[u8], from| {
        let before = (KEYED.get(), SLOW.get(), asked.load(Ordering::Relaxed));
        let mut login = std::pin::pin!(doorman.check(name, secret, peer(from)));
        let std::task::Poll::Ready(answer) = login.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing is waited for")
        };
        let cost = (KEYED.get() - before.0, SLOW.get() - before.1, asked.load(Ordering::Relaxed) - before.2);
        (answer.map(|grant| grant.tenant), cost)
    };
    let wrong = cost(b"nobody", b"guess", 1).1;
    assert_eq!((wrong.1, wrong.2), (1, 2), "one slow hash, two look-ups");
    // Before the owners have logged in and after, whatever the guess resembles, and whatever the name hashes to.
    for round in 0..2 {
        for (index, (name, secret)) in [
            (&b"ada"[..], &b"guess"[..]),
            (b"ada", &CHOSEN[1..]),
            (b"ada", &token),
            (b"bob", b"guess"),
            (b"bob", &token[1..]),
            (b"bob", CHOSEN),
            (b"nobody", CHOSEN),
            (b"somebody", &token),
            (b"eve", b""),
            (b"", b""),
            (b"ada/eve", b"guess"),
            (b"ada/eve", &CHOSEN[1..]),
            (b"bob/eve", b"guess"),
            (b"ada/off", CHOSEN),
            (b"ada/none", b""),
            (b"ada/nobody", CHOSEN),
            (b"nobody/eve", CHOSEN),
            (b"ada/", b""),
        ]
        .into_iter()
        .enumerate()
        {
            // Ten guesses from one place; the others would have to wait there.
            let from = if index < 10 { 2 + round } else { 20 * (round + 1) + index as u8 };
            let (answer, cost) = cost(name, secret, from);
            assert_eq!((answer, cost), (Err(Refusal::WrongSecret), wrong), "{}", String::from_utf8_lossy(name));
        }
        let first = u64::from(round == 0);
        let (ada, bob) = (cost(b"ada", CHOSEN, 9), cost(b"bob", &token, 9));
        let eve = cost(b"ada/eve", CHOSEN, 9);
        assert_eq!((ada.0, ada.1.1), (Ok(1), first), "what was right once is remembered");
        assert_eq!((eve.0, eve.1.1), (Ok(1), first), "also of a user");
        assert_eq!(cost(b"ada/open", b"whatever", 9).0, Ok(1));
        assert_eq!((bob.0, bob.1.1), (Ok(2), 0), "and what was generated is never hashed slowly");
    }
    // An attempt that has to wait costs next to nothing, and the same for every name.
    let waits = [b"ada", b"bob", b"eve"].map(|name| cost(name, b"guess", 2));
    assert!(matches!(waits[0].0, Err(Refusal::TooManyFailures { .. })));
    assert!(waits.iter().all(|other| other == &waits[0] && other.1.1 == 0), "{waits:?}");
}

#[test]
fn s3_guesses_at_the_same_time_are_no_more_guesses_than_one_after_the_other() {
    let later = Arc::new(Later::default());
    let (doorman, ..) = start(later.clone());
    let mut context = Context::from_waker(Waker::noop());
    let names: Vec<Vec<u8>> = (0..30).map(|i| format!("name-{i}").into_bytes()).collect();
    let mut guesses: Vec<_> = names.iter().map(|name| Box::pin(doorman.check(name, b"guess", peer(1)))).collect();
    guesses.iter_mut().for_each(|guess| assert!(guess.as_mut().poll(&mut context).is_pending()));
    let mut owners: Vec<_> = (0..30).map(|_| Box::pin(doorman.check(b"ada", CHOSEN, peer(2)))).collect();
    owners.iter_mut().for_each(|owner| assert!(owner.as_mut().poll(&mut context).is_pending()));
    let before = SLOW.get();
    for mut task in later.0.lock().drain(..) {
        assert!(task.as_mut().poll(&mut context).is_ready());
    }
    assert_eq!(SLOW.get() - before, 10 + 1, "of guesses from one place, and of one secret that is right");
    let answers = guesses.iter_mut().map(|guess| guess.as_mut().poll(&mut context));
    let looked_at = answers.filter(|answer| matches!(answer, std::task::Poll::Ready(Err(Refusal::WrongSecret))));
    assert_eq!(looked_at.count(), 10);
    for owner in &mut owners {
        assert!(matches!(owner.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(_))));
    }
}
