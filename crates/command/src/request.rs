//! A request, apart from the connection that brought it: words, a database, and the moment that it is judged by.
//!
//! Its bytes, for another process, are described in `docs/format/request.md`.
//!
//! ```text
//! request := version u8 (1) | database u8 | now_ms varint | words varint | word*
//! word    := len varint | bytes
//! ```

use weir_model::{DATABASES, varint};

use crate::args::{Args, Span};
use crate::context::Call;

/// The format's version that is written, and the only one that is read.
const VERSION: u8 = 1;

/// Most words of a request: the number that a connection may send.
const WORDS_MAX: u64 = 1 << 20;

/// A command with its words, its database and the moment that it is judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the database that its keys are in.
    pub database: u8,
    /// The moment that it is judged by, in milliseconds since 1970.
    pub now_ms: u64,
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Request {
    /// The request with these `words`; the first one is the command's name.
    ///
    /// # Panics
    /// If there is no word, or if the words have more than four gigabytes: a connection's limits are far below.
    pub fn new<'w>(database: u8, now_ms: u64, words: impl IntoIterator<Item = &'w [u8]>) -> Self {
        let words: Vec<&[u8]> = words.into_iter().collect();
        assert!(!words.is_empty(), "a request without words is not a request");
        let spans = spans(words.iter().map(|word| word.len())).expect("less than four gigabytes");
        Self { database, now_ms, bytes: words.concat(), spans }
    }

    /// The request's words.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// The state in which a run of this request begins.
    pub fn call(&self, value_bytes_max: usize) -> Call {
        Call::new(self.database, self.now_ms, value_bytes_max)
    }

    /// The request as bytes, for another process.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + self.spans.len() + 16);
        out.extend_from_slice(&[VERSION, self.database]);
        varint::put(&mut out, self.now_ms);
        varint::put(&mut out, self.spans.len() as u64);
        for word in self.args().iter_from(0) {
            varint::put(&mut out, word.len() as u64);
            out.extend_from_slice(word);
        }
        out
    }

    /// Reads a request from bytes, which may be anything.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let [version, database, rest @ ..] = bytes else { return Err("it is cut off") };
        if *version != VERSION {
            return Err("a format version that this program does not know");
        }
        if *database >= DATABASES {
            return Err("there is no such database");
        }
        let mut rest = rest;
        let now_ms = varint::take(&mut rest).ok_or("it is cut off")?;
        let count = varint::take(&mut rest).ok_or("it is cut off")?;
        if !(1..=WORDS_MAX).contains(&count) {
            return Err("it has no words, or too many");
        }
        // The list of words grows as words are found: words that are only announced cost no memory.
        let mut words = Vec::new();
        for _ in 0..count {
            words.push(varint::take_slice(&mut rest).ok_or("it is cut off")?);
        }
        if !rest.is_empty() {
            return Err("something follows its last word");
        }
        let spans = spans(words.iter().map(|word| word.len())).ok_or("its words have four gigabytes or more")?;
        Ok(Self { database: *database, now_ms, bytes: words.concat(), spans })
    }
}

/// Where words of these lengths are, one behind the other; `None` if they have four gigabytes or more together.
fn spans(lens: impl Iterator<Item = usize>) -> Option<Vec<Span>> {
    let mut start = 0_u32;
    let span = |len| {
        let span = Span { start, len: u32::try_from(len).ok()? };
        start = start.checked_add(span.len)?;
        Some(span)
    };
    lens.map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_of_four_gigabytes_are_refused() {
        const MOST: usize = u32::MAX as usize;
        assert!(spans([MOST - 1, 1, 0].into_iter()).is_some());
        for lens in [[MOST, 1, 0], [MOST, 0, 1], [MOST / 2, MOST / 2, 2], [1, MOST + 1, 0], [0, 0, usize::MAX]] {
            assert!(spans(lens.into_iter()).is_none(), "{lens:?}");
        }
    }

    proptest! {
        #[test]
        fn a_request_comes_back_from_its_bytes(
            words in proptest::collection::vec(any::<Vec<u8>>(), 1..20), database in 0..DATABASES, now_ms: u64
        ) {
            let request = Request::new(database, now_ms, words.iter().map(|word| &word[..]));
            let bytes = request.encode();
            prop_assert_eq!(Request::decode(&bytes), Ok(request.clone()));
            prop_assert!(request.args().iter_from(0).eq(words.iter().map(|word| &word[..])));
            for len in 0..bytes.len() {
                prop_assert!(Request::decode(&bytes[..len]).is_err(), "{} bytes", len);
            }
        }

        #[test]
        fn any_bytes_are_a_request_or_refused(bytes: Vec<u8>) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert!(request.args().len() > 0);
            }
        }
    }
}
