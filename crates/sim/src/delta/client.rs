//! Tenants that write or read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::try_join;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use weir_io::sim::Sim;
use weir_io::{Clock, Error, Nanos, Result, Rng, sleep_until};
use weir_model::Batch;
use weir_node::{Node, Partition, ShareTerms, Tenant, TenantName, TenantSettings, TenantSpec};
use weir_scenario::report::sharing::{Acquisition, ClassSeries, Scarce};

use super::series::{Series, name_of};
use super::world::SECOND;

/// What a tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Writes or reads steadily, less than its share of the bandwidth.
    Steady,
    /// As much as it can.
    Greedy,
    /// Rests, and then asks for its share of the memory at once.
    Ramping,
}

impl Class {
    const ALL: [Class; 3] = [Class::Steady, Class::Greedy, Class::Ramping];
}

/// Keys of new rows begin here, apart from those of the rows that are read: rows that are read stay where they are, in
/// the cache or not.
pub(super) const NEW_ROWS: u64 = 1 << 48;

/// What a tenant does again and again.
#[derive(Clone, Copy)]
pub(super) enum Op {
    /// Writes the next row.
    Write,
    /// Reads one of this many rows, drawn evenly.
    Read(u64),
    /// Reads one of `.0` rows, drawn evenly, and writes a new row of `.1` bytes.
    Change(u64, u64),
}

/// When the two parts of a change were done, in nanoseconds from the moment at which it was due.
#[derive(Clone, Copy)]
pub(super) struct Changed {
    /// When the row was read.
    pub(super) read: Nanos,
    /// When the new row was in a memtable.
    pub(super) written: Nanos,
}

impl Changed {
    /// When both were done.
    pub(super) fn both(self) -> Nanos {
        self.read.max(self.written)
    }
}

/// What a tenant has written or read, and what took longest.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) slowest: Nanos,
}

/// A tenant, and the client that sends its requests.
pub(super) struct Client {
    class: Class,
    tenant: Arc<Tenant>,
    partition: Arc<Partition>,
    tally: Mutex<Tally>,
    /// What all tenants of its class get done.
    series: Arc<Mutex<Series>>,
    /// When the requests were due that are not answered yet.
    unanswered: Mutex<Vec<Nanos>>,
    clock: Arc<dyn Clock>,
    op_bytes: u64,
}

/// Makes a client for each of `kinds`: what it does, and the terms of its tenant, which is created unless it exists
/// already. A row has `op_bytes` bytes.
pub(super) async fn clients(
    node: &Node,
    clock: &Arc<dyn Clock>,
    kinds: impl IntoIterator<Item = (Class, ShareTerms)>,
    op_bytes: u64,
) -> Result<Vec<Arc<Client>>> {
    let mut tenants = Vec::new();
    for (number, (class, terms)) in kinds.into_iter().enumerate() {
        let name = TenantName::new(&format!("tenant{number}")).expect("a name");
        let tenant = match node.tenant(&name) {
            Some(tenant) => tenant,
            None => {
                let settings = TenantSettings { terms, ..TenantSettings::default() };
                node.create_tenant(TenantSpec { settings, ..TenantSpec::new(name) }).await?
            }
        };
        let partition = tenant.partitions()[0].partition().await?;
        tenants.push((class, tenant, partition));
    }
    // The caller's run begins at this moment.
    let all = Class::ALL.map(|class| (class, Series::beginning(clock.now())));
    let client = |(class, tenant, partition): (Class, Arc<Tenant>, Arc<Partition>)| {
        let (_, series) = all.iter().find(|(other, _)| *other == class).expect("every class has one");
        let (tally, series, clock) = (Mutex::default(), Arc::clone(series), Arc::clone(clock));
        Arc::new(Client { class, tenant, partition, tally, series, unanswered: Mutex::default(), clock, op_bytes })
    };
    Ok(tenants.into_iter().map(client).collect())
}

/// What the classes of `clients` got done in each of `seconds`; bytes were divided by `scale`.
pub(super) fn by_class(clients: &[Arc<Client>], seconds: u64, scale: u64) -> Vec<ClassSeries> {
    let shown = |class: Class| {
        let client = clients.iter().find(|client| client.class == class)?;
        Some(client.series.lock().shown(name_of(class), seconds, scale))
    };
    Class::ALL.into_iter().filter_map(shown).collect()
}

/// Removes one of the requests that were due at `moment`.
pub(super) fn remove(requests: &mut Vec<Nanos>, moment: Nanos) {
    if let Some(at) = requests.iter().position(|&other| other == moment) {
        requests.swap_remove(at);
    }
}

impl Client {
    pub(super) fn class(&self) -> Class {
        self.class
    }

    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    pub(super) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Bytes of a row.
    pub(super) fn op_bytes(&self) -> u64 {
        self.op_bytes
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock()
    }

    /// The longest time that a request took. One that is not answered yet takes as long as it has waited, at least.
    pub(super) fn slowest(&self) -> Nanos {
        let first = self.unanswered.lock().iter().min().copied();
        let waited = first.map_or(0, |due| self.clock.now() - due);
        self.tally().slowest.max(waited)
    }

    /// The longest that the tenant waited for its share of `resource`.
    pub(super) fn acquisition(&self, resource: Scarce, longest_ms: f64, delta_ms: Option<f64>) -> Acquisition {
        let (tenant, class) = (self.tenant.name().to_string(), name_of(self.class));
        Acquisition { tenant, class, resource, longest_ms, delta_ms }
    }

    /// Notes that a request that was due at `due` is sent now.
    fn ask(&self, due: Nanos) {
        self.unanswered.lock().push(due);
    }

