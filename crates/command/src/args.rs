//! The words of a request, as places in its bytes.

use std::fmt;
use std::ops::Index;

/// Where a word lies, relative to the first byte of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

/// The words of a request; number 0 is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The words of `bytes` that lie at `spans`. There has to be at least one.
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// How many words there are, the name included; never 0.
    #[allow(clippy::len_without_is_empty, reason = "a request without words is not a request")]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Word `index`, which lives as long as the buffer.
    ///
    /// # Panics
    /// If there is no such word. Handlers rely on the command table, which has checked the number of words before.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start as usize..][..span.len as usize]
    }

    /// Word `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.spans.len()).then(|| self.at(index))
    }

    /// The words from `first` on.
    pub fn iter_from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        (first.min(args.len())..args.len()).map(move |index| args.at(index))
    }

    /// The places of the words.
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The same request, with the words at `spans` instead of its own.
    pub fn with_spans<'b>(&self, spans: &'b [Span]) -> Args<'b>
    where
        'a: 'b,
    {
        Args { bytes: self.bytes, spans }
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter_from(0).map(String::from_utf8_lossy)).finish()
    }
}
