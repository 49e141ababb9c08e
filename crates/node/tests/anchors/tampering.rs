//! One file or directory at a time is lost, damaged or replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_io::Fs;
use weir_io::sim::{DiskImage, Keep};
use weir_node::repair::{Repair, Role};
use weir_node::{TenantSettings, TenantSpec};

use super::world::{DIR, TAG, Tenants, World, name, see, settings, write};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A directory, and everything that tampering with it needs.
struct Victim {
    image: DiskImage,
    tenants: Tenants,
    /// The anchors as they are, and as they were at earlier moments.
    anchors: Files,
    older: Vec<Files>,
    partitions: Vec<PathBuf>,
}

/// Nobody has used it: it has no files.
const UNUSED: &[&str] = &["unused"];
/// Nobody has used it since it was restored.
const RESTORED: &str = "restored";

async fn anchors(world: &World) -> Files {
    let mut files = world.files("catalogue").await;
    files.extend(world.files("catalogue.mirror").await);
    let format = Path::new(DIR).join("FORMAT");
    files.extend(world.read(&format).await.map(|bytes| (format, bytes)));
    files
}

/// A node that has lived: tenants made, used, altered, emptied, dropped, backed up and restored, with two restarts.
fn victim(seed: u64) -> Victim {
    let world = World::new(seed, &DiskImage::new());
    let mut older = Vec::new();
    let tenants = world.sim.block_on(async {
        let node = world.open().await.expect("a new directory");
        write(&node, "default", b"default").await.expect("written");
        older.push(anchors(&world).await);
        for (tenant, partitions) in [("shop", 2), ("emptied", 1), ("gone", 3), ("unused", 1)] {
            node.create_tenant(TenantSpec { partitions, ..TenantSpec::new(name(tenant)) }).await.expect("created");
            if tenant != "unused" {
                write(&node, tenant, tenant.as_bytes()).await.expect("written");
            }
            older.push(anchors(&world).await);
        }
        node.clear_tenant(&name("emptied")).await.expect("emptied");
        node.drop_tenant(&name("gone")).await.expect("dropped");
        older.push(anchors(&world).await);
        world.close(node).await;
        let node = world.open().await.expect("a second start");
        node.backup(&name("shop"), Path::new("/backup")).await.expect("backed up");
        node.restore(Path::new("/backup"), name(RESTORED), None).await.expect("restored");
        older.push(anchors(&world).await);
        let change = |present: &mut TenantSettings| -> weir_io::Result<()> {
            *present = settings(1 << 40);
            Ok(())
        };
        node.alter_tenant(&name("shop"), change).await.expect("altered");
        let mut tenants = see(&node, &["unused", RESTORED, "shop", "emptied", "default"]).await.expect("listed");
        world.close(node).await;
        let value = |text: &str| Some(text.as_bytes().to_vec());
        tenants.get_mut("default").expect("there").1 = vec![value("default")];
        tenants.get_mut("shop").expect("there").1 = vec![value("shop"); 2];
        tenants.get_mut(RESTORED).expect("there").1 = vec![value("shop"); 2];
        tenants.get_mut("emptied").expect("there").1 = vec![None];
        tenants
    });
    world.sim.block_on(world.rest());
    let (anchors, partitions) = world.sim.block_on(async {
        let partitions = world.files("partitions").await.into_keys().collect();
        (anchors(&world).await, partitions)
    });
    let image = world.fs.crash_keeping(Keep::All, &mut world.sim.rng());
    Victim { image, tenants, anchors, older, partitions }
}

/// The outcomes of the tamperings.
#[derive(Debug, Default)]
struct Verdicts {
    opened: usize,
    refused: usize,
    undecided: usize,
}

