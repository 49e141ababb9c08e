//! Reads what Redis' tool says about the tests of a unit.

/// The name of the failure of a unit that does not run to its end.
pub const CUT: &str = "(the unit runs to its end)";

/// The outcome of the tests of a unit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    /// Tests that do not run against servers started by somebody else, or that were to be skipped.
    pub left_out: usize,
}

impl Outcome {
    /// Reads the output of the tool.
    pub fn parse(text: &str) -> Self {
        let (mut outcome, mut is_whole) = (Self::default(), false);
        for line in text.lines() {
            let line = plain(line);
            if let Some(rest) = line.strip_prefix("[ok]: ") {
                outcome.passed.push(without_time(rest).to_owned());
            } else if let Some(rest) = line.strip_prefix("[err]: ") {
                outcome.failed.push(without_place(rest).to_owned());
            } else if line.starts_with("[ignore]: ") || line.starts_with("[skip]: ") {
                outcome.left_out += 1;
            } else if line.trim_start() == "The End" {
                is_whole = true;
            }
        }
        if !is_whole {
            outcome.failed.push(CUT.to_owned());
        }
        outcome
    }
}

/// The line without its colours.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((front, behind)) = rest.split_once('\u{1b}') {
        out.push_str(front);
        rest = behind.split_once('m').map_or("", |(_, behind)| behind);
    }
    out + rest
}

/// The name in `name (12 ms)`.
fn without_time(text: &str) -> &str {
    text.rsplit_once(" (").filter(|(_, end)| end.ends_with(" ms)")).map_or(text, |(name, _)| name)
}

/// The name in `name in tests/unit/dump.tcl`.
fn without_place(text: &str) -> &str {
    text.rsplit_once(" in tests/").map_or(text, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_output_is_read() {
        let said = "[\u{1b}[0;32mok\u{1b}[0m]: SET and GET (an item) (3 ms)\n\
                    [\u{1b}[0;31merr\u{1b}[0m]: TTL in a list in tests/unit/expire.tcl\n\
                    Expected '1' to be equal to '2'\n\
                    [ignore]: MIGRATE: Not supported on external server\n\
                    [skip]: slow\n";
        let cut = Outcome::parse(said);
        assert_eq!(cut.passed, ["SET and GET (an item)"]);
        assert_eq!(cut.failed, ["TTL in a list", CUT]);
        assert_eq!(cut.left_out, 2);
        let whole = Outcome::parse(&format!("{said}\n                   The End\n"));
        assert_eq!(whole.failed, ["TTL in a list"]);
    }
}
