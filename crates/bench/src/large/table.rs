//! The report: what was wanted, and what was measured.

use super::Found;
use super::ask::{Asked, Request};
use super::moments::{Phase, TENTHS, Tenth};
use super::shape;
use crate::report::median::median_of_counts;
use crate::report::words::{align, bytes, count, time};

/// The largest ratio of the P99 of a request of the set to that of a row.
const RATIO_MAX: f64 = 2.0;
/// The largest ratio of bytes on disk to those of a dump file of the same set.
const BYTES_MAX: f64 = 2.0;
/// The longest time that a command on the set as a whole may take, in nanoseconds.
const WHOLE_NS_MAX: u64 = 2_000_000;
/// The largest ratio of the neighbour's P99 to the worse of its two P99s alone, before and after.
const NEIGHBOUR_MAX: f64 = 1.25;

/// The report as text.
pub fn table(found: &Found) -> String {
    [requests(found), in_kvrocks_shape(found), space(found), whole(found), moments(found)].join("\n")
}

fn judged(is_met: bool) -> String {
    if is_met { "met" } else { "not met" }.to_owned()
}

fn requests(found: &Found) -> String {
    let of = |request: Request, number: fn(&Asked) -> u64| {
        median_of_counts(found.asked.iter().filter(|asked| asked.request == request).map(number))
    };
    let header = ["", "p50", "p99", "max", "p99 to GET", "wanted: <= 2 x", "CPU", "reads of the device"];
    let mut rows = vec![header.map(str::to_owned)];
    for request in Request::ALL {
        let p99 = of(request, |asked| asked.p99_ns);
        let ratio = p99 as f64 / of(Request::Get, |asked| asked.p99_ns).max(1) as f64;
        let is_get = request == Request::Get;
        rows.push([
            request.name().to_owned(),
            time(of(request, |asked| asked.p50_ns)),
            time(p99),
            time(of(request, |asked| asked.max_ns)),
            format!("{ratio:.2}"),
            if is_get { String::new() } else { judged(ratio <= RATIO_MAX) },
            time(of(request, |asked| asked.cpu_ns)),
            format!("{:.2}", of(request, |asked| (asked.reads * 100.0) as u64) as f64 / 100.0),
        ]);
    }
    align(&rows)
}

/// Requests in Kvrocks' shape. Those in this process are compared with a `GET` in this process.
fn in_kvrocks_shape(found: &Found) -> String {
    let of = |request: shape::Request, number: fn(&shape::Asked) -> u64| {
        median_of_counts(found.shape.asked.iter().filter(|asked| asked.request == request).map(number))
    };
    let mut rows = vec![["in Kvrocks' shape, without a server", "p50", "p99", "max", "p99 to GET"].map(str::to_owned)];
    for request in shape::Request::ALL {
        let p99 = of(request, |asked| asked.p99_ns);
        let ratio = p99 as f64 / of(shape::Request::Get, |asked| asked.p99_ns).max(1) as f64;
        let is_compared = request != shape::Request::GetOverLoopback;
        rows.push([
            request.name().to_owned(),
            time(of(request, |asked| asked.p50_ns)),
            time(p99),
            time(of(request, |asked| asked.max_ns)),
            if is_compared { format!("{ratio:.2}") } else { String::new() },
        ]);
    }
    // The member of a median request has half as many in front of it as are asked for.
    let asked_for = shape::ranks(found.members);
    let each = of(shape::Request::Zrank, |asked| asked.p50_ns) as f64 / (asked_for as f64 / 2.0).max(1.0);
    align(&rows)
        + &format!(
            "a rank in that shape, among the first {asked_for}: {} for each member in front; so {} in the middle\n",
            time(each as u64),
            time((each * found.members as f64 / 2.0) as u64)
        )
}

