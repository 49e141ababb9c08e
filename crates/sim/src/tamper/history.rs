//! The history of a node's directory, from a seed: tenants of every kind, several lives, images of earlier moments.

use std::sync::Arc;

use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{BoxFuture, Clock, Fs, Result, Rng, sleep_until};
use weir_log::SyncMode;
use weir_model::{Batch, Change, TenantName};
use weir_node::{EngineKind, Machine, Node, NodeConfig, Tenant, TenantSpec};

use super::belief::{Belief, Shard, Stop};
use super::read::{Depth, read_tenant};
use crate::engines::Engines;
use crate::node_store::small_on;
use crate::workload::{Mix, Workload};

/// The node's directory on the simulated disk.
pub const DIR: &str = "weir";
/// Where its backups go.
const BACKUPS: &str = "/backups";

/// The wall clock moves this far between the end of a process and the next start, in milliseconds: by then every short
/// deadline has passed.
const PAUSE_MS: u64 = 10_000;
/// Deadlines lie this far in the future, in milliseconds: they have passed when the directory is read, or are far off.
const DEADLINES_MS: [u64; 2] = [1_500, 3_600_000];
/// A recovery that takes longer than this hangs, in virtual nanoseconds.
pub const TIME_LIMIT: u64 = 600_000_000_000;

/// A directory at its end, with what must be in it.
pub struct History {
    /// How its nodes were and are opened.
    pub config: NodeConfig,
    /// The disk.
    pub image: DiskImage,
    /// The disk at earlier moments, the oldest first.
    pub earlier: Vec<DiskImage>,
    /// Its tenants.
    pub tenants: Vec<Belief>,
    /// What `check` complained of when the untouched directory was looked at, with the story of the directory's lives.
    pub alarms: Vec<String>,
    /// How the last process ended.
    pub stop: Stop,
    /// The wall clock when the directory is looked at.
    pub unix_ms: u64,
}

/// A machine on `image`.
pub struct World {
    /// Time and tasks.
    pub sim: Sim,
    /// The disk.
    pub disk: Arc<SimFs>,
}

impl World {
    /// A machine with `image` in it, at `unix_ms`.
    pub fn new(seed: u64, image: &DiskImage, unix_ms: u64) -> Self {
        let sim = Sim::new(seed);
        sim.set_unix_ms(unix_ms);
        sim.set_time_limit(TIME_LIMIT);
        let disk = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(seed));
        Self { sim, disk }
    }

    /// The disk as its users see it.
    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.disk) as Arc<dyn Fs>
    }

    /// What a node needs.
    pub fn machine(&self, salt: u64) -> Machine {
        Machine { fs: self.fs(), clock: self.sim.clock(), spawn: self.sim.spawner(), salt }
    }
}

/// Sleeps `ms` of virtual time.
pub async fn pause(clock: &Arc<dyn Clock>, ms: u64) {
    sleep_until(clock, clock.now() + ms * 1_000_000).await;
}

impl History {
    /// Makes the history of `seed`, whose tenants are on `engines`.
    ///
    /// # Errors
    /// Something went wrong without any tampering: a bug in Weir, or one in this harness.
    pub fn new(seed: u64, engines: &Engines) -> std::result::Result<Self, String> {
        let mut rng = Rng::new(seed);
        let sync = [SyncMode::Always, SyncMode::Interval, SyncMode::None][(seed % 3) as usize];
        let config = config(engines.of(0), sync);
        let (tenants, earlier, alarms) = (Vec::new(), Vec::new(), Vec::new());
        let mut unix_ms = 1_767_225_600_000;
        let mut history =
            Self { config, image: DiskImage::new(), earlier, tenants, alarms, stop: Stop::Closed, unix_ms };
        let lives = 1 + rng.below(3);
        for life in 0..lives {
            let stop = [Stop::Closed, Stop::Killed, Stop::PowerCut][rng.below(3) as usize];
            if life > 0 {
                history.earlier.push(history.image.clone());
            }
            let world = World::new(rng.next_u64(), &history.image, unix_ms);
            let salt = rng.next_u64();
            let node_rng = rng.fork("life");
            let mut process = Process::new(&mut history, &world, engines, node_rng);
            world.sim.block_on(process.live(life, stop, salt)).map_err(|error| format!("life {life}: {error}"))?;
            let (earlier, in_flight) = (process.earlier, process.in_flight);
            let keep = match stop {
                Stop::Closed if rng.chance(0.5) => Keep::All,
                Stop::Killed => Keep::All,
                _ => [Keep::Random, Keep::None, Keep::Prefix][rng.below(3) as usize],
            };
            history.earlier.extend(earlier);
            history.image = world.disk.crash_keeping(keep, &mut rng);
            drop(in_flight);
            history.stop = stop;
            unix_ms = world.sim.clock().unix_ms() + PAUSE_MS;
            history.unix_ms = unix_ms;
            let now = world.sim.now();
            drop(world);
            history.settle(now, rng.next_u64()).map_err(|story| format!("life {life}: {story}"))?;
        }
        Ok(history)
    }

