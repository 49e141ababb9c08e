//! The node's queues of requests in virtual time (XS-27): which request passes when, in which order, and which is
//! refused.

use std::sync::Arc;

use crate::common::*;
use parking_lot::Mutex;
use proptest::prelude::*;
use weir_admission::{Access, NodeQueue, NodeUnits, Quota, RequestOrder, Unit, UnitLimits};
use weir_io::sim::Sim;
use weir_io::{Nanos, sleep_until};

/// A request: its tenant, its access, its units and its time.
#[derive(Clone, Copy, Debug)]
struct Ask {
    tenant: u32,
    access: Access,
    milli_units: u64,
    at: Nanos,
}

/// What became of a request: when it passed, or that it was refused.
type Outcome = (Ask, Result<Nanos, u64>);

/// Runs `asks` on a node with `rate` thousandths of units a second. Gives the outcomes in the order of their times.
fn run(rate: u64, order: RequestOrder, asks: &[Ask]) -> Vec<Outcome> {
    let sim = Sim::new(5);
    let queue = NodeQueue::new(sim.clock());
    queue.set(Some(rate), order);
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    for &ask in asks {
        let (queue, clock, outcomes) = (Arc::clone(&queue), sim.clock(), Arc::clone(&outcomes));
        sim.spawn(async move {
            sleep_until(&clock, ask.at).await;
            let answer = queue.enter(ask.access, ask.tenant, ask.milli_units).await;
            outcomes.lock().push((ask, answer.map(|()| clock.now()).map_err(|busy| busy.retry_in_ms)));
        });
    }
    sim.run_until(100 * SEC);
    assert_eq!(queue.waiting(), [0, 0]);
    Arc::into_inner(outcomes).expect("all have ended").into_inner()
}

fn many(count: usize, ask: Ask) -> Vec<Ask> {
    vec![ask; count]
}

const READ: Ask = Ask { tenant: 1, access: Access::Read, milli_units: 1000, at: 0 };
const WRITE: Ask = Ask { access: Access::Write, ..READ };

/// `r` and `w` in the order in which they passed.
fn letters(outcomes: &[Outcome]) -> String {
    let passed = outcomes.iter().filter(|(_, outcome)| outcome.is_ok());
    passed.map(|(ask, _)| if ask.access == Access::Read { 'r' } else { 'w' }).collect()
}

#[test]
fn below_the_threshold_nobody_waits() {
    // 100 requests a second come evenly, reads and writes; 120 may come.
    let asks: Vec<Ask> =
        (0..500).map(|number| Ask { at: number * 10 * MS, ..if number % 2 == 0 { READ } else { WRITE } }).collect();
    for (ask, passed) in run(120_000, RequestOrder::WritesFirst, &asks) {
        assert_eq!(passed, Ok(ask.at));
    }
}

#[test]
fn above_it_the_queues_go_in_the_order_that_was_asked_for() {
    // Ten units are there at once, and are used. After that one unit comes every 10 ms.
    let first = Ask { milli_units: 10_000, ..READ };
    let at = |ask| Ask { at: 1, ..ask };
    let asks = [vec![first], many(30, at(READ)), many(30, at(WRITE))].concat();
    let outcomes = run(100_000, RequestOrder::WritesFirst, &asks);
    assert_eq!(letters(&outcomes), ["r", &"wwwwwwwwwr".repeat(3), "www", &"r".repeat(27)].concat());
    for (number, (_, passed)) in (0..).zip(&outcomes) {
        assert_eq!(*passed, Ok(number * 10 * MS), "number {number}");
    }
    let outcomes = run(100_000, RequestOrder::InTurn, &asks);
    assert_eq!(letters(&outcomes), ["r", &"wr".repeat(30)].concat());
}

