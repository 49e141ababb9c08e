//! What is counted, under the names of the dashboards. Everything is read at the moment of the scrape; nothing here is
//! on the path of a request.

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
/// opened; `secured` are the doors that speak TLS, and the clock by which their certificate expires.
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

/// What is written down with every scrape.
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

/// Writes samples: one call is one metric, with one sample for each set of labels, or a single one without any.
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
    sheet.counter("weir_commands", "Commands called", None, called)?;
    sheet.counter("weir_command_errors", "Error replies", None, alone(totals.errors))?;
    let lookups = [([("found", "true")], totals.hits), ([("found", "false")], totals.misses)];
    sheet.counter("weir_key_lookups", "Reads of one key by clients", None, lookups)?;
    let bytes = [([("direction", "in")], totals.bytes_in), ([("direction", "out")], totals.bytes_out)];
    sheet.counter("weir_network", "Bytes of requests and replies", Some(&Unit::Bytes), bytes)?;
    sheet.gauge("weir_connections", "Open connections", None, alone(clients.open))?;
    sheet.counter("weir_connections_admitted", "Connections accepted", None, alone(clients.admitted))?;
    let help = "Connections beyond the limit of the node";
    sheet.counter("weir_connections_refused", help, None, alone(totals.refused))?;
    let help = "Connections cut for newer ones before a login";
    sheet.counter("weir_strangers_displaced", help, None, alone(clients.displaced))?;
    sheet.counter("weir_connections_cut", "Connections that kept us waiting", None, alone(totals.cut))?;
    let help = "Connections that did not take the messages they subscribed to";
    sheet.counter("weir_slow_listeners_cut", help, None, alone(totals.slow_listeners))?;
    noisy_neighbours::write(sheet, &noisy_neighbours::busiest(gateway.processor_use().into_values().collect()))
}

/// The books of the one door (house rule 8).
fn write_device(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let booked = node.ledger().total();
    let directions = [("read", Direction::Read), ("write", Direction::Write)];
    let cells = Class::ALL.iter().flat_map(|&class| {
        let labels = move |name| [("class", class.name()), ("direction", name)];
        directions.map(|(name, direction)| (labels(name), booked[(class, direction)]))
    });
    let bytes = cells.clone().map(|(labels, amount)| (labels, amount.bytes));
    sheet.counter("weir_device", "Bytes through the door, by cause", Some(&Unit::Bytes), bytes)?;
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
    sheet.counter("weir_written", "Encoded batches", Some(&Unit::Bytes), alone(written))?;
    sheet.counter("weir_write_errors", "Batches not acknowledged", None, alone(metrics.write_errors))?;
    sheet.counter("weir_jobs", "Flushes and compactions done", None, alone(metrics.jobs))?;
    sheet.counter("weir_job_errors", "Flushes and compactions failed", None, alone(metrics.job_errors))?;
    let kinds = JobKind::ALL.map(|kind| [("kind", kind.name())]);
    let jobs = kinds.iter().zip(&engine.jobs);
    let running = jobs.clone().map(|(labels, jobs)| (labels, jobs.running as u64));
    sheet.gauge("weir_jobs_running", "Flushes and compactions, parked ones too", None, running)?;
    let parked = jobs.map(|(labels, jobs)| (labels, jobs.parked as u64));
    sheet.gauge("weir_jobs_parked", "Compactions outside the scope, not going on", None, parked)?;
    let (released, wasted) = (metrics.jobs_released, metrics.bytes_thrown_away);
    sheet.counter("weir_jobs_parkings", "Compactions parked", None, alone(metrics.jobs_parked))?;
    sheet.counter("weir_jobs_released", "Parked compactions cancelled", None, alone(released))?;
    sheet.counter("weir_thrown_away", "Written by jobs cancelled", Some(&Unit::Bytes), alone(wasted))?;
    let (reclaimed, dropped) = (metrics.bytes_reclaimed, metrics.tables_dropped);
    sheet.counter("weir_reclaimed", "Given back by jobs done for that", Some(&Unit::Bytes), alone(reclaimed))?;
    sheet.counter("weir_tables_dropped", "Tables that were dead as a whole", None, alone(dropped))?;
    let (parts, bytes) = (metrics.parts_dropped, metrics.parts_dropped_bytes);
    sheet.counter("weir_parts_dropped", "Parts of deleted rows that were dropped", None, alone(parts))?;
    sheet.counter("weir_parts_dropped", "Their keys and values", Some(&Unit::Bytes), alone(bytes))?;
    let pinned = metrics.cache.pinned_bytes;
    sheet.gauge("weir_pinned", "Blocks of levels 0 and 1 in memory", Some(&Unit::Bytes), alone(pinned))?;
    let (active, sealed) = (shape.memtable_bytes as u64, shape.sealed_bytes as u64);
    let memtables = [([("state", "active")], active), ([("state", "sealed")], sealed)];
    sheet.gauge("weir_memtables", "Memory of the memtables", Some(&Unit::Bytes), memtables)?;
    let debt = engine.debt_bytes;
    sheet.gauge("weir_compaction_debt", "Above the levels' targets", Some(&Unit::Bytes), alone(debt))?;
    if let Some(left) = engine.bytes_to_stall {
        sheet.gauge("weir_stall_distance", "Writes until writes stop", Some(&Unit::Bytes), alone(left))?;
    }
    let resident = engine.resident_bytes;
    sheet.gauge("weir_resident", "Rows in memory that no flush gives back", Some(&Unit::Bytes), alone(resident))?;
    let numbers: Vec<String> = (0..shape.levels.len()).map(|level| level.to_string()).collect();
    let levels = numbers.iter().map(|number| [("level", number.as_str())]).zip(&shape.levels);
    let tables = levels.clone().map(|(labels, level)| (labels, level.tables as u64));
    sheet.gauge("weir_level_tables", "Tables of a level", None, tables)?;
    let bytes = levels.map(|(labels, level)| (labels, level.bytes));
    sheet.gauge("weir_level", "Size of a level", Some(&Unit::Bytes), bytes)?;
    sheet.counter("weir_log_replacements", "Logs replaced", None, alone(metrics.log_replacements))?;
    let reserve = node.reserve_bytes();
    sheet.gauge("weir_catalogue_reserve", "Space set aside for a full disk", Some(&Unit::Bytes), alone(reserve))?;
    let stalls = StallCause::ALL.iter().zip(&metrics.stalls).flat_map(|(cause, times)| {
        let labels = |kind| [("cause", cause.name()), ("kind", kind)];
        [(labels("slowed"), times.slowed, times.slowed_nanos), (labels("stopped"), times.stopped, times.stopped_nanos)]
    });
    let counts = stalls.clone().map(|(labels, count, _)| (labels, count));
    sheet.counter("weir_stalled_writes", "Writes that waited for flush or compaction", None, counts)?;
    sheet.seconds("weir_stalled", "How long they waited so in all", stalls.map(|(labels, _, nanos)| (labels, nanos)))
}

fn write_cache(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    let usage = node.cache().usage();
    sheet.gauge("weir_cache", "Blocks in memory", Some(&Unit::Bytes), alone(usage.bytes))?;
    let lookups = [([("found", "true")], usage.hits), ([("found", "false")], usage.misses)];
    sheet.counter("weir_cache_lookups", "Blocks looked for in the cache", None, lookups)
}
