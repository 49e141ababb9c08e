//! The ledger against the kernel: a mixed load on a real disk, then what the server has booked beside what
//! `/proc/self/io` reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_io::Rng;

use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::data::{Values, key};
use crate::report::words::{align, bytes};
use crate::scrape;
use crate::wire::Client;

/// Keys that are written and read: several times the server's cache.
const KEYS: u64 = 300_000;
/// Commands in flight at full speed.
const DEPTH: usize = 32;
/// The load changes between full speed and a trickle this often: small appends are what page caches round up.
const SPELL: Duration = Duration::from_secs(5);
/// Time between two commands of a trickle.
const TRICKLE: Duration = Duration::from_millis(2);
/// Bytes of a value.
const VALUE_BYTES: usize = 400;
/// Small memories, so that a few minutes are enough for flushes, compactions of every kind and reads of the device.
const CONFIG: &str = "cache = \"16 MiB\"\nwrite_buffer = \"4 MiB\"\n";

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sync modes, as the configuration names them.
    pub modes: Vec<String>,
    /// Seconds of load in each mode.
    pub seconds: u64,
    /// Directory on the disk to measure.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
}

/// One mode's books.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Books {
    /// The sync mode.
    pub sync: String,
    /// Commands sent.
    pub ops: u64,
    /// Bytes booked, by `class direction`.
    pub booked: BTreeMap<String, u64>,
    /// Bytes that the kernel counted: read, written.
    pub kernel: [u64; 2],
    /// Bytes of values read and batches written by users.
    pub user: [u64; 2],
}

impl Books {
    /// Booked bytes: read, written.
    pub fn total(&self) -> [u64; 2] {
        ["read", "write"].map(|direction| {
            let of = self.booked.iter().filter(|(name, _)| name.ends_with(direction));
            of.map(|(_, bytes)| bytes).sum()
        })
    }

    /// By how much the booked bytes exceed the kernel's count, as a share of that count: read, written.
    pub fn deviation(&self) -> [f64; 2] {
        let total = self.total();
        [0, 1].map(|at| (total[at] as f64 - self.kernel[at] as f64) / self.kernel[at].max(1) as f64)
    }
}

/// Runs every mode, and reports a line to `progress` now and then.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Vec<Books>> {
    plan.modes.iter().map(|mode| run_mode(plan, mode, &mut progress)).collect()
}

fn run_mode(plan: &Plan, mode: &str, progress: &mut impl FnMut(&str)) -> Result<Books> {
    let dir = plan.dir.join(format!("ledger-{mode}"));
    child_server::remove(&dir)?;
    let server = ChildServer::start(&plan.weir, &dir, &format!("sync = \"{mode}\"\n{CONFIG}"))?;
    let ops = load(server.connect()?, Duration::from_secs(plan.seconds), |done, ops| {
        progress(&format!("{mode}: {} of {} s, {ops} commands", done.as_secs(), plan.seconds));
    })?;
    // I/O that is in flight when the two sides are read would be on one side only.
    thread::sleep(Duration::from_secs(1));
    let mut books = read_books(&server.metrics()?);
    (books.sync, books.ops) = (mode.to_owned(), ops);
    server.stop()?;
    child_server::remove(&dir)?;
    Ok(books)
}

/// Writes, overwrites, deletes, expiries, counters, reads, and scans, at full speed and as a trickle in turn.
fn load(mut client: Client, duration: Duration, mut progress: impl FnMut(Duration, u64)) -> Result<u64> {
    let (mut rng, values) = (Rng::new(1), Values::new(VALUE_BYTES));
    let (mut value, mut ops) = (Vec::new(), 0);
    let begin = Instant::now();
    let mut spell = 0;
    while begin.elapsed() < duration {
        let now = u32::try_from(begin.elapsed().as_secs() / SPELL.as_secs()).unwrap_or(u32::MAX);
        if now != spell {
            spell = now;
            progress(begin.elapsed(), ops);
        }
        let is_trickle = spell % 2 == 1;
        let depth = if is_trickle { 1 } else { DEPTH };
        for _ in 0..depth {
            let (item, key) = (rng.below(KEYS), key(rng.below(KEYS)));
            value.clear();
            values.fill(item, &mut value);
            match rng.below(20) {
                0 => client.push(&[b"DEL", &key]),
                1 => client.push(&[b"SET", &key, &value, b"EX", b"30"]),
                2 => client.push(&[b"INCR", format!("counter{}", item % 1000).as_bytes()]),
                3..=9 => client.push(&[b"SET", &key, &value]),
                10 if item % 50 == 0 => client.push(&[b"SCAN", b"0", b"COUNT", b"100"]),
                _ => client.push(&[b"GET", &key]),
            }
        }
        client.flush()?;
        for _ in 0..depth {
            client.read()?;
        }
        ops += depth as u64;
        if is_trickle {
            thread::sleep(TRICKLE);
        }
    }
    Ok(ops)
}

/// The books as the operators' port shows them.
fn read_books(metrics: &str) -> Books {
    let mut books = Books::default();
    for sample in scrape::samples(metrics) {
        let value = sample.value as u64;
        let at = usize::from(sample.label("direction") == Some("write"));
        match sample.name {
            "weir_device_bytes_total" if value > 0 => {
                let [class, direction] = ["class", "direction"].map(|name| sample.label(name).unwrap_or("?"));
                books.booked.insert(format!("{class} {direction}"), value);
            }
            "weir_kernel_bytes_total" => books.kernel[at] = value,
            "weir_tenant_user_bytes_total" => books.user[at] += value,
            _ => {}
        }
    }
    books
}

/// A table of all modes.
pub fn table(all: &[Books]) -> String {
    let mut rows = vec![["sync", "cause", "read", "written"].map(str::to_owned)];
    for books in all {
        for class in weir_io::Class::ALL {
            let of = |direction: &str| books.booked.get(&format!("{} {direction}", class.name())).copied().unwrap_or(0);
            rows.push([books.sync.clone(), class.name().to_owned(), bytes(of("read")), bytes(of("write"))]);
        }
        let [read, written] = books.total();
        rows.push([books.sync.clone(), "booked".to_owned(), bytes(read), bytes(written)]);
        let [read, written] = books.kernel;
        rows.push([books.sync.clone(), "kernel".to_owned(), bytes(read), bytes(written)]);
        let percent = books.deviation().map(|deviation| format!("{:+.3} %", deviation * 100.0));
        let [read, written] = percent;
        rows.push([books.sync.clone(), "deviation".to_owned(), read, written]);
    }
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_are_read_from_the_metrics() {
        let text = "# TYPE weir_device_bytes counter\n\
                    weir_device_bytes_total{class=\"log\",direction=\"write\"} 990\n\
                    weir_device_bytes_total{class=\"read\",direction=\"read\"} 0\n\
                    weir_kernel_bytes_total{direction=\"write\"} 1000\n\
                    weir_tenant_user_bytes_total{tenant=\"a\",direction=\"write\"} 7\n";
        let books = read_books(text);
        assert_eq!(books.total(), [0, 990]);
        assert_eq!((books.kernel, books.user), ([0, 1000], [0, 7]));
        assert!((books.deviation()[1] + 0.01).abs() < 1e-9);
    }
}
