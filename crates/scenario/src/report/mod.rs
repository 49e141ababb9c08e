//! A page with all time series of all runs, in one file that loads nothing else, so that it can be sent to somebody.

pub mod sharing;

use serde_json::{Value, json};

use crate::outcome::{Run, Second};
use crate::plan::Plan;
use crate::table::{heading, rate, reached, size};

/// What all pages have in common: the style, the charts.
const PAGE: &str = include_str!("page.html");
/// What a page of [`Run`]s shows.
const LOAD: &str = include_str!("load.js");

/// Points of a time series, at most: longer series are thinned, and each point is then the mean or the worst of the
/// seconds that it stands for.
const POINTS_MAX: usize = 2_000;

/// Makes the page.
pub fn page(plan: &Plan, runs: &[Run], stages: &[&str]) -> String {
    let (args, is_sold) = (&plan.args, plan.mix().is_none());
    let any = |of: fn(&Second) -> bool| runs.iter().any(|run| run.series.iter().any(of));
    let seconds = runs.iter().map(|run| run.series.len()).max().unwrap_or(1);
    let every = seconds.div_ceil(POINTS_MAX);
    let devices: Vec<u64> = runs.iter().map(|run| device_of(plan, run)).collect();
    let same =
        if devices.windows(2).all(|two| two[0] == two[1]) { "The device is the same for every profile. " } else { "" };
    let data = json!({
        "title": title(plan, runs),
        "lead": lead(plan),
        "facts": [
            ["partitions", args.partitions.to_string()],
            ["bursting", is_sold.then(|| plan.bursting().to_string())],
            ["BOSR", is_sold.then(|| plan.bosr().to_string())],
            ["device", rate(plan.caps.unwrap_or(plan.device()) as f64)],
            ["background bytes per user byte", is_sold.then(|| format!("{:.2}", plan.background_bytes_per_user_byte()))],
            ["load", format!("{} s", args.seconds)],
            ["scale", format!("1 : {}", args.scale)],
            ["preloaded", size((plan.items() * u64::from(args.item_bytes) * u64::from(args.partitions)) as f64)],
            ["memory to defer it all, at scale 1", plan.deferral_memory().map(size)],
            ["seed", args.seed.to_string()],
        ],
        "from": 0,
        "every": every,
        // Where the load ended, in points.
        "marks": [args.seconds.div_ceil(every as u64)],
        "partitions": args.partitions,
        "stages": stages,
        "reads": any(|second| second.read_us[2] > 0.0),
        "after": runs.iter().any(|run| run.outcome.after.is_some()),
        "even": runs.iter().any(|run| run.outcome.steadiness.is_some()),
        "sleep": runs.iter().any(|run| run.outcome.waking.is_some()),
        "runs": runs.iter().zip(devices).map(|(run, device)| one(run, device, every, stages.len())).collect::<Vec<_>>(),
        "footer": format!("Normally served: done at most 1 ms after the intended send time. {same}Bytes are divided by the scale, times are not."),
    });
    fill(LOAD, &data)
}

/// The page that the script `view` draws of `data`.
fn fill(view: &str, data: &Value) -> String {
    // A script element ends at the first `</`, wherever it is.
    PAGE.replace("/*VIEW*/", view).replace("/*DATA*/", &data.to_string().replace("</", "<\\/"))
}

fn title(plan: &Plan, runs: &[Run]) -> String {
    if plan.mix().is_some() {
        let even = runs.iter().filter_map(|run| Some((&run.outcome.profile, run.outcome.steadiness?)));
        let best = even.max_by_key(|(_, even)| even.tail_per_sec);
        return best.map_or_else(String::new, |(profile, even)| {
            let [tail, mean] = [even.tail_per_sec as f64, even.mean_per_sec].map(|rate| rate * plan.args.scale as f64);
            format!("{tail:.0} operations in the worst of a hundred seconds, {mean:.0} on average: {profile}")
        });
    }
    let wrote = runs.iter().any(|run| run.outcome.wrote());
    let served = |run: &Run| match wrote {
        true => run.outcome.normally_served.avg,
        false => run.outcome.reads_in_time.map_or(0.0, |in_time| in_time.avg),
    };
    let best = runs.iter().max_by(|a, b| served(a).total_cmp(&served(b)));
    let share = |run: &Run| {
        if served(run) >= 1.0 { "100".into() } else { format!("{:.1}", reached(served(run), 1e3) / 10.0) }
    };
    let what = if wrote { "serves {} % of all writes normally" } else { "answers {} % of all reads in time" };
    match best {
        Some(best) if runs.len() > 1 => {
            let what = what.replace("{}", &share(best));
            format!("Sold {} times over: {} {what}", plan.bosr(), best.outcome.profile)
        }
        _ => format!("A device sold {} times over", plan.bosr()),
    }
}

