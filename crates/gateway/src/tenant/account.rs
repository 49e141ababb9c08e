//! What all sessions of one tenant share in the gateway: their number, what waits to be read, counters, cursors, the
//! slow log, a pause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_io::Result;
use weir_io::{Nanos, Rng};
use weir_model::DATABASES;
use weir_node::request_units::Price;

use super::byte_budget::ByteBudget;
use super::byte_limit::ByteLimit;
use super::connection_limits::ConnectionLimits;
use crate::auth::users::Users;
use crate::dumps::Dumps;
use crate::error_stats::ErrorStats;
use crate::key_events::KeyEvents;
use crate::noisy_neighbour::{self, ProcessorUse, Use};
use crate::pubsub::PubSub;
use crate::resp::cursors::Cursors;
use crate::resp::hints::Hints;
use crate::resp::latency_monitor::LatencyMonitor;
use crate::resp::pause::Pause;
use crate::resp::percentiles::Percentiles;
use crate::resp::slow_replies::{SlowReplies, SlowReply};
use crate::resp::slowlog::Slowlog;
use crate::scripts::{NodeMachines, Scripts};
use crate::stats::Stats;
use crate::swaps::{SwapCounts, Swaps};
use crate::tenant::tenancy::{Grant, Standing, Tenancy};
use crate::tracking::Tracking;
use crate::waiting_rows::WaitingRows;

/// Replies of one tenant that its clients do not read and that its long values leave no room for, in bytes; a
/// connection that would add more is cut (S11).
pub(crate) const UNREAD_BYTES_MAX: u64 = 64 << 20;

/// Long values of one tenant that its connections have in hand, until its clients have taken them; who wants more waits
/// (S11).
const LONG_BYTES_MAX: u64 = 256 << 20;

/// Long requests of one tenant that are not complete; from those who send more nothing is read meanwhile (S12).
const UNFINISHED_BYTES_MAX: u64 = 256 << 20;

/// See the module.
pub(crate) struct Account {
    pub(crate) tenant: u32,
    pub(crate) name: Arc<str>,
    pub(crate) stats: Stats,
    pub(crate) cursors: Cursors,
    pub(crate) slowlog: Slowlog,
    pub(crate) hints: Hints,
    pub(crate) errors: ErrorStats,
    pub(crate) latency_monitor: LatencyMonitor,
    /// What `INFO latencystats` tells.
    pub(crate) percentiles: Percentiles,
    pub(crate) slow_replies: SlowReplies,
    pub(crate) pause: Pause,
    pub(crate) key_counts: KeyCounts,
    /// Who runs commands, and who exchanges databases.
    pub(crate) swaps: Arc<Swaps>,
    tenancy: Arc<dyn Tenancy>,
    /// The node's.
    places: Arc<ConnectionLimits>,
    connections: AtomicUsize,
    admitted: AtomicU64,
    /// Sessions that found no place.
    refused: AtomicU64,
    /// Replies that its clients do not read and that its long values leave no room for.
    pub(crate) unread: Arc<ByteLimit>,
    pub(crate) pubsub: Arc<PubSub>,
    pub(crate) long_values: ByteBudget,
    pub(crate) unfinished: ByteBudget,
    /// How often all of its data was deleted at once.
    flushes: AtomicU64,
    /// The rows that its connections wait for.
    pub(crate) waiting_rows: Arc<WaitingRows>,
    pub(crate) scripts: Scripts,
    /// Its connections that keep values of their own.
    pub(crate) tracking: Tracking,
    /// What happens to its keys.
    pub(crate) key_events: Arc<KeyEvents>,
    pub(crate) users: Users,
    /// What is streamed to its clients.
    pub(crate) dumps: Dumps,
    is_noisy: AtomicBool,
    /// Processor time that it was judged for.
    processor_nanos: AtomicU64,
    /// Calls of commands when that was last more than nothing.
    calls: AtomicU64,
    /// And how many there were in a second then; 0 since it has done nothing.
    calls_per_second: AtomicU64,
}