    /// Looks at what the last life left, without tampering: every partition must show what it may show.
    fn settle(&mut self, now: u64, seed: u64) -> std::result::Result<(), String> {
        let world = World::new(seed, &self.image, self.unix_ms);
        let (sync, stop, unix_ms) = (self.config.sync, self.stop, self.unix_ms);
        let (tenants, alarms) = (&mut self.tenants, &mut self.alarms);
        world.sim.block_on(async {
            let fs = world.fs();
            let checked = weir_node::check(&fs, DIR.as_ref(), |_, _| ()).await;
            let checked = checked.map_err(|error| format!("check of an untouched directory: {error}"))?;
            alarms.extend(
                checked.all_problems().map(|problem| format!("after {}, sync {}: {problem}", stop.name(), sync.name())),
            );
            let node = Node::open(&self.config, world.machine(seed)).await;
            let node = node.map_err(|error| format!("an untouched directory: {error}"))?;
            for belief in tenants {
                let tenant = node.tenant(&belief.name).ok_or_else(|| format!("{} is gone", belief.name))?;
                let reads = read_tenant(&tenant, &belief.shards, |_| Depth::Whole).await;
                for (shard, read) in belief.shards.iter_mut().zip(reads) {
                    if let Some(complaint) = read.complaints.first() {
                        return Err(format!("an untouched directory: {complaint}"));
                    }
                    let dir = partition_dir(shard.number);
                    let persisted = checked.partitions.iter().find(|found| found.dir.as_os_str() == dir.as_str());
                    let persisted = persisted.map_or(0, |found| found.tree.persisted);
                    let promised = shard.promised(sync, stop, now);
                    let durable = shard.known_durable(sync, stop, now, persisted);
                    let before = shard.model.clone();
                    let cut = shard.model.settle(&read.visible, promised, unix_ms);
                    let cut = cut.map_err(|mismatch| format!("partition {}: {mismatch}", shard.number))?;
                    // A partition that nobody has opened in this life is as the life before left it, and nothing more
                    // is known of it.
                    if shard.base.is_some() || shard.accepted.is_empty() {
                        // A copy of the log from before a power cut may have more than the cut has left.
                        let may_be = (durable.min(cut)..=before.sent()).filter(|&sent| sent != cut).chain([cut]);
                        shard.accepted = may_be.map(|sent| before.when_sent(sent).present().clone()).collect();
                    }
                    shard.new_life();
                }
            }
            Ok(())
        })
    }
}

/// Where partition `number` is, from the root of the simulated disk.
pub fn partition_dir(number: u32) -> String {
    format!("{DIR}/partitions/{number:06}")
}

/// Sizes of kilobytes, so that each partition has several of every kind of file.
fn config(engine: EngineKind, sync: SyncMode) -> NodeConfig {
    let mut config = NodeConfig { dir: DIR.into(), ..small_on(engine, sync) };
    config.tree.write_buffer_bytes = 4 << 10;
    config.store.snapshot_log_bytes = 4 << 10;
    config.tree.l0_trigger = 3;
    config
}

/// One life of the node.
struct Process<'a> {
    history: &'a mut History,
    world: &'a World,
    engines: &'a Engines,
    rng: Rng,
    workload: Workload,
    clock: Arc<dyn Clock>,
    earlier: Vec<DiskImage>,
    /// Commits that nobody waits for when the process ends.
    in_flight: Vec<BoxFuture<Result<()>>>,
}