fn lead(plan: &Plan) -> String {
    if plan.mix().is_some() || plan.visits.is_some() {
        return heading(plan);
    }
    format!(
        "{} of {} partitions write {} items a second, as they were sold. Their compactions would need {} of bandwidth; the device has {} \
         for them. What is missing is put off, or writes stall.",
        plan.bursting(),
        plan.args.partitions,
        plan.args.wcu,
        rate(plan.ingest() * plan.amplification),
        rate(plan.background_bytes_per_user_byte() * plan.ingest()),
    )
}

/// What the device of `run` can do, in bytes a second: the kernel's caps, or what the run itself was planned for, which
/// in a search for a ratio is not what `plan` says.
fn device_of(plan: &Plan, run: &Run) -> u64 {
    let planned = || run.outcome.params.get("device_bytes_per_sec").and_then(Value::as_u64);
    plan.caps.or_else(planned).unwrap_or_else(|| plan.device())
}

fn one(run: &Run, device: u64, every: usize, stages: usize) -> Value {
    let points: Vec<&[Second]> = run.series.chunks(every).collect();
    let mean = |of: fn(&Second) -> u64| -> Vec<u64> {
        points.iter().map(|seconds| seconds.iter().map(of).sum::<u64>() / seconds.len() as u64).collect()
    };
    let worst = |of: fn(&Second) -> [f64; 3]| -> Vec<[f64; 3]> {
        let max = |a: [f64; 3], b: [f64; 3]| std::array::from_fn(|at| a[at].max(b[at]));
        points.iter().map(|seconds| seconds.iter().map(of).fold([0.0; 3], max)).collect()
    };
    let highest = |seconds: &[Second]| seconds.iter().map(|second| second.watermark).fold(0.0, f64::max);
    let lowest = |seconds: &[Second]| seconds.iter().filter_map(|second| second.write_limit).min().unwrap_or(0);
    let longest = |seconds: &[Second]| {
        seconds.iter().max_by_key(|second| second.l0.iter().max()).map(|second| {
            let mut runs = second.l0.clone();
            runs.sort_unstable();
            [runs.first(), runs.get(runs.len() / 2), runs.last()].map(|runs| runs.copied().unwrap_or(0))
        })
    };
    let staged = |seconds: &[Second]| {
        let mut counts = vec![0_u32; stages];
        for &stage in seconds.last().map_or(&[][..], |second| &second.stage) {
            if let Some(count) = counts.get_mut(usize::from(stage)) {
                *count += 1;
            }
        }
        counts
    };
    json!({
        "name": run.outcome.profile,
        "points": points.len(),
        "outcome": run.outcome,
        "device": device,
        "served": mean(|second| second.served),
        "normally": mean(|second| second.normally),
        "l0": points.iter().filter_map(|seconds| longest(seconds)).collect::<Vec<_>>(),
        "stages": points.iter().map(|seconds| staged(seconds)).collect::<Vec<_>>(),
        "bytes": {
            "log": mean(|second| second.bytes.log),
            "flush": mean(|second| second.bytes.flush),
            "l0": mean(|second| second.bytes.l0),
            "deep": mean(|second| second.bytes.deep),
            "read": mean(|second| second.bytes.read),
            "other": mean(|second| second.bytes.other),
        },
        "write_us": worst(|second| second.write_us),
        "read_us": worst(|second| second.read_us),
        "memory": mean(|second| second.memory),
        "awake": mean(|second| second.awake),
        "held": mean(|second| second.held),
        "watermark": points.iter().map(|seconds| highest(seconds)).collect::<Vec<_>>(),
        "done": mean(|second| second.operations),
        "limit": points.iter().map(|seconds| lowest(seconds)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::outcome;
    use crate::outcome::{Outcome, Spread};
    use crate::plan::tests::plan;

    fn shown(name: &str) -> String {
        let second = Second {
            served: 3,
            write_us: [1.0; 3],
            read_us: [2.0; 3],
            l0: vec![4],
            stage: vec![0],
            ..Second::default()
        };
        let outcome = Outcome { profile: name.into(), ..outcome() };
        page(&plan("--partitions 1 --seconds 2"), &[Run { outcome, series: vec![second; 2] }], &["normal"])
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        assert_loads_nothing(&shown("weir"));
    }

    pub(super) fn assert_loads_nothing(page: &str) {
        for loads in ["http", "src=", "href", "<link", "@import", "url(", "fetch(", "import(", "XMLHttpRequest"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    /// The data of a page.
    pub(super) fn data(page: &str) -> Value {
        assert!(!page.contains("/*DATA*/") && !page.contains("/*VIEW*/"));
        let data = page.split_once(r#"<script id="data" type="application/json">"#).expect("a place for data").1;
        serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON")
    }

    #[test]
    fn the_page_has_its_data_and_no_name_ends_the_script() {
        let data = data(&shown("</script><b>weir"));
        assert_eq!(data["runs"][0]["outcome"]["profile"], "</script><b>weir");
        assert_eq!((&data["runs"][0]["served"], &data["runs"][0]["points"]), (&json!([3, 3]), &json!(2)));
        assert_eq!((&data["reads"], &data["after"]), (&json!(true), &json!(true)));
    }

    #[test]
    fn a_thinned_series_says_how_many_seconds_a_point_stands_for() {
        let second = |write_limit| Second { served: 3, write_limit, ..Second::default() };
        let series = (0..4_000).map(|at| second((at % 2 == 1).then_some(500))).collect();
        let page = page(&plan("--seconds 4000"), &[Run { outcome: outcome(), series }], &["normal"]);
        let data = data(&page);
        assert_eq!((&data["every"], &data["marks"]), (&json!(2), &json!([2_000])));
        let run = &data["runs"][0];
        assert_eq!(run["served"].as_array().map(Vec::len), Some(2_000));
        assert_eq!(run["limit"][0], 500, "a second without a limit does not lower it");
        assert!(page.contains("x(s / every)") && page.contains("i * every"), "the axis and the cursor show seconds");
    }

    #[test]
    fn each_run_has_the_device_that_it_ran_on() {
        let run = |device: u64| {
            let params = [("device_bytes_per_sec", device), ("l0_stop", 32)];
            let params = params.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect();
            Run { outcome: Outcome { params, ..outcome() }, series: vec![Second::default()] }
        };
        let plan = plan("");
        let shown = |plan: &Plan, devices: [u64; 2]| data(&page(plan, &devices.map(run), &["normal"]));
        let of = |data: &Value| [data["runs"][0]["device"].as_u64(), data["runs"][1]["device"].as_u64()];
        let same = |data: &Value| data["footer"].as_str().is_some_and(|text| text.contains("device is the same"));
        let apart = shown(&plan, [70, 90]);
        assert_eq!((of(&apart), same(&apart)), ([Some(70), Some(90)], false));
        // On a disk, writes stop at fewer runs than in virtual time.
        assert_eq!(apart["runs"][0]["outcome"]["params"]["l0_stop"], 32);
        assert!(LOAD.contains("r.outcome.params.l0_stop"));
        let capped = shown(&Plan { caps: Some(50), ..plan }, [70, 70]);
        assert_eq!((of(&capped), same(&capped)), ([Some(50); 2], true));
    }

    #[test]
    fn the_title_is_about_reads_where_nothing_else_was_sent() {
        let of = |share: f64, done: u64| {
            let outcome = Outcome { normally_served: Spread::of(&[share]), served_per_sec: vec![done], ..outcome() };
            title(&plan(""), &vec![Run { outcome, series: Vec::new() }; 2])
        };
        assert_eq!(of(0.5, 1), "Sold 3 times over: weir serves 50.0 % of all writes normally");
        assert_eq!(of(1.0, 0), "Sold 3 times over: weir answers 19.9 % of all reads in time");
    }
}
