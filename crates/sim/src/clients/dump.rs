//! A history as lines of JSON, for other checkers; `docs/testing.md` has every field.
//!
//! ```text
//! {"format":"weir sim clients","version":1,"repeat":"weir sim clients --seed 7 ..."}
//! {"group":0,"client":3,"from":1200,"to":1900,"database":0,"now_ms":5,"words":["get","{0}1"],"answer":"$-1\r\n","split":false}
//! ```
//!
//! Bytes are strings of the characters U+0000 to U+00FF, one for each byte: nothing is lost, and people can read it.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use weir_command::{DATABASES, Request, table};

use super::groups::{Groups, tells_of_rows};
use super::linear::Operation;

const FORMAT: &str = "weir sim clients";
const VERSION: u32 = 1;
/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Most operations of a group that are read: the search goes one call deeper for each of them.
const OPERATIONS_MAX: usize = 2_000;
/// Longest value that a command of a few bytes may make, in bytes: far above the values that are drawn.
const REACH_BYTES_MAX: usize = 64 << 10;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    /// The command that made the dump.
    repeat: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    group: usize,
    client: usize,
    /// Nanoseconds of virtual time, as `to`.
    from: u64,
    to: u64,
    database: u8,
    now_ms: u64,
    words: Vec<String>,
    answer: String,
    split: bool,
}

/// Writes `groups`, which the command `repeat` made.
///
/// # Errors
/// Whatever error `out` returns.
pub fn write(out: &mut impl Write, repeat: &str, groups: &Groups) -> io::Result<()> {
    let mut line = |line: serde_json::Result<String>| writeln!(out, "{}", line?);
    let header = Header { format: FORMAT.to_owned(), version: VERSION, repeat: repeat.to_owned() };
    line(serde_json::to_string(&header))?;
    for (&group, operations) in groups {
        for Operation { client, request, from, to, answer, split } in operations {
            line(serde_json::to_string(&Line {
                group,
                client: *client,
                from: *from,
                to: *to,
                database: request.database,
                now_ms: request.now_ms,
                words: request.args().iter_from(0).map(characters).collect(),
                answer: characters(answer),
                split: *split,
            }))?;
        }
    }
    Ok(())
}

/// Reads what [`write`] wrote, or any bytes.
///
/// # Errors
/// What is wrong with the bytes, and in which line.
pub fn read(mut input: impl BufRead) -> Result<Groups, String> {
    let mut groups = Groups::new();
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        bytes.clear();
        let told = |what: String| format!("line {number}: {what}");
        let limited = (&mut input).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes);
        let len = limited.map_err(|error| told(format!("cannot read: {error}")))?;
        if len > LINE_BYTES_MAX {
            return Err(told(format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if number == 1 {
            let header: Header = parse(&bytes).map_err(told)?;
            if (header.format.as_str(), header.version) != (FORMAT, VERSION) {
                return Err(told(format!("not a dump of `{FORMAT}`, version {VERSION}")));
            }
        } else if len == 0 {
            break;
        } else {
            let (group, operation) = parse(&bytes).and_then(operation).map_err(told)?;
            let operations = groups.entry(group).or_default();
            if operations.len() == OPERATIONS_MAX {
                return Err(told(format!("group {group} has more than {OPERATIONS_MAX} operations")));
            }
            operations.push(operation);
        }
    }
    Ok(groups)
}

fn parse<'l, T: Deserialize<'l>>(line: &'l [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        // The parser counts lines from the beginning of this one.
        let (column, text) = (error.column(), error.to_string());
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        format!("column {column}: {what}")
    })
}

/// The operation of `line`, which our checker must be able to run, and its group.
fn operation(line: Line) -> Result<(usize, Operation), String> {
    let Line { group, client, from, to, database, now_ms, words, answer, split } = line;
    if from > to {
        return Err(format!("answered at {to}, before it was asked at {from}"));
    }
    if [to, now_ms].into_iter().any(|time| i64::try_from(time).is_err()) {
        return Err("a time of more than 63 bits".into());
    }
    if database >= DATABASES {
        return Err(format!("there is no database {database}"));
    }
    let words = words.iter().map(|word| bytes(word)).collect::<Result<Vec<_>, _>>()?;
    let answer = bytes(&answer)?;
    if words.is_empty() {
        return Err("no words".into());
    }
    let request = Request::new(database, now_ms, words.iter().map(|word| &word[..]));
    let args = request.args();
    let name = args.at(0).escape_ascii();
    let command = table::find(args.at(0)).filter(|command| command.is_of_rows);
    let command = command.ok_or_else(|| format!("`{name}` is no command on rows"))?;
    if !command.takes(args.len()) {
        return Err(format!("`{name}` does not take {} words", args.len() - 1));
    }
    if !tells_of_rows(command, args) {
        return Err(format!("`{name}` does not tell of rows at one moment: it cannot be checked"));
    }
    if command.reaches(args, REACH_BYTES_MAX) {
        return Err(format!("`{name}` makes a value of more than {REACH_BYTES_MAX} bytes"));
    }
    drop(words);
    Ok((group, Operation { client, request, from, to, answer, split }))
}

fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn bytes(characters: &str) -> Result<Vec<u8>, String> {
    let byte = |character: char| {
        u8::try_from(character).map_err(|_| format!("`{}` is not a byte", character.escape_unicode()))
    };
    characters.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = r#"{"format":"weir sim clients","version":1,"repeat":"x"}"#;
    const LINE: &str = r#"{"group":4,"client":22,"from":1,"to":2,"database":0,"now_ms":3,"words":["get","k"],"answer":"$-1\r\n","split":false}"#;

    fn written(groups: &Groups) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, "x", groups).expect("memory");
        out
    }

    #[test]
    fn bad_lines_are_refused_with_their_number_and_what_is_wrong() {
        let dump = |line: &str| format!("{HEADER}\n{LINE}\n{line}\n");
        assert_eq!(read(dump(LINE).as_bytes()).map(|groups| groups[&4].len()), Ok(2));
        for (from, to, expected) in [
            (r#""to":2"#, r#""to":0"#, "line 3: answered at 0, before it was asked at 1"),
            (r#""to":2"#, r#""to":18446744073709551615"#, "line 3: a time of more than 63 bits"),
            (r#""to":2"#, r#""to":-1"#, "line 3: column 39: invalid value: integer `-1`, expected u64"),
            (r#""client":22,"#, "", "line 3: column 104: missing field `client`"),
            (r#""client""#, r#""clients""#, "line 3: column 20: unknown field `clients`, "),
            (r#""database":0"#, r#""database":16"#, "line 3: there is no database 16"),
            (r#"["get","k"]"#, "[]", "line 3: no words"),
            (r#"["get","k"]"#, r#"["\u0100"]"#, "line 3: `\\u{100}` is not a byte"),
            (r#"["get","k"]"#, r#"["ping"]"#, "line 3: `ping` is no command on rows"),
            (r#"["get","k"]"#, r#"["get"]"#, "line 3: `get` does not take 0 words"),
            (r#"["get","k"]"#, r#"["mget","k","l"]"#, "line 3: `mget` does not tell of rows at one moment"),
            (r#"["get","k"]"#, r#"["dbsize"]"#, "line 3: `dbsize` does not tell of rows at one moment"),
            (r#"["get","k"]"#, r#"["setrange","k","99999999","v"]"#, "line 3: `setrange` makes a value of more than"),
            (LINE, r#"{"group":4"#, "line 3: column "),
            (LINE, "", "line 3: column "),
        ] {
            let refused = read(dump(&LINE.replace(from, to)).as_bytes()).expect_err(to);
            assert!(refused.starts_with(expected), "{refused} instead of {expected}");
        }
        for bad in ["", "{}", &HEADER.replace('1', "2"), &HEADER.replace("clients", "x"), LINE] {
            assert!(read(bad.as_bytes()).is_err_and(|text| text.starts_with("line 1: ")), "{bad}");
        }
    }

    #[test]
    fn neither_a_line_nor_a_group_is_without_a_limit() {
        let long = format!("{HEADER}\n{}", " ".repeat(LINE_BYTES_MAX + 1));
        assert!(read(long.as_bytes()).is_err_and(|text| text.starts_with("line 2: longer than ")));
        let most = format!("{HEADER}\n{}", format!("{LINE}\n").repeat(OPERATIONS_MAX));
        let groups = read(most.as_bytes()).expect("as many as there may be");
        // The search has room for them on the stack.
        assert_eq!(super::super::check(groups[&4].clone()), Ok(()));
        assert!(read(format!("{most}{LINE}\n").as_bytes()).is_err_and(|text| text.starts_with("line 2002: group 4 ")));
    }

    proptest! {
        #[test]
        fn a_dump_comes_back_as_it_was(
            group in 0_usize..9, client: usize, (from, long) in (0..1_u64 << 62, 0..1_u64 << 62), now_ms in 0..1_u64 << 62,
            database in 0..DATABASES, key: Vec<u8>, answer: Vec<u8>, split: bool, times in 1_usize..4
        ) {
            let request = Request::new(database, now_ms, [b"get", &key[..]]);
            let operation = Operation { client, request, from, to: from + long, answer, split };
            let groups = Groups::from([(group, vec![operation; times])]);
            prop_assert_eq!(read(&written(&groups)[..]), Ok(groups));
        }

        #[test]
        fn any_bytes_are_a_dump_or_refused_with_a_line(noise: Vec<u8>, at in 0_usize..200) {
            let mut dump = format!("{HEADER}\n{LINE}\n{LINE}\n").into_bytes();
            for (index, byte) in noise.into_iter().enumerate() {
                let place = (at + index) % dump.len();
                dump[place] = byte;
            }
            match read(&dump[..]) {
                Ok(groups) => drop(groups.into_values().map(super::super::check).collect::<Vec<_>>()),
                Err(text) => prop_assert!(text.starts_with("line "), "{}", text),
            }
        }
    }
}
