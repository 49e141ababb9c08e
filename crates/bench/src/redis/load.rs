//! One run of `redis-benchmark`.

use std::process::{Command, Stdio};

use super::Plan;
use super::server::Server;
use crate::Result;
use crate::outcome::Outcome;

const PROGRAM: &str = "redis-benchmark";

/// A command at a pipeline depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    name: &'static str,
    command: &'static str,
    pipeline: u32,
    requests: u32,
}

impl Load {
    /// The pipelined SET comes first: it is also what fills the store (three requests per key leave one key in twenty
    /// empty).
    pub(super) const ALL: [Load; 4] = [
        Load { name: "set -P 16", command: "set", pipeline: 16, requests: 3_000_000 },
        Load { name: "get -P 16", command: "get", pipeline: 16, requests: 5_000_000 },
        Load { name: "set -P 1", command: "set", pipeline: 1, requests: 500_000 },
        Load { name: "get -P 1", command: "get", pipeline: 1, requests: 500_000 },
    ];

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_set(&self) -> bool {
        self.command == "set"
    }

    /// Runs it against `server`, which must be ready.
    pub(super) fn run(&self, plan: &Plan, server: &Server) -> Result<Outcome> {
        let requests = ((f64::from(self.requests) * plan.scale) as u64).max(1);
        let before = server.cpu_seconds();
        let output = Command::new(PROGRAM)
            .args(["--csv", "-t", self.command])
            .args(["-p", &server.port().to_string()])
            .args(["-P", &self.pipeline.to_string()])
            .args(["-n", &requests.to_string()])
            .args(["-c", &plan.clients.to_string()])
            .args(["-d", &plan.value_bytes.to_string()])
            .args(["-r", &plan.keys.to_string()])
            .args(server.login_args())
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let figures = Figures::parse(&said).filter(|_| output.status.success()).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            format!("{PROGRAM} on {}: {}\n{said}{complaint}", server.kind().name(), output.status)
        })?;
        Ok(Outcome {
            work: self.name.into(),
            engine: server.kind().name().into(),
            version: server.version().into(),
            ops: requests,
            seconds: requests as f64 / figures.ops_per_sec,
            ops_per_sec: figures.ops_per_sec,
            p50_ns: figures.p50_ns,
            p99_ns: figures.p99_ns,
            max_ns: figures.max_ns,
            cpu_seconds: server.cpu_seconds() - before,
            rss_bytes: server.rss_peak_bytes(),
            remarks: server.remarks(),
            ..Outcome::default()
        })
    }
}

/// An error that says what to install, unless the program is there.
pub(super) fn check_installed() -> Result<()> {
    let found = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{PROGRAM} is not installed; on Debian: apt-get install redis-server redis-tools").into()),
    }
}

/// What the CSV says of one test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    ops_per_sec: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Figures {
    /// The line after the header, by the header's names; `None` if that is not what `text` is.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("\"test\""));
        let names: Vec<_> = lines.next()?.split(',').collect();
        let values: Vec<_> = lines.next()?.split(',').collect();
        let number = |name: &str| -> Option<f64> {
            let place = names.iter().position(|column| column.trim_matches('"') == name)?;
            values.get(place)?.trim_matches('"').parse().ok()
        };
        let nanos = |name: &str| number(name).map(|milliseconds| (milliseconds * 1e6) as u64);
        Some(Self {
            ops_per_sec: number("rps")?,
            p50_ns: nanos("p50_latency_ms")?,
            p99_ns: nanos("p99_latency_ms")?,
            max_ns: nanos("max_latency_ms")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_name_behind_warnings() {
        let text = "WARNING: Could not fetch server CONFIG\n\
            \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET\",\"316455.69\",\"1.2\",\"0.1\",\"1.103\",\"2.0\",\"3.5\",\"61.247\"\n";
        let figures = Figures::parse(text).expect("a CSV");
        assert_eq!(
            figures,
            Figures { ops_per_sec: 316_455.69, p50_ns: 1_103_000, p99_ns: 3_500_000, max_ns: 61_247_000 }
        );
    }

    #[test]
    fn what_is_no_csv_gives_no_figures() {
        for text in ["", "Could not connect to Redis", "\"test\",\"rps\"\n", "\"test\",\"rps\"\n\"SET\",\"many\"\n"] {
            assert_eq!(Figures::parse(text), None, "{text:?}");
        }
    }
}
