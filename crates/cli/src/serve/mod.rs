//! `weir serve`: sets up the machine, a node on it, and the node's doors.

mod address;
mod certificates;
mod config;
mod mover;
mod reload;
mod signals;
mod traffic;

use std::error::Error;
use std::fs::{self, File};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;
use weir_admission::Limits;
use weir_admission::policy::DeviceMap;
use weir_gateway::UnitPrices;
use weir_gateway::admin::bill::Bill;
use weir_gateway::admin::kernel::KernelBytes;
use weir_gateway::admin::node::{NodeOperator, sold};
use weir_gateway::admin::operator::Operator;
use weir_gateway::admin::{Admin, metrics};
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{NodeTenants, Secrets};
use weir_gateway::listener::{self, Entrance, Gateway};
use weir_io::real::{RealClock, RealFs, RealFsOptions, RealSpawn, forgo_huge_pages};
use weir_io::{Clock, ErrorKind, Fs, Spawn, sleep_until};
use weir_node::request_units::MILLI;
use weir_node::{EngineKind, Machine, Node};

use self::certificates::Certificates;
use self::config::{Config, Device, OFF};
use self::mover::Told;
use self::reload::Reload;
use self::signals::Signals;
use self::traffic::Traffic;
use crate::calibrate::{in_words, stored};

/// How much nicer background threads are than the threads that serve requests.
const BACKGROUND_NICE: i32 = 10;

/// Starts a server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Directory of the data; made if missing [default: weir-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where Redis clients connect [default: 127.0.0.1:6379]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where operators connect: /metrics and /healthz over HTTP [default: 127.0.0.1:6380]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// File of settings, as docs/config.md explains them; the options here win over the file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Record how much tenants ask for, every ten seconds, as shares of what they bought (3000 units for tenants
    /// without limits), in a new file that `weir sim trace --trace FILE.csv` replays. If FILE.csv exists, the new
    /// file is FILE.1.csv, then FILE.2.csv, and so on: one for each start, and the log says which
    #[arg(long, value_name = "FILE.csv")]
    record_traffic: Option<PathBuf>,
    /// Let in clients from other machines although they need no secret, and operators from other machines, too
    #[arg(long)]
    insecure: bool,
    /// The engine of the tenant `default`: `lsm`, `memory` or `sp-lsm`; used only when the directory is made
    #[arg(long, value_name = "ENGINE", default_value = "lsm", value_parser = ["lsm", "memory", "sp-lsm"])]
    engine: String,
    /// Let clients use DEBUG, which tests need. Not for a server that others can reach
    #[arg(long)]
    allow_debug: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir serve                                  data in ./weir-data, clients at 127.0.0.1:6379
  weir serve --dir /srv/weir --listen 127.0.0.1:7000
  weir serve --config weir.toml               settings from a file; see docs/config.md
  redis-cli SET greeting hello                any Redis client is a client
  curl http://127.0.0.1:6380/metrics          what a dashboard shows
  weir serve --record-traffic week.csv        then: weir sim trace --trace week.csv
  kill -TERM PID                              answers what was asked, makes it durable, ends
  kill -HUP PID                               reads the file again; the log says what a restart would change

WEIR_LOG=debug shows more, WEIR_LOG=warn less; WEIR_LOG_FORMAT=json writes the log as JSON.";

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

impl Serve {
    /// Serves until SIGTERM or SIGINT.
    pub fn run(self) -> Outcome {
        start_log()?;
        if let Err(error) = forgo_huge_pages() {
            tracing::warn!(%error, "writes may wait for milliseconds now and then");
        }
        let config = self.config()?;
        // Whether clients must show secrets is only known once the catalogue has been read.
        let resolve = |text: &str, option| match text {
            OFF => Ok(None),
            text => address::resolve(text, option, true).map(Some),
        };
        let listen = resolve(&config.listen, "--listen")?;
        let tls_listen = resolve(&config.tls_listen, "tls_listen")?;
        let admin = address::resolve(&config.admin, "--admin", self.insecure)?;
        let create = |path: &PathBuf| {
            Traffic::create(path).map_err(|error| format!("--record-traffic {}: {error}", path.display()))
        };
        let recording = self.record_traffic.as_ref().map(create).transpose()?.flatten();
        if let Some((path, _)) = &recording {
            tracing::info!(path = %path.display(), "recording what tenants ask for");
        } else if let Some(path) = &self.record_traffic {
            tracing::error!(path = %path.display(), "nothing is recorded: move the recordings away that are there");
        }
        let files = raise_file_limit();
        tracing::debug!(files, "open files allowed");
        let wanted = config.connections_max as u64 + FILES_BESIDE_CONNECTIONS;
        if files.is_some_and(|files| files < wanted) {
            tracing::warn!(
                files,
                wanted,
                "fewer files may be open than connections_max asks for: raise the limit (ulimit -n)"
            );
        }
        config.warn();
        let insecure = self.insecure;
        let engine = self.engine.parse()?;
        let allow_debug = self.allow_debug;
        let reload = Reload::new(self, config.clone());
        let doors = Doors { listen, tls_listen, admin, insecure, engine, allow_debug };
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?
            .block_on(serve(config, doors, recording, reload))
    }