impl Victim {
    /// Replaces files of the directory by `files` (`None` removes a file), and looks at what the node, the check and
    /// the repair make of it.
    fn tamper(&self, what: &str, files: &[(&Path, Option<Vec<u8>>)], verdicts: &mut Verdicts) {
        let world = World::new(1, &self.image);
        world.sim.block_on(async {
            for (path, bytes) in files {
                world.replace(path, bytes.as_deref()).await;
            }
        });
        let found = world.sim.block_on(async {
            // Looking at the directory changes nothing, so that the next steps see the same.
            let problems = world.problems().await;
            match world.open().await {
                Ok(node) => {
                    assert!(problems.is_empty(), "{what}: {problems:?}, and yet it opens");
                    assert_eq!(see(&node, UNUSED).await.expect("served"), self.tenants, "{what}: opened");
                    world.close(node).await;
                    None
                }
                Err(refusal) => {
                    let (text, path) = (refusal.to_string(), refusal.path().to_path_buf());
                    assert!(text.contains("weir repair /weir"), "{what}: it says what to do: {text}");
                    // A file that is gone is named by its directory.
                    let is_named =
                        |file: &Path| text.contains(&file.display().to_string()) || file.parent() == path.parent();
                    assert!(files.iter().any(|(file, _)| is_named(file)), "{what}: the refusal names the file: {text}");
                    assert!(problems.contains(&text), "{what}: the check says the same: {problems:?}, not {text}");
                    Some(text)
                }
            }
        });
        world.sim.block_on(world.rest());
        self.assert_untouched(&world, what);
        let Some(refusal) = found else {
            verdicts.opened += 1;
            return;
        };
        verdicts.refused += 1;
        let repaired = world.sim.block_on(async {
            let mut plan = Repair::plan(&world.disk(), Path::new(DIR), None, 3).await.expect("a plan");
            if !plan.findings().iter().all(|finding| finding.can_be_repaired()) {
                // Both copies can be read, and only the operator knows which of them was put there.
                verdicts.undecided += 1;
                drop(plan);
                let is_first = files.iter().any(|(file, _)| file.starts_with("/weir/catalogue"));
                let believe = if is_first { Role::Mirror } else { Role::First };
                plan = Repair::plan(&world.disk(), Path::new(DIR), Some(believe), 3).await.expect("a plan");
            }
            let findings = format!("{:?}", plan.findings());
            assert!(plan.findings().iter().all(|finding| finding.can_be_repaired()), "{what}: {refusal}: {findings}");
            let kept = plan.apply().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            for (path, bytes) in files.iter().filter(|(_, bytes)| bytes.is_some()) {
                // A file that is still in force need not be kept.
                let relative = path.strip_prefix(DIR).expect("in the directory");
                let kept = world.read(&kept.join(relative)).await;
                assert!(kept == *bytes || world.read(path).await == *bytes, "{what}: nothing is deleted by a repair");
            }
            let problems = world.problems().await;
            assert!(problems.is_empty(), "{what}: after a repair: {problems:?}; {findings}");
            let node = world.open().await.unwrap_or_else(|error| panic!("{what}: after a repair: {error}; {findings}"));
            assert_eq!(see(&node, UNUSED).await.expect("served"), self.tenants, "{what}: after a repair");
            // The node goes on from there.
            node.create_tenant(TenantSpec::new(name("new"))).await.expect("created");
            write(&node, "new", b"new").await.expect("written");
            world.close(node).await;
            world.open().await.is_ok()
        });
        assert!(repaired, "{what}: and opens again");
        self.assert_untouched(&world, what);
    }

    fn assert_untouched(&self, world: &World, what: &str) {
        let there = world.sim.block_on(world.files("partitions"));
        // Logs come and go; who has them does not.
        for path in self.partitions.iter().filter(|path| !path.to_string_lossy().contains("/log/")) {
            let is_manifest = path.to_string_lossy().contains("MANIFEST");
            assert!(is_manifest || there.contains_key(path), "{what}: {} is gone", path.display());
        }
    }

    fn file(&self, below: &str) -> &Path {
        let journal = |path: &&PathBuf| path.starts_with(Path::new(DIR).join(below)) && !path.ends_with("CURRENT");
        self.anchors.keys().find(journal).expect("a journal")
    }
}

#[test]
fn every_anchor_lost_emptied_cut_or_flipped() {
    let victim = victim(1);
    let mut verdicts = Verdicts::default();
    victim.tamper("nothing", &[], &mut verdicts);
    assert_eq!(verdicts.opened, 1);
    // Each byte takes a millisecond or two; `WEIR_ANCHORS=all` takes them all.
    let stride = if std::env::var_os("WEIR_ANCHORS").is_some() { 1 } else { 7 };
    for (path, bytes) in &victim.anchors {
        let shown = path.display();
        victim.tamper(&format!("{shown} lost"), &[(path, None)], &mut verdicts);
        let lengths =
            (0..bytes.len()).filter(|length| bytes.len() < 64 || length % stride == 0 || length + 3 > bytes.len());
        for length in lengths.clone() {
            victim.tamper(
                &format!("{shown} cut at {length}"),
                &[(path, Some(bytes[..length].to_vec()))],
                &mut verdicts,
            );
        }
        for at in lengths {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            victim.tamper(&format!("{shown} flipped at {at}"), &[(path, Some(flipped))], &mut verdicts);
        }
    }
    for below in ["catalogue", "catalogue.mirror"] {
        let lost: Vec<_> = victim
            .anchors
            .keys()
            .filter(|path| path.starts_with(Path::new(DIR).join(below)))
            .map(|path| (&**path, None))
            .collect();
        victim.tamper(&format!("all of {below} lost"), &lost, &mut verdicts);
    }
    eprintln!("{verdicts:?}");
    assert!(verdicts.refused > 100 && verdicts.undecided == 0, "{verdicts:?}");
}

