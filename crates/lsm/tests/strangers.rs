//! Sound files in the wrong place: a table of another tree, or another table of the same one, has valid checksums all
//! through. The manifest and the index must find it out. And files with names and numbers that no tree gives out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::plant::{Plant, with_planted};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, PAGE, Result, Tag, Unbooked};
use weir_lsm::cache::BlockCache;
use weir_lsm::table::{TableOptions, TableWriter};
use weir_lsm::version::manifest::{self, Manifest};
use weir_lsm::version::{Edit, TableMeta};
use weir_lsm::{Env, Tree, TreeOptions};
use weir_model::Batch;
use weir_model::engine::*;
use weir_model::parts::{cover_key, cover_value};

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

/// There is no number behind the largest one, and the tree gives out numbers behind those of all its files.
#[test]
fn files_with_numbers_that_no_file_gets_are_left_alone() {
    let sim = Sim::new(4);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let own = build(&sim, &fs, "/own", b'o').await;
        let strangers = [u64::MAX, u64::MAX - 1]
            .into_iter()
            .flat_map(|number| [format!("/own/{number}.sst"), format!("/own/MANIFEST-{number}")]);
        for stranger in strangers.clone() {
            fs.open(stranger.as_ref(), OpenOptions::create_new(), TAG).await.expect("created");
        }
        let tree = Tree::open(env(&sim, &fs, "/own"), TreeOptions::default()).await.expect("the tree opens");
        tree.discard_unnamed().await.expect("no faults");
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        tree.apply(2, batch.as_ref());
        tree.seal();
        tree.next_flush().expect("a flush is due").run().await.expect("flush");
        let number = own.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()).expect("a number");
        let newest = tree.version().tables().map(|(_, file)| file.meta.id).max();
        assert!(newest.is_some_and(|newest| (number + 1..number + 10).contains(&newest)), "{newest:?}");
        for stranger in strangers {
            fs.open(stranger.as_ref(), OpenOptions::read(), TAG).await.expect("it is left alone");
        }
    });
}

#[test]
fn a_manifest_that_leaves_no_number_for_the_next_file_or_epoch_is_refused() {
    let sim = Sim::new(5);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        build(&sim, &fs, "/own", b'o').await;
        let tree = Tree::open(env(&sim, &fs, "/own"), TreeOptions::default()).await.expect("the tree opens");
        let meta = tree.version().level(0)[0].meta.clone();
        for number in [u64::MAX, u64::MAX - 1] {
            let edits = [
                Edit { next_file: Some(number), ..Edit::default() },
                Edit { next_epoch: Some(number), ..Edit::default() },
                Edit { added: vec![(0, TableMeta { epoch: number, ..meta.clone() })], ..Edit::default() },
            ];
            for (nth, edit) in (1..).zip(edits) {
                let dir = PathBuf::from(format!("/{number}-{nth}"));
                fs.create_dir_all(&dir, TAG).await.expect("created");
                Manifest::create(&fs, &dir, TAG, 7, nth, &edit).await.expect("written");
                let manifest = dir.join(manifest::file_name(nth));
                let error = read(&sim, &fs, &dir.display().to_string()).await.expect_err("it is refused");
                assert_names(&error, &manifest);
                assert!(error.to_string().contains(&number.to_string()), "{error}");
            }
        }
    });
}

/// Makes a tree of one table, whose entry has the sequence number `seq`, and which has met covers up to `met`.
async fn build_at(fs: &Arc<dyn Fs>, dir: &Path, seq: Seq, met: Seq) -> PathBuf {
    fs.create_dir_all(dir, TAG).await.expect("created");
    let path = dir.join(TableMeta::file_name(1));
    let writer = TableWriter::create(fs, &path, TableOptions::default(), TAG).await.expect("created");
    let mut writer = writer.having_met_covers(met);
    let (key, value) = (cover_key(7), cover_value(100));
    writer.add(Entry { key: &key, seq, kind: Kind::Cover, expire_at_ms: 0, value: &value }).expect("the first");
    let summary = writer.finish().await.expect("written");
    let meta = TableMeta::of(1, 0, &summary);
    let edit = Edit { next_file: Some(3), next_epoch: Some(1), added: vec![(1, meta)], ..Edit::default() };
    Manifest::create(fs, dir, TAG, 7, 2, &edit).await.expect("written");
    path
}

#[test]
fn a_table_that_leaves_no_sequence_number_for_the_next_change_is_refused() {
    let sim = Sim::new(6);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let half = SEQ_MAX >> 1;
        build_at(&fs, Path::new("/half"), half, half).await;
        read(&sim, &fs, "/half").await.expect("half of the numbers are left");
        for (dir, seq, met) in [("/seq", half + 1, 0), ("/last-seq", u64::MAX, 0), ("/met", 1, u64::MAX)] {
            let table = build_at(&fs, Path::new(dir), seq, met).await;
            assert_names(&read(&sim, &fs, dir).await.expect_err("it is refused"), &table);
            let report = weir_lsm::check::check(&fs, Path::new(dir), |_, _| {}).await.expect("the manifest is sound");
            assert_eq!(report.problems.len(), 1);
            assert_names(&report.problems[0], &table);
        }
    });
}

/// A block whose checksum is right can hold anything. Here nobody looks at checksums.
#[test]
fn a_merge_of_a_table_whose_entries_do_not_ascend_fails() {
    let sim = Sim::new(7);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let fs: Arc<dyn Fs> = disk.clone();
    let merge = async {
        let table = build(&sim, &fs, "/own", b'o').await;
        let options = TreeOptions { l0_trigger: 2, ..TreeOptions::default() };
        let tree = Tree::open(env(&sim, &fs, "/own"), options).await.expect("the tree opens");
        let mut batch = Batch::new();
        batch.put(b"key050", b"value");
        tree.apply(2, batch.as_ref());
        tree.seal();
        tree.next_flush().expect("a flush is due").run().await.expect("flush");
        let file = fs.open(&table, OpenOptions::read(), TAG).await.expect("open");
        let page = file.read_at(0, AlignedBuf::with_len(PAGE), TAG).await.expect("read");
        let first = page.windows(6).position(|bytes| bytes == b"key000").expect("the first key of a block is whole");
        // It is "{ey000" now, behind the keys that do not share its beginning.
        assert!(disk.flip_bit(&table, first as u64, 4));
        tree.next_compaction().expect("two runs are merged").run().await.map(drop)
    };
    let error = with_planted(Some(Plant::ChecksumIgnored), || sim.block_on(merge)).expect_err("they do not ascend");
    assert_names(&error, Path::new("/own"));
}
