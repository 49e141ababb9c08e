//! The part of an outcome that is the same in every world: what clients saw.

use serde_json::Map;

use crate::outcome::{Bytes, Latency, Outcome, Second, Spread, Stalls, ratio, tail};
use crate::plan::Plan;
use crate::steadiness;
use crate::tally::Tally;

/// The outcome of `plan` as its clients saw it, and what follows from `series`; the load moved `bytes`. The figures
/// that only the world knows are empty: its other parameters, stalls and stages, how busy the device was, and what came
/// after the load.
pub fn outcome(plan: &Plan, world: &str, profile: &str, tally: &Tally, series: &[Second], bytes: Bytes) -> Outcome {
    let load = &series[..series.len().min(plan.args.seconds as usize)];
    let served = || load.iter().map(|second| second.served);
    let has_reads = tally.partition_reads.iter().any(|&(all, _)| all > 0);
    Outcome {
        scenario: plan.scenario.into(),
        world: world.into(),
        profile: profile.into(),
        params: Map::new(),
        seed: plan.args.seed,
        normally_served: Spread::of(&tally.shares()),
        latency_us: Latency::of(&tally.writes),
        read_latency_us: Latency::of(&tally.reads),
        reads_in_time: has_reads.then(|| Spread::of(&tally.read_shares())),
        stalls: Stalls::default(),
        mean_per_sec: served().sum::<u64>() as f64 / load.len().max(1) as f64,
        tail_per_sec: tail(served()),
        served_per_sec: served().collect(),
        reads_per_sec: load.iter().map(|second| second.reads).collect(),
        bytes,
        background_amplification: ratio(bytes.background(), bytes.user),
        device_utilisation: 0.0,
        utilisation_backlogged: None,
        stages: Vec::new(),
        memory_peak_bytes: series.iter().map(|second| second.memory).max().unwrap_or(0),
        tenants: tally.rows(plan.sizes()),
        after: None,
        operations: if plan.mix().is_some() { tally.by_kind.rows() } else { Vec::new() },
        waking: None,
        steadiness: plan.even_from().map(|second| steadiness::of(&load[load.len().min(second as usize)..])),
    }
}
