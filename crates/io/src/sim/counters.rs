//! Exact counts of what was done: the other side of every conservation check.

use crate::Class;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// Bytes from a file.
    Read,
    /// Bytes written to a file.
    Write,
    /// Data and length of a file made durable.
    Sync,
    /// Space reserved.
    Allocate,
    /// Length set.
    SetLen,
    /// An existing file opened.
    Open,
    /// A new file.
    Create,
    /// A name changed.
    Rename,
    /// A further name for a file.
    Link,
    /// A name removed.
    Remove,
    /// Directories created.
    CreateDir,
    /// A directory removed.
    RemoveDir,
    /// A directory listed.
    List,
    /// Names of a directory made durable.
    SyncDir,
    /// Data and length of all files made durable.
    SyncAll,
}

/// How many kinds there are.
pub(super) const OP_KINDS: usize = OpKind::SyncAll as usize + 1;

impl OpKind {
    /// All of them.
    pub const ALL: [OpKind; OP_KINDS] = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Sync,
        OpKind::Allocate,
        OpKind::SetLen,
        OpKind::Open,
        OpKind::Create,
        OpKind::Rename,
        OpKind::Link,
        OpKind::Remove,
        OpKind::CreateDir,
        OpKind::RemoveDir,
        OpKind::List,
        OpKind::SyncDir,
        OpKind::SyncAll,
    ];

    /// Whether it changes what is on the disk, or makes it durable: a point worth cutting the power at.
    pub const fn is_change(self) -> bool {
        !matches!(self, OpKind::Read | OpKind::Open | OpKind::List)
    }

    pub(super) const fn may_need_space(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Allocate | OpKind::Create | OpKind::Link | OpKind::CreateDir)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Sync => "sync",
            OpKind::Allocate => "allocate",
            OpKind::SetLen => "set the length of",
            OpKind::Open => "open",
            OpKind::Create => "create",
            OpKind::Rename => "rename",
            OpKind::Link => "link",
            OpKind::Remove => "remove",
            OpKind::CreateDir => "create the directory",
            OpKind::RemoveDir => "remove the directory",
            OpKind::List => "list",
            OpKind::SyncDir => "sync the directory",
            OpKind::SyncAll => "sync all files of",
        }
    }
}

/// Operations and the bytes they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Operations submitted, failed ones too.
    pub ops: u64,
    /// Bytes that were read or written; 0 for kinds that move none.
    pub bytes: u64,
}

/// Every operation so far, by class and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters([[Count; OP_KINDS]; Class::ALL.len()]);

impl Counters {
    /// The count of `kind` under `class`.
    pub fn get(&self, class: Class, kind: OpKind) -> Count {
        self.0[class as usize][kind as usize]
    }

    /// The count of `kind` over all classes.
    pub fn total(&self, kind: OpKind) -> Count {
        let mut total = Count::default();
        for class in &self.0 {
            total.ops += class[kind as usize].ops;
            total.bytes += class[kind as usize].bytes;
        }
        total
    }

    pub(super) fn book(&mut self, class: Class, kind: OpKind, bytes: u64) {
        let count = &mut self.0[class as usize][kind as usize];
        count.ops += 1;
        count.bytes += bytes;
    }
}
