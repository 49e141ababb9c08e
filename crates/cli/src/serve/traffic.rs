//! `weir serve --record-traffic`: records the requests of tenants as a trace that `weir sim trace` replays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use weir_gateway::admin::operator::Operator;
use weir_gateway::admin::wire::{Top, TopTenant};
use weir_io::{Clock, Nanos, sleep_until};
use weir_node::cost::{RCU_BYTES, WCU_BYTES};
use weir_scenario::trace::{HEADER, Sold, TENANTS_MAX, has_room, line, name_line, sold_line};

/// Length of a step, in nanoseconds.
const STEP: Nanos = 10_000_000_000;
/// Recordings that one path may have, under different numbers: a server that fails at every start is started for ever.
const RECORDINGS_MAX: u64 = 1000;
/// The units that a tenant without limits is assumed to have bought: those of the paper's partition.
const SOLD_WITHOUT_LIMIT: u64 = 3000;

/// Writes the recording: for each step, what was asked for as a share of what was bought.
pub struct Traffic<W> {
    to: W,
    started: Option<Nanos>,
    before: Top,
    /// Numbers of the trace, by numbers of tenants.
    numbers: BTreeMap<u32, usize>,
    /// Shares written last.
    last: BTreeMap<usize, (f32, f32)>,
    /// What was sold, as written last.
    sold: BTreeMap<usize, Sold>,
}

impl Traffic<File> {
    /// A recording into a new file at `path`, or at the first of `week.1.csv`, `week.2.csv`, ... that does not exist,
    /// if `week.csv` does: a server that is started again by a supervisor has the arguments of the start before, and
    /// must neither fail nor overwrite a recording. Gives the path of the file, too; `None` if there are as many
    /// recordings as there may be.
    #[allow(clippy::disallowed_methods, reason = "the operator's file, no data of a node")]
    pub fn create(path: &Path) -> io::Result<Option<(PathBuf, Self)>> {
        for number in 0..RECORDINGS_MAX {
            let to = if number == 0 { Some(path.to_path_buf()) } else { numbered(path, number) };
            let to = to.ok_or(io::ErrorKind::AlreadyExists)?;
            match File::create_new(&to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok(Some((to, Traffic::new(created?)?))),
            }
        }
        Ok(None)
    }
}

/// `path` with a number before its extension; `None` if it has no file name.
fn numbered(path: &Path, number: u64) -> Option<PathBuf> {
    let mut name = path.file_stem()?.to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    Some(path.with_file_name(name))
}

impl<W: Write> Traffic<W> {
    fn new(mut to: W) -> io::Result<Self> {
        writeln!(to, "{HEADER}")?;
        Ok(Self {
            to,
            started: None,
            before: Top::default(),
            numbers: BTreeMap::new(),
            last: BTreeMap::new(),
            sold: BTreeMap::new(),
        })
    }

