//! Capacity units in virtual time: limits, bursts, fairness between partitions, refusals, giving up.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};

use crate::common::*;
use proptest::prelude::*;
use weir_admission::{Admission, NodeUnits, OnLimit, Quota, Refused, Unit, UnitLimits};
use weir_io::sim::Sim;
use weir_io::{Clock, Nanos, sleep_until};

fn both(units: u64) -> UnitLimits {
    UnitLimits { rcu: units, wcu: units, ..UnitLimits::default() }
}

const REFUSE: OnLimit = OnLimit::Refuse;

/// What was served of a load, in units and in requests.
#[derive(Default)]
struct Served {
    units: AtomicU64,
    refused: AtomicU64,
    longest: AtomicU64,
}

/// A load of equal requests. A request of `Unit::Read` is charged one unit and settled.
#[derive(Clone, Copy)]
struct Load {
    unit: Unit,
    partition: u32,
    units: u64,
    /// Requests per second, evenly spaced; each in a task of its own.
    rate: u64,
    from: Nanos,
    to: Nanos,
}

/// One request, which waits until it is admitted or refused.
async fn request(quota: &Arc<Quota>, unit: Unit, partition: u32, units: u64) -> Result<(), Refused> {
    let charged = if unit == Unit::Read { 1 } else { units };
    if !quota.try_admit(unit, charged) {
        quota.admit(unit, partition, charged).await?;
    }
    quota.settle(unit, partition, charged, units);
    Ok(())
}

/// Offers a load in an open loop: requests come whatever becomes of those before.
fn offer(sim: &Sim, quota: &Arc<Quota>, load: Load) -> Arc<Served> {
    let served = Arc::new(Served::default());
    let (quota, clock, spawner) = (Arc::clone(quota), sim.clock(), sim.spawner());
    let counters = Arc::clone(&served);
    sim.spawn(async move {
        let Load { unit, partition, units, rate, from, to } = load;
        for number in 0..(to - from) * rate / SEC {
            sleep_until(&clock, from + number * SEC / rate).await;
            let (quota, served, clock) = (Arc::clone(&quota), Arc::clone(&counters), Arc::clone(&clock));
            spawner.spawn(Box::pin(async move {
                let asked = clock.now();
                let answer = request(&quota, unit, partition, units).await;
                served.longest.fetch_max(clock.now() - asked, Relaxed);
                match answer {
                    Ok(()) if clock.now() < to => drop(served.units.fetch_add(units, Relaxed)),
                    Ok(()) => {}
                    Err(_) => drop(served.refused.fetch_add(1, Relaxed)),
                }
            }));
        }
    });
    served
}

fn within(got: u64, wanted: f64, tolerance: f64) -> bool {
    (got as f64 / wanted - 1.0).abs() <= tolerance
}

#[test]
fn twice_the_limit_is_served_the_limit() {
    // FX-2: reads of 1 and of 3 units, writes of 1 and of 5, on one and on four partitions, evenly and skewed.
    let limit = 3000;
    for (unit, units, weights) in [
        (Unit::Read, 1, vec![1]),
        (Unit::Read, 3, vec![1, 1, 1, 1]),
        (Unit::Write, 1, vec![1, 1, 1, 1]),
        (Unit::Write, 5, vec![1]),
        (Unit::Write, 1, vec![97, 1, 1, 1]),
        (Unit::Read, 16, vec![97, 1, 1, 1]),
    ] {
        let sim = Sim::new(2);
        let quota = Quota::new(sim.clock(), &both(limit));
        let total: u64 = weights.iter().sum();
        let served: Vec<_> = (0..)
            .zip(&weights)
            .map(|(partition, weight)| {
                let rate = (2 * limit * weight / total / units).max(1);
                offer(&sim, &quota, Load { unit, partition, units, rate, from: 0, to: 10 * SEC })
            })
            .collect();
        sim.run_until(12 * SEC);
        let got: u64 = served.iter().map(|served| served.units.load(Relaxed)).sum();
        assert!(within(got, limit as f64 * 10.0, 0.02), "{unit:?} {units} {weights:?}: {got}");
        for served in &served {
            assert!(served.longest.load(Relaxed) <= SEC + MS, "waited {} ns", served.longest.load(Relaxed));
        }
        let stats = quota.stats(unit);
        assert_eq!(stats.refused, served.iter().map(|served| served.refused.load(Relaxed)).sum::<u64>());
        assert!(stats.delayed > 1000 && stats.delayed_ns > stats.delayed * MS, "{stats:?}");
        assert_eq!(quota.waiting(unit), 0);
    }
}

