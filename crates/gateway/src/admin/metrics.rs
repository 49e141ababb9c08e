//! What is counted, under the names of the dashboards. Everything is read at the moment of the scrape; nothing here is
//! on the path of a request.

mod ledger;
mod noisy_neighbours;
mod policy;
mod quota;
mod stalls;
mod tenants;
mod waits;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use weir_io::Class;
use weir_node::{Direction, JobKind, Node, StallCause};

use self::ledger::LedgerMetrics;
use self::policy::PolicyMetrics;
use self::quota::QuotaMetrics;
use self::stalls::StallMetrics;
use self::tenants::TenantMetrics;
use self::waits::WaitMetrics;
use super::kernel::KernelBytes;
use crate::listener::Observer;
use crate::store::Store;
use weir_command::table::COMMANDS;

/// A registry of everything that a gateway and a node count. `before` is what the kernel had counted when the node was
/// opened.
pub fn registry<S: Store>(gateway: Observer<S>, node: Arc<Node>, before: Option<KernelBytes>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(TenantMetrics { gateway: gateway.clone(), node: Arc::clone(&node) }));
    registry.register_collector(Box::new(GatewayMetrics(gateway)));
    registry.register_collector(Box::new(NodeMetrics(Arc::clone(&node))));
    registry.register_collector(Box::new(QuotaMetrics(Arc::clone(&node))));
    registry.register_collector(Box::new(StallMetrics(Arc::clone(&node))));
    registry.register_collector(Box::new(PolicyMetrics(Arc::clone(&node))));
    registry.register_collector(Box::new(WaitMetrics(Arc::clone(&node))));
    registry.register_collector(Box::new(LedgerMetrics::new(node, before)));
    registry
}

type Labels<'a> = &'a [(&'static str, &'a str)];

/// Writes samples: one call is one metric, with one sample for each set of labels, or a single one without any.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, samples: &[(Labels<'_>, u64)]) -> fmt::Result {
        self.samples(name, help, unit, samples.iter().map(|(labels, value)| (*labels, ConstCounter::new(*value))))
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, samples: &[(Labels<'_>, u64)]) -> fmt::Result {
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        self.samples(name, help, unit, samples.iter().map(|(labels, value)| (*labels, gauge(*value))))
    }

    fn samples<'s, M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        mut samples: impl Iterator<Item = (Labels<'s>, M)>,
    ) -> fmt::Result {
        let Some((labels, metric)) = samples.next() else { return Ok(()) };
        let mut encoder = self.0.encode_descriptor(name, help, unit, metric.metric_type())?;
        if labels.is_empty() {
            return metric.encode(encoder);
        }
        metric.encode(encoder.encode_family(&labels)?)?;
        samples.try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(&labels)?))
    }
}

struct GatewayMetrics<S: Store>(Observer<S>);

impl<S: Store> fmt::Debug for GatewayMetrics<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayMetrics")
    }
}

impl<S: Store> Collector for GatewayMetrics<S> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (totals, clients) = (self.0.totals(), self.0.clients());
        let mut sheet = Sheet(encoder);
        let labels: Vec<[(&str, &str); 1]> = COMMANDS.iter().map(|command| [("command", command.name)]).collect();
        let called = labels.iter().zip(&totals.commands).filter(|(_, calls)| **calls > 0);
        let called: Vec<(Labels<'_>, u64)> = called.map(|(labels, calls)| (&labels[..], *calls)).collect();
        sheet.counter("weir_commands", "Commands called", None, &called)?;
        sheet.counter("weir_command_errors", "Error replies", None, &[(&[], totals.errors)])?;
        sheet.counter(
            "weir_key_lookups",
            "Reads of one key by clients",
            None,
            &[(&[("found", "true")], totals.hits), (&[("found", "false")], totals.misses)],
        )?;
        sheet.counter(
            "weir_network",
            "Bytes of requests and replies",
            Some(&Unit::Bytes),
            &[(&[("direction", "in")], totals.bytes_in), (&[("direction", "out")], totals.bytes_out)],
        )?;
        sheet.gauge("weir_connections", "Open connections", None, &[(&[], clients.open)])?;
        sheet.counter("weir_connections_admitted", "Connections accepted", None, &[(&[], clients.admitted)])?;
        sheet.counter(
            "weir_connections_refused",
            "Connections beyond the limit of the node",
            None,
            &[(&[], totals.refused)],
        )?;
        let displaced = clients.displaced;
        sheet.counter(
            "weir_strangers_displaced",
            "Connections cut for newer ones before a login",
            None,
            &[(&[], displaced)],
        )?;
        sheet.counter("weir_connections_cut", "Connections that kept us waiting", None, &[(&[], totals.cut)])?;
        sheet.counter(
            "weir_slow_listeners_cut",
            "Connections that did not take the messages they subscribed to",
            None,
            &[(&[], totals.slow_listeners)],
        )?;
        noisy_neighbours::by_tenant(
            &mut sheet,
            &noisy_neighbours::busiest(self.0.processor_use().into_values().collect()),
        )
    }
}

