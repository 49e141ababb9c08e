//! Inline requests: one line of words, for people with `nc` and for health checks.

use super::frame::{ProtocolError, Span};

/// Splits `line` into words, unquoted, appended to `words`; one span each.
///
/// `"…"` knows `\n \r \t \b \a \\ \" \xHH`, `'…'` knows `\'`, and a closing quote ends its word.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        while let [first, after @ ..] = rest
            && is_space(*first)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = take_word(rest, words)?;
        // The line is at most a few ten KiB long, and unquoting only shortens it.
        spans.push(Span { start: start as u32, len: (words.len() - start) as u32 });
    }
}

/// The spaces of C's `isspace`: unlike Rust's ASCII white space they include the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn take_word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [space, ..] if is_space(*space) => return Ok(rest),
            [quote @ (b'"' | b'\''), after @ ..] => return take_quoted(*quote, after, words),
            [byte, after @ ..] => {
                words.push(*byte);
                rest = after;
            }
        }
    }
}

fn take_quoted<'a>(quote: u8, mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match (quote, rest) {
            (_, []) => return Err(ProtocolError::UnbalancedQuotes),
            (b'"', [b'\\', b'x', high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (b'"', [b'\\', escaped, after @ ..]) => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            (b'\'', [b'\\', b'\'', after @ ..]) => {
                words.push(b'\'');
                rest = after;
            }
            (_, [byte, after @ ..]) if *byte == quote => {
                return match after {
                    [] => Ok(after),
                    [space, ..] if is_space(*space) => Ok(after),
                    _ => Err(ProtocolError::UnbalancedQuotes),
                };
            }
            (_, [byte, after @ ..]) => {
                words.push(*byte);
                rest = after;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// Whether these words are how an HTTP request begins (S17). `GET` alone is ours, so it takes the version to tell.
pub(super) fn looks_like_http(words: &[u8], spans: &[Span]) -> bool {
    let word = |index: usize| spans.get(index).map(|span| &words[span.start as usize..][..span.len as usize]);
    let Some(first) = word(0) else { return false };
    let verb = [&b"POST"[..], b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"Host:"];
    verb.iter().any(|verb| first.eq_ignore_ascii_case(verb))
        || (first.eq_ignore_ascii_case(b"GET") && word(2).is_some_and(|version| version.starts_with(b"HTTP/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, ProtocolError> {
        let (mut words, mut spans) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut words, &mut spans)?;
        let word = |span: &Span| String::from_utf8_lossy(&words[span.start as usize..][..span.len as usize]).into();
        Ok(spans.iter().map(word).collect())
    }

    #[test]
    fn words_and_quotes_are_those_of_redis() {
        assert_eq!(words("  set  a\tb "), Ok(vec!["set".into(), "a".into(), "b".into()]));
        assert_eq!(words(r#"set "a b" '' 'it\'s' "\x41\n\"""#), {
            Ok(vec!["set".into(), "a b".into(), "".into(), "it's".into(), "A\n\"".into()])
        });
        assert_eq!(words(r#"foo"bar" x"#), Ok(vec!["foobar".into(), "x".into()]));
        for broken in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\""#] {
            assert_eq!(words(broken), Err(ProtocolError::UnbalancedQuotes), "{broken}");
        }
    }
}