    /// Takes the counters at the end of a step; the first counters are the beginning of the first step. Of each tenant,
    /// the first shares are written, so that the trace knows all tenants, and then only those that have changed.
    /// Returns whether the recording goes on: no trace has room for more than a month.
    fn step(&mut self, now: Top) -> io::Result<bool> {
        let Some(started) = self.started else {
            (self.started, self.before) = (Some(now.at_nanos), now);
            return Ok(true);
        };
        let before = std::mem::take(&mut self.before);
        let seconds = now.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9;
        // A timer is a little late: the step that begins after 10.001 s is the one that begins after 10 s.
        let begins = before.at_nanos.saturating_sub(started).saturating_add(STEP / 2);
        let second = begins / STEP * (STEP / 1_000_000_000);
        let new = now.tenants.iter().filter(|tenant| !self.numbers.contains_key(&tenant.id)).count();
        if !has_room((self.numbers.len() + new).min(TENANTS_MAX), second, STEP / 1_000_000_000) {
            return Ok(false);
        }
        let old: BTreeMap<u32, &TopTenant> = before.tenants.iter().map(|tenant| (tenant.id, tenant)).collect();
        let fresh = TopTenant::default();
        for tenant in &now.tenants {
            let (next, is_new) = (self.numbers.len(), !self.numbers.contains_key(&tenant.id));
            let number = *self.numbers.entry(tenant.id).or_insert(next);
            // A trace holds no more tenants: those that came last are left out.
            if number >= TENANTS_MAX {
                continue;
            }
            if is_new {
                self.to.write_all(name_line(number, &tenant.name).as_bytes())?;
            }
            let before = old.get(&tenant.id).copied().unwrap_or(&fresh);
            let or_the_papers = |sold: u64| if sold == 0 { SOLD_WITHOUT_LIMIT } else { sold };
            let sold = Sold { writes: or_the_papers(tenant.wcu), reads: or_the_papers(tenant.rcu) };
            if self.sold.insert(number, sold) != Some(sold) {
                self.to.write_all(sold_line(number, sold).as_bytes())?;
            }
            let share = |ops: u64, bytes: u64, unit: u64, sold: u64| {
                let units = ops.max(bytes.div_ceil(unit)) as f64;
                (units / seconds.max(1e-3) / sold as f64).min(1.0) as f32
            };
            let since = |of: fn(&TopTenant) -> u64| of(tenant).saturating_sub(of(before));
            let shares = (
                share(since(|it| it.writes), since(|it| it.written_bytes), WCU_BYTES, sold.writes),
                share(since(|it| it.reads), since(|it| it.read_bytes), RCU_BYTES, sold.reads),
            );
            self.write(second, number, shares)?;
        }
        // A tenant that was dropped asks for nothing any more. Without this line it would go on as before, for ever.
        let there: BTreeSet<u32> = now.tenants.iter().map(|tenant| tenant.id).collect();
        let is_gone = |(id, number): &(&u32, &usize)| !there.contains(*id) && self.last.contains_key(*number);
        let gone: Vec<usize> = self.numbers.iter().filter(is_gone).map(|(_, &number)| number).collect();
        for number in gone {
            self.write(second, number, (0.0, 0.0))?;
        }
        self.before = now;
        self.to.flush().map(|()| true)
    }

    /// Writes what a tenant asks for from `second` on, unless the last line about it says the same.
    fn write(&mut self, second: u64, number: usize, shares: (f32, f32)) -> io::Result<()> {
        if self.last.insert(number, shares) != Some(shares) {
            self.to.write_all(line(second, number, shares).as_bytes())?;
        }
        Ok(())
    }
}

/// Records until the server is gone, or the file has all that a trace has room for. A file that cannot be written ends
/// the recording, and nothing else.
pub async fn record(mut traffic: Traffic<File>, path: PathBuf, node: Weak<dyn Operator>, clock: Arc<dyn Clock>) {
    loop {
        let Some(counts) = node.upgrade().map(|node| node.top()) else { return };
        match traffic.step(counts) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(path = %path.display(), "the recording is as long as a trace may be, and ends");
                return;
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the traffic is not recorded any more");
                return;
            }
        }
        sleep_until(&clock, clock.now() + STEP).await;
    }
}

#[cfg(test)]
mod tests {
    use weir_scenario::trace::Trace;

    use super::*;

    fn top(second: u64, tenants: &[(u32, u64, u64)]) -> Top {
        // Each write of 100 bytes goes with a read of 4 KiB.
        let tenant = |&(id, writes, wcu): &(u32, u64, u64)| {
            let (written_bytes, read_bytes) = (100 * writes, RCU_BYTES * writes);
            TopTenant {
                id,
                name: format!("shop-{id}"),
                writes,
                wcu,
                rcu: 2 * wcu,
                written_bytes,
                reads: writes,
                read_bytes,
                ..TopTenant::default()
            }
        };
        Top { at_nanos: second * 1_000_000_000, tenants: tenants.iter().map(tenant).collect(), ..Top::default() }
    }

