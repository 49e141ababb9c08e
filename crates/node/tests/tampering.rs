//! A partition whose files were whole and durable, and one of which has changed: nothing acknowledged may be missing or
//! wrong without an error that names a file, and files that are refused stay as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::opened::Opened;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{Class, ErrorKind, Fs, OpenOptions, Owner, Result, Rng, Tag, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_model::engine::Range;
use weir_node::repair::Repair;
use weir_node::{EngineKind, Machine, NodeConfig};

const PARTITION: &str = "weir/partitions/000001";
const SECOND: u64 = 1_000_000_000;

type KeyValues = BTreeMap<Vec<u8>, Vec<u8>>;

fn config(engine: EngineKind, sync: SyncMode) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        level1_bytes: 32 << 10,
        table_bytes: 16 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    NodeConfig { engine, tree, cache_bytes: 32 << 10, sync, segment_bytes: 16 << 10, ..NodeConfig::new("/weir") }
}

async fn open(sim: &Sim, fs: &Arc<SimFs>, config: &NodeConfig) -> Result<Opened> {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    Opened::open(config, Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: sim.rng().next_u64() }).await
}

/// What a run leaves: the disk halfway, the disk when it was killed seconds after the last write, and what was written.
struct Run {
    earlier: DiskImage,
    last: DiskImage,
    state: KeyValues,
}

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// Key and value of write `number`.
fn written(number: u32, fill: u8) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![fill; 150];
    value.extend(number.to_le_bytes());
    (format!("key{:03}", number * 7 % 150).into_bytes(), value)
}

/// The content after the first `count` writes.
fn state_after(count: u32, fill: u8) -> KeyValues {
    (0..count).map(|number| written(number, fill)).collect()
}

