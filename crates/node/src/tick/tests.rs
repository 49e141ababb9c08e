use std::sync::Arc;

use weir_admission::UnitLimits;
use weir_admission::cost::Capacity;
use weir_admission::policy::Violation;
use weir_io::Fs;
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_model::{Batch, TenantName};

use super::*;
use crate::config::{Bandwidth, Machine};
use crate::{Mover, Node, Profile, TenantSettings};

fn machine(sim: &Sim) -> Machine {
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 }
}

fn config() -> NodeConfig {
    let device = Limits::bytes(1_000_000_000);
    let bandwidth = Bandwidth { device, capacity: Capacity::default(), background: 60_000_000 };
    NodeConfig { bandwidth: Some(bandwidth), ..NodeConfig::new("/weir") }
}

#[test]
fn gates_follow_what_the_tenant_bought_while_the_partition_is_open() {
    // FX-10.
    let sim = Sim::new(1);
    let node = sim.block_on(Node::open(&config(), machine(&sim))).expect("the node opens");
    assert!(!node.gate().is_unlimited());
    let name = TenantName::built_in();
    let alter = |rcu, wcu| {
        let limits = UnitLimits { rcu, wcu, ..UnitLimits::default() };
        let change = move |settings: &mut TenantSettings| {
            settings.limits = limits;
            Ok::<_, weir_io::Error>(())
        };
        sim.block_on(node.alter_tenant(&name, change)).expect("altered");
    };
    alter(3000, 3000);
    drop(sim.block_on(node.default_partition()).expect("opens"));
    let slot = Arc::clone(&node.tenant(&name).expect("there").partitions()[0]);
    let gates = slot.reservation.gates().expect("open");
    // A tenth of a second of the foreground rate.
    let burst = || gates.foreground().burst_bytes(Direction::Read);
    assert_eq!(burst(), 51 * 102_400);
    assert!(gates.borrows() && !gates.background().is_unlimited());
    sim.run_until(sim.now() + 3 * Policy::PERIOD);
    assert_eq!(burst(), 51 * 102_400, "a tick changes nothing in front");
    alter(6000, 6000);
    assert_eq!(burst(), 102 * 102_400, "at once");
    alter(6000, 0);
    assert!(gates.foreground().is_unlimited() && !gates.borrows());
    sim.block_on(slot.sleep());
    alter(3000, 3000);
    sim.run_until(sim.now() + 3 * Policy::PERIOD);
    assert!(gates.foreground().is_unlimited(), "gates that nobody uses any more are left alone");
    assert!(slot.reservation.gates().is_none());
}

#[test]
fn the_profile_decides_whether_what_is_reserved_is_lent() {
    // C-9. What a tenant bought, or what all tenants were sold: it makes no difference.
    for (profile, lends) in [(Profile::FlexEngine, false), (Profile::Node, false), (Profile::Weir, true)] {
        let sim = Sim::new(4);
        let bandwidth = config().bandwidth.expect("limited");
        let bandwidth = Some(Bandwidth { capacity: Capacity { rcu: 3000, wcu: 3000 }, ..bandwidth });
        let config = NodeConfig { profile, bandwidth, ..config() };
        let node = sim.block_on(Node::open(&config, machine(&sim))).expect("the node opens");
        drop(sim.block_on(node.default_partition()).expect("opens"));
        let slot = Arc::clone(&node.tenant(&TenantName::built_in()).expect("there").partitions()[0]);
        let gates = slot.reservation.gates().expect("open");
        assert_eq!(gates.borrows(), lends, "{profile}, as it is opened");
        sim.run_until(sim.now() + 3 * Policy::PERIOD);
        assert!(!gates.foreground().is_unlimited() && gates.borrows() == lends, "{profile}, after three ticks");
    }
}

#[test]
fn without_limits_gates_stay_open() {
    let sim = Sim::new(2);
    let node = sim.block_on(Node::open(&NodeConfig::new("/weir"), machine(&sim))).expect("the node opens");
    drop(sim.block_on(node.default_partition()).expect("opens"));
    let slot = Arc::clone(&node.tenants()[0].partitions()[0]);
    sim.run_until(sim.now() + 3 * Policy::PERIOD);
    let gates = slot.reservation.gates().expect("open");
    assert!(node.gate().is_unlimited() && gates.foreground().is_unlimited() && gates.background().is_unlimited());
}

