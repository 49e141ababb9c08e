//! `cargo xtask redis-tests`: Redis' own tests, unchanged, against `weir serve` on both engines.
//!
//! [`source`] fetches the tests, [`run`] runs one file of them against servers of its own, [`outcome`] reads the tool's
//! output, and [`expected`] knows which tests fail and why: any difference from that is a failure.

mod expected;
mod outcome;
mod run;
mod source;

use std::path::Path;
use std::process::Command;

use self::expected::Expected;
use self::run::{Bench, ENGINES};

/// The list of tests that fail, and why.
const LIST: &str = "xtask/redis-tests.txt";

const HELP: &str = "\
cargo xtask redis-tests [--engine lsm|memory] [--port N] [--weir FILE] [--keep] [UNIT...]

  runs the units (unit/type/list; all that apply, without any) on both engines, or on one
  --port N      servers listen at N to N + 99, and at 10,000 above [default: 21111]
  --weir FILE   the binary to try; it is built (release) without this
  --keep        keeps what the tool said, in .tools/redis-tests/";

/// The options of the command.
struct Options {
    engines: Vec<&'static str>,
    port: u16,
    weir: Option<String>,
    keeps: bool,
    units: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { engines: ENGINES.to_vec(), port: 21_111, weir: None, keeps: false, units: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"));
            match word.as_str() {
                "--engine" => {
                    let asked = value()?;
                    options.engines.retain(|engine| *engine == asked);
                    if options.engines.is_empty() {
                        return Err(format!("there is no engine {asked}\n\n{HELP}"));
                    }
                }
                "--port" => options.port = value()?.parse().map_err(|_| "--port: not a port".to_owned())?,
                "--weir" => options.weir = Some(value()?),
                "--keep" => options.keeps = true,
                _ if word.starts_with('-') => return Err(format!("what is {word}?\n\n{HELP}")),
                _ => options.units.push(word),
            }
        }
        Ok(options)
    }
}

/// Runs the tests that `words` ask for, and prints a table; fails if anything is not as expected.
pub fn command(words: impl Iterator<Item = String>, root: &Path) -> Result<(), String> {
    let options = Options::parse(words)?;
    let path = root.join(LIST);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let expected = Expected::parse(&text).map_err(|error| format!("{LIST}: {error}"))?;
    let units = chosen(&expected, &options.units)?;
    let tests = source::fetch(root)?;
    let weir = match &options.weir {
        // The tool runs in another directory.
        Some(weir) => std::fs::canonicalize(weir).map_err(|error| format!("{weir}: {error}"))?,
        None => built(root)?,
    };
    let bench = Bench { tests, weir, port: options.port, scratch: root.join(".tools/redis-tests") };
    let mut surprises = Vec::new();
    println!("| unit | engine | passed | failed | left out | seconds |\n|---|---|---|---|---|---|");
    for unit in units {
        for engine in &options.engines {
            let (outcome, seconds) = bench.run(unit, engine, expected.seconds(unit), &expected.skipped(unit))?;
            println!(
                "| `{unit}` | {engine} | {} | {} | {} | {seconds} |",
                outcome.passed.len(),
                outcome.failed.len(),
                outcome.left_out
            );
            surprises.extend(expected.compare(unit, engine, &outcome));
        }
    }
    if !options.keeps {
        bench.clean()?;
    }
    for surprise in &surprises {
        println!("{surprise}");
    }
    match surprises.len() {
        0 => Ok(()),
        count => Err(format!("{count} tests are not as {LIST} says")),
    }
}

/// The units to run, in the order of the list: those that are `asked` for, or all if none is.
fn chosen<'a>(expected: &'a Expected, asked: &[String]) -> Result<Vec<&'a str>, String> {
    let all: Vec<&str> = expected.units().collect();
    if let Some(unknown) = asked.iter().find(|word| !all.contains(&word.as_str())) {
        return Err(format!("there is no unit {unknown} in {LIST}"));
    }
    Ok(all.into_iter().filter(|&unit| asked.is_empty() || asked.iter().any(|word| word == unit)).collect())
}

/// Builds the release binary, and gives its path.
fn built(root: &Path) -> Result<std::path::PathBuf, String> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--package", "weir-cli"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err("weir does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Ok(target.join("release/weir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_unit_is_refused_even_beside_others() {
        let expected = Expected::parse("unit unit/dump\nunit unit/scan\n").expect("a list");
        let of = |words: &[&str]| chosen(&expected, &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).expect("all"), ["unit/dump", "unit/scan"]);
        assert_eq!(of(&["unit/scan"]).expect("one"), ["unit/scan"]);
        let error = of(&["unit/dump", "unit/scna"]).expect_err("there is no such unit");
        assert!(error.contains("unit/scna"), "{error}");
    }
}
