//! Manifest edits go to the device with the class of flushes, whichever job makes them: a flush that waited for a
//! merge's edit would wait behind all other merges.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, Owner, Result, Tag, Unbooked, forward_file, forward_fs};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

/// The classes of writes and syncs of manifests, and of everything else.
#[derive(Default)]
struct Seen {
    manifests: BTreeSet<Class>,
    others: BTreeSet<Class>,
}

/// A file system that watches.
struct WatchedFs {
    inner: Arc<dyn Fs>,
    seen: Arc<Mutex<Seen>>,
}

struct WatchedFile {
    inner: Arc<dyn File>,
    is_manifest: bool,
    seen: Arc<Mutex<Seen>>,
}

impl WatchedFile {
    fn see(&self, class: Class) {
        let mut seen = self.seen.lock();
        let classes = if self.is_manifest { &mut seen.manifests } else { &mut seen.others };
        classes.insert(class);
    }
}

impl Fs for WatchedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let is_manifest = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST-"));
        let (opened, seen) = (self.inner.open(path, options, tag), Arc::clone(&self.seen));
        Op::pending(async move {
            let inner = opened.await?;
            Ok(Arc::new(WatchedFile { inner, is_manifest, seen }) as Arc<dyn File>)
        })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, sync_dir, lock);
}

impl File for WatchedFile {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        self.see(tag.class);
        self.inner.write_at(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        self.see(tag.class);
        self.inner.sync(tag)
    }

    forward_file!(inner: read_at, allocate, set_len, len, data_end, is_direct, read_unit);
}

#[test]
fn the_edit_of_a_merge_goes_as_a_flush() -> Result<()> {
    let sim = Sim::new(1);
    let seen = Arc::<Mutex<Seen>>::default();
    let inner = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let env = Env {
        fs: Arc::new(WatchedFs { inner, seen: Arc::clone(&seen) }),
        dir: PathBuf::from("/tree"),
        owner: Owner { tenant: 1, partition: 1 },
        cache: BlockCache::new(1 << 20, 1),
        clock: sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    };
    let options = TreeOptions { l0_trigger: 2, level1_bytes: 8 << 10, ..TreeOptions::default() };
    let tree = sim.block_on(Tree::open(env, options))?;
    *seen.lock() = Seen::default();
    for number in 1..=40_u64 {
        let mut batch = Batch::new();
        // All over the keys, so that every level overlaps the next.
        (0..8).for_each(|place| batch.put(&(number * 7 % 40 + place * 40).to_be_bytes(), &[7; 500]));
        tree.publish(tree.apply(number, batch.as_ref()).last_seq);
        tree.seal();
        sim.block_on(tree.next_flush().expect("a flush is due").run())?;
        while let Some(job) = tree.next_compaction() {
            sim.block_on(job.run())?;
        }
    }
    let seen = seen.lock();
    assert!(seen.others.contains(&Class::CompactL0) && seen.others.contains(&Class::CompactDeep), "{:?}", seen.others);
    assert_eq!(seen.manifests, BTreeSet::from([Class::Flush]));
    Ok(())
}