    /// The file's settings, overridden by those of the command line.
    fn config(&self) -> Outcome<Config> {
        let mut config = match &self.config {
            Some(path) => Config::parse(path, &read(path)?)?,
            None => Config::default(),
        };
        if let Some(dir) = &self.dir {
            config.dir.clone_from(dir);
        }
        if let Some(listen) = &self.listen {
            config.listen.clone_from(listen);
        }
        if let Some(admin) = &self.admin {
            config.admin.clone_from(admin);
        }
        Ok(config)
    }
}

#[allow(clippy::disallowed_methods, reason = "the operator's file, no data of a node")]
fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

/// Where the server listens.
struct Doors {
    listen: Option<SocketAddr>,
    tls_listen: Option<SocketAddr>,
    admin: SocketAddr,
    insecure: bool,
    /// The engine of the tenant that is made with the directory.
    engine: EngineKind,
    /// Whether clients may say `DEBUG`.
    allow_debug: bool,
}

/// Opens the sockets first, so that an address in use is known before a log is replayed. Clients that connect meanwhile
/// wait.
async fn serve(config: Config, doors: Doors, recording: Option<(PathBuf, Traffic<File>)>, reload: Reload) -> Outcome {
    let Doors { listen, tls_listen, admin, insecure, engine, allow_debug } = doors;
    let mut signals = Signals::new()?;
    let clock = RealClock::new();
    let certificates = match tls_listen {
        Some(_) => Some(Certificates::load(&config, clock.clone())?),
        None => None,
    };
    let reload = Arc::new(reload.with(certificates.clone()));
    let tls = certificates.as_ref().map(|certificates| Arc::clone(certificates.tls()));
    let mut entrances = Entrances::default();
    if let Some(listen) = listen {
        entrances.open(listen, "--listen", Entrance::plain)?;
    }
    if let (Some(listen), Some(tls)) = (tls_listen, &tls) {
        entrances.open(listen, "tls_listen", |listener| Entrance::secured(listener, Arc::clone(tls)))?;
    }
    let operators = listen_at(admin, "--admin")?;
    let admin = operators.local_addr()?;
    // A client that shows a certificate is no stranger.
    let are_known = certificates.as_ref().is_some_and(|certificates| certificates.are_required());
    if !has_data(&config.dir) {
        // A new directory has no secrets: do not make one only to refuse it afterwards.
        entrances.check(false, are_known, insecure)?;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let fs = RealFs::new(RealFsOptions { probe_dir: made(&config.dir)?, ..RealFsOptions::default() });
    let machine = Machine {
        fs: fs.clone(),
        clock: clock.clone(),
        spawn: Arc::new(RealSpawn::new(config.compactions_max + 1, BACKGROUND_NICE)),
        salt: clock.unix_ms() ^ u64::from(std::process::id()) << 44,
    };
    let calibrated = calibrated(&config, machine.fs.clone()).await?;
    let (begin, before) = (clock.now(), KernelBytes::now());
    let prices = calibrated.as_ref().map(|calibrated| calibrated.prices.clone()).unwrap_or_default();
    let device_map = calibrated.as_ref().and_then(|calibrated| calibrated.map);
    let mut node_config = config.node(calibrated.map(|calibrated| calibrated.limits));
    (node_config.engine, node_config.device_map) = (engine, device_map);
    let node = Node::open(&node_config, machine).await.map_err(|error| explain(&config, &error))?;
    let node = Arc::new(node);
    node.set_mover(Told::of(&node));
    let opening_ms = (clock.now() - begin) / 1_000_000;
    if let Some(path) = fs.direct_refused() {
        tracing::warn!(path = %path.display(), "the file system refuses direct I/O: reads go through the page cache");
    }
    let secrets = node.tenants().iter().any(|tenant| tenant.settings().secret.is_some());
    entrances.check(secrets, are_known, insecure)?;
    let slow = SlowHash::new(Arc::new(RealSpawn::new(1, BACKGROUND_NICE)));
    let tenants = NodeTenants::new(Arc::clone(&node));
    let doorman = Arc::new(Secrets::new(tenants, clock.clone(), Arc::clone(&slow), insecure)?);
    let recovering = Arc::clone(&node);
    tokio::spawn(async move { recovering.recover().await });
    let milli_units = prices.lsm.pod().logical().saturating_mul(MILLI);
    node.units().set(milli_units);
    node.units().set_queues(milli_units, config.request_queues.order());
    let (listen, tls_listen) = (entrances.address("--listen"), entrances.address("tls_listen"));
    let mut opened = entrances.opened.into_iter();
    let first = opened.next().ok_or("listen and tls_listen are both \"off\"")?;
    let mut settings = config.gateway(processors, prices);
    settings.allow_debug = allow_debug;
    let mut gateway = Gateway::new(first, settings, doorman, clock.clone())?;
    opened.for_each(|entrance| gateway.listen_also(entrance));
    let secured = tls.map(|tls| (tls, clock.clone() as Arc<dyn Clock>));
    let registry = metrics::registry(gateway.observer(), Arc::clone(&node), before, secured);
    // One thread for all that reads the operator's files: nobody else waits for files that are slow to read, and what
    // was read last is what counts.
    let readers = RealSpawn::new(1, BACKGROUND_NICE);
    readers.spawn(Box::pin(Arc::clone(&reload).run()));
    if let Some(certificates) = &certificates {
        readers.spawn(Box::pin(Certificates::watch(Arc::downgrade(certificates))));
    }
    // Not the thread of the hashes: clients that log in wait for those.
    let aside = Arc::new(RealSpawn::new(1, BACKGROUND_NICE));
    let operator = NodeOperator::new(Arc::clone(&node), clock.clone(), slow, aside, gateway.observer());
    let operator: Arc<dyn Operator> = Arc::new(operator);
    let bill_clock: Arc<dyn Clock> = clock.clone();
    if let Some((path, traffic)) = recording {
        let counts = Arc::downgrade(&operator);
        tokio::spawn(traffic::record(traffic, path, counts, clock));
    }
    let observer = gateway.observer();
    let bill = Bill::open(Arc::clone(&node), bill_clock.clone(), Box::new(move || observer.costs())).await;
    let bill = Arc::new(bill);
    let bill_task = tokio::spawn(keep_bill(Arc::clone(&bill), bill_clock));
    let admin_door = Admin::new(operators, registry, operator).with_bill(Arc::clone(&bill));
    let admin_task = tokio::spawn(admin_door.run());
    tracing::info!(
        data = %config.dir.display(),
        sync = ?config.sync,
        disk = ?fs.backend().backend,
        because = fs.backend().reason,
        tenants = node.tenants().len(),
        opening_ms,
        listen = listen.map(display),
        tls_listen = tls_listen.map(display),
        metrics = format_args!("http://{admin}/metrics"),
        "weir {} is ready: {}",
        env!("CARGO_PKG_VERSION"),
        how_to_connect(gateway.address(), listen.is_none()),
    );
    let sold = sold(&node);
    if sold.tenants > 0 {
        tracing::info!("sold: {sold}");
    }
    gateway.run(signals.wait(&reload)).await?;
    admin_task.abort();
    bill_task.abort();
    if let Err(error) = bill.record(0).await {
        tracing::error!(%error, "what was used in the last minute is not on the bill");
    }
    node.close().await?;
    tracing::info!("every answered write is durable, goodbye");
    // Last: a file may be being read, and this waits for it.
    drop(readers);
    Ok(())
}

/// Time between two entries of the bill, in nanoseconds: a crash may lose this much of it.
const BILL_EVERY: u64 = 60_000_000_000;

/// Adds to the bill, each minute, what was used.
async fn keep_bill(bill: Arc<Bill>, clock: Arc<dyn Clock>) {
    loop {
        sleep_until(&clock, clock.now() + BILL_EVERY).await;
        if let Err(error) = bill.record(1).await {
            tracing::warn!(%error, "what was used is not on the bill yet: it is tried again in a minute");
        }
    }
}

/// What `weir calibrate` has measured of the machine.
struct Calibrated {
    /// What its device gives.
    limits: Limits,
    /// The same by the mix of reads and writes.
    map: Option<DeviceMap>,
    /// The prices of requests.
    prices: UnitPrices,
}

/// The stored calibration, if the configuration asks for it.
async fn calibrated(config: &Config, fs: Arc<dyn Fs>) -> Outcome<Option<Calibrated>> {
    if config.device_bandwidth != Device::Calibrated {
        return Ok(None);
    }
    let dir = config.dir.display();
    let calibration = stored::load(&fs, &config.dir).await.map_err(|error| {
        format!("device_bandwidth is \"calibrated\": {error}\n  `weir calibrate {dir}` measures the disk while no server runs")
    })?;
    let path = stored::path(&config.dir);
    let limits = calibration.measurement.limits().map_err(|problem| format!("{}: {problem}", path.display()))?;
    tracing::info!(file = %path.display(), "the device gives {}", in_words(&limits));
    if calibration.has_outdated_units {
        let hint = format!("`weir calibrate {dir} --request-units` measures it while no server runs");
        tracing::warn!(file = %path.display(), "{}: {hint}", stored::OUTDATED_UNITS);
    }
    let prices = calibration.request_units.map(|units| units.prices(&limits)).unwrap_or_default();
    Ok(Some(Calibrated { limits, map: calibration.measurement.map(), prices }))
}

/// Whether there is anything in the directory.
#[allow(
    clippy::disallowed_methods,
    reason = "the door to the disk is made after the directory, which is made after this"
)]
fn has_data(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// The directory, made if missing: the disk is measured in it before the node opens it.
#[allow(clippy::disallowed_methods, reason = "there is no door to the disk yet: it is chosen by a measurement here")]
fn made(dir: &Path) -> Outcome<Option<PathBuf>> {
    fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(Some(dir.to_path_buf()))
}

fn listen_at(address: SocketAddr, option: &str) -> Outcome<TcpListener> {
    listener::listen(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => format!("; another server runs there: choose another with {option}"),
            _ => String::new(),
        };
        format!("cannot listen at {address}: {error}{hint}").into()
    })
}

