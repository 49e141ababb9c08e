//! Power cuts and failing disks between the two copies of an edit.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind};
use weir_node::{Node, TenantSettings, TenantSpec};

use super::world::{Tenants, World, name, see, settings, write};

/// The states that the operator and the tenants may have brought about: one of these holds.
type Possible = Arc<Mutex<Vec<Tenants>>>;

/// What a power cut has left, what may be in it, and where it was cut.
type Cut = (DiskImage, Vec<Tenants>, String);

const SHOPS: [&str; 3] = ["a", "b", "c"];

/// Carries out a random order, and notes which states are possible now.
async fn order(node: &Node, world: &World, number: u64, possible: &Possible, tenants: &mut Tenants) {
    let mut rng = world.sim.rng();
    let shop = SHOPS[rng.below(3) as usize];
    let mut after = tenants.clone();
    let before: Vec<Tenants> = possible.lock().clone();
    let mut is_edit = true;
    let outcome = match (after.get_mut(shop), rng.below(4)) {
        (None, _) => {
            after.insert(shop.into(), (number, vec![None]));
            possible.lock().push(after.clone());
            let spec = TenantSpec { settings: settings(number), ..TenantSpec::new(name(shop)) };
            node.create_tenant(spec).await.map(drop)
        }
        (Some(_), 0) => {
            after.remove(shop);
            possible.lock().push(after.clone());
            node.drop_tenant(&name(shop)).await
        }
        (Some(present), 1) => {
            present.1 = vec![None];
            possible.lock().push(after.clone());
            node.clear_tenant(&name(shop)).await
        }
        (Some(present), 2) => {
            present.0 = number;
            possible.lock().push(after.clone());
            let change = move |present: &mut TenantSettings| {
                *present = settings(number);
                Ok::<(), weir_io::Error>(())
            };
            node.alter_tenant(&name(shop), change).await
        }
        (Some(present), _) => {
            let value = number.to_le_bytes().to_vec();
            present.1 = vec![Some(value.clone())];
            possible.lock().push(after.clone());
            // A write that fails may happen later. Only edits are tested here.
            is_edit = false;
            world.fs.set_faults(FaultPlan::none());
            write(node, shop, &value).await
        }
    };
    if outcome.is_ok() {
        *possible.lock() = match is_edit {
            true => vec![after.clone()],
            // A write leaves in doubt what was, but not whether its own tenant is there, or was emptied.
            false => before.into_iter().filter_map(|doubtful| written(doubtful, shop, tenants, &after)).collect(),
        };
        *tenants = after;
    }
}

/// The state that may hold after a write to `shop`, if `state` was possible before it.
fn written(mut state: Tenants, shop: &str, before: &Tenants, after: &Tenants) -> Option<Tenants> {
    let values = &mut state.get_mut(shop)?.1;
    let is_same = *values == before[shop].1;
    values.clone_from(&after[shop].1);
    is_same.then_some(state)
}

/// Opens what a cut has left: it must be one of the possible states, and a check must find nothing wrong.
fn survive(image: &DiskImage, possible: &[Tenants], what: &str) {
    let world = World::new(5, image);
    world.sim.block_on(async {
        // Before the first start has made anything there is nothing to check.
        if let Ok(found) = weir_node::check(&world.disk(), std::path::Path::new("/weir"), |_, _| {}).await {
            let problems: Vec<_> = found.all_problems().map(ToString::to_string).collect();
            assert!(problems.is_empty(), "{what}: a power cut damages nothing: {problems:?}");
        }
        let node = world.open().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut seen = see(&node, &[]).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        seen.remove("default");
        assert!(possible.contains(&seen), "{what}: found {seen:?}, possible {possible:?}");
        world.close(node).await;
        // The state that was found stays.
        let node = world.open().await.unwrap_or_else(|error| panic!("{what}: once more: {error}"));
        let mut again = see(&node, &[]).await.expect("served");
        again.remove("default");
        assert_eq!(again, seen, "{what}: once more");
    });
}

#[test]
fn a_power_cut_at_any_change_leaves_the_last_order_done_or_not_done() {
    let mut cuts = 0;
    for seed in 0..6 {
        let world = World::new(seed, &DiskImage::new());
        let possible: Possible = Arc::new(Mutex::new(vec![Tenants::new()]));
        let images: Arc<Mutex<Vec<Cut>>> = Arc::default();
        {
            let (images, possible, mut rng) = (Arc::clone(&images), Arc::clone(&possible), world.sim.rng());
            world.fs.on_cut_point(move |fs, point| {
                let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
                let what =
                    format!("seed {seed}, change {} ({:?} of {})", point.index, point.kind, point.path.display());
                images.lock().push((fs.crash_keeping(keep, &mut rng), possible.lock().clone(), what));
            });
        }
        let mut tenants = Tenants::new();
        for _life in 0..3 {
            world.sim.block_on(async {
                let node = world.open().await.expect("it opens");
                for number in 0..6 {
                    order(&node, &world, 1 + number, &possible, &mut tenants).await;
                }
                world.close(node).await;
            });
            world.sim.block_on(world.rest());
        }
        world.fs.clear_hook();
        let images = std::mem::take(&mut *images.lock());
        cuts += images.len();
        for (image, possible, what) in images {
            survive(&image, &possible, &what);
        }
    }
    eprintln!("{cuts} cuts");
    assert!(cuts > 1_000, "only {cuts} cuts");
}

