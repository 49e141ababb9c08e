//! The contract of every log, tested on the log in segments, on a member of a shared log, and on one written outside
//! the crate.

mod memory;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures_util::future::{join, join_all};
use memory::MemoryLog;
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, Keep, OpKind, Sim, SimFs};
use weir_io::{Error, ErrorKind, Fs, Op, Owner, Rng};
use weir_log::{Commit, Log, LogOptions, MemberOpening, SharedLog, SharedOptions, SyncMode, WriteAheadLog};

use crate::shared::Claimed;

/// A log and its surroundings.
struct World {
    name: &'static str,
    sim: Sim,
    log: Arc<dyn WriteAheadLog>,
    /// Makes the next write fail.
    fail_next: Box<dyn Fn()>,
    /// How many records, files or bytes the log keeps.
    kept: Box<dyn Fn() -> usize>,
}

impl World {
    fn memory() -> Self {
        let sim = Sim::new(1);
        let log = MemoryLog::new(sim.clock());
        let (failing, keeping) = (log.clone(), log.clone());
        Self {
            name: "memory",
            sim,
            log: Arc::new(log),
            fail_next: Box::new(move || failing.fail_next()),
            kept: Box::new(move || keeping.kept()),
        }
    }

    fn disk(sync: SyncMode) -> (Sim, Arc<SimFs>, LogOptions) {
        let sim = Sim::new(1);
        let device = DeviceSpec { latency: 50_000, sync_latency: 20_000, ..DeviceSpec::shared(100 << 20) };
        let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
        let options = LogOptions { sync, segment_bytes: 32 << 10, ..LogOptions::new(Owner::default(), 1) };
        (sim, fs, options)
    }

    /// A member beside another one, which has written one record and then rests.
    fn member(name: &'static str, sync: SyncMode) -> Self {
        let (sim, fs, options) = Self::disk(sync);
        let (disk, options) = (Arc::clone(&fs) as Arc<dyn Fs>, SharedOptions { log: options, cap_bytes: u64::MAX });
        let log = sim.block_on(async {
            let log = SharedLog::open(disk, Path::new("log"), options, 0, &|_| true, Arc::<Claimed>::default()).await?;
            let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
            let opening =
                |member| MemberOpening { member, identity: 1, owner: Owner::default(), persisted: 0, durable: 0 };
            let (other, _) = log.member(opening(3), &mut replay).await?;
            let index = other.append(b"another's")?;
            other.commit(index).await?;
            other.truncate(index).await?;
            other.sync().await?;
            log.member(opening(7), &mut replay).await
        });
        let (log, _) = log.expect("a fresh disk");
        let keeping = log.clone();
        Self {
            name,
            sim,
            log: Arc::new(log),
            fail_next: Box::new(move || fs.fail_next(Some(OpKind::Write), Fault::Error)),
            kept: Box::new(move || keeping.stats().live_bytes as usize),
        }
    }

    fn segments(name: &'static str, sync: SyncMode) -> Self {
        let (sim, fs, options) = Self::disk(sync);
        let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
        let opened = Log::open(Arc::clone(&fs) as Arc<dyn Fs>, Path::new("log"), options, 0, &mut replay);
        let (log, _) = sim.block_on(opened).expect("a fresh disk");
        let keeping = Arc::clone(&fs);
        Self {
            name,
            sim,
            log: Arc::new(log),
            fail_next: Box::new(move || fs.fail_next(Some(OpKind::Write), Fault::Error)),
            kept: Box::new(move || keeping.crash_keeping(Keep::All, &mut Rng::new(1)).files().len()),
        }
    }

    fn append(&self, payload: &[u8]) -> u64 {
        self.log.append(payload).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn commit(&self, index: u64) -> weir_io::Result<()> {
        self.sim.block_on(Commit::new(&*self.log, index))
    }

    /// Appends and commits, both of which must succeed.
    fn write(&self, payload: &[u8]) -> u64 {
        let index = self.append(payload);
        self.commit(index).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        index
    }
}

fn worlds() -> [World; 5] {
    [
        World::memory(),
        World::segments("always", SyncMode::Always),
        World::segments("interval", SyncMode::Interval),
        World::member("member, always", SyncMode::Always),
        World::member("member, interval", SyncMode::Interval),
    ]
}

fn refusal() -> Error {
    Error::new(ErrorKind::NoSpace, "edit", "the catalogue", "planned")
}

#[test]
fn records_are_numbered_and_committed_in_order() {
    for world in worlds() {
        let log = &world.log;
        let indexes: Vec<u64> = (0..5).map(|byte| world.append(&[byte; 100])).collect();
        assert_eq!(indexes, [1, 2, 3, 4, 5], "{}", world.name);
        assert_eq!((log.last(), log.stats().records, log.stats().committed), (5, 5, 0), "{}", world.name);
        world.commit(4).expect("nothing fails");
        assert!(log.stats().committed >= 4, "{}", world.name);
        world.sim.block_on(join_all(indexes.iter().rev().map(|&index| async move {
            Commit::new(&**log, index).await.expect("nothing fails");
        })));
        assert_eq!(log.stats().committed, 5, "{}", world.name);
        world.sim.block_on(log.sync()).expect("nothing fails");
        assert!(log.is_durable() && log.stats().durable == 5, "{}", world.name);
    }
}

#[test]
fn one_who_gives_up_waiting_leaves_nothing_behind_and_nobody_stuck() {
    struct Bell;
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {}
    }
    for world in worlds() {
        let log = &*world.log;
        world.append(b"one");
        let (first, last) = (world.append(b"two"), world.append(b"three"));
        let bell = Arc::new(Bell);
        let waker = Waker::from(Arc::clone(&bell));
        let given_up = async {
            let mut commit = Box::pin(Commit::new(log, first));
            // The first poll begins the write; nobody polls this commit again.
            let _ = commit.as_mut().poll(&mut Context::from_waker(&waker));
        };
        let (outcome, ()) = world.sim.block_on(join(Commit::new(log, last), given_up));
        outcome.unwrap_or_else(|error| panic!("{}: {error}", world.name));
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "{}: the log still has its waker", world.name);
    }
}

