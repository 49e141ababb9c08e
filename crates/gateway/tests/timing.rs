//! How long `AUTH` takes (S3). Run by command, never in CI, because it measures a machine.
//!
//! ```text
//! cargo test --release -p weir-gateway --test gateway timing -- --ignored --nocapture
//! ```
//!
//! A real doorman behind a real socket. Names that nobody has, wrong secrets for a tenant whose secret was generated,
//! and wrong secrets for one who chose it are tried in random order, `WEIR_TRIES` (2,000) of each. Welch's t of every
//! two must be below 4.5 (medians beside 15 ms of hashing are shown, not judged). Each try costs a slow hash, which is
//! why it takes a minute or two; that they cost the same work is counted in `auth/secrets/tests.rs`. The owners have
//! logged in before, because what is remembered of them must not be noticeable either. As far as the doorman can tell,
//! every try comes from an address of its own, so that none waits for having been wrong. That tries from one address do
//! wait is checked first.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::support::{Client, MemoryStore, Running, TestClock, encode};
use weir_gateway::Settings;
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{Checking, Directory, Doorman, Refusal, Secrets, secret};
use weir_gateway::tenant::tenancy::{Grant, Standing, Tenancy};
use weir_io::Rng;
use weir_io::real::RealSpawn;

struct Active;

impl Tenancy for Active {
    fn standing(&self) -> Standing {
        Standing::Active
    }

    fn connections_max(&self) -> u32 {
        0
    }
}

/// Tenants and their stored secrets.
struct TestDirectory {
    store: MemoryStore,
    stored: BTreeMap<&'static str, Vec<u8>>,
}

impl Directory<MemoryStore> for TestDirectory {
    fn find(&self, name: &str) -> Option<(Grant<MemoryStore>, Option<Vec<u8>>)> {
        let (index, (name, stored)) = self.stored.iter().enumerate().find(|(_, (known, _))| **known == name)?;
        let tenancy = Arc::new(Active);
        let grant = Grant { tenant: index as u32 + 1, name: (*name).into(), store: self.store.clone(), tenancy };
        Some((grant, Some(stored.clone())))
    }
}

/// A doorman for whom every try comes from a different address, once the test wants that.
struct FromAnywhere {
    doorman: Secrets<MemoryStore, TestDirectory>,
    addresses: Arc<AtomicU32>,
}

impl Doorman<MemoryStore> for FromAnywhere {
    fn open_door(&self, peer: SocketAddr) -> Option<Grant<MemoryStore>> {
        self.doorman.open_door(peer)
    }

    fn vouched_for(&self, names: &[String]) -> Option<Grant<MemoryStore>> {
        self.doorman.vouched_for(names)
    }

    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        peer: SocketAddr,
    ) -> Checking<'a, Result<Grant<MemoryStore>, Refusal>> {
        let number = self.addresses.load(Ordering::Relaxed);
        if number == 0 {
            return self.doorman.login(name, secret, peer);
        }
        self.addresses.store(number + 1, Ordering::Relaxed);
        let address = Ipv4Addr::from((10 << 24) | (number % ADDRESSES));
        self.doorman.login(name, secret, SocketAddr::from((address, 1)))
    }

    fn is_default_open(&self) -> bool {
        self.doorman.is_default_open()
    }

    fn knows(&self, name: &[u8]) -> bool {
        self.doorman.knows(name)
    }
}

/// Fewer addresses than are remembered. When all have been used, time passes until they are forgotten.
const ADDRESSES: u32 = 8_000;

struct World {
    weir: Running,
    ada: String,
    bob: String,
    addresses: Arc<AtomicU32>,
}

const CHOSEN: &str = "correct horse battery staple, or so";

impl World {
    /// A connection that has logged in, so that it may stay as long as it likes.
    fn connect(&self) -> Client {
        let mut client = self.weir.connect();
        assert_eq!(client.say(&format!("AUTH bob {}", self.bob)), "+OK\r\n");
        client
    }
}

