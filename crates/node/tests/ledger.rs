//! The ledger against the simulated disk, to the byte: every class, every direction, the node's own work included.

mod meter;
mod opened;

use std::sync::Arc;

use meter::{MeterFs, Metered};
use opened::Opened;
use weir_admission::Direction;
use weir_io::sim::{DeviceSpec, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Class, Fs, Owner};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_node::{Machine, NodeConfig, Partition};

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

    /// Writes, overwrites, deletes, reads and increments, until there are compactions of every kind.
    fn work(&self, partition: &Arc<Partition>) {
        let mut rng = self.sim.rng();
        self.sim.block_on(async {
            for round in 0..4_000u64 {
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
        });
    }

    fn check(&self, node: &Opened, what: &str) {
        let ledger = node.ledger().total();
        for class in Class::ALL {
            let Metered { read, written, syncs, writes, reads } = self.meter.seen(class);
            let (booked_read, booked_write) = (ledger[(class, Direction::Read)], ledger[(class, Direction::Write)]);
            let name = class.name();
            assert_eq!((booked_read.bytes, booked_read.ops), (read, reads), "{what}: {name} reads");
            assert_eq!((booked_write.bytes, booked_write.ops), (written, writes + syncs), "{what}: {name} writes");
            // The meter itself stands in front of the same disk.
            assert_eq!(self.fs.count(class, OpKind::Read).ops, reads, "{what}: {name} reads of the disk");
            assert_eq!(self.fs.count(class, OpKind::Write).ops, writes, "{what}: {name} writes of the disk");
            let disk_syncs = self.fs.count(class, OpKind::Sync).ops + self.fs.count(class, OpKind::SyncDir).ops;
            assert_eq!(disk_syncs, syncs, "{what}: {name} syncs of the disk");
        }
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
