//! Reads what every value of a dump file consists of: strings and numbers, one behind the other.

use weir_io::Yield;

use super::packs::Open;
use super::{Refusal, Text, take_bytes_len, take_string, take_text};
use crate::error::TOO_MANY_RESULTS;
use crate::room::Room;

/// How many elements are read between two turns.
const TURN_ELEMENTS: usize = 1000;

/// Most elements of a value. An element takes some fifty bytes of memory however short it is, and a compressed text of
/// a few hundred KiB may turn out to be a pack of tens of millions of them.
pub const ELEMENTS_MAX: usize = 4 << 20;
/// Bytes of memory that an element takes besides its own.
const ELEMENT_BYTES: usize = 50;

/// Counts elements, and lets others be served after every [`TURN_ELEMENTS`] of them.
pub struct Turns {
    yields: Yield,
    elements: usize,
    /// How many elements were taken out of the value.
    taken: usize,
    /// Room for what was taken out.
    room: Room,
}

impl Turns {
    /// A turn begins.
    pub fn new(yields: Yield) -> Self {
        Self::within(yields, Room::new(usize::MAX, TOO_MANY_RESULTS, None))
    }

    /// The same; what is taken out of the value has to fit into `room`.
    pub(super) fn within(yields: Yield, room: Room) -> Self {
        Self { yields, elements: 0, taken: 0, room }
    }

    /// The room, with what was taken out of the value.
    pub(super) fn into_room(self) -> Room {
        self.room
    }

    /// To be called before an element is looked at.
    pub(super) async fn end_turn(&mut self) {
        self.elements += 1;
        if self.elements.is_multiple_of(TURN_ELEMENTS) {
            self.yields.now().await;
        }
    }

    /// Counts an element that is taken out of the value.
    fn take(&mut self) -> Result<(), Refusal> {
        self.taken += 1;
        if self.taken > ELEMENTS_MAX {
            return Err(Refusal::TooMany);
        }
        self.hold(ELEMENT_BYTES)
    }

    /// Takes room for `bytes`.
    fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.room.take(bytes).map_err(|_| Refusal::NoRoom)
    }

    /// The elements of a pack, which `open` opens.
    pub(super) async fn unpack(&mut self, pack: &[u8], open: Open) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut pack = open(pack).ok_or(Refusal::Format)?;
        let mut elements = Vec::new();
        while pack.take_into(&mut elements).ok_or(Refusal::Format)? {
            self.take()?;
            self.end_turn().await;
        }
        Ok(elements)
    }
}

/// Reads one value, and keeps count of the bytes of its strings.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    /// How many more bytes its strings may have.
    pub(super) left: usize,
    pub(super) turns: Turns,
}

impl<'a> Reader<'a> {
    /// A reader of `rest`, whose strings may have at most `bytes_max` bytes together.
    pub(super) fn new(rest: &'a [u8], bytes_max: usize, turns: Turns) -> Self {
        Self { rest, left: bytes_max, turns }
    }

    /// The next string.
    pub(super) async fn string(&mut self) -> Result<Vec<u8>, Refusal> {
        self.turns.end_turn().await;
        self.turns.take()?;
        // A compressed text has all of its memory before it is unpacked.
        let mut ahead = self.rest;
        let len = match take_string(&mut ahead)? {
            Text::Plain(text) => text.len(),
            Text::Compressed(_, len) => len,
            Text::Number(_) => 0,
        };
        self.turns.hold(len.min(self.left))?;
        let string = take_text(&mut self.rest, self.left, self.turns.yields).await?;
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
