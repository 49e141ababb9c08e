//! Random operations against a model that is too simple to be wrong.

use std::collections::BTreeMap;

use super::*;

/// What the model knows of one file: its bytes now, and as of the last sync.
#[derive(Clone, Default)]
struct Known {
    now: Vec<u8>,
    synced: Vec<u8>,
}

const FILES: [&str; 3] = ["a", "b", "c"];
const LEN_MAX: u64 = 5 * PAGE as u64;

/// One random step on the disk and on the model.
async fn step(files: &BTreeMap<&str, Arc<dyn File>>, model: &mut BTreeMap<&str, Known>, rng: &mut Rng) {
    let name = FILES[rng.below(FILES.len() as u64) as usize];
    let (file, known) = (&files[name], model.get_mut(name).unwrap());
    match rng.below(10) {
        0..6 => {
            let offset = rng.below(LEN_MAX);
            let len_max = (LEN_MAX - offset).min(1 << rng.below(14));
            let len = 1 + rng.below(len_max) as usize;
            let bytes = vec![rng.next_u64() as u8; len];
            let end = offset as usize + len;
            known.now.resize(known.now.len().max(end), 0);
            known.now[offset as usize..end].copy_from_slice(&bytes);
            file.write_at(offset, AlignedBuf::copy_of(&bytes), TAG).await.unwrap();
        }
        6 => {
            let len = rng.below(LEN_MAX);
            known.now.resize(len as usize, 0);
            file.set_len(len, TAG).await.unwrap();
        }
        7 => {
            let len = rng.below(LEN_MAX);
            known.now.resize(known.now.len().max(len as usize), 0);
            file.allocate(len, TAG).await.unwrap();
        }
        8 => {
            file.sync(TAG).await.unwrap();
            known.synced = known.now.clone();
        }
        _ => {
            let offset = rng.below(LEN_MAX);
            let read = file.read_at(offset, AlignedBuf::with_len(LEN_MAX as usize), TAG).await.unwrap();
            assert_eq!(*read, known.now[(offset as usize).min(known.now.len())..]);
        }
    }
}

#[test]
fn reads_see_the_last_write_and_a_power_cut_keeps_what_was_synced() {
    for seed in 0..200 {
        let sim = Sim::new(seed);
        let fs = disk(&sim);
        let mut rng = sim.rng();
        let mut model: BTreeMap<&str, Known> = FILES.map(|name| (name, Known::default())).into();
        sim.block_on(async {
            let mut files = BTreeMap::new();
            for name in FILES {
                files.insert(name, durable_file(&fs, name, OpenOptions::create_new_buffered()).await);
            }
            for _ in 0..60 {
                step(&files, &mut model, &mut rng).await;
            }
            for (name, known) in &model {
                let image = |keep, rng: &mut Rng| fs.crash_keeping(keep, rng).read(name).unwrap();
                assert_eq!(image(Keep::All, &mut rng), known.now, "seed {seed}");
                assert_eq!(image(Keep::None, &mut rng), known.synced, "seed {seed}");
                files[name].sync(TAG).await.unwrap();
                assert_eq!(image(Keep::Random, &mut rng), known.now, "seed {seed}");
            }
        });
    }
}
