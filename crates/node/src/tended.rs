//! A partition as the [control loop](crate::control) and [group syncs](crate::group_sync) see it.

use std::sync::Arc;

use weir_log::{SyncMode, WriteAheadLog};

/// A partition as the control loop sees it.
pub(crate) trait Tended: Send + Sync {
    /// Begins a visit; `None` once the partition is being closed.
    fn begin_visit(self: Arc<Self>) -> Option<Box<dyn Visit>>;

    /// A round passes, which is to find what nobody reported.
    fn pass_round(self: Arc<Self>);
}

/// A visit to a partition, which is not closed before it has ended.
pub(crate) trait Visit: Send + Sync {
    /// Takes the partition off the list of those due: a write from here on marks it again.
    fn unmark(&self);

    /// The sync mode of its log.
    fn sync_mode(&self) -> SyncMode;

    /// Its log.
    fn log(&self) -> &Arc<dyn WriteAheadLog>;

    /// Looks after its log and leftover files.
    fn look_after(&self);
}