#[test]
fn a_failure_fences_what_was_not_committed_until_the_log_is_replaced() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        let kept = world.write(b"kept");
        (world.fail_next)();
        let lost = world.append(b"lost");
        world.commit(lost).expect_err("the write fails");
        assert!(log.failure().is_some(), "{name}");
        assert!(log.append(b"refused").is_err(), "{name}: a fenced log takes nothing");
        world.commit(kept).expect("what was committed stays so");
        let early = world.sim.block_on(log.replace(kept)).expect_err("not everything is persisted");
        assert_eq!(early.kind(), ErrorKind::Invalid, "{name}");
        world.sim.block_on(log.replace(lost)).expect("everything is persisted");
        assert_eq!((log.failure().is_none(), log.stats().failures), (true, 1), "{name}");
        assert_eq!(world.write(b"goes on"), lost + 1, "{name}");
    }
}

#[test]
fn a_log_that_is_told_to_refuse_does_until_it_is_replaced() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        let kept = world.write(b"kept");
        log.refuse(refusal());
        let error = log.append(b"refused").expect_err("it was told to refuse");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{name}");
        world.commit(kept).expect("what was committed stays so");
        world.sim.block_on(log.replace(kept)).expect("everything is persisted");
        assert_eq!(world.write(b"goes on"), kept + 1, "{name}");
    }
}

#[test]
fn a_sync_of_everything_counts_only_if_it_succeeded() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        world.write(b"record");
        if log.is_durable() {
            assert!(log.begin_outside_sync().is_none(), "{name}: nothing is left to sync");
            continue;
        }
        let part = log.begin_outside_sync().expect("a record to sync");
        assert!(log.begin_outside_sync().is_none(), "{name}: one at a time");
        drop(part);
        assert!(!log.is_durable(), "{name}");
        let part = log.begin_outside_sync().expect("the sync before has failed");
        let later = world.write(b"later");
        part.succeeded();
        assert_eq!(log.stats().durable, later - 1, "{name}: what was written later is not covered");
        log.begin_outside_sync().expect("a later record").succeeded();
        assert!(log.is_durable(), "{name}");
    }
}

#[test]
fn truncation_gives_back_what_the_engine_holds() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        let last = (0..200).map(|_| world.write(&[7; 1000])).last().expect("some records");
        let before = log.stats().live_bytes;
        assert!(!log.would_truncate(0), "{name}");
        assert!(log.would_truncate(last), "{name}");
        world.sim.block_on(log.truncate(last)).expect("nothing fails");
        assert!(!log.would_truncate(last), "{name}");
        assert!(log.stats().live_bytes < before, "{name}");
        assert_eq!(world.write(b"goes on"), last + 1, "{name}");
    }
}

#[test]
fn maintenance_ends_what_nobody_waits_for() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        world.write(b"the first makes the segment");
        let last = (0..3).map(|_| world.append(&[7; 1000])).last().expect("some records");
        assert!(log.wants_maintenance(), "{name}");
        while log.wants_maintenance() {
            world.sim.block_on(log.maintain()).expect("nothing fails");
        }
        assert_eq!(log.stats().committed, last, "{name}");
    }
}

#[test]
fn a_closed_log_is_durable_and_takes_nothing() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        world.append(b"nobody waits for this one");
        world.sim.block_on(log.close()).expect("nothing fails");
        assert!(log.is_durable(), "{name}");
        assert_eq!(log.append(b"late").expect_err("it is closed").kind(), ErrorKind::Invalid, "{name}");
    }
}

#[test]
fn a_log_is_removed_when_it_is_closed_and_the_engine_holds_everything() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        world.write(b"one");
        let last = world.write(b"two");
        let remove = |persisted| world.sim.block_on(log.remove(persisted)).map_err(|error| error.kind());
        assert_eq!(remove(last), Err(ErrorKind::Invalid), "{name}: it is open");
        world.sim.block_on(log.close()).expect("nothing fails");
        assert_eq!(remove(last - 1), Err(ErrorKind::Invalid), "{name}: one record is nowhere else");
        assert!((world.kept)() > 0, "{name}");
        remove(last).expect("nothing fails");
        assert_eq!((world.kept)(), 0, "{name}");
    }
}

#[test]
fn a_log_whose_closing_failed_goes_on_when_it_is_replaced() {
    for world in worlds() {
        let (log, name) = (&world.log, world.name);
        world.write(b"kept");
        (world.fail_next)();
        let lost = world.append(b"lost");
        world.sim.block_on(log.close()).expect_err("the write fails");
        assert!(log.append(b"refused").is_err(), "{name}");
        world.sim.block_on(log.replace(lost)).expect("everything is persisted");
        assert_eq!(world.write(b"goes on"), lost + 1, "{name}");
        world.sim.block_on(log.close()).expect("nothing fails any more");
        assert!(log.is_durable(), "{name}");
    }
}
