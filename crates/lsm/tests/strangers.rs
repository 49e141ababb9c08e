//! Sound files in the wrong place: a table of another tree, or another table of the same one, has valid checksums all
//! through. The manifest and the index must find it out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, PAGE, Result, Tag, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;

const TAG: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Maintenance);

fn env(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str) -> Env {
    env_of(sim, fs, dir, TAG.owner)
}

fn env_of(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str, owner: Owner) -> Env {
    Env {
        fs: Arc::clone(fs),
        dir: PathBuf::from(dir),
        owner,
        cache: BlockCache::new(0, 1),
        clock: sim.clock(),
        memory: Arc::new(Unbooked),
        salt: 7,
    }
}

/// A tree of one table of several blocks, with the same keys, lengths and sequence numbers whatever `fill` is.
async fn build(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str, fill: u8) -> PathBuf {
    let tree = Tree::open(env(sim, fs, dir), TreeOptions::default()).await.expect("the tree opens");
    let mut batch = Batch::new();
    for number in 0..100 {
        batch.put(format!("key{number:03}").as_bytes(), &[fill; 200]);
    }
    tree.apply(1, batch.as_ref());
    tree.seal();
    tree.next_flush().expect("a flush is due").run().await.expect("flush");
    let names = fs.list(Path::new(dir), TAG).await.expect("list");
    let table = names.into_iter().find(|entry| entry.name.ends_with(".sst")).expect("a table");
    Path::new(dir).join(table.name)
}

async fn read(sim: &Sim, fs: &Arc<dyn Fs>, dir: &str) -> Result<Vec<u8>> {
    let tree = Tree::open(env(sim, fs, dir), TreeOptions::default()).await?;
    let mut scan = tree.scan(Range::all(), None);
    let mut values = Vec::new();
    while let Some(entry) = scan.next().await? {
        values.push(entry.value[0]);
    }
    Ok(values)
}

fn assert_names(error: &Error, path: &Path) {
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

#[test]
fn a_table_of_another_tree_is_refused() {
    let sim = Sim::new(1);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let own = build(&sim, &fs, "/own", b'o').await;
        let other = build(&sim, &fs, "/other", b'x').await;
        assert_eq!(own.file_name(), other.file_name());
        assert_eq!(read(&sim, &fs, "/own").await.expect("nothing is wrong yet"), [b'o'; 100]);
        fs.rename(&other, &own, TAG).await.expect("rename");
        assert_names(&read(&sim, &fs, "/own").await.expect_err("the values are another tree's"), &own);
        let report = weir_lsm::check::check(&fs, Path::new("/own"), |_, _| {}).await.expect("the manifest is sound");
        assert_eq!(report.problems.len(), 1);
        assert_names(&report.problems[0], &own);
    });
}

#[test]
fn a_page_of_another_table_is_refused() {
    let sim = Sim::new(2);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let own = build(&sim, &fs, "/own", b'o').await;
        let other = build(&sim, &fs, "/other", b'x').await;
        let source = fs.open(&other, OpenOptions::read(), TAG).await.expect("open");
        let page = source.read_at(0, AlignedBuf::with_len(PAGE), TAG).await.expect("read");
        let writable = OpenOptions { write: true, ..OpenOptions::read() };
        let target = fs.open(&own, writable, TAG).await.expect("open");
        target.write_at(0, page, TAG).await.expect("write");
        assert_names(&read(&sim, &fs, "/own").await.expect_err("a block of another table"), &own);
    });
}

/// Both trees are empty, so that no table gives the stranger away.
#[test]
fn a_manifest_of_another_tree_is_refused_and_a_copy_for_another_owner_is_not() {
    let sim = Sim::new(3);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let other = Owner { tenant: 1, partition: 2 };
    sim.block_on(async {
        drop(Tree::open(env(&sim, &fs, "/own"), TreeOptions::default()).await.expect("the tree opens"));
        let tree =
            Tree::open(env_of(&sim, &fs, "/other", other), TreeOptions::default()).await.expect("the tree opens");
        let manifest = tree.manifest_path().await;
        tree.checkpoint(Path::new("/copy")).await.expect("a copy");
        drop(tree);
        let own = Path::new("/own").join(manifest.file_name().expect("a name"));
        fs.rename(&manifest, &own, TAG).await.expect("rename");
        assert_names(&read(&sim, &fs, "/own").await.expect_err("it says whose it is"), &own);
        let report = weir_lsm::check::check(&fs, Path::new("/own"), |_, _| {}).await.expect("it is sound");
        assert_eq!(report.owner, Some(other));
        assert_eq!(read(&sim, &fs, "/copy").await.expect("anybody may have a copy"), []);
    });
}
