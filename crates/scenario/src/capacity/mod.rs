//! Whether a machine carries its tenants, and what more it would carry. What they were recorded to do is played as it
//! is, then with a device that is sold more often, then with more tenants, until one of them is not served.

mod table;

use serde::Serialize;
use serde_json::json;

use crate::args::Capacity;
use crate::density::{TENANTS_MAX, Tried, number_of};
use crate::outcome::{Run, TenantRow};
use crate::plan::Plan;
use crate::search::Search;
use crate::trace::Trace;
use crate::{profile, report, save};

/// A ratio is searched for in hundredths.
const HUNDREDTHS: f64 = 100.0;
/// The highest ratio that is tried, in hundredths: the highest that a scenario accepts.
const RATIO_MAX: u32 = 10_000;

/// The question, and what is needed to answer it.
pub struct Question<'a> {
    args: &'a Capacity,
    /// Bandwidth of the machine's device, in bytes a second at full size.
    device: u64,
    recorded: Trace,
    /// The plan that plays things as they are.
    today: Plan,
    /// The second of the trace in which this plan begins.
    begins: u64,
}

/// A run and its figures.
pub struct Played {
    /// The figures in short.
    pub tried: Tried,
    /// The figures in full.
    pub run: Run,
}

/// The runs on both sides of the point where something breaks.
#[derive(Default)]
pub struct Edge {
    /// The last run that was served, besides the run of things as they are.
    pub holds: Option<Played>,
    /// The first run that was not served.
    pub breaks: Option<Played>,
}

/// Where a machine that does not carry its tenants breaks first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct First {
    /// The tenant whose operations were late most often: its number among those that were played.
    pub tenant: usize,
    /// The first second in which one in a hundred of all writes was late; if there is none, the first in which one of
    /// this tenant's was. In seconds since the trace began.
    pub second: u64,
    /// The longest level 0 at the end of that second, in runs.
    pub level0_runs: u16,
    /// The largest number of sealed memtables of a partition at the end of that second.
    pub sealed: u16,
    /// The share of the device that was used in that second (0 to 1).
    pub device: f64,
}

/// The answer to a question.
pub struct Answer {
    /// The run of things as they are.
    pub today: Played,
    /// The runs with a device that is sold more often, or less.
    pub ratio: Edge,
    /// The runs with more tenants, or fewer.
    pub tenants: Edge,
}

