//! What the scenarios have in common: a machine, and settings under which no compaction is due.

use weir_admission::{Limits, Rates, UNLIMITED, cost};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Nanos, PAGE};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{Bandwidth, Machine, NodeConfig, Profile};

pub(super) const SECOND: Nanos = 1_000_000_000;
pub(super) const MB: u64 = 1_000_000;

/// A device, in bytes a second. It reads by the page.
#[derive(Clone, Copy)]
pub(super) enum Device {
    /// Reads and writes together.
    Shared(u64),
    /// Reads and writes each with a limit of their own, as in the paper: flushes do not wait behind readers who use all
    /// of the device.
    Split { read: u64, write: u64 },
}

impl Device {
    fn spec(self) -> DeviceSpec {
        match self {
            Device::Shared(bytes_per_sec) => DeviceSpec { sector_bytes: PAGE, ..DeviceSpec::shared(bytes_per_sec) },
            // Enough slots that reads in flight leave some to writes.
            Device::Split { read, write } => {
                let spec = DeviceSpec { sector_bytes: PAGE, ..DeviceSpec::shared(read) };
                DeviceSpec { shared: false, write_bytes_per_sec: write, parallelism: 1 << 16, ..spec }
            }
        }
    }

    /// All the bandwidth of the device.
    fn limits(self) -> Limits {
        match self {
            Device::Shared(bytes_per_sec) => Limits::bytes(bytes_per_sec),
            Device::Split { read, write } => Limits::Split { read: Rates::bytes(read), write: Rates::bytes(write) },
        }
    }
}

/// A machine whose disk starts as `image`, on `device`.
pub(super) fn machine(sim: &Sim, image: &DiskImage, device: Device, seed: u64) -> Machine {
    let device = device.spec();
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: seed }
}

/// Trees with memtables of `memtable` bytes. Compactions are not the subject here, and never due.
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

/// A node with `tree` on `device`, whose gate hands out all of the device.
pub(super) fn config(tree: TreeOptions, device: Device) -> NodeConfig {
    let device = device.limits();
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
