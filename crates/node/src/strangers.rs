//! Partition directories that the catalogue does not account for. They are never removed: only the catalogue may say
//! that a directory is not needed, and it does not mention these.

use std::path::Path;

use weir_io::Error;

use crate::catalogue::Listings;
use crate::catalogue::survey::repair;
use crate::layout;

/// Numbers of such directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strangers {
    /// Numbers that were given out, and now belong to nobody and are not condemned.
    pub unknown: Vec<u32>,
    /// Numbers that were never given out: the catalogue is older than these directories.
    pub beyond: Vec<u32>,
}

impl Strangers {
    /// The strangers among the directories that are `there`.
    pub fn among(there: &[u32], listings: &Listings) -> Self {
        let named = listings.partitions();
        let strange = there.iter().filter(|number| !named.contains(number) && !listings.condemned.contains(number));
        let (beyond, unknown) = strange.partition(|&&number| number >= listings.next_partition);
        Self { unknown, beyond }
    }

    /// Why the node in `dir` is not opened: a new tenant would get the number of a directory that exists.
    pub fn refusal(&self, dir: &Path) -> Option<Error> {
        let number = *self.beyond.first()?;
        let message = format!(
            "the catalogue has not given out this number yet: it is an older copy, in which newer tenants are \
             missing. Put the right files back into both catalogue directories, or run {}: then the node opens \
             without those tenants, whose directories stay",
            repair(dir)
        );
        Some(Error::corruption(layout::partition_path(dir, number), 0, message))
    }

    /// What `weir check` reports about strangers that do not keep the node from opening.
    pub fn problems(&self, dir: &Path) -> impl Iterator<Item = Error> {
        self.unknown.iter().map(|&number| {
            let message = format!(
                "partition {number:06} belongs to no tenant, and not to one that was dropped either. It is never used \
                 or removed: move it away if nobody needs it"
            );
            Error::corruption(layout::partition_path(dir, number), 0, message)
        })
    }
}