fn space(found: &Found) -> String {
    let (rdb, shape) = (found.rdb_bytes.max(1) as f64, found.shape.bytes.max(1) as f64);
    let each = |bytes: u64| format!("{:.1}", bytes as f64 / found.members.max(1) as f64);
    let header = ["on disk", "", "bytes a member", "to the dump", "wanted: <= 2 x", "to Kvrocks' shape"];
    let row = |name: &str, of: u64, verdict: String| {
        let [to_rdb, to_shape] = [rdb, shape].map(|other| format!("{:.2}", of as f64 / other));
        [name.to_owned(), bytes(of), each(of), to_rdb, verdict, to_shape]
    };
    align(&[
        header.map(str::to_owned),
        row("the set", found.set_bytes, judged(found.set_bytes as f64 <= BYTES_MAX * rdb)),
        row("redis-server's dump file", found.rdb_bytes, String::new()),
        row("rows in Kvrocks' shape", found.shape.bytes, String::new()),
    ]) + &format!(
        "loading: {} members a second, {} of the server's processor each\n",
        count(found.members as f64 / found.loaded.seconds.max(1e-9)),
        time((found.loaded.cpu_seconds * 1e9 / found.members.max(1) as f64) as u64)
    )
}

fn whole(found: &Found) -> String {
    let whole = &found.whole;
    let alone = whole.alone.felt.p99_ns.max(whole.alone_again.felt.p99_ns).max(1) as f64;
    let header = ["as a whole", "median", "slowest", "wanted: <= 2 ms", "neighbour's p99", "wanted: as alone"];
    let row = |name: &str, nanos: &[u64], neighbour: u64| {
        let slowest = nanos.iter().copied().max().unwrap_or(0);
        [
            name.to_owned(),
            time(median_of_counts(nanos.iter().copied())),
            time(slowest),
            judged(slowest <= WHOLE_NS_MAX),
            time(neighbour),
            judged(neighbour as f64 <= NEIGHBOUR_MAX * alone),
        ]
    };
    let [first, again] = [whole.alone, whole.alone_again].map(|phase| time(phase.felt.p99_ns));
    let beside_nothing = format!("{first}, {again} after");
    align(&[
        header.map(str::to_owned),
        ["nothing", "", "", "", &beside_nothing, ""].map(str::to_owned),
        row("RENAME", &whole.rename_ns, whole.beside_changes.felt.p99_ns),
        row("EXPIRE", &whole.expire_ns, whole.beside_changes.felt.p99_ns),
        row("DEL", &[whole.del_ns], whole.beside_deletion.felt.p99_ns),
    ]) + &format!("flushes and compactions because of the DEL: {}\n", bytes(whole.background_bytes))
}

/// A name for what a row shows, and what the row shows of a tenth.
type Measure<'a> = (&'a str, fn(&Tenth) -> String);

/// A row with a cell for each tenth.
fn tenths_row(name: &str, cell: impl Fn(usize) -> String) -> [String; TENTHS + 1] {
    std::array::from_fn(|column| if column == 0 { name.to_owned() } else { cell(column - 1) })
}

