//! Secrets: which are right, what a guess costs and whom, and that nothing reveals them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::support::{MemoryStore, Running, TestClock};
use futures_util::FutureExt;
use weir_gateway::Settings;
use weir_gateway::auth::slow::{Busy, SlowHash};
use weir_gateway::auth::{Directory, Doorman, Refusal, Secrets, secret};
use weir_gateway::tenant::tenancy::{Grant, Standing, Tenancy};
use weir_io::real::RealSpawn;

const CANARY: &str = "canary-in-the-mine-7391";

struct Active;

impl Tenancy for Active {
    fn standing(&self) -> Standing {
        Standing::Active
    }

    fn connections_max(&self) -> u32 {
        0
    }
}

/// Tenants and their stored secrets, which a test may change.
#[derive(Clone)]
struct TestDirectory {
    store: MemoryStore,
    stored: Arc<Mutex<BTreeMap<String, Option<Vec<u8>>>>>,
}

impl TestDirectory {
    fn set(&self, name: &str, stored: Option<Vec<u8>>) {
        self.stored.lock().expect("no panic").insert(name.to_owned(), stored);
    }
}

impl Directory<MemoryStore> for TestDirectory {
    fn find(&self, name: &str) -> Option<(Grant<MemoryStore>, Option<Vec<u8>>)> {
        let stored = self.stored.lock().expect("no panic");
        let (index, (name, stored)) = stored.iter().enumerate().find(|(_, (known, _))| *known == name)?;
        let tenancy = Arc::new(Active);
        let grant = Grant { tenant: index as u32 + 1, name: name.as_str().into(), store: self.store.clone(), tenancy };
        Some((grant, stored.clone()))
    }
}

fn random(buffer: &mut [u8]) {
    secret::system_random(buffer).expect("the system has random bytes");
}

fn chosen(text: &str) -> Option<Vec<u8>> {
    Some(secret::choose(text.as_bytes(), &mut random).expect("memory"))
}

/// `default` without a secret, `ada` with a chosen one and `bob` with a generated one, which is returned.
fn start(insecure: bool) -> (Secrets<MemoryStore, TestDirectory>, TestDirectory, Arc<TestClock>, String) {
    let clock = TestClock::new();
    let directory = TestDirectory { store: MemoryStore::new(&clock), stored: Arc::default() };
    let (token, stored) = secret::generate(&mut random);
    directory.set("default", None);
    directory.set("ada", chosen(CANARY));
    directory.set("bob", Some(stored));
    let slow = SlowHash::new(Arc::new(RealSpawn::new(1, 0)));
    let doorman = Secrets::new(directory.clone(), clock.clone(), slow, insecure).expect("random bytes");
    (doorman, directory, clock, token.to_string())
}

fn peer(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn login(
    doorman: &Secrets<MemoryStore, TestDirectory>,
    name: &str,
    secret: &str,
    from: &str,
) -> Result<Arc<str>, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let grant = runtime.block_on(doorman.login(name.as_bytes(), secret.as_bytes(), peer(from)));
    grant.map(|grant| grant.name)
}

#[test]
fn secrets_of_both_kinds_are_recognised_and_an_altered_one_counts_at_once() {
    let (doorman, directory, _, token) = start(false);
    for _ in 0..2 {
        assert_eq!(login(&doorman, "ada", CANARY, "10.0.0.1:1").as_deref(), Ok("ada"));
        assert_eq!(login(&doorman, "bob", &token, "10.0.0.1:1").as_deref(), Ok("bob"));
        assert_eq!(login(&doorman, "bob", CANARY, "10.0.0.1:1"), Err(Refusal::WrongSecret));
        assert_eq!(login(&doorman, "ada", &token, "10.0.0.1:1"), Err(Refusal::WrongSecret));
        assert_eq!(login(&doorman, "nobody", &token, "10.0.0.1:1"), Err(Refusal::WrongSecret));
    }
    directory.set("ada", chosen("another"));
    assert_eq!(login(&doorman, "ada", CANARY, "10.0.0.2:1"), Err(Refusal::WrongSecret), "nothing old is remembered");
    assert_eq!(login(&doorman, "ada", "another", "10.0.0.2:1").as_deref(), Ok("ada"));
}

#[test]
fn s1_a_tenant_without_a_secret_is_open_to_this_machine_only() {
    for (insecure, from, open) in [
        (false, "127.0.0.1:1", true),
        (false, "[::1]:1", true),
        (false, "10.0.0.1:1", false),
        (true, "10.0.0.1:1", true),
    ] {
        let (doorman, directory, ..) = start(insecure);
        assert_eq!(doorman.open_door(peer(from)).is_some(), open, "{from}");
        assert_eq!(login(&doorman, "default", "any", from).is_ok(), open, "{from}");
        directory.set("default", chosen("x"));
        assert!(doorman.open_door(peer(from)).is_none(), "{from}");
        directory.set("ada", None);
        assert!(login(&doorman, "ada", "", from).is_err(), "only the default tenant needs none");
    }
}