/// Same keys and lengths whatever `fill` is.
fn run(config: &NodeConfig, seed: u64, fill: u8) -> Run {
    let sim = Sim::new(seed);
    let fs = SimFs::from_image(&DiskImage::new(), sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let (mut state, mut rng, clock) = (KeyValues::new(), sim.rng(), sim.clock());
    let earlier = sim.block_on(async {
        let node = open(&sim, &fs, config).await.expect("a fresh disk");
        let mut earlier = None;
        for number in 0..400_u32 {
            let (key, value) = written(number, fill);
            let mut batch = Batch::new();
            batch.put(&key, &value);
            node.partition().write(&batch).await.expect("a write").await.expect("a commit");
            state.insert(key, value);
            if number == 250 {
                // With rows in memory, later writes are in the log alone.
                node.partition().seal();
                sleep_until(&clock, clock.now() + 3 * SECOND).await;
                earlier = Some(fs.crash_keeping(Keep::All, &mut rng));
            }
        }
        sleep_until(&clock, clock.now() + 3 * SECOND).await;
        earlier.expect("there were as many writes")
    });
    Run { earlier, last: fs.crash_keeping(Keep::All, &mut sim.rng()), state }
}

async fn contents(sim: &Sim, fs: &Arc<SimFs>, config: &NodeConfig) -> Result<KeyValues> {
    let node = open(sim, fs, config).await?;
    let mut state = KeyValues::new();
    let mut scan = node.partition().scan(Range::all()).await?;
    while let Some(entry) = scan.next().await? {
        state.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    Ok(state)
}

/// Puts something else in the place of `path`; false if there is nothing to put there.
fn tamper(
    kind: usize,
    image: &mut DiskImage,
    path: &Path,
    rng: &mut Rng,
    earlier: &DiskImage,
    other: &DiskImage,
) -> bool {
    let bytes = image.read(path).expect("it is there");
    let at = rng.below(bytes.len() as u64) as usize;
    let replacement = match kind {
        0 => Some(Vec::new()),
        1 => Some(bytes[..at].to_vec()),
        2 => {
            let mut bytes = bytes;
            bytes[at] ^= 1 << rng.below(8);
            Some(bytes)
        }
        3 => earlier.read(path),
        4 => other.read(path),
        _ => unreachable!("there are five kinds"),
    };
    let Some(replacement) = replacement else { return false };
    image.insert(path, &replacement).expect("a good path");
    true
}

#[test]
fn nothing_durable_goes_missing_and_nothing_that_is_refused_is_deleted() {
    let modes = [SyncMode::Always, SyncMode::Interval];
    for (engine, sync) in EngineKind::ALL.into_iter().flat_map(|engine| modes.map(|sync| (engine, sync))) {
        let config = config(engine, sync);
        let Run { earlier, last, state } = run(&config, 3, b'o');
        let other = run(&config, 4, b'x').last;
        let files: Vec<PathBuf> = last.files().into_iter().map(|(path, _)| path).collect();
        let files: Vec<&PathBuf> = files.iter().filter(|path| path.starts_with(PARTITION)).collect();
        assert!(files.iter().any(|path| path.ends_with("ANCHOR")), "{files:?}");
        let (mut refused, mut harmless) = (0, 0);
        for (seed, &path) in files.iter().enumerate() {
            for (kind, round) in (0..6).flat_map(|kind| (0..6).map(move |round| (kind, round))) {
                let mut rng = Rng::new((seed * 100 + kind * 10 + round) as u64);
                let mut image = last.clone();
                let is_lost = kind == 5;
                if !is_lost && !tamper(kind, &mut image, path, &mut rng, &earlier, &other) {
                    continue;
                }
                let sim = Sim::new(9);
                let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
                let found = sim.block_on(async {
                    if is_lost {
                        fs.remove(&Path::new("/").join(path), TAG).await?;
                    }
                    contents(&sim, &fs, &config).await
                });
                match found {
                    Ok(found) => {
                        assert!(found == state, "{engine}, {sync:?}: kind {kind} of {} goes unnoticed", path.display());
                        harmless += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                        assert!(error.path().starts_with(Path::new("/").join(PARTITION)), "{error}");
                        refused += 1;
                        // A table is opened without reading its blocks. Damage in a block is noticed by whoever reads
                        // it, when leftovers of jobs are long gone.
                        if path.extension().is_none_or(|extension| extension != "sst") {
                            let left = fs.crash_keeping(Keep::All, &mut sim.rng());
                            for (file, _) in image.files() {
                                let is_there = left.read(&file).is_some() || (is_lost && file == *path);
                                assert!(is_there, "kind {kind} of {} deleted {}", path.display(), file.display());
                            }
                        }
                    }
                }
            }
        }
        assert!(refused > 100 && harmless > 10, "{engine}, {sync:?}: {refused} refused, {harmless} harmless");
    }
}

#[test]
fn what_a_repair_keeps_is_the_state_after_some_write_and_nothing_is_deleted() {
    EngineKind::ALL.into_iter().for_each(repairs_keep_a_state);
}

fn repairs_keep_a_state(engine: EngineKind) {
    let config = config(engine, SyncMode::Interval);
    let Run { last, .. } = run(&config, 3, b'o');
    let is_reparable = |path: &Path| path.ends_with("ANCHOR") || path.extension().is_some_and(|kind| kind == "log");
    let files: Vec<PathBuf> =
        last.files().into_iter().map(|(path, _)| path).filter(|path| is_reparable(path)).collect();
    assert!(files.len() > 1, "{files:?}");
    let (mut repaired, mut shorter) = (0, 0);
    for (number, path) in files.iter().enumerate() {
        for round in 0..12 {
            let mut rng = Rng::new((number * 100 + round) as u64);
            let mut image = last.clone();
            assert!(tamper(round % 3, &mut image, path, &mut rng, &last, &last));
            let sim = Sim::new(9);
            let disk = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
            sim.block_on(async {
                if contents(&sim, &disk, &config).await.is_ok() {
                    return;
                }
                let fs: Arc<dyn Fs> = disk.clone();
                let mut plan = Repair::plan(&fs, Path::new("/weir"), None, 3).await.expect("a plan");
                assert_eq!(plan.findings().len(), 1, "{:?}", plan.findings());
                plan.accept_loss();
                let kept = plan.apply().await.expect("repaired");
                assert!(
                    fs.open(&kept.join(path.strip_prefix("weir").expect("inside")), OpenOptions::read_buffered(), TAG)
                        .await
                        .is_ok()
                );
                let found = contents(&sim, &disk, &config).await.expect("it can be opened again");
                let number = |value: &Vec<u8>| u32::from_le_bytes(value[150..].try_into().expect("four bytes"));
                let newest = found.values().map(number).max().map_or(0, |newest| newest + 1);
                assert!(found == state_after(newest, b'o'), "not the state after {newest} writes");
                shorter += u32::from(newest < 400);
                repaired += 1;
            });
        }
    }
    assert!(repaired > 10 && shorter > 5, "{engine}: {repaired} repaired, {shorter} of them shorter");
}
