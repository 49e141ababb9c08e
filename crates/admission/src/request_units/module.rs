//! The modules that requests go through, and how often a request went through each.

use std::fmt;
use std::ops::{AddAssign, Index};

macro_rules! modules {
    ($($(#[$doc:meta])* $id:ident $name:literal,)*) => {
        /// A piece of work that takes resources for a request (XS-19). Modules that handle bytes are counted in bytes,
        /// all others in invocations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Module { $($(#[$doc])* $id,)* }

        impl Module {
            /// All of them, in their order.
            pub const ALL: [Module; [$(Module::$id),*].len()] = [$(Module::$id),*];

            /// The module's name in files and replies.
            pub const fn name(self) -> &'static str {
                match self { $(Module::$id => $name,)* }
            }
        }
    };
}

modules! {
    /// Requests that came together: received at once, and answered at once. The first of them pays for all.
    Round "round",
    /// A command: found, checked, timed, answered.
    Command "command",
    /// A word of a request.
    Word "word",
    /// A byte of a request.
    RequestByte "request_byte",
    /// A byte of a reply.
    ReplyByte "reply_byte",
    /// An element of a reply: of an array, a set or a map. A map has two for each pair.
    ReplyElement "reply_element",
    /// A command that works on rows, apart from what each row takes: handed to the partition, and ended there. Of
    /// commands that run as one, the first pays.
    RowCommand "row_command",
    /// A blind write (a command that writes whatever was there before) was gathered with its neighbours. This is
    /// counted instead of the module above.
    Gathered "gathered",
    /// A command ran as one with others before or behind it, or could have.
    Member "member",
    /// A row was looked up and found.
    RowFound "row_found",
    /// A row was looked up and is not there.
    RowMissing "row_missing",
    /// A row or a part was looked up that was written by the command itself, or by one in front of it whose changes are
    /// not handed over yet. The engine is not asked.
    InHand "in_hand",
    /// The head of a row of many parts was read, and decoded.
    HeadRead "head_read",
    /// A part of a row was looked up and found.
    PartFound "part_found",
    /// A part of a row was looked up and is not there.
    PartMissing "part_missing",
    /// A byte of a value that was found.
    ReadByte "read_byte",
    /// A part was passed in a row that keeps all of its parts in one piece; or a bucket was passed in a tally.
    PackedPart "packed_part",
    /// A part that was passed like this has a name as long as the one that was looked for: both were compared.
    PackedCompared "packed_compared",
    /// A name of a part, or another text, was copied out of such a row, or out of a page of parts, for a command that
    /// works on it.
    PartCopied "part_copied",
    /// The same for a value, which is kept so that several may share it.
    ValueCopied "value_copied",
    /// A row that keeps all of its parts in one piece was changed: a part put in, replaced or taken out.
    PackedChange "packed_change",
    /// A byte of such a row after a change: everything behind the changed part is moved.
    PackedByte "packed_byte",
    /// A row was written or deleted: a string, or the head of a row of many parts.
    RowWritten "row_written",
    /// The head of a row of many parts was written: encoded, and kept for the next command.
    HeadWritten "head_written",
    /// A part was written or deleted.
    PartWritten "part_written",
    /// A part of another order of the same row, such as that by score, was written or deleted.
    IndexWritten "index_written",
    /// A byte that was written: of keys, values and what stands around them.
    WrittenByte "written_byte",
    /// A change was left out of what is written, because the same key is changed again behind it. It counts as this,
    /// and not as a row or a part that was written.
    LeftOut "left_out",
    /// Rows were kept as they were at one moment while they are read.
    Moment "moment",
    /// It was checked afterwards that everything that was read is of one moment.
    Judged "judged",
    /// A step through rows or parts in their order: the way to the first of them.
    Page "page",
    /// The key of a row that such a step gave.
    KeyScanned "key_scanned",
    /// A part that such a step gave.
    Scanned "scanned",
    /// Such a step passed something that is deleted, expired or old, or that it took and did not give.
    Passed "passed",
    /// A byte that such a step passed.
    ScannedByte "scanned_byte",
    /// A command ran while nobody else could write to its rows.
    Locked "locked",
    /// Changes were handed to the log.
    LogRecord "log_record",
    /// Requests that came together have written, and their commit was awaited before they were answered. The first of
    /// them that writes pays for all.
    Commit "commit",
    /// A step of computing: a cell of a table.
    Step "step",
    /// Two things were compared to put them in order.
    Compared "compared",
    /// All registers of a HyperLogLog were gone through: to estimate the count, or to make them.
    Registers "registers",
    /// A number with a fraction was read or written as text.
    Fraction "fraction",
    /// A script was started.
    Script "script",
    /// A key or an argument was handed to a script.
    ScriptWord "script_word",
    /// A command was called by a script.
    ScriptCall "script_call",
    /// A slice of a script: a hundred instructions of Lua.
    ScriptSlice "script_slice",
    /// A message was published.
    Published "published",
    /// A read of the device.
    DeviceRead "device_read",
    /// A byte that was read from the device.
    DeviceByte "device_byte",
}

const MODULES: usize = Module::ALL.len();

/// How often a request went through each module.
///
/// Most requests go through a third of the modules. Only those are ever looked at, so that a request is counted, priced
/// and forgotten without touching the others.
#[derive(Clone, Copy)]
pub struct Work {
    /// The counts. Those of modules that are not used have whatever was there before.
    counts: [u64; MODULES],
    /// Bit `i` is set if the i-th module was counted.
    used: u64,
}

const _: () = assert!(MODULES < u64::BITS as usize, "a bit for each module");

impl Work {
    /// Counts `n` more of `module`.
    #[inline]
    pub fn count(&mut self, module: Module, n: u64) {
        self.counts[module as usize] = self[module].saturating_add(n);
        self.used |= 1 << module as usize;
    }

    /// Counts more of several modules at once, none of which is named twice. Where none of them is used yet, this is
    /// less work than counting one after the other.
    #[inline(always)]
    pub fn count_all<const K: usize>(&mut self, counts: [(Module, u64); K]) {
        let bits = counts.iter().fold(0_u64, |bits, (module, _)| bits | 1 << *module as usize);
        debug_assert_eq!(bits.count_ones() as usize, K, "a module is named twice");
        if self.used & bits != 0 {
            return counts.iter().for_each(|&(module, n)| self.count(module, n));
        }
        self.used |= bits;
        for (module, n) in counts {
            self.counts[module as usize] = n;
        }
    }

    /// Whether the same was surely counted. This is a quick look, which may say no although the counts are the same.
    #[inline]
    pub fn is_surely(&self, other: &Self) -> bool {
        self.used == other.used && self.used().all(|(module, count)| other.counts[module as usize] == count)
    }

    /// Counts `n` less of `module`, which was counted at least that often.
    pub fn discount(&mut self, module: Module, n: u64) {
        let left = self[module].saturating_sub(n);
        self.counts[module as usize] = left;
        self.used |= 1 << module as usize;
    }

    /// Forgets all counts.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// The modules that were gone through, and how often.
    #[inline]
    pub fn counts(&self) -> impl Iterator<Item = (Module, u64)> + '_ {
        self.used().filter(|&(_, count)| count > 0)
    }

    /// The same, and perhaps modules with a count of zero.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = (Module, u64)> + '_ {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros() as usize;
            // Where nothing is left, `place` is past all modules.
            let module = *Module::ALL.get(place)?;
            left &= left - 1;
            Some((module, self.counts[place]))
        })
    }
}

