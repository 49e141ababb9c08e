//! Whether there is room for a batch in the memory that a tenant may use.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::engine::Records;
use weir_model::parts::{Life, cover_key};
use weir_model::{Batch, Change};

fn open(bytes_max: u64) -> (Sim, Arc<Store>) {
    let sim = Sim::new(1);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let (owner, budget) = (Owner { tenant: 1, partition: 1 }, Arc::new(Budget::new(bytes_max)));
    let env = Env { fs, dir: PathBuf::from("/store"), owner, clock: sim.clock(), budget, salt: 7 };
    let store = sim.block_on(Store::open(env, StoreOptions::default())).expect("no faults");
    (sim, store)
}

#[test]
fn a_row_that_a_batch_changes_several_times_frees_its_memory_once() {
    let (_sim, store) = open(100_000);
    let mut batch = Batch::new();
    batch.put(b"large", &[7; 60_000]);
    assert!(store.has_room_for(batch.as_ref()));
    let applied = store.apply(1, batch.as_ref());
    store.publish(applied.last_seq);
    for (bytes, has_room) in [(90_000, true), (110_000, false)] {
        let mut batch = Batch::new();
        for _ in 0..3 {
            batch.put(b"large", b"");
            batch.delete(b"large");
        }
        batch.put(b"larger", &vec![7; bytes]);
        assert_eq!(store.has_room_for(batch.as_ref()), has_room, "{bytes} bytes");
    }
}

#[test]
fn a_row_that_a_batch_deletes_makes_room_for_another_one() {
    let (_sim, store) = open(10_000);
    let row = |number: u32| number.to_be_bytes();
    let mut rows = 0;
    loop {
        let mut batch = Batch::new();
        batch.put(&row(rows), b"value");
        if !store.has_room_for(batch.as_ref()) {
            break;
        }
        rows += 1;
        let applied = store.apply(rows.into(), batch.as_ref());
        store.publish(applied.last_seq);
    }
    let mut batch = Batch::new();
    batch.put(&row(rows), b"value");
    batch.delete(&row(0));
    assert!(store.has_room_for(batch.as_ref()), "{rows} rows fit");
}

#[test]
fn a_row_that_a_batch_writes_several_times_takes_memory_once() {
    let (_sim, store) = open(100_000);
    let mut batch = Batch::new();
    for byte in 0..10 {
        batch.put(b"key", &[byte; 20_000]);
    }
    assert!(store.has_room_for(batch.as_ref()));
    batch.put(b"another", &[7; 90_000]);
    assert!(!store.has_room_for(batch.as_ref()));
}

/// As if a list is cut to a few values: these begin a new life, and the parts of the old life end with its cover.
#[test]
fn a_row_that_begins_anew_has_the_room_of_the_parts_that_end() {
    let (_sim, store) = open(100_000);
    let put = |batch: &mut Batch, version: u64, number: u32| {
        batch.put(&Life::new(version).part(0, &number.to_be_bytes()), &[7; 100]);
    };
    let mut old = 0;
    loop {
        let mut batch = Batch::new();
        put(&mut batch, 1, old);
        if !store.has_room_for(batch.as_ref()) {
            break;
        }
        old += 1;
        let applied = store.apply(old.into(), batch.as_ref());
        store.publish(applied.last_seq);
    }
    let has_room = |begins: (u64, u32), ends: &[u64], deleted: u32| {
        let mut batch = Batch::new();
        (0..begins.1).for_each(|number| put(&mut batch, begins.0, number));
        (0..deleted).for_each(|number| batch.delete(&Life::new(1).part(0, &number.to_be_bytes())));
        ends.iter().for_each(|&version| batch.push(Change::Cover { key: &cover_key(version), bytes: 1 }));
        store.has_room_for(batch.as_ref())
    };
    assert!(!has_room((2, 10), &[], 0), "nothing ends");
    assert!(has_room((2, old / 2), &[1], 0) && has_room((2, old), &[1], 0));
    assert!(!has_room((2, old + 10), &[1], 0), "it takes more than ends");
    assert!(!has_room((2, old + 10), &[1], old), "what is deleted and ends is freed once");
    assert!(!has_room((3, 10), &[3], 0), "what ends was not there before");
}
