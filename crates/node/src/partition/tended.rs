//! A partition's side of the control loop: what is done for it now and then.

use std::pin::pin;
use std::sync::Arc;

use weir_log::{SyncMode, WriteAheadLog};

use super::{Background, Partition};
use crate::tended::{Tended, Visit};

impl Tended for Partition {
    fn begin_visit(self: Arc<Self>) -> Option<Box<dyn Visit>> {
        Some(Box::new(self.background()?))
    }

    fn pass_round(self: Arc<Self>) {
        self.kick();
        self.look_after();
        self.look_after_anchor();
        self.look_after_fields();
        self.look_after_expiry();
    }
}

impl Visit for Background {
    fn unmark(&self) {
        self.partition().unmark();
    }

    fn sync_mode(&self) -> SyncMode {
        self.partition().sync
    }

    fn log(&self) -> &Arc<dyn WriteAheadLog> {
        &self.partition().log
    }

    fn look_after(&self) {
        self.partition().look_after();
    }
}

impl Partition {
    /// From now on rounds visit the partition, until it is dropped.
    pub(super) fn join_control_loop(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.control.admit(self.owner.partition, this);
    }

    /// Somebody has written: the control loop visits the partition within the interval. Costs a load while it is on the
    /// list.
    #[inline]
    pub(crate) fn mark(self: &Arc<Self>) {
        if !self.marked() {
            let this = Arc::downgrade(self);
            self.control.mark(self.owner.partition, this);
        }
    }

    /// Called once in each round.
    fn look_after_anchor(self: &Arc<Self>) {
        if !self.is_anchor_due() {
            return;
        }
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move { background.partition().note_anchor().await });
    }

    /// Looks after the log and leftover files; costs little if there is nothing to do. It does not look for jobs.
    /// Whatever makes a job due kicks it, except for the passing of time, which a round looks after. With a thousand
    /// partitions that are written to now and then, looking for jobs would be most of a visit.
    fn look_after(self: &Arc<Self>) {
        self.kick_repair();
        if self.sync != SyncMode::None && !self.log.is_durable() && self.log.failure().is_none() {
            // A record was appended before the visit, and is not acknowledged yet.
            self.mark();
        }
        if !self.log.wants_maintenance() && !self.engine.has_garbage() {
            return;
        }
        let Some(background) = self.background() else { return };
        self.workers.spawn(async move {
            let partition = background.partition();
            // The next segment of a shared log is no business of a partition that is being closed, and on a device that
            // clients use up it may have no turn for long.
            let maintain = async {
                if let Err(error) = partition.log.maintain().await {
                    tracing::debug!(owner = ?partition.owner, %error, "cannot prepare the next log segment yet");
                }
            };
            partition.unless_closing(pin!(maintain)).await;
            if let Err(error) = partition.engine.tidy().await {
                tracing::debug!(owner = ?partition.owner, %error, "cannot remove unneeded files yet");
            }
        });
    }
}
