//! The ledger against the simulated disk, to the byte: every class, every direction, every tenant, the node's own work
//! included.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::meter::{MeterFs, Metered, Seen, Whose};
use crate::opened::Opened;
use futures_util::future::join_all;
use weir_admission::{Booked, Direction};
use weir_io::sim::{DeviceSpec, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Class, Fs, Owner, Rng, Tag, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, NodeConfig, Partition, Tenant, TenantName, TenantSpec};

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

struct Day {
    fs: Arc<SimFs>,
    meter: Arc<MeterFs>,
    sim: Sim,
}

impl Day {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), DeviceSpec::shared(200_000_000), FaultPlan::none(), sim.rng());
        let meter = MeterFs::new(Arc::clone(&fs) as Arc<dyn Fs>);
        Self { fs, meter, sim }
    }

    fn open(&self, sync: SyncMode) -> Opened {
        let tree = TreeOptions {
            write_buffer_bytes: 16 << 10,
            l0_trigger: 2,
            level1_bytes: 32 << 10,
            level_factor: 2,
            table_bytes: 16 << 10,
            io_bytes: 8 << 10,
            ..TreeOptions::default()
        };
        let config =
            NodeConfig { tree, cache_bytes: 16 << 10, sync, segment_bytes: 64 << 10, ..NodeConfig::new("/weir") };
        let fs = Arc::clone(&self.meter) as Arc<dyn Fs>;
        let machine = Machine { fs, clock: self.sim.clock(), spawn: self.sim.spawner(), salt: 7 };
        self.sim.block_on(Opened::open(&config, machine)).expect("the node opens")
    }

    fn work(&self, partition: &Arc<Partition>) {
        self.sim.block_on(work(partition, self.sim.rng(), 4_000));
    }

    fn check(&self, node: &Opened, what: &str) {
        compare(&node.ledger().total(), &Class::ALL.map(|class| self.meter.seen(class)), what);
        for class in Class::ALL {
            let Metered { syncs, writes, reads, .. } = self.meter.seen(class);
            let name = class.name();
            // The meter itself stands in front of the same disk.
            assert_eq!(self.fs.count(class, OpKind::Read).ops, reads, "{what}: {name} reads of the disk");
            assert_eq!(self.fs.count(class, OpKind::Write).ops, writes, "{what}: {name} writes of the disk");
            let disk_syncs = self.fs.count(class, OpKind::Sync).ops + self.fs.count(class, OpKind::SyncDir).ops;
            assert_eq!(disk_syncs, syncs, "{what}: {name} syncs of the disk");
        }
    }
}

/// Writes, overwrites, deletes, reads and increments, until there are compactions of every kind.
async fn work(partition: &Arc<Partition>, mut rng: Rng, rounds: u64) {
    for round in 0..rounds {
        let key = format!("key{:05}", rng.below(900));
        let mut batch = Batch::new();
        match rng.below(10) {
            0 => batch.delete(key.as_bytes()),
            _ => batch.put(key.as_bytes(), &round.to_le_bytes().repeat(1 + rng.below(40) as usize)),
        }
        partition.write(&batch).await.expect("a write").await.expect("no faults");
        if round % 3 == 0 {
            partition.get(format!("key{:05}", rng.below(900)).as_bytes()).await.expect("a read");
        }
        if round % 500 == 0 {
            partition.page(b"", None, 50).await.expect("a page");
        }
    }
    partition.settle().await;
}

fn compare(booked: &Booked, seen: &Seen, what: &str) {
    for class in Class::ALL {
        let Metered { read, written, syncs, runs, reads, .. } = seen[class as usize];
        let (booked_read, booked_write) = (booked[(class, Direction::Read)], booked[(class, Direction::Write)]);
        let name = class.name();
        assert_eq!((booked_read.bytes, booked_read.ops), (read, reads), "{what}: {name} reads");
        assert_eq!((booked_write.bytes, booked_write.ops), (written, runs + syncs), "{what}: {name} writes");
    }
}