#[test]
fn reads_and_writes_are_limited_side_by_side() {
    let sim = Sim::new(3);
    let quota = Quota::new(sim.clock(), &UnitLimits { rcu: 4000, wcu: 500, ..UnitLimits::default() });
    let reads = Load { unit: Unit::Read, partition: 0, units: 2, rate: 4000, from: 0, to: 10 * SEC };
    let served =
        [reads, Load { unit: Unit::Write, units: 1, rate: 1000, ..reads }].map(|load| offer(&sim, &quota, load));
    sim.run_until(12 * SEC);
    assert!(within(served[0].units.load(Relaxed), 40_000.0, 0.02));
    assert!(within(served[1].units.load(Relaxed), 5_000.0, 0.02));
}

#[test]
fn below_the_limit_nobody_waits() {
    let sim = Sim::new(4);
    let quota = Quota::new(sim.clock(), &both(1000));
    let load = Load { unit: Unit::Write, partition: 1, units: 1, rate: 990, from: 0, to: 10 * SEC };
    let served = offer(&sim, &quota, load);
    sim.run_until(11 * SEC);
    assert_eq!((served.units.load(Relaxed), served.longest.load(Relaxed)), (9900, 0));
}

#[test]
fn a_debt_of_more_than_a_second_is_told_from_a_smaller_one() {
    // U-16.
    let sim = Sim::new(1);
    let quota = Quota::new(sim.clock(), &UnitLimits { rcu: 100, ..UnitLimits::default() });
    let owes = || [Unit::Read, Unit::Write].map(|unit| quota.owes_a_second(unit));
    assert!(quota.try_admit(Unit::Read, 1));
    assert_eq!((quota.units(Unit::Read), owes()), (9, [false, false]));
    for unit in [Unit::Read, Unit::Write] {
        quota.settle(unit, 0, 1, 110);
    }
    assert_eq!((quota.units(Unit::Read), owes()), (-100, [false, false]), "a second's units are not more");
    for unit in [Unit::Read, Unit::Write] {
        quota.settle(unit, 0, 1, 2);
    }
    assert_eq!(owes(), [true, false], "nothing is owed of what is not limited");
    sim.run_until(10 * MS);
    assert_eq!((quota.units(Unit::Read), owes()), (-100, [false, false]));
}

#[test]
fn unused_seconds_come_back_as_a_burst_and_no_more_than_was_agreed() {
    for (burst_seconds, idle, expected) in [(0, 60, 0.1), (5, 60, 5.0), (300, 60, 60.1), (300, 0, 0.1)] {
        let sim = Sim::new(5);
        let limits = UnitLimits { burst_seconds, on_limit: REFUSE, ..both(100) };
        let quota = Quota::new(sim.clock(), &limits);
        sim.run_until(idle * SEC);
        let burst = (0..).take_while(|_| quota.try_admit(Unit::Write, 1)).count();
        assert_eq!(burst as f64, 100.0 * expected, "{burst_seconds} s after {idle} s");
        // The rate goes on from there.
        sim.run_until((idle + 1) * SEC);
        assert_eq!(quota.units(Unit::Write), if burst_seconds == 0 { 10 } else { 100 });
    }
}

