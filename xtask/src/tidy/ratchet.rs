//! A list of exceptions: lines of `figure path`, `#` starts a comment.

use std::collections::BTreeMap;

use super::Finding;

/// The exceptions of one rule.
pub struct Ratchet {
    path: &'static str,
    comments: Vec<String>,
    figures: BTreeMap<String, usize>,
}

impl Ratchet {
    /// Parses the list at `path`; an unreadable line is a finding.
    pub fn parse(path: &'static str, text: &str) -> (Self, Vec<Finding>) {
        let mut list = Self { path, comments: Vec::new(), figures: BTreeMap::new() };
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                list.comments.push(line.to_owned());
                continue;
            }
            match line.trim().split_once(' ').map(|(figure, file)| (figure.parse::<usize>(), file.trim())) {
                Some((Ok(figure), file)) => drop(list.figures.insert(file.to_owned(), figure)),
                None if line.trim().is_empty() => {}
                _ => findings.push(Finding::new(path, index + 1, "not a line of `figure path`")),
            }
        }
        (list, findings)
    }

    /// Compares `actual` (only files that need an exception) with the list.
    pub fn judge(&self, actual: &BTreeMap<String, usize>, what: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (file, &figure) in actual {
            match self.figures.get(file) {
                None => {
                    findings.push(Finding::new(file, 0, format!("{figure} {what}, and not listed in {}", self.path)))
                }
                Some(&allowed) if figure > allowed => {
                    findings.push(Finding::new(file, 0, format!("{figure} {what}, {} allows {allowed}", self.path)));
                }
                Some(_) => {}
            }
        }
        for (file, &allowed) in &self.figures {
            let figure = actual.get(file).copied().unwrap_or(0);
            if figure < allowed {
                let message = format!("{file} is down to {figure} from {allowed}: run `cargo xtask fix`");
                findings.push(Finding::new(self.path, 0, message));
            }
        }
        findings
    }

    /// The list's text with every figure lowered to `actual`, never raised.
    pub fn tightened(&self, actual: &BTreeMap<String, usize>) -> String {
        let mut text: String = self.comments.iter().map(|line| format!("{line}\n")).collect();
        for (file, &allowed) in &self.figures {
            if let Some(&figure) = actual.get(file) {
                text += &format!("{} {file}\n", figure.min(allowed));
            }
        }
        text
    }
}