#[test]
fn every_byte_of_a_simulated_day_is_booked() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let day = Day::new(3);
        let node = day.open(sync);
        day.work(node.partition());
        day.sim.block_on(node.close()).expect("no faults");
        day.check(&node, &format!("{sync:?}"));
        let ledger = node.ledger().total();
        for class in [Class::Log, Class::Flush, Class::CompactL0, Class::CompactDeep, Class::Maintenance] {
            assert!(ledger[(class, Direction::Write)].bytes > 0, "{sync:?}: nothing written for {}", class.name());
        }
        assert!(ledger[(Class::Read, Direction::Read)].bytes > 0, "{sync:?}: the cache is too large for this test");
        let tenants = node.ledger().tenants();
        assert!(tenants[&Owner::default().tenant].total(Direction::Write).bytes > 0, "the node's own files");
        let user: u64 = tenants.values().map(|booked| booked.user(Direction::Write).ops).sum();
        assert_eq!(user, 4_000);
    }
}

#[test]
fn direct_bytes_are_what_the_disk_counted() {
    let day = Day::new(5);
    let node = day.open(SyncMode::Always);
    day.work(node.partition());
    let ledger = node.ledger().total();
    for class in [Class::Read, Class::CompactL0, Class::CompactDeep] {
        let disk = day.fs.count(class, OpKind::Read).bytes;
        assert_eq!(ledger[(class, Direction::Read)].bytes, disk, "{}", class.name());
    }
    assert_eq!(ledger[(Class::Log, Direction::Write)].bytes, day.fs.count(Class::Log, OpKind::Write).bytes);
}

/// Tenants side by side, and the owner that each partition has or had.
struct Town<'a> {
    day: &'a Day,
    node: &'a Opened,
    partitions: BTreeMap<u32, u32>,
    writes: BTreeMap<u32, u64>,
}

impl Town<'_> {
    async fn create(&mut self, name: &str, partitions: u16) -> Arc<Tenant> {
        let spec = TenantSpec { partitions, ..TenantSpec::new(tenant_name(name)) };
        self.node.create_tenant(spec).await.expect("created")
    }

    /// All of them write and read at the same time, `rounds` in each partition.
    async fn work(&mut self, tenants: &[&Arc<Tenant>], rounds: u64) {
        let mut all = Vec::new();
        for tenant in tenants {
            *self.writes.entry(tenant.id().0).or_default() += rounds * tenant.partitions().len() as u64;
            for slot in tenant.partitions() {
                let (partition, rng) = (slot.partition().await.expect("it wakes"), self.day.sim.rng());
                all.push(async move { work(&partition, rng, rounds).await });
            }
        }
        join_all(all).await;
    }

    /// Notes the owners of the partitions. To be called before that changes.
    fn note_partitions(&mut self) {
        for tenant in self.node.tenants() {
            let numbers = tenant.partitions().iter().map(|slot| (slot.owner().partition, tenant.id().0));
            self.partitions.extend(numbers);
        }
    }

    /// What the disk saw of each tenant. I/O that is neither in a partition nor in a backup is the node's own. I/O in a
    /// partition that never had an owner, because its restore failed, belongs to nobody.
    fn seen(&mut self) -> BTreeMap<u32, Seen> {
        self.note_partitions();
        let mut tenants: BTreeMap<u32, Seen> = BTreeMap::new();
        for (whose, seen) in self.day.meter.seen_of_each() {
            let tenant = match whose {
                Whose::Partition(number) => self.partitions.get(&number).copied(),
                Whose::Tenant(tenant) => Some(tenant),
            };
            if let Some(tenant) = tenant {
                let sum = tenants.entry(tenant).or_default();
                sum.iter_mut().zip(seen).for_each(|(sum, seen)| *sum += seen);
            }
        }
        tenants
    }

    /// Every tenant pays for what was done for it, and for nothing else; tenants that were dropped are in the total
    /// alone.
    fn check(&mut self, what: &str) {
        let (seen, booked) = (self.seen(), self.node.ledger().tenants());
        let there: Vec<u32> = self.node.tenants().iter().map(|tenant| tenant.id().0).chain([0]).collect();
        for tenant in &there {
            assert!(
                booked.contains_key(tenant) || !seen.contains_key(tenant),
                "{what}: tenant {tenant} has no account"
            );
        }
        for (tenant, booked) in booked {
            assert!(there.contains(&tenant), "{what}: there is no tenant {tenant}, and it has an account");
            let seen = seen.get(&tenant).copied().unwrap_or_default();
            compare(&booked, &seen, &format!("{what}: tenant {tenant}"));
            let writes = self.writes.get(&tenant).copied().unwrap_or_default();
            assert_eq!(booked.user(Direction::Write).ops, writes, "{what}: writes by users of tenant {tenant}");
        }
        self.day.check(self.node, what);
    }
}