impl Account {
    /// Exchanges the databases with these names, durably, and lets `alone` go then.
    ///
    /// # Errors
    /// Nothing was exchanged.
    pub(crate) async fn swap_databases(&self, names: (u8, u8), alone: Box<dyn Send>) -> Result<()> {
        self.tenancy.swap_databases(names, alone).await
    }

    /// How often all of its data was deleted at once, and each database exchanged.
    pub(crate) fn upheavals(&self) -> Upheavals {
        Upheavals { flushes: self.flushes(), swaps: self.swaps.counts() }
    }

    /// How often all of its data was deleted at once.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// All of its data is about to be deleted at once.
    pub(crate) fn begin_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// Whether the tenant's commands are served.
    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        self.tenancy.standing()
    }

    /// Whether it goes behind the others ([`noisy_neighbour`]).
    #[inline]
    pub(crate) fn is_noisy(&self) -> bool {
        self.is_noisy.load(Ordering::Relaxed)
    }

    /// Processor time that the gateway's threads have spent on it, as it was last judged.
    pub(crate) fn processor_nanos(&self) -> Nanos {
        self.processor_nanos.load(Ordering::Relaxed)
    }

    /// Commands in the last second.
    pub(crate) fn calls_per_second(&self) -> u64 {
        self.calls_per_second.load(Ordering::Relaxed)
    }

    /// Sessions now.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn count_connections(&self) -> TenantConnections {
        TenantConnections {
            open: self.connections() as u64,
            max: u64::from(self.connections_max()),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Sessions ever.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Most sessions; 0 = not limited.
    pub(crate) fn connections_max(&self) -> u32 {
        self.tenancy.connections_max()
    }

    /// Remembers how many commands it called in the last `elapsed`, if it did anything: who was idle is not gone
    /// through.
    fn judge_calls(&self, did_something: bool, elapsed: Nanos) {
        let mut rate = 0;
        if did_something {
            let calls = self.stats.calls();
            let more = calls - self.calls.swap(calls, Ordering::Relaxed);
            rate = (more as f64 * 1e9 / elapsed.max(1) as f64).round() as u64;
        }
        self.calls_per_second.store(rate, Ordering::Relaxed);
    }

    /// A place for one more session, if the tenant's share has one ([`ConnectionLimits`], S13).
    pub(crate) fn admit(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let limit = self.tenancy.connections_max() as usize;
        if !self.places.take(&self.connections, limit) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.admitted.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPermit(Arc::clone(self)))
    }
}

/// Connections of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantConnections {
    /// Open ones.
    pub open: u64,
    /// Most of its own; 0 = its share of what the node takes.
    pub max: u64,
    /// Those that found no place, since the start.
    pub refused: u64,
}

/// What has befallen all keys of a tenant, or of a database, at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Upheavals {
    /// How often all of its data was deleted.
    pub(crate) flushes: u64,
    /// How often each database was exchanged.
    pub(crate) swaps: SwapCounts,
}

/// What `INFO` has counted of a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyCount {
    pub(crate) keys: usize,
    /// When, in nanoseconds of the server's clock.
    pub(crate) at: Nanos,
    /// It is not to be counted at every question.
    pub(crate) is_costly: bool,
}

/// Of every database what was counted last.
#[derive(Default)]
pub(crate) struct KeyCounts(Mutex<[Option<KeyCount>; DATABASES as usize]>);

impl KeyCounts {
    pub(crate) fn get(&self, database: u8) -> Option<KeyCount> {
        self.0.lock().get(usize::from(database)).copied().flatten()
    }

    pub(crate) fn set(&self, database: u8, count: KeyCount) {
        if let Some(place) = self.0.lock().get_mut(usize::from(database)) {
            *place = Some(count);
        }
    }

