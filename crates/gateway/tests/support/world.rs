//! A gateway in front of a real node.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_gateway::Settings;
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::auth::{NodeTenants, Secrets, secret};
use weir_io::real::{RealClock, RealFs, RealFsOptions, RealSpawn, block_on};
use weir_io::sim::{DeviceSpec, FaultPlan, SimFs};
use weir_io::{Clock, Fs, Rng};
use weir_node::{EngineKind, Machine, Node, NodeConfig, StoredSecret, TenantName, TenantSettings, TenantSpec};

use super::{Client, Served};

/// The secret of every tenant, as Weir generates it: to check one that somebody chose takes tens of milliseconds.
pub const TOKEN: &[u8] = b"weir_0707070707070707070707070707070707070707";

/// A node in a directory of its own, and a gateway in front of it.
pub struct World {
    served: Option<Served>,
    pub node: Arc<Node>,
    dir: PathBuf,
}

fn fresh_dir() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("world-{}-{number}", std::process::id()))
}

fn config(dir: PathBuf) -> NodeConfig {
    let mut config = NodeConfig { segment_bytes: 1 << 20, cache_bytes: 1 << 20, ..NodeConfig::new(dir) };
    (config.tree.write_buffer_bytes, config.tree.table_bytes) = (64 << 10, 64 << 10);
    config
}

pub fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

/// [`TOKEN`] in its stored form.
pub fn secret() -> StoredSecret {
    let (token, stored) = secret::generate(&mut |random| random.fill(7));
    assert_eq!(token.as_bytes(), TOKEN);
    StoredSecret::new(stored)
}

impl World {
    fn open(dir: PathBuf) -> Self {
        Self::open_at(config(dir), RealClock::new(), Settings { threads: 2, ..Settings::default() })
    }

    fn open_at(config: NodeConfig, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self::open_on(RealFs::new(RealFsOptions::default()), config, clock, settings)
    }

    fn open_on(fs: Arc<dyn Fs>, config: NodeConfig, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let machine = Machine { fs, clock: clock.clone(), spawn: Arc::new(RealSpawn::new(1, 0)), salt: 1 };
        let node = Arc::new(block_on(Node::open(&config, machine)).expect("the node opens"));
        let slow = SlowHash::new(Arc::new(RealSpawn::new(1, 0)));
        let tenants = NodeTenants::new(Arc::clone(&node));
        let doorman = Secrets::new(tenants, clock.clone(), slow, false).expect("random bytes");
        Self { served: Some(Served::start(settings, Arc::new(doorman), clock)), node, dir: config.dir }
    }

    pub fn new() -> Self {
        Self::open(fresh_dir())
    }

    /// A world on a disk of its own, which can be told to fail.
    pub fn on_simulated_disk() -> (Self, Arc<SimFs>) {
        let clock = RealClock::new();
        let disk = SimFs::new(clock.clone(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(1));
        let settings = Settings { threads: 2, ..Settings::default() };
        (Self::open_on(disk.clone(), config(fresh_dir()), clock, settings), disk)
    }

    /// A world in the time of `clock`.
    pub fn new_at(clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self::open_at(config(fresh_dir()), clock, settings)
    }

    /// A world with this many bytes for all memtables.
    pub fn with_write_memory(write_memory_bytes: u64) -> Self {
        let config = NodeConfig { write_memory_bytes, ..config(fresh_dir()) };
        Self::open_at(config, RealClock::new(), Settings { threads: 2, ..Settings::default() })
    }

    /// A new tenant, and a connection of its own.
    pub fn tenant(&self, tenant: &str, partitions: u16, disk_bytes_max: u64) -> Client {
        self.tenant_on(EngineKind::default(), tenant, partitions, disk_bytes_max)
    }

    /// The same, with its rows kept as `engine` says.
    pub fn tenant_on(&self, engine: EngineKind, tenant: &str, partitions: u16, disk_bytes_max: u64) -> Client {
        let settings = TenantSettings { secret: Some(self::secret()), disk_bytes_max, ..TenantSettings::default() };
        let spec = TenantSpec { partitions, engine, settings, ..TenantSpec::new(name(tenant)) };
        block_on(self.node.create_tenant(spec)).expect("created");
        self.connect(tenant)
    }

    /// A connection that has not logged in.
    pub fn stranger(&self) -> Client {
        self.served.as_ref().expect("serving").connect()
    }

    pub fn connect(&self, tenant: &str) -> Client {
        let mut client = self.stranger();
        assert_eq!(client.ask(&[b"AUTH", tenant.as_bytes(), TOKEN]), b"+OK\r\n");
        client
    }

    /// What a scrape of the metrics shows.
    pub fn metrics(&self) -> String {
        self.served.as_ref().expect("serving").metrics(&self.node)
    }

    /// A backup of `tenant`, in a directory beside its own.
    pub fn backup(&self, tenant: &str) -> PathBuf {
        let to = self.dir.with_extension("backup");
        block_on(self.node.backup(&name(tenant), &to)).expect("backed up");
        to
    }

    /// Ends the node, and begins again with what is on disk.
    pub fn again(mut self) -> Self {
        drop(self.served.take());
        block_on(self.node.close()).expect("closed");
        let dir = std::mem::take(&mut self.dir);
        drop(self);
        Self::open(dir)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.served.take());
        if self.dir.as_os_str().is_empty() || std::thread::panicking() {
            return;
        }
        block_on(self.node.close()).expect("closed");
        // What stays behind is below `target`.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