fn tenant_name(name: &str) -> TenantName {
    TenantName::new(name).expect("a name")
}

async fn sleep(tenant: &Tenant) {
    for slot in tenant.partitions() {
        slot.sleep().await;
    }
}

async fn flip_a_bit(fs: &Arc<SimFs>, dir: &Path) {
    let names = fs.list(dir, TAG).await.expect("listed");
    let table = names.iter().find(|entry| entry.name.ends_with(".sst")).expect("a table");
    assert!(fs.flip_bit(dir.join(&table.name), table.len / 2, 3));
}

#[test]
fn every_byte_is_booked_to_the_tenant_it_was_moved_for() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let day = Day::new(11);
        let node = day.open(sync);
        let mut town = Town { day: &day, node: &node, partitions: BTreeMap::new(), writes: BTreeMap::new() };
        let clock = day.sim.clock();
        day.sim.block_on(async {
            let (a, b, c) = (town.create("a", 3).await, town.create("b", 1).await, town.create("c", 2).await);
            town.work(&[&a, &b, &c], 900).await;
            town.check("at work");
            sleep(&a).await;
            town.work(&[&b], 200).await;
            town.check("one asleep");
            town.work(&[&a, &c], 200).await;
            town.check("awake again");

            let (of_a, of_b) = (Path::new("/backups/a"), Path::new("/backups/b"));
            node.backup(&tenant_name("a"), of_a).await.expect("backed up");
            sleep(&b).await;
            node.backup(&tenant_name("b"), of_b).await.expect("backed up");
            town.check("backed up");
            let d = node.restore(of_a, tenant_name("d"), None).await.expect("restored");
            town.check("restored");
            town.work(&[&d, &b], 300).await;
            town.check("at work on what was restored");

            town.note_partitions();
            node.clear_tenant(&tenant_name("c")).await.expect("emptied");
            town.work(&[&c, &a], 200).await;
            town.check("emptied");
            town.note_partitions();
            node.drop_tenant(&tenant_name("a")).await.expect("dropped");
            town.work(&[&b, &c], 200).await;
            let e = node.restore(of_b, tenant_name("a"), None).await.expect("restored");
            town.work(&[&e], 200).await;
            town.check("dropped, and another of its name");

            flip_a_bit(&day.fs, &of_a.join("partition-001")).await;
            assert!(node.restore(of_a, tenant_name("f"), None).await.is_err());
            town.check("nothing of a restore that failed but the total");
            for tenant in [&b, &c, &d, &e] {
                sleep(tenant).await;
            }
            sleep_until(&clock, clock.now() + 5_000_000_000).await;
            town.check("all asleep");
            let classes = [Class::Log, Class::Flush, Class::CompactL0, Class::Maintenance];
            for (tenant, class) in [&b, &c, &d, &e].into_iter().flat_map(|tenant| classes.map(|class| (tenant, class)))
            {
                let booked = &node.ledger().tenants()[&tenant.id().0];
                assert!(booked[(class, Direction::Write)].ops > 0, "{}: no {}", tenant.name(), class.name());
            }
        });
    }
}
