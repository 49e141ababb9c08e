//! `rocksdb-autotune` compared with a real RocksDB: the curve by which a limiter comes back from silence, second by
//! second.
//!
//! RocksDB's limiter was measured on its own code, called directly (10.10.1, `NewGenericRateLimiter` with `auto_tuned`,
//! 108 MB/s): ten seconds of silence, then an open loop of requests from eight threads (four for compactions). A
//! RocksDB 7.8.3 that reads 1 GB through 8 MB of cache answers 1,686 reads in the first second and 3,000 in the last of
//! thirty with 10 ms between refills, and 1,720 and 2,520 with 100 ms. The bytes of a read below come from these
//! figures: 5.4 MB/s are 1,686 reads of 3203 bytes while the cache fills; when the cache was warm, RocksDB needed 7.3
//! MB/s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::*;
use weir_admission::cost::Capacity;
use weir_admission::policy::bandwidth::{Autotune, AutotuneSettings, BandwidthPolicy, BandwidthSettings};
use weir_admission::policy::meter::Load;
use weir_admission::policy::{MemoryFacts, Operations, PartitionSample, Sample};
use weir_admission::{Direction, Limits, PartitionGate, Rank};
use weir_io::sim::Sim;
use weir_io::{Class, Nanos, sleep_until};

/// The foreground bandwidth of a partition that was sold 3000 reads and writes a second.
const FRONT: u64 = 3000 * 4 * 4096 + 3000 * 1024;
const LARGEST: u64 = 108_000_000;
const SILENCE: u64 = 10;

/// An open loop of requests.
struct Requests {
    class: Class,
    per_second: u64,
    /// Bytes of a request in the first second, and later.
    bytes: [u64; 2],
}

/// Requests that pass in each of `seconds` after the silence.
fn recover(step: Nanos, load: &Requests, seconds: usize) -> Vec<u64> {
    let sim = Sim::new(3);
    let gates = PartitionGate::new(owner(1), &sim.clock());
    let passed: Arc<Vec<AtomicU64>> = Arc::new((0..seconds).map(|_| AtomicU64::new(0)).collect());
    let asked = Arc::new(AtomicU64::new(0));
    let settings = BandwidthSettings { read_amplification: 4, background: LARGEST - FRONT };
    let mut policy = Autotune::new(settings, AutotuneSettings { start: 0.5, step });
    let ticker = (Arc::clone(&gates), Arc::clone(&asked), sim.clock());
    sim.spawn(async move {
        let (gates, asked, clock) = ticker;
        for second in 0.. {
            sleep_until(&clock, second * SEC).await;
            let partition = PartitionSample {
                owner: owner(1),
                capacity: Capacity { rcu: 3000, wcu: 3000 },
                partitions: 1,
                drains: gates.foreground().drains(),
                ops: Operations { read: asked.load(Relaxed), ..Operations::default() },
                ..PartitionSample::default()
            };
            let (device, memory) = (Limits::UNLIMITED, MemoryFacts::default());
            let sample = Sample { now: second * SEC, device, memory, partitions: vec![partition] };
            let knobs = policy.decide(&sample, &[Load::default()])[0];
            gates.set_foreground(knobs.foreground, knobs.one_bucket);
        }
    });
    // The limiter's steps are counted from the first request on.
    let start = SILENCE * SEC + MS;
    for number in 0..load.per_second * seconds as u64 {
        let due = start + number * SEC / load.per_second;
        let bytes = load.bytes[usize::from(due - start >= SEC)];
        let (gates, passed, asked, clock, class) =
            (Arc::clone(&gates), Arc::clone(&passed), Arc::clone(&asked), sim.clock(), load.class);
        sim.spawn(async move {
            sleep_until(&clock, due).await;
            asked.fetch_add(1, Relaxed);
            let rank = Rank::of(class);
            let _grant = gates.gate(rank).request(owner(1), rank, Direction::Read, bytes).await;
            if let Some(passed) = passed.get(((clock.now() - start) / SEC) as usize) {
                passed.fetch_add(1, Relaxed);
            }
        });
    }
    sim.run_until(start + seconds as u64 * SEC);
    passed.iter().map(|passed| passed.load(Relaxed)).collect()
}

