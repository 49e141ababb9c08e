//! What all sessions of one tenant share in the gateway: their number, limits on what waits to be read, counters,
//! cursors, the slow log, a pause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_io::{Nanos, Result};
use weir_model::DATABASES;
use weir_node::request_units::Price;

use super::byte_budget::ByteBudget;
use super::byte_limit::ByteLimit;
use super::connection_limits::ConnectionLimits;
use super::draws::{Draws, Seeds};
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

/// Bytes of replies that the clients of one tenant do not read and for which its budget of long values has no room. A
/// connection that would add more is cut (S11).
pub(crate) const UNREAD_BYTES_MAX: u64 = 64 << 20;

/// Bytes of long values that the connections of one tenant hold until their clients have taken them. A connection that
/// wants to hold more waits (S11).
const LONG_BYTES_MAX: u64 = 256 << 20;

/// Bytes of results that the commands of one tenant put together in memory and have not answered yet. Whoever would
/// hold more is refused (S11).
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// Bytes of long requests of one tenant that are not complete. From a connection that would go beyond this, nothing is
/// read until there is room (S12).
const UNFINISHED_BYTES_MAX: u64 = 256 << 20;

/// Bytes that the transactions of one tenant hold until they are applied, and the messages of their scripts sent.
/// Whoever would hold more is refused (S12). It is as much as one transaction may have of changes and of all else, so
/// that one by itself has room.
const TRANSACTION_BYTES_MAX: u64 = 512 << 20;

/// Bytes of the keys that the connections of one tenant watch, with what belongs to them. Whoever wants to watch more
/// is refused (S12).
const WATCHED_BYTES_MAX: u64 = 64 << 20;

/// Bytes of the keys that the blocked connections of one tenant wait for, with what belongs to them, and of the words
/// of their commands. Whoever wants to wait for more is refused.
const WAITED_BYTES_MAX: u64 = 256 << 20;

/// The part of the gateway's state that belongs to one tenant.
pub(crate) struct Account {
    pub(crate) tenant: u32,
    pub(crate) name: Arc<str>,
    pub(crate) stats: Stats,
    pub(crate) cursors: Cursors,
    /// Random numbers for the tenant's commands.
    pub(crate) draws: Draws,
    pub(crate) slowlog: Slowlog,
    pub(crate) hints: Hints,
    pub(crate) errors: ErrorStats,
    pub(crate) latency_monitor: LatencyMonitor,
    /// The figures of `INFO latencystats`.
    pub(crate) percentiles: Percentiles,
    pub(crate) slow_replies: SlowReplies,
    pub(crate) pause: Pause,
    pub(crate) key_counts: KeyCounts,
    /// Which connections run commands, and who exchanges databases.
    pub(crate) swaps: Arc<Swaps>,
    tenancy: Arc<dyn Tenancy>,
    /// The limits of the node.
    places: Arc<ConnectionLimits>,
    connections: AtomicUsize,
    admitted: AtomicU64,
    /// Sessions that were refused because there was no place for them.
    refused: AtomicU64,
    /// Replies that the tenant's clients do not read and for which its long values leave no room.
    pub(crate) unread: Arc<ByteLimit>,
    pub(crate) pubsub: Arc<PubSub>,
    pub(crate) long_values: ByteBudget,
    /// Results that the tenant's commands put together.
    pub(crate) results: Arc<ByteLimit>,
    pub(crate) unfinished: ByteBudget,
    /// What transactions hold until they are applied, and the messages of their scripts sent.
    pub(crate) transactions: ByteBudget,
    /// Keys that the tenant's connections watch.
    pub(crate) watched: Arc<ByteLimit>,
    /// Keys that the tenant's connections wait for.
    pub(crate) waited: Arc<ByteLimit>,
    /// How often all data of the tenant was deleted at once.
    flushes: AtomicU64,
    /// The rows that the tenant's connections wait for.
    pub(crate) waiting_rows: Arc<WaitingRows>,
    pub(crate) scripts: Scripts,
    /// The tenant's connections that keep values on the client's side.
    pub(crate) tracking: Tracking,
    /// Events of the tenant's keys.
    pub(crate) key_events: Arc<KeyEvents>,
    pub(crate) users: Users,
    /// Dump files that are streamed to the tenant's clients.
    pub(crate) dumps: Dumps,
    is_noisy: AtomicBool,
    /// Processor time of the tenant as of the last judgement.
    processor_nanos: AtomicU64,
    /// Commands called so far, as of the last sweep in which the tenant had done anything.
    calls: AtomicU64,
    /// Commands called a second before the last sweep; 0 if the tenant did nothing.
    calls_per_second: AtomicU64,
}

