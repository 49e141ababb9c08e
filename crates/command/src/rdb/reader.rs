//! Reads what every value of a dump file consists of: strings and numbers, one behind the other.

use weir_io::Yield;

use super::{Refusal, take_bytes_len, take_text};

/// How many elements are read between two turns.
const TURN_ELEMENTS: usize = 1000;

/// Reads one value, and keeps count of the bytes of its strings.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    /// How many more bytes its strings may have.
    pub(super) left: usize,
    yields: Yield,
    elements: usize,
}

impl<'a> Reader<'a> {
    /// A reader of `rest`, whose strings may have at most `bytes_max` bytes together.
    pub(super) fn new(rest: &'a [u8], bytes_max: usize, yields: Yield) -> Self {
        Self { rest, left: bytes_max, yields, elements: 0 }
    }

    /// To be called before an element is read. After every [`TURN_ELEMENTS`] elements, others are served.
    pub(super) async fn end_turn(&mut self) {
        self.elements += 1;
        if self.elements.is_multiple_of(TURN_ELEMENTS) {
            self.yields.now().await;
        }
    }

    /// The next string.
    pub(super) async fn string(&mut self) -> Result<Vec<u8>, Refusal> {
        self.end_turn().await;
        let string = take_text(&mut self.rest, self.left, self.yields).await?;
        self.left = self.left.checked_sub(string.len()).ok_or(Refusal::TooLong)?;
        Ok(string)
    }

    /// How many elements follow.
    pub(super) fn count(&mut self) -> Result<usize, Refusal> {
        // Each element takes at least one byte, so a value that announces more elements gets no memory for them.
        let count = take_bytes_len(&mut self.rest)?;
        if count <= self.rest.len() { Ok(count) } else { Err(Refusal::Format) }
    }
}