#[test]
fn a_partition_that_asks_has_its_share_within_one_quantum() {
    // One partition floods its tenant's limit. Another comes, asks for half of the limit, and has that half at once.
    let sim = Sim::new(6);
    let quota = Quota::new(sim.clock(), &both(10_000));
    let flood = Load { unit: Unit::Write, partition: 0, units: 1, rate: 30_000, from: 0, to: 4 * SEC };
    let flood = offer(&sim, &quota, flood);
    let modest = Load { unit: Unit::Write, partition: 1, units: 1, rate: 4_500, from: 2 * SEC, to: 4 * SEC };
    let modest = offer(&sim, &quota, modest);
    sim.run_until(2 * SEC);
    // Two seconds and the burst.
    assert!(within(flood.units.load(Relaxed), 21_000.0, 0.01), "lent: {}", flood.units.load(Relaxed));
    sim.run_until(2 * SEC + 10 * MS);
    assert!(modest.units.load(Relaxed) >= 44, "{} units in the first 10 ms", modest.units.load(Relaxed));
    sim.run_until(6 * SEC);
    assert_eq!((modest.units.load(Relaxed), modest.refused.load(Relaxed)), (9_000, 0));
    assert!(modest.longest.load(Relaxed) <= 10 * MS, "{} ns", modest.longest.load(Relaxed));
    // What the newcomer took was missing in the queue of the other, whose requests had been promised a second at most.
    assert!(flood.longest.load(Relaxed) <= SEC + MS);
}

#[test]
fn reads_larger_than_what_they_were_charged_do_not_starve_the_other_partitions() {
    let sim = Sim::new(7);
    let quota = Quota::new(sim.clock(), &both(1000));
    let large = Load { unit: Unit::Read, partition: 0, units: 50, rate: 200, from: 0, to: 10 * SEC };
    let small = Load { unit: Unit::Read, partition: 1, units: 1, rate: 400, from: 0, to: 10 * SEC };
    let [large, small] = [large, small].map(|load| offer(&sim, &quota, load));
    sim.run_until(12 * SEC);
    let (large, small) = (large.units.load(Relaxed), small.units.load(Relaxed));
    assert!(small >= 3_900, "{small} small beside {large} large");
    assert!(within(small + large, 10_000.0, 0.02), "{small} + {large}");
}

#[test]
fn a_refusal_says_when_to_come_again_and_keeps_its_word() {
    for on_limit in [REFUSE, OnLimit::Delay { max_ms: 200 }] {
        for (unit, units) in [(Unit::Write, 7), (Unit::Write, 400), (Unit::Read, 20)] {
            let sim = Sim::new(8);
            let quota = Quota::new(sim.clock(), &UnitLimits { on_limit, ..both(100) });
            let (clock, spawner) = (sim.clock(), sim.spawner());
            sim.block_on(async {
                for _ in 0..20 {
                    // Until there is no more room.
                    let refused = loop {
                        let charged = if unit == Unit::Read { 1 } else { units };
                        match quota.admit(unit, 0, charged) {
                            Admission::Ready(Some(Ok(()))) => quota.settle(unit, 0, charged, units),
                            Admission::Ready(answer) => break answer.expect("new").expect_err("refused"),
                            waiting => {
                                let quota = Arc::clone(&quota);
                                spawner.spawn(Box::pin(async move {
                                    match waiting.await {
                                        Ok(()) => quota.settle(unit, 0, charged, units),
                                        // The cost of a read is estimated from the reads before it.
                                        Err(_) => assert_eq!(unit, Unit::Read),
                                    }
                                }));
                            }
                        }
                    };
                    assert_eq!(refused.unit, unit);
                    assert!(refused.retry_in_ms >= 1);
                    sleep_until(&clock, clock.now() + refused.retry_in_ms * MS).await;
                    request(&quota, unit, 0, units).await.expect("it came when it was told to");
                }
            });
        }
    }
}

#[test]
fn a_refusal_is_not_too_late_either() {
    let sim = Sim::new(9);
    let quota = Quota::new(sim.clock(), &UnitLimits { on_limit: REFUSE, ..both(100) });
    assert!(quota.try_admit(Unit::Write, 10));
    let refused = sim.block_on(quota.admit(Unit::Write, 0, 5)).expect_err("empty");
    assert_eq!(refused, Refused { unit: Unit::Write, retry_in_ms: 50 });
    assert_eq!(refused.to_string(), "retry_in_ms=50 reason=tenant_wcu");
    sim.run_until(49 * MS);
    assert!(!quota.try_admit(Unit::Write, 5));
}