impl Account {
    /// Exchanges the databases with these names durably, and then drops `alone`.
    ///
    /// # Errors
    /// Nothing was exchanged.
    pub(crate) async fn swap_databases(&self, names: (u8, u8), alone: Box<dyn Send>) -> Result<()> {
        self.tenancy.swap_databases(names, alone).await
    }

    /// How often all data of the tenant was deleted at once, and how often each database was exchanged.
    pub(crate) fn upheavals(&self) -> Upheavals {
        Upheavals { flushes: self.flushes(), swaps: self.swaps.counts() }
    }

    /// How often all data of the tenant was deleted at once.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// To be called when all data of the tenant is about to be deleted at once.
    pub(crate) fn begin_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Release);
    }

    /// Whether the tenant's commands are served.
    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        self.tenancy.standing()
    }

    /// Whether the tenant goes behind the others ([`noisy_neighbour`]).
    #[inline]
    pub(crate) fn is_noisy(&self) -> bool {
        self.is_noisy.load(Ordering::Relaxed)
    }

    /// Processor time that the gateway's threads have spent on the tenant, as of the last judgement.
    pub(crate) fn processor_nanos(&self) -> Nanos {
        self.processor_nanos.load(Ordering::Relaxed)
    }

    /// Commands in the last second.
    pub(crate) fn calls_per_second(&self) -> u64 {
        self.calls_per_second.load(Ordering::Relaxed)
    }

    /// Number of sessions now.
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

    /// Number of sessions admitted since the start.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Highest number of sessions; 0 = not limited.
    pub(crate) fn connections_max(&self) -> u32 {
        self.tenancy.connections_max()
    }

    /// Computes how many commands the tenant called in the last `elapsed`, if it did anything: the counters of an idle
    /// tenant are not read.
    fn judge_calls(&self, did_something: bool, elapsed: Nanos) {
        let mut rate = 0;
        if did_something {
            let calls = self.stats.calls();
            let more = calls - self.calls.swap(calls, Ordering::Relaxed);
            rate = (more as f64 * 1e9 / elapsed.max(1) as f64).round() as u64;
        }
        self.calls_per_second.store(rate, Ordering::Relaxed);
    }

    /// Takes a place for one more session, if the tenant may have one more ([`ConnectionLimits`], S13).
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

/// The connections of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantConnections {
    /// Open connections.
    pub open: u64,
    /// The tenant's own limit; 0 = its share of what the node takes.
    pub max: u64,
    /// Connections refused since the start because there was no place.
    pub refused: u64,
}

/// Events that concern all keys of a tenant, or of a database, at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Upheavals {
    /// How often all data of the tenant was deleted.
    pub(crate) flushes: u64,
    /// How often each database was exchanged.
    pub(crate) swaps: SwapCounts,
}

/// The number of keys in a database, as `INFO` has counted it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyCount {
    pub(crate) keys: usize,
    /// When the keys were counted, in nanoseconds of the server's clock.
    pub(crate) at: Nanos,
    /// Whether counting is too costly to repeat at every `INFO`.
    pub(crate) is_costly: bool,
}

/// The last count for every database.
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

    /// To be called when something was emptied.
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
    /// What the commands have cost.
    pub price: Price,
}