    /// Something was emptied.
    pub(crate) fn forget(&self) {
        *self.0.lock() = Default::default();
    }
}

/// A session's place among its tenant's connections.
pub(crate) struct ConnectionPermit(Arc<Account>);

impl ConnectionPermit {
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.0
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.places.give_back(&self.0.connections);
    }
}

/// What a tenant's commands have cost since the start.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The tenant's name.
    pub name: Arc<str>,
    /// Commands called.
    pub commands: u64,
    /// What they cost.
    pub price: Price,
}

/// The accounts of all tenants that have ever been here, until they are dropped.
pub(crate) struct Accounts {
    threads: usize,
    places: Arc<ConnectionLimits>,
    machines: Arc<NodeMachines>,
    /// Something has happened to keys that no connection has caused.
    unsent: Arc<Notify>,
    all: Mutex<All>,
}

struct All {
    accounts: BTreeMap<u32, Arc<Account>>,
    /// When they were last judged.
    swept: Nanos,
    rng: Rng,
}

impl Accounts {
    /// None yet, of a node with `places`; counters are for `threads` threads, numbers of cursors are drawn from `seed`.
    pub(crate) fn new(places: Arc<ConnectionLimits>, threads: usize, seed: u64) -> Self {
        let all = All { accounts: BTreeMap::new(), swept: 0, rng: Rng::new(seed) };
        Self { threads, places, machines: Arc::default(), unsent: Arc::default(), all: Mutex::new(all) }
    }

    /// The account that `grant` is for.
    pub(crate) fn of<S>(&self, grant: &Grant<S>) -> Arc<Account> {
        let mut all = self.all.lock();
        if let Some(account) = all.accounts.get(&grant.tenant) {
            return Arc::clone(account);
        }
        let pubsub = Arc::<PubSub>::default();
        let account = Arc::new(Account {
            tenant: grant.tenant,
            name: Arc::clone(&grant.name),
            stats: Stats::new(self.threads),
            cursors: Cursors::new(all.rng.next_u64()),
            slowlog: Slowlog::default(),
            hints: Hints::default(),
            errors: ErrorStats::default(),
            latency_monitor: LatencyMonitor::default(),
            percentiles: Percentiles::default(),
            slow_replies: SlowReplies::default(),
            pause: Pause::default(),
            key_counts: KeyCounts::default(),
            swaps: Arc::default(),
            tenancy: Arc::clone(&grant.tenancy),
            places: Arc::clone(&self.places),
            connections: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unread: ByteLimit::new(UNREAD_BYTES_MAX),
            pubsub: Arc::clone(&pubsub),
            long_values: ByteBudget::new(LONG_BYTES_MAX),
            unfinished: ByteBudget::new(UNFINISHED_BYTES_MAX),
            flushes: AtomicU64::new(0),
            waiting_rows: Arc::default(),
            scripts: Scripts::new(&self.machines),
            tracking: Tracking::default(),
            key_events: Arc::new(KeyEvents::new(pubsub, Arc::clone(&self.unsent), {
                let tenancy = Arc::clone(&grant.tenancy);
                Box::new(move || tenancy.databases())
            })),
            users: Users::new(&grant.name, Arc::clone(&grant.tenancy)),
            dumps: Dumps::default(),
            is_noisy: AtomicBool::new(false),
            processor_nanos: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            calls_per_second: AtomicU64::new(0),
        });
        all.accounts.insert(grant.tenant, Arc::clone(&account));
        account
    }

    /// Waits until something has happened to keys that no connection has caused.
    pub(crate) async fn events_by_nobody(&self) {
        self.unsent.notified().await;
    }

    /// The accounts of tenants of which something waits to be told that has happened to their keys.
    pub(crate) fn with_events(&self) -> Vec<Arc<Account>> {
        let all = self.all.lock();
        all.accounts.values().filter(|account| account.key_events.are_waiting()).cloned().collect()
    }

