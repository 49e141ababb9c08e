//! Tenants with secrets in a map; everyone is a stranger at first.

use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use weir_gateway::Settings;
use weir_gateway::auth::{Checking, Doorman, Refusal};
use weir_gateway::tenant::tenancy::{Grant, Standing, Tenancy, UsersChange};
use weir_io::Waiting;
use weir_node::StoredUser;

use super::{Client, MemoryStore, Running, TestClock};

/// A tenant whose settings a test changes. It may have users, but nobody can log in as one of them.
#[derive(Default)]
pub struct Knobs {
    pub standing: AtomicU8,
    pub connections_max: AtomicU32,
    users: Mutex<Arc<[StoredUser]>>,
}

impl Tenancy for Knobs {
    fn standing(&self) -> Standing {
        [Standing::Active, Standing::Suspended, Standing::Dropped][usize::from(self.standing.load(Ordering::SeqCst))]
    }

    fn connections_max(&self) -> u32 {
        self.connections_max.load(Ordering::SeqCst)
    }

    fn users(&self) -> Arc<[StoredUser]> {
        Arc::clone(&self.users.lock().expect("no panic"))
    }

    fn change_users(&self, change: UsersChange, then: Box<dyn FnOnce() + Send>) -> Waiting<'_, weir_io::Result<()>> {
        let mut users = self.users.lock().expect("no panic");
        *users = change(&users);
        drop(users);
        then();
        Box::pin(ready(Ok(())))
    }
}

/// The tenants `default`, `ada`, `bob` and `eve`; the secret of each is its name and `-secret`.
pub struct Keys {
    pub tenants: BTreeMap<&'static str, (u32, MemoryStore, Arc<Knobs>)>,
    /// Whether a connection that has said nothing belongs to `default`.
    is_open: bool,
}

impl Keys {
    pub fn new(clock: &Arc<TestClock>, is_open: bool) -> Arc<Self> {
        let tenant = |number| (number, MemoryStore::new(clock), Arc::default());
        let names = ["default", "ada", "bob", "eve"].into_iter().zip(1..);
        Arc::new(Self { tenants: names.map(|(name, number)| (name, tenant(number))).collect(), is_open })
    }

    fn grant(&self, name: &str) -> Option<Grant<MemoryStore>> {
        let (name, (tenant, store, knobs)) = self.tenants.get_key_value(name)?;
        let tenancy = Arc::clone(knobs) as Arc<dyn Tenancy>;
        Some(Grant { tenant: *tenant, name: (*name).into(), store: store.clone(), tenancy })
    }
}

impl Doorman<MemoryStore> for Keys {
    fn open_door(&self, _: SocketAddr) -> Option<Grant<MemoryStore>> {
        self.grant("default").filter(|_| self.is_open)
    }

    fn vouched_for(&self, names: &[String]) -> Option<Grant<MemoryStore>> {
        self.grant(names.first()?)
    }

    fn login<'a>(
        &'a self,
        name: &'a [u8],
        secret: &'a [u8],
        _: SocketAddr,
    ) -> Checking<'a, Result<Grant<MemoryStore>, Refusal>> {
        Box::pin(async move {
            let name = std::str::from_utf8(name).map_err(|_| Refusal::WrongSecret)?;
            let grant = self.grant(name).ok_or(Refusal::WrongSecret)?;
            if secret == format!("{name}-secret").as_bytes() { Ok(grant) } else { Err(Refusal::WrongSecret) }
        })
    }

    fn is_default_open(&self) -> bool {
        self.is_open
    }

    fn knows(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.tenants.contains_key(name))
    }
}

pub fn start() -> (Running, Arc<Keys>) {
    start_at(&TestClock::new(), Settings::default())
}

fn always_sevens(bytes: &mut [u8]) -> io::Result<()> {
    bytes.fill(7);
    Ok(())
}

/// Each of these servers draws the same random numbers.
pub fn start_at(clock: &Arc<TestClock>, settings: Settings) -> (Running, Arc<Keys>) {
    start_keys(Keys::new(clock, false), clock, Settings { random: always_sevens, ..settings })
}

/// A connection that says nothing belongs to `default`.
pub fn start_open(clock: &Arc<TestClock>, settings: Settings) -> (Running, Arc<Keys>) {
    start_keys(Keys::new(clock, true), clock, settings)
}

fn start_keys(keys: Arc<Keys>, clock: &Arc<TestClock>, settings: Settings) -> (Running, Arc<Keys>) {
    let doorman = Arc::clone(&keys);
    (Running::start_with(settings, Arc::clone(clock), move |_| doorman), keys)
}

pub fn connect(weir: &Running, name: &str) -> Client {
    let mut client = weir.connect();
    assert_eq!(client.say(&format!("AUTH {name} {name}-secret")), "+OK\r\n");
    client
}

/// Makes a read that takes its thread `nanos`, and returns which thread that is. No other time passes, not even while a
/// reply is on its way, because that time would be booked on its connection.
pub fn read_for(client: &mut Client, keys: &Keys, tenant: &str, nanos: u64) -> String {
    let store = &keys.tenants[tenant].1;
    store.read_nanos.store(nanos, Ordering::Relaxed);
    assert_eq!(client.say("GET key"), "$-1\r\n");
    // When this is answered, the thread's time has been booked.
    assert_eq!(client.say("PING"), "+PONG\r\n");
    store.read_by.lock().expect("no panic").clone()
}