/// The accounts of all tenants that have connected since the start. A dropped tenant loses its account.
pub(crate) struct Accounts {
    threads: usize,
    places: Arc<ConnectionLimits>,
    machines: Arc<NodeMachines>,
    seeds: Seeds,
    /// Notified when there are events of keys that no connection has caused.
    unsent: Arc<Notify>,
    /// Notified when events wait whose connection may have gone.
    left: Notify,
    all: Mutex<All>,
}

struct All {
    accounts: BTreeMap<u32, Arc<Account>>,
    /// When the accounts were last judged.
    swept: Nanos,
}

impl Accounts {
    /// No accounts yet. `places` are the node's connection limits, and `threads` is the number of threads that count.
    pub(crate) fn new(places: Arc<ConnectionLimits>, threads: usize, seeds: Seeds) -> Self {
        let all = All { accounts: BTreeMap::new(), swept: 0 };
        let (machines, unsent, left) = Default::default();
        Self { threads, places, machines, seeds, unsent, left, all: Mutex::new(all) }
    }

    /// The account of the tenant that `grant` is for.
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
            cursors: Cursors::new(self.seeds.of(grant.tenant, "cursors")),
            draws: Draws::new(self.seeds.of(grant.tenant, "draws")),
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
            results: ByteLimit::new(RESULT_BYTES_MAX),
            unfinished: ByteBudget::new(UNFINISHED_BYTES_MAX),
            transactions: ByteBudget::new(TRANSACTION_BYTES_MAX),
            watched: ByteLimit::new(WATCHED_BYTES_MAX),
            waited: ByteLimit::new(WAITED_BYTES_MAX),
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
        // Weak, because the account has the tenant.
        let weak = Arc::downgrade(&account);
        grant.tenancy.on_log_replaced(Arc::new(move || {
            if let Some(account) = weak.upgrade() {
                account.waiting_rows.all_written();
                account.key_events.all_changed();
            }
        }));
        all.accounts.insert(grant.tenant, Arc::clone(&account));
        account
    }

    /// Waits until there are events of keys that no connection has caused.
    pub(crate) async fn events_by_nobody(&self) {
        self.unsent.notified().await;
    }

    /// Once a second: wakes whoever waits in [`Accounts::events_left`] if events wait to be sent.
    pub(crate) fn look_for_events(&self) {
        if self.all.lock().accounts.values().any(|account| account.key_events.are_waiting()) {
            self.left.notify_one();
        }
    }

    /// Waits until there are events of keys whose connection may have gone.
    pub(crate) async fn events_left(&self) {
        self.left.notified().await;
    }

    /// The accounts of tenants whose keys have events that wait to be sent.
    pub(crate) fn with_events(&self) -> Vec<Arc<Account>> {
        let all = self.all.lock();
        all.accounts.values().filter(|account| account.key_events.are_waiting()).cloned().collect()
    }

    /// The connections of one tenant; all zero if the tenant has never connected.
    pub(crate) fn connections_of(&self, tenant: u32) -> TenantConnections {
        let account = self.all.lock().accounts.get(&tenant).cloned();
        account.map(|account| account.count_connections()).unwrap_or_default()
    }

    /// The account of a tenant, if the tenant has connected.
    pub(crate) fn numbered(&self, tenant: u32) -> Option<Arc<Account>> {
        self.all.lock().accounts.get(&tenant).cloned()
    }

    /// The connections of every tenant that has connected, with the tenant's name.
    pub(crate) fn connections(&self) -> Vec<(Arc<str>, TenantConnections)> {
        let all = self.all.lock();
        all.accounts.values().map(|account| (Arc::clone(&account.name), account.count_connections())).collect()
    }

    /// Replies by how long they took, for the `count` tenants that used the threads most. Idle tenants cost nothing
    /// here.
    pub(crate) fn busiest_latencies(&self, count: usize) -> Vec<(Arc<str>, Vec<u64>)> {
        let mut accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        accounts.sort_by_key(|account| std::cmp::Reverse(account.processor_nanos()));
        accounts.truncate(count);
        accounts.iter().map(|account| (Arc::clone(&account.name), account.stats.latencies())).collect()
    }

    /// Replies by how long they took, for every tenant that has connected.
    pub(crate) fn latencies(&self) -> BTreeMap<u32, Vec<u64>> {
        let accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        accounts.iter().map(|account| (account.tenant, account.stats.latencies())).collect()
    }

    /// The number of commands called and what they have cost, for every tenant that has connected.
    pub(crate) fn costs(&self) -> BTreeMap<u32, Costs> {
        let accounts: Vec<Arc<Account>> = self.all.lock().accounts.values().cloned().collect();
        let of = |account: &Arc<Account>| Costs {
            name: Arc::clone(&account.name),
            commands: account.stats.calls(),
            price: account.stats.cost(),
        };
        accounts.iter().map(|account| (account.tenant, of(account))).collect()
    }

    /// The last replies for which the clients of one tenant waited long, newest first.
    pub(crate) fn slow_replies(&self, tenant: u32) -> Vec<SlowReply> {
        let account = self.all.lock().accounts.get(&tenant).cloned();
        account.map(|account| account.slow_replies.all()).unwrap_or_default()
    }

    /// What each tenant that has connected has used of the threads.
    pub(crate) fn processor_use(&self) -> BTreeMap<u32, ProcessorUse> {
        let of = |account: &Arc<Account>| ProcessorUse {
            name: Arc::clone(&account.name),
            nanos: account.processor_nanos(),
            is_noisy: account.is_noisy(),
        };
        self.all.lock().accounts.iter().map(|(&tenant, account)| (tenant, of(account))).collect()
    }

    /// Once a second: forgets the accounts of dropped tenants (numbers are never reused), and judges the other tenants
    /// by what they used of the threads. `shares` says in which part of their busy time the threads had a processor
    /// ([`Stats::judge_threads`]).
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

    fn accounts(threads: usize) -> Accounts {
        Accounts::new(ConnectionLimits::new(100), threads, Seeds::new([1; 32]))
    }

    fn grant(tenant: u32, connections_max: u32) -> Grant<()> {
        Grant { tenant, name: "t".into(), store: (), tenancy: Arc::new(Fixed(connections_max)) }
    }

    #[test]
    fn s13_a_tenant_has_its_share_of_places_and_no_more() {
        let accounts = accounts(1);
        let account = accounts.of(&grant(1, 2));
        let places = (account.admit(), account.admit());
        assert!(places.0.is_some() && places.1.is_some() && account.admit().is_none());
        assert!(accounts.of(&grant(2, 2)).admit().is_some(), "another tenant's places are its own");
        drop(places);
        assert_eq!(account.connections(), 0);
        assert!(accounts.of(&grant(1, 2)).admit().is_some());
    }

    #[test]
    fn s5_what_a_tenant_draws_does_not_depend_on_how_often_others_draw() {
        let [before, after] = [0, 3].map(|draws| {
            let accounts = accounts(1);
            let (other, account) = (accounts.of(&grant(1, 0)), accounts.of(&grant(2, 0)));
            let of_other: Vec<u64> = (0..draws).map(|_| other.draws.next_u64()).collect();
            let own = [(); 3].map(|()| account.draws.next_u64());
            assert!(of_other.iter().all(|number| !own.contains(number)), "each has numbers of its own");
            own
        });
        assert_eq!(before, after);
    }

    #[test]
    fn noisy_is_who_keeps_neighbours_waiting() {
        const SECOND: Nanos = 1_000_000_000;
        let accounts = accounts(2);
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
        // The flood's second thread had a processor for half of the time.
        assert_eq!((used[&1].nanos, used[&1].is_noisy), (3 * (8 * SECOND + SECOND / 4) / 4, true));
    }

    #[test]
    fn commands_in_the_last_second_are_known_and_end_when_it_is_idle() {
        const SECOND: Nanos = 1_000_000_000;
        let accounts = accounts(2);
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
        let account = accounts(1).of(&grant(1, 0));
        let all = account.unread.try_hold(UNREAD_BYTES_MAX).expect("fits exactly");
        assert!(account.unread.try_hold(1).is_none());
        drop(all);
        assert!(account.unread.try_hold(1).is_some());
    }
}
