//! Rust source without its comments and strings, so that rules judge code and not talk about code.

/// `source` with comments, strings and character literals blanked; line breaks stay where they were.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let skip = match rest[0] {
            b'/' if rest.starts_with(b"//") => rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => block_comment(rest),
            b'"' => quoted(rest, b'"'),
            b'r' if at == 0 || !is_word(bytes[at - 1]) || bytes[at - 1] == b'b' => raw_string(rest),
            b'\'' => character(rest),
            _ => 0,
        };
        if skip == 0 {
            // Bytes, not characters: a multi-byte character is not a word of Rust, so its bytes may be blanked.
            out.push(if rest[0].is_ascii() { char::from(rest[0]) } else { ' ' });
            at += 1;
        } else {
            out.extend(rest[..skip].iter().filter(|&&b| b == b'\n').map(|_| '\n'));
            out.push(' ');
            at += skip;
        }
    }
    out
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a nested `/* */`.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of a literal that starts with `quote` and ends with the next unescaped one.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of `r"…"` or `r#"…"#`; 0 if this `r` starts no raw string.
fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|window| window == end).unwrap_or(body.len());
    (2 + hashes + length + end.len()).min(rest.len())
}

/// The length of a character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => quoted(rest, b'\''),
        Some(byte) if !byte.is_ascii() => quoted(rest, b'\''),
        Some(_) if rest.get(2) == Some(&b'\'') => 3,
        _ => 0,
    }
}