    /// Connections of one tenant; none of one that was never here.
    pub(crate) fn connections_of(&self, tenant: u32) -> TenantConnections {
        let account = self.all.lock().accounts.get(&tenant).cloned();
        account.map(|account| account.count_connections()).unwrap_or_default()
    }

    /// The account of a tenant that was here.
    pub(crate) fn numbered(&self, tenant: u32) -> Option<Arc<Account>> {
        self.all.lock().accounts.get(&tenant).cloned()
    }

    /// Connections of every tenant that was here, by name.
    pub(crate) fn connections(&self) -> Vec<(Arc<str>, TenantConnections)> {
        let all = self.all.lock();
        all.accounts.values().map(|account| (Arc::clone(&account.name), account.count_connections())).collect()
    }

    /// Replies by how long they took, of the `count` tenants that used most of the threads: idle ones cost nothing.
    pub(crate) fn busiest_latencies(&self, count: usize) -> Vec<(Arc<str>, Vec<u64>)> {
        let mut accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        accounts.sort_by_key(|account| std::cmp::Reverse(account.processor_nanos()));
        accounts.truncate(count);
        accounts.iter().map(|account| (Arc::clone(&account.name), account.stats.latencies())).collect()
    }

    /// Of every tenant that was here: its replies by how long they took.
    pub(crate) fn latencies(&self) -> BTreeMap<u32, Vec<u64>> {
        let accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        accounts.iter().map(|account| (account.tenant, account.stats.latencies())).collect()
    }

    /// Of every tenant that was here: commands called, and what they have cost.
    pub(crate) fn costs(&self) -> BTreeMap<u32, Costs> {
        let accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        let of = |account: &Arc<Account>| Costs {
            name: Arc::clone(&account.name),
            commands: account.stats.calls(),
            price: account.stats.cost(),
        };
        accounts.iter().map(|account| (account.tenant, of(account))).collect()
    }

    /// Of one tenant: the last replies that its clients waited long for, the newest first.
    pub(crate) fn slow_replies(&self, tenant: u32) -> Vec<SlowReply> {
        let account = self.all.lock().accounts.get(&tenant).cloned();
        account.map(|account| account.slow_replies.all()).unwrap_or_default()
    }

    /// Of every tenant that was here: what it has used of the threads.
    pub(crate) fn processor_use(&self) -> BTreeMap<u32, ProcessorUse> {
        let of = |account: &Arc<Account>| ProcessorUse {
            name: Arc::clone(&account.name),
            nanos: account.processor_nanos(),
            is_noisy: account.is_noisy(),
        };
        self.all.lock().accounts.iter().map(|(&tenant, account)| (tenant, of(account))).collect()
    }

