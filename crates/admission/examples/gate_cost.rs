//! What gates and quotas cost an I/O or a command that does not have to wait, in real time: `cargo run --release -p
//! weir-admission --example gate_cost`.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use weir_admission::{
    Direction, Gate, GateOptions, GatedFs, Ledger, Limits, PartitionGate, Quota, Rank, Unit, UnitLimits,
};
use weir_io::real::RealClock;
use weir_io::{
    AlignedBuf, BoxFuture, Class, Clock, DirEntry, Error, ErrorKind, File, Fs, FsLock, Op, OpenOptions, Owner, PAGE,
    Spawn, Tag,
};

const ROUNDS: u64 = 2_000_000;

/// A file system that does nothing, at once: what remains is the cost of the gates.
struct Null;

fn nothing<T>() -> Op<T> {
    Op::ready(Err(Error::new(ErrorKind::Invalid, "use", "null", "only an open file")))
}

impl Fs for Null {
    fn open(&self, _: &Path, _: OpenOptions, _: Tag) -> Op<Arc<dyn File>> {
        Op::ready(Ok(Arc::new(Null)))
    }
    fn rename(&self, _: &Path, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn hard_link(&self, _: &Path, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn remove(&self, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn create_dir_all(&self, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn remove_dir(&self, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn list(&self, _: &Path, _: Tag) -> Op<Vec<DirEntry>> {
        nothing()
    }
    fn sync_dir(&self, _: &Path, _: Tag) -> Op<()> {
        nothing()
    }
    fn lock(&self, _: &Path) -> Op<Box<dyn FsLock>> {
        nothing()
    }
}

impl File for Null {
    fn read_at(&self, _: u64, buf: AlignedBuf, _: Tag) -> Op<AlignedBuf> {
        Op::ready(Ok(buf))
    }
    fn write_at(&self, _: u64, buf: AlignedBuf, _: Tag) -> Op<AlignedBuf> {
        Op::ready(Ok(buf))
    }
    fn sync(&self, _: Tag) -> Op<()> {
        Op::ready(Ok(()))
    }
    fn allocate(&self, _: u64, _: Tag) -> Op<()> {
        Op::ready(Ok(()))
    }
    fn set_len(&self, _: u64, _: Tag) -> Op<()> {
        Op::ready(Ok(()))
    }
    fn len(&self) -> Op<u64> {
        Op::ready(Ok(0))
    }
    fn is_direct(&self) -> bool {
        true
    }
    fn read_unit(&self) -> usize {
        PAGE
    }
}

/// The best of five, in nanoseconds per round.
fn measure(clock: &dyn Clock, name: &str, mut round: impl FnMut()) {
    let best = (0..5)
        .map(|_| {
            let start = clock.now();
            (0..ROUNDS).for_each(|_| round());
            clock.now() - start
        })
        .min()
        .unwrap_or(0);
    println!("{name:<60} {:>7.1} ns", best as f64 / ROUNDS as f64);
}

/// Nothing here has to wait.
struct Never;

impl Spawn for Never {
    fn spawn(&self, _: BoxFuture<()>) {
        unreachable!("far below the limit")
    }
}

fn main() -> weir_io::Result<()> {
    let clock: Arc<dyn Clock> = RealClock::new();
    let owner = Owner { tenant: 1, partition: 1 };
    let far_above = Limits::bytes(1 << 40);
    for (name, limits) in [("unlimited", Limits::UNLIMITED), ("limited far above the load", far_above)] {
        let gate = Gate::new(Arc::clone(&clock), GateOptions::NODE.with_limits(limits));
        for rank in [Rank::Foreground, Rank::Flush] {
            measure(&*clock, &format!("gate, {name}, {rank:?}"), || {
                drop(black_box(gate.request(owner, rank, Direction::Read, 4096)));
            });
        }
    }
    for (name, units) in [("unlimited", 0), ("limited far above the load", 1 << 36)] {
        let limits = UnitLimits { rcu: units, wcu: units, ..UnitLimits::default() };
        let quota = Quota::new(Arc::clone(&clock), &limits);
        for (kind, actual) in [("of one unit", 1), ("of two units", 2)] {
            measure(&*clock, &format!("quota, {name}, a read {kind} admitted and settled"), || {
                if black_box(&quota).try_admit(Unit::Read, 1) {
                    quota.settle(Unit::Read, 0, 1, actual);
                }
            });
        }
    }
    let mut buf = Some(AlignedBuf::with_len(4096));
    let mut write = |file: &dyn File, class| {
        if let Op::Ready(Some(Ok(back))) = file.write_at(0, buf.take().unwrap_or_default(), Tag::new(owner, class)) {
            buf = Some(back);
        }
    };
    measure(&*clock, "write, no gates", || write(black_box(&Null), Class::Log));
    for (name, limits) in [("unlimited", Limits::UNLIMITED), ("limited far above the load", far_above)] {
        let partition = PartitionGate::new(owner, &clock);
        partition.foreground().set_limits(limits);
        partition.background().set_limits(limits);
        let node = Gate::new(Arc::clone(&clock), GateOptions::NODE.with_limits(limits));
        let fs = GatedFs::partition(Arc::new(Null), partition, node, &Ledger::new(), Arc::new(Never));
        let Op::Ready(Some(file)) = fs.open(Path::new(""), OpenOptions::read(), Tag::new(owner, Class::Log)) else {
            unreachable!("the null disk never waits")
        };
        let file = file?;
        for class in [Class::Log, Class::Flush] {
            measure(&*clock, &format!("write, both gates and the ledger, {name}, {}", class.name()), || {
                write(black_box(&*file), class);
            });
        }
    }
    Ok(())
}