#[test]
fn what_is_larger_than_the_burst_is_paid_in_full() {
    let sim = Sim::new(10);
    let quota = Quota::new(sim.clock(), &both(100));
    sim.block_on(quota.admit(Unit::Write, 0, 8192)).expect("the bucket is full");
    assert_eq!(quota.units(Unit::Write), 10 - 8192);
    let refused = sim.block_on(quota.admit(Unit::Write, 0, 1)).expect_err("81 s of debt");
    assert_eq!(refused.retry_in_ms, 81_830);
    assert!(quota.try_admit(Unit::Read, 1));
    quota.settle(Unit::Read, 0, 1, 2048);
    assert_eq!(quota.units(Unit::Read), 10 - 2048);
    assert_eq!(quota.stats(Unit::Read).units, 2048);
}

#[test]
fn values_of_many_seconds_units_are_served_within_the_limit() {
    // FX-2: each read is admitted as one unit and turns out to cost 2048, twenty seconds' worth. A read that is refused
    // comes again when told.
    let sim = Sim::new(13);
    let quota = Quota::new(sim.clock(), &both(100));
    let (clock, seconds) = (sim.clock(), 1000);
    let mut served = 0;
    while clock.now() < seconds * SEC {
        match sim.block_on(quota.admit(Unit::Read, 0, 1)) {
            Ok(()) => {
                quota.settle(Unit::Read, 0, 1, 2048);
                served += 2048;
            }
            Err(refused) => sim.run_until(clock.now() + refused.retry_in_ms * MS),
        }
    }
    assert!(within(served, (100 * seconds) as f64, 0.02), "{served}");
    assert_eq!(quota.stats(Unit::Read).units, served);
}

#[test]
fn who_gives_up_leaves_place_and_units() {
    let sim = Sim::new(11);
    let quota = Quota::new(sim.clock(), &both(10));
    assert!(quota.try_admit(Unit::Write, 1));
    let first = quota.admit(Unit::Write, 0, 1);
    let second = quota.admit(Unit::Write, 0, 1);
    let third = quota.admit(Unit::Write, 1, 1);
    assert_eq!(quota.waiting(Unit::Write), 3);
    drop(second);
    assert_eq!(quota.waiting(Unit::Write), 2);
    // The first is admitted, but nobody has polled it: dropping it passes the unit on to the third, at once.
    sim.run_until(100 * MS);
    assert_eq!(quota.waiting(Unit::Write), 1);
    drop(first);
    assert_eq!(quota.waiting(Unit::Write), 0);
    sim.block_on(third).expect("given on");
    assert_eq!(sim.now(), 100 * MS);
    assert_eq!(quota.stats(Unit::Write).units, 2);
}

#[test]
fn knobs_turn_under_those_who_wait() {
    let sim = Sim::new(12);
    let quota = Quota::new(sim.clock(), &both(1));
    assert!(quota.try_admit(Unit::Write, 1));
    let mut waiting: Vec<Admission> = (0..3).map(|_| quota.admit(Unit::Write, 0, 1)).collect();
    let Admission::Ready(Some(Err(Refused { retry_in_ms: 2000, .. }))) = waiting.remove(1) else {
        panic!("no room for a second: {waiting:?}")
    };
    let poll = |admission: &mut Admission| {
        std::future::Future::poll(Pin::new(admission), &mut Context::from_waker(Waker::noop()))
    };
    assert!(poll(&mut waiting[0]).is_pending());
    quota.set_limits(&both(0));
    assert!(quota.is_unlimited(Unit::Write) && quota.waiting(Unit::Write) == 0);
    assert!(poll(&mut waiting[0]).is_ready());
    assert!(quota.try_admit(Unit::Write, 1_000_000));
    // Limited again: what was spent meanwhile is not owed, and only the least burst is saved up.
    quota.set_limits(&UnitLimits { burst_seconds: 300, ..both(1000) });
    assert_eq!(quota.units(Unit::Write), 100);
    quota.set_limits(&both(100));
    assert_eq!(quota.units(Unit::Write), 10);
}

