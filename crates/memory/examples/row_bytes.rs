//! What rows cost in memory and time: counted and resident bytes a row, and nanoseconds of a write and a read.
//!
//! `cargo run --release -p weir-memory --example row_bytes [ROWS] [KEY_BYTES] [VALUE_BYTES]`

#![allow(clippy::disallowed_methods, reason = "it measures the machine")]

use std::sync::Arc;
use std::time::Instant;

use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Fs, Owner};
use weir_memory::{Budget, Env, Store, StoreOptions};
use weir_model::Batch;
use weir_model::engine::{Lookup, Reads, Records};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (rows, key_bytes, value_bytes) = (number(0, 1_000_000), number(1, 16) as usize, number(2, 100) as usize);
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let (owner, budget) = (Owner { tenant: 1, partition: 1 }, Arc::new(Budget::new(u64::MAX)));
    let env = Env { fs, dir: "/store".into(), owner, clock: sim.clock(), budget: Arc::clone(&budget), salt: 7 };
    let store = sim.block_on(Store::open(env, StoreOptions::default())).expect("opens");
    let mut order: Vec<u64> = (0..rows).collect();
    let mut rng = weir_io::Rng::new(1);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let key = |number: u64| format!("{number:0key_bytes$}").into_bytes();
    let value = vec![7; value_bytes];

    let before = resident_bytes();
    for (what, index) in [("new rows", 0), ("the same rows again", rows)] {
        let begin = Instant::now();
        for (at, number) in order.iter().enumerate() {
            let mut batch = Batch::new();
            batch.put(&key(*number), &value);
            let applied = store.apply(index + at as u64 + 1, batch.as_ref());
            store.publish(applied.last_seq);
        }
        let nanos = begin.elapsed().as_nanos() as u64 / rows;
        let (resident, counted) = ((resident_bytes() - before) / rows, budget.used() / rows);
        println!("{what}: {nanos} ns a write; {resident} bytes a row resident, {counted} counted");
    }
    order.reverse();
    let begin = Instant::now();
    let found =
        order.iter().filter(|number| matches!(store.get(&key(**number), None), Lookup::Ready(Some(Ok(Some(_))))));
    let found = found.count() as u64;
    println!("{} ns a read, {found} of {rows} found", begin.elapsed().as_nanos() as u64 / rows);
}
