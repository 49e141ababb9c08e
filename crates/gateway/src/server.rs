//! The state that all connections share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use weir_io::{Clock, Nanos, Spawn};
use weir_node::EngineKind;
use weir_node::request_units::{Prices, default_pod, default_table};

use crate::auth::users::log::AclLog;
use crate::auth::{Doorman, Refusal, secret};
use crate::mailbox::PushLimits;
use crate::notices::Notices;
use crate::resp::client::{Clients, Patience};
use crate::resp::frame::Limits;
use crate::resp::pause::Pause;
use crate::resp::slowlog::Slowlog;
use crate::serving_thread::ServingThread;
use crate::stats::Stats;
use crate::store::Store;
use crate::tenant::account::Accounts;
use crate::tenant::connection_limits::ConnectionLimits;
use crate::tenant::draws::Seeds;
use crate::write_group::WriteGroups;
use weir_io::real::IdleTime;

/// What request units cost, by the engine of the tenant.
#[derive(Clone, Debug)]
pub struct UnitPrices {
    /// Prices of tenants whose rows are on disk.
    pub lsm: Arc<Prices>,
    /// Prices of tenants whose rows are in memory.
    pub memory: Arc<Prices>,
}

impl Default for UnitPrices {
    /// Prices from the built-in table, on the built-in machine.
    fn default() -> Self {
        let of = |in_memory| Arc::new(Prices::new(default_table(in_memory), default_pod()));
        Self { lsm: of(false), memory: of(true) }
    }
}

impl UnitPrices {
    /// The prices of a tenant whose rows are in `engine`.
    pub fn of(&self, engine: EngineKind) -> &Arc<Prices> {
        match engine {
            EngineKind::Lsm | EngineKind::SpLsm => &self.lsm,
            EngineKind::Memory => &self.memory,
        }
    }
}

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What one request may ask for.
    pub limits: Limits,
    /// Connections beyond this number are refused with an error line.
    pub connections_max: usize,
    /// When a silent connection is cut.
    pub patience: Patience,
    /// Threads that serve connections, each with its own event loop; at least one. The gateway uses as few of them as
    /// can do the work.
    pub threads: usize,
    /// Additional threads for connections with long requests and of noisy neighbours. If there are none, the other
    /// threads serve these connections.
    pub long_threads: usize,
    /// Says how long the machine's processors had nothing else to do; `None` where nobody knows.
    pub idle_time: fn() -> Option<IdleTime>,
    /// Fills a buffer with bytes that nobody can guess. All random numbers that commands draw follow from them.
    pub random: fn(&mut [u8]) -> io::Result<()>,
    /// How many unrequested messages may wait for a connection.
    pub push_limits: PushLimits,
    /// Whether clients may say `DEBUG`.
    pub allow_debug: bool,
    /// What requests cost, by the engine of their tenant.
    pub prices: UnitPrices,
    /// What `CONFIG GET` shows besides what the gateway itself knows: name and value.
    pub shown: Vec<(String, String)>,
}

impl Settings {
    /// The threads on which connections are served.
    pub(crate) fn serving_threads(&self) -> impl Iterator<Item = ServingThread> + use<> {
        let threads = self.threads;
        (0..threads + self.long_threads).map(move |index| ServingThread { index, is_long: index >= threads })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            connections_max: 10_000,
            patience: Patience::default(),
            threads: 2,
            long_threads: 2,
            idle_time: IdleTime::now,
            random: secret::system_random,
            push_limits: PushLimits::default(),
            allow_debug: false,
            prices: UnitPrices::default(),
            shown: Vec::new(),
        }
    }
}

/// The state shared by all connections of a gateway.
pub(crate) struct Server<S: Store> {
    pub(crate) doorman: Arc<dyn Doorman<S>>,
    pub(crate) accounts: Accounts,
    /// The clock by which the store, too, judges expiry.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) clients: Clients,
    pub(crate) stats: Stats,
    pub(crate) notices: Notices,
    /// Writes that several connections hand to a store together.
    pub(crate) write_groups: WriteGroups<S::Commit>,
    /// Refused logins by reason, in the order of [`Refusal::REASONS`].
    pub(crate) logins_refused: [AtomicU64; Refusal::REASONS.len()],
    /// Where scripts run.
    pub(crate) script_threads: Arc<dyn Spawn>,
    /// The slow log of connections that have not logged in. Nobody sees it.
    pub(crate) slowlog: Slowlog,
    /// The ACL log of logins to a tenant that does not exist. Nobody sees it.
    pub(crate) acl_log: AclLog,
    /// The pause of connections that have not logged in: there never is one.
    pub(crate) pause: Pause,
    /// TCP port, for `INFO`.
    pub(crate) port: u16,
    /// Forty hexadecimal digits that name this run, for `INFO`.
    pub(crate) run_id: String,
    /// When this run began, on its clock.
    pub(crate) started: Nanos,
    /// Whole seconds since the start in which clients could be served, counted by the sweeps. As a clock it costs only
    /// one load.
    second: AtomicU64,
    /// How many of the threads for short requests serve.
    serving: AtomicUsize,
    draining: AtomicBool,
    /// Wakes tasks that wait for the server to begin to drain.
    drained: Notify,
}

impl<S: Store> Server<S> {
    /// A server without connections.
    ///
    /// # Errors
    /// There are no random bytes.
    pub(crate) fn new(
        doorman: Arc<dyn Doorman<S>>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        script_threads: Arc<dyn Spawn>,
        port: u16,
    ) -> io::Result<Self> {
        let started = clock.now();
        // Clients are shown the name of the run, so nothing else may follow from it.
        let (mut name, mut key) = ([0; 20], [0; 32]);
        (settings.random)(&mut name)?;
        (settings.random)(&mut key)?;
        let run_id = name.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            doorman,
            accounts: Accounts::new(
                ConnectionLimits::new(settings.connections_max),
                settings.serving_threads().count(),
                Seeds::new(key),
            ),
            clock,
            clients: Clients::default(),
            stats: Stats::new(settings.serving_threads().count()),
            notices: Notices::default(),
            write_groups: WriteGroups::new(settings.serving_threads().count()),
            logins_refused: Default::default(),
            script_threads,
            slowlog: Slowlog::default(),
            acl_log: AclLog::default(),
            pause: Pause::default(),
            settings,
            port,
            run_id,
            started,
            second: AtomicU64::new(0),
            serving: AtomicUsize::new(1),
            draining: AtomicBool::new(false),
            drained: Notify::new(),
        })
    }

    /// Whole seconds since the start in which clients could be served.
    pub(crate) fn second(&self) -> u64 {
        self.second.load(Ordering::Relaxed)
    }

    /// Counts another such second.
    pub(crate) fn tick(&self) -> u64 {
        self.second.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Which thread serves the connection of the client with this number.
    #[inline]
    pub(crate) fn home(&self, client: u64, is_long: bool) -> usize {
        let Settings { threads, long_threads, .. } = self.settings;
        if is_long && long_threads > 0 {
            threads + client as usize % long_threads
        } else {
            client as usize % self.serving.load(Ordering::Relaxed)
        }
    }

    /// From now on `threads` of [`Settings::threads`] serve short requests. A connection moves to its new thread after
    /// its current thread has served it.
    pub(crate) fn spread_over(&self, threads: usize) {
        self.serving.store(threads, Ordering::Relaxed);
    }

    /// From now on connections close as soon as their requests are answered.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.drained.notify_waiters();
    }

    /// Completes when the server begins to drain after this call. Call it before [`Server::is_draining`].
    pub(crate) fn drained(&self) -> Notified<'_> {
        self.drained.notified()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