/// Where clients connect.
#[derive(Default)]
struct Entrances {
    opened: Vec<Entrance>,
    /// The addresses that were asked for, each with its option.
    asked: Vec<(SocketAddr, &'static str)>,
}

impl Entrances {
    /// Opens a door at `listen`, and at the other address that `localhost` may mean; `option` has asked for it.
    fn open(&mut self, listen: SocketAddr, option: &'static str, of: impl Fn(TcpListener) -> Entrance) -> Outcome {
        let listener = listen_at(listen, option)?;
        let listen = listener.local_addr()?;
        self.opened.push(of(listener));
        self.opened.extend(listen_at_twin(listen).map(of));
        self.asked.push((listen, option));
        Ok(())
    }

    /// Checks that other machines may reach the doors. `are_known` says that clients with TLS must show a certificate
    /// (S1).
    fn check(&self, secrets: bool, are_known: bool, insecure: bool) -> Outcome {
        for &(listen, option) in &self.asked {
            address::check(listen, option, secrets || are_known && option == "tls_listen", insecure)?;
        }
        Ok(())
    }

    /// The address that `option` has asked for, for the log.
    fn address(&self, option: &str) -> Option<SocketAddr> {
        self.asked.iter().find(|(_, by)| *by == option).map(|(listen, _)| *listen)
    }
}

/// What to type to connect.
fn how_to_connect(address: SocketAddr, tls: bool) -> String {
    let tls = if tls { " --tls" } else { "" };
    format!("redis-cli{tls} -h {} -p {}", address.ip(), address.port())
}

/// Listens at `::1`, too: a client that connects to `localhost` may mean it (S1). There is no listener on a machine
/// without IPv6, or if another server has the port.
fn listen_at_twin(listen: SocketAddr) -> Option<TcpListener> {
    let twin = address::twin(listen)?;
    match listener::listen(twin) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::debug!(%error, "clients cannot connect to {twin}");
            None
        }
    }
}

