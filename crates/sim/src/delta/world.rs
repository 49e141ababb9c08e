//! What the scenarios have in common: a machine, and settings under which nothing is compacted.

use weir_admission::{Limits, UNLIMITED, cost};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Nanos, PAGE};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{Bandwidth, Machine, NodeConfig, Profile};

pub(super) const SECOND: Nanos = 1_000_000_000;
pub(super) const MB: u64 = 1_000_000;

/// A machine whose disk starts as `image`, on a device that moves `bytes_per_sec` and reads by the page.
pub(super) fn machine(sim: &Sim, image: &DiskImage, bytes_per_sec: u64, seed: u64) -> Machine {
    let device = DeviceSpec { sector_bytes: PAGE, ..DeviceSpec::shared(bytes_per_sec) };
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: seed }
}

/// Trees with memtables of `memtable` bytes. Compactions are not what this is about, and never due.
pub(super) fn tree(memtable: u64) -> TreeOptions {
    let never = 1 << 30;
    TreeOptions {
        write_buffer_bytes: memtable as usize,
        flush_memtables_max: 1,
        l0_trigger: never,
        l0_gather: never,
        l0_slow: never,
        l0_stop: never,
        io_bytes: 64 << 10,
        warm_levels: 0,
        ..TreeOptions::default()
    }
}

/// A node with `tree` on a device that moves `bytes_per_sec`, all of which the gate hands out.
pub(super) fn config(tree: TreeOptions, bytes_per_sec: u64) -> NodeConfig {
    let device = Limits::bytes(bytes_per_sec);
    NodeConfig {
        tree,
        cache_bytes: 1 << 20,
        sync: SyncMode::Interval,
        segment_bytes: 8 << 20,
        profile: Profile::Node,
        bandwidth: Some(Bandwidth { device, capacity: cost::Capacity::default(), background: UNLIMITED }),
        ..NodeConfig::new("/weir")
    }
}

/// In milliseconds.
pub(super) fn ms(nanos: Nanos) -> f64 {
    nanos as f64 / 1e6
}
