//! When the neighbour's slow requests were, and what the server did meanwhile: so that one run tells whether they come
//! with a command, with a flush or a compaction, or with neither. While the neighbour is measured, the server is not
//! asked what it does: that is read from the kernel's books, and from the metrics before and after.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::child_server::ChildServer;
use crate::meter::{Account, MachineTime};
use crate::scrape::{Sample, samples};
use crate::tenants::user::User;
use crate::tenants::victim::{self, Felt, Timed};

/// Into how many pieces the time is divided.
pub const TENTHS: usize = 10;
/// Requests that are due this long before a command or after its reply count as beside it.
const AROUND: Duration = Duration::from_millis(10);

/// A tenth of the time in which the neighbour was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tenth {
    /// Requests slower than 99 of 100 of those alone.
    pub slow: u64,
    /// The slowest, in nanoseconds.
    pub slowest_ns: u64,
    /// Processor seconds of the server.
    pub cpu_seconds: f64,
    /// Bytes that the server read from the device and gave to it.
    pub device_bytes: u64,
}

/// The neighbour for some seconds, and the server meanwhile.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Phase {
    /// What the neighbour felt.
    pub felt: Felt,
    /// The same time in pieces.
    pub tenths: [Tenth; TENTHS],
    /// Bytes that flushes of all tenants moved.
    pub flushed_bytes: u64,
    /// Bytes that compactions of all tenants moved.
    pub compacted_bytes: u64,
    /// The share of the processors' time that other machines took.
    pub stolen: f64,
}

/// Measures the neighbour. Requests are slow from `slow_ns` on, or where they are slower than 99 of 100 among
/// themselves. Also returns each of them.
pub(super) fn watch(
    server: &ChildServer,
    neighbour: &User,
    duration: Duration,
    slow_ns: Option<u64>,
) -> Result<(Phase, Vec<Timed>)> {
    let (page_before, time_before) = (server.metrics()?, MachineTime::now());
    let (measured, accounts) = thread::scope(|scope| {
        let measured = scope.spawn(|| victim::measure_each(server, neighbour, duration));
        let accounts = accounts(server, duration);
        (measured.join(), accounts)
    });
    let (felt, requests) = measured.map_err(|_| "the neighbour panicked")??;
    let (stolen, page) = (MachineTime::now().stolen_since(&time_before), server.metrics()?);
    let mut tenths = tenths(&requests, duration, slow_ns.unwrap_or(felt.p99_ns));
    for (tenth, pair) in tenths.iter_mut().zip(accounts?.windows(2)) {
        tenth.cpu_seconds = pair[1].cpu_seconds - pair[0].cpu_seconds;
        tenth.device_bytes = pair[1].read + pair[1].written - pair[0].read - pair[0].written;
    }
    let moved = |bytes: fn(&str, Option<&str>) -> u64| bytes(&page, None).saturating_sub(bytes(&page_before, None));
    let (flushed_bytes, compacted_bytes) = (moved(flushed_bytes), moved(compacted_bytes));
    Ok((Phase { felt, tenths, flushed_bytes, compacted_bytes, stolen }, requests))
}

/// The server's accounts at the beginning and after each tenth of `duration`.
fn accounts(server: &ChildServer, duration: Duration) -> Result<Vec<Account>> {
    let begin = Instant::now();
    let at = |tenth: u32| {
        let at = begin + duration * tenth / TENTHS as u32;
        thread::sleep(at.saturating_duration_since(Instant::now()));
        Account::of(server.process())
    };
    (0..=TENTHS as u32).map(at).collect()
}

/// The requests of each tenth.
fn tenths(requests: &[Timed], duration: Duration, slow_ns: u64) -> [Tenth; TENTHS] {
    let mut tenths = [Tenth::default(); TENTHS];
    for request in requests {
        let tenth = &mut tenths[tenth_of(requests, request.due, duration)];
        tenth.slow += u64::from(request.nanos > slow_ns);
        tenth.slowest_ns = tenth.slowest_ns.max(request.nanos);
    }
    tenths
}

/// In which tenth of `duration`, from when the first request was due, a moment is.
pub(super) fn tenth_of(requests: &[Timed], at: Instant, duration: Duration) -> usize {
    let since = requests.first().map_or(Duration::ZERO, |first| at.saturating_duration_since(first.due));
    let tenth = since.as_nanos() * TENTHS as u128 / duration.as_nanos().max(1);
    (tenth as usize).min(TENTHS - 1)
}

/// The slowest request that was due beside a command that began at `at` and took `length`.
pub(super) fn slowest_around(requests: &[Timed], at: Instant, length: Duration) -> u64 {
    let is_around = |request: &&Timed| request.due + AROUND >= at && request.due <= at + length + AROUND;
    requests.iter().filter(is_around).map(|request| request.nanos).max().unwrap_or(0)
}

/// Bytes that flushes have moved by now, of one tenant or of all, from a page of metrics.
pub(super) fn flushed_bytes(page: &str, tenant: Option<&str>) -> u64 {
    moved_bytes(page, tenant, &["flush"])
}

/// The same of compactions.
pub(super) fn compacted_bytes(page: &str, tenant: Option<&str>) -> u64 {
    moved_bytes(page, tenant, &["l0", "deep", "reclaim"])
}

fn moved_bytes(page: &str, tenant: Option<&str>, classes: &[&str]) -> u64 {
    let is_counted = |sample: &Sample<'_>| {
        sample.name == "weir_tenant_device_bytes_total"
            && (tenant.is_none() || sample.label("tenant") == tenant)
            && sample.label("class").is_some_and(|class| classes.contains(&class))
    };
    samples(page).filter(is_counted).map(|sample| sample.value as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_requests_are_found_where_they_were_due() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let request = |millis: u64, nanos| Timed { due: begin + Duration::from_millis(millis), nanos };
        let requests = [request(0, 5), request(99, 11), request(100, 12), request(150, 3), request(990, 40)];
        let found = tenths(&requests, second, 10);
        assert_eq!(found.map(|tenth| tenth.slow), [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((found[0].slowest_ns, found[1].slowest_ns, found[2].slowest_ns), (11, 12, 0));
        let at = begin + Duration::from_millis(120);
        assert_eq!(tenth_of(&requests, at, second), 1);
        assert_eq!(tenth_of(&requests, begin + 2 * second, second), 9, "behind the end");
        assert_eq!(slowest_around(&requests, at, Duration::from_millis(1)), 0);
        assert_eq!(slowest_around(&requests, at, Duration::from_millis(20)), 3, "due 10 ms after the reply");
    }

    #[test]
    fn flushes_and_compactions_are_told_apart() {
        let of = |tenant: &str, class: &str, bytes: u64| {
            format!("weir_tenant_device_bytes_total{{tenant=\"{tenant}\",class=\"{class}\"}} {bytes}\n")
        };
        let page = [of("a", "flush", 1), of("a", "l0", 2), of("b", "deep", 4), of("b", "log", 8), of("b", "flush", 16)];
        let page = page.concat();
        assert_eq!((flushed_bytes(&page, None), compacted_bytes(&page, None)), (17, 6));
        assert_eq!((flushed_bytes(&page, Some("b")), compacted_bytes(&page, Some("b"))), (16, 4));
    }
}
