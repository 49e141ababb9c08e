//! Orders of operators, carried out on a real node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::world::{World, name};
use weir_gateway::admin::bill::Bill;
use weir_gateway::admin::node::{Clients, DoorCounts, NodeOperator, SlowReply, TenantConnections};
use weir_gateway::admin::operator::Operator;
use weir_gateway::admin::wire::{Change, Settings};
use weir_gateway::auth::slow::SlowHash;
use weir_gateway::tenant::account::Costs;
use weir_io::Rng;
use weir_io::real::{RealClock, RealSpawn, block_on};
use weir_io::sim::{DeviceSpec, Fault, FaultPlan, OpKind, SimFs};
use weir_node::request_units::Price;
use weir_node::{Machine, Node, NodeConfig, TenantSpec};

/// A gateway without clients.
struct Nobody;

impl Clients for Nobody {
    fn counts(&self) -> DoorCounts {
        DoorCounts::default()
    }

    fn slow_replies(&self, _: u32) -> Vec<SlowReply> {
        Vec::new()
    }

    fn connections(&self, _: u32) -> TenantConnections {
        TenantConnections::default()
    }
}

fn operator(world: &World) -> NodeOperator {
    let (slow, aside) = (SlowHash::new(Arc::new(RealSpawn::new(1, 0))), Arc::new(RealSpawn::new(1, 0)));
    NodeOperator::new(Arc::clone(&world.node), RealClock::new(), slow, aside, Nobody)
}

#[test]
fn two_who_alter_a_tenant_at_the_same_time_lose_nothing() {
    let world = World::new();
    drop(world.tenant("shop", 1, 0));
    let operator = operator(&world);
    let change = |settings| operator.alter("shop".into(), Change { settings, ..Change::default() });
    for round in 1..20 {
        let first = change(Settings { rcu: Some(round), ..Settings::default() });
        let second = change(Settings { wcu: Some(round), ..Settings::default() });
        let (first, second) = block_on(futures_util::future::join(first, second));
        assert!(first.is_ok() && second.is_ok());
        let settings = operator.tenant("shop").expect("there").settings;
        assert_eq!((settings.rcu, settings.wcu), (Some(round), Some(round)));
    }
    // An invalid order changes nothing.
    let both = Settings {
        on_limit: Some(weir_gateway::admin::wire::OnLimit::Refuse),
        delay_max_ms: Some(5),
        ..Settings::default()
    };
    assert!(block_on(change(both)).is_err());
    assert_eq!(operator.tenant("shop").expect("there").settings.rcu, Some(19));
}

#[test]
fn long_answers_are_written_by_another_thread() {
    let world = World::new();
    let operator = operator(&world);
    let answers = block_on(futures_util::future::join(operator.recording(), operator.ledger_csv()));
    assert!(answers.0.is_ok_and(|json| json.starts_with('{')) && answers.1.is_ok_and(|csv| csv.starts_with("tenant")));
}

#[test]
fn the_lines_of_the_ledger_add_up_after_a_drop() {
    let world = World::new();
    let operator = operator(&world);
    for name in ["shop", "mall"] {
        assert_eq!(world.tenant(name, 1, 0).say("SET key value"), "+OK\r\n");
    }
    let written = |csv: &str, name: &str| -> Option<u64> {
        let column = csv.lines().next()?.split(',').position(|column| column == "device_written_bytes")?;
        let line = csv.lines().find(|line| line.split(',').nth(1) == Some(name))?;
        line.split(',').nth(column)?.parse().ok()
    };
    let before = block_on(operator.ledger_csv()).expect("the books");
    assert!(written(&before, "shop").is_some_and(|bytes| bytes > 0) && written(&before, "(dropped)").is_none());
    block_on(operator.drop_tenant("shop".to_owned())).expect("it is there");
    let after = block_on(operator.ledger_csv()).expect("the books");
    assert_eq!(written(&after, "shop"), None);
    assert!(written(&after, "(dropped)") >= written(&before, "shop"), "{after}");
    assert!(after.lines().last().is_some_and(|line| line.starts_with(",(dropped),")), "{after}");
}

#[test]
fn minutes_that_are_billed_late_are_those_of_the_tenants_that_were_there() {
    let clock = RealClock::new();
    let fs = SimFs::new(clock.clone(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(7));
    let machine = Machine { fs: fs.clone(), clock: clock.clone(), spawn: Arc::new(RealSpawn::new(1, 0)), salt: 1 };
    let node = block_on(Node::open(&NodeConfig::new(PathBuf::from("node")), machine));
    let node = Arc::new(node.expect("the node opens"));
    let create = |tenant| drop(block_on(node.create_tenant(TenantSpec::new(name(tenant)))).expect("created"));
    create("old");
    // Every tenant has run another command whenever somebody looks.
    let commands = AtomicU64::new(0);
    let costs = move || {
        let commands = commands.fetch_add(1, Ordering::Relaxed) + 1;
        let cost = |id| (id, Costs { name: Arc::from("any"), commands, price: Price::default() });
        (0..100).map(cost).collect::<BTreeMap<u32, Costs>>()
    };
    let bill = block_on(Bill::open(Arc::clone(&node), clock, Box::new(costs)));
    assert!(block_on(bill.record(1)).is_ok());
    fs.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::Error, 1.0));
    assert!((0..2).all(|_| block_on(bill.record(1)).is_err()));
    fs.set_faults(FaultPlan::none());
    create("new");
    assert!(block_on(bill.record(1)).is_ok());
    let lines = block_on(bill.lines(0, u64::MAX)).expect("a bill").lines;
    // An hour may end while the test runs.
    let minutes = |name| lines.iter().filter(|line| line.name == name).map(|line| line.minutes).sum::<u64>();
    assert_eq!([minutes("old"), minutes("new")], [4, 1], "{lines:?}");
    drop(bill);
    block_on(node.close()).expect("closed");
}
