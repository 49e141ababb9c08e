//! The commands that are measured: some of every family, with short and long values, on few parts and on many.

use super::families::{FAMILIES, Line};

/// A command, or several in turn.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    /// Commands that make the data that is there before.
    pub(super) setup: Vec<Words>,
    /// The commands that are measured, again and again.
    pub(super) body: Vec<Words>,
    /// Whether each command comes by itself, not in a pipeline.
    pub(super) alone: bool,
    /// Whether the case is only predicted, and not used for the table.
    pub(super) held_out: bool,
}

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// Keys that a case goes through. A case of one command without keys is repeated this many times in a pipeline.
const KEYS: usize = 16;

/// The cases of all [`FAMILIES`].
pub(super) fn cases() -> Vec<Case> {
    FAMILIES.iter().copied().flatten().map(|(name, setup, body)| case(name, setup, body)).collect()
}

fn case(name: &str, setup: Line, body: Line) -> Case {
    let plain = name.trim_start_matches(['!', '?']);
    let marks = &name[..name.len() - plain.len()];
    // A script may have semicolons of its own.
    let lines: Vec<&str> = if body.starts_with("EVAL") { vec![body] } else { body.split(';').collect() };
    let of = |lines: &[&str], times: usize| -> Vec<Words> {
        let has_numbers = lines.iter().any(|line| line.contains('*'));
        let keys = if has_numbers { KEYS } else { times };
        (0..keys).flat_map(|key| lines.iter().flat_map(move |line| words(line, key))).collect()
    };
    let setup: Vec<&str> = setup.split(';').filter(|line| !line.is_empty()).collect();
    Case {
        name: format!("{plain}{}", if marks.contains('!') { ", alone" } else { "" }),
        setup: of(&setup, 1),
        body: of(&lines, KEYS),
        alone: marks.contains('!'),
        held_out: marks.contains('?'),
    }
}

/// The commands of `line` for the key with this number.
fn words(line: &str, key: usize) -> Vec<Words> {
    if let Some(inner) = line.strip_prefix("[0..199 ").and_then(|rest| rest.strip_suffix(']')) {
        return (0..200).map(|_| words(&format!("{inner} * f ~20"), key).remove(0)).collect();
    }
    let mut all: Words = Vec::new();
    let mut rest = line;
    while let Some(word) = rest.split(' ').next().filter(|_| !rest.is_empty()) {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inner, behind) = inner.split_once(']').unwrap_or((inner, ""));
            let mut parts = inner.split(' ');
            let (from, to) = parts.next().and_then(|range| range.split_once("..")).unwrap_or(("0", "0"));
            let (from, to): (usize, usize) = (from.parse().unwrap_or(0), to.parse().unwrap_or(0));
            let parts: Vec<&str> = parts.collect();
            for number in from..=to {
                for part in &parts {
                    all.push(match part.strip_prefix('~') {
                        Some(bytes) => filled(bytes),
                        None if part.starts_with('#') => part.replace('#', &number.to_string()).into_bytes(),
                        None => format!("{part}{number}").into_bytes(),
                    });
                }
            }
            rest = behind.trim_start();
            continue;
        }
        rest = rest[word.len()..].trim_start_matches(' ');
        all.push(match word.strip_prefix('~').filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => filled(bytes),
            None if word == "*" || word == "~" => word.as_bytes().to_vec(),
            None => word.replace('*', &key.to_string()).replace('\u{a0}', " ").into_bytes(),
        });
    }
    vec![all]
}

fn filled(bytes: &str) -> Vec<u8> {
    vec![b'v'; bytes.parse().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_words() {
        let text = |case: &Case| -> Vec<String> {
            case.body
                .iter()
                .map(|words| words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "))
                .collect()
        };
        let pairs = case("?SET, DEL", "", "SET k* ~3;DEL k*");
        assert_eq!(text(&pairs)[..3], ["SET k0 vvv", "DEL k0", "SET k1 vvv"]);
        assert!(pairs.held_out && !pairs.alone && pairs.body.len() == 32);
        assert_eq!(
            text(&case("a", "", "ZADD z* [3..4 # m] x")),
            (0..16).map(|key| format!("ZADD z{key} 3 m3 4 m4 x")).collect::<Vec<_>>()
        );
        assert_eq!(text(&case("a", "", "XADD x MAXLEN ~ 1000 * f ~2"))[0], "XADD x MAXLEN ~ 1000 * f vv");
        assert_eq!(case("a", "[0..199 XADD x]", "PING").setup.len(), 200);
    }

    #[test]
    fn a_third_of_each_family_is_held_out_and_some_of_each_is_alone() {
        for family in FAMILIES {
            let cases: Vec<Case> = family.iter().map(|(name, setup, body)| case(name, setup, body)).collect();
            let count = |is: fn(&&Case) -> bool| cases.iter().filter(is).count();
            let share = count(|case| case.held_out) as f64 / cases.len() as f64;
            assert!((0.25..0.55).contains(&share), "{share} of the family of {}", cases[0].name);
        }
        assert!(cases().iter().filter(|case| case.alone).count() > cases().len() / 10);
        let names: std::collections::BTreeSet<String> = cases().into_iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases().len());
    }
}
