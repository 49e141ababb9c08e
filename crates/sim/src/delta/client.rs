//! Tenants that write.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use weir_io::sim::Sim;
use weir_io::{Clock, Nanos, Rng, sleep_until};
use weir_model::Batch;
use weir_node::{Partition, Tenant};

const SECOND: Nanos = 1_000_000_000;

/// What a tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Writes steadily, less than its share of the bandwidth.
    Steady,
    /// Writes as much as it can.
    Greedy,
    /// Rests, and then asks for its share of the memory at once.
    Ramping,
}

/// What a tenant has written, and the slowest of its writes.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) slowest: Nanos,
}

/// A tenant, and who sends its writes.
pub(super) struct Client {
    class: Class,
    tenant: Arc<Tenant>,
    partition: Arc<Partition>,
    tally: Mutex<Tally>,
    clock: Arc<dyn Clock>,
    write: u64,
}

impl Client {
    /// A tenant that does what `class` says in writes of `write` bytes.
    pub(super) fn new(
        class: Class,
        tenant: Arc<Tenant>,
        partition: Arc<Partition>,
        clock: &Arc<dyn Clock>,
        write: u64,
    ) -> Arc<Self> {
        Arc::new(Self { class, tenant, partition, tally: Mutex::default(), clock: Arc::clone(clock), write })
    }

    pub(super) fn class(&self) -> Class {
        self.class
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    /// Writes `rate` bytes a second between two moments; what is late is sent as soon as one of its `writers` is free.
    pub(super) fn write_steadily(
        self: &Arc<Self>,
        sim: &Sim,
        rate: u64,
        writers: u64,
        (from, until): (Nanos, Nanos),
        rng: &mut Rng,
    ) {
        for writer in 0..writers {
            let client = Arc::clone(self);
            let every = SECOND * self.write * writers / rate;
            let mut at = from + rng.below(every);
            sim.spawn(async move {
                for number in (writer..).step_by(writers as usize) {
                    sleep_until(&client.clock, at).await;
                    if at >= until {
                        return;
                    }
                    client.write(number).await;
                    at += every;
                }
            });
        }
    }

    /// One write, whose key is `number`.
    pub(super) async fn write(&self, number: u64) {
        let mut batch = Batch::new();
        batch.put(&number.to_be_bytes(), &vec![number as u8; self.write as usize]);
        let asked = self.clock.now();
        let Ok(commit) = self.partition.write(&batch).await else { return };
        {
            let mut tally = self.tally.lock();
            tally.slowest = tally.slowest.max(self.clock.now() - asked);
        }
        if commit.await.is_ok() {
            self.tally.lock().bytes += self.write;
        }
    }
}
