//! The cascade: it flushes the partitions that keep the shared log long (DF-12). When the log is above its cap, these
//! are all partitions that have something unflushed in the oldest segment. Their flushes wait for slots like any
//! others, and writes go on meanwhile.
//!
//! Partitions that sleep are woken while the task goes on, however long that takes: nobody else waits for them.
//!
//! A partition that cannot flush holds nobody up: its records are carried out of the log. This happens if its jobs fail
//! or it cannot be opened. It also happens if the partition has not flushed although the log is twice as long as its
//! cap, or although the log has failed and everybody waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::RwLock;
use weir_io::{BoxFuture, Clock, ErrorKind, Nanos, sleep_until};
use weir_log::{LogIndex, SharedLog};

use crate::partition::Partition;
use crate::partition_slot::PartitionSlot;
use crate::shared_log::NodeLog;
use crate::tenant::Tenants;

/// After this time, what has failed is tried again: to wake a sleeper, to shorten the log.
const AGAIN_AFTER: Nanos = 1_000_000_000;
/// Sleepers that are woken at a time.
const WAKES_MAX: usize = 4;
/// How long a flush may take while all wait for it, after the log has failed: as long as two full memtables of 64 MB
/// take on a device of 64 MB/s.
const PATIENCE: Nanos = 2_000_000_000;
/// Looks between two rounds in which the anchor is looked after, as for partitions.
const ROUND_LOOKS: u64 = 10;

/// The task that watches the shared log, and what it remembers between two looks.
struct Cascade {
    tenants: Weak<RwLock<Tenants>>,
    clock: Arc<dyn Clock>,
    /// Members that were named, and since when.
    since: BTreeMap<u32, Nanos>,
    /// Up to which record the awake members were sealed.
    sealed: BTreeMap<u32, (Weak<Partition>, LogIndex)>,
    /// The sleepers that were found, if the last look was to wake any.
    asleep: Option<VecDeque<Arc<PartitionSlot>>>,
    /// The number of cascades that were seen; `tried` is when something was last tried.
    seen: u64,
    tried: Nanos,
}

/// The partitions that have to be woken.
#[derive(Default)]
struct Sleepers {
    /// Those whose turn has not come.
    asleep: VecDeque<Arc<PartitionSlot>>,
    /// Those that are being woken. Each future gives the partition, and whether it is refused: it cannot be opened.
    waking: FuturesUnordered<BoxFuture<(u32, bool)>>,
    /// The partitions of `waking`.
    numbers: BTreeSet<u32>,
    /// The partitions that could not be opened since the last look.
    refused: BTreeSet<u32>,
}

/// Looks every `interval`. Ends with the node.
pub async fn run(tenants: Weak<RwLock<Tenants>>, log: Weak<NodeLog>, clock: Arc<dyn Clock>, interval: Nanos) {
    let (since, sealed, asleep) = Default::default();
    let mut cascade = Cascade { tenants, clock: Arc::clone(&clock), since, sealed, asleep, seen: 0, tried: 0 };
    let mut sleepers = Sleepers::default();
    for look in 1.. {
        sleepers.wake_during(sleep_until(&clock, clock.now() + interval)).await;
        let Some(node_log) = log.upgrade() else { return };
        if look % ROUND_LOOKS == 0 {
            sleepers.wake_during(node_log.look_after_anchor()).await;
        }
        let Some(log) = node_log.get() else { continue };
        let refused = std::mem::take(&mut sleepers.refused);
        if sleepers.wake_during(cascade.look(log, &refused)).await.is_none() {
            return;
        }
        if let Some(asleep) = cascade.asleep.take() {
            sleepers.asleep = asleep;
        }
    }
}

impl Cascade {
    /// One look at the log. The partitions `refused` cannot be opened. `None` if the node has ended.
    async fn look(&mut self, log: &SharedLog, refused: &BTreeSet<u32>) -> Option<()> {
        let (named, count, now) = (log.cascade(), log.stats().cascades, self.clock.now());
        let is_named = |member: &u32| named.binary_search_by_key(member, |(member, _)| *member).is_ok();
        self.sealed.retain(|member, _| is_named(member));
        self.since.retain(|member, _| is_named(member));
        for (member, _) in &named {
            self.since.entry(*member).or_insert(now);
        }
        let is_due = count > self.seen || now >= self.tried + AGAIN_AFTER;
        if named.is_empty() {
            self.asleep = Some(VecDeque::new());
            if is_due && (log.is_long() || log.failure().is_some()) {
                self.tried = now;
                shorten(log).await;
            }
            return Some(());
        }
        let slots = self.tenants.upgrade()?.read().slots();
        let slots: BTreeMap<u32, Arc<PartitionSlot>> =
            slots.into_iter().map(|slot| (slot.owner().partition, slot)).collect();
        if count > self.seen {
            tracing::debug!(
                members = named.len(),
                cascades = count,
                "the shared log has reached its cap: the partitions that keep it long flush"
            );
        }
        let (mut asleep, mut stuck) = (VecDeque::new(), Vec::new());
        for (member, through) in named {
            let Some(slot) = slots.get(&member) else {
                // The member was dropped while the log was being opened.
                if let Err(error) = log.forget(member).await {
                    tracing::warn!(member, %error, "cannot truncate the shared log yet");
                }
                continue;
            };
            match Option::clone(&slot.awake()) {
                Some(partition) if is_due && self.is_stuck(log, member, &partition) => stuck.push(member),
                Some(partition) => self.seal(member, partition, through, is_due).await,
                None if refused.contains(&member) => stuck.push(member),
                None => asleep.push_back(Arc::clone(slot)),
            }
        }
        if is_due {
            (self.seen, self.tried) = (count, now);
            self.asleep = Some(asleep);
        }
        for member in stuck {
            match log.carry(member).await {
                Ok(()) => tracing::warn!(
                    partition = member,
                    "a partition cannot flush: its records were carried out of the shared log, so that other \
                     partitions need not wait for it"
                ),
                Err(error) => {
                    tracing::warn!(
                        partition = member,
                        %error,
                        "a partition cannot flush and keeps the shared log long, because its records cannot be \
                         carried out of it either"
                    )
                }
            }
        }
        Some(())
    }

