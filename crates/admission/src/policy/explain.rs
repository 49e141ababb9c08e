//! Why a partition is in its state, in words for an operator; and what a policy would have decided from what it saw.

use std::fmt::Write as _;

use weir_io::Owner;

use super::history::Tick;
use super::knobs::{PartitionKnobs, Scope, Stage};
use super::profile::{Decision, Policy, Profile, Settings};
use super::sample::{Sample, TreeFacts};

/// What `tick` decided about `owner`, and from which figures; `None` if the partition was not awake.
pub fn explain(tick: &Tick, owner: Owner) -> Option<String> {
    let index = tick.sample.partitions.iter().position(|partition| partition.owner == owner)?;
    let partition = tick.sample.partitions.get(index)?;
    let (load, knobs) = (tick.decision.loads.get(index)?, tick.decision.knobs.partitions.get(index)?);
    let (tree, mega) = (&partition.tree, |bytes: f64| bytes / 1e6);
    let does = match knobs.stage {
        Stage::One if knobs.scope == Scope::All => "deeper compactions get the bandwidth that all others leave",
        Stage::Normal => "no compaction is put off",
        Stage::One => "only compactions from level 0 to level 1 run",
        Stage::Two => "only merges within level 0 run",
        Stage::Drain => "level 0 is being emptied into level 1",
        Stage::Resume => "it is catching up on compactions that were put off",
    };
    let mut words = format!("{}: {does}, because {}.\n", knobs.stage.name(), knobs.why);
    let _ = writeln!(
        words,
        "It writes {:.1} MB/s; if nothing were put off, that would need {:.1} MB/s of flushes and compactions. They \
         use {:.1} MB/s now.",
        mega(load.ingest),
        mega(load.background_need()),
        mega(load.background),
    );
    let _ = writeln!(
        words,
        "Level 0 has {} of the {} runs at which writes are slowed; {} of {} memtables wait for a flush, which begins \
         when {} wait. Compactions still have to move {} MB.",
        tree.l0_runs,
        tree.l0_slow,
        tree.sealed,
        knobs.write_buffers,
        knobs.flush_gather,
        tree.debt() / 1_000_000,
    );
    words.push_str(&stall(tree, knobs));
    let violation = tick.decision.violation.as_ref();
    let leaving =
        violation.and_then(|violation| Some((violation, violation.moves.iter().find(|it| it.owner == owner)?)));
    if let Some((violation, leaving)) = leaving {
        let _ = writeln!(
            words,
            "It should leave this node, whose load needs {:.0} % of the disk: copying its {} MB would take {:.1} s \
             and free {:.0} % of the disk.",
            violation.demand * 100.0,
            leaving.bytes / 1_000_000,
            leaving.takes as f64 / 1e9,
            leaving.frees * 100.0,
        );
    }
    Some(words)
}

/// Whether writes wait already, and when they would.
fn stall(tree: &TreeFacts, knobs: &PartitionKnobs) -> String {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let is_long = tree.l0_slow > 0 && tree.l0_runs >= tree.l0_slow;
    let slowed = match knobs.write_rate {
        // The rate that the tree lets through may be lower.
        Some(rate) if is_long => Some(format!(
            "Its writes are slowed to {:.1} MB/s at most, because level 0 has {} runs",
            mega(rate),
            tree.l0_runs
        )),
        Some(rate) => Some(format!("Its writes are slowed to {:.1} MB/s, so that they do not stop", mega(rate))),
        None if is_long => Some(format!("Its writes are slowed, because level 0 has {} runs", tree.l0_runs)),
        None => None,
    };
    let seconds = knobs.time_to_stall.map(|nanos| nanos / 1_000_000_000);
    match (slowed, seconds) {
        (Some(slowed), Some(seconds)) => {
            format!("{slowed}; if all went on like this, they would stop in {seconds} s.\n")
        }
        (Some(slowed), None) => format!("{slowed}; if all went on like this, they would not stop.\n"),
        (None, Some(seconds)) => format!("If all went on like this, writes would stall in {seconds} s.\n"),
        (None, None) => "If all went on like this, writes would never stall.\n".to_owned(),
    }
}

/// What `profile` decides for `samples`, which are in the order of their time. It knows nothing before the first. If
/// the samples begin where the original decisions began, the decisions are the same.
pub fn replay<'a>(
    profile: Profile,
    settings: Settings,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> Vec<Decision> {
    let mut policy = Policy::new(profile, settings);
    samples.into_iter().map(|sample| policy.decide(sample)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::PartitionSample;
    use super::*;

    #[test]
    fn writes_that_are_slowed_are_not_said_to_never_stall() {
        let partition = PartitionSample::default();
        let open = PartitionKnobs::open(&partition);
        let short = TreeFacts { l0_runs: 3, l0_slow: 20, ..TreeFacts::default() };
        let long = TreeFacts { l0_runs: 20, ..short };
        let slowed = PartitionKnobs { write_rate: Some(1_500_000), ..open };
        let soon = |knobs| PartitionKnobs { time_to_stall: Some(7_000_000_000), ..knobs };
        assert_eq!(stall(&short, &open), "If all went on like this, writes would never stall.\n");
        assert_eq!(stall(&short, &soon(open)), "If all went on like this, writes would stall in 7 s.\n");
        for (tree, knobs, begin) in [
            (short, slowed, "Its writes are slowed to 1.5 MB/s, "),
            (long, slowed, "Its writes are slowed to 1.5 MB/s at most, because level 0 has 20 runs"),
            (long, open, "Its writes are slowed, because level 0 has 20 runs"),
        ] {
            let said = [stall(&tree, &knobs), stall(&tree, &soon(knobs))];
            assert!(said.iter().all(|said| said.starts_with(begin) && !said.contains("never")), "{said:?}");
            assert!(said[0].ends_with("would not stop.\n") && said[1].ends_with("would stop in 7 s.\n"), "{said:?}");
        }
    }
}
