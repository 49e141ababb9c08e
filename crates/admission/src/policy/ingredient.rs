//! The ingredients of the profile `weir`, and some that it might have. Each can be taken out, or put in, for a
//! comparison with [`Profile::Weir`](super::Profile::Weir) that shows what it pays. `docs/policy/weir.md` has the
//! table.
//!
//! Such profiles are for `weir sim` and `weir bench`; `weir serve` does not know them.

/// One ingredient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingredient {
    /// All of the deferral policy: compactions are put off, memtables gather, and writes are slowed before a stall.
    Deferral,
    /// Stage one: merges below level 1 are put off.
    StageOne,
    /// Stage two: merges into level 1 are put off.
    StageTwo,
    /// While the node is short, up to twelve memtables become one run, in up to 25 buffers.
    Gathering,
    /// Level 0 may have more than four runs before it is merged, where that saves rewriting level 1.
    LongLevel0,
    /// In stage two, level 0 is merged within itself late while the device is full.
    Patience,
    /// A merge within level 0 takes no more than it can write in time.
    MergeSize,
    /// Compactions that are put off run while the device rests, a few partitions at a time.
    Rest,
    /// Compactions that are put off run while all that is needed fits nevertheless.
    Fit,
    /// Level 0 is drained while the node is short but the device has bandwidth to spare.
    Drain,
    /// Writes are slowed before a stall (C-1).
    Guard,
    /// Flushes pass as foreground where writes will wait for them (U-11).
    Rush,
    /// Flushes go one after the other, so that each gives back its memory as soon as it can.
    FlushOrder,
    /// Writes fill the last of four memtables at full speed (FX-29).
    LastMemtable,
    /// Reservations are lent, in front (C-9) and behind, and the background rate is raised at once (U-9).
    Lending,
    /// Blocks written into levels 0 and 1 stay in the block cache (FX-26).
    Cache,
    /// Once the block cache is full, what merges write leaves it to what flushes write (U-20).
    GivingWay,
    /// Not in `weir`: a compaction that relieves level 0 takes the slot of a deeper one that runs (SI-8).
    Preemption,
    /// Not in `weir`: while clients need most of the device, deeper compactions pause (SI-12), whatever the node's load
    /// is (C-4).
    Pauses,
    /// Not in `weir`: write memory and block cache are shared within a delay (`docs/policy/fairdb.md`).
    Delta,
    /// Not in `weir`: CruiseDB's controller admits the writes of tenants without a limit of writes (C-1, U-13).
    Admission,
}

impl Ingredient {
    /// Every ingredient.
    pub const ALL: [Ingredient; 21] = [
        Ingredient::Deferral,
        Ingredient::StageOne,
        Ingredient::StageTwo,
        Ingredient::Gathering,
        Ingredient::LongLevel0,
        Ingredient::Patience,
        Ingredient::MergeSize,
        Ingredient::Rest,
        Ingredient::Fit,
        Ingredient::Drain,
        Ingredient::Guard,
        Ingredient::Rush,
        Ingredient::FlushOrder,
        Ingredient::LastMemtable,
        Ingredient::Lending,
        Ingredient::Cache,
        Ingredient::GivingWay,
        Ingredient::Preemption,
        Ingredient::Pauses,
        Ingredient::Delta,
        Ingredient::Admission,
    ];

    /// The name of the profile `weir` without this ingredient, or with it where `weir` does not have it.
    pub const fn profile_name(self) -> &'static str {
        match self {
            Ingredient::Deferral => "weir-without-deferral",
            Ingredient::StageOne => "weir-without-stage-1",
            Ingredient::StageTwo => "weir-without-stage-2",
            Ingredient::Gathering => "weir-without-gathering",
            Ingredient::LongLevel0 => "weir-without-long-level-0",
            Ingredient::Patience => "weir-without-patience",
            Ingredient::MergeSize => "weir-without-merge-size",
            Ingredient::Rest => "weir-without-rest",
            Ingredient::Fit => "weir-without-fit",
            Ingredient::Drain => "weir-without-drain",
            Ingredient::Guard => "weir-without-guard",
            Ingredient::Rush => "weir-without-rush",
            Ingredient::FlushOrder => "weir-without-flush-order",
            Ingredient::LastMemtable => "weir-without-last-memtable",
            Ingredient::Lending => "weir-without-lending",
            Ingredient::Cache => "weir-without-cache",
            Ingredient::GivingWay => "weir-without-giving-way",
            Ingredient::Preemption => "weir+preemption",
            Ingredient::Pauses => "weir+pauses",
            Ingredient::Delta => "weir+delta",
            Ingredient::Admission => "weir+admission",
        }
    }
}
