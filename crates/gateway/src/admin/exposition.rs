//! Two formats for metrics: OpenMetrics for scrapers that ask for it (Prometheus does), and the text format 0.0.4 for
//! everybody else (`curl`, `promtool check metrics`, older collectors).
//!
//! They differ in few lines: in the text format, a counter's HELP and TYPE carry its whole name, with `_total`, and
//! there is neither UNIT nor EOF.

use std::fmt::{self, Write as _};

use axum::http::{HeaderMap, header};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The media type and the text of everything in `registry`, in the format that the `Accept` of `headers` asks for.
///
/// # Errors
/// A metric cannot be encoded.
pub(super) fn exposition(registry: &Registry, headers: &HeaderMap) -> Result<(&'static str, String), fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    if accepts.flat_map(|accept| accept.split(',')).any(|kind| kind.trim_start().starts_with(OPEN_METRICS)) {
        return Ok(("application/openmetrics-text; version=1.0.0; charset=utf-8", text));
    }
    Ok(("text/plain; version=0.0.4; charset=utf-8", text_format(&text)?))
}

/// Converts OpenMetrics to the text format.
fn text_format(open_metrics: &str) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open_metrics.len());
    // A HELP waits for its TYPE, which decides the name.
    let mut help = None;
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            writeln!(text, "{line}")?;
            continue;
        };
        match comment.split_once(' ') {
            Some(("HELP", rest)) => help = rest.split_once(' '),
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let total = if kind == "counter" { "_total" } else { "" };
                if let Some((_, words)) = help.take() {
                    writeln!(text, "# HELP {name}{total} {words}")?;
                }
                writeln!(text, "# TYPE {name}{total} {kind}")?;
            }
            _ => {}
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::registry::Unit;

    use super::*;

    fn shown(accept: Option<&'static str>) -> (&'static str, String) {
        let mut registry = Registry::default();
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        counter.inc_by(5);
        registry.register_with_unit("read", "What was read", Unit::Bytes, counter);
        registry.register("open", "What is open", gauge);
        let mut headers = HeaderMap::new();
        accept.map(|accept| headers.insert(header::ACCEPT, header::HeaderValue::from_static(accept)));
        exposition(&registry, &headers).expect("written")
    }

    #[test]
    fn a_counter_has_its_whole_name_in_the_text_format() {
        let text = "# HELP read_bytes_total What was read.\n# TYPE read_bytes_total counter\nread_bytes_total 5\n\
                    # HELP open What is open.\n# TYPE open gauge\nopen 0\n";
        for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4;q=0.3")] {
            assert_eq!(shown(accept), ("text/plain; version=0.0.4; charset=utf-8", text.to_owned()), "{accept:?}");
        }
    }

    #[test]
    fn who_asks_for_open_metrics_gets_them() {
        let prometheus = "text/plain;version=0.0.4;q=0.3, application/openmetrics-text;version=1.0.0;q=0.6";
        let (kind, text) = shown(Some(prometheus));
        assert!(kind.starts_with(OPEN_METRICS) && text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("# TYPE read_bytes counter\n# UNIT read_bytes bytes\nread_bytes_total 5\n"), "{text}");
    }
}
