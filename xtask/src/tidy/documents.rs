//! Documents: links lead somewhere, formats are named by their codecs, every metric has its line, source files say what
//! they are.

use super::{Finding, Repo};

pub fn check(repo: &Repo) -> Vec<Finding> {
    let mut findings = links(repo);
    findings.extend(formats(repo));
    findings.extend(metrics(repo));
    findings.extend(module_docs(repo));
    findings
}

/// Every relative link of every Markdown file resolves to a file or folder of the repository.
fn links(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".md") {
        let mut fenced = false;
        for (index, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for target in targets(line) {
                let file = target.split('#').next().unwrap_or_default();
                if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                match resolve(path, file) {
                    Some(resolved) if repo.contains(&resolved) => {}
                    _ => findings.push(Finding::new(path, index + 1, format!("link to `{target}` leads nowhere"))),
                }
            }
        }
    }
    findings
}

/// The texts between `](` and `)`, outside of back-quotes.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (at, _) in line.match_indices("](") {
        let in_code = line[..at].matches('`').count() % 2 == 1 && line[at..].contains('`');
        let rest = &line[at + 2..];
        if let Some(end) = rest.find(')')
            && !in_code
        {
            targets.push(rest[..end].split_whitespace().next().unwrap_or_default());
        }
    }
    targets
}

/// `link` as seen from the file `from`; `None` if it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "" => return None,
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The code that reads a format names the page about it.
fn formats(repo: &Repo) -> Vec<Finding> {
    repo.ending(".md")
        .filter(|(path, _)| path.starts_with("docs/format/"))
        .filter(|(path, _)| !repo.ending(".rs").any(|(_, source)| source.contains(path)))
        .map(|(path, _)| Finding::new(path, 0, "no source file names this page: which codec does it describe?"))
        .collect()
}

/// Where the metrics are registered, and the page that explains them.
const METRICS: (&str, &str) = ("crates/gateway/src/admin/metrics", "docs/metrics.md");

/// Every metric is on its page, and the page names no other.
fn metrics(repo: &Repo) -> Vec<Finding> {
    let (source, page) = METRICS;
    let Some((_, text)) = repo.ending(".md").find(|(path, _)| *path == page) else { return Vec::new() };
    let written = names(text, '`');
    let mut registered = Vec::new();
    let mut findings = Vec::new();
    for (path, text) in repo.ending(".rs").filter(|(path, _)| path.starts_with(source)) {
        for (line, name) in names(text, '"') {
            if !written.iter().any(|(_, written)| stem(written) == stem(name)) {
                findings.push(Finding::new(path, line, format!("`{name}` is not in {page}")));
            }
            registered.push(stem(name));
        }
    }
    let unknown = written.into_iter().filter(|(_, name)| !registered.contains(&stem(name)));
    findings.extend(unknown.map(|(line, name)| Finding::new(page, line, format!("no metric is called `{name}`"))));
    findings
}

/// The texts between `quote`s that begin like a metric, each with its line.
fn names(text: &str, quote: char) -> Vec<(usize, &str)> {
    let is_name = |part: &&str| {
        part.starts_with("weir_")
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
    };
    let lines = text.lines().enumerate();
    lines.flat_map(|(at, line)| line.split(quote).filter(is_name).map(move |name| (at + 1, name))).collect()
}

/// A metric's name without the unit and the kind that the registry adds.
fn stem(name: &str) -> &str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    ["_bytes", "_seconds"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

/// Every source file opens with what it is; a `tests.rs` beside its module need not repeat it.
fn module_docs(repo: &Repo) -> Vec<Finding> {
    repo.ending(".rs")
        .filter(|(path, text)| !path.ends_with("/tests.rs") && !text.starts_with("//!"))
        .map(|(path, _)| Finding::new(path, 1, "the first line must say what this file is (`//! …`)"))
        .collect()
}
