//! The files that a journal names: they go when they surely are not needed any more, and not before.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use weir_io::sim::{DeviceSpec, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Fs, OpenOptions, Owner, Rng, Tag};
use weir_journal::{Begun, Entry, Garbage, Journal, NamedFile};

const DIR: &str = "/journal";
const TAG: Tag = Tag::new(Owner { tenant: 1, partition: 1 }, Class::Maintenance);

struct Edit;

impl Entry for Edit {
    const MAGIC: &[u8; 8] = b"WEIRTEST";
    const PREFIX: &str = "TEST-";

    fn encode(&self) -> Vec<u8> {
        vec![7]
    }

    fn decode(_: &[u8]) -> Result<Self, usize> {
        Ok(Self)
    }
}

struct World {
    sim: Sim,
    disk: Arc<SimFs>,
    fs: Arc<dyn Fs>,
    garbage: Arc<Garbage>,
    journal: Journal<Edit>,
}

impl World {
    fn new() -> Self {
        Self::on(DeviceSpec::instant(), 1)
    }

    fn on(device: DeviceSpec, seed: u64) -> Self {
        let sim = Sim::new(seed);
        let disk = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
        let fs = Arc::clone(&disk) as Arc<dyn Fs>;
        let journal = sim.block_on(async {
            assert!(Journal::<Edit>::recover_or_make_dir(&fs, DIR.as_ref(), TAG).await.expect("no faults").is_none());
            Journal::open(&fs, DIR.as_ref(), TAG, 7, None, &mut 1, |_| Edit).await.expect("no faults")
        });
        Self { sim, disk, fs, garbage: Arc::default(), journal }
    }

    /// Begins the file `name`.
    fn begin(&self, name: &str) -> Begun {
        let (path, mut begun) = (Path::new(DIR).join(name), Begun::new(Arc::clone(&self.garbage)));
        begun.add(path.clone());
        self.sim.block_on(async {
            let file = self.fs.open(&path, OpenOptions::create_new_buffered(), TAG).await.expect("no faults");
            file.write_at(0, AlignedBuf::copy_of(b"file"), TAG).await.expect("no faults");
        });
        begun
    }

    /// The files that are left when all garbage has been removed.
    fn files(&self) -> Vec<String> {
        self.sim.block_on(async {
            self.garbage.remove(&self.fs, TAG).await.expect("no faults");
            assert!(self.garbage.is_empty());
            let mut names: Vec<_> = self.fs.list(DIR.as_ref(), TAG).await.expect("a list").into_iter().collect();
            names.sort();
            names.into_iter().map(|entry| entry.name).collect()
        })
    }
}

#[test]
fn what_no_edit_names_goes_and_what_one_names_stays_until_it_is_given_up() {
    let mut world = World::new();
    drop(world.begin("a"));
    assert_eq!(world.files(), ["CURRENT", "TEST-000001"]);
    let begun = world.begin("b");
    world.sim.block_on(world.journal.append_naming(&Edit, begun)).expect("no faults");
    assert_eq!(world.files(), ["CURRENT", "TEST-000001", "b"]);
    let reader = Arc::new(NamedFile::new(Path::new(DIR).join("b"), Arc::clone(&world.garbage)));
    let named = Arc::clone(&reader);
    named.make_obsolete();
    drop(named);
    assert_eq!(world.files(), ["CURRENT", "TEST-000001", "b"], "somebody reads it");
    drop(reader);
    assert_eq!(world.files(), ["CURRENT", "TEST-000001"]);
}

#[test]
fn what_a_doubtful_edit_names_stays_until_the_journal_was_rolled() {
    let mut world = World::new();
    let begun = world.begin("a");
    world.disk.set_faults(FaultPlan::none().chance(OpKind::Sync, Fault::Error, 1.0));
    world.sim.block_on(world.journal.append_naming(&Edit, begun)).expect_err("the sync fails");
    world.disk.set_faults(FaultPlan::none());
    assert!(world.journal.needs_roll());
    assert_eq!(world.files(), ["CURRENT", "TEST-000001", "a"], "a crash may find the edit");
    world.sim.block_on(world.journal.roll(2, &Edit, &world.garbage)).expect("no faults");
    assert!(!world.journal.needs_roll());
    assert_eq!(world.files(), ["CURRENT", "TEST-000002"]);
}

