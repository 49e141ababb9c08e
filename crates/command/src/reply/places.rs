//! Places between replies, to which a caller can come back: what was written behind a place can be taken back, or
//! replaced. Also tells whether what was written since a place is one whole reply.

use super::{Protocol, Replies, Shared};

/// A place between two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    shared: usize,
}

impl Replies {
    /// A command's reply begins here. Earlier replies are not touched until [`Replies::replace_with_error`].
    #[inline]
    pub fn begin(&mut self) -> Mark {
        self.missing = 1;
        self.mark()
    }

    /// Begins an element of the current reply, which has to be one whole reply by itself. Gives the number that
    /// [`Replies::end_element`] takes.
    pub fn begin_element(&mut self) -> i64 {
        std::mem::replace(&mut self.missing, 1)
    }

    /// Ends an element that was one whole reply.
    pub fn end_element(&mut self, missing: i64) {
        self.missing = missing - 1;
    }

    /// Takes back everything that was written since [`Replies::begin`] gave `mark`.
    pub fn restart(&mut self, mark: Mark) {
        self.rewind(mark);
        self.missing = 1;
    }

    /// Whether exactly one reply, with all of its elements, was written since [`Replies::begin`].
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// The place of the next reply, to come back to with [`Replies::replace_with_error`].
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// How many bytes were written since `mark`.
    pub fn len_since(&self, mark: Mark) -> usize {
        self.len_between(mark, self.mark())
    }

    /// How many bytes were written between the marks. This goes through what is between them only.
    pub fn len_between(&self, from: Mark, to: Mark) -> usize {
        let shared: usize = self.shared[from.shared..to.shared].iter().map(|shared| shared.value.len()).sum();
        to.bytes - from.bytes + shared
    }

    /// Takes back what was written between the marks, and puts the error `text` there `count` times. Marks behind `to`
    /// become invalid. So errors have to be replaced from the last to the first, and nobody may hold another mark.
    pub fn replace_with_error(&mut self, from: Mark, to: Mark, count: usize, text: &[u8]) {
        let mut error = Replies::default();
        error.error(text);
        let errors = error.bytes.repeat(count);
        let grown = errors.len() as isize - (to.bytes - from.bytes) as isize;
        self.bytes.splice(from.bytes..to.bytes, errors);
        for shared in self.shared.drain(from.shared..to.shared) {
            self.shared_bytes -= shared.value.len();
        }
        for Shared { place, .. } in &mut self.shared[from.shared..] {
            *place = place.checked_add_signed(grown).expect("a place behind the replaced bytes");
        }
    }

    /// Puts the attribute `name`, a number, in front of the reply that begins at `mark`, which has to be the last one.
    /// Marks behind `mark` become invalid.
    pub fn put_attribute(&mut self, mark: Mark, name: &str, value: f64) {
        let mut attribute = Replies { protocol: Protocol::Resp3, ..Replies::default() };
        attribute.bytes.extend_from_slice(b"|1\r\n");
        attribute.bulk(name.as_bytes());
        attribute.double(value);
        let len = attribute.bytes.len();
        self.bytes.splice(mark.bytes..mark.bytes, attribute.bytes);
        self.shared[mark.shared..].iter_mut().for_each(|shared| shared.place += len);
    }

    /// Forgets everything from `mark` on.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        for shared in self.shared.drain(mark.shared..) {
            self.shared_bytes -= shared.value.len();
        }
    }

    /// How many elements of the current reply are not written yet.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    /// Forgets everything from `mark` on, and restores the number of elements that were [missing](Replies::missing)
    /// there.
    pub fn rewind_elements(&mut self, mark: Mark, missing: i64) {
        self.rewind(mark);
        self.missing = missing;
    }
}