/// Asserts that every second's figure is within 15 % of RocksDB's.
fn assert_like(found: &[u64], rocksdb: &[u64]) {
    for (second, (&found, &rocksdb)) in found.iter().zip(rocksdb).enumerate() {
        let ratio = found as f64 / rocksdb as f64;
        assert!((0.85..=1.15).contains(&ratio), "second {second}: {found}, RocksDB's {rocksdb}");
    }
    assert!(found.len() >= rocksdb.len());
}

/// RocksDB's figures for 3000 reads a second of 6000 bytes, with a refill every 10 ms: a step a second.
const COLD: [u64; 40] = [
    891, 935, 981, 1031, 1081, 1135, 1192, 1239, 1301, 1379, 1448, 1512, 1580, 1658, 1776, 1846, 1918, 2033, 2134,
    2240, 2351, 2468, 2590, 2692, 2855, 2996, 3147, 3304, 3434, 3641, 3784, 4013, 4213, 4423, 4643, 4874, 5064, 5371,
    5641, 5922,
];

#[test]
fn reads_alone_raise_the_limit_as_rocksdb_does() {
    let reads = Requests { class: Class::Read, per_second: 3000, bytes: [6000; 2] };
    assert_like(&recover(SEC, &reads, COLD.len()), &COLD);
}

/// The same for 60 MB of compactions a second in operations of 32 KiB.
const BEHIND: [u64; 56] = [
    161, 169, 180, 189, 198, 206, 218, 230, 238, 252, 266, 278, 289, 304, 322, 335, 355, 368, 387, 410, 431, 452, 475,
    498, 522, 549, 576, 605, 634, 667, 699, 734, 771, 809, 850, 891, 936, 983, 1031, 1082, 1137, 1193, 1240, 1315,
    1380, 1450, 1522, 1597, 1677, 1762, 1848, 1941, 2037, 2138, 2245, 2332,
];

#[test]
fn compactions_alone_raise_the_limit_as_rocksdb_does() {
    let merges = Requests { class: Class::CompactDeep, per_second: 1831, bytes: [32_768; 2] };
    assert_like(&recover(SEC, &merges, BEHIND.len()), &BEHIND);
}

/// The same for 3000 reads a second for which a cache warms up.
const WARM: [u64; 30] = [
    1652, 1877, 2386, 2506, 2656, 2789, 2927, 3072, 3193, 3385, 3554, 3733, 3918, 4115, 3211, 2997, 2243, 2291, 2403,
    2523, 2647, 2778, 2916, 3060, 3213, 3374, 3506, 3718, 3904, 3421,
];
/// The second by which everything that had piled up was answered.
const CAUGHT_UP: usize = 15;

#[test]
fn a_limiter_that_has_caught_up_falls_to_the_floor_again() {
    // A single second without a drain is enough, under a load that has not changed.
    let reads = Requests { class: Class::Read, per_second: 3000, bytes: [3203, 2444] };
    let found = recover(SEC, &reads, WARM.len());
    assert_like(&found, &WARM[..CAUGHT_UP]);
    let lowest = |seconds: &[u64]| *seconds[CAUGHT_UP..].iter().min().expect("some seconds more");
    assert_like(&[lowest(&found)], &[lowest(&WARM)]);
    // The figures of the whole store.
    assert_like(&found, &[1686]);
}

/// The same with a refill every 100 ms: a step in ten seconds.
const SLOW: [u64; 30] = [
    1685, 1802, 2209, 2210, 2209, 2210, 2209, 2210, 2209, 2210, 2309, 2320, 2320, 2320, 2320, 2320, 2319, 2320, 2320,
    2320, 2425, 2436, 2436, 2436, 2436, 2436, 2436, 2436, 2435, 2436,
];

#[test]
fn at_the_default_refill_a_step_takes_ten_seconds() {
    let reads = Requests { class: Class::Read, per_second: 3000, bytes: [3203, 2444] };
    let found = recover(10 * SEC, &reads, SLOW.len());
    assert_like(&found, &SLOW);
    // The figures of the whole store.
    assert_like(&[found[0], found[29]], &[1720, 2520]);
}
