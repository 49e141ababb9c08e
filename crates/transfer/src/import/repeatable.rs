//! Which commands of a source may be done again when nobody knows whether they were done.

use super::partitions::Words;

/// Scripts: what they do may be different the second time.
const SCRIPTS: [&str; 6] = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"];

fn is(word: Option<&Vec<u8>>, name: &str) -> bool {
    word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether a command runs a script.
pub(super) fn is_script(words: &Words) -> bool {
    SCRIPTS.iter().any(|name| is(words.first(), name))
}

/// The same command in a form that leads to the same if it is done again. A source sends `FUNCTION LOAD` and
/// `FUNCTION RESTORE` only if they have succeeded, so the libraries are then as these say.
pub(super) fn repeatable(mut words: Words) -> Words {
    if is(words.first(), "FUNCTION") {
        match words.len() {
            3 if is(words.get(1), "LOAD") => words.insert(2, b"REPLACE".to_vec()),
            3 if is(words.get(1), "RESTORE") => words.push(b"REPLACE".to_vec()),
            4 if is(words.get(1), "RESTORE") && is(words.get(3), "APPEND") => words[3] = b"REPLACE".to_vec(),
            _ => {}
        }
    }
    words
}

/// Whether a `FUNCTION` command deletes all libraries.
pub(super) fn is_flush(words: &Words) -> bool {
    is(words.get(1), "FLUSH") || (is(words.get(1), "RESTORE") && is(words.get(3), "FLUSH"))
}

/// Whether the tenant refuses a command with `error` because what it asks for is so already.
pub(super) fn is_so_already(words: &Words, error: &str) -> bool {
    is(words.first(), "FUNCTION") && is(words.get(1), "DELETE") && error.contains("Library not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn libraries_are_loaded_such_that_it_may_be_done_again() {
        for (line, form) in [
            ("FUNCTION LOAD code", "FUNCTION LOAD REPLACE code"),
            ("function load replace code", "function load replace code"),
            ("FUNCTION RESTORE payload", "FUNCTION RESTORE payload REPLACE"),
            ("FUNCTION RESTORE payload append", "FUNCTION RESTORE payload REPLACE"),
            ("FUNCTION RESTORE payload FLUSH", "FUNCTION RESTORE payload FLUSH"),
            ("FUNCTION FLUSH", "FUNCTION FLUSH"),
            ("SET load code", "SET load code"),
        ] {
            assert_eq!(repeatable(words(line)), words(form));
        }
        let gone = "ERR Library not found";
        let lines = ["FUNCTION DELETE a", "FUNCTION LOAD a", "EVAL script 0"];
        assert_eq!(lines.map(|line| is_so_already(&words(line), gone)), [true, false, false]);
        assert_eq!(lines.map(|line| is_script(&words(line))), [false, false, true]);
    }
}
