//! All metrics, under the names that the dashboards use. Everything is read at the moment of the scrape; nothing here
//! is on the path of a request.

mod cache_shares;
mod flush_slots;
mod ledger;
mod node_queue;
mod noisy_neighbours;
mod policy;
mod quota;
mod request_units;
mod shared_log;
mod stalls;
mod tenants;
mod tls;
mod waits;
mod write_shares;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use weir_io::{Class, Clock};
use weir_node::{Direction, JobKind, Node, StallCause};

use super::kernel::{Conservation, KernelBytes};
use crate::listener::Observer;
use crate::store::Store;
use crate::tls::Tls;
use weir_command::table::COMMANDS;

/// A registry of everything that a gateway and a node count. `before` is what the kernel had counted when the node was
/// opened. `secured` are the doors that speak TLS, and the clock by which their certificate expires.
pub fn registry<S: Store>(
    gateway: Observer<S>,
    node: Arc<Node>,
    before: Option<KernelBytes>,
    secured: Option<(Arc<Tls>, Arc<dyn Clock>)>,
) -> Registry {
    let books = Conservation::new(Arc::clone(&node), before);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(move |sheet: &mut Sheet<'_>| {
        tenants::write(&gateway, &node, sheet)?;
        write_gateway(&gateway, sheet)?;
        if let Some((tls, clock)) = &secured {
            tls::write(tls, clock.unix_ms() / 1000, sheet)?;
        }
        write_device(&node, sheet)?;
        write_partitions(&node, sheet)?;
        write_cache(&node, sheet)?;
        cache_shares::write(&node, sheet)?;
        quota::write(&node, sheet)?;
        request_units::write(&gateway, sheet)?;
        node_queue::write(&node, sheet)?;
        stalls::write(&node, sheet)?;
        write_shares::write(&node, sheet)?;
        flush_slots::write(&node, sheet)?;
        shared_log::write(&node, sheet)?;
        policy::write(&node, sheet)?;
        waits::write(&node, sheet)?;
        ledger::write(&books, sheet)
    })));
    registry
}

/// The metrics that are encoded anew at every scrape.
struct Scrape<F>(F);

impl<F> fmt::Debug for Scrape<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl<F: Fn(&mut Sheet<'_>) -> fmt::Result + Send + Sync + 'static> Collector for Scrape<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0(&mut Sheet(encoder))
    }
}

type Label<'a> = (&'static str, &'a str);

/// The only sample of a metric, without labels.
fn alone<T>(value: T) -> [([Label<'static>; 0], T); 1] {
    [([], value)]
}

/// Encodes samples. One call writes one metric, with one sample for each set of labels, or with a single one without
/// labels.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn counter<'l, L: AsRef<[Label<'l>]>>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.samples(name, help, unit, samples.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value))))
    }

    fn gauge<'l, L: AsRef<[Label<'l>]>>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        self.samples(name, help, unit, samples.into_iter().map(|(labels, value)| (labels, gauge(value))))
    }

    /// A counter of seconds, from nanoseconds.
    fn seconds<'l, L: AsRef<[Label<'l>]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let seconds = samples.into_iter().map(|(labels, nanos)| (labels, ConstCounter::new(nanos as f64 / 1e9)));
        self.samples(name, help, Some(&Unit::Seconds), seconds)
    }

    fn samples<'l, L: AsRef<[Label<'l>]>, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        samples: impl IntoIterator<Item = (L, M)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter();
        let Some((labels, metric)) = samples.next() else { return Ok(()) };
        let mut encoder = self.0.encode_descriptor(name, help, unit, metric.metric_type())?;
        if labels.as_ref().is_empty() {
            return metric.encode(encoder);
        }
        metric.encode(encoder.encode_family(&labels.as_ref())?)?;
        samples.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(&labels.as_ref())?))
    }
}

