//! Planted bugs: places where the code goes wrong on request, to show that the tests notice.
//!
//! A test that cannot fail proves nothing. With the feature `plant` (tests of `weir-sim` and `weir-lsm` only) a thread
//! may ask for one mistake; without it [`is_planted`] is `false` at compile time, and the mistake is not in the binary.

/// A mistake inside the engine. Mistakes towards the disk need no plant: a wrapped file system makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A compaction forgets a tombstone although older versions lie below.
    DroppedTombstone,
    /// A snapshot sees one change too many.
    SnapshotBound,
    /// A value lives one millisecond too long.
    ExpiryOffByOne,
    /// A table without live rows is dropped although an older version of a key lives below.
    DroppedTable,
    /// The checksum of a block is not checked.
    ChecksumIgnored,
    /// The anchor of a partition is not checked against log and tree.
    AnchorIgnored,
    /// A read that finds a key expired does not delete it.
    ExpiredLeft,
    /// A command that has to wait does not latch its rows.
    RowsNotLatched,
    /// Merges drop parts of rows for a cover that is only in the memtable and the log.
    CoverInMemory,
    /// A cover is dropped while there are still parts that it covers.
    DroppedCover,
    /// A table of dead parts is dropped although a snapshot still reads them.
    DroppedLife,
    /// A table is recorded as having met covers that did not count when it was written.
    CoverTakenForMet,
    /// Rows in memory lose an older version that a snapshot needs.
    HeldVersionLost,
    /// The head of a spread row keeps counting parts that the row no longer has.
    CountLeft,
    /// A transaction leaves two records in the log.
    RecordSplit,
    /// A member that gets a new score keeps its old place in the order by score.
    IndexEntryLeft,
    /// A deleted hash stays on the agenda of expiring fields.
    AgendaLeft,
    /// The writes of a script are applied although the script has to run again.
    ScriptInHalf,
    /// Functions are kept in memory only, not written.
    FunctionsNotWritten,
    /// A write whose commit has failed is acknowledged.
    FailedCommitHidden,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 20] = [
        Plant::DroppedTombstone,
        Plant::SnapshotBound,
        Plant::ExpiryOffByOne,
        Plant::DroppedTable,
        Plant::ChecksumIgnored,
        Plant::AnchorIgnored,
        Plant::ExpiredLeft,
        Plant::RowsNotLatched,
        Plant::CoverInMemory,
        Plant::DroppedCover,
        Plant::DroppedLife,
        Plant::CoverTakenForMet,
        Plant::HeldVersionLost,
        Plant::CountLeft,
        Plant::RecordSplit,
        Plant::IndexEntryLeft,
        Plant::AgendaLeft,
        Plant::ScriptInHalf,
        Plant::FunctionsNotWritten,
        Plant::FailedCommitHidden,
    ];
}

#[cfg(feature = "plant")]
mod planted {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Plant;

    thread_local! {
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// The mistake that all threads make, counted from 1; 0 = none.
    static PLANTED_EVERYWHERE: AtomicUsize = AtomicUsize::new(0);

    /// Whether this thread makes the mistake `plant`.
    #[inline]
    pub fn is_planted(plant: Plant) -> bool {
        PLANTED.get() == Some(plant) || PLANTED_EVERYWHERE.load(Ordering::Relaxed) == plant as usize + 1
    }

    /// Runs `f` while all threads of this process make the mistake: for servers, which have threads of their own.
    pub fn with_planted_everywhere<T>(plant: Plant, f: impl FnOnce() -> T) -> T {
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                PLANTED_EVERYWHERE.store(0, Ordering::SeqCst);
            }
        }
        let _reset = Reset;
        PLANTED_EVERYWHERE.store(plant as usize + 1, Ordering::SeqCst);
        f()
    }

    /// Runs `f` on this thread with the mistake.
    pub fn with_planted<T>(plant: Option<Plant>, f: impl FnOnce() -> T) -> T {
        struct Reset(Option<Plant>);
        impl Drop for Reset {
            fn drop(&mut self) {
                PLANTED.set(self.0);
            }
        }
        let _reset = Reset(PLANTED.replace(plant));
        f()
    }
}

#[cfg(feature = "plant")]
pub use planted::{is_planted, with_planted, with_planted_everywhere};

/// Whether this thread makes the mistake `plant`: never, in this build.
#[cfg(not(feature = "plant"))]
#[inline(always)]
pub const fn is_planted(_: Plant) -> bool {
    false
}
