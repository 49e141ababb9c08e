//! The shipped rules for alerts: the metrics that they name exist, and each rule says how bad it is and what to do.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests read files and may start promtool")]

use std::path::Path;
use std::process::Command;

const RULES: &str = include_str!("../../../packaging/weir-alerts.yml");
const METRICS: &str = include_str!("../../../docs/metrics.md");
const RUNBOOK: &str = include_str!("../../../docs/operations.md");

/// Words of `text` that are names of metrics.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(move |c| !is_name(c)).filter(|word| word.starts_with("weir_"))
}

/// Each rule, with its name.
fn rules() -> Vec<(&'static str, &'static str)> {
    let rules = RULES.split("- alert: ").skip(1);
    rules.map(|rule| (rule.lines().next().expect("a name"), rule)).collect()
}

#[test]
fn every_metric_of_a_rule_is_explained() {
    assert!(rules().len() >= 10);
    for (alert, rule) in rules() {
        let mut named = metrics(rule).peekable();
        assert!(named.peek().is_some() || alert == "WeirDown", "{alert} looks at nothing");
        for metric in named {
            // The page has the name of a histogram without the suffixes of its parts.
            let stem = metric.strip_suffix("_bucket").unwrap_or(metric);
            assert!(METRICS.contains(&format!("`{stem}`")), "{alert}: {metric} is not in docs/metrics.md");
        }
    }
}

#[test]
fn every_rule_says_how_bad_it_is_and_what_to_do() {
    for (alert, rule) in rules() {
        for part in ["expr: ", "summary: ", "description: "] {
            assert!(rule.contains(part), "{alert} has no {part}");
        }
        let severity = rule.split("severity: ").nth(1).and_then(|rest| rest.lines().next()).expect("a severity");
        assert!(["page", "ticket"].contains(&severity), "{alert}: {severity}");
        let anchor = alert.to_lowercase();
        assert!(rule.contains(&format!("runbook_url: docs/operations.md#{anchor}\n")), "{alert}");
        let row = format!("| <a id=\"{anchor}\"></a>`{alert}` | {severity} |");
        assert!(RUNBOOK.contains(&row), "docs/operations.md has no row {row}");
    }
    let rows = RUNBOOK.matches("| <a id=\"weir").count();
    assert_eq!(rows, rules().len(), "docs/operations.md explains an alert that is not there");
}

/// If promtool is installed, it has the last word.
#[test]
fn promtool_finds_nothing() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for arguments in [["check", "rules", "weir-alerts.yml"], ["test", "rules", "weir-alerts-test.yml"]] {
        let Ok(said) = Command::new("promtool").args(arguments).current_dir(&packaging).output() else { return };
        let words = [said.stdout, said.stderr].concat();
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&words));
    }
}