#[test]
fn a_noisy_neighbour_waits_for_itself() {
    // One tenant asks for 2,000 units at once, where 100 come in a second; the other for ten a second, from 200 ms on.
    let noisy = many(2000, READ);
    let tame = (0..5).map(|number| Ask { tenant: 2, at: 200 * MS + number * 100 * MS, ..READ });
    let asks: Vec<Ask> = noisy.into_iter().chain(tame).collect();
    let outcomes = run(100_000, RequestOrder::InTurn, &asks);
    for (ask, passed) in outcomes.iter().filter(|(ask, _)| ask.tenant == 2) {
        let waited = passed.expect("within a second") - ask.at;
        assert!(waited <= 20 * MS, "waited {waited} ns");
    }
    // A request that has waited for a second is told when to come again.
    let refused: Vec<_> = outcomes.iter().filter_map(|(_, outcome)| outcome.err()).collect();
    assert_eq!(refused.len(), 2000 - 10 - (99 - 5), "what did not come in a second");
    assert!(refused.iter().all(|retry_in_ms| (1..=20_000).contains(retry_in_ms)), "{refused:?}");
}

#[test]
fn what_shows_afterwards_is_a_debt_of_the_node() {
    let sim = Sim::new(1);
    let queue = NodeQueue::new(sim.clock());
    queue.set(Some(100_000), RequestOrder::InTurn);
    assert!(!queue.enter(Access::Read, 1, 1000).waits());
    // It has cost 50 units: half a second's worth, less the nine that are there.
    queue.settle(1000, 50_000);
    let waiting = queue.enter(Access::Read, 1, 1000);
    assert!(waiting.waits());
    let clock = sim.clock();
    let passed = sim.block_on(async move { waiting.await.map(|()| clock.now()) });
    assert_eq!(passed, Ok(410 * MS));
    // What is given back is there for the next.
    queue.settle(1000, 0);
    assert!(!queue.enter(Access::Write, 1, 1000).waits());
    // A request that gives up leaves its place.
    let (first, second) = (queue.enter(Access::Write, 1, 1000), queue.enter(Access::Write, 1, 1000));
    assert_eq!(queue.waiting(), [0, 2]);
    drop(first);
    assert_eq!(queue.waiting(), [0, 1]);
    // Without a threshold all requests pass.
    queue.set(None, RequestOrder::InTurn);
    assert_eq!((queue.waiting(), queue.is_on()), ([0, 0], false));
    drop(second);
    assert_eq!(queue.stats().map(|stats| stats.refused), [0, 0]);
}

#[test]
fn a_long_command_keeps_others_waiting_for_half_a_second_at_most() {
    let sim = Sim::new(1);
    let queue = NodeQueue::new(sim.clock());
    queue.set(Some(100_000), RequestOrder::InTurn);
    assert!(!queue.enter(Access::Read, 1, 1000).waits());
    // A hundred seconds' units, and as much again.
    (0..2).for_each(|_| queue.settle(1000, 10_000_000));
    let (waiting, clock) = (queue.enter(Access::Read, 2, 1000), sim.clock());
    let passed = sim.block_on(async move { waiting.await.map(|()| clock.now()) });
    assert_eq!(passed, Ok(510 * MS));
}

#[test]
fn a_command_that_is_dear_from_the_start_keeps_others_waiting_no_longer() {
    // A hundred seconds' units: of a request that passes at once, and of one that has waited for its turn.
    let dear = Ask { milli_units: 10_000_000, ..READ };
    let (first, other) = (Ask { tenant: 3, ..READ }, Ask { tenant: 2, ..READ });
    let passed = |asks: &[Ask]| -> Vec<_> {
        run(100_000, RequestOrder::InTurn, asks).iter().map(|(ask, passed)| (ask.tenant, *passed)).collect()
    };
    assert_eq!(passed(&[dear, Ask { at: 1, ..other }]), [(1, Ok(0)), (2, Ok(510 * MS))]);
    let asks = [first, Ask { at: 1, ..dear }, Ask { at: 20 * MS, ..other }];
    assert_eq!(passed(&asks), [(3, Ok(0)), (1, Ok(10 * MS)), (2, Ok(520 * MS))]);
}

