//! `weir bench tenants`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use indicatif::ProgressBar;
use weir_bench::Result;
use weir_bench::tenants::attack::Attack;
use weir_bench::tenants::{self, active, limited, restart, sleepers, victim};
use weir_scenario::progress::spinner;

use super::{as_json, remove_dir, write_text};

/// Many tenants on one server: how much one suffers from another's attacks; or, with one of the options, what many
/// tenants cost
#[derive(Debug, Args)]
pub struct TenantsArgs {
    /// The same load over each of these numbers of active tenants, compared with the number before: 1,100,1000
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["sleepers", "restart", "limited"])]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    active: Vec<usize>,
    /// N tenants asleep: memory, open files, the first reply
    #[arg(long, value_name = "N", conflicts_with_all = ["restart", "limited"])]
    sleepers: Option<usize>,
    /// A hundred tenants with 1 GB of log, a kill, and all of them asking at once
    #[arg(long, conflicts_with = "limited")]
    restart: bool,
    /// A tenant with twice the load that its limit allows, and its neighbour
    #[arg(long)]
    limited: bool,
    /// Attacks, separated by commas, or `all`: flood, large-values, keys, hgetall, smembers, lrange, zrange, sort, lua,
    /// lua-calls, half-sent, announced, unread, unread-messages, storm, blocked
    #[arg(long, default_value = "all")]
    attacks: String,
    /// Rounds; every round runs every attack, and for comparison a process that burns as much processor time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Requests per second of --active; reads per second that --limited allows
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// When the server syncs: interval, always or none
    #[arg(long, default_value = "interval")]
    sync: String,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Also write every run as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl TenantsArgs {
    pub(super) fn run(self) -> Result<()> {
        let ours = !self.dir.exists();
        let bar = spinner();
        let outcome = self.measure(&bar);
        bar.finish_and_clear();
        // If it failed, files may be left in the directory; the reason of the failure is what matters.
        let (text, json) = outcome?;
        print!("{text}");
        write_text(self.json.as_deref(), &json)?;
        remove_dir(&self.dir, ours && self.dir.exists())
    }

    /// What was measured, in words and as JSON.
    fn measure(&self, bar: &ProgressBar) -> Result<(String, String)> {
        let progress = |line: &str| bar.set_message(line.to_owned());
        let Self { rounds, seconds, .. } = *self;
        let (dir, sync) = (self.dir.clone(), self.sync.clone());
        let weir = std::env::current_exe()?;
        if !self.active.is_empty() {
            let plan = active::Plan { tenants: self.active.clone(), rate: self.rate, rounds, seconds, sync, dir, weir };
            let all = active::run(&plan, progress)?;
            let said =
                format!("{} requests per second, half of them writes; medians of {rounds} rounds\n\n", self.rate);
            return Ok((said + &active::table(&all, &plan.tenants), as_json(&all)?));
        }
        if let Some(tenants) = self.sleepers {
            let slept = sleepers::run(&sleepers::Plan { tenants, sync, dir, weir }, progress)?;
            return Ok((sleepers::words(&slept), as_json(&slept)?));
        }
        if self.restart {
            let plan = restart::Plan { tenants: 100, log_bytes: 1_000_000_000, rounds, sync, dir, weir };
            let all = restart::run(&plan, progress)?;
            return Ok((restart::words(&all), as_json(&all)?));
        }
        if self.limited {
            let all = limited::run(&limited::Plan { limit: self.rate, rounds, seconds, dir, weir }, progress)?;
            return Ok((limited::words(&all), as_json(&all)?));
        }
        let attacks = match self.attacks.as_str() {
            "all" => Attack::ALL.to_vec(),
            names => names.split(',').map(Attack::parse).collect::<Result<_>>()?,
        };
        let all = tenants::run(&tenants::Plan { attacks, rounds, seconds, dir, weir }, progress)?;
        let precedence = match all.iter().all(|one| one.attacked.has_precedence) {
            true => "its own threads go before all others",
            false => {
                "its own threads wait for a processor like the attackers': the system does not let them go before (run as root)"
            }
        };
        let said = format!(
            "{} reads and writes per second beside each attack; medians of {rounds} rounds; {precedence}\n\n",
            victim::RATE
        );
        Ok((said + &tenants::table(&all), as_json(&all)?))
    }
}