struct NodeMetrics(Arc<Node>);

impl fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeMetrics")
    }
}

impl Collector for NodeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        self.device(&mut sheet)?;
        self.partition(&mut sheet)?;
        self.cache(&mut sheet)
    }
}

impl NodeMetrics {
    /// The books of the one door (house rule 8).
    fn device(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let booked = self.0.ledger().total();
        let directions = [("read", Direction::Read), ("write", Direction::Write)];
        let cells: Vec<_> = Class::ALL
            .iter()
            .flat_map(|&class| directions.map(|(name, direction)| (class.name(), name, booked[(class, direction)])))
            .collect();
        let labels: Vec<_> = cells.iter().map(|(class, name, _)| [("class", *class), ("direction", *name)]).collect();
        let bytes: Vec<_> = labels.iter().zip(&cells).map(|(labels, cell)| (&labels[..], cell.2.bytes)).collect();
        let ops: Vec<_> = labels.iter().zip(&cells).map(|(labels, cell)| (&labels[..], cell.2.ops)).collect();
        sheet.counter("weir_device", "Bytes through the door, by cause", Some(&Unit::Bytes), &bytes)?;
        sheet.counter("weir_device_operations", "Operations of the device, by cause", None, &ops)
    }

    fn partition(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let metrics = self.0.metrics();
        let (engine, shape) = (&metrics.engine, metrics.engine.shape());
        sheet.counter("weir_reads", "Keys read", None, &[(&[], metrics.reads)])?;
        let waited = metrics.reads_from_device;
        sheet.counter("weir_reads_from_device", "Keys whose read waited for the device", None, &[(&[], waited)])?;
        sheet.counter("weir_writes", "Batches written", None, &[(&[], metrics.writes)])?;
        let written = metrics.written_bytes;
        sheet.counter("weir_written", "Encoded batches", Some(&Unit::Bytes), &[(&[], written)])?;
        sheet.counter("weir_write_errors", "Batches not acknowledged", None, &[(&[], metrics.write_errors)])?;
        sheet.counter("weir_jobs", "Flushes and compactions done", None, &[(&[], metrics.jobs)])?;
        sheet.counter("weir_job_errors", "Flushes and compactions failed", None, &[(&[], metrics.job_errors)])?;
        let kinds = JobKind::ALL.map(|kind| [("kind", kind.name())]);
        let jobs = kinds.iter().zip(&engine.jobs);
        let running: Vec<_> = jobs.clone().map(|(labels, jobs)| (&labels[..], jobs.running as u64)).collect();
        let parked: Vec<_> = jobs.map(|(labels, jobs)| (&labels[..], jobs.parked as u64)).collect();
        sheet.gauge("weir_jobs_running", "Flushes and compactions, parked ones too", None, &running)?;
        sheet.gauge("weir_jobs_parked", "Compactions outside the scope, not going on", None, &parked)?;
        let (released, wasted) = (metrics.jobs_released, metrics.bytes_thrown_away);
        sheet.counter("weir_jobs_parkings", "Compactions parked", None, &[(&[], metrics.jobs_parked)])?;
        sheet.counter("weir_jobs_released", "Parked compactions cancelled", None, &[(&[], released)])?;
        sheet.counter("weir_thrown_away", "Written by jobs cancelled", Some(&Unit::Bytes), &[(&[], wasted)])?;
        let (reclaimed, dropped) = (metrics.bytes_reclaimed, metrics.tables_dropped);
        sheet.counter("weir_reclaimed", "Given back by jobs done for that", Some(&Unit::Bytes), &[(&[], reclaimed)])?;
        sheet.counter("weir_tables_dropped", "Tables that were dead as a whole", None, &[(&[], dropped)])?;
        let (parts, bytes) = (metrics.parts_dropped, metrics.parts_dropped_bytes);
        sheet.counter("weir_parts_dropped", "Parts of deleted rows that merges met", None, &[(&[], parts)])?;
        sheet.counter("weir_parts_dropped", "Their keys and values", Some(&Unit::Bytes), &[(&[], bytes)])?;
        let pinned = metrics.cache.pinned_bytes;
        sheet.gauge("weir_pinned", "Blocks of levels 0 and 1 in memory", Some(&Unit::Bytes), &[(&[], pinned)])?;
        let (active, sealed) = (shape.memtable_bytes as u64, shape.sealed_bytes as u64);
        sheet.gauge(
            "weir_memtables",
            "Memory of the memtables",
            Some(&Unit::Bytes),
            &[(&[("state", "active")], active), (&[("state", "sealed")], sealed)],
        )?;
        let debt = engine.debt_bytes;
        sheet.gauge("weir_compaction_debt", "Above the levels' targets", Some(&Unit::Bytes), &[(&[], debt)])?;
        let numbers: Vec<String> = (0..shape.levels.len()).map(|level| level.to_string()).collect();
        let labels: Vec<_> = numbers.iter().map(|number| [("level", number.as_str())]).collect();
        let levels = labels.iter().zip(&shape.levels);
        let tables: Vec<_> = levels.clone().map(|(labels, level)| (&labels[..], level.tables as u64)).collect();
        let bytes: Vec<_> = levels.map(|(labels, level)| (&labels[..], level.bytes)).collect();
        sheet.gauge("weir_level_tables", "Tables of a level", None, &tables)?;
        sheet.gauge("weir_level", "Size of a level", Some(&Unit::Bytes), &bytes)?;
        sheet.counter("weir_log_replacements", "Logs replaced", None, &[(&[], metrics.log_replacements)])?;
        let reserve = self.0.reserve_bytes();
        sheet.gauge(
            "weir_catalogue_reserve",
            "Space set aside for a full disk",
            Some(&Unit::Bytes),
            &[(&[], reserve)],
        )?;
        let causes: Vec<_> = StallCause::ALL
            .iter()
            .flat_map(|cause| {
                [[("cause", cause.name()), ("kind", "slowed")], [("cause", cause.name()), ("kind", "stopped")]]
            })
            .collect();
        let counts: Vec<u64> = metrics.stalls.iter().flat_map(|times| [times.slowed, times.stopped]).collect();
        let nanos: Vec<u64> =
            metrics.stalls.iter().flat_map(|times| [times.slowed_nanos, times.stopped_nanos]).collect();
        let counts: Vec<_> = causes.iter().zip(counts).map(|(labels, count)| (&labels[..], count)).collect();
        let seconds =
            causes.iter().zip(nanos).map(|(labels, nanos)| (&labels[..], ConstCounter::new(nanos as f64 / 1e9)));
        sheet.counter("weir_stalled_writes", "Writes that waited for flush or compaction", None, &counts)?;
        sheet.samples("weir_stalled", "How long they waited so in all", Some(&Unit::Seconds), seconds)
    }

    fn cache(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let usage = self.0.cache().usage();
        sheet.gauge("weir_cache", "Blocks in memory", Some(&Unit::Bytes), &[(&[], usage.bytes)])?;
        sheet.counter(
            "weir_cache_lookups",
            "Blocks looked for in the cache",
            None,
            &[(&[("found", "true")], usage.hits), (&[("found", "false")], usage.misses)],
        )
    }
}
