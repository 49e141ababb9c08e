//! How many tenants one disk carries: every number that is tried is a comparison of its own, with data of its own.

use std::path::PathBuf;
use std::sync::Arc;

use weir_scenario::args::{Density, Scenario};
use weir_scenario::density::{self, Found};
use weir_scenario::eprintln;
use weir_scenario::outcome::{Outcome, Second};
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;

use super::Entry;
use super::compare::{Comparison, Measured, line};
use crate::Result;
use crate::harness::children::Children;
use crate::harness::in_turn;
use crate::harness::session::Program;
use crate::throttle::Caps;

/// A question: which contestant carries how many tenants.
#[derive(Clone, Debug)]
pub struct Question {
    /// The machine, and what its tenants were sold.
    pub args: Density,
    /// The share of what the device moves that may be reads (0 to 1), so that each direction has a limit of its own;
    /// `None` = reads and writes share the device.
    pub read_share: Option<f64>,
    /// The contestants, in this order, which is turned round with every week.
    pub contestants: Vec<Entry>,
    /// Directory on the disk to measure; created if missing.
    pub dir: PathBuf,
    /// The program that is started for each run.
    pub program: Program,
    /// The children that run.
    pub children: Arc<Children>,
}

impl Question {
    /// Checks whether this can be asked.
    ///
    /// # Errors
    /// The error says in words what cannot be asked.
    pub fn check(&self) -> Result<()> {
        if self.read_share.is_some_and(|share| !(0.05..=0.95).contains(&share)) {
            return Err("--reads must be between 5 and 95 percent".into());
        }
        Ok(self.args.check()?)
    }

    /// Every contestant's answer in every week, reported on standard error as it comes.
    ///
    /// # Errors
    /// The error says what went wrong first.
    pub fn answer(&self) -> Result<Vec<Found>> {
        let progress = Progress::default();
        let mut found = Vec::new();
        for (round, week) in (1..).zip(self.args.seed..self.args.seed + self.args.seeds) {
            for contestant in in_turn(&self.contestants, round) {
                let run = |plan: &Plan| {
                    let measured = self.run(contestant, plan, round, &progress).map_err(|error| error.to_string())?;
                    eprintln!("week {week}, {} tenants  {}", plan.args.partitions, line(&measured));
                    Ok(awake(measured))
                };
                found.push(density::find(&self.args, &contestant.name(), week, run)?);
            }
        }
        Ok(found)
    }

    /// The kernel's caps for `plan`.
    fn caps(&self, plan: &Plan) -> Caps {
        let device = plan.device();
        match self.read_share.map(|share| (device as f64 * share) as u64) {
            Some(read) => Caps { read, write: device - read, shared: false },
            None => Caps::pool(device),
        }
    }

    /// Runs the load of `plan` on `contestant`, from data of its own.
    fn run(&self, contestant: &Entry, plan: &Plan, round: u32, progress: &Progress) -> Result<Measured> {
        let (caps, tenants) = (self.caps(plan), plan.args.partitions);
        let week = Density { seed: plan.args.seed, ..self.args.clone() };
        let comparison = Comparison {
            scenario: Scenario::Density { machine: week, tenants },
            plan: Plan { caps: caps.all(), ..plan.clone() },
            contestants: vec![contestant.clone()],
            rounds: 1,
            caps,
            slowed: None,
            // As on a node that was calibrated. Knowing only the sum of both caps, Weir would not notice that writes
            // are at their cap while reads have room, and that is where this load ends.
            calibrated: !caps.shared,
            dir: self.dir.clone(),
            keep: false,
            program: self.program.clone(),
            children: Arc::clone(&self.children),
        };
        comparison.preload(progress)?;
        let bar = progress.bar(&format!("{}: {tenants} tenants", contestant.name()), plan.args.seconds);
        let mut told = |second: &Second| {
            bar.set_message(format!("{} writes/s", second.served));
            bar.inc(1);
        };
        let measured = comparison.one(contestant, round, "run", &mut told);
        bar.finish_and_clear();
        comparison.tidy()?;
        measured
    }
}

/// The outcome, with its writes judged as they are on a disk: within 10 ms, less the time by which a writer that had
/// nothing to do until then woke up late.
fn awake(measured: Measured) -> Outcome {
    Outcome { normally_served: measured.disk.within_10ms_awake, ..measured.run.outcome }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(read_share: impl Into<Option<f64>>) -> Question {
        let args = json!({
            "device": 250, "memory": 32, "served": 99.9, "from": 16, "precision": 5.0, "seconds": 60, "wcu": 3000, "rcu": 0,
            "item_bytes": 1024, "preload_items": 2_500_000, "scale": 100, "compactions": null, "seed": 1, "seeds": 1,
        });
        Question {
            args: serde_json::from_value(args).expect("arguments"),
            read_share: read_share.into(),
            contestants: vec![Entry::Weir("weir".into())],
            dir: "nowhere".into(),
            program: Program { path: "nothing".into(), arguments: Vec::new() },
            children: Arc::default(),
        }
    }

    #[test]
    fn both_caps_together_are_the_device_that_the_child_reckons_with() {
        let question = question(0.4);
        let plan = question.args.plan(12, 7).expect("it can be run");
        let caps = question.caps(&plan);
        assert_eq!(caps.all(), Some(plan.device()));
        let pool = Question { read_share: None, ..question.clone() }.caps(&plan);
        assert_eq!((pool.all(), pool.shared, caps.shared), (caps.all(), true, false));
        assert!((0.399..0.401).contains(&(caps.read as f64 / plan.device() as f64)));
        let machine = Density { seed: 7, ..question.args };
        let json = serde_json::to_string(&Scenario::Density { machine, tenants: 12 }).expect("it has a form");
        let of_child = serde_json::from_str::<Scenario>(&json).expect("it can be read").plan().expect("it can be run");
        assert_eq!((of_child.device(), of_child.args.partitions, of_child.args.seed), (plan.device(), 12, 7));
        assert_eq!(of_child.writes(11), plan.writes(11));
    }

    #[test]
    fn a_disk_that_only_reads_or_only_writes_is_refused() {
        question(0.4).check().expect("it can be asked");
        for share in [0.0, 1.0, f64::NAN] {
            assert!(question(share).check().expect_err("it cannot").to_string().contains("--reads"));
        }
    }
}
