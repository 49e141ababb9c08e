//! The files of a crate do not name one another in a cycle: each can be read after those that it names.
//!
//! The rule, for all files under `crates/*/src`:
//!
//! - A file depends on another if its code names something that the other one *defines*, by any path. Imports and
//!   `pub use` in between are followed to the definition. To name only a module (`use crate::wire;`) counts by the
//!   items that are then named through it.
//! - A file depends on the files that it declares with `mod`: they are its parts.
//! - A file does not depend on the file that it is a part of. One idea is split into files by children that implement
//!   something for their parent's type, or take its constants. But children that need one another, or that close a
//!   cycle through other files, do count.
//! - Comments, strings and code under `#[cfg(test)]` do not count.
//!
//! The rule judges the strongly connected components of that graph with more than one file. The list has for each crate
//! how many files are in such components now; crates that are not listed have none.
//!
//! The rule reads text, not types: it does not see methods (a call needs the method's type, which is named somewhere),
//! nor code that macros write.

mod components;
mod graph;
mod source;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::graph::Graph;
use super::ratchet::Ratchet;
use super::{Finding, Repo};

const LIST: &str = "xtask/tidy/module-cycles.txt";
const WHAT: &str = "files that name one another in cycles";

/// The graph of each crate, by its folder.
fn graphs(repo: &Repo) -> BTreeMap<String, Graph> {
    let mut crates: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in repo.ending(".rs") {
        let Some((name, _)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else { continue };
        crates.entry(format!("crates/{name}/src")).or_default().push((path, text));
    }
    crates.into_iter().map(|(folder, files)| (folder.clone(), Graph::new(&folder, &files))).collect()
}

/// How many files of each crate are in cycles; crates without any are left out.
fn figures(graphs: &BTreeMap<String, Graph>) -> BTreeMap<String, usize> {
    let figure = |graph: &Graph| components::cyclic(graph).iter().map(Vec::len).sum();
    let figures = graphs.iter().map(|(folder, graph)| (folder.clone(), figure(graph)));
    figures.filter(|(_, figure)| *figure > 0).collect()
}

pub fn check(repo: &Repo) -> Vec<Finding> {
    let (list, mut findings) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    let graphs = graphs(repo);
    let judged = list.judge(&figures(&graphs), WHAT);
    for finding in judged {
        // If the figure is too high, show an example of each cycle.
        let examples = graphs.get(&finding.path).map(|graph| examples(&finding.path, graph)).unwrap_or_default();
        findings.push(finding);
        findings.extend(examples);
    }
    findings
}

pub fn tightened(repo: &Repo) -> (String, String) {
    let (list, _) = Ratchet::parse(LIST, repo.text(LIST).unwrap_or_default());
    (LIST.to_owned(), list.tightened(&figures(&graphs(repo))))
}

/// A shortest cycle of each component of the crate in `folder`, at the line where its first file names the second one.
fn examples(folder: &str, graph: &Graph) -> Vec<Finding> {
    let example = |component: &Vec<String>| {
        let cycle = components::shortest_cycle(graph, component);
        let [first, second, ..] = cycle.as_slice() else { return None };
        let line = *graph.get(first)?.get(second)?;
        let short = |path: &String| path.trim_start_matches(folder).trim_start_matches('/').to_owned();
        let names: Vec<String> = cycle.iter().map(short).collect();
        let message = format!("one of {} in a cycle: {}", component.len(), names.join(" -> "));
        Some(Finding::new(first, line, message))
    };
    components::cyclic(graph).iter().filter_map(example).collect()
}
