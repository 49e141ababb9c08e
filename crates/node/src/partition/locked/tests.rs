//! What happens inside the order lock, and what does not.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::Weak;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs};

use super::*;
use crate::config::{Machine, NodeConfig};
use crate::node::Node;

/// Notes whether the order lock of a partition is held when its data is read from the device.
#[derive(Default)]
struct Seen {
    partition: OnceLock<Weak<Partition>>,
    reads: AtomicU64,
    in_order: AtomicU64,
}

struct WatchedFs {
    inner: Arc<dyn Fs>,
    seen: Arc<Seen>,
}

struct WatchedFile {
    inner: Arc<dyn File>,
    seen: Arc<Seen>,
}

impl Fs for WatchedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (opened, seen) = (self.inner.open(path, options, tag), Arc::clone(&self.seen));
        Op::pending(async move { Ok(Arc::new(WatchedFile { inner: opened.await?, seen }) as Arc<dyn File>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, lock);
}

impl File for WatchedFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        if tag.class == Class::Read
            && let Some(partition) = self.seen.partition.get().and_then(Weak::upgrade)
        {
            self.seen.reads.fetch_add(1, Ordering::Relaxed);
            let is_held = partition.order.try_lock().is_none();
            self.seen.in_order.fetch_add(u64::from(is_held), Ordering::Relaxed);
        }
        self.inner.read_at(offset, buf, tag)
    }

    forward_file!(inner: write_at, allocate, set_len, len, data_end, is_direct, read_unit, sync, sync_begins);
}

#[test]
fn the_device_is_not_asked_inside_the_order_lock() {
    let (sim, seen) = (Sim::new(1), Arc::<Seen>::default());
    let inner = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let fs = Arc::new(WatchedFs { inner, seen: Arc::clone(&seen) });
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    let config = NodeConfig { cache_bytes: 0, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    let sums: Vec<u8> = sim.block_on(async {
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        assert!(seen.partition.set(Arc::downgrade(&partition)).is_ok());
        let mut sums = Vec::new();
        for round in 0..3 {
            let change = |rows: &[Option<Row>], batch: &mut Batch| {
                let sum = rows[0].as_ref().map_or(0, |row| row.value().expect("a string")[0]) + 1;
                batch.put(b"counter", &[sum]);
                sum
            };
            let (sum, commit) = partition.update(&[b"counter"], change).await.expect("no faults");
            commit.expect("it has written").await.expect("no faults");
            sums.push(sum);
            // From here on it is in a table only, and nothing is cached.
            partition.seal();
            partition.settle().await;
            assert!(round == 0 || seen.reads.load(Ordering::Relaxed) > 0, "it was read from the device");
        }
        sums
    });
    assert_eq!(sums, [1, 2, 3]);
    assert_eq!(seen.in_order.load(Ordering::Relaxed), 0);
}
