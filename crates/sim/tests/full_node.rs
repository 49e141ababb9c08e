//! Tenants on a full disk.

use weir_log::SyncMode;
use weir_node::EngineKind;
use weir_sim::engines::Engines;
use weir_sim::runner::{Plan, run};
use weir_sim::tenants::Setting;
use weir_sim::tenants::full::full_disk;

#[test]
fn on_a_full_disk_everything_is_read_and_tenants_are_dropped() {
    let modes = [SyncMode::Always, SyncMode::Interval, SyncMode::None];
    for (engine, sync) in EngineKind::ALL.into_iter().flat_map(|engine| modes.map(|sync| (engine, sync))) {
        let setting = Setting { engines: Engines::only(engine), sync };
        let replay = |seed| format!("weir sim full-node --engine {engine} --sync {} --seed {seed}", sync.name());
        match run(&Plan::quiet(0..40), replay, |seed| full_disk(seed, &setting)) {
            Ok(disks) => println!("{engine}, {sync:?}: {disks}"),
            Err(failure) => panic!("{engine}, {sync:?}: {failure}"),
        }
    }
}
