//! Parts of a deleted row, and deleted rows, that readers still hold in memory: snapshots leave them out.

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner, Turn};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::engine::{JobReport, Jobs, Reads, Records};
use weir_model::parts::{Head, Life, RowType, cover_key};
use weir_model::{Batch, Change, StoredKey};

const PARTS: u64 = 1000;

fn open(sim: &Sim, fs: &Arc<dyn Fs>) -> Arc<Store> {
    let env = Env {
        fs: Arc::clone(fs),
        dir: PathBuf::from("/store"),
        owner: Owner { tenant: 1, partition: 1 },
        clock: sim.clock(),
        budget: Arc::new(Budget::new(u64::MAX)),
        salt: 7,
    };
    sim.block_on(Store::open(env, StoreOptions::default())).expect("no faults")
}

fn apply(store: &Store, index: u64, batch: &Batch) {
    let applied = store.apply(index, batch.as_ref());
    store.publish(applied.last_seq);
}

/// The parts of the life `version` of the row `name`, and its head.
fn row(batch: &mut Batch, name: &[u8], version: u64, parts: u64) {
    let key = StoredKey::new(0, name);
    let life = Life::new(version);
    (0..parts).for_each(|part| batch.put(&life.part(0, &part.to_be_bytes()), &[7; 100]));
    let head = Head { count: parts, ..Head::new(RowType::Hash, version) };
    batch.push(Change::Head { key: &key, head: &head.encode(), expire_at_ms: None });
}

fn snapshot(sim: &Sim, store: &Store) -> JobReport {
    store.seal();
    let job = store.next_flush().expect("it was asked for");
    sim.block_on(job.run()).expect("no faults")
}

#[test]
fn a_snapshot_leaves_out_the_parts_of_a_deleted_row_and_no_others() {
    let sim = Sim::new(1);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let store = open(&sim, &fs);
    let mut batch = Batch::new();
    row(&mut batch, b"gone", 1, PARTS);
    // Its neighbours in the order of the keys, one of which begins as it does.
    row(&mut batch, b"gon", 2, 3);
    row(&mut batch, b"gone!", 3, 4);
    apply(&store, 1, &batch);
    assert_eq!(snapshot(&sim, &store).entries_out, PARTS + 3 + 4 + 3);

    // A reader from before: the parts stay in memory.
    let reader = store.snapshot();
    let key = StoredKey::new(0, b"gone");
    let mut batch = Batch::new();
    batch.delete(&key);
    batch.push(Change::Cover { key: &cover_key(1), bytes: 1000 });
    // And the row's next life.
    row(&mut batch, b"gone", 2000, 5);
    apply(&store, 2, &batch);
    let report = snapshot(&sim, &store);
    assert!(report.entries_in > PARTS, "they are there: {report:?}");
    assert_eq!(report.entries_out, 1 + 5 + 3 + 4 + 3, "{report:?}");
    drop((reader, store));

    let store = open(&sim, &fs);
    let get = |key: &[u8]| sim.block_on(store.get(key, None)).expect("no faults");
    for (name, version, parts) in [(&b"gone"[..], 2000, 5), (b"gon", 2, 3), (b"gone!", 3, 4)] {
        let key = StoredKey::new(0, name);
        let life = Life::new(version);
        assert!(get(&key).is_some() && (0..parts).all(|part: u64| get(&life.part(0, &part.to_be_bytes())).is_some()));
    }
    assert!(get(&Life::new(1).part(0, &0_u64.to_be_bytes())).is_none());
}

#[test]
fn a_snapshot_gives_way_while_it_passes_deleted_rows() {
    const ROWS: u64 = 100_000;
    let sim = Sim::new(1);
    let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let store = open(&sim, &fs);
    let keys = || (0..ROWS).map(|number| StoredKey::new(0, &number.to_be_bytes()));
    let mut batch = Batch::new();
    keys().for_each(|key| batch.put(&key, b"1"));
    apply(&store, 1, &batch);
    // A reader from before: the deleted rows stay in memory.
    let _reader = store.snapshot();
    let mut batch = Batch::new();
    keys().for_each(|key| batch.delete(&key));
    apply(&store, 2, &batch);

    store.seal();
    let mut work = pin!(store.next_flush().expect("it was asked for").run());
    let mut polls = 0;
    let report = sim.block_on(poll_fn(|cx| {
        polls += 1;
        work.as_mut().poll(cx)
    }));
    let report = report.expect("no faults");
    assert_eq!((report.entries_in, report.entries_out), (ROWS, 0));
    // Besides a few polls for the files. A row counts for 64 bytes and its key.
    let turns = ROWS * 64 / Turn::BYTES as u64;
    assert!(polls > turns, "{polls} polls for {turns} turns");
}
