//! One writer and readers on threads of their own: no read sees half of a batch, something older than what was
//! published when it began, or nothing at all where there is something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::Batch;
use weir_model::engine::{Lookup, Range, Reads, Records};

const BATCHES: u64 = 8_000;
/// Keys between the first and the last of a batch: the longer it takes to apply, the likelier a reader comes in
/// between.
const FILLERS: u64 = 20;

fn store(sim: &Sim) -> Arc<Store> {
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let (owner, budget) = (Owner { tenant: 1, partition: 1 }, Arc::new(Budget::new(u64::MAX)));
    let env = Env { fs, dir: "/store".into(), owner, clock: sim.clock(), budget, salt: 7 };
    sim.block_on(Store::open(env, StoreOptions::default())).expect("opens")
}

fn number(lookup: Lookup) -> u64 {
    let Lookup::Ready(Some(Ok(found))) = lookup else { panic!("everything is in memory") };
    found.map_or(0, |found| found.value[..].try_into().map_or(0, u64::from_le_bytes))
}

fn batch(round: u64) -> Batch {
    let (value, mut batch) = (round.to_le_bytes(), Batch::new());
    batch.put(b"first", &value);
    for filler in 0..FILLERS {
        // Rows come and go, so that the index is rebuilt under the readers.
        match (round + filler) % 3 {
            0 => batch.delete(&filler.to_le_bytes()),
            _ => batch.put(&filler.to_le_bytes(), &value),
        }
    }
    batch.put(b"last", &value);
    batch
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is about threads is tested with threads")]
fn readers_beside_a_writer_see_whole_batches_in_their_order() {
    let sim = Sim::new(1);
    let store = store(&sim);
    let (published, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let reads = AtomicU64::new(0);
    let until_done = |read: &(dyn Fn() + Sync)| {
        while done.load(Ordering::Acquire) == 0 {
            read();
            reads.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 1..=BATCHES {
                let applied = store.apply(round, batch(round).as_ref());
                // Now and then commits are late, and come together.
                if round % 4 != 0 {
                    store.publish(applied.last_seq);
                    published.store(round, Ordering::Release);
                }
            }
            done.store(1, Ordering::Release);
        });
        threads.spawn(|| {
            until_done(&|| {
                let before = published.load(Ordering::Acquire);
                let first = number(store.get(b"first", None));
                let last = number(store.get(b"last", None));
                assert!(before <= first && first <= last, "{before} was published; {first}, then {last} was seen");
                let first = number(store.get_latest(b"first"));
                let last = number(store.get_latest(b"last"));
                assert!(first <= last, "batch {first} was seen without its last key, which was of batch {last}");
            });
        });
        threads.spawn(|| {
            until_done(&|| {
                let before = published.load(Ordering::Acquire);
                let numbers: Vec<u64> = store.multi_get(&[b"last", b"first"]).into_iter().map(number).collect();
                assert!(numbers[0] == numbers[1] && numbers[0] >= before, "{before}, then {numbers:?} at one moment");
            });
        });
        threads.spawn(|| {
            until_done(&|| {
                let before = published.load(Ordering::Acquire);
                let mut scan = store.scan(Range { reverse: before % 2 == 0, ..Range::all() }, None);
                let (mut seen, mut rows) = (Vec::new(), 0);
                // It never waits: one poll is all.
                let mut next = || match futures_util::FutureExt::now_or_never(scan.next()) {
                    Some(Ok(Some(entry))) => Some((entry.key.to_vec(), entry.value.to_vec())),
                    _ => None,
                };
                while let Some((key, value)) = next() {
                    rows += 1;
                    let round = value[..].try_into().map_or(0, u64::from_le_bytes);
                    if key == b"first" || key == b"last" {
                        seen.push(round);
                    }
                }
                let round = seen.first().copied().unwrap_or(0);
                let wanted = if round == 0 { 0 } else { 2 };
                assert!(seen.len() == wanted && seen.iter().all(|&other| other == round), "{before}: {seen:?}");
                assert!(round >= before, "{before} was published, {round} was seen");
                // Every batch writes or deletes every filler.
                let lives = |filler: &u64| round > 0 && !(round + filler).is_multiple_of(3);
                assert_eq!(rows, (0..FILLERS).filter(lives).count() + wanted, "round {round}");
            });
        });
    });
    assert!(reads.load(Ordering::Relaxed) > 100, "the readers were there");
    assert_eq!(number(store.get_latest(b"last")), BATCHES);
}