impl<'a> Process<'a> {
    fn new(history: &'a mut History, world: &'a World, engines: &'a Engines, mut rng: Rng) -> Self {
        let mix = Mix { keys: 24, value_bytes_max: 700, expiry: false };
        let workload = Workload::new(rng.fork("workload"), mix);
        let (clock, earlier, in_flight) = (world.sim.clock(), Vec::new(), Vec::new());
        Self { history, world, engines, rng, workload, clock, earlier, in_flight }
    }

    async fn live(&mut self, life: u64, stop: Stop, salt: u64) -> Result<()> {
        let node = Node::open(&self.history.config, self.world.machine(salt)).await?;
        if life == 0 {
            self.settle_in(&node).await?;
        } else {
            // The other tenants stay asleep through this life.
            let stay = 1 + self.rng.below(3) as usize;
            for index in 0..self.history.tenants.len() {
                if self.history.tenants[index].used && self.rng.below(3) < stay as u64 {
                    let count = self.rng.below(60);
                    self.use_tenant(&node, index, count).await?;
                }
            }
            self.change_something(&node).await?;
        }
        // Either waits until everything so far is durable for certain, or the end comes in the middle.
        if self.rng.chance(0.7) {
            pause(&self.clock, 2_500).await;
        }
        if stop != Stop::Closed && self.rng.chance(0.7) {
            let count = self.rng.below(12);
            let index = self.rng.below(self.history.tenants.len() as u64) as usize;
            if self.history.tenants[index].used {
                self.write_on(&node, index, count).await?;
            }
        }
        if stop == Stop::Closed {
            node.close().await?;
        }
        Ok(())
    }

    /// The first life: tenants of every kind.
    async fn settle_in(&mut self, node: &Node) -> Result<()> {
        self.believe(node, TenantName::built_in(), true);
        for (name, partitions) in
            [("unused", 1), ("asleep", 1), ("wide", 3), ("emptied", 2), ("dropped", 1), ("shop", 1)]
        {
            let name = TenantName::new(name).expect("a fine name");
            let engine = self.engines.of(self.history.tenants.len());
            let spec = TenantSpec { partitions, engine, ..TenantSpec::new(name.clone()) };
            node.create_tenant(spec).await?;
            let used = name.as_str() != "unused";
            self.believe(node, name, used);
        }
        self.look();
        for index in 0..self.history.tenants.len() {
            if self.history.tenants[index].used {
                let count = 20 + self.rng.below(60);
                self.use_tenant(node, index, count).await?;
            }
        }
        self.look();
        self.change_something(node).await?;
        self.clear(node, "emptied").await?;
        self.restore(node, "shop", "restored").await?;
        self.drop_tenant(node, "dropped").await?;
        self.look();
        for name in ["shop", "wide", "emptied", "default"] {
            let index = self.index_of(name);
            let count = self.rng.below(40);
            self.use_tenant(node, index, count).await?;
        }
        for name in ["asleep", "wide"] {
            self.sleep(node, name).await;
        }
        if self.rng.chance(0.5) {
            self.restore(node, "wide", "untouched").await?;
        }
        Ok(())
    }

    fn index_of(&self, name: &str) -> usize {
        let found = self.history.tenants.iter().position(|belief| belief.name.as_str() == name);
        found.expect("it was created in the first life")
    }

    fn believe(&mut self, node: &Node, name: TenantName, used: bool) {
        let tenant = node.tenant(&name).expect("just created");
        let shards = tenant.partitions().iter().map(|slot| Shard::new(slot.owner().partition)).collect();
        self.history.tenants.push(Belief { name, disk_bytes_max: 0, shards, used });
    }

    /// Remembers the present contents of the disk, so that a tampering can put them back later.
    fn look(&mut self) {
        self.earlier.push(self.world.disk.crash_keeping(Keep::All, &mut self.rng));
    }

    async fn change_something(&mut self, node: &Node) -> Result<()> {
        for index in 0..self.history.tenants.len() {
            if self.rng.chance(0.3) {
                let bytes = (1 << 40) + self.rng.below(1 << 20);
                let name = self.history.tenants[index].name.clone();
                let change = move |settings: &mut weir_node::TenantSettings| {
                    settings.disk_bytes_max = bytes;
                    Ok::<(), weir_io::Error>(())
                };
                node.alter_tenant(&name, change).await?;
                self.history.tenants[index].disk_bytes_max = bytes;
            }
        }
        Ok(())
    }