    /// Forgets the accounts of tenants that are gone (numbers are never reused), and judges those that are there by
    /// what they used of the threads, which had processors for these `shares` of the time ([`Stats::judge_threads`]).
    /// Once a second.
    pub(crate) fn sweep(&self, now: Nanos, shares: &[f64]) {
        let mut all = self.all.lock();
        all.accounts.retain(|_, account| account.standing() != Standing::Dropped);
        let elapsed = now.saturating_sub(std::mem::replace(&mut all.swept, now));
        let busy: Vec<(&Arc<Account>, Nanos)> =
            all.accounts.values().map(|account| (account, account.stats.judge(shares))).collect();
        let served = busy.iter().filter(|(_, busy)| *busy > 0).count();
        for (account, busy) in busy {
            let has_neighbours = served > usize::from(busy > 0);
            let is_noisy = noisy_neighbour::is_noisy(Use { busy, elapsed, has_neighbours }, account.is_noisy());
            account.is_noisy.store(is_noisy, Ordering::Relaxed);
            account.processor_nanos.fetch_add(busy, Ordering::Relaxed);
            account.judge_calls(busy > 0, elapsed);
            account.scripts.machines.sweep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u32);

    impl Tenancy for Fixed {
        fn standing(&self) -> Standing {
            Standing::Active
        }

        fn connections_max(&self) -> u32 {
            self.0
        }
    }

    fn grant(tenant: u32, connections_max: u32) -> Grant<()> {
        Grant { tenant, name: "t".into(), store: (), tenancy: Arc::new(Fixed(connections_max)) }
    }

    #[test]
    fn s13_a_tenant_has_its_share_of_places_and_no_more() {
        let accounts = Accounts::new(ConnectionLimits::new(100), 1, 1);
        let account = accounts.of(&grant(1, 2));
        let places = (account.admit(), account.admit());
        assert!(places.0.is_some() && places.1.is_some() && account.admit().is_none());
        assert!(accounts.of(&grant(2, 2)).admit().is_some(), "another tenant's places are its own");
        drop(places);
        assert_eq!(account.connections(), 0);
        assert!(accounts.of(&grant(1, 2)).admit().is_some());
    }

    #[test]
    fn noisy_is_who_keeps_neighbours_waiting() {
        const SECOND: Nanos = 1_000_000_000;
        let accounts = Accounts::new(ConnectionLimits::new(100), 2, 1);
        let (flood, light) = (accounts.of(&grant(1, 0)), accounts.of(&grant(2, 0)));
        let second = |number: Nanos, of_flood: Nanos, of_light: Nanos| {
            for thread in 0..2 {
                flood.stats.thread(thread).busy.add(of_flood / 2);
            }
            light.stats.thread(0).busy.add(of_light);
            accounts.sweep(number * SECOND, &[1.0, 0.5]);
            (flood.is_noisy(), light.is_noisy())
        };
        assert_eq!(second(1, SECOND, 0), (false, false), "alone");
        assert_eq!(second(2, SECOND, SECOND / 100), (true, false));
        assert_eq!(second(3, SECOND / 5, SECOND / 100), (true, false));
        assert_eq!(second(4, SECOND / 20, SECOND / 100), (false, false));
        assert_eq!(second(5, SECOND, SECOND), (true, true), "neither keeps the threads of the light ones");
        assert_eq!(second(6, SECOND, 0), (false, false), "alone again");
        assert_eq!(second(7, 4 * SECOND, SECOND), (true, true));
        let used = accounts.processor_use();
        // Its second thread had a processor for half of the time.
        assert_eq!((used[&1].nanos, used[&1].is_noisy), (3 * (8 * SECOND + SECOND / 4) / 4, true));
    }

    #[test]
    fn commands_in_the_last_second_are_known_and_end_when_it_is_idle() {
        const SECOND: Nanos = 1_000_000_000;
        let accounts = Accounts::new(ConnectionLimits::new(100), 2, 1);
        let account = accounts.of(&grant(1, 0));
        accounts.sweep(SECOND, &[1.0, 1.0]);
        for thread in [0, 0, 1] {
            account.stats.thread(thread).called(
                weir_command::table::find(b"get").expect("a command"),
                weir_command::Request::new(0, 0, [&b"GET"[..]]).args(),
            );
            account.stats.thread(thread).busy.add(1000);
        }
        accounts.sweep(SECOND * 3 / 2, &[1.0, 1.0]);
        assert_eq!((account.calls_per_second(), account.processor_nanos()), (6, 3000));
        accounts.sweep(SECOND * 5 / 2, &[1.0, 1.0]);
        assert_eq!((account.calls_per_second(), account.processor_nanos()), (0, 3000));
    }

    #[test]
    fn s11_what_a_tenants_clients_do_not_read_is_bounded() {
        let account = Accounts::new(ConnectionLimits::new(100), 1, 1).of(&grant(1, 0));
        let all = account.unread.try_hold(UNREAD_BYTES_MAX).expect("fits exactly");
        assert!(account.unread.try_hold(1).is_none());
        drop(all);
        assert!(account.unread.try_hold(1).is_some());
    }
}