#[test]
fn failed_edits_and_power_cuts_together_leave_what_may_be() {
    let mut failed = 0;
    for seed in 0..150 {
        let world = World::new(seed, &DiskImage::new());
        let possible: Possible = Arc::new(Mutex::new(vec![Tenants::new()]));
        let mut tenants = Tenants::new();
        world.sim.block_on(async {
            let mut node = world.open().await.expect("it opens");
            for number in 0..12 {
                let mut rng = world.sim.rng();
                if rng.chance(0.5) {
                    let p = 0.02 + rng.unit() * 0.2;
                    let plan = FaultPlan::none()
                        .chance(OpKind::Write, Fault::Error, p)
                        .chance(OpKind::Sync, Fault::Error, p)
                        .chance(OpKind::SyncDir, Fault::Error, p)
                        .chance(OpKind::Rename, Fault::Error, p)
                        .chance(OpKind::Create, Fault::NoSpace, p);
                    world.fs.set_faults(plan);
                }
                order(&node, &world, 1 + number, &possible, &mut tenants).await;
                world.fs.set_faults(FaultPlan::none());
                failed += possible.lock().len() - 1;
                let image = world.fs.crash_keeping(Keep::Random, &mut rng);
                survive(&image, &possible.lock(), &format!("seed {seed}, order {number}"));
                if rng.chance(0.3) {
                    // Killed: what it wrote is in the page cache, durable or not. What the next process finds there
                    // holds from then on.
                    drop(node);
                    world.rest().await;
                    node = world.open().await.expect("it opens");
                    let image = world.fs.crash_keeping(Keep::Random, &mut rng);
                    tenants = see(&node, &[]).await.expect("served");
                    tenants.remove("default");
                    assert!(
                        possible.lock().contains(&tenants),
                        "seed {seed}, killed after order {number}: {tenants:?}"
                    );
                    *possible.lock() = vec![tenants.clone()];
                    survive(&image, &possible.lock(), &format!("seed {seed}, killed after order {number}"));
                }
            }
        });
    }
    eprintln!("{failed} orders were in doubt when the power was cut");
    assert!(failed > 100, "only {failed}");
}

/// The list of partitions that are to be removed does not grow with every drop.
#[test]
fn what_was_removed_is_forgotten() {
    let world = World::new(3, &DiskImage::new());
    let sizes: BTreeMap<u64, usize> = (0..3)
        .map(|life| {
            world.sim.block_on(async {
                let node = world.open().await.expect("it opens");
                for _ in 0..40 {
                    node.create_tenant(TenantSpec::new(name("shop"))).await.expect("created");
                    write(&node, "shop", b"value").await.expect("written");
                    node.drop_tenant(&name("shop")).await.expect("dropped");
                    world.rest().await;
                }
                world.close(node).await;
            });
            world.sim.block_on(world.rest());
            // A start and one edit: a snapshot of what holds.
            world.sim.block_on(async {
                let node = world.open().await.expect("it opens");
                node.create_tenant(TenantSpec::new(name(&format!("stays{life}")))).await.expect("created");
                world.close(node).await;
                (life, world.files("catalogue").await.values().map(Vec::len).sum())
            })
        })
        .collect();
    assert!(sizes[&2] < sizes[&0] + 60, "the catalogue does not grow by what was dropped: {sizes:?}");
}

/// The mirror's new journal is in force, but not durably, when the process is killed. The journal that it replaced may
/// be removed only when it is durable.
#[test]
fn no_journal_is_removed_before_the_one_in_force_is_durable() {
    for seed in 0..60 {
        let world = World::new(seed, &DiskImage::new());
        world.sim.block_on(async {
            let node = world.open().await.expect("it opens");
            world.close(node).await;
            // The first edit of a process rolls both copies, and syncs the directory of each twice.
            let node = world.open().await.expect("it opens");
            let begun = world.fs.counters().total(OpKind::SyncDir).ops;
            world.fs.set_faults(FaultPlan::none().fail_nth(Some(OpKind::SyncDir), begun + 3, Fault::Error));
            let error = node.create_tenant(TenantSpec::new(name("shop"))).await.err().expect("it cannot be confirmed");
            assert!(error.path().ends_with("catalogue.mirror"), "{error}");
            world.fs.set_faults(FaultPlan::none());
            drop(node);
            world.rest().await;
            let node = world.open().await.expect("it opens");
            let shop = Tenants::from([("shop".into(), (0, vec![None]))]);
            assert!(node.tenant(&name("shop")).is_some(), "both copies have it");
            survive(&world.fs.crash_keeping(Keep::Random, &mut world.sim.rng()), &[shop], &format!("seed {seed}"));
        });
    }
}