#[test]
fn a_flush_that_writes_will_wait_for_passes_as_foreground() {
    // U-11: with four memtables, from the second sealed one on; not where the paper says otherwise.
    for (profile, rushes) in [(Profile::Weir, true), (Profile::FlexEngine, false)] {
        let sim = Sim::new(3);
        let fs = SimFs::new(sim.clock(), DeviceSpec::shared(1_000_000), FaultPlan::none(), sim.rng());
        let machine = Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
        let mut config = NodeConfig { profile, segment_bytes: 1 << 20, ..config() };
        config.tree.write_buffer_bytes = 64 << 10;
        let node = sim.block_on(Node::open(&config, machine)).expect("the node opens");
        let partition = sim.block_on(node.default_partition()).expect("opens");
        sim.run_until(sim.now() + 2 * Policy::PERIOD);
        let slot = Arc::clone(&node.tenants()[0].partitions()[0]);
        let gates = slot.reservation.gates().expect("open");
        let mut seen = [false; 4];
        for item in 0..180_u32 {
            let mut batch = Batch::new();
            batch.put(&item.to_be_bytes(), &[7; 1000]);
            let _commit = sim.block_on(partition.write(&batch)).expect("no faults");
            seen[partition.engine.facts().shape().sealed] |= gates.flush_rushes();
        }
        assert_eq!(seen, [false, false, rushes, false], "{profile}");
        sim.block_on(partition.settle());
        assert!(!gates.flush_rushes());
    }
}

#[test]
fn pending_bytes_stall_nobody_until_the_debt_of_a_deferral_is_paid() {
    // U-7: a partition that rests in stage one may compact everything, and one on its way back still has the debt.
    let sim = Sim::new(3);
    let node = sim.block_on(Node::open(&config(), machine(&sim))).expect("the node opens");
    let partition = sim.block_on(node.default_partition()).expect("opens");
    sim.run_until(sim.now() + 2 * Policy::PERIOD);
    let decided = node.last_tick().expect("there was one");
    let stalls = policy::Stage::ALL.map(|stage| {
        let knobs = PartitionKnobs { stage, scope: policy::Scope::All, ..decided.decision.knobs.partitions[0] };
        partition.turn(&knobs);
        partition.engine.knobs().pending_stalls
    });
    assert_eq!(stalls, policy::Stage::ALL.map(|stage| stage == policy::Stage::Normal));
}

/// What a mover was told.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<Violation>>>);

impl Mover for Heard {
    fn hear(&self, violation: Option<&Violation>) {
        self.0.lock().push(violation.cloned());
    }
}

#[test]
fn what_was_decided_is_explained_and_is_decided_again() {
    let sim = Sim::new(4);
    let fs = SimFs::new(sim.clock(), DeviceSpec::shared(1_000_000), FaultPlan::none(), sim.rng());
    let machine = Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    let bandwidth = config().bandwidth.map(|bandwidth| Bandwidth { device: Limits::bytes(1_000_000), ..bandwidth });
    let mut config = NodeConfig { bandwidth, segment_bytes: 1 << 20, ..config() };
    config.tree.write_buffer_bytes = 64 << 10;
    config.tree.level1_bytes = 256 << 10;
    let node = sim.block_on(Node::open(&config, machine)).expect("the node opens");
    let partition = sim.block_on(node.default_partition()).expect("opens");
    let heard = Arc::new(Heard::default());
    node.set_mover(heard.clone());
    for second in 0..60_u32 {
        for item in 0..100_u32 {
            let mut batch = Batch::new();
            batch.put(&(second * 7919 + item * 104_729).to_be_bytes(), &[7; 1000]);
            let _commit = sim.block_on(partition.write(&batch)).expect("no faults");
        }
        sim.run_until(sim.now() + Policy::PERIOD);
    }
    let ticks = node.ticks();
    assert!(ticks.len() >= 60);
    let again = policy::replay(config.profile, settings(&config), ticks.iter().map(|tick| &tick.sample));
    assert!(ticks.iter().zip(&again).all(|(tick, again)| tick.decision == *again));
    let violations: Vec<_> = ticks.iter().filter_map(|tick| tick.decision.violation.clone().map(Some)).collect();
    let told: Vec<_> = heard.0.lock().iter().filter(|violation| violation.is_some()).cloned().collect();
    assert!(!violations.is_empty() && told == violations, "the mover hears of each, second by second");
    let named = violations[0].as_ref().and_then(|violation| violation.moves.first().map(|it| it.owner));
    assert_eq!(named, Some(partition.owner()));
    let said: Vec<String> = ticks.iter().filter_map(|tick| policy::explain(tick, partition.owner())).collect();
    assert!(
        said.iter().any(|said| said
            .starts_with("stage1: only compactions from level 0 to level 1 run, because the node's load needs")),
        "{said:#?}"
    );
    assert!(said.iter().any(|said| said.contains("It should leave this node")), "{said:#?}");
    let behaviour = node.behaviour();
    let changes = ticks.windows(2).filter(|pair| {
        let stages = [0, 1].map(|at| pair[at].decision.knobs.partitions.first().map(|knobs| knobs.stage));
        stages[0].is_some() && stages[0] != stages[1]
    });
    assert_eq!(behaviour.transitions.iter().sum::<u64>(), changes.count() as u64);
    assert!(behaviour.underused <= behaviour.backlogged && behaviour.backlogged > 0, "{behaviour:?}");
    sim.run_until(sim.now() + 60 * Policy::PERIOD);
    let ends: Vec<bool> = heard.0.lock().iter().map(Option::is_none).collect();
    assert!(ends.last() == Some(&true) && ends.windows(2).all(|pair| !(pair[0] && pair[1])), "and of each end, once");
}
