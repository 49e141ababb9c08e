//! Words of the protocol, in upper or lower case.

/// More than the longest word that has a meaning.
const BYTES_MAX: usize = 24;

/// A word that may be one of the protocol's. A longer word is none of them, and is not looked at: a client may send
/// words of many megabytes.
#[derive(Default)]
pub struct Keyword {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl Keyword {
    fn of(word: &[u8], change: impl Fn(&u8) -> u8) -> Self {
        let mut keyword = Self::default();
        if word.len() <= BYTES_MAX {
            keyword.bytes.iter_mut().zip(word).for_each(|(byte, from)| *byte = change(from));
            keyword.len = word.len();
        }
        keyword
    }

    /// The word's bytes; empty if the word was too long.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// `word` in small letters.
pub fn lower(word: &[u8]) -> Keyword {
    Keyword::of(word, u8::to_ascii_lowercase)
}

/// `word` in capitals.
pub fn upper(word: &[u8]) -> Keyword {
    Keyword::of(word, u8::to_ascii_uppercase)
}