/// What to do about a directory that does not open.
fn explain(config: &Config, error: &weir_io::Error) -> String {
    let dir = config.dir.display();
    match error.kind() {
        ErrorKind::Locked => {
            format!("{dir} is in use by another weir: stop it, or choose another with --dir ({error})")
        }
        ErrorKind::Corruption => {
            format!("{error}\n  nothing was changed; `weir check {dir}` shows everything that is wrong")
        }
        _ => error.to_string(),
    }
}

/// Files that are open beside connections: logs and tables of the partitions that are awake.
const FILES_BESIDE_CONNECTIONS: u64 = 256;

/// Starts the log on standard error, one line per event. `WEIR_LOG` chooses the events, `WEIR_LOG_FORMAT` their form:
/// `text` or `json`.
fn start_log() -> Outcome {
    let filter = match std::env::var("WEIR_LOG") {
        Err(std::env::VarError::NotPresent) => "info".to_owned(),
        Ok(text) if text.is_empty() => "info".to_owned(),
        Ok(text) => text,
        Err(error) => return Err(format!("WEIR_LOG: {error}").into()),
    };
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        format!("WEIR_LOG is \"{filter}\": {error}; it can be info, debug, warn, or weir_node=debug,info")
    })?;
    // The reader of the log may be gone: then nothing reports it, as the alternative is a panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match std::env::var("WEIR_LOG_FORMAT").as_deref() {
        Err(_) | Ok("" | "text") => log.with_ansi(std::io::stderr().is_terminal()).init(),
        Ok("json") => log.json().flatten_event(true).init(),
        Ok(other) => return Err(format!("WEIR_LOG_FORMAT is \"{other}\": it can be text or json").into()),
    }
    Ok(())
}

/// Raises the limit on open files as far as the system allows; gives the limit.
fn raise_file_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this is refused, the limit stays as it was, and getrlimit says so.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}
