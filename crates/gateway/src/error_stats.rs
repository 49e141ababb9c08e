//! Counts the errors of one tenant by their code, for `INFO errorstats`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// How many different codes are counted: clients may make up others, in scripts.
const CODES_MAX: usize = 128;
/// How many bytes of a code are kept.
const CODE_BYTES_MAX: usize = 64;

/// How often each error code was answered.
#[derive(Default)]
pub(crate) struct ErrorStats(Mutex<BTreeMap<String, u64>>);

/// The first word of an error, if it is a code; else `ERR`.
fn code(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let is_code = end <= CODE_BYTES_MAX && !text[..end].is_empty();
    if is_code { &text[..end] } else { b"ERR" }
}

impl ErrorStats {
    /// Counts `count` replies with the error `text`, which is without the `-` in front.
    pub(crate) fn count(&self, text: &[u8], count: u64) {
        // A character that separates names from numbers in `INFO` must not be part of a name.
        let code: String = code(text)
            .iter()
            .map(|&byte| if byte.is_ascii_graphic() && byte != b':' { byte as char } else { '_' })
            .collect();
        let mut counts = self.0.lock();
        if counts.len() < CODES_MAX || counts.contains_key(&code) {
            *counts.entry(code).or_default() += count;
        }
    }

    /// Every code, and how often it was answered.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        self.0.lock().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Sets all counts back to zero.
    pub(crate) fn reset(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let stats = ErrorStats::default();
        for text in ["ERR syntax error", "WRONGTYPE Operation", "ERR no such key", "NOGROUP", "A:B x", ""] {
            stats.count(text.as_bytes(), 1);
        }
        let all = stats.all();
        let all: Vec<(&str, u64)> = all.iter().map(|(code, count)| (code.as_str(), *count)).collect();
        assert_eq!(all, [("A_B", 1), ("ERR", 3), ("NOGROUP", 1), ("WRONGTYPE", 1)]);
        for number in 0..2 * CODES_MAX {
            stats.count(format!("E{number}").as_bytes(), 1);
        }
        assert_eq!(stats.all().len(), CODES_MAX);
        stats.reset();
        assert!(stats.all().is_empty());
    }
}