impl Default for Work {
    fn default() -> Self {
        Self { counts: [0; MODULES], used: 0 }
    }
}

impl Index<Module> for Work {
    type Output = u64;

    #[inline]
    fn index(&self, module: Module) -> &u64 {
        if self.used >> module as usize & 1 == 0 { &0 } else { &self.counts[module as usize] }
    }
}

impl AddAssign<&Work> for Work {
    fn add_assign(&mut self, other: &Self) {
        other.counts().for_each(|(module, more)| self.count(module, more));
    }
}

impl PartialEq for Work {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.counts().eq(other.counts())
    }
}

impl Eq for Work {}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts().map(|(module, count)| (module.name(), count))).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a map: what was counted before something was forgotten does not come back.
        #[test]
        fn work_is_a_map_of_counts(
            steps in proptest::collection::vec((0..MODULES + 3, 0..4_u64, any::<bool>()), 0..60),
        ) {
            let (mut work, mut model) = (Work::default(), std::collections::BTreeMap::new());
            for (place, n, adds) in steps {
                let Some(&module) = Module::ALL.get(place) else {
                    work.clear();
                    model.clear();
                    continue;
                };
                if adds {
                    let mut more = Work::default();
                    more.count_all([(module, n)]);
                    work += &more;
                } else if module == Module::Round {
                    work.count(module, n);
                } else {
                    work.count_all([(module, n), (Module::Round, 1)]);
                    *model.entry(Module::Round).or_insert(0) += 1;
                }
                if n > 0 {
                    *model.entry(module).or_insert(0) += n;
                }
                prop_assert_eq!(work.counts().collect::<Vec<_>>(), model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(work[module], model.get(&module).copied().unwrap_or(0));
                let mut again = Work::default();
                model.iter().for_each(|(&module, &count)| again.count(module, count));
                prop_assert!(!work.is_surely(&again) || work == again);
                prop_assert_eq!(work, again);
            }
        }
    }

    #[test]
    fn what_is_discounted_was_not_counted() {
        let mut work = Work::default();
        work.count_all([(Module::RowWritten, 3), (Module::Round, 1)]);
        work.discount(Module::RowWritten, 2);
        assert_eq!(work.counts().collect::<Vec<_>>(), [(Module::Round, 1), (Module::RowWritten, 1)]);
        work.discount(Module::RowWritten, 9);
        work.discount(Module::Page, 1);
        assert_eq!(work.counts().collect::<Vec<_>>(), [(Module::Round, 1)]);
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<&str> = Module::ALL.iter().map(|module| module.name()).collect();
        assert_eq!(names.len(), MODULES);
    }
}
