//! Places between replies, to come back to: what was written behind one is taken back, or replaced. And whether what
//! was written since is one whole reply.

use super::{Protocol, Replies, Shared};

/// A place between two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    shared: usize,
}

impl Replies {
    /// A command's reply begins here. What is written before it is not touched until [`Replies::replace_with_error`].
    #[inline]
    pub fn begin(&mut self) -> Mark {
        self.missing = 1;
        self.mark()
    }

    /// An element of the reply under way begins, whose wholeness is looked at by itself. Gives what
    /// [`Replies::end_element`] is to be given.
    pub fn begin_element(&mut self) -> i64 {
        std::mem::replace(&mut self.missing, 1)
    }

    /// The element ends, which was one whole reply.
    pub fn end_element(&mut self, missing: i64) {
        self.missing = missing - 1;
    }

    /// As if nothing had been written since [`Replies::begin`] gave `mark`.
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

    /// Bytes written since `mark`.
    pub fn len_since(&self, mark: Mark) -> usize {
        let shared: usize = self.shared[mark.shared..].iter().map(|shared| shared.value.len()).sum();
        self.bytes.len() - mark.bytes + shared
    }

    /// Takes back what was written between the marks and puts `count` times the error `text` there. Marks behind
    /// `to` are wrong afterwards: so replacing goes from the last to the first, when nobody holds any other mark.
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

    /// Puts the attribute `name`, a number, in front of the reply that begins at `mark`, which is the last one. Marks
    /// behind `mark` are wrong afterwards.
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

    /// How many elements of the reply under way are not written yet.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    /// Forgets everything from `mark` on, where so many elements were [missing](Replies::missing).
    pub fn rewind_elements(&mut self, mark: Mark, missing: i64) {
        self.rewind(mark);
        self.missing = missing;
    }
}