#[test]
fn s3_a_guesser_must_wait_and_cannot_lock_the_owner_out() {
    let (doorman, _, clock, token) = start(false);
    for _ in 0..10 {
        assert_eq!(login(&doorman, "bob", "guess", "10.0.0.1:1"), Err(Refusal::WrongSecret));
    }
    let waits = |refusal| matches!(refusal, Err(Refusal::TooManyFailures { retry_seconds: 1.. }));
    assert!(waits(login(&doorman, "bob", "guess", "10.0.0.1:2")), "another port is the same address");
    assert!(waits(login(&doorman, "ada", "guess", "10.0.0.1:1")));
    // From there not even a right secret is accepted, unless it has been right before.
    assert!(waits(login(&doorman, "bob", &token, "10.0.0.1:1")));
    assert_eq!(login(&doorman, "bob", &token, "10.0.0.2:1").as_deref(), Ok("bob"));
    assert_eq!(login(&doorman, "bob", &token, "10.0.0.1:1").as_deref(), Ok("bob"));
    clock.advance(2);
    assert_eq!(login(&doorman, "bob", "guess", "10.0.0.1:1"), Err(Refusal::WrongSecret));
    clock.advance(1);
    assert!(waits(login(&doorman, "bob", "guess", "10.0.0.1:1")), "the wait grows");
    clock.advance(300);
    for _ in 0..5 {
        assert_eq!(login(&doorman, "bob", "guess", "10.0.0.1:1"), Err(Refusal::WrongSecret), "and is over one day");
    }
}

#[test]
fn s3_a_guesser_with_many_addresses_must_wait_and_cannot_lock_the_owner_out() {
    let (doorman, _, clock, token) = start(false);
    let from = |last: u32| format!("10.1.0.{last}:1");
    for last in 0..10 {
        assert_eq!(login(&doorman, "bob", "guess", &from(last)), Err(Refusal::WrongSecret));
        assert_eq!(login(&doorman, "nobody", "guess", &from(last + 100)), Err(Refusal::WrongSecret));
    }
    let waits = |refusal| matches!(refusal, Err(Refusal::TooManyFailures { retry_seconds: 1.. }));
    assert!(waits(login(&doorman, "bob", "guess", &from(3))), "ten wrong secrets for one name");
    assert!(waits(login(&doorman, "nobody", "guess", &from(103))), "and nobody's name is as good as another");
    assert_eq!(login(&doorman, "bob", &token, &from(50)).as_deref(), Ok("bob"), "the owner is somebody else");
    clock.advance(2);
    assert_eq!(login(&doorman, "bob", "guess", &from(3)), Err(Refusal::WrongSecret));
}

#[test]
fn slow_hashes_are_bounded_and_none_runs_on_the_caller() {
    /// Keeps what it is given.
    #[derive(Default)]
    struct Never(Mutex<Vec<weir_io::BoxFuture<()>>>);
    impl weir_io::Spawn for Never {
        fn spawn(&self, task: weir_io::BoxFuture<()>) {
            self.0.lock().expect("no panic").push(task);
        }
    }
    let never = Arc::new(Never::default());
    let slow = SlowHash::new(never.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut waiting: Vec<_> = (0..64).map(|_| Box::pin(slow.choose(CANARY, [0; 16]))).collect();
        for hash in &mut waiting {
            assert!(hash.now_or_never().is_none());
        }
        assert_eq!(slow.choose(CANARY, [0; 16]).await, Err(Busy));
        drop(waiting);
        assert!(slow.choose(CANARY, [0; 16]).now_or_never().is_none(), "there is room again");
    });
    assert_eq!(never.0.lock().expect("no panic").len(), 65);
}

#[test]
fn s4_nothing_that_can_be_asked_says_a_secret() {
    let (doorman, directory, clock, token) = start(false);
    directory.set("default", chosen(CANARY));
    let weir = Running::start_with(Settings::default(), clock, |_| Arc::new(doorman));
    let mut client = weir.connect();
    let wrong = format!("{CANARY}-but-wrong");
    assert_eq!(client.say(&format!("AUTH ada {CANARY}")), "+OK\r\n");
    assert_eq!(client.say("CONFIG SET slowlog-log-slower-than 0"), "+OK\r\n");
    assert!(client.say(&format!("AUTH ada {wrong}")).starts_with("-WRONGPASS"));
    assert!(client.say(&format!("HELLO 3 AUTH ada {CANARY} SETNAME me")).starts_with('%'));
    client.send(format!("AUTH ada {CANARY}\r\n").as_bytes());
    assert_eq!(client.reply(), b"+OK\r\n");
    assert!(client.say(&format!("HELLO 3 AUTH bob {wrong}")).starts_with("-WRONGPASS"));
    for line in [
        "CONFIG SET requirepass PASS",
        "CONFIG SET slowlog-max-len 128 masterauth PASS",
        "ACL SETUSER x on >PASS ~* +@all",
        "MIGRATE 127.0.0.1 1 k 0 100 AUTH PASS",
        "MIGRATE 127.0.0.1 1 k 0 100 AUTH2 ada PASS",
    ] {
        assert!(client.say(&line.replace("PASS", CANARY)).starts_with('-'), "{line}");
    }
    let mut said = String::new();
    for question in [
        "SLOWLOG GET 100",
        "CLIENT LIST",
        "CLIENT INFO",
        "INFO everything",
        "CONFIG GET *",
        "ACL LIST",
        "ACL WHOAMI",
        "ACL USERS",
        "ACL GETUSER ada",
        "COMMAND",
        "LATENCY DOCTOR",
        "MEMORY DOCTOR",
        "MONITOR",
        "PING",
    ] {
        said.push_str(&client.say(question));
    }
    assert!(said.contains("(redacted)") && said.contains("slowlog-log-slower-than"), "the questions were answered");
    for canary in ["canary", "mine-7391", token.as_str()] {
        assert!(!said.contains(canary), "{canary} in {said}");
    }
}
