//! A pattern of keys or channels, made ready to be compared with many names.

use std::sync::Arc;

use super::rule_error::RuleError;
use crate::glob::{self, Glob, Turn};

/// A pattern that is ready to be compared.
#[derive(Clone)]
pub(super) struct Pattern {
    pub(super) text: Arc<[u8]>,
    matcher: Matcher,
}

/// Most patterns are a whole name, or what names begin with: matching these takes no memory and hardly any time.
#[derive(Clone)]
enum Matcher {
    Exact,
    /// The name has to begin with the pattern's text, without the star at its end.
    Prefix,
    Glob(Arc<Glob>),
}

impl Pattern {
    pub(super) fn new(text: &[u8]) -> Result<Self, RuleError> {
        if glob::checked(text).is_err() {
            return Err(RuleError::LongPattern);
        }
        if has_spaces(text) {
            return Err(RuleError::Syntax);
        }
        let is_plain = |text: &[u8]| !text.iter().any(|byte| b"*?[\\".contains(byte));
        let matcher = match text.split_last() {
            _ if is_plain(text) => Matcher::Exact,
            Some((b'*', front)) if is_plain(front) => Matcher::Prefix,
            _ => Matcher::Glob(Arc::new(Glob::new(text))),
        };
        Ok(Self { text: text.into(), matcher })
    }

    /// Whether the pattern matches everything.
    pub(super) fn is_any(&self) -> bool {
        *self.text == *b"*"
    }

    pub(super) async fn matches(&self, text: &[u8], turn: &mut Turn) -> bool {
        match &self.matcher {
            Matcher::Exact => *self.text == *text,
            // As in Redis, a star does not match an empty text.
            Matcher::Prefix => !text.is_empty() && text.starts_with(&self.text[..self.text.len() - 1]),
            Matcher::Glob(glob) => glob.matches_in_turns(text, turn).await,
        }
    }
}

/// Whether `text` has bytes that may not be in a word of a rule.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_io::Yield;

    use super::*;
    use crate::polled::turns;

    proptest! {
        #[test]
        fn a_short_cut_says_what_the_pattern_says(pattern in "[ab*?]{0,4}", text in "[ab*]{0,4}") {
            let short = Pattern::new(pattern.as_bytes()).expect("a pattern");
            let mut turn = Turn::new(Yield::PLAIN);
            let matches = turns(short.matches(text.as_bytes(), &mut turn)).1;
            prop_assert_eq!(matches, Glob::new(pattern.as_bytes()).matches(text.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_word_or_too_long_is_no_pattern() {
        assert_eq!(Pattern::new(b"a b").map(|_| ()), Err(RuleError::Syntax));
        assert_eq!(Pattern::new(b"a\0").map(|_| ()), Err(RuleError::Syntax));
        assert_eq!(Pattern::new(&[b'a'; 1025]).map(|_| ()), Err(RuleError::LongPattern));
    }
}
