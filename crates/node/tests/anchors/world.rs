//! A simulated machine with a node, and what somebody sees of its tenants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Clock, Fs, OpenOptions, Owner, Result, Tag, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, TenantName, TenantSettings};

pub const DIR: &str = "/weir";
pub const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// For each tenant its limit, and the value of `key` in each of its partitions.
pub type Tenants = BTreeMap<String, (u64, Vec<Option<Vec<u8>>>)>;

pub struct World {
    pub sim: Sim,
    pub fs: Arc<SimFs>,
}

impl World {
    pub fn new(seed: u64, image: &DiskImage) -> Self {
        let sim = Sim::new(seed);
        let fs = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        Self { sim, fs }
    }

    pub fn disk(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.fs) as Arc<dyn Fs>
    }

    pub async fn open(&self) -> Result<Node> {
        let tree = TreeOptions { write_buffer_bytes: 16 << 10, ..TreeOptions::default() };
        let sync = SyncMode::Always;
        let config = NodeConfig { tree, cache_bytes: 32 << 10, sync, segment_bytes: 16 << 10, ..NodeConfig::new(DIR) };
        let salt = self.sim.rng().next_u64();
        Node::open(&config, Machine { fs: self.disk(), clock: self.sim.clock(), spawn: self.sim.spawner(), salt }).await
    }

    /// Ends a node in good order, and waits until the directory is free again.
    pub async fn close(&self, node: Node) {
        node.close().await.expect("closed");
        drop(node);
        self.rest().await;
    }

    /// Waits until background work has ended.
    pub async fn rest(&self) {
        let clock: Arc<dyn Clock> = self.sim.clock();
        sleep_until(&clock, clock.now() + 1_000_000_000).await;
    }

    /// The problems that `weir check` finds.
    pub async fn problems(&self) -> Vec<String> {
        let found = weir_node::check(&self.disk(), Path::new(DIR), |_, _| {}).await.expect("it can be checked");
        found.all_problems().map(ToString::to_string).collect()
    }

    /// The bytes of a file; `None` if it does not exist.
    pub async fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.fs.open(path, OpenOptions::read_buffered(), TAG).await.ok()?;
        let length = file.len().await.expect("a length") as usize;
        Some(file.read_at(0, AlignedBuf::with_len(length), TAG).await.expect("a read").to_vec())
    }

    /// Puts `bytes` in the place of the file, or removes it.
    pub async fn replace(&self, path: &Path, bytes: Option<&[u8]>) {
        let _ = self.fs.remove(path, TAG).await;
        if let Some(bytes) = bytes {
            self.fs.create_dir_all(path.parent().expect("a parent"), TAG).await.expect("made");
            let file = self.fs.open(path, OpenOptions::create_new_buffered(), TAG).await.expect("made");
            file.write_at(0, AlignedBuf::copy_of(bytes), TAG).await.expect("written");
        }
    }

    /// Every file below the directory, with its bytes.
    pub async fn files(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut dirs) = (BTreeMap::new(), vec![Path::new(DIR).join(below)]);
        while let Some(dir) = dirs.pop() {
            for entry in self.fs.list(&dir, TAG).await.unwrap_or_default() {
                let path = dir.join(entry.name);
                match entry.is_dir {
                    true => dirs.push(path),
                    false => drop(files.insert(path.clone(), self.read(&path).await.expect("there"))),
                }
            }
        }
        files
    }
}

pub fn name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

pub fn settings(disk_bytes_max: u64) -> TenantSettings {
    TenantSettings { disk_bytes_max, ..TenantSettings::default() }
}

/// Writes `key` into every partition of `tenant`.
pub async fn write(node: &Node, tenant: &str, value: &[u8]) -> Result<()> {
    let tenant = node.tenant(&name(tenant)).expect("it is there");
    for slot in tenant.partitions() {
        let mut batch = Batch::new();
        batch.put(b"key", value);
        slot.partition().await?.write(&batch).await?.await?;
    }
    Ok(())
}

/// The tenants that there are; those in `asleep` are not touched.
pub async fn see(node: &Node, asleep: &[&str]) -> Result<Tenants> {
    let mut seen = Tenants::new();
    for tenant in node.tenants() {
        let mut values = Vec::new();
        if !asleep.contains(&tenant.name().as_str()) {
            for slot in tenant.partitions() {
                let record = slot.partition().await?.get(b"key").await?;
                values.push(record.map(|record| record.value().expect("a string").to_vec()));
            }
        }
        seen.insert(tenant.name().to_string(), (tenant.settings().disk_bytes_max, values));
    }
    Ok(seen)
}
