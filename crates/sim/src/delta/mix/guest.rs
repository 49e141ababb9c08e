//! A tenant of the mix, and the clients that send its requests.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::waits::{self, Followed, Waits};
use weir_io::sim::Sim;
use weir_io::{Clock, Nanos, Rng, sleep_until};
use weir_model::Batch;
use weir_node::Partition;

use super::{Kind, ROW, WORKERS};
use crate::delta::client::{NEW_ROWS, remove};
use crate::delta::series::Series;
use crate::delta::world::SECOND;

/// What the clients of one tenant saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) waits: Vec<(Nanos, Waits)>,
    /// When the requests were due that are not answered yet.
    unanswered: Vec<Nanos>,
    /// When those were due that are answered, and whose rows are not in the log yet.
    unlogged: Vec<Nanos>,
    pub(super) logged: Nanos,
    pub(super) read: u64,
    pub(super) written: u64,
}

/// A tenant, and the clients that send its requests.
pub(super) struct Guest {
    pub(super) kind: Kind,
    pub(super) partition: Arc<Partition>,
    pub(super) seen: Mutex<Seen>,
    /// What all tenants of its kind get done.
    pub(super) series: Arc<Mutex<Series>>,
    /// Requests are counted if they were due from the first moment on; bytes are counted if they were moved between the
    /// two.
    pub(super) counts: (Nanos, Nanos),
    pub(super) clock: Arc<dyn Clock>,
    pub(super) row: u64,
}

impl Guest {
    /// Sends the `number`th request of the tenant, which was due at `due` and reads the row `drawn`.
    async fn ask(&self, due: Nanos, number: u64, drawn: u64) -> weir_io::Result<()> {
        let (mut read, mut written, mut commit) = (0, 0, None);
        let (from, until) = self.counts;
        if due >= from {
            self.seen.lock().unanswered.push(due);
        }
        waits::clear();
        if self.kind.reads() {
            self.partition.get(&drawn.to_be_bytes()).await?.expect("it was there before");
            read = self.row;
        }
        if self.kind.writes() {
            let mut batch = Batch::new();
            batch.put(&(NEW_ROWS | number).to_be_bytes(), &vec![number as u8; self.row as usize]);
            commit = Some(self.partition.write(&batch).await?);
            written = self.row;
        }
        let now = self.clock.now();
        {
            let mut seen = self.seen.lock();
            if due >= from {
                seen.waits.push((now - due, waits::so_far()));
                remove(&mut seen.unanswered, due);
                if commit.is_some() {
                    seen.unlogged.push(due);
                }
            }
            // By the moment at which it was done: a late request counts now, though it was due before.
            if (from..until).contains(&now) {
                seen.read += read;
                seen.written += written;
            }
            let mut series = self.series.lock();
            series.took(now, now - due);
            series.moved(now, read + written);
        }
        if let Some(commit) = commit {
            commit.await?;
            let mut seen = self.seen.lock();
            if due >= from {
                seen.logged = seen.logged.max(self.clock.now() - due);
                remove(&mut seen.unlogged, due);
            }
        }
        Ok(())
    }

    /// Asks for `rate` bytes a second until `until`; a late request is sent as soon as one of the workers is free.
    pub(super) fn ask_steadily(self: &Arc<Self>, sim: &Sim, rate: u64, until: Nanos, rng: &mut Rng) {
        let (every, rows) = (SECOND * self.row * WORKERS / rate, self.kind.has() / ROW);
        for worker in 0..WORKERS {
            let (guest, mut rng) = (Arc::clone(self), Rng::new(rng.next_u64()));
            let mut due = self.clock.now() + rng.below(every);
            sim.spawn(Followed::new(async move {
                for number in (worker..).step_by(WORKERS as usize) {
                    sleep_until(&guest.clock, due).await;
                    if guest.clock.now() >= until {
                        return;
                    }
                    guest.ask(due, number, rng.below(rows.max(1))).await.expect("no faults");
                    due += every;
                }
            }));
        }
    }

    /// Asks for its share at once, whenever it is its turn.
    pub(super) fn come_back(self: &Arc<Self>, sim: &Sim, (from, until, every): (Nanos, Nanos, Nanos)) {
        let (guest, spawn) = (Arc::clone(self), sim.spawner());
        sim.spawn(async move {
            for round in 0.. {
                let due = from + round * every;
                sleep_until(&guest.clock, due).await;
                if due >= until {
                    return;
                }
                let requests = guest.kind.at_once();
                for number in 0..requests {
                    let guest = Arc::clone(&guest);
                    let ask =
                        async move { guest.ask(due, round * requests + number, number).await.expect("no faults") };
                    spawn.spawn(Box::pin(Followed::new(ask)));
                }
            }
        });
    }

    /// Counts the requests that are still waiting: as if they were answered, and their rows logged, now.
    pub(super) fn end(&self) {
        let (now, mut seen) = (self.clock.now(), self.seen.lock());
        let unanswered = std::mem::take(&mut seen.unanswered);
        seen.waits.extend(unanswered.iter().map(|due| (now - due, Waits::default())));
        let unlogged = if self.kind.writes() { unanswered.into_iter().min() } else { None };
        let first = unlogged.into_iter().chain(seen.unlogged.drain(..)).min();
        seen.logged = seen.logged.max(first.map_or(0, |due| now - due));
    }

    /// The wait that 99.9 % of the requests do not exceed, the longest wait, and the number of requests.
    pub(super) fn waits(&self) -> (Nanos, Nanos, u64) {
        let mut seen = self.seen.lock();
        seen.waits.sort_unstable();
        let last = seen.waits.len().saturating_sub(1);
        let at = |index: usize| seen.waits.get(index).map_or(0, |(all, _)| *all);
        (at(last - last / 1000), at(last), seen.waits.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::client::tests::alone;

    #[test]
    fn a_request_that_is_never_answered_counts_as_late() {
        let sim = Sim::new(1);
        sim.block_on(async {
            let (_node, client) = alone(&sim).await;
            let (clock, partition) = (sim.clock(), Arc::clone(client.partition()));
            let (seen, series, counts) = (Mutex::default(), Series::beginning(clock.now()), (0, SECOND));
            let (kind, row) = (Kind::Writer, 1000);
            let guest = Guest { kind, partition, seen, series, counts, clock: Arc::clone(&clock), row };
            guest.seen.lock().waits.push((1, Waits::default()));
            guest.seen.lock().unanswered.push(clock.now());
            sleep_until(&clock, clock.now() + 3 * SECOND).await;
            guest.end();
            assert_eq!(guest.waits(), (3 * SECOND, 3 * SECOND, 2));
            assert_eq!(guest.seen.lock().logged, 3 * SECOND);
        });
    }
}
