//! The answer, to be read on a terminal.

use std::fmt::Write as _;

use super::{Answer, Edge, First, Played, Question};
use crate::density::Tried;
use crate::pattern::Pattern;
use crate::plan::AMPLIFICATION;
use crate::table::{rate, share, size, time};

pub(super) fn heading(question: &Question<'_>, device_from: &str) -> String {
    let (args, plan) = (question.args, &question.today);
    let full = |bytes: f64| rate(bytes * plan.args.scale as f64);
    let (mean, peak) = match &plan.pattern {
        Pattern::Trace(trace) => trace.mean_and_peak(),
        _ => (1.0, 1.0),
    };
    format!(
        "Machine: device {} ({device_from}), memory {}; profile {}\n\
         Tenants: {} ({} in the trace); they were sold {} of writes, {} with {AMPLIFICATION} background bytes for each: BOSR {:.2}\n\
         In their busiest {} s, from {} of the trace on, they ask for {} of that on average, for {} at most\n",
        rate(question.device as f64),
        size((args.memory << 30) as f64),
        args.profile,
        plan.args.partitions,
        question.recorded.tenants(),
        full(plan.ingest()),
        full(plan.ingest() * (1.0 + AMPLIFICATION)),
        plan.bosr(),
        plan.args.seconds,
        moment(question.begins),
        share(mean),
        share(peak),
    )
}

pub(super) fn answer(question: &Question<'_>, answer: &Answer) -> String {
    let (today, mut text) = (&answer.today.tried, String::new());
    let _ = writeln!(text, "As it is          {}", verdict(today));
    let _ = writeln!(text, "Ratio             {}", ratio(today, &answer.ratio));
    let _ = writeln!(text, "Tenants           {}", tenants(today, &answer.tenants));
    for (what, played) in breaking(answer) {
        let Some(first) = question.first(played) else { continue };
        let _ = writeln!(text, "Late {what}: {}", why(&first, &question.named(first.tenant)));
    }
    let carried = question.carried_uncompacted();
    let _ = writeln!(
        text,
        "All writes at once the device carries of {carried} tenants, with nothing compacted{}",
        if carried < today.tenants { ": fewer than there are, whatever is put off" } else { "" }
    );
    text
}

fn verdict(tried: &Tried) -> String {
    let word = if tried.are_served { "served" } else { "NOT SERVED" };
    format!(
        "{word}: the worst tenant had {} in time; P99.9 {}, {} stalls, {:.2} background bytes a byte, device {:.0} %, memory {}",
        share(tried.worst),
        time(tried.p999_us),
        tried.stalls,
        tried.background_amplification,
        tried.device_utilisation * 100.0,
        size(tried.memory_peak_bytes as f64),
    )
}

/// The last run that was served, and the first that was not: one of them may be that of things as they are.
fn edges<'a>(today: &'a Tried, edge: &'a Edge) -> (Option<&'a Tried>, Option<&'a Tried>) {
    let of = |played: &'a Option<Played>| played.as_ref().map(|played| &played.tried);
    let (holds, breaks) = (of(&edge.holds), of(&edge.breaks));
    if today.are_served { (holds.or(Some(today)), breaks) } else { (holds, breaks.or(Some(today))) }
}

fn ratio(today: &Tried, edge: &Edge) -> String {
    match edges(today, edge) {
        (Some(holds), Some(breaks)) => format!(
            "{:.2} is safe for this load ({:.2} was not served); it is sold {:.2} times",
            holds.bosr, breaks.bosr, today.bosr
        ),
        (Some(holds), None) => format!("even {:.2} is safe for this load", holds.bosr),
        (None, _) => "none is safe for this load: it is not the bandwidth that is short".to_owned(),
    }
}

fn tenants(today: &Tried, edge: &Edge) -> String {
    match edges(today, edge) {
        (Some(holds), Some(breaks)) => {
            let more = match holds.tenants.checked_sub(today.tenants) {
                Some(0) => "no more".to_owned(),
                Some(more) => format!("{more} more"),
                None => format!("{} fewer", today.tenants - holds.tenants),
            };
            format!(
                "{} like these fit, {more} than there are (BOSR {:.2}); {} did not",
                holds.tenants, holds.bosr, breaks.tenants
            )
        }
        (Some(holds), None) => format!("{} like these fit, and that is as many as can be tried", holds.tenants),
        (None, _) => "not one like these fits".to_owned(),
    }
}

/// The runs that were not served and tell most, each with its name.
fn breaking(answer: &Answer) -> Vec<(String, &Played)> {
    if !answer.today.tried.are_served {
        return vec![("as it is".to_owned(), &answer.today)];
    }
    let ratio = answer.ratio.breaks.as_ref().map(|played| (format!("at {:.2}", played.tried.bosr), played));
    let tenants =
        answer.tenants.breaks.as_ref().map(|played| (format!("with {} tenants", played.tried.tenants), played));
    ratio.into_iter().chain(tenants).collect()
}

fn why(first: &First, tenant: &str) -> String {
    format!(
        "from {} of the trace on, {tenant} most: the longest level 0 has {} runs, up to {} memtables wait for their flush, the device is used to {:.0} %",
        moment(first.second),
        first.level0_runs,
        first.sealed,
        first.device * 100.0,
    )
}

/// Seconds as days, hours, minutes and seconds.
fn moment(seconds: u64) -> String {
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match seconds / 86_400 {
        0 => clock,
        days => format!("day {days} {clock}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_a_clock() {
        assert_eq!([moment(59), moment(3_661), moment(200_000)], ["00:00:59", "01:01:01", "day 2 07:33:20"]);
    }
}
