//! Partition directories that the catalogue does not account for. They are never removed: only the catalogue may say
//! that something is not needed, and it does not mention them.

use std::path::Path;

use weir_io::Error;

use crate::catalogue::Listings;
use crate::catalogue::survey::repair;
use crate::layout;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strangers {
    /// Of numbers that were given out, and now are nobody's and not condemned.
    pub unknown: Vec<u32>,
    /// Of numbers that were never given out: the catalogue is older than they are.
    pub beyond: Vec<u32>,
}

impl Strangers {
    /// Those among the directories that are `there`.
    pub fn among(there: &[u32], listings: &Listings) -> Self {
        let named = listings.partitions();
        let strange = there.iter().filter(|number| !named.contains(number) && !listings.condemned.contains(number));
        let (beyond, unknown) = strange.partition(|&&number| number >= listings.next_partition);
        Self { unknown, beyond }
    }

    /// Why the node in `dir` is not opened: a new tenant would get the number of a directory that is there.
    pub fn refusal(&self, dir: &Path) -> Option<Error> {
        let number = *self.beyond.first()?;
        let message = format!(
            "the catalogue has not given out this number yet: it is an older copy, and tenants made since are missing in it. Put both \
             catalogue directories back as they were, or {} lets the node open without those tenants; their directories stay",
            repair(dir)
        );
        Some(Error::corruption(layout::partition_path(dir, number), 0, message))
    }

    /// What `weir check` says of those that do not keep the node from opening.
    pub fn problems(&self, dir: &Path) -> impl Iterator<Item = Error> {
        self.unknown.iter().map(|&number| {
            let message = format!(
                "partition {number:06} belongs to no tenant, and no tenant that was dropped. It is never used or removed: move it away if \
                 nobody misses it"
            );
            Error::corruption(layout::partition_path(dir, number), 0, message)
        })
    }
}