    /// `count` writes, with sleeps of the partition, flushes and reads in between.
    async fn use_tenant(&mut self, node: &Node, index: usize, count: u64) -> Result<()> {
        for _ in 0..count {
            self.write(node, index, true).await?;
            match self.rng.below(60) {
                0 => self.look(),
                1 => pause(&self.clock, 1 + self.rng.below(400)).await,
                2 => {
                    let name = self.history.tenants[index].name.clone();
                    self.sleep(node, name.as_str()).await;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `count` writes whose acknowledgements nobody waits for.
    async fn write_on(&mut self, node: &Node, index: usize, count: u64) -> Result<()> {
        for _ in 0..count {
            self.write(node, index, false).await?;
        }
        Ok(())
    }

    async fn write(&mut self, node: &Node, index: usize, wait: bool) -> Result<()> {
        let tenant = self.tenant(node, index);
        let place = self.rng.below(tenant.partitions().len() as u64) as usize;
        let partition = tenant.partitions()[place].partition().await?;
        let batch = self.batch(index);
        let shard = &mut self.history.tenants[index].shards[place];
        if shard.base.is_none() {
            shard.base = Some(partition.recovery().last);
        }
        let commit = partition.write(&batch).await?;
        shard.send(batch);
        if wait {
            commit.await?;
            shard.acknowledge(self.clock.now());
        } else {
            self.in_flight.push(Box::pin(commit));
        }
        Ok(())
    }

    /// Every value says to which partition it belongs and when it was written, so that no foreign value can pass for
    /// it.
    fn batch(&mut self, index: usize) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..1 + self.rng.below(2) {
            let key = self.workload.key();
            if self.rng.chance(0.2) {
                batch.delete(&key);
                continue;
            }
            let mut value = format!("{}@{}:", self.history.tenants[index].name, self.clock.unix_ms()).into_bytes();
            value.extend(self.workload.value());
            let deadline = DEADLINES_MS[self.rng.below(2) as usize];
            let expire_at_ms = self.rng.chance(0.15).then(|| self.clock.unix_ms() + deadline);
            batch.push(Change::Put { key: &key, value: &value, expire_at_ms });
        }
        batch
    }

    fn tenant(&self, node: &Node, index: usize) -> Arc<Tenant> {
        node.tenant(&self.history.tenants[index].name).expect("believed to be there")
    }

    async fn sleep(&mut self, node: &Node, name: &str) {
        let index = self.index_of(name);
        for slot in self.tenant(node, index).partitions() {
            slot.sleep().await;
        }
    }

    async fn clear(&mut self, node: &Node, name: &str) -> Result<()> {
        let index = self.index_of(name);
        let tenant = self.tenant(node, index);
        node.clear_tenant(tenant.name()).await?;
        let shards = tenant.partitions().iter().map(|slot| Shard::new(slot.owner().partition)).collect();
        self.history.tenants[index].shards = shards;
        Ok(())
    }

    async fn drop_tenant(&mut self, node: &Node, name: &str) -> Result<()> {
        let belief = self.history.tenants.remove(self.index_of(name));
        node.drop_tenant(&belief.name).await?;
        Ok(())
    }

    async fn restore(&mut self, node: &Node, from: &str, to: &str) -> Result<()> {
        let from = self.index_of(from);
        let (source, name) = (self.tenant(node, from), TenantName::new(to).expect("a fine name"));
        let dir = std::path::Path::new(BACKUPS).join(to);
        node.backup(source.name(), &dir).await?;
        let restored = node.restore(&dir, name.clone(), None).await?;
        let belief = &self.history.tenants[from];
        let numbers = restored.partitions().iter().map(|slot| slot.owner().partition);
        let shards = belief.shards.iter().zip(numbers).map(|(shard, number)| shard.restored(number)).collect();
        let disk_bytes_max = belief.disk_bytes_max;
        self.history.tenants.push(Belief { name, disk_bytes_max, shards, used: to != "untouched" });
        Ok(())
    }
}
