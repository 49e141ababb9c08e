//! Bits that rot in a node's directory.

use weir_log::SyncMode;
use weir_sim::crash::Scenario;
use weir_sim::flip::Victim;
use weir_sim::life::Promise;
use weir_sim::node_store::{NodeStore, small};
use weir_sim::runner::Plan;

/// Every seventh byte is flipped; `weir sim flip` flips every byte of a larger database.
const STRIDE: u64 = 7;

#[test]
fn no_flipped_bit_is_believed() {
    let scenario = Scenario { options: small(SyncMode::Interval), promise: Promise::Durable, cuts: 0, plant: None };
    for closed in [true, false] {
        let victim = Victim::new::<NodeStore>(1, 150, closed, &scenario).expect("nothing fails");
        let plan = Plan { threads: 2, ..Plan::quiet(0..0) };
        let replay = |at| format!("weir sim flip --steps 150 --at {at}");
        match victim.flip_all::<NodeStore>(STRIDE, &plan, replay, &scenario) {
            Ok(flips) => {
                println!("closed {closed}: {} bytes, {flips}", victim.bytes());
                assert!(flips.refused > flips.flips / 10, "hardly anything was noticed: {flips}");
            }
            Err(failure) => panic!("closed {closed}: {failure}"),
        }
    }
}