impl<'a> Question<'a> {
    /// The question about what was `recorded`, on a machine whose device can do `device` bytes a second.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn new(args: &'a Capacity, recorded: Trace, device: u64) -> Result<Self, String> {
        args.check()?;
        let (today, begins) = plan(args, &recorded, 0, device)?;
        Ok(Self { args, device, recorded, today, begins })
    }

    /// The plan that plays things as they are.
    pub fn today(&self) -> &Plan {
        &self.today
    }

    fn played(&self, plan: &Plan, run: Run) -> Played {
        Played { tried: Tried::of(plan, &run.outcome, self.args.served / 100.0), run }
    }

    /// Plays things as they are.
    ///
    /// # Errors
    /// Whatever error `run` returns.
    pub fn as_it_is(&self, run: impl FnOnce(&Plan) -> Result<Run, String>) -> Result<Played, String> {
        Ok(self.played(&self.today, run(&self.today)?))
    }

    /// Finds how often the device may be sold; `today` is known.
    ///
    /// # Errors
    /// Whatever error `run` returns.
    pub fn ratio(&self, today: &Tried, mut run: impl FnMut(&Plan) -> Result<Run, String>) -> Result<Edge, String> {
        let now = (self.today.bosr() * HUNDREDTHS).clamp(1.0, f64::from(RATIO_MAX)) as u32;
        let mut search = Search::new(now, RATIO_MAX, self.args.precision / 100.0);
        search.note(now, today.are_served);
        self.search(search, |ratio| {
            let plan = self.today.sold_times(f64::from(ratio) / HUNDREDTHS);
            run(&plan).map(|run| self.played(&plan, run))
        })
    }

    /// Finds how many tenants there may be, if new ones are like those that are there; `today` is known.
    ///
    /// # Errors
    /// Whatever error `run` returns.
    pub fn tenants(&self, today: &Tried, mut run: impl FnMut(&Plan) -> Result<Run, String>) -> Result<Edge, String> {
        let mut search = Search::new(today.tenants.into(), TENANTS_MAX.into(), self.args.precision / 100.0);
        search.note(today.tenants.into(), today.are_served);
        self.search(search, |tenants| {
            let plan = self.with(number_of(tenants))?;
            run(&plan).map(|run| self.played(&plan, run))
        })
    }

    /// The plan with this many tenants: the first of those that are there, and others like them.
    fn with(&self, tenants: u16) -> Result<Plan, String> {
        let there = self.today.args.partitions;
        match tenants.checked_sub(there) {
            Some(more) => Ok(plan(self.args, &self.recorded, more.into(), self.device)?.0),
            None => {
                let mut fewer = self.today.clone();
                fewer.args.partitions = tenants;
                Ok(fewer)
            }
        }
    }

    fn search(&self, mut search: Search, mut play: impl FnMut(u32) -> Result<Played, String>) -> Result<Edge, String> {
        let mut edge = Edge::default();
        while let Some(number) = search.next() {
            let played = play(number)?;
            search.note(number, played.tried.are_served);
            if search.holds() == Some(number) {
                edge.holds = Some(played);
            } else if search.breaks() == Some(number) {
                edge.breaks = Some(played);
            }
        }
        Ok(edge)
    }

    /// Where a run breaks first; `None` if nobody was late.
    pub fn first(&self, played: &Played) -> Option<First> {
        let Run { outcome, series } = &played.run;
        let served = |row: &TenantRow| row.normally_served.min(row.reads_in_time.unwrap_or(1.0));
        let late = outcome.tenants.iter().filter(|row| row.first_late_second.is_some());
        let worst = late.min_by(|a, b| served(a).total_cmp(&served(b)))?;
        let many = series.iter().position(|second| (second.served - second.normally) * 100 > second.served);
        let second = many.map(|second| second as u64).or(worst.first_late_second)?;
        let tenant = worst.partition;
        let at = series.get(second as usize).or(series.last())?;
        let device = outcome.params.get("device_bytes_per_sec").and_then(serde_json::Value::as_u64)?;
        Some(First {
            tenant,
            second: self.begins + second,
            level0_runs: at.l0.iter().max().copied().unwrap_or(0),
            sealed: at.sealed.iter().max().copied().unwrap_or(0),
            device: at.bytes.device() as f64 / device.max(1) as f64,
        })
    }

    /// What to call the tenant that has the number `tenant` among those that were played: where tenants were removed,
    /// the others have other numbers in the trace, and these are the ones that the user knows.
    fn named(&self, tenant: usize) -> String {
        let stays = |number: &usize| !self.args.remove.contains(number);
        let recorded: Vec<usize> = (0..self.recorded.tenants()).filter(stays).collect();
        match recorded.get(tenant) {
            Some(number) => format!("tenant {number}"),
            None => {
                let like = recorded.iter().cycle().nth(tenant - recorded.len());
                like.map_or_else(|| "an added tenant".to_owned(), |like| format!("an added tenant like tenant {like}"))
            }
        }
    }

    /// How many tenants like those that are there the device carries if all write everything that they bought at once,
    /// and nothing is compacted: each byte still goes into the log and out of memory.
    pub fn carried_uncompacted(&self) -> u16 {
        let each = self.today.ingest() / f64::from(self.today.args.partitions);
        let device = self.device as f64 / self.today.args.scale as f64;
        (device / (2.0 * each)).min(f64::from(TENANTS_MAX)) as u16
    }

    /// Prints the answer, and writes the files that were asked for.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn deliver(&self, answer: &Answer) -> Result<(), String> {
        if !save::is_stdout(self.args.json.as_deref()) {
            print!("\n{}", table::answer(self, answer));
        }
        if let Some(path) = &self.args.json {
            save::json(path, &self.to_json(answer))?;
        }
        if let Some(path) = &self.args.report {
            save::page(path, &report::page(&self.today, &shown(answer), &profile::STAGES))?;
        }
        Ok(())
    }

    fn to_json(&self, answer: &Answer) -> serde_json::Value {
        // A program knows the tenants by what the trace calls them, as the user does.
        let first_of = |played: &Played| {
            let first = self.first(played)?;
            let mut told = json!(first);
            told["named"] = self.named(first.tenant).into();
            Some(told)
        };
        let edge = |edge: &Edge| {
            let first = edge.breaks.as_ref().and_then(first_of);
            let of = |played: &Option<Played>| played.as_ref().map(|played| played.tried.clone());
            json!({ "holds": of(&edge.holds), "breaks": of(&edge.breaks), "first": first })
        };
        let today = &answer.today;
        json!({
            "params": self.args,
            "device_bytes_per_sec": self.device,
            "begins": self.begins,
            "carried_uncompacted": self.carried_uncompacted(),
            "today": today.tried,
            "today_first": if today.tried.are_served { None } else { first_of(today) },
            "ratio": edge(&answer.ratio),
            "tenants": edge(&answer.tenants),
        })
    }
}