fn write_gateway<S: Store>(gateway: &Observer<S>, sheet: &mut Sheet<'_>) -> fmt::Result {
    let (totals, clients) = (gateway.totals(), gateway.clients());
    let called = COMMANDS.iter().zip(&totals.commands).filter(|(_, calls)| **calls > 0);
    let called = called.map(|(command, calls)| ([("command", command.name)], *calls));
    sheet.counter("weir_commands", "Calls of each command that was called at least once", None, called)?;
    sheet.counter("weir_command_errors", "Error replies sent to clients", None, alone(totals.errors))?;
    let lookups = [([("found", "true")], totals.hits), ([("found", "false")], totals.misses)];
    sheet.counter("weir_key_lookups", "Reads of one key by clients, by whether the key was found", None, lookups)?;
    let bytes = [([("direction", "in")], totals.bytes_in), ([("direction", "out")], totals.bytes_out)];
    sheet.counter("weir_network", "Bytes of requests (in) and replies (out)", Some(&Unit::Bytes), bytes)?;
    sheet.gauge("weir_connections", "Open connections", None, alone(clients.open))?;
    sheet.counter("weir_connections_admitted", "Connections accepted", None, alone(clients.admitted))?;
    let help = "Connections refused because connections_max were open";
    sheet.counter("weir_connections_refused", help, None, alone(totals.refused))?;
    let help = "Connections without a login that were closed to make room for newer ones";
    sheet.counter("weir_strangers_displaced", help, None, alone(clients.displaced))?;
    let help = "Connections closed because they kept the server waiting";
    sheet.counter("weir_connections_cut", help, None, alone(totals.cut))?;
    let help = "Connections closed because they did not take the messages that they had subscribed to";
    sheet.counter("weir_slow_listeners_cut", help, None, alone(totals.slow_listeners))?;
    noisy_neighbours::write(sheet, &noisy_neighbours::busiest(gateway.processor_use().into_values().collect()))
}

/// The books of the one door to the disk (rule 8 of the architecture).
fn write_device(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let booked = node.ledger().total();
    let directions = [("read", Direction::Read), ("write", Direction::Write)];
    let cells = Class::ALL.iter().flat_map(|&class| {
        let labels = move |name| [("class", class.name()), ("direction", name)];
        directions.map(|(name, direction)| (labels(name), booked[(class, direction)]))
    });
    let bytes = cells.clone().map(|(labels, amount)| (labels, amount.bytes));
    sheet.counter("weir_device", "Bytes read from and written to the device, by cause", Some(&Unit::Bytes), bytes)?;
    let ops = cells.map(|(labels, amount)| (labels, amount.ops));
    sheet.counter("weir_device_operations", "Operations of the device, by cause", None, ops)
}

