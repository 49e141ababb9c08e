//! A partition as the [control loop](crate::control) and [group syncs](crate::group_sync) see it.

use std::sync::Arc;

use weir_log::{SyncMode, WriteAheadLog};

/// A partition as the control loop sees it.
pub(crate) trait Tended: Send + Sync {
    /// It is visited; `None` once it is being closed.
    fn begin_visit(self: Arc<Self>) -> Option<Box<dyn Visit>>;

    /// A round passes: what nobody said is to be found.
    fn pass_round(self: Arc<Self>);
}

/// A visit to a partition, which is not closed before it has ended.
pub(crate) trait Visit: Send + Sync {
    /// It is on the list of those due no more: what is written from here on marks it again.
    fn unmark(&self);

    /// What its log promises.
    fn sync_mode(&self) -> SyncMode;

    /// Its log.
    fn log(&self) -> &Arc<dyn WriteAheadLog>;

    /// Looks after its log and what is left of old files.
    fn look_after(&self);
}
