//! Orders of operators, carried out on a real node.

use std::sync::Arc;

use crate::support::world::World;
use weir_gateway::admin::node::{Clients, DoorCounts, NodeOperator, SlowReply, TenantConnections};
use weir_gateway::admin::operator::Operator;
use weir_gateway::admin::wire::{Change, Settings};
use weir_gateway::auth::slow::SlowHash;
use weir_io::real::{RealClock, RealSpawn, block_on};

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