#[test]
fn a_longest_wait_that_is_made_shorter_holds_for_newcomers_at_once() {
    let sim = Sim::new(12);
    let limits = |max_ms| UnitLimits { on_limit: OnLimit::Delay { max_ms }, ..both(10) };
    let quota = Quota::new(sim.clock(), &limits(10_000));
    assert!(quota.try_admit(Unit::Write, 1));
    let refused_at = |admission: Admission| {
        let (at, clock) = (Arc::new(AtomicU64::new(0)), sim.clock());
        let told = Arc::clone(&at);
        sim.spawn(async move {
            admission.await.expect_err("another partition has spent what was to come");
            told.store(clock.now(), Relaxed);
        });
        at
    };
    let patient = refused_at(quota.admit(Unit::Write, 0, 1));
    quota.set_limits(&limits(250));
    let newcomer = refused_at(quota.admit(Unit::Write, 1, 1));
    quota.settle(Unit::Write, 2, 1, 201);
    sim.run_until(20 * SEC);
    assert_eq!(newcomer.load(Relaxed), 250 * MS);
    assert_eq!(patient.load(Relaxed), 10 * SEC, "it keeps the wait that it was let in with");
}

#[test]
fn one_seed_gives_one_day() {
    let day = |seed| {
        let sim = Sim::new(seed);
        let quota = Quota::new(sim.clock(), &both(500));
        for partition in 0..5 {
            let (quota, clock, mut rng) = (Arc::clone(&quota), sim.clock(), sim.rng());
            sim.spawn(async move {
                while clock.now() < 5 * SEC {
                    let unit = Unit::ALL[rng.below(2) as usize];
                    let units = 1 + rng.below(9);
                    if let Err(refused) = request(&quota, unit, partition, units).await {
                        sleep_until(&clock, clock.now() + refused.retry_in_ms * MS).await;
                    }
                    sleep_until(&clock, clock.now() + rng.below(MS)).await;
                }
            });
        }
        sim.run_until(7 * SEC);
        (sim.event_hash(), Unit::ALL.map(|unit| quota.stats(unit)))
    };
    assert_eq!(day(1), day(1));
    assert_ne!(day(1).0, day(2).0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever requests come or give up, and whatever knobs are turned, no more is admitted than limit and burst
    /// allow, every request gets an answer within its patience, and nothing stays behind.
    #[test]
    fn nothing_is_lost_and_nothing_given_twice(
        rate in 1_u64..2000,
        burst_seconds in 0_u32..3,
        steps in prop::collection::vec((0_u64..40, 0_u32..4, 1_u64..20, 0_u8..10), 1..200),
    ) {
        let sim = Sim::new(rate);
        let limits = UnitLimits { burst_seconds, ..both(rate) };
        let quota = Quota::new(sim.clock(), &limits);
        let admitted = Arc::new(AtomicU64::new(0));
        let clock: Arc<dyn Clock> = sim.clock();
        let spawner = sim.spawner();
        let longest_request = 20;
        sim.block_on(async {
            for (pause, partition, units, what) in steps {
                sleep_until(&clock, clock.now() + pause * MS).await;
                let admission = quota.admit(Unit::Write, partition, units);
                match (what, &admission) {
                    (0, Admission::Waiting(_)) => drop(admission),
                    (1, Admission::Waiting(_)) => {
                        quota.set_limits(&limits);
                        drop(admission);
                    }
                    _ => {
                        let (clock, admitted, asked) = (Arc::clone(&clock), Arc::clone(&admitted), clock.now());
                        spawner.spawn(Box::pin(async move {
                            if admission.await.is_ok() {
                                admitted.fetch_add(units, Relaxed);
                            }
                            assert!(clock.now() <= asked + SEC + MS);
                        }));
                    }
                }
            }
            sleep_until(&clock, clock.now() + 2 * SEC).await;
        });
        prop_assert_eq!(quota.waiting(Unit::Write), 0);
        prop_assert_eq!(quota.stats(Unit::Write).units, admitted.load(Relaxed));
        let ceiling = sim.now() as f64 / 1e9 * rate as f64 + rate as f64 * f64::from(burst_seconds).max(0.1) + 1.0;
        prop_assert!(admitted.load(Relaxed) as f64 <= ceiling + longest_request as f64);
    }

    /// The least a refused request must do is wait as it was told.
    #[test]
    fn retrying_as_told_succeeds(rate in 1_u64..10_000, spent in 1_u64..100_000, units in 1_u64..500) {
        let sim = Sim::new(1);
        let quota = Quota::new(sim.clock(), &UnitLimits { on_limit: REFUSE, ..both(rate) });
        sim.block_on(quota.admit(Unit::Write, 0, spent)).expect("the bucket is full, or nearly");
        if let Err(refused) = sim.block_on(quota.admit(Unit::Write, 0, units)) {
            sim.run_until((refused.retry_in_ms - 1) * MS);
            prop_assert!(refused.retry_in_ms == 1 || !quota.try_admit(Unit::Write, units));
            sim.run_until(refused.retry_in_ms * MS);
            prop_assert!(quota.try_admit(Unit::Write, units));
        }
    }
}

/// XS-25: after thirty idle seconds a query of thirty seconds' units runs at once, and the writes behind it have what
/// comes in their own second. Without savings the query is a debt that all wait for.
#[test]
fn a_query_pays_from_what_was_saved_up_and_writes_keep_their_second() {
    for (burst_seconds, is_there) in [(60, true), (0, false)] {
        let sim = Sim::new(1);
        let limits = UnitLimits { ru: 100, burst_seconds, on_limit: REFUSE, ..UnitLimits::default() };
        let quota = Quota::new(sim.clock(), &limits);
        sim.run_until(30 * SEC);
        let thirty_seconds = 30 * 100 * 1000;
        assert_eq!(quota.try_admit_query(thirty_seconds), is_there);
        // The query does not touch the tenth of a second that is always kept.
        assert!(quota.try_admit(Unit::Request, 10 * 1000));
        assert!(!quota.try_admit_query(1000), "all is spent");
        sim.run_until(31 * SEC);
        assert!(quota.try_admit(Unit::Request, 10 * 1000), "a second later writes go on");
        assert_eq!(quota.stats(Unit::Request).units, if is_there { thirty_seconds + 20_000 } else { 20_000 });
        // What is paid afterwards is paid from savings as far as possible: 90 units of the last second are there.
        quota.settle(Unit::Request, 0, 0, 50_000);
        assert_eq!(quota.units(Unit::Request) < 0, !is_there);
    }
}

/// XS-26: what a tenant bought is its own, however noisy its neighbour is. What is left is for the tenants that may
/// have it.
#[test]
fn a_noisy_neighbour_gets_what_is_left_and_nothing_of_what_others_bought() {
    let limits = |spare| UnitLimits { ru: 100, spare, on_limit: REFUSE, ..UnitLimits::default() };
    for (others, expected) in [(100, 100 + 250), (0, 100 + 350)] {
        let sim = Sim::new(7);
        let node = NodeUnits::new(sim.clock());
        // With the over-subscription: 450 a second.
        node.set(300 * 1000);
        let noisy = Quota::on_node(sim.clock(), &limits(true), Arc::clone(&node));
        let tame = Quota::on_node(sim.clock(), &limits(false), Arc::clone(&node));
        let (mut got, mut admitted, mut refused) = (0, 0, 0);
        for ms in 0..20_000 {
            sim.run_until(ms * MS);
            if ms >= 10_000 && others > 0 && ms % 10 == 0 {
                refused += u64::from(!tame.try_admit(Unit::Request, 1000));
            }
            // It would take 2000 a second.
            for _ in 0..2 {
                let is_admitted = noisy.try_admit(Unit::Request, 1000);
                admitted += u64::from(is_admitted);
                got += u64::from(is_admitted && ms >= 10_000);
            }
        }
        assert_eq!(refused, 0, "within its limit nobody is refused");
        let expected = expected * 10;
        assert!(got.abs_diff(expected) * 50 <= expected, "{got} of {expected}");
        assert_eq!(noisy.stats(Unit::Request).units, admitted * 1000);
        assert!(node.extra() > 0);
        let own = (0..100).take_while(|_| tame.try_admit(Unit::Request, 1000)).count();
        assert!(own <= 10, "who may not use what is left does not: {own}");
    }
}

/// XS-26: what was used within limits keeps others from what is left for a second at most, however much it was.
#[test]
fn what_long_commands_have_used_is_owed_for_a_second_at_most() {
    let sim = Sim::new(7);
    let node = NodeUnits::new(sim.clock());
    // With the over-subscription: 450 a second.
    node.set(300 * 1000);
    let limits = |ru, spare| UnitLimits { ru, spare, on_limit: REFUSE, ..UnitLimits::default() };
    let long = Quota::on_node(sim.clock(), &limits(1_000_000, false), Arc::clone(&node));
    let other = Quota::on_node(sim.clock(), &limits(100, true), Arc::clone(&node));
    // What comes in a hundred seconds.
    assert!(long.try_admit(Unit::Request, 45_000_000));
    assert_eq!(long.stats(Unit::Request).units, 45_000_000);
    let admitted = || (0..1000).filter(|_| other.try_admit(Unit::Request, 1000)).count();
    assert_eq!(admitted(), 10, "its own, of a tenth of a second");
    sim.run_until(1_100 * MS);
    assert!(admitted() > 10, "something is left");
}

/// XS-26: a request that was begun with what the node has left is paid from there to its end. Once nothing is left, the
/// tenant has what it bought, and no debt from before.
#[test]
fn what_the_node_had_left_is_no_debt_later() {
    let sim = Sim::new(7);
    let node = NodeUnits::new(sim.clock());
    node.set(100_000 * 1000);
    let limits = UnitLimits { ru: 100, spare: true, on_limit: REFUSE, ..UnitLimits::default() };
    let quota = Quota::on_node(sim.clock(), &limits, Arc::clone(&node));
    // A hundred times the limit. Most of the cost shows afterwards.
    for ms in 0..10_000 {
        sim.run_until(ms * MS);
        assert!(quota.try_admit(Unit::Request, 1000));
        quota.settle(Unit::Request, 0, 1000, 10_000);
    }
    assert_eq!(quota.stats(Unit::Request).units, 10_000 * 10_000);
    node.set(0);
    sim.run_until(11 * SEC);
    let admitted = (0..100).take_while(|_| quota.try_admit(Unit::Request, 1000)).count();
    assert_eq!(admitted, 10, "what is always kept, of a tenth of a second");
}

/// XS-25: the savings are as they were, and expire when they would have.
#[test]
fn a_query_that_is_not_run_gives_back_what_was_saved_up() {
    let sim = Sim::new(1);
    let limits = UnitLimits { ru: 100, burst_seconds: 60, on_limit: REFUSE, ..UnitLimits::default() };
    let quota = Quota::new(sim.clock(), &limits);
    sim.run_until(30 * SEC);
    let thirty_seconds = 30 * 100 * 1000;
    assert!(quota.try_admit_query(thirty_seconds));
    quota.refund_query(thirty_seconds);
    assert_eq!(quota.stats(Unit::Request).units, 0);
    assert!(quota.try_admit_query(thirty_seconds));
    assert!(!quota.try_admit_query(1000), "and no more than that");
    quota.refund_query(thirty_seconds);
    sim.run_until(600 * SEC);
    assert!(!quota.try_admit_query(62 * 100 * 1000), "what is older than a minute is gone");
}

/// XS-25: what is given back is saved up again, and is not there a second time among the units of the second.
#[test]
fn a_query_that_costs_less_than_it_was_charged_saves_up_the_rest() {
    let sim = Sim::new(1);
    let limits = UnitLimits { ru: 100, burst_seconds: 60, on_limit: REFUSE, ..UnitLimits::default() };
    let quota = Quota::new(sim.clock(), &limits);
    sim.run_until(20 * SEC);
    assert!(quota.try_admit(Unit::Request, 10_000), "the tenth of a second that is always kept");
    assert!(quota.try_admit_query(1_500_000));
    quota.settle_query(0, 0, 1_500_000, 500_000);
    assert_eq!((quota.units(Unit::Request), quota.stats(Unit::Request).units), (0, 510_000));
    assert!(quota.try_admit_query(1_490_000), "twenty seconds' units, less what was used");
    assert!(!quota.try_admit_query(1000), "and no more than that");
}
