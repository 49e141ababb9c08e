//! Tenants on a full disk.

use weir_log::SyncMode;
use weir_sim::runner::{Plan, run};
use weir_sim::tenants::full::full_disk;

#[test]
fn on_a_full_disk_everything_is_read_and_tenants_are_dropped() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let replay = |seed| format!("weir sim full-node --sync {} --seed {seed}", sync.name());
        match run(&Plan::quiet(0..40), replay, |seed| full_disk(seed, sync)) {
            Ok(disks) => println!("{sync:?}: {disks}"),
            Err(failure) => panic!("{sync:?}: {failure}"),
        }
    }
}
