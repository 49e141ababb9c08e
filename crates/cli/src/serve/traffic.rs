//! `weir serve --record-traffic`: records the requests of tenants as a trace that `weir sim trace` replays.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use weir_gateway::admin::operator::Operator;
use weir_gateway::admin::wire::{Top, TopTenant};
use weir_io::{Clock, Nanos, sleep_until};
use weir_node::cost::{RCU_BYTES, WCU_BYTES};
use weir_scenario::trace::{HEADER, Sold, TENANTS_MAX, line, sold_line};

/// Length of a step, in nanoseconds.
const STEP: Nanos = 10_000_000_000;
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
    /// must neither fail nor overwrite a recording. Gives the path of the file, too.
    #[allow(clippy::disallowed_methods, reason = "the operator's file, no data of a node")]
    pub fn create(path: &Path) -> io::Result<(PathBuf, Self)> {
        let others = (1_u64..).map_while(|number| numbered(path, number));
        for to in std::iter::once(path.to_path_buf()).chain(others) {
            match File::create_new(&to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((to, Traffic::new(created?)?)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
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

    /// Takes the counters at the end of a step; the first counters are the beginning of the first step. Only shares
    /// that have changed are written.
    fn step(&mut self, now: Top) -> io::Result<()> {
        let Some(started) = self.started else {
            (self.started, self.before) = (Some(now.at_nanos), now);
            return Ok(());
        };
        let seconds = now.at_nanos.saturating_sub(self.before.at_nanos) as f64 / 1e9;
        let second = self.before.at_nanos.saturating_sub(started).div_ceil(STEP) * (STEP / 1_000_000_000);
        let old: BTreeMap<u32, &TopTenant> = self.before.tenants.iter().map(|tenant| (tenant.id, tenant)).collect();
        let fresh = TopTenant::default();
        for tenant in &now.tenants {
            let next = self.numbers.len();
            let number = *self.numbers.entry(tenant.id).or_insert(next);
            // A trace holds no more tenants: those that came last are left out.
            if number >= TENANTS_MAX {
                continue;
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
            if self.last.insert(number, shares).unwrap_or_default() != shares {
                self.to.write_all(line(second, number, shares).as_bytes())?;
            }
        }
        self.before = now;
        self.to.flush()
    }
}

/// Records until the server is gone. A file that cannot be written ends the recording, and nothing else.
pub async fn record(mut traffic: Traffic<File>, path: PathBuf, node: Weak<dyn Operator>, clock: Arc<dyn Clock>) {
    loop {
        let Some(counts) = node.upgrade().map(|node| node.top()) else { return };
        if let Err(error) = traffic.step(counts) {
            tracing::error!(path = %path.display(), %error, "the traffic is not recorded any more");
            return;
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
        steps.into_iter().for_each(|step| traffic.step(step).expect("memory"));
        let text = String::from_utf8(traffic.to).expect("text");
        assert_eq!(
            text,
            "second,tenant,writes,reads\n# sold,0,200,400\n0,0,0.5000,0.2500\n20,0,0.0000,0.0000\n\
             # sold,1,3000,3000\n20,1,1.0000,1.0000\n"
        );
        let trace = Trace::parse(&text).expect("it can be replayed");
        assert_eq!(trace.sold(0), Some(Sold { writes: 200, reads: 400 }));
        assert_eq!(trace.steps(0, false).collect::<Vec<_>>(), [0.5, 0.0]);
    }
}
