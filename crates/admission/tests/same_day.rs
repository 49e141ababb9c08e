//! One seed gives one run: the same load through the gates, run twice on the simulated disk, is the same to the
//! nanosecond.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use weir_admission::{Booked, Direction, GatedFs, Ledger, Limits, PartitionGate};
use weir_io::sim::{DeviceSpec, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{AlignedBuf, Class, Fs, OpenOptions, PAGE, Tag, sleep_until};

/// A second of eight partitions that read, log, flush and compact. Returns the hashes of everything that happened, and
/// the books.
fn day(seed: u64) -> (u64, u64, Booked) {
    let sim = Sim::new(seed);
    let rate = 200_000_000;
    let disk = SimFs::new(sim.clock(), DeviceSpec::shared(rate), FaultPlan::none(), sim.rng());
    let node = node_gate(&sim, Limits::bytes(rate / 10 * 9));
    let ledger = Ledger::new();
    for number in 0..8 {
        let gate = PartitionGate::new(owner(number), &sim.clock());
        gate.foreground().set_limits(Limits::bytes(20_000_000));
        gate.background().set_limits(Limits::bytes(40_000_000));
        node.set_weight(owner(number), Some(20_000_000));
        let inner = Arc::clone(&disk) as Arc<dyn Fs>;
        let fs = GatedFs::partition(inner, gate, Arc::clone(&node), &ledger, sim.spawner());
        let (clock, mut rng) = (sim.clock(), sim.rng());
        sim.spawn(async move {
            let options = OpenOptions::create_new();
            let open = fs.open(Path::new(&number.to_string()), options, Tag::new(owner(number), Class::Log));
            let file = open.await.expect("no faults");
            while clock.now() < SEC {
                let class = Class::ALL[rng.below(6) as usize];
                let (tag, offset) = (Tag::new(owner(number), class), rng.below(64) * PAGE as u64);
                let buf = AlignedBuf::with_len((1 + rng.below(64) as usize) * PAGE);
                match class {
                    Class::Read => file.read_at(offset, buf, tag).await.map(drop),
                    Class::Log => file.sync(tag).await,
                    _ => file.write_at(offset, buf, tag).await.map(drop),
                }
                .expect("no faults");
                sleep_until(&clock, clock.now() + rng.below(MS)).await;
            }
        });
    }
    // Everything that was begun in that second ends.
    sim.run_until(2 * SEC);
    let (total, counters) = (ledger.total(), disk.counters());
    // The ledger and the disk say the same, by cause.
    for class in Class::ALL {
        assert_eq!(total[(class, Direction::Read)].bytes, counters.get(class, OpKind::Read).bytes, "{class:?}");
        assert_eq!(total[(class, Direction::Write)].bytes, counters.get(class, OpKind::Write).bytes, "{class:?}");
    }
    (sim.event_hash(), disk.event_hash(), total)
}

#[test]
fn the_same_seed_gives_the_same_day() {
    assert_eq!(day(1), day(1));
    assert_ne!(day(1).0, day(2).0);
}
