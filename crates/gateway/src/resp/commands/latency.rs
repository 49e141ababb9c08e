//! `LATENCY`: commands that took longer than `latency-monitor-threshold`, and how long calls take.

use weir_command::error::{Error, Outcome};
use weir_command::table::COMMANDS;
use weir_command::{Args, lower};

use super::check_words;
use crate::resp::session::Session;
use crate::stats::{self, CallTimes};
use crate::store::Store;

const HELP: [&str; 7] = [
    "DOCTOR: where to look.",
    "GRAPH <event>: the times of an event, one bar for each.",
    "HISTOGRAM [<command> ...]: calls by the time that they took.",
    "HISTORY <event>: when it was, and how long it took in milliseconds.",
    "LATEST: the last time of each event, and the longest.",
    "RESET [<event> ...]: forgets them.",
    "HELP: this text.",
];

/// The length of the longest bar of a graph.
const BAR_MAX: u64 = 40;

pub(super) async fn latency<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"latest" => {
            let events = session.account()?.latency_monitor.events();
            let replies = &mut session.outbox.replies;
            replies.array(events.len());
            for (name, event) in &events {
                let (second, ms) = event.samples.back().copied().unwrap_or_default();
                replies.array(4);
                replies.bulk(name.as_bytes());
                replies.integer(second as i64);
                replies.integer(ms as i64);
                replies.integer(event.longest_ms as i64);
            }
        }
        b"history" => {
            let event = session.account()?.latency_monitor.event(args.at(2)).unwrap_or_default();
            let replies = &mut session.outbox.replies;
            replies.array(event.samples.len());
            for (second, ms) in event.samples {
                replies.array(2);
                replies.integer(second as i64);
                replies.integer(ms as i64);
            }
        }
        b"graph" => {
            let Some(event) = session.account()?.latency_monitor.event(args.at(2)) else {
                return Err(Error::bytes([b"ERR No samples available for event '", args.at(2), b"'"].concat()));
            };
            let name = String::from_utf8_lossy(args.at(2)).into_owned();
            let times = || event.samples.iter().map(|(_, ms)| *ms);
            let (high, low) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
            let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", event.longest_ms);
            for (second, ms) in &event.samples {
                let bar = "#".repeat((ms * BAR_MAX / high.max(1)).max(1) as usize);
                text.push_str(&format!("{second} {bar} {ms} ms\n"));
            }
            session.outbox.replies.text(&text);
        }
        b"reset" => {
            check_words(args.len() - 2, "LATENCY RESET", "events")?;
            let count = session.account()?.latency_monitor.reset(args.iter_from(2));
            session.outbox.replies.integer(count as i64);
        }
        b"doctor" => {
            let monitor = &session.account()?.latency_monitor;
            let text = match monitor.threshold_ms() {
                0 => "Nothing is watched: CONFIG SET latency-monitor-threshold <milliseconds> begins.\n".to_owned(),
                threshold => format!(
                    "Commands of {threshold} ms and more are recorded: {} kinds of events so far. SLOWLOG GET shows the \
                     commands, LATENCY HISTOGRAM how long calls take; whoever runs the server has `weir top`.\n",
                    monitor.events().len()
                ),
            };
            session.outbox.replies.text(&text);
        }
        b"histogram" => {
            check_words(args.len() - 2, "LATENCY HISTOGRAM", "commands")?;
            histogram(session, args)?;
        }
        b"help" => session.outbox.replies.help("LATENCY", &HELP),
        _ => return Err(Error::unknown_subcommand("latency", args.at(1))),
    }
    Ok(())
}

/// Calls by the time that they took, for the named commands, or for all.
fn histogram<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let totals = session.account()?.stats.recent();
    let mut wanted: Vec<usize> = match args.len() {
        2 => (0..stats::counted()).collect(),
        _ => args.iter_from(2).flat_map(stats::counted_as).collect(),
    };
    let mut seen = vec![false; stats::counted()];
    wanted.retain(|&index| {
        // Containers are shown as their subcommands.
        let is_container = COMMANDS.get(index).is_some_and(|command| command.is_container);
        let is_called = totals.times[index].iter().sum::<u64>() > 0;
        !is_container && is_called && !std::mem::replace(&mut seen[index], true)
    });
    let replies = &mut session.outbox.replies;
    replies.map(wanted.len());
    for index in wanted {
        let rows = cumulated(&totals.times[index]);
        replies.bulk(stats::counted_name(index).as_bytes());
        replies.map(2);
        replies.bulk(b"calls");
        replies.integer(totals.commands[index] as i64);
        replies.bulk(b"histogram_usec");
        replies.map(rows.len());
        for (micros, calls) in rows {
            replies.integer(micros as i64);
            replies.integer(calls as i64);
        }
    }
    Ok(())
}

/// How many calls took no longer than this many microseconds, for each bound at which the number grows.
fn cumulated(times: &CallTimes) -> Vec<(u64, u64)> {
    let mut below = 0;
    let steps = times.iter().enumerate().filter(|(_, count)| **count > 0);
    steps
        .map(|(bucket, count)| {
            below += count;
            (stats::call_bucket_micros(bucket), below)
        })
        .collect()
}