fn write_partitions(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let metrics = node.metrics();
    let (engine, shape) = (&metrics.engine, metrics.engine.shape());
    sheet.counter("weir_reads", "Keys read", None, alone(metrics.reads))?;
    let waited = metrics.reads_from_device;
    sheet.counter("weir_reads_from_device", "Keys whose read waited for the device", None, alone(waited))?;
    sheet.counter("weir_writes", "Batches written", None, alone(metrics.writes))?;
    let written = metrics.written_bytes;
    sheet.counter("weir_written", "Bytes of the batches written", Some(&Unit::Bytes), alone(written))?;
    let help = "Batches not acknowledged, because the disk is full or fails";
    sheet.counter("weir_write_errors", help, None, alone(metrics.write_errors))?;
    sheet.counter("weir_jobs", "Flushes and compactions that are done", None, alone(metrics.jobs))?;
    sheet.counter("weir_job_errors", "Flushes and compactions that failed", None, alone(metrics.job_errors))?;
    let kinds = JobKind::ALL.map(|kind| [("kind", kind.name())]);
    let jobs = kinds.iter().zip(&engine.jobs);
    let running = jobs.clone().map(|(labels, jobs)| (labels, jobs.running as u64));
    sheet.gauge("weir_jobs_running", "Flushes and compactions under way, parked ones included", None, running)?;
    let parked = jobs.map(|(labels, jobs)| (labels, jobs.parked as u64));
    let help = "Compactions that are parked now, because the scope of their tree does not admit them";
    sheet.gauge("weir_jobs_parked", help, None, parked)?;
    let (released, wasted) = (metrics.jobs_released, metrics.bytes_thrown_away);
    sheet.counter("weir_jobs_parkings", "Compactions parked", None, alone(metrics.jobs_parked))?;
    sheet.counter("weir_jobs_released", "Parked compactions that were cancelled", None, alone(released))?;
    sheet.counter("weir_thrown_away", "Bytes that cancelled jobs had written", Some(&Unit::Bytes), alone(wasted))?;
    let (reclaimed, dropped) = (metrics.bytes_reclaimed, metrics.tables_dropped);
    let help = "Bytes of tables given back by jobs whose purpose was to free them";
    sheet.counter("weir_reclaimed", help, Some(&Unit::Bytes), alone(reclaimed))?;
    let help = "Tables without living data that were dropped without being read";
    sheet.counter("weir_tables_dropped", help, None, alone(dropped))?;
    let (parts, bytes) = (metrics.parts_dropped, metrics.parts_dropped_bytes);
    sheet.counter("weir_parts_dropped", "Parts of deleted rows that were dropped", None, alone(parts))?;
    let help = "Bytes of the keys and values of parts of deleted rows that were dropped";
    sheet.counter("weir_parts_dropped", help, Some(&Unit::Bytes), alone(bytes))?;
    let pinned = metrics.cache.pinned_bytes;
    let help = "Bytes of blocks of levels 0 and 1 that stay in the cache";
    sheet.gauge("weir_pinned", help, Some(&Unit::Bytes), alone(pinned))?;
    let (active, sealed) = (shape.memtable_bytes as u64, shape.sealed_bytes as u64);
    let memtables = [([("state", "active")], active), ([("state", "sealed")], sealed)];
    sheet.gauge("weir_memtables", "Memory of the memtables of all tenants", Some(&Unit::Bytes), memtables)?;
    let debt = engine.debt_bytes;
    sheet.gauge("weir_compaction_debt", "Bytes above the targets of their levels", Some(&Unit::Bytes), alone(debt))?;
    if let Some(left) = engine.bytes_to_stall {
        let help = "Bytes that can be written before writes stop, for the partition that is nearest to a stall";
        sheet.gauge("weir_stall_distance", help, Some(&Unit::Bytes), alone(left))?;
    }
    let resident = engine.resident_bytes;
    let help = "Memory of the rows of the engine memory, older versions included";
    sheet.gauge("weir_resident", help, Some(&Unit::Bytes), alone(resident))?;
    let numbers: Vec<String> = (0..shape.levels.len()).map(|level| level.to_string()).collect();
    let levels = numbers.iter().map(|number| [("level", number.as_str())]).zip(&shape.levels);
    let tables = levels.clone().map(|(labels, level)| (labels, level.tables as u64));
    sheet.gauge("weir_level_tables", "Tables of a level, over all trees that are awake", None, tables)?;
    let bytes = levels.map(|(labels, level)| (labels, level.bytes));
    sheet.gauge("weir_level", "Bytes of a level, over all trees that are awake", Some(&Unit::Bytes), bytes)?;
    let help = "Logs replaced after a failed write or sync";
    sheet.counter("weir_log_replacements", help, None, alone(metrics.log_replacements))?;
    let reserve = node.reserve_bytes();
    let help = "Space that is set aside so that tenants can be dropped while the disk is full";
    sheet.gauge("weir_catalogue_reserve", help, Some(&Unit::Bytes), alone(reserve))?;
    let stalls = StallCause::ALL.iter().zip(&metrics.stalls).flat_map(|(cause, times)| {
        let labels = |kind| [("cause", cause.name()), ("kind", kind)];
        [(labels("slowed"), times.slowed, times.slowed_nanos), (labels("stopped"), times.stopped, times.stopped_nanos)]
    });
    let counts = stalls.clone().map(|(labels, count, _)| (labels, count));
    sheet.counter(
        "weir_stalled_writes",
        "Writes that waited for a flush, a compaction or write memory",
        None,
        counts,
    )?;
    let help = "How long writes waited for a flush, a compaction or write memory, in total";
    sheet.seconds("weir_stalled", help, stalls.map(|(labels, _, nanos)| (labels, nanos)))
}

fn write_cache(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let usage = node.cache().usage();
    sheet.gauge("weir_cache", "Bytes of blocks in the block cache", Some(&Unit::Bytes), alone(usage.bytes))?;
    let lookups = [([("found", "true")], usage.hits), ([("found", "false")], usage.misses)];
    let help = "Blocks looked up in the block cache, by whether they were found";
    sheet.counter("weir_cache_lookups", help, None, lookups)
}
