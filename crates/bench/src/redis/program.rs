//! One run of `redis-benchmark`.

use std::process::{Command, Stdio};

use super::server::Server;
use crate::Result;
use crate::outcome::Outcome;

const PROGRAM: &str = "redis-benchmark";

/// What to ask, and how.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    /// The work's name.
    pub(crate) work: &'a str,
    /// Requests in all.
    pub(crate) requests: u64,
    /// Requests that a connection sends at once.
    pub(crate) pipeline: u32,
    /// Connections.
    pub(crate) clients: u32,
    /// Numbers to draw from.
    pub(crate) keys: u32,
    /// Further options, and the command if `redis-benchmark` has no test of it.
    pub(crate) words: Vec<String>,
}

impl Run<'_> {
    /// Runs it against `server`, which must be ready.
    pub(crate) fn on(&self, server: &Server) -> Result<Outcome> {
        let before = server.cpu_seconds();
        let output = Command::new(PROGRAM)
            .args(["--csv", "-p", &server.port().to_string()])
            .args(["-P", &self.pipeline.to_string()])
            .args(["-n", &self.requests.to_string()])
            .args(["-c", &self.clients.to_string()])
            .args(["-r", &self.keys.to_string()])
            .args(server.login_args())
            .args(&self.words)
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let figures = Figures::parse(&said).filter(|_| output.status.success()).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            format!("{PROGRAM} on {}, {}: {}\n{said}{complaint}", server.kind().name(), self.work, output.status)
        })?;
        Ok(Outcome {
            work: self.work.into(),
            engine: server.kind().name().into(),
            version: server.version().into(),
            ops: self.requests,
            seconds: self.requests as f64 / figures.ops_per_sec,
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

/// Checks that the program is there; the error says what to install.
pub(crate) fn check_installed() -> Result<()> {
    let found = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{PROGRAM} is not installed; on Debian: apt-get install redis-server redis-tools").into()),
    }
}

/// The CSV line of one test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    ops_per_sec: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Figures {
    /// Parses the line after the header, by the header's names; `None` if `text` is something else.
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