fn start() -> World {
    let clock = TestClock::new();
    let mut tokens = Vec::new();
    let random = &mut |buffer: &mut [u8]| secret::system_random(buffer).expect("random bytes");
    let mut stored = BTreeMap::from([("eve", secret::choose(CHOSEN.as_bytes(), random).expect("memory"))]);
    for name in ["ada", "bob", "default"] {
        let (token, bytes) = secret::generate(random);
        tokens.push(token.to_string());
        stored.insert(name, bytes);
    }
    let (own, addresses) = (Arc::clone(&clock), Arc::new(AtomicU32::new(0)));
    let from = Arc::clone(&addresses);
    let weir = Running::start_with(Settings::default(), clock, move |store| {
        let slow = SlowHash::new(Arc::new(RealSpawn::new(1, 0)));
        let doorman = Secrets::new(TestDirectory { store, stored }, own, slow, false).expect("random bytes");
        Arc::new(FromAnywhere { doorman, addresses: from })
    });
    let [ada, bob] = [tokens[0].clone(), tokens[1].clone()];
    World { weir, ada, bob, addresses }
}

/// Nanoseconds that a wrong `AUTH` took.
fn try_one(client: &mut Client, request: &[u8]) -> f64 {
    let began = Instant::now();
    client.send(request);
    let reply = client.reply();
    let nanos = began.elapsed().as_nanos() as f64;
    assert!(reply.starts_with(b"-WRONGPASS"), "{}", String::from_utf8_lossy(&reply));
    nanos
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The mean, and the variance of the mean, without the slowest in a hundred, which belong to the machine.
fn moments(sorted: &[f64]) -> (f64, f64) {
    let kept = &sorted[..sorted.len() - sorted.len() / 100];
    let count = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / count;
    let variance = kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}

#[test]
#[ignore = "it measures the machine: by command"]
fn s3_whatever_is_wrong_takes_the_same_time() {
    let tries: usize = std::env::var("WEIR_TRIES").map_or(2_000, |text| text.parse().expect("a whole number"));
    let world = start();
    let mut client = world.connect();
    // Ten wrong tries are free, and then there is a wait; the owner, known to be right, does not wait.
    let mut guesser = world.weir.connect();
    assert_eq!(world.weir.connect().say(&format!("AUTH ada {}", world.ada)), "+OK\r\n");
    assert_eq!(world.weir.connect().ask(&["AUTH", "eve", CHOSEN]), b"+OK\r\n");
    for _ in 0..10 {
        try_one(&mut guesser, &encode(&["AUTH", "ada", "guess"]));
    }
    assert!(guesser.say("AUTH ada guess").contains("try again in"));
    assert_eq!(world.weir.connect().say(&format!("AUTH ada {}", world.ada)), "+OK\r\n");
    world.addresses.store(1, Ordering::Relaxed);
    let mut rng = Rng::new(1);
    let kinds = [("a name that nobody has", "ned"), ("a generated secret", "ada"), ("a chosen secret", "eve")];
    let requests = kinds.map(|(_, name)| encode(&["AUTH", name, &world.bob]));
    let mut times = kinds.map(|_| Vec::with_capacity(tries));
    let warm = tries / 10;
    for count in 0..tries + warm {
        let mut order = [0, 1, 2];
        order.swap(0, rng.below(3) as usize);
        order.swap(1, 1 + rng.below(2) as usize);
        if (count as u32).is_multiple_of(ADDRESSES / 3 - 100) {
            world.weir.clock.advance(600);
        }
        for which in order {
            let nanos = try_one(&mut client, &requests[which]);
            if count >= warm {
                times[which].push(nanos);
            }
        }
    }
    let medians = times.each_mut().map(|times| median(times) / 1e3);
    let moments = times.each_ref().map(|sorted| moments(sorted));
    println!("{tries} tries each");
    let mut is_same = true;
    for (this, other) in [(0, 1), (0, 2), (1, 2)] {
        let t = (moments[this].0 - moments[other].0) / (moments[this].1 + moments[other].1).sqrt();
        let difference = medians[this] - medians[other];
        println!(
            "{}: {:.1} us, {}: {:.1} us (medians); difference {difference:.1} us, Welch's t {t:.2}",
            kinds[this].0, medians[this], kinds[other].0, medians[other],
        );
        is_same &= t.abs() < 4.5;
    }
    assert!(is_same, "one can be told from another");
}
