//! Who asks for an I/O, and why: the two facts admission and the ledger need.

/// The partition that an I/O is done for. Tenant 0 is the node itself (catalogue, calibration).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Tenant number; 0 is the node itself.
    pub tenant: u32,
    /// Partition number, unique within the node.
    pub partition: u32,
}

/// The cause of an I/O. The order is the order of urgency (FX-9, FX-14, SI-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A client waits for this read.
    Read = 0,
    /// A client's write waits for this log write or sync.
    Log = 1,
    /// Memtable to level 0, or a log segment that is filled ahead of time.
    Flush = 2,
    /// Level 0 to level 0 or to the base level: the compactions that keep writes from stalling.
    CompactL0 = 3,
    /// Compaction below the base level.
    CompactDeep = 4,
    /// A compaction that reclaims the space of dead data.
    Reclaim = 5,
    /// Checks, backups, catalogue, opening: everything else.
    Maintenance = 6,
}

impl Class {
    /// Every class, most urgent first.
    pub const ALL: [Class; 7] = [
        Class::Read,
        Class::Log,
        Class::Flush,
        Class::CompactL0,
        Class::CompactDeep,
        Class::Reclaim,
        Class::Maintenance,
    ];

    /// True for I/O that a client waits for (FX-9: reads and log share one queue).
    pub const fn is_foreground(self) -> bool {
        matches!(self, Class::Read | Class::Log)
    }

    /// The label used in metrics, JSON and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Log => "log",
            Class::Flush => "flush",
            Class::CompactL0 => "l0",
            Class::CompactDeep => "deep",
            Class::Reclaim => "reclaim",
            Class::Maintenance => "maintenance",
        }
    }
}

/// Owner and cause, carried by every call through the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The partition to book the bytes to.
    pub owner: Owner,
    /// The cause to book them under.
    pub class: Class,
}

impl Tag {
    /// A tag for `owner` and `class`.
    pub const fn new(owner: Owner, class: Class) -> Self {
        Self { owner, class }
    }
}