    /// Notes that a request that was due at `due` waits no more.
    fn answered(&self, due: Nanos) {
        remove(&mut self.unanswered.lock(), due);
    }

    /// Notes how long a request took that was due at `due` and has succeeded now.
    fn succeeded(&self, due: Nanos) {
        let (now, mut tally) = (self.clock.now(), self.tally());
        tally.slowest = tally.slowest.max(now - due);
        self.series.lock().took(now, now - due);
    }

    /// Notes that `bytes` have been read or written now.
    fn moved(&self, bytes: u64) {
        self.tally().bytes += bytes;
        self.series.lock().moved(self.clock.now(), bytes);
    }

    /// Does `rate` bytes a second between two moments; a late request is sent as soon as one of its `workers` is free,
    /// and what it takes counts from the moment at which it was due.
    pub(super) fn go_on(
        self: &Arc<Self>,
        sim: &Sim,
        op: Op,
        rate: u64,
        workers: u64,
        (from, until): (Nanos, Nanos),
        rng: &mut Rng,
    ) {
        for worker in 0..workers {
            let client = Arc::clone(self);
            let every = SECOND * self.op_bytes * workers / rate;
            let mut at = from + rng.below(every);
            let mut draws = Rng::new(at ^ worker << 48);
            sim.spawn(async move {
                for number in (worker..).step_by(workers as usize) {
                    sleep_until(&client.clock, at).await;
                    if at >= until {
                        return;
                    }
                    match op {
                        Op::Write => client.write(number, at).await,
                        Op::Read(rows) => client.read(draws.below(rows), at).await,
                        Op::Change(rows, bytes) => {
                            let row = draws.below(rows);
                            client.change(row, NEW_ROWS | number, bytes, false, at).await.expect("no faults");
                        }
                    }
                    at += every;
                }
            });
        }
    }

    /// One write, whose key is `number`, and which was due at `due`.
    pub(super) async fn write(&self, number: u64, due: Nanos) {
        let mut batch = Batch::new();
        batch.put(&number.to_be_bytes(), &vec![number as u8; self.op_bytes as usize]);
        self.ask(due);
        let written = self.partition.write(&batch).await;
        self.answered(due);
        let Ok(commit) = written else { return };
        self.succeeded(due);
        if commit.await.is_ok() {
            self.moved(self.op_bytes);
        }
    }

    /// Reads `row`, and writes `bytes` under the key `new`; at the same time if `together`, else one after the other.
    /// It was due at `due`.
    pub(super) async fn change(&self, row: u64, new: u64, bytes: u64, together: bool, due: Nanos) -> Result<Changed> {
        self.ask(due);
        let left = AtomicU32::new(2);
        // The last of the two parts answers the change.
        let done = || {
            let took = self.clock.now() - due;
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.answered(due);
                self.succeeded(due);
            }
            took
        };
        let read = async {
            self.partition.get(&row.to_be_bytes()).await?.expect("it was there before");
            Ok::<_, Error>(done())
        };
        let mut batch = Batch::new();
        batch.put(&new.to_be_bytes(), &vec![new as u8; bytes as usize]);
        let write = async {
            let commit = self.partition.write(&batch).await?;
            let written = done();
            commit.await?;
            Ok::<_, Error>(written)
        };
        let (read, written) = if together { try_join(read, write).await? } else { (read.await?, write.await?) };
        self.moved(self.op_bytes + bytes);
        Ok(Changed { read, written })
    }

    /// One read, of the row `number`, which was due at `due`.
    pub(super) async fn read(&self, number: u64, due: Nanos) {
        self.ask(due);
        let read = self.partition.get(&number.to_be_bytes()).await;
        self.answered(due);
        let Ok(Some(_)) = read else { return };
        self.succeeded(due);
        self.moved(self.op_bytes);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use weir_io::sim::DiskImage;

    use super::*;
    use crate::delta::world::{self, Device, MB};

    /// A node with one tenant, and its client.
    pub(in crate::delta) async fn alone(sim: &Sim) -> (Node, Arc<Client>) {
        let device = Device::Shared(64 * MB);
        let machine = world::machine(sim, &DiskImage::default(), device, 1);
        let node = Node::open(&world::config(world::tree(1 << 20), device), machine).await.expect("it opens");
        let kinds = [(Class::Steady, ShareTerms::default())];
        let client = clients(&node, &sim.clock(), kinds, 1000).await.expect("a tenant").remove(0);
        (node, client)
    }

    #[test]
    fn a_request_without_an_answer_has_taken_as_long_as_it_waits() {
        let sim = Sim::new(1);
        sim.block_on(async {
            let (_node, client) = alone(&sim).await;
            let clock = sim.clock();
            let due = clock.now();
            client.ask(due);
            client.ask(due);
            sleep_until(&clock, due + SECOND).await;
            assert_eq!(client.slowest(), SECOND);
            client.answered(due);
            assert_eq!(client.slowest(), SECOND, "the other one still waits");
            client.answered(due);
            assert_eq!(client.slowest(), 0);
        });
    }

    #[test]
    fn a_request_for_which_no_worker_was_free_counts_from_when_it_was_due() {
        let sim = Sim::new(1);
        sim.block_on(async {
            let (_node, client) = alone(&sim).await;
            let from = sim.now();
            let until = from + SECOND / 4;
            // Ten times as much as the device moves.
            client.go_on(&sim, Op::Write, 640 * MB, 1, (from, until), &mut Rng::new(1));
            sleep_until(&sim.clock(), until).await;
            assert!(client.slowest() > SECOND / 8, "{}", client.slowest());
        });
    }
}
