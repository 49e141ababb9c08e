//! The same load over one tenant, a hundred, a thousand: what it costs that there are many.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::steady::{self, Felt, Load};
use super::user::User;
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::report::median::{median, median_of_counts};
use crate::report::words::{align, time};

/// Keys over all tenants together.
const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 128;
/// Bounds of a number of tenants, relative to the number before it.
const P99_MAX: f64 = 1.2;
const CPU_MAX: f64 = 1.1;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of tenants, each compared with the number before it.
    pub tenants: Vec<usize>,
    /// Requests per second in all, half of them writes.
    pub rate: u32,
    /// Every round measures every number, in turn.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// `sync` of the server.
    pub sync: String,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Active tenants.
    pub tenants: usize,
    /// The round, from 1.
    pub round: u32,
    /// What clients felt.
    pub felt: Felt,
}

/// Runs every round. Each number of tenants has a server of its own, and all have the same number of connections.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Measured>> {
    super::raise_file_limit();
    let config = format!("connections_max = 20000\nsync = \"{}\"\n", plan.sync);
    let dir = |tenants: usize| plan.dir.join(format!("active-{tenants}"));
    let mut users = Vec::new();
    for &tenants in &plan.tenants {
        progress(&format!("creating and loading {tenants} tenants"));
        child_server::remove(&dir(tenants))?;
        let server = ChildServer::start(&plan.weir, &dir(tenants), &config)?;
        let created = User::create_many(&server, "user", tenants)?;
        created.iter().try_for_each(|user| user.load(server.port(), KEYS / tenants as u64, VALUE_BYTES))?;
        server.stop()?;
        users.push(created);
    }
    let connections = plan.tenants.iter().copied().max().unwrap_or(1);
    let mut all = Vec::new();
    for round in 1..=plan.rounds {
        for position in 0..plan.tenants.len() {
            // The order turns round every round.
            let position = if round % 2 == 0 { plan.tenants.len() - 1 - position } else { position };
            let tenants = plan.tenants[position];
            progress(&format!("round {round}: {tenants} tenants"));
            let server = ChildServer::start(&plan.weir, &dir(tenants), &config)?;
            let load = Load {
                rate: plan.rate,
                connections,
                keys: KEYS / tenants as u64,
                writes: 50,
                warm_up: Duration::from_secs(3),
                duration: Duration::from_secs(plan.seconds),
            };
            let felt = steady::measure(&server, &users[position], &load)?;
            server.stop()?;
            all.push(Measured { tenants, round, felt });
        }
    }
    plan.tenants.iter().try_for_each(|&tenants| child_server::remove(&dir(tenants)))?;
    Ok(all)
}

/// Medians of the rounds, and ratios to the number before, with their range over rounds.
pub fn table(all: &[Measured], numbers: &[usize]) -> String {
    let header = [
        "tenants",
        "answered",
        "p50",
        "p99",
        "max",
        "CPU an operation",
        "p99 ratio",
        "CPU ratio",
        "wanted: <= 1.2, <= 1.1",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    let of = |tenants: usize| -> Vec<&Felt> {
        all.iter().filter(|one| one.tenants == tenants).map(|one| &one.felt).collect()
    };
    let cpu = |felt: &Felt| felt.cpu_seconds * 1e9 / felt.ops.max(1) as f64;
    for (position, &tenants) in numbers.iter().enumerate() {
        let felt = of(tenants);
        let middle = |number: &dyn Fn(&Felt) -> f64| median_of_counts(felt.iter().map(|one| number(one) as u64));
        let ratios = |number: &dyn Fn(&Felt) -> f64| -> Option<[f64; 3]> {
            let before = of(*numbers.get(position.checked_sub(1)?)?);
            let mut ratios: Vec<f64> =
                felt.iter().zip(before).map(|(now, before)| number(now) / number(before).max(1.0)).collect();
            ratios.sort_by(f64::total_cmp);
            Some([*ratios.first()?, median(&ratios)?, *ratios.last()?])
        };
        let words = |ratios: Option<[f64; 3]>| {
            ratios.map_or(String::new(), |[low, middle, high]| format!("{middle:.2} [{low:.2} .. {high:.2}]"))
        };
        let (p99, spent) = (ratios(&|one| one.p99_ns as f64), ratios(&cpu));
        let met = match (p99, spent) {
            (Some([_, p99, _]), Some([_, spent, _])) if p99 <= P99_MAX && spent <= CPU_MAX => "met",
            (Some(_), Some(_)) => "not met",
            _ => "",
        };
        rows.push([
            tenants.to_string(),
            middle(&|one| one.ops as f64).to_string(),
            time(middle(&|one| one.p50_ns as f64)),
            time(middle(&|one| one.p99_ns as f64)),
            time(middle(&|one| one.max_ns as f64)),
            time(middle(&cpu)),
            words(p99),
            words(spent),
            met.to_owned(),
        ]);
    }
    align(&rows)
}