#[test]
fn every_anchor_replaced_by_an_older_copy_by_another_directorys_or_by_one_another() {
    let (victim, stranger) = (victim(1), victim_of_another_life());
    let mut verdicts = Verdicts::default();
    let dirs = ["catalogue", "catalogue.mirror"];
    let in_dir = |files: &Files, dir: &str| -> Vec<(PathBuf, Vec<u8>)> {
        let files = files.iter().filter(|(path, _)| path.starts_with(Path::new(DIR).join(dir)));
        files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
    };
    for (moment, older) in victim.older.iter().chain([&stranger]).enumerate() {
        for (path, bytes) in older.iter().filter(|(path, _)| victim.anchors.contains_key(*path)) {
            victim.tamper(
                &format!("{} of moment {moment}", path.display()),
                &[(path, Some(bytes.clone()))],
                &mut verdicts,
            );
        }
        for dir in dirs {
            let (now, then) = (in_dir(&victim.anchors, dir), in_dir(older, dir));
            let mut files: Vec<(&Path, Option<Vec<u8>>)> = now.iter().map(|(path, _)| (&**path, None)).collect();
            files.extend(then.iter().map(|(path, bytes)| (&**path, Some(bytes.clone()))));
            victim.tamper(&format!("all of {dir} of moment {moment}"), &files, &mut verdicts);
        }
    }
    // The journals cut back by one, two … records are older copies, too.
    for dir in dirs {
        let path = victim.file(dir);
        let bytes = &victim.anchors[path];
        for end in record_ends(bytes) {
            victim.tamper(&format!("{dir} up to {end}"), &[(path, Some(bytes[..end].to_vec()))], &mut verdicts);
        }
    }
    let paths: Vec<&PathBuf> = victim.anchors.keys().collect();
    for (at, one) in paths.iter().enumerate() {
        for other in &paths[at + 1..] {
            let swapped = [
                (one.as_path(), Some(victim.anchors[*other].clone())),
                (other.as_path(), Some(victim.anchors[*one].clone())),
            ];
            victim.tamper(&format!("{} and {} swapped", one.display(), other.display()), &swapped, &mut verdicts);
            let copied = [(one.as_path(), Some(victim.anchors[*other].clone()))];
            victim.tamper(&format!("{} copied to {}", other.display(), one.display()), &copied, &mut verdicts);
            let copied = [(other.as_path(), Some(victim.anchors[*one].clone()))];
            victim.tamper(&format!("{} copied to {}", one.display(), other.display()), &copied, &mut verdicts);
        }
    }
    eprintln!("{verdicts:?}");
    assert!(verdicts.refused > 40 && verdicts.undecided < verdicts.refused / 2, "{verdicts:?}");
}

/// The anchors of another directory, which has had more edits than the victim.
fn victim_of_another_life() -> Files {
    let world = World::new(77, &DiskImage::new());
    world.sim.block_on(async {
        let node = world.open().await.expect("a new directory");
        for tenant in 0..20 {
            node.create_tenant(TenantSpec::new(name(&format!("stranger{tenant}")))).await.expect("created");
        }
        world.close(node).await;
        anchors(&world).await
    })
}

/// Where the records of a journal end, except for the last one.
fn record_ends(bytes: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 16);
    while at < bytes.len() {
        at += 16 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        ends.push(at);
    }
    ends.pop();
    ends
}

#[test]
fn without_either_catalogue_nothing_is_opened_and_nothing_deleted() {
    let victim = victim(1);
    let world = World::new(1, &victim.image);
    world.sim.block_on(async {
        for path in victim.anchors.keys() {
            world.replace(path, None).await;
        }
        let refusal = world.open().await.err().expect("it is not new").to_string();
        assert!(refusal.contains("FORMAT") && refusal.contains("missing"), "{refusal}");
        assert!(!world.problems().await.is_empty());
        let plan = Repair::plan(&world.disk(), Path::new(DIR), None, 3).await.expect("a plan");
        assert!(plan.findings().iter().all(|finding| !finding.can_be_repaired()), "{:?}", plan.findings());
    });
    world.sim.block_on(world.rest());
    victim.assert_untouched(&world, "everything lost");
}

#[test]
fn where_both_copies_have_lost_their_current_the_newest_journal_is_believed() {
    let victim = victim(1);
    let world = World::new(1, &victim.image);
    world.sim.block_on(async {
        for dir in ["catalogue", "catalogue.mirror"] {
            world.replace(&Path::new(DIR).join(dir).join("CURRENT"), None).await;
        }
        assert!(world.open().await.is_err());
        let plan = Repair::plan(&world.disk(), Path::new(DIR), None, 3).await.expect("a plan");
        assert!(plan.findings()[0].advice.contains("Nothing names this journal"), "{:?}", plan.findings());
        plan.apply().await.expect("repaired");
        let node = world.open().await.expect("it opens");
        assert_eq!(see(&node, UNUSED).await.expect("served"), victim.tenants);
    });
}

