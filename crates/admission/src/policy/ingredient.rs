//! What the profile `weir` is made of, and what it might be: each can be taken out, or put in, for a comparison with
//! [`Profile::Weir`](super::Profile::Weir) that shows what it pays. `docs/policy/weir.md` has the table.
//!
//! Such profiles are for `weir sim` and `weir bench`; `weir serve` does not know them.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingredient {
    /// All of the deferral policy: compactions are put off, memtables gather, writes are slowed before a stall.
    Deferral,
    /// Stage one: merges below level 1 are put off.
    StageOne,
    /// Stage two: merges into level 1 are put off.
    StageTwo,
    /// While the node is short up to twelve memtables become one run, in up to 25 buffers.
    Gathering,
    /// Level 0 may have more than four runs before it is merged, where that saves rewriting level 1.
    LongLevel0,
    /// In stage two level 0 is merged within itself late while the device is full.
    Patience,
    /// A merge within level 0 takes no more than what it can write in time.
    MergeSize,
    /// Stage two ends for a minute where reads have become slow (U-23).
    ReadCare,
    /// What is put off runs while the device rests, a few partitions at a time.
    Rest,
    /// What is put off runs while all that is needed fits nevertheless.
    Fit,
    /// Level 0 goes down while the node is short and something of the device is over.
    Drain,
    /// A few partitions catch up at a time, within a budget (U-4).
    Ramp,
    /// Writes are slowed before a stall (C-1).
    Guard,
    /// Flushes pass as foreground where writes will wait for them (U-11).
    Rush,
    /// Flushes go one after the other, so that each gives back its memory as soon as it can.
    FlushOrder,
    /// The last of four memtables fills at full speed (FX-29).
    LastMemtable,
    /// What is reserved is lent, in front (C-9) and behind; background is raised at once (U-9).
    Lending,
    /// What relieves level 0 goes before deeper compactions at the gate (U-25).
    Order,
    /// What is written into levels 0 and 1 stays in the block cache (FX-26).
    Cache,
    /// What merges write leaves the block cache to what flushes write, once that is full (U-20).
    GivingWay,
    /// Not in `weir`: a compaction that relieves level 0 takes the slot of a deeper one that runs (SI-8).
    Preemption,
    /// Not in `weir`: write memory and block cache are shared within a delay (`docs/policy/fairdb.md`).
    Delta,
}

impl Ingredient {
    /// Every ingredient.
    pub const ALL: [Ingredient; 22] = [
        Ingredient::Deferral,
        Ingredient::StageOne,
        Ingredient::StageTwo,
        Ingredient::Gathering,
        Ingredient::LongLevel0,
        Ingredient::Patience,
        Ingredient::MergeSize,
        Ingredient::ReadCare,
        Ingredient::Rest,
        Ingredient::Fit,
        Ingredient::Drain,
        Ingredient::Ramp,
        Ingredient::Guard,
        Ingredient::Rush,
        Ingredient::FlushOrder,
        Ingredient::LastMemtable,
        Ingredient::Lending,
        Ingredient::Order,
        Ingredient::Cache,
        Ingredient::GivingWay,
        Ingredient::Preemption,
        Ingredient::Delta,
    ];

    /// The name of `weir` without it, or, where it is not in there, with it.
    pub const fn profile_name(self) -> &'static str {
        match self {
            Ingredient::Deferral => "weir-without-deferral",
            Ingredient::StageOne => "weir-without-stage-1",
            Ingredient::StageTwo => "weir-without-stage-2",
            Ingredient::Gathering => "weir-without-gathering",
            Ingredient::LongLevel0 => "weir-without-long-level-0",
            Ingredient::Patience => "weir-without-patience",
            Ingredient::MergeSize => "weir-without-merge-size",
            Ingredient::ReadCare => "weir-without-read-care",
            Ingredient::Rest => "weir-without-rest",
            Ingredient::Fit => "weir-without-fit",
            Ingredient::Drain => "weir-without-drain",
            Ingredient::Ramp => "weir-without-ramp",
            Ingredient::Guard => "weir-without-guard",
            Ingredient::Rush => "weir-without-rush",
            Ingredient::FlushOrder => "weir-without-flush-order",
            Ingredient::LastMemtable => "weir-without-last-memtable",
            Ingredient::Lending => "weir-without-lending",
            Ingredient::Order => "weir-without-order",
            Ingredient::Cache => "weir-without-cache",
            Ingredient::GivingWay => "weir-without-giving-way",
            Ingredient::Preemption => "weir+preemption",
            Ingredient::Delta => "weir+delta",
        }
    }
}
