//! Where the power may be cut.

use std::path::Path;

use super::counters::OpKind;
use crate::Tag;

/// The moment of an operation at which a test looks at the disk, or cuts the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Submitted, but the disk has not seen it.
    Before,
    /// In flight: its effect may be there, torn, or not there at all.
    During,
}

/// A change at which the power may be cut. The state *after* a change is the state before the next one.
#[derive(Clone, Copy, Debug)]
pub struct CutPoint<'a> {
    /// The change's number in this run, from 0. See [`OpKind::is_change`].
    pub index: u64,
    /// Before the change or in the middle of it.
    pub phase: Phase,
    /// The kind of the change.
    pub kind: OpKind,
    /// Who asked for it, and why.
    pub tag: Tag,
    /// The path given; for a file, the path it was opened with.
    pub path: &'a Path,
    /// Byte offset; 0 where there is none.
    pub offset: u64,
    /// Bytes to write, or the new length.
    pub len: u64,
}
