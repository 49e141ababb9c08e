//! The modules that requests go through, and how often a request has.

use std::ops::{AddAssign, Index};

macro_rules! modules {
    ($($(#[$doc:meta])* $id:ident $name:literal,)*) => {
        /// What takes the resources of a request (XS-19). What handles bytes is counted in bytes, all else in
        /// invocations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Module { $($(#[$doc])* $id,)* }

        impl Module {
            /// All of them, in their order.
            pub const ALL: [Module; [$(Module::$id),*].len()] = [$(Module::$id),*];

            /// Its name in files and replies.
            pub const fn name(self) -> &'static str {
                match self { $(Module::$id => $name,)* }
            }
        }
    };
}

modules! {
    /// Requests that came together: received at once, and answered at once. The first of them pays.
    Round "round",
    /// A command: found, checked, timed, answered.
    Command "command",
    /// A word of a request.
    Word "word",
    /// A byte of a request.
    RequestByte "request_byte",
    /// A byte of a reply.
    ReplyByte "reply_byte",
    /// A row was looked up and found.
    RowFound "row_found",
    /// A row was looked up and is not there.
    RowMissing "row_missing",
    /// A part of a row was looked up and found.
    PartFound "part_found",
    /// A part of a row was looked up and is not there.
    PartMissing "part_missing",
    /// A byte of a value that was found.
    ReadByte "read_byte",
    /// A part was passed in a row that keeps all of its parts in one piece.
    PackedPart "packed_part",
    /// A row was written or deleted: a string, or the head of a row of many parts.
    RowWritten "row_written",
    /// A part was written or deleted.
    PartWritten "part_written",
    /// A part of another order of the same row, such as that by score, was written or deleted.
    IndexWritten "index_written",
    /// A byte of a key and its value that were written.
    WrittenByte "written_byte",
    /// A step through rows or parts in their order.
    Page "page",
    /// A row or a part that such a step gave.
    Scanned "scanned",
    /// A byte that such a step passed.
    ScannedByte "scanned_byte",
    /// A command ran while nobody else could write to its rows.
    Locked "locked",
    /// Changes were handed to the log.
    LogRecord "log_record",
    /// A step of computing: a cell of a table, a comparison of a sort.
    Step "step",
    /// A number with a fraction was read or written as text.
    Fraction "fraction",
    /// A script was started.
    Script "script",
    /// A command that a script has called.
    ScriptCall "script_call",
    /// A slice of a script: some thousand instructions of Lua, after which it is looked at.
    ScriptSlice "script_slice",
    /// A read of the device.
    DeviceRead "device_read",
    /// A byte that was read from the device.
    DeviceByte "device_byte",
}

const MODULES: usize = Module::ALL.len();

/// How often a request went through each module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    counts: [u64; MODULES],
    /// Bit `i` for the i-th module, if its count is not 0: most requests go through a third of them.
    used: u32,
}

impl Work {
    /// `n` more of `module`.
    #[inline]
    pub fn count(&mut self, module: Module, n: u64) {
        let count = &mut self.counts[module as usize];
        *count = count.saturating_add(n);
        self.used |= u32::from(n > 0) << module as usize;
    }

    /// The modules that were gone through, and how often.
    #[inline]
    pub fn counts(&self) -> impl Iterator<Item = (Module, u64)> + '_ {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            // Nothing is left: past all modules.
            let module = *Module::ALL.get(place)?;
            left &= left - 1;
            Some((module, self.counts[place]))
        })
    }
}

const _: () = assert!(MODULES < u32::BITS as usize, "a bit for each module");

impl Index<Module> for Work {
    type Output = u64;

    fn index(&self, module: Module) -> &u64 {
        &self.counts[module as usize]
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        other.counts().for_each(|(module, more)| self.count(module, more));
    }
}
