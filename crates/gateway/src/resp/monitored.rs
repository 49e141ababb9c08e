//! What `MONITOR` shows of a command: a line with the time, the database, the sender, and the words of the command.
//!
//! ```text
//! +1700000000.123000 [0 127.0.0.1:50000] "SET" "k" "a \"value\""
//! ```
//!
//! Commands for administrators are not shown, and neither are words that are secrets (S4): both as in Redis.

use weir_command::table::{Id, subcommands};
use weir_command::{Args, Command};
use weir_io::{Turn, Yield};

/// Shown in the place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Whether `command` is shown.
pub(super) fn is_shown(command: &Command, args: Args<'_>) -> bool {
    let is_for_all = |flags: &[&str]| !flags.contains(&"admin");
    match args.get(1).filter(|_| command.is_container) {
        Some(word) => subcommands::find(command.name, word).is_some_and(|subcommand| is_for_all(subcommand.flags)),
        None => is_for_all(command.flags),
    }
}

/// The positions of the words of `command` that are secrets.
fn secrets(command: &Command, args: Args<'_>) -> Vec<usize> {
    let is = |place: usize, word: &str| args.get(place).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    match command.id {
        Id::Auth => (1..args.len()).collect(),
        Id::Hello => {
            let mut found = Vec::new();
            let mut place = 2;
            while place < args.len() {
                if is(place, "AUTH") {
                    found.extend([place + 1, place + 2]);
                    place += 3;
                } else {
                    place += 2;
                }
            }
            found
        }
        Id::Migrate => {
            let options = 6..args.len();
            let behind = |place: usize| match () {
                () if is(place, "AUTH") => Some(place + 1..place + 2),
                () if is(place, "AUTH2") => Some(place + 1..place + 3),
                () => None,
            };
            options.filter_map(behind).flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// Adds `word`, escaped for a line in which it stands between quotation marks.
fn escape(out: &mut Vec<u8>, word: &[u8]) {
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
}

/// The encoded line for `command`, which `who` sent at `unix_ms`. If the line is long, other connections are served in
/// between.
pub(super) async fn line(
    (unix_ms, database, who): (u64, u8, &str),
    command: &Command,
    args: Args<'_>,
    yields: Yield,
) -> Vec<u8> {
    let (seconds, micros) = (unix_ms / 1000, unix_ms % 1000 * 1000);
    let mut line = format!("+{seconds}.{micros:06} [{database} {who}]").into_bytes();
    let (secrets, mut turn) = (if command.is_secret(args) { secrets(command, args) } else { Vec::new() }, Turn::new());
    for (place, word) in args.iter_from(0).enumerate() {
        line.push(b' ');
        let word = if secrets.contains(&place) { REDACTED } else { word };
        line.push(b'"');
        for piece in word.chunks(Turn::BYTES) {
            escape(&mut line, piece);
            if turn.spend(piece.len()) {
                yields.now().await;
            }
        }
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    line
}

#[cfg(test)]
mod tests {
    use weir_command::{Request, table};
    use weir_io::real::block_on;

    use super::*;

    fn shown(words: &[&[u8]]) -> Option<String> {
        let request = Request::new(0, 0, words.iter().copied());
        let command = table::find(words[0]).expect("a command");
        let line = block_on(line((1_700_000_000_007, 3, "lua"), command, request.args(), Yield::PLAIN));
        is_shown(command, request.args()).then(|| String::from_utf8(line).expect("nothing but printable characters"))
    }

    #[test]
    fn a_line_has_every_word_in_printable_characters() {
        let line = shown(&[b"Set", b"", b"a b\"\\\r\n\t\x07\x08\x00\xff"]);
        let expected = "+1700000000.007000 [3 lua] \"Set\" \"\" \"a b\\\"\\\\\\r\\n\\t\\a\\b\\x00\\xff\"\r\n";
        assert_eq!(line.as_deref(), Some(expected));
        let long = "x".repeat(Turn::BYTES * 2 + 1);
        assert!(shown(&[b"GET", long.as_bytes()]).expect("shown").ends_with(&format!(" \"{long}\"\r\n")));
    }

    #[test]
    fn s4_secrets_and_what_is_for_administrators_are_not_shown() {
        for (words, expected) in [
            ("AUTH s", Some(r#""AUTH" "(redacted)""#)),
            ("AUTH u s", Some(r#""AUTH" "(redacted)" "(redacted)""#)),
            ("HELLO 3 SETNAME auth AUTH u s", Some(r#""HELLO" "3" "SETNAME" "auth" "AUTH" "(redacted)" "(redacted)""#)),
            ("MIGRATE h 1 k 0 9 AUTH s", Some(r#""MIGRATE" "h" "1" "k" "0" "9" "AUTH" "(redacted)""#)),
            (
                "MIGRATE h 1 k 0 9 COPY AUTH2 u s",
                Some(r#""MIGRATE" "h" "1" "k" "0" "9" "COPY" "AUTH2" "(redacted)" "(redacted)""#),
            ),
            ("CLIENT ID", Some(r#""CLIENT" "ID""#)),
            ("ACL WHOAMI", Some(r#""ACL" "WHOAMI""#)),
            ("CONFIG SET requirepass s", None),
            ("ACL SETUSER u >s", None),
            ("CLIENT LIST", None),
            ("SLOWLOG GET", None),
            ("MONITOR", None),
        ] {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let line = shown(&words);
            let line = line.as_deref().map(|line| line.split_once("] ").expect("words").1.trim_end());
            assert_eq!(line, expected, "{words:?}");
        }
    }
}