/// When the neighbour's slow requests were: alone, and beside the `DEL`.
fn moments(found: &Found) -> String {
    let whole = &found.whole;
    let phases = [
        ("alone".to_owned(), &whole.alone),
        (format!("DEL in {}", whole.del_tenth + 1), &whole.beside_deletion),
        ("alone again".to_owned(), &whole.alone_again),
    ];
    let mut rows = vec![tenths_row("the neighbour, by tenths", |tenth| (tenth + 1).to_string())];
    let slow = format!("slower than {}", time(whole.alone.felt.p99_ns));
    let measures: [Measure<'_>; 4] = [
        (slow.as_str(), |tenth| tenth.slow.to_string()),
        ("slowest", |tenth| time(tenth.slowest_ns)),
        ("server's CPU", |tenth| time((tenth.cpu_seconds * 1e9) as u64)),
        ("server's I/O", |tenth| bytes(tenth.device_bytes)),
    ];
    for (measure, cell) in measures {
        for (name, phase) in &phases {
            rows.push(tenths_row(&format!("{measure}, {name}"), |tenth| cell(&phase.tenths[tenth])));
        }
    }
    let background = |(name, phase): &(String, &Phase)| {
        let [flushed, compacted] = [phase.flushed_bytes, phase.compacted_bytes].map(bytes);
        format!("{name}: flushes {flushed}, compactions {compacted}, other machines {:.1} %\n", phase.stolen * 100.0)
    };
    let around = format!("the neighbour's slowest within 10 ms of the DEL: {}\n", time(whole.around_del_ns));
    align(&rows) + &phases.iter().map(background).collect::<String>() + &around
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::large::load::Loaded;
    use crate::large::shape::Shape;
    use crate::large::whole::Whole;
    use crate::tenants::victim::Felt;

    fn found() -> Found {
        let asked = |request, p99_ns| Asked {
            request,
            round: 1,
            ops: 10,
            p50_ns: 10_000,
            p99_ns,
            max_ns: 900_000,
            cpu_ns: 20_000,
            reads: 1.5,
        };
        let in_shape = |request, p50_ns: u64| {
            let p99_ns = 2 * p50_ns;
            shape::Asked { request, round: 1, ops: 10, p50_ns, p99_ns, max_ns: 900_000 }
        };
        let phase = |p99_ns| Phase { felt: Felt { p99_ns, ..Felt::default() }, ..Phase::default() };
        let mut beside_deletion = phase(1_200_000);
        beside_deletion.tenths[1] = Tenth { slow: 25, slowest_ns: 7_000_000, ..Tenth::default() };
        Found {
            members: 1_000,
            set_bytes: 4_900,
            rdb_bytes: 2_400,
            shape: Shape {
                bytes: 9_800,
                asked: vec![
                    in_shape(shape::Request::GetOverLoopback, 90_000),
                    in_shape(shape::Request::Get, 50_000),
                    in_shape(shape::Request::Zrank, 500_000),
                ],
            },
            loaded: Loaded { seconds: 1.0, cpu_seconds: 0.5 },
            asked: vec![asked(Request::Get, 200_000), asked(Request::Zadd, 400_000), asked(Request::Zrank, 410_000)],
            whole: Whole {
                rename_ns: vec![100_000, 200_000, 2_100_000],
                expire_ns: vec![100_000],
                del_ns: 2_000_000,
                del_tenth: 1,
                around_del_ns: 6_000_000,
                alone: phase(1_000_000),
                beside_changes: phase(1_300_000),
                beside_deletion,
                alone_again: phase(900_000),
                background_bytes: 7_000_000,
            },
        }
    }

    #[test]
    fn a_rank_in_the_middle_costs_all_members_in_front() {
        let text = table(&found());
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!(line("ZRANK of the first members").ends_with("10.00"), "{text}");
        assert!(line("GET of a member's row, over loopback").ends_with("900 us"), "not compared: {text}");
        let wanted =
            "a rank in that shape, among the first 100: 10.0 us for each member in front; so 5.00 ms in the middle";
        assert_eq!(line("a rank in that shape"), wanted);
    }

    #[test]
    fn slow_requests_beside_the_deletion_are_shown_in_their_tenth() {
        let text = table(&found());
        let words = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("slower than 1.00 ms, DEL in 2 ")[..3], ["0", "25", "0"], "{text}");
        assert_eq!(words("slowest, DEL in 2 ")[2..4], ["7.00", "ms"], "{text}");
        assert_eq!(words("the neighbour's slowest within 10 ms of the DEL:"), ["6.00", "ms"]);
    }

    #[test]
    fn what_is_beyond_its_bound_is_not_met() {
        let text = table(&found());
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        let is_met = |name: &str| (line(name).contains("met"), line(name).contains("not met"));
        assert_eq!((is_met("ZADD"), is_met("ZRANK")), ((true, false), (true, true)));
        assert_eq!(is_met("the set"), (true, true), "2.04 times the dump");
        assert_eq!(line("RENAME").matches("not met").count(), 2);
        assert_eq!(line("EXPIRE").matches("not met").count(), 1, "the neighbour felt it");
        assert_eq!(is_met("DEL"), (true, false));
    }
}
