//! Writes that wait for room while flushes fail.

use weir_admission::GateOptions;
use weir_io::ErrorKind;
use weir_io::sim::Sim;

use super::*;

const MS: Nanos = 1_000_000;
const CAPACITY: u64 = 100_000;

/// The memtables of a partition whose flushes end when the test says so.
struct Owned {
    owner: Owner,
    bytes: Mutex<UnflushedMemory>,
    booking: Arc<dyn Memory>,
    /// What happens when somebody asks for the bytes next.
    when_asked: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl MemtableOwner for Owned {
    fn owner(&self) -> Owner {
        self.owner
    }

    fn memtable_bytes(&self) -> UnflushedMemory {
        let happens = self.when_asked.lock().take();
        if let Some(happens) = happens {
            happens();
        }
        *self.bytes.lock()
    }

    fn seal_memtables(self: Arc<Self>) {
        let mut bytes = self.bytes.lock();
        *bytes = UnflushedMemory { held: 0, leaving: bytes.leaving + bytes.held, since: bytes.since };
    }
}

struct World {
    sim: Sim,
    memory: Arc<WriteMemory>,
    partitions: Vec<Arc<Owned>>,
}

impl World {
    /// A write memory that is used up by tenants from 1 on, with these bytes `(held, leaving)`.
    fn new(bytes: &[(u64, u64)]) -> Self {
        let sim = Sim::new(1);
        let gate = Gate::new(sim.clock(), GateOptions::NODE);
        let shares = WriteShares::new(CAPACITY, ShareMode::Fair, Arc::default());
        let memory = WriteMemory::new(CAPACITY, shares, sim.clock(), &gate);
        let own = |(tenant, &(held, leaving)): (u32, &(u64, u64))| {
            let owner = Owner { tenant, partition: tenant };
            let booking = memory.booking(tenant);
            booking.take((held + leaving) as usize);
            let bytes = Mutex::new(UnflushedMemory { held, leaving, since: 0 });
            let owned = Arc::new(Owned { owner, bytes, booking, when_asked: Mutex::default() });
            let dynamic: Arc<dyn MemtableOwner> = owned.clone();
            memory.register(Arc::downgrade(&dynamic), owner);
            owned
        };
        let partitions: Vec<_> = (1..).zip(bytes).map(own).collect();
        memory.turn();
        sim.spawn(keep(Arc::downgrade(&memory), sim.clock()));
        Self { sim, memory, partitions }
    }

    /// A write of `tenant` that waits for room. Gives whether it got some, once that is decided.
    fn write(&self, tenant: u32) -> Arc<Mutex<Option<bool>>> {
        let (memory, outcome) = (Arc::clone(&self.memory), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&outcome);
        self.sim.spawn(async move {
            let room = memory.room(tenant, 1_000, || false).await;
            *told.lock() = Some(room.is_ok());
        });
        self.pass();
        outcome
    }

    fn pass(&self) {
        self.sim.run_until(self.sim.now() + 50 * MS);
    }

    fn flush_fails(&self, place: usize) {
        let error = Error::new(ErrorKind::NoSpace, "write", "/weir/table", "the disk is full");
        self.memory.flush_failed(self.partitions[place].owner, &error);
        self.pass();
    }

    fn flush_succeeds(&self, place: usize) {
        let partition = &self.partitions[place];
        let leaving = std::mem::take(&mut partition.bytes.lock().leaving);
        partition.booking.give_back(leaving as usize);
        self.memory.flush_succeeded(partition.owner);
        self.pass();
    }
}

#[test]
fn a_flush_that_fails_refuses_the_waiting_writes_of_its_own_tenant_alone() {
    let world = World::new(&[(0, 60_000), (0, 40_000)]);
    let (own, other) = (world.write(1), world.write(3));
    world.flush_fails(0);
    assert_eq!((*own.lock(), *other.lock()), (Some(false), None), "the second tenant's flush is on its way");
    world.flush_succeeds(1);
    assert_eq!(*other.lock(), Some(true));
}

#[test]
fn whoever_waits_beside_flushes_that_fail_is_helped_by_others_or_refused() {
    let world = World::new(&[(0, 60_000), (40_000, 0)]);
    let (second, third) = (world.write(2), world.write(3));
    assert_eq!(world.partitions[1].memtable_bytes().held, 40_000, "a flush is on its way");
    world.flush_fails(0);
    assert_eq!(world.partitions[1].memtable_bytes().leaving, 40_000, "the only one that may succeed");
    assert_eq!((*second.lock(), *third.lock()), (None, None));
    world.flush_fails(1);
    assert_eq!((*second.lock(), *third.lock()), (Some(false), Some(false)), "nothing is left to wait for");
    let later = world.write(3);
    assert_eq!(*later.lock(), None);
    world.flush_fails(0);
    assert_eq!(*later.lock(), Some(false));
}

#[test]
fn a_partition_that_falls_asleep_still_gives_its_memory_back() {
    let world = World::new(&[(0, 60_000), (0, 40_000)]);
    let waiting = world.write(3);
    world.memory.leave(world.partitions[1].owner);
    world.flush_fails(0);
    assert_eq!(*waiting.lock(), None, "the last flush of the partition that falls asleep is on its way");
    world.flush_succeeds(1);
    assert_eq!(*waiting.lock(), Some(true));
}

#[test]
fn a_partition_that_is_opened_again_does_not_count_as_failing() {
    let world = World::new(&[(0, 60_000), (40_000, 0)]);
    world.flush_fails(1);
    let waiting = world.write(2);
    world.memory.leave(world.partitions[1].owner);
    let opened: Arc<dyn MemtableOwner> = world.partitions[1].clone();
    world.memory.register(Arc::downgrade(&opened), opened.owner());
    world.flush_fails(0);
    assert_eq!(world.partitions[1].memtable_bytes().leaving, 40_000, "it is flushed for its own write");
    world.flush_succeeds(1);
    assert_eq!(*waiting.lock(), Some(true));
}

#[test]
fn a_partition_that_is_opened_while_the_keeper_looks_is_not_missed() {
    let world = World::new(&[(0, 60_000), (0, 40_000)]);
    let waiting = world.write(3);
    world.memory.leave(world.partitions[1].owner);
    let memory = Arc::clone(&world.memory);
    let opened: Arc<dyn MemtableOwner> = world.partitions[1].clone();
    let opens = move || memory.register(Arc::downgrade(&opened), opened.owner());
    *world.partitions[0].when_asked.lock() = Some(Box::new(opens));
    world.flush_fails(0);
    assert!(world.partitions[0].when_asked.lock().is_none(), "the keeper has looked");
    assert_eq!(*waiting.lock(), None, "the flush of the partition that was opened is on its way");
    world.flush_succeeds(1);
    assert_eq!(*waiting.lock(), Some(true));
}