#[test]
fn a_dear_command_gives_back_no_more_than_it_took() {
    // It was charged a hundred seconds' units, and took those of half a second and the ten that were there.
    for (actual, passed) in [(9_000_000, 510 * MS), (60_000, 510 * MS), (40_000, 310 * MS), (0, 0)] {
        let sim = Sim::new(1);
        let queue = NodeQueue::new(sim.clock());
        queue.set(Some(100_000), RequestOrder::InTurn);
        assert!(!queue.enter(Access::Read, 1, 10_000_000).waits());
        queue.settle(10_000_000, actual);
        let (next, clock) = (queue.enter(Access::Read, 2, 1000), sim.clock());
        let at = sim.block_on(async move { next.await.map(|()| clock.now()) });
        assert_eq!(at, Ok(passed), "it has cost {actual}");
    }
}

#[test]
fn requests_wait_from_four_fifths_of_what_the_machine_has() {
    // U-18: of 125 units a second 100, of which a tenth is there at once.
    let sim = Sim::new(1);
    let node = NodeUnits::new(sim.clock());
    let enter = |access| node.queue().enter(access, 1, 1000);
    assert!((0..1000).all(|_| !enter(Access::Read).waits()), "nothing was set");
    node.set_queues(125_000, Some(RequestOrder::WritesFirst));
    assert_eq!((0..20).filter(|_| !enter(Access::Read).waits()).count(), 10);
    let (read, write) = (enter(Access::Read), enter(Access::Write));
    sim.run_until(11 * MS);
    assert_eq!(node.queue().waiting(), [1, 0], "the write goes first");
    node.set_queues(125_000, None);
    assert_eq!((node.queue().waiting(), node.queue().is_on()), ([0, 0], false));
    drop((read, write));
    node.set_queues(u64::MAX, Some(RequestOrder::InTurn));
    assert!(node.queue().is_on() && (0..1000).all(|_| !enter(Access::Write).waits()));
}

#[test]
fn a_tenant_enters_by_its_quota_where_the_node_has_queues() {
    let sim = Sim::new(1);
    let node = NodeUnits::new(sim.clock());
    let quota = Quota::on_node(sim.clock(), &UnitLimits::default(), Arc::clone(&node));
    assert!(quota.is_free() && !quota.counts_request_units() && quota.enter_node(Access::Read, 1000).is_none());
    node.queue().set(Some(100_000), RequestOrder::InTurn);
    assert!(!quota.is_free() && quota.counts_request_units() && quota.is_unlimited(Unit::Request));
    let passed = (0..20)
        .map(|_| quota.enter_node(Access::Read, 1000))
        .filter(|one| one.as_ref().is_some_and(|one| !one.waits()));
    assert_eq!(passed.count(), 10);
    quota.settle(Unit::Request, 0, 1000, 11_000);
    sim.run_until(100 * MS);
    assert!(quota.enter_node(Access::Read, 1000).is_some_and(|one| one.waits()), "the ten of 100 ms are paid");
}

proptest! {
    /// Whatever comes, no request waits longer than a second, all that passes is within the rate and its burst, and
    /// while both queues wait reads have a tenth or half of it, less one request.
    #[test]
    fn nobody_waits_for_ever_and_nothing_is_given_twice(
        asks in prop::collection::vec((0_u32..4, any::<bool>(), 1_u64..5000, 0_u64..2000), 1..200),
        writes_first: bool,
    ) {
        let asks: Vec<Ask> = asks.into_iter().map(|(tenant, reads, milli_units, ms)| {
            let access = if reads { Access::Read } else { Access::Write };
            Ask { tenant, access, milli_units, at: ms * MS }
        }).collect();
        let order = if writes_first { RequestOrder::WritesFirst } else { RequestOrder::InTurn };
        let (rate, burst) = (50_000, 5000);
        let outcomes = run(rate, order, &asks);
        prop_assert_eq!(outcomes.len(), asks.len());
        let (mut given, mut last) = (0, 0);
        for (ask, outcome) in outcomes {
            let Ok(at) = outcome else { continue };
            prop_assert!(at <= ask.at + SEC + MS, "waited {} ns", at - ask.at);
            prop_assert!(at >= last, "they pass in the order of time");
            last = at;
            // Before this request no more was given than came until then.
            prop_assert!(given <= burst + rate * at / SEC, "{given} given at {at}");
            given += ask.milli_units;
        }
    }
}
