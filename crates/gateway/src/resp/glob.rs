//! Patterns of `KEYS`, `SCAN MATCH` and `CONFIG GET`: `* ? [a-z] [^x] \c`, as Redis understands them.

use super::error::{Error, Outcome};

/// Longest pattern, in bytes: matching takes time in proportion to it, in one piece (S14).
const PATTERN_BYTES_MAX: usize = 1024;

/// `pattern`, if it is not too long.
pub(super) fn checked(pattern: &[u8]) -> Outcome<&[u8]> {
    if pattern.len() <= PATTERN_BYTES_MAX {
        Ok(pattern)
    } else {
        Err(Error::new("ERR a pattern is at most 1024 bytes long"))
    }
}

/// Whether `text` matches `pattern`. Work is bounded by the product of the lengths, with no recursion: after a
/// mismatch only the last `*` is tried again, because what an earlier one could take, the last can take too (S14).
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Redis never enters its loop on an empty text, so there even `*` does not match.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern_at, mut text_at) = (0, 0);
    // Where to resume: behind the last star, one byte of text further.
    let mut resume: Option<(usize, usize)> = None;
    while text_at < text.len() {
        if pattern.get(pattern_at) == Some(&b'*') {
            pattern_at += 1;
            if pattern_at == pattern.len() {
                return true;
            }
            resume = Some((pattern_at, text_at));
            continue;
        }
        if let Some(next) = match_one(pattern, pattern_at, text[text_at]) {
            pattern_at = next;
            text_at += 1;
            continue;
        }
        let Some((after_star, from)) = resume else { return false };
        pattern_at = after_star;
        text_at = from + 1;
        resume = Some((after_star, text_at));
    }
    pattern[pattern_at..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the pattern's element at `at`; gives the place of the next element.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// A class that does not end reaches to the pattern's end. Ranges compare signed bytes, as C's `char` does.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [start, b'-', end, ..] => {
                let (start, end) = (*start as i8, *end as i8);
                found |= (start.min(end)..=start.max(end)).contains(&(byte as i8));
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
        for (pattern, text, expected) in [
            ("*", "anything", true),
            ("*", "", false),
            ("", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("a[\\]]b", "a]b", true),
            ("a[bc", "ab", true),
            ("a\\", "a\\", true),
            ("*a*b", "xaxaxb", true),
            ("*a*bc", "xaxaxb", false),
            ("ab**", "ab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_are_not_exponential() {
        let pattern = b"a*".repeat(200);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &[b'a'; 2000]));
    }
}
