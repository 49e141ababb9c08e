//! What happens inside the order lock, and what does not.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;

use futures_util::future::{join, join3};
use parking_lot::Mutex;
use weir_admission::Direction;
use weir_command::{Rows, Waiting};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{
    AlignedBuf, Class, File, Fs, Nanos, Op, OpenOptions, Tag, forward_file, forward_fs, sleep_until, yield_now,
};

use super::*;
use crate::config::{Machine, NodeConfig};
use crate::node::Node;

/// Notes whether the order lock of a partition is held when its data is read from the device, and whether rows are
/// latched.
#[derive(Default)]
struct Seen {
    partition: OnceLock<Weak<Partition>>,
    reads: AtomicU64,
    in_order: AtomicU64,
    latched: AtomicU64,
}

struct WatchedFs {
    inner: Arc<dyn Fs>,
    seen: Arc<Seen>,
}

struct WatchedFile {
    inner: Arc<dyn File>,
    seen: Arc<Seen>,
}

impl Fs for WatchedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (opened, seen) = (self.inner.open(path, options, tag), Arc::clone(&self.seen));
        Op::pending(async move { Ok(Arc::new(WatchedFile { inner: opened.await?, seen }) as Arc<dyn File>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, lock);
}

impl File for WatchedFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        if tag.class == Class::Read
            && let Some(partition) = self.seen.partition.get().and_then(Weak::upgrade)
        {
            self.seen.reads.fetch_add(1, Ordering::Relaxed);
            let order = partition.order.try_lock();
            self.seen.in_order.fetch_add(u64::from(order.is_none()), Ordering::Relaxed);
            let is_latched = order.is_some_and(|order| !order.is_empty());
            self.seen.latched.fetch_add(u64::from(is_latched), Ordering::Relaxed);
        }
        self.inner.read_at(offset, buf, tag)
    }

    forward_file!(inner: write_at, allocate, set_len, len, data_end, is_direct, read_unit, sync, sync_begins);
}

/// The machine of `sim`, with a device that takes `latency` for every request.
fn watched_machine(sim: &Sim, seen: &Arc<Seen>, latency: Nanos) -> Machine {
    let device = DeviceSpec { latency, ..DeviceSpec::instant() };
    let inner = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng()) as Arc<dyn Fs>;
    let fs = Arc::new(WatchedFs { inner, seen: Arc::clone(seen) });
    Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 7 }
}