#[test]
fn a_catalogue_older_than_the_partitions_is_refused_and_gives_their_numbers_to_nobody() {
    let victim = victim(1);
    let world = World::new(1, &victim.image);
    world.sim.block_on(async {
        for path in victim.anchors.keys() {
            world.replace(path, None).await;
        }
        for (path, bytes) in &victim.older[0] {
            world.replace(path, Some(bytes)).await;
        }
        let refusal = world.open().await.err().expect("it is too old").to_string();
        assert!(refusal.contains("/weir/partitions/0000") && refusal.contains("older"), "{refusal}");
        assert!(world.problems().await.contains(&refusal));
        Repair::plan(&world.disk(), Path::new(DIR), None, 3).await.expect("a plan").apply().await.expect("repaired");
        let node = world.open().await.expect("it opens");
        node.create_tenant(TenantSpec::new(name("new"))).await.expect("created");
        write(&node, "new", b"new").await.expect("written");
        let number = node.tenant(&name("new")).expect("there").partitions()[0].owner().partition;
        let own = PathBuf::from(format!("/weir/partitions/{number:06}"));
        assert!(!victim.partitions.iter().any(|path| path.starts_with(&own)), "a number of its own: {number}");
        world.close(node).await;
        // Files that nobody names are reported, not removed.
        let problems = world.problems().await;
        assert!(problems.iter().any(|problem| problem.contains("belongs to no tenant")), "{problems:?}");
    });
    world.sim.block_on(world.rest());
    victim.assert_untouched(&world, "an older catalogue");
}

#[test]
fn a_directory_that_nobody_knows_is_left_alone_and_a_condemned_one_is_removed() {
    let victim = victim(1);
    let world = World::new(1, &victim.image);
    world.sim.block_on(async {
        // Numbers of the tenant that was dropped, and of what the emptied one had: gone, and struck off the list by a
        // later edit.
        let table = PathBuf::from("/weir/partitions/000004/tree/000001.sst");
        assert!(!victim.partitions.iter().any(|path| path.starts_with("/weir/partitions/000004")), "it was dropped");
        world.replace(&table, Some(b"somebody's")).await;
        let problems = world.problems().await;
        assert!(problems.len() == 1 && problems[0].contains("000004 belongs to no tenant"), "{problems:?}");
        let node = world.open().await.expect("that is no reason not to serve the others");
        assert_eq!(see(&node, UNUSED).await.expect("served"), victim.tenants);
        node.drop_tenant(&name("shop")).await.expect("dropped");
    });
    world.sim.block_on(world.rest());
    world.sim.block_on(async {
        let there = world.files("partitions").await;
        assert!(there.contains_key(Path::new("/weir/partitions/000004/tree/000001.sst")), "nobody condemned it");
        assert!(!there.keys().any(|path| path.starts_with("/weir/partitions/000002")), "shop was dropped");
    });
}

#[test]
fn a_lost_current_of_a_tree_is_found_again() {
    let victim = victim(1);
    for damage in [None, Some(&b""[..]), Some(b"MANIFEST-000099 00000000\n")] {
        let world = World::new(1, &victim.image);
        world.sim.block_on(async {
            let current = Path::new("/weir/partitions/000001/tree/CURRENT");
            world.replace(current, damage).await;
            let plan = Repair::plan(&world.disk(), Path::new(DIR), None, 3).await.expect("a plan");
            assert_eq!(plan.findings().len(), 1, "{:?}", plan.findings());
            plan.apply().await.expect("repaired");
            let problems = world.problems().await;
            assert!(problems.is_empty(), "{problems:?}");
            let node = world.open().await.expect("it opens");
            assert_eq!(see(&node, UNUSED).await.expect("served"), victim.tenants);
        });
    }
}

#[test]
fn a_backup_is_no_nodes_directory() {
    let victim = victim(1);
    let world = World::new(1, &victim.image);
    world.sim.block_on(async {
        for path in ["/backup", "/nowhere", "/"] {
            let error = weir_node::check(&world.disk(), Path::new(path), |_, _| {}).await.expect_err("refused");
            assert_eq!(error.to_string().contains("weir backup --verify /backup"), path == "/backup", "{error}");
            assert!(Repair::plan(&world.disk(), Path::new(path), None, 3).await.is_err());
            assert!(world.fs.open(&Path::new(path).join("LOCK"), weir_io::OpenOptions::read(), TAG).await.is_err());
        }
    });
}