    #[test]
    fn what_is_recorded_is_a_trace() {
        let mut traffic = Traffic::new(Vec::new()).expect("memory");
        // Tenant 7 writes half of its 200 units a second, then nothing; tenant 9, without limits, comes later and
        // writes all of the 3000.
        let steps = [
            top(100, &[(7, 5, 200)]),
            top(110, &[(7, 1005, 200)]),
            top(120, &[(7, 2005, 200)]),
            top(130, &[(7, 2005, 200), (9, 60_000, 0)]),
        ];
        steps.into_iter().for_each(|step| assert!(traffic.step(step).expect("memory")));
        let text = String::from_utf8(traffic.to).expect("text");
        assert_eq!(
            text,
            "second,tenant,writes,reads\n# name,0,shop-7\n# sold,0,200,400\n0,0,0.5000,0.2500\n20,0,0.0000,0.0000\n\
             # name,1,shop-9\n# sold,1,3000,3000\n20,1,1.0000,1.0000\n"
        );
        let trace = Trace::parse(&text).expect("it can be replayed");
        assert_eq!(trace.sold(0), Some(Sold { writes: 200, reads: 400 }));
        assert_eq!(trace.steps(0, false).collect::<Vec<_>>(), [0.5, 0.0]);
    }

    fn recorded(steps: impl IntoIterator<Item = Top>) -> String {
        let mut traffic = Traffic::new(Vec::new()).expect("memory");
        steps.into_iter().for_each(|step| assert!(traffic.step(step).expect("memory")));
        String::from_utf8(traffic.to).expect("text")
    }

    #[test]
    fn steps_that_begin_a_little_late_have_their_own_seconds() {
        let late = |step: u64, writes| Top { at_nanos: step * 10_001_000_000, ..top(0, &[(7, writes, 200)]) };
        let text = recorded([late(0, 0), late(1, 1000), late(2, 1500), late(3, 3000)]);
        let lines = text.lines().skip(1).filter(|line| !line.starts_with('#'));
        let seconds: Vec<&str> = lines.filter_map(|line| line.split(',').next()).collect();
        assert_eq!(seconds, ["0", "10", "20"], "{text}");
    }

    #[test]
    fn a_dropped_tenant_asks_for_nothing_and_an_idle_one_is_there() {
        let both = |second, writes| top(second, &[(7, writes, 200), (8, 0, 200)]);
        let text = recorded([both(100, 0), both(110, 1000), top(120, &[(8, 0, 200)]), top(130, &[(8, 0, 200)])]);
        assert_eq!(
            text,
            "second,tenant,writes,reads\n# name,0,shop-7\n# sold,0,200,400\n0,0,0.5000,0.2500\n\
             # name,1,shop-8\n# sold,1,200,400\n0,1,0.0000,0.0000\n10,0,0.0000,0.0000\n"
        );
        let trace = Trace::parse(&text).expect("it can be replayed");
        assert_eq!((trace.tenants(), trace.steps(0, false).collect::<Vec<_>>()), (2, vec![0.5, 0.0]));
    }

    #[test]
    fn a_recording_ends_while_it_can_still_be_read() {
        const MONTH: u64 = 31 * 86_400;
        let mut traffic = Traffic::new(Vec::new()).expect("memory");
        let mut goes_on = |second, writes| traffic.step(top(second, &[(7, writes, 200)])).expect("memory");
        let steps = [(0, 0), (10, 500), (MONTH, 500), (MONTH + 10, 1500), (MONTH + 20, 2500)];
        assert_eq!(steps.map(|(second, writes)| goes_on(second, writes)), [true, true, true, true, false]);
        let trace = Trace::parse(&String::from_utf8(traffic.to).expect("text")).expect("it can be replayed");
        assert_eq!((trace.seconds(), trace.steps(0, false).last()), (MONTH + 10, Some(0.5)));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the operator's files")]
    fn a_path_has_a_thousand_recordings_at_most() {
        let dir = std::env::temp_dir().join(format!("weir-recordings-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("week.csv");
        let create = || Traffic::create(&path).expect("it can be written").map(|(path, _)| path);
        assert_eq!(create(), Some(path.clone()));
        for number in 1..RECORDINGS_MAX {
            std::fs::write(numbered(&path, number).expect("a name"), "a recording").expect("written");
        }
        assert_eq!(create(), None);
        let seventh = dir.join("week.7.csv");
        std::fs::remove_file(&seventh).expect("it was there");
        assert_eq!(create(), Some(seventh));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