/// The part of `recorded` that is played, with `more` tenants than were asked for, and the second in which it begins.
fn plan(args: &Capacity, recorded: &Trace, more: usize, device: u64) -> Result<(Plan, u64), String> {
    let (played, begins) = recorded.changed(&args.changes(more), args.seed)?.busiest(args.seconds);
    if played.tenants() == 0 {
        return Err("nobody is left".to_owned());
    }
    Ok((args.plan(played, device)?, begins))
}

/// The runs for the page, each named after what it is.
fn shown(answer: &Answer) -> Vec<Run> {
    let named = |name: String, run: &Run| {
        let mut run = run.clone();
        run.outcome.profile = name;
        run
    };
    let at = |word: &str, played: &Option<Played>| {
        played.as_ref().map(|played| named(format!("{word} at {:.2}", played.tried.bosr), &played.run))
    };
    let today = named(format!("as it is, at {:.2}", answer.today.tried.bosr), &answer.today.run);
    let edge = &answer.ratio;
    [Some(today), at("served", &edge.holds), at("not served", &edge.breaks)].into_iter().flatten().collect()
}

/// The lines that say what is asked, before the runs begin.
pub fn heading(question: &Question<'_>, device_from: &str) -> String {
    table::heading(question, device_from)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::outcome::tests::outcome;
    use crate::outcome::{Outcome, Second, Spread};
    use crate::pattern::Pattern;
    use crate::trace::HEADER;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Capacity,
    }

    fn args(line: &str) -> Capacity {
        Line::parse_from(["plan", "trace.csv"].into_iter().chain(line.split_whitespace())).args
    }

    /// Eight tenants that use a fifth of what they were sold.
    fn recorded() -> Trace {
        let lines = (0..8).map(|tenant| format!("# sold,{tenant},3000,0\n0,{tenant},0.2,0\n"));
        Trace::parse(&format!("{HEADER}\n{}60,0,0.2,0\n", lines.collect::<String>())).expect("a trace")
    }

    /// Everybody is served up to a ratio of `limit`; beyond it tenant 1 is late in the second second.
    fn run(plan: &Plan, limit: f64) -> Result<Run, String> {
        let is_served = plan.bosr() <= limit;
        let row = |partition: usize, first_late_second| TenantRow {
            partition,
            first_late_second,
            ..outcome().tenants[0].clone()
        };
        let mut params = serde_json::Map::new();
        params.insert("device_bytes_per_sec".into(), json!(plan.device()));
        let late = (!is_served).then_some(1);
        let outcome = Outcome {
            params,
            normally_served: Spread::of(&[if is_served { 1.0 } else { 0.5 }]),
            reads_in_time: None,
            after: None,
            tenants: vec![row(0, None), TenantRow { normally_served: 0.1, reads_in_time: None, ..row(1, late) }],
            ..outcome()
        };
        let second = |l0: &[u16]| Second { l0: l0.to_vec(), sealed: vec![2, 3], ..Second::default() };
        Ok(Run { outcome, series: vec![second(&[1, 2]), second(&[36, 4]), second(&[5, 6])] })
    }

    fn answered(question: &Question<'_>, limit: f64) -> Answer {
        let today = question.as_it_is(|plan| run(plan, limit)).expect("it runs");
        let ratio = question.ratio(&today.tried, |plan| run(plan, limit)).expect("it runs");
        let tenants = question.tenants(&today.tried, |plan| run(plan, limit)).expect("it runs");
        Answer { today, ratio, tenants }
    }

    #[test]
    fn the_ratio_and_the_number_of_tenants_are_found_from_either_side() {
        // Eight tenants, 24.6 MB/s, on 60 MB/s less what the log takes: about 9.
        let args = args("--precision 1");
        let question = Question::new(&args, recorded(), 60_000_000).expect("it can be run");
        let sold = question.today().bosr();
        assert!((8.0..11.0).contains(&sold), "{sold}");
        for limit in [4.0, 20.0] {
            let answer = answered(&question, limit);
            let of =
                |played: &Option<Played>| played.as_ref().map(|played| played.tried.clone()).expect("it was tried");
            let (holds, breaks) = (of(&answer.ratio.holds), of(&answer.ratio.breaks));
            assert!(
                holds.bosr <= limit && limit < breaks.bosr && breaks.bosr < holds.bosr * 1.02,
                "{holds:?} {breaks:?}"
            );
            let (holds, breaks) = (of(&answer.tenants.holds), of(&answer.tenants.breaks));
            assert!(holds.bosr <= limit && limit < breaks.bosr && breaks.tenants == holds.tenants + 1);
            assert_eq!(answer.today.tried.are_served, sold <= limit);
        }
    }

    #[test]
    fn what_breaks_first_is_told() {
        let args = args("--precision 1");
        let question = Question::new(&args, recorded(), 60_000_000).expect("it can be run");
        let answer = answered(&question, 4.0);
        let first = question.first(&answer.today).expect("somebody was late");
        let expected = First { tenant: 1, second: question.begins + 1, level0_runs: 36, sealed: 3, device: 0.0 };
        assert_eq!(first, expected);
        // Where many writes are late, that second counts, and not the first late one.
        let mut many = question.as_it_is(|plan| run(plan, 4.0)).expect("it runs");
        (many.run.series[2].served, many.run.series[2].normally) = (100, 98);
        assert_eq!(question.first(&many).expect("many were late").second, question.begins + 2);
        assert_eq!(question.first(answer.ratio.holds.as_ref().expect("it was served")), None);
        let text = table::answer(&question, &answer);
        assert!(
            text.contains("NOT SERVED: the worst tenant had 50.00 %") && text.contains("fewer than there are"),
            "{text}"
        );
        assert!(
            text.contains(
                "Late as it is: from 00:00:01 of the trace on, tenant 1 most: the longest level 0 has 36 runs"
            ),
            "{text}"
        );
        let json = question.to_json(&answer);
        assert_eq!((&json["today_first"]["tenant"], &json["ratio"]["holds"]["are_served"]), (&json!(1), &json!(true)));
    }

    #[test]
    fn a_tenant_has_the_number_that_it_has_in_the_trace() {
        for (line, named) in [
            ("", "trace on, tenant 1 most"),
            ("--remove 0", "trace on, tenant 2 most"),
            ("--remove 0,2", "trace on, tenant 3 most"),
            ("--remove 0,1,2,3,4,5,6 --add 2", "trace on, an added tenant like tenant 7 most"),
        ] {
            let args = args(&format!("--precision 1 {line}"));
            let question = Question::new(&args, recorded(), 60_000_000).expect("it can be run");
            let played = question.as_it_is(|plan| run(plan, 0.0)).expect("it runs");
            let answer = Answer { today: played, ratio: Edge::default(), tenants: Edge::default() };
            let text = table::answer(&question, &answer);
            assert!(text.contains(named), "{line}: {text}");
            let json = question.to_json(&answer);
            let in_json = json["today_first"]["named"].as_str().expect("a name");
            assert_eq!(named, format!("trace on, {in_json} most"));
        }
    }

    #[test]
    fn who_goes_comes_or_grows_changes_what_is_played() {
        let of = |line: &str| {
            let args = args(line);
            let question = Question::new(&args, recorded(), 60_000_000).expect("it can be run");
            let Pattern::Trace(trace) = &question.today().pattern else { panic!("a trace is played") };
            (question.today().args.partitions, (trace.mean_and_peak().0 * 100.0).round())
        };
        assert_eq!(
            [of(""), of("--add 3"), of("--remove 0,7"), of("--grow 2")],
            [(8, 20.0), (11, 20.0), (6, 20.0), (8, 40.0)]
        );
        let wrong = |line: &str| Question::new(&args(line), recorded(), 1_000_000).err().expect("it cannot be run");
        assert!(wrong("--remove 8").contains("no tenant 8"));
        assert!(wrong("--remove 0,1,2,3,4,5,6,7").contains("nobody is left"));
        assert!(wrong("--grow 0").contains("--grow"));
    }

    #[test]
    fn what_cannot_even_be_written_is_counted() {
        let args = args("");
        let carried = |device| Question::new(&args, recorded(), device).expect("it can be run").carried_uncompacted();
        // Each writes 3.07 MB/s, into the log and once more out of memory.
        assert_eq!([carried(60_000_000), carried(630_000_000)], [9, 102]);
    }
}