    /// Whether there is no use in waiting for the flush of this member.
    fn is_stuck(&self, log: &SharedLog, member: u32, partition: &Partition) -> bool {
        // A member that was named once has been told to flush.
        let is_told = self.sealed.contains_key(&member);
        let named_for = self.since.get(&member).map_or(0, |since| self.clock.now() - since);
        let is_late = log.is_overlong() || (log.failure().is_some() && named_for >= PATIENCE);
        is_told && (is_late || partition.job_failure.lock().is_some())
    }

    async fn seal(&mut self, member: u32, partition: Arc<Partition>, through: LogIndex, is_due: bool) {
        // A member that is named again while its flush waits has nothing more to seal: it would only be left without a
        // memtable to write to.
        let is_sealed = |(before, upto): &(Weak<Partition>, LogIndex)| {
            *upto >= through && Weak::ptr_eq(before, &Arc::downgrade(&partition))
        };
        if !self.sealed.get(&member).is_some_and(is_sealed) {
            self.sealed.insert(member, (Arc::downgrade(&partition), partition.seal_all()));
        } else if is_due && let Some(_background) = partition.background() {
            // Perhaps it has flushed, and could not say so. Whoever closes it waits until this is done: once its
            // directory is somebody else's, it must not write to its anchor any more.
            partition.truncate_log().await;
        }
    }
}

/// Shortens or replaces the log: the last truncation has failed, or nobody was left for one, or nobody is left to
/// replace the log.
async fn shorten(log: &SharedLog) {
    let outcome = match log.failure() {
        Some(_) => log.replace().await,
        None => log.truncate().await,
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "cannot truncate the shared log yet");
    }
}

impl Sleepers {
    /// Awaits `future`, and meanwhile wakes partitions. Once they are awake they are sealed like the others. A wake is
    /// never left unpolled while the task does something else: it may hold a lock that others need, or be next in line
    /// for one.
    async fn wake_during<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| {
            loop {
                self.begin();
                let Poll::Ready(Some((number, is_refused))) = self.waking.poll_next_unpin(cx) else { break };
                self.numbers.remove(&number);
                if is_refused {
                    self.refused.insert(number);
                }
            }
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Begins to wake as many partitions as may be woken at a time.
    fn begin(&mut self) {
        while self.waking.len() < WAKES_MAX
            && let Some(slot) = self.asleep.pop_front()
        {
            if self.numbers.insert(slot.owner().partition) {
                self.waking.push(Box::pin(wake(slot)));
            }
        }
    }
}

/// Wakes the partition of `slot`. Gives its number, and whether it cannot be opened; an error was logged.
async fn wake(slot: Arc<PartitionSlot>) -> (u32, bool) {
    let number = slot.owner().partition;
    // A partition that is being closed, or was dropped, does not count as refused.
    let is_refused = slot.partition().await.is_err_and(|error| error.kind() != ErrorKind::Closed);
    (number, is_refused)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_io::Fs;
    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
    use weir_model::{Batch, TenantName};

    use super::*;
    use crate::config::{Machine, NodeConfig};
    use crate::partition::anchor;
    use crate::{LogKind, Node, TenantSpec, layout};

    #[test]
    fn the_log_of_a_partition_that_is_closed_is_left_alone() {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
        let machine = Machine { fs: Arc::clone(&fs), clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
        sim.block_on(async {
            let node = Node::open(&NodeConfig::new("/weir"), machine).await.expect("the node opens");
            let name = TenantName::new("sharer").expect("a name");
            let spec = TenantSpec { log: LogKind::Shared, ..TenantSpec::new(name) };
            let slot = Arc::clone(&node.create_tenant(spec).await.expect("created").partitions()[0]);
            let partition = slot.partition().await.expect("wakes");
            let mut batch = Batch::new();
            batch.put(&1_u32.to_be_bytes(), b"value");
            partition.write(&batch).await.expect("room").await.expect("written");
            partition.close().await.expect("closed");
            // It has flushed, and could not say so.
            partition.engine().seal();
            let flush = partition.engine().next_flush().expect("a memtable is sealed");
            flush.run().await.expect("no faults");
            let owner = slot.owner();
            let dir = layout::partition_path(Path::new("/weir"), owner.partition);
            let before = anchor::read(&fs, &dir, owner).await.expect("it is whole");
            assert!(before.claim.persisted < partition.engine().persisted());
            let (since, sealed, asleep) = Default::default();
            let mut cascade =
                Cascade { tenants: Weak::new(), clock: sim.clock(), since, sealed, asleep, seen: 0, tried: 0 };
            cascade.sealed.insert(owner.partition, (Arc::downgrade(&partition), LogIndex::MAX));
            cascade.seal(owner.partition, partition, 1, true).await;
            assert_eq!(anchor::read(&fs, &dir, owner).await.expect("it is whole"), before);
        });
    }
}