#[test]
fn the_device_is_not_asked_inside_the_order_lock() {
    let (sim, seen) = (Sim::new(1), Arc::<Seen>::default());
    let machine = watched_machine(&sim, &seen, 0);
    let config = NodeConfig { cache_bytes: 0, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    let sums: Vec<u8> = sim.block_on(async {
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        assert!(seen.partition.set(Arc::downgrade(&partition)).is_ok());
        let mut sums = Vec::new();
        for round in 0..3 {
            let change = |rows: &[Option<Row>], batch: &mut Batch| {
                let sum = rows[0].as_ref().map_or(0, |row| row.value().expect("a string")[0]) + 1;
                batch.put(b"counter", &[sum]);
                sum
            };
            let (sum, commit) = partition.update(&[b"counter"], change).await.expect("no faults");
            commit.expect("it has written").await.expect("no faults");
            sums.push(sum);
            // From here on the value is in a table only, and nothing is cached.
            partition.seal();
            partition.settle().await;
            assert!(round == 0 || seen.reads.load(Ordering::Relaxed) > 0, "it was read from the device");
        }
        sums
    });
    assert_eq!(sums, [1, 2, 3]);
    assert_eq!(seen.in_order.load(Ordering::Relaxed), 0);
}

const ROWS: u8 = 20;
/// Long enough that each value has a block of its own.
const VALUE_BYTES: usize = 5000;
const LATENCY: Nanos = 1_000_000;

/// Commands that run as one: each adds 1 to the first byte of a row.
struct Additions {
    may_begin_again: bool,
    begun: usize,
    /// What a run holds until the transaction lets it go.
    holds: bool,
}

fn stored(row: u8) -> StoredKey {
    StoredKey::new(0, &[row])
}

fn put(batch: &mut Batch, row: u8, first: u8) {
    let value = [&[first][..], &[0; VALUE_BYTES]].concat();
    batch.push_row(0, Change::Put { key: &[row], value: &value, expire_at_ms: None });
}

impl Transaction for Additions {
    fn rows(&self) -> Vec<StoredKey> {
        (0..ROWS).map(stored).collect()
    }

    fn may_begin_again(&self) -> bool {
        self.may_begin_again
    }

    fn let_go(&mut self) {
        self.holds = false;
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        self.begun += 1;
        assert!(!std::mem::replace(&mut self.holds, true), "the run before was not let go");
        Box::pin(async move {
            let mut batch = Batch::new();
            for row in 0..ROWS {
                let found = rows.get(0, &[row], 0).wait().await?.expect("it is there");
                put(&mut batch, row, found.value().expect("a string")[0] + 1);
            }
            Ok(batch.into())
        })
    }
}

/// Commands that run as one on rows that are on the device: how often they begin, how long they take, and how long
/// another write takes that comes meanwhile, to the last of their rows.
fn beside_another_writer(may_begin_again: bool) -> (usize, Nanos, Nanos, Arc<Seen>) {
    let (sim, seen) = (Sim::new(1), Arc::<Seen>::default());
    let machine = watched_machine(&sim, &seen, LATENCY);
    let config = NodeConfig { cache_bytes: 4 << 20, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    sim.block_on(async {
        let node = Node::open(&config, machine.clone()).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        let mut batch = Batch::new();
        (0..ROWS).for_each(|row| put(&mut batch, row, 0));
        partition.write(&batch).await.expect("no faults").await.expect("no faults");
        partition.seal();
        partition.settle().await;
        drop(partition);
        node.close().await.expect("no faults");
        drop(node);

        // After this, nothing is cached any more.
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        assert!(seen.partition.set(Arc::downgrade(&partition)).is_ok());
        let clock = sim.clock();
        let begin = clock.now();
        let mut additions = Additions { may_begin_again, begun: 0, holds: false };
        let together = async {
            let commit = partition.transact(&mut additions).await.expect("no faults");
            let took = clock.now() - begin;
            commit.expect("it has written").await.expect("no faults");
            took
        };
        let another = async {
            sleep_until(&clock, begin + LATENCY / 2).await;
            let mut batch = Batch::new();
            put(&mut batch, ROWS - 1, 100);
            let commit = partition.write(&batch).await.expect("no faults");
            let waited = clock.now() - begin - LATENCY / 2;
            commit.await.expect("no faults");
            waited
        };
        let (took, waited) = join(together, another).await;
        for row in 0..ROWS {
            let found = partition.get(&stored(row)).await.expect("no faults").expect("it is there");
            // One after the other, whichever was first.
            let expected = match (row, may_begin_again) {
                (row, _) if row < ROWS - 1 => 1,
                (_, true) => 101,
                (_, false) => 100,
            };
            assert_eq!(found.value().expect("a string")[0], expected, "row {row}");
        }
        (additions.begun, took, waited, seen)
    })
}

#[test]
fn commands_that_run_as_one_latch_nothing_while_the_device_is_asked() {
    let (begun, took, waited, seen) = beside_another_writer(true);
    assert!(seen.reads.load(Ordering::Relaxed) >= u64::from(ROWS), "they were on the device");
    assert_eq!(seen.latched.load(Ordering::Relaxed), 0);
    assert_eq!((begun, waited), (2, 0));
    assert!(took < 2 * LATENCY, "{took} ns: all are read at a time");

    // Commands that cannot begin again hold their rows over one read after the other.
    let (begun, took, waited, seen) = beside_another_writer(false);
    assert!(seen.latched.load(Ordering::Relaxed) > 0);
    assert_eq!(begun, 1);
    assert!(took >= u64::from(ROWS) * LATENCY && waited > took - LATENCY, "{took} and {waited} ns");
}

/// Rows for more than three turns.
const MANY: usize = 3 * TURN_KEYS + 500;

/// Commands that run as one, with many rows: they add 1 to the value of the row in the middle.
struct ManyRows {
    rows: Vec<StoredKey>,
    begun: usize,
    may_begin_again: bool,
}

impl ManyRows {
    fn new(may_begin_again: bool) -> Self {
        let rows = (0..MANY).map(|row| StoredKey::new(0, row.to_string().as_bytes())).collect();
        Self { rows, begun: 0, may_begin_again }
    }

    fn middle() -> String {
        (MANY / 2).to_string()
    }
}

impl Transaction for ManyRows {
    fn rows(&self) -> Vec<StoredKey> {
        self.rows.clone()
    }

    fn may_begin_again(&self) -> bool {
        self.may_begin_again
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        self.begun += 1;
        Box::pin(async move {
            let middle = Self::middle();
            let found = rows.get(0, middle.as_bytes(), 0).wait().await?;
            yield_now().await;
            let sum = found.map_or(0, |row| row.value().expect("a string")[0]) + 1;
            let mut batch = Batch::new();
            batch.push_row(0, Change::Put { key: middle.as_bytes(), value: &[sum], expire_at_ms: None });
            Ok(batch.into())
        })
    }
}

async fn middle_of(partition: &Arc<Partition>) -> u8 {
    let key = StoredKey::new(0, ManyRows::middle().as_bytes());
    partition.get(&key).await.expect("no faults").expect("it is there").value().expect("a string")[0]
}

#[test]
fn many_rows_are_latched_and_released_in_turns() {
    let (sim, config) = (Sim::new(1), NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") });
    let machine = watched_machine(&sim, &Arc::default(), 0);
    sim.block_on(async {
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        let latched = || partition.order.lock().len();
        let (mut before, mut most, mut turns) = (0, 0, 0);
        let mut in_turn = || {
            let now = latched();
            assert!(now.abs_diff(before) <= TURN_KEYS, "{before} and then {now}");
            turns += usize::from(now != before);
            (before, most) = (now, most.max(now));
        };
        let mut many = ManyRows::new(true);
        let mut run = pin!(partition.transact(&mut many));
        let commit = poll_fn(|task| {
            let polled = run.as_mut().poll(task);
            in_turn();
            polled
        });
        commit.await.expect("no faults").expect("it has written").await.expect("no faults");
        assert_eq!((before, most, turns), (0, MANY, 8));

        // Its client goes away while it runs.
        let mut many = ManyRows::new(false);
        {
            let mut run = pin!(partition.transact(&mut many));
            poll_fn(|task| {
                assert!(run.as_mut().poll(task).is_pending());
                if latched() == MANY { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        assert_eq!(latched(), MANY - TURN_KEYS, "others of this thread do not wait for the rest");
        partition.progress.wait(|| (latched() == 0).then_some(())).await;
        assert_eq!(middle_of(&partition).await, 1);
    });
}

#[test]
fn commands_with_many_rows_in_common_run_one_after_the_other() {
    let (sim, config) = (Sim::new(1), NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") });
    let machine = watched_machine(&sim, &Arc::default(), 0);
    sim.block_on(async {
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        let (mut one, mut other) = (ManyRows::new(true), ManyRows::new(false));
        // They name the same rows in opposite orders, and some of them again.
        other.rows.reverse();
        other.rows.extend_from_within(..TURN_KEYS);
        let middle = StoredKey::new(0, ManyRows::middle().as_bytes());
        let single = async {
            // Sometimes before them, sometimes while they have latched the row.
            for _ in 0..20 {
                let change = |rows: &[Option<Row>], batch: &mut Batch| {
                    let sum = rows[0].as_ref().map_or(0, |row| row.value().expect("a string")[0]) + 1;
                    batch.put(&middle, &[sum]);
                };
                drop(partition.update(&[&middle[..]], change).await.expect("no faults"));
                yield_now().await;
            }
        };
        let (one, other, ()) = join3(partition.transact(&mut one), partition.transact(&mut other), single).await;
        for commit in [one, other] {
            commit.expect("no faults").expect("it has written").await.expect("no faults");
        }
        assert_eq!(middle_of(&partition).await, 22);
        assert!(partition.order.lock().is_empty());
    });
}

#[test]
fn commands_of_many_rows_latch_nothing_while_the_device_is_asked() {
    let (sim, seen) = (Sim::new(1), Arc::<Seen>::default());
    let machine = watched_machine(&sim, &seen, LATENCY);
    let config = NodeConfig { cache_bytes: 4 << 20, segment_bytes: 1 << 20, ..NodeConfig::new("/weir") };
    sim.block_on(async {
        let node = Node::open(&config, machine.clone()).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        let mut batch = Batch::new();
        for row in 0..MANY {
            let key = row.to_string();
            batch.push_row(0, Change::Put { key: key.as_bytes(), value: &[1], expire_at_ms: None });
        }
        partition.write(&batch).await.expect("no faults").await.expect("no faults");
        partition.seal();
        partition.settle().await;
        drop(partition);
        node.close().await.expect("no faults");
        drop(node);

        // After this, nothing is cached any more.
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        assert!(seen.partition.set(Arc::downgrade(&partition)).is_ok());
        let mut many = ManyRows::new(true);
        let commit = partition.transact(&mut many).await.expect("no faults");
        commit.expect("it has written").await.expect("no faults");
        assert_eq!(many.begun, 2);
        assert_eq!(middle_of(&partition).await, 2);
    });
    assert!(seen.reads.load(Ordering::Relaxed) > 0, "they were on the device");
    assert_eq!(seen.latched.load(Ordering::Relaxed), 0);
}

/// Notes what becomes of commands with many rows.
struct Noted {
    many: ManyRows,
    partition: Arc<Partition>,
    notes: Arc<Mutex<Vec<&'static str>>>,
}

impl Transaction for Noted {
    fn rows(&self) -> Vec<StoredKey> {
        self.many.rows()
    }

    fn may_begin_again(&self) -> bool {
        true
    }

    fn let_go(&mut self) {
        self.notes.lock().push("lets go");
    }

    fn ended(&mut self) {
        self.notes.lock().push("ended");
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        let is_in_order = self.partition.order.try_lock().is_none();
        self.notes.lock().push(if is_in_order { "runs in order" } else { "runs" });
        self.many.run(rows)
    }
}

#[test]
fn commands_of_many_rows_are_tried_out_inside_the_order_lock_and_keep_nothing_of_that() {
    let (sim, config) = (Sim::new(1), NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") });
    let machine = watched_machine(&sim, &Arc::default(), 0);
    sim.block_on(async {
        let node = Node::open(&config, machine).await.expect("no faults");
        let partition = node.default_partition().await.expect("no faults");
        let latched = || partition.order.lock().len();
        let mut first = ManyRows::new(false);
        let mut holder = Box::pin(partition.transact(&mut first));
        poll_fn(|task| {
            assert!(holder.as_mut().poll(task).is_pending());
            if latched() == MANY { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;

        let notes = Arc::<Mutex<Vec<_>>>::default();
        let many = ManyRows::new(true);
        let mut noted = Noted { many, partition: Arc::clone(&partition), notes: Arc::clone(&notes) };
        let mut run = pin!(partition.transact(&mut noted));
        for _ in 0..20 {
            let polled = poll_fn(|task| Poll::Ready(run.as_mut().poll(task)));
            assert!(polled.await.is_pending());
        }
        assert_eq!(*notes.lock(), ["runs in order", "lets go"], "it waits for its rows");
        let tasks = partition.tasks.load(Ordering::SeqCst);
        {
            // The client of a third goes away while it waits for its rows: this thread does not free all of these.
            let mut third = ManyRows::new(true);
            let mut run = pin!(partition.transact(&mut third));
            for _ in 0..20 {
                let polled = poll_fn(|task| Poll::Ready(run.as_mut().poll(task)));
                assert!(polled.await.is_pending());
            }
        }
        assert_eq!(partition.tasks.load(Ordering::SeqCst), tasks + 1, "a task frees the rest");
        drop(holder);
        run.await.expect("no faults").expect("it has written").await.expect("no faults");
        assert_eq!(*notes.lock(), ["runs in order", "lets go", "runs", "ended"]);
        // Each has read one row. What was read to try it out is not booked.
        assert_eq!(partition.account.booked().user(Direction::Read).ops, 2);
        assert_eq!(middle_of(&partition).await, 1);
    });
}
