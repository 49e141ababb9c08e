//! Finds strongly connected components, and a cycle in one of them.

use std::collections::{BTreeMap, VecDeque};

use super::graph::Graph;

/// The components of more than one file, each in order of path (Tarjan, 1972).
pub fn cyclic(graph: &Graph) -> Vec<Vec<String>> {
    let mut search = Search { graph, numbers: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for file in graph.files() {
        if !search.numbers.contains_key(file) {
            search.visit(file);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'a> {
    graph: &'a Graph,
    /// The number of each visited file, in the order of visits.
    numbers: BTreeMap<&'a str, usize>,
    /// Files whose component is not complete.
    stack: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    /// Gives the lowest number that is reached from `file` through the stack.
    fn visit(&mut self, file: &'a str) -> usize {
        let number = self.numbers.len();
        self.numbers.insert(file, number);
        self.stack.push(file);
        let mut low = number;
        let graph = self.graph;
        for next in graph.get(file).into_iter().flat_map(|named| named.keys()) {
            match self.numbers.get(next.as_str()) {
                None => low = low.min(self.visit(next)),
                Some(&number) if self.stack.contains(&next.as_str()) => low = low.min(number),
                Some(_) => {}
            }
        }
        if low == number {
            let begin = self.stack.iter().position(|&other| other == file).unwrap_or_default();
            let mut component: Vec<String> = self.stack.drain(begin..).map(str::to_owned).collect();
            if component.len() > 1 {
                component.sort();
                self.found.push(component);
            }
        }
        low
    }
}

/// The shortest way from the first file of `component` back to itself.
pub fn shortest_cycle(graph: &Graph, component: &[String]) -> Vec<String> {
    let Some(start) = component.first() else { return Vec::new() };
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start.as_str()]);
    while let Some(file) = queue.pop_front() {
        for next in graph.get(file).into_iter().flat_map(|named| named.keys()) {
            if next == start {
                let mut cycle = vec![start.clone(), file.to_owned()];
                let mut at = file;
                while let Some(&earlier) = before.get(at) {
                    cycle.push(earlier.to_owned());
                    at = earlier;
                }
                cycle.reverse();
                return cycle;
            }
            if component.contains(next) && !before.contains_key(next.as_str()) {
                before.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    Vec::new()
}