#[test]
fn files_that_did_not_become_the_current_one_go_when_the_journal_was_rolled() {
    let mut world = World::new();
    world.disk.set_faults(FaultPlan::none().chance(OpKind::Rename, Fault::Error, 1.0));
    for number in 2..5 {
        world.sim.block_on(world.journal.roll(number, &Edit, &world.garbage)).expect_err("no file becomes current");
    }
    world.disk.set_faults(FaultPlan::none());
    world.sim.block_on(world.journal.roll(5, &Edit, &world.garbage)).expect("no faults");
    assert_eq!(world.files(), ["CURRENT", "TEST-000005"]);
}

#[test]
fn what_cannot_be_removed_stays_noted() {
    let world = World::new();
    let mut begun = world.begin("a");
    begun.add(Path::new(DIR).join("never made"));
    drop(begun);
    world.disk.set_faults(FaultPlan::none().chance(OpKind::Remove, Fault::Error, 1.0));
    world.sim.block_on(world.garbage.remove(&world.fs, TAG)).expect_err("the disk fails");
    world.disk.set_faults(FaultPlan::none());
    assert!(!world.garbage.is_empty());
    assert_eq!(world.files(), ["CURRENT", "TEST-000001"]);
}

#[test]
fn what_cannot_be_removed_does_not_keep_the_rest() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        drop(world.begin(name));
    }
    world.disk.fail_next(Some(OpKind::Remove), Fault::Error);
    world.sim.block_on(world.garbage.remove(&world.fs, TAG)).expect_err("the disk fails");
    assert!(!world.garbage.is_empty());
    let names = world.sim.block_on(world.fs.list(DIR.as_ref(), TAG)).expect("a list");
    // An operation that fails may have been carried out.
    assert!(names.iter().filter(|entry| entry.name.len() == 1).count() <= 1, "{names:?}");
    assert_eq!(world.files(), ["CURRENT", "TEST-000001"]);
}

#[test]
fn what_a_dropped_removal_has_not_removed_stays_noted() {
    let world = World::on(DeviceSpec { latency: 50_000, ..DeviceSpec::instant() }, 1);
    for name in ["a", "b"] {
        drop(world.begin(name));
    }
    world.sim.block_on(async {
        let mut removal = pin!(world.garbage.remove(&world.fs, TAG));
        assert!(removal.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    assert!(!world.garbage.is_empty());
    assert_eq!(world.files(), ["CURRENT", "TEST-000001"]);
}

/// How many edits an opening finds on `disk`, and makes certain of.
fn edits_on(disk: &Arc<SimFs>, sim: &Sim) -> usize {
    let fs = Arc::clone(disk) as Arc<dyn Fs>;
    sim.block_on(async {
        let recovered = Journal::<Edit>::recover(&fs, DIR.as_ref(), TAG).await.expect("sound");
        let edits = recovered.as_ref().map_or(0, |recovered| recovered.edits.len());
        let mut journal =
            Journal::open(&fs, DIR.as_ref(), TAG, 7, recovered, &mut 2, |_| Edit).await.expect("no faults");
        journal.confirm().await.expect("no faults");
        assert!(journal.needs_roll(), "nothing is added to a file that another process has written");
        edits
    })
}

/// After a sync that has failed, the page cache may have what the device has not, and the next sync succeeds all the
/// same.
#[test]
fn what_an_opening_has_confirmed_is_durable_although_its_sync_had_failed() {
    let mut doubtful = 0;
    for seed in 0..50 {
        let mut world = World::on(DeviceSpec::instant(), seed);
        world.sim.block_on(world.journal.append(&Edit)).expect("no faults");
        world.disk.fail_next(Some(OpKind::Sync), Fault::Error);
        world.sim.block_on(world.journal.append(&Edit)).expect_err("the sync fails");
        let after_a_power_cut = || {
            let mut rng = Rng::new(seed);
            let image = world.disk.crash_keeping(Keep::None, &mut rng);
            SimFs::from_image(&image, world.sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng)
        };
        let on_device = edits_on(&after_a_power_cut(), &world.sim);
        let read = edits_on(&world.disk, &world.sim);
        doubtful += usize::from(read > on_device);
        assert_eq!(edits_on(&after_a_power_cut(), &world.sim), read, "seed {seed}");
    }
    assert!(doubtful > 5, "only {doubtful} times the device did not have what was read");
}
