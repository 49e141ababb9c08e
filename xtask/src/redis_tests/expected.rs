//! Which of Redis' tests fail, and why: the file `xtask/redis-tests.txt`.

use std::collections::{BTreeMap, BTreeSet};

use super::outcome::Outcome;

/// Seconds that a unit has, unless the file says otherwise.
const SECONDS: u64 = 120;

/// What the file says about a unit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unit {
    seconds: Option<u64>,
    /// Tests that fail.
    fails: BTreeSet<String>,
    /// Tests that are not run.
    skips: Vec<String>,
}

/// The expectations of the file, by unit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expected {
    units: BTreeMap<String, Unit>,
}

impl Expected {
    /// Reads the file.
    ///
    /// # Errors
    /// A line is not understood, or a test is named without a reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut expected, mut current) = (Self::default(), None);
        for (index, line) in text.lines().enumerate() {
            let wrong = |why: &str| format!("line {}: {why}", index + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(' ').ok_or_else(|| wrong("a word, and what it is about"))?;
            if word == "left" {
                rest.split_once(": ").ok_or_else(|| wrong("a unit and a reason"))?;
                continue;
            }
            if word == "unit" {
                let mut words = rest.split(' ');
                let name = words.next().unwrap_or_default();
                let seconds = words.next().map(str::parse).transpose().map_err(|_| wrong("the seconds of a unit"))?;
                expected.units.insert(name.to_owned(), Unit { seconds, ..Unit::default() });
                current = Some(name.to_owned());
                continue;
            }
            let unit = current.as_ref().and_then(|name| expected.units.get_mut(name));
            let unit = unit.ok_or_else(|| wrong("there is no unit in front of it"))?;
            // The reason stands behind the last separator: names may have dashes, too.
            let (test, _) = rest.rsplit_once(" -- ").ok_or_else(|| wrong("a test and a reason"))?;
            match word {
                "fails" => _ = unit.fails.insert(test.to_owned()),
                "skips" => unit.skips.push(test.to_owned()),
                _ => return Err(wrong("`unit`, `left`, `fails` or `skips`")),
            }
        }
        Ok(expected)
    }

    /// The units that are run.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.units.keys().map(String::as_str)
    }

    /// How long `unit` may take.
    pub fn seconds(&self, unit: &str) -> u64 {
        self.units.get(unit).and_then(|unit| unit.seconds).unwrap_or(SECONDS)
    }

    /// The tests of `unit` that are not run.
    pub fn skipped(&self, unit: &str) -> Vec<&str> {
        self.units.get(unit).into_iter().flat_map(|unit| &unit.skips).map(String::as_str).collect()
    }

    /// A line for each test of `unit` that is not as the file says.
    pub fn compare(&self, unit: &str, engine: &str, outcome: &Outcome) -> Vec<String> {
        let none = BTreeSet::new();
        let fails = self.units.get(unit).map_or(&none, |unit| &unit.fails);
        let failed: BTreeSet<&String> = outcome.failed.iter().collect();
        let new = failed.iter().filter(|test| !fails.contains(**test)).map(|test| ("failed", *test));
        let mended = fails.iter().filter(|test| !failed.contains(test)).map(|test| ("did not fail", test));
        new.chain(mended).map(|(what, test)| format!("{unit} on {engine}: {what}: {test}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_the_file_says_is_told() {
        let text = "# why\nleft unit/aofrw: no such file here\nunit unit/dump 9\nfails a: b -- because\n\
                    skips slow -- it takes long\nunit unit/scan\n";
        let expected = Expected::parse(text).expect("a list");
        assert_eq!(expected.units().collect::<Vec<_>>(), ["unit/dump", "unit/scan"]);
        assert_eq!((expected.seconds("unit/dump"), expected.seconds("unit/scan")), (9, SECONDS));
        assert_eq!(expected.skipped("unit/dump"), ["slow"]);
        let failed = |names: &[&str]| Outcome {
            failed: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Outcome::default()
        };
        assert_eq!(expected.compare("unit/dump", "lsm", &failed(&["a: b"])), [""; 0]);
        assert_eq!(
            expected.compare("unit/dump", "lsm", &failed(&["c"])),
            ["unit/dump on lsm: failed: c", "unit/dump on lsm: did not fail: a: b"]
        );
        for wrong in ["fails a -- b", "unit unit/dump x", "unit unit/a\nfails a", "hm unit/a"] {
            Expected::parse(wrong).expect_err(wrong);
        }
    }
}
