//! The clients of a mix: threads that wait for their answers, each with one operation at a time.
//!
//! In a closed loop a client sends its next operation when the last one is answered. In an open loop operations have
//! times of their own, and the clients of a partition take them one after the other. An operation that finds no client
//! free waits, and is measured from its own time. One that waits until the end was not served.

use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use parking_lot::Mutex;
use weir_io::{Nanos, Rng};
use weir_scenario::closed::{Choices, rest};
use weir_scenario::data::fill;
use weir_scenario::mix::{Kind, Mix, Pace};
use weir_scenario::pattern::Schedule;

use super::drive::Load;
use crate::Result;

/// Clients of a partition whose operations have times of their own.
const OPEN_CLIENTS: u32 = 100;

/// When a client sends.
#[derive(Clone)]
enum Times {
    /// This long after an answer, on average.
    After(Nanos),
    /// At times that all clients of a partition share.
    At(Arc<Mutex<Schedule>>),
}

impl Times {
    fn next(&self, now: Nanos, rng: &mut Rng) -> Option<Nanos> {
        match self {
            Times::After(own_time) => Some(now + rest(*own_time, rng)),
            Times::At(schedule) => schedule.lock().next(),
        }
    }
}

impl Load<'_> {
    /// Starts all clients of `mix`.
    pub(super) fn clients<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mix: Mix,
        seed: &mut Rng,
    ) -> Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        let mut started = Vec::new();
        for partition in 0..usize::from(self.plan.args.partitions) {
            let [reads, inserts] = self.plan.choices().map(Arc::new);
            let choices = Choices { reads, inserts, sent: Arc::default() };
            let (count, times) = match mix.pace {
                Pace::Closed { clients, own_time } => (clients, Times::After(own_time)),
                Pace::Open(per_sec) => {
                    let times = Schedule::of(self.from, self.until, [(0, per_sec)].into(), seed.fork("times"));
                    (OPEN_CLIENTS, Times::At(Arc::new(Mutex::new(times))))
                }
            };
            for number in 0..count {
                let (choices, times, rng) = (choices.clone(), times.clone(), seed.fork("client"));
                let named = Builder::new().name(format!("client-{partition}-{number}"));
                started.push(named.spawn_scoped(scope, move || {
                    if let Err(error) = self.client(partition, &mix, &choices, &times, rng) {
                        self.fail(error);
                    }
                })?);
            }
        }
        Ok(started)
    }

    /// One client, until the load is over.
    fn client(&self, partition: usize, mix: &Mix, choices: &Choices, times: &Times, mut rng: Rng) -> Result<()> {
        self.sleep_until(self.from);
        while let Some(at) = times.next(self.watch.nanos(), &mut rng) {
            self.sleep_until(at);
            if self.is_over() {
                // In a closed loop nobody asks any more, and a run that ends early has failed.
                if matches!(times, Times::After(_)) || self.watch.nanos() < self.until {
                    break;
                }
                self.leave_out(partition, choices.next(mix, &mut rng).0, at);
                continue;
            }
            let (kind, item, entries) = choices.next(mix, &mut rng);
            self.operate(partition, (kind, item, entries), at, &mut rng)?;
            choices.is_done(kind, item);
        }
        Ok(())
    }

    /// Counts an operation of `kind` for which no client was free until the end: it was not served.
    fn leave_out(&self, partition: usize, kind: Kind, at: Nanos) {
        let mut tally = self.tally.lock();
        if matches!(kind, Kind::Get | Kind::Scan | Kind::Modify) {
            tally.partition_reads[partition].0 += 1;
            tally.reads_failed += 1;
        } else {
            tally.wrote(partition, self.watch.nanos() - at, false);
        }
    }

    /// Does one operation, and counts it from `at`. A read that finds nothing has failed.
    fn operate(
        &self,
        partition: usize,
        (kind, item, entries): (Kind, u64, u64),
        at: Nanos,
        rng: &mut Rng,
    ) -> Result<()> {
        let key = self.sizes.key(item);
        if matches!(kind, Kind::Get | Kind::Scan | Kind::Modify) {
            let found = match kind {
                Kind::Scan => self.fleet.scan(partition, &key, entries)? > 0,
                _ => self.fleet.get(partition, &key)?,
            };
            let mut tally = self.tally.lock();
            tally.partition_reads[partition].0 += 1;
            if !found {
                tally.reads_failed += 1;
                return Ok(());
            }
            tally.read(partition, self.watch.nanos() - at);
        }
        if matches!(kind, Kind::Insert | Kind::Update | Kind::Modify) {
            let sent = if kind == Kind::Modify { self.watch.nanos() } else { at };
            let mut value = vec![0; self.sizes.value_bytes(item)];
            fill(&mut value, rng);
            self.fleet.put(partition, &key, &value)?;
            self.tally.lock().wrote(partition, self.watch.nanos() - sent, true);
        }
        self.tally.lock().by_kind.note(kind, self.watch.nanos() - at);
        Ok(())
    }
}
