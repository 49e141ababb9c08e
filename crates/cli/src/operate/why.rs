//! `weir why`: why a tenant's partitions are as they are.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_admission::policy::{Recording, Replayed};
use weir_gateway::admin::wire::{SlowReply, Why as Answer};
use weir_node::waits::Cause;
use weir_scenario::out;

use super::Outcome;
use super::client::Server;
use super::moment::{unix_seconds, utc};
use super::tenant::path;

/// Explains what slows a tenant down, and what the policies decided about it: stage, reason, time until a write would
/// stall.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Why {
    /// The tenant
    #[arg(required_unless_present_any = ["json", "replay"])]
    tenant: Option<String>,
    /// Explain the moment this many seconds ago; some minutes are remembered
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ago: u64,
    /// Explain this moment, in the form of RFC 3339 or in seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = unix_seconds, conflicts_with = "ago")]
    at: Option<u64>,
    /// Show every slow reply that is remembered, not only the last ten
    #[arg(long, conflicts_with_all = ["json", "replay"])]
    all_slow: bool,
    /// Print everything that the policies saw and decided lately, about all tenants, as JSON
    #[arg(long, conflicts_with_all = ["tenant", "ago", "at", "replay"])]
    json: bool,
    /// Decide again from the samples that --json has written to this file, and say whether the decisions are the same;
    /// needs no server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tenant", "ago", "at"])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

const EXAMPLES: &str = "\
Examples:
  weir why shop                                now
  weir why shop --ago 60                       a minute ago
  weir why shop --at 2026-11-21T14:03:00Z      seconds since 1970 do as well
  weir why --json > slow.json                  everything remembered: attach it to a bug report
  weir why --replay slow.json                  the same policies decide again, from what they saw then

The first sentence is what the tenant feels most: its own quota, its disk or connection limit, the node's queue, slowed writes or a
stall, its share of the disk, the disk, or nothing; what else it feels follows. Then each partition says which of its compactions are
put off.

A replay exits with 1 if a decision differs. Policies remember: a recording whose beginning is forgotten may differ in its
first minutes, and says so.";

impl Why {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let Some(file) = &self.replay {
            return replay(file);
        }
        let client = self.server.client()?;
        if self.json {
            let mut recording = client.get_bytes("/v1/recording")?;
            recording.push(b'\n');
            out::write(&recording);
            return Ok(());
        }
        let Some(tenant) = &self.tenant else { return Err("name a tenant".into()) };
        let when = self.at.map_or_else(|| format!("ago={}", self.ago), |at| format!("at={at}"));
        let answer: Answer = client.get(&format!("{}/why?{when}", path(tenant)?))?;
        print!("{}", answer.felt);
        for partition in answer.partitions {
            let why = partition.why.unwrap_or_else(|| "asleep, or longer ago than is remembered\n".to_owned());
            println!("partition {}\n  {}", partition.partition, why.trim_end().replace('\n', "\n  "));
        }
        print!("{}", slow(&answer.slow_replies, self.all_slow));
        Ok(())
    }
}

/// Replies shown unless all are asked for.
const SLOW_SHOWN: usize = 10;

/// A table of replies that took long, and of what they waited for.
fn slow(replies: &[SlowReply], all: bool) -> String {
    if replies.is_empty() {
        return String::new();
    }
    let shown = if all { replies.len() } else { replies.len().min(SLOW_SHOWN) };
    let mut words =
        format!("the last replies that took more than 10 ms ({shown} of {} remembered), in ms\n", replies.len());
    let mut line = |cells: [&str; 4], waits: &[String]| {
        let [when, command, replies, took] = cells;
        let waits: String = waits.iter().map(|wait| format!("{wait:>16}")).collect();
        let line = format!("  {when:<24} {command:<14} {replies:>7} {took:>10}{waits}");
        words.push_str(line.trim_end());
        words.push('\n');
    };
    line(["when", "longest", "replies", "took"], &Cause::NAMES.map(str::to_owned));
    for reply in &replies[..shown] {
        let ms = |nanos: u64| format!("{:.1}", nanos as f64 / 1e6);
        let cells = [&utc(reply.unix_ms), &*reply.command, &reply.replies.to_string(), &ms(reply.micros * 1000)];
        line(cells, &reply.waited_nanos.map(ms));
    }
    words
}

#[allow(clippy::disallowed_methods, reason = "a file of the operator's, no data of a node")]
fn replay(file: &Path) -> Outcome {
    let explained = |error: String| format!("{}: {error}", file.display());
    let text = std::fs::read(file).map_err(|error| explained(error.to_string()))?;
    let recording: Recording = serde_json::from_slice(&text)
        .map_err(|error| explained(format!("not what `weir why --json` of this version prints ({error})")))?;
    let replayed = recording.replay().map_err(explained)?;
    print!("{}", report(&recording, &replayed));
    match replayed.different {
        0 => Ok(()),
        different => Err(format!("{different} of {} decisions differ", replayed.ticks).into()),
    }
}

fn report(recording: &Recording, replayed: &Replayed) -> String {
    let count = replayed.ticks;
    let Some(first) = &replayed.first else { return format!("{count} decisions, all the same\n") };
    let start = recording.ticks.first().map_or(0, |tick| tick.sample.now);
    let second = |index: usize| {
        recording.ticks.get(index).map_or(0.0, |tick| tick.sample.now.saturating_sub(start) as f64 / 1e9)
    };
    let whom = first
        .owner
        .map_or("the node".to_owned(), |owner| format!("partition {} of tenant {}", owner.partition, owner.tenant));
    let [decided, again] = &first.decided;
    let mut words = format!(
        "{count} decisions, {} otherwise: the first {:.0} s after the beginning, the last {:.0} s after it\nabout {whom}\n  then {decided}\n  now  {again}\n",
        replayed.different,
        second(first.tick),
        second(replayed.last),
    );
    if recording.forgotten > 0 {
        words.push_str(&format!(
            "What the policies saw in {} ticks before the recording is forgotten: the first minutes of it may differ.\n",
            recording.forgotten
        ));
    }
    words
}
