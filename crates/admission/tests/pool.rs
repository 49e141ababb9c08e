//! The pool: which tenant gets units, which one waits for them, and in which order.
#![allow(missing_docs, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::jain;
use proptest::prelude::*;
use weir_admission::{Acquire, Part, Permit, Pool, PoolStats, Share, Shares};

#[test]
fn without_reserves_whoever_comes_first_has_it() {
    let pool = Pool::new(10);
    let all = pool.try_acquire(1, 10).expect("free");
    assert!(pool.try_acquire(2, 1).is_none() && pool.stats().rest() == 0);
    drop(all);
    assert!(pool.try_acquire(2, 10).is_some());
    assert_eq!(pool.stats(), PoolStats { capacity: 10, ..PoolStats::default() });
    assert!(pool.parts().is_empty(), "who has nothing is forgotten");
}

#[test]
fn a_reserve_is_kept_for_its_tenant_and_nobody_else() {
    let pool = Pool::new(10);
    pool.set_reserve(1, 4);
    let hog = pool.try_acquire(2, 6).expect("the rest");
    assert!(pool.try_acquire(2, 1).is_none());
    let own = pool.try_acquire(1, 4).expect("reserved");
    assert!(pool.try_acquire(1, 1).is_none(), "beyond its reserve it is one of many");
    drop(hog);
    let more = pool.try_acquire(1, 6).expect("from the rest");
    assert_eq!((pool.part(1), own.units() + more.units()), (Part { used: 10, reserve: 4 }, 10));
    assert!(pool.try_acquire(2, 1).is_none());
}

#[test]
fn equal_reserves_are_a_static_quota() {
    // DF-3.
    let pool = Pool::new(9);
    (1..=3).for_each(|tenant| pool.set_reserve(tenant, 3));
    let held: Vec<_> = (1..=3).map(|tenant| pool.try_acquire(tenant, 3).expect("its quota")).collect();
    assert!((1..=3).all(|tenant| pool.try_acquire(tenant, 1).is_none()));
    drop(held);
    assert!((1..=3).all(|tenant| pool.try_acquire(tenant, 4).is_some_and(|all| all.units() == 3)), "all it can have");
}

#[test]
fn what_is_used_already_is_booked_beyond_the_capacity_and_harms_no_reserve() {
    let pool = Pool::new(10);
    pool.set_reserve(1, 2);
    let mut hog = pool.book(2, 3);
    hog.set(30);
    assert_eq!((hog.units(), hog.tenant(), pool.stats().used, pool.stats().rest()), (30, 2, 30, 0));
    assert!(pool.try_acquire(3, 1).is_none());
    let own = pool.try_acquire(1, 2);
    assert!(own.is_some());
    hog.set(1);
    assert_eq!(pool.stats().rest(), 7);
}

#[test]
fn headroom_is_for_those_within_their_share() {
    let pool = Pool::new(100);
    pool.set_headroom(25);
    let alone = pool.try_acquire(1, 100).expect("what is not kept for who may come");
    assert_eq!(alone.units(), 75);
    drop(alone);
    let others = (pool.book(1, 10), pool.book(2, 10));
    let hog = pool.try_acquire(3, 55).expect("above its share, but there is room");
    assert!(pool.try_acquire(3, 1).is_none());
    assert!(pool.try_acquire(4, 21).is_none(), "above its share of five");
    assert!(pool.try_acquire(4, 20).is_some() && pool.try_acquire(1, 15).is_some());
    // A reserve comes before all that.
    pool.set_reserve(3, 56);
    assert!(pool.try_acquire(3, 1).is_some() && pool.try_acquire(3, 2).is_none());
    drop((hog, others));
}

/// A share of `units` units for each of `tenants`, and `common` units kept in common.
fn shares(common: u64, tenants: std::ops::Range<u32>, units: u64, is_prompt: bool) -> Shares {
    Shares { common, tenants: tenants.map(|tenant| (tenant, Share { units, reserve: 0, is_prompt })).collect() }
}

#[test]
fn what_is_kept_in_common_is_for_those_below_their_share() {
    // U-15.
    let pool = Pool::new(100);
    pool.set_shares(&shares(20, 1..5, 25, true));
    let hog = pool.try_acquire(1, 80).expect("what is not kept");
    assert!(pool.try_acquire(1, 1).is_none() && pool.try_acquire(2, 26).is_none());
    let first = pool.try_acquire(2, 15).expect("within its share");
    let second = pool.try_acquire(3, 5).expect("what the other has left");
    assert!(pool.try_acquire(4, 1).is_none(), "two at a time were more than was kept");
    drop((first, second));
    // A tenant whose delay is infinite gets nothing of it.
    pool.set_shares(&shares(20, 1..5, 25, false));
    assert!(pool.try_acquire(2, 1).is_none());
    drop(hog);
    assert!(pool.try_acquire(2, 80).is_some_and(|lent| lent.units() == 80));
    pool.set_shares(&Shares::default());
    assert!(pool.try_acquire(2, 100).is_some_and(|all| all.units() == 100));
}

#[test]
fn reserves_follow_the_shares() {
    let pool = Pool::new(90);
    let quota = |tenants| Shares {
        common: 0,
        tenants: shares(0, tenants, 30, true)
            .tenants
            .into_iter()
            .map(|(tenant, share)| (tenant, Share { reserve: 30, ..share }))
            .collect(),
    };
    pool.set_shares(&quota(1..4));
    assert!(pool.try_acquire(1, 80).is_some_and(|all| all.units() == 30), "all it can have");
    pool.set_shares(&quota(2..4));
    assert_eq!((pool.part(1).reserve, pool.part(2).reserve, pool.stats().kept), (0, 30, 60));
}

#[test]
fn who_is_within_its_share_when_it_asks_goes_before_all_who_are_above() {
    let pool = Pool::new(100);
    pool.set_shares(&shares(0, 1..5, 25, false));
    let mut hog: Vec<_> = (0..10).filter_map(|_| pool.try_acquire(1, 10)).collect();
    let mut greedy: Vec<_> = (0..3).map(|_| Waiting::new(&pool, 1, 10)).collect();
    let mut modest: Vec<_> = (0..3).map(|_| Waiting::new(&pool, 2, 10)).collect();
    assert_eq!(modest.iter().map(|waiting| waiting.acquire.is_due()).collect::<Vec<_>>(), [true, true, false]);
    assert!(greedy.iter().all(|waiting| !waiting.acquire.is_due()));
    // The tenant's use grows meanwhile, but requests that were due stay due.
    let booked = pool.book(2, 15);
    hog.truncate(6);
    let due: Vec<Permit> = modest.iter_mut().filter_map(Waiting::poll).collect();
    assert!(due.len() == 2 && greedy.iter_mut().all(|waiting| waiting.poll().is_none()));
    modest.drain(..2);
    hog.truncate(5);
    let others: Vec<Permit> = greedy.iter_mut().chain(&mut modest).filter_map(Waiting::poll).collect();
    assert_eq!(others.len(), 1, "in turn");
    drop((due, booked));
}

/// A request, and whether it was woken since the last poll.
struct Waiting {
    tenant: u32,
    units: u64,
    acquire: Acquire,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

impl Waiting {
    fn new(pool: &Arc<Pool>, tenant: u32, units: u64) -> Self {
        Self { tenant, units, acquire: pool.acquire(tenant, units), woken: Arc::default() }
    }

    fn poll(&mut self) -> Option<Permit> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match Pin::new(&mut self.acquire).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }
}

#[test]
fn a_request_that_waits_is_overtaken_by_nobody_and_leaves_no_gap() {
    let pool = Pool::new(100);
    let first = pool.try_acquire(1, 70).expect("room");
    let (mut second, mut third) = (Waiting::new(&pool, 1, 40), Waiting::new(&pool, 2, 20));
    assert!(second.poll().is_none() && third.poll().is_none(), "nobody overtakes");
    assert!(pool.try_acquire(3, 1).is_none(), "nor without waiting");
    drop(second);
    assert!(third.woken.0.load(Relaxed), "what it waited for is gone");
    let third = third.poll().expect("it is its turn");
    assert_eq!(pool.stats(), PoolStats { capacity: 100, used: 90, users: 2, ..PoolStats::default() });
    drop((first, third));
    let granted = pool.acquire(1, 80);
    let mut all = Waiting::new(&pool, 1, 1000);
    assert!(all.poll().is_none());
    drop(granted);
    assert!(all.poll().is_some_and(|all| all.units() == 100), "more than there ever is counts as all of it");
    assert_eq!(pool.stats(), PoolStats { capacity: 100, ..PoolStats::default() });
}

#[test]
fn a_tenant_with_many_requests_stands_in_nobodys_way() {
    let pool = Pool::new(100);
    let held = pool.try_acquire(1, 100).expect("room");
    let mut many: Vec<_> = (0..10).map(|_| Waiting::new(&pool, 1, 100)).collect();
    let mut few: Vec<_> = (2..4).map(|tenant| Waiting::new(&pool, tenant, 10)).collect();
    drop(held);
    let first = many.iter_mut().find_map(Waiting::poll).expect("one of the ten");
    assert!(few.iter_mut().all(|waiting| waiting.poll().is_none()));
    drop(first);
    assert!(few.iter_mut().all(|waiting| waiting.poll().is_some()), "the others come before the second of the ten");
}

#[test]
fn who_waits_above_its_share_holds_back_only_itself() {
    let pool = Pool::new(100);
    pool.set_headroom(25);
    let hog = pool.book(1, 80);
    let within = pool.try_acquire(2, 15).expect("the headroom is for it");
    let mut above = [Waiting::new(&pool, 1, 10), Waiting::new(&pool, 1, 1)];
    assert!(above.iter_mut().all(|waiting| waiting.poll().is_none()));
    drop(pool.try_acquire(3, 1).expect("within its share"));
    let (mut short, mut behind) = (Waiting::new(&pool, 2, 10), Waiting::new(&pool, 3, 1));
    assert!(short.poll().is_none() && behind.poll().is_none(), "what is left comes to 2 first");
    // The tenant's share becomes smaller with every other user, until the tenant is no longer within it.
    let newcomers: Vec<_> = (10..12).map(|tenant| pool.book(tenant, 1)).collect();
    assert_eq!((pool.stats().users, pool.stats().rest()), (5, 2));
    assert!(behind.woken.0.load(Relaxed) && behind.poll().is_some() && short.poll().is_none());
    drop((newcomers, hog, within));
    assert!(short.woken.0.load(Relaxed) && above[1].woken.0.load(Relaxed));
}

#[test]
fn a_large_request_is_served_among_small_ones() {
    let pool = Pool::new(10);
    let mut held: VecDeque<Permit> = (0..10).filter_map(|tenant| pool.try_acquire(tenant, 1)).collect();
    let mut large = Waiting::new(&pool, 100, 10);
    assert!(large.poll().is_none());
    let mut small: Vec<Waiting> = Vec::new();
    // Each of the others asks again at once, before it gives back what it has.
    for _ in 0..20 {
        let Some(permit) = held.pop_front() else { break };
        small.push(Waiting::new(&pool, permit.tenant(), 1));
        drop(permit);
        small.retain_mut(|waiting| {
            let permit = waiting.poll();
            let waits = permit.is_none();
            held.extend(permit);
            waits
        });
    }
    assert!(large.poll().is_some_and(|all| all.units() == 10), "small requests overtake it: {:?}", pool.stats());
}

#[test]
fn shares_converge_whatever_the_sizes_and_numbers_of_requests() {
    let pool = Pool::new(1000);
    // For each tenant: the units of a request, and how many requests are outstanding.
    let tenants = [(1, 400), (10, 40), (70, 10), (300, 3)];
    let new = |tenant: u32| Waiting::new(&pool, tenant, tenants[tenant as usize].0);
    let mut waiting: Vec<Waiting> = Vec::new();
    for (tenant, (_, out)) in (0..).zip(tenants) {
        waiting.extend((0..out).map(|_| new(tenant)));
    }
    let mut served = [0.0; 4];
    let mut held = VecDeque::new();
    for _ in 0..100_000 {
        for index in (0..waiting.len()).rev() {
            if let Some(permit) = waiting[index].poll() {
                let tenant = waiting.swap_remove(index).tenant;
                served[tenant as usize] += permit.units() as f64;
                held.push_back(permit);
            }
        }
        // A tenant that gives units back asks again at once.
        let permit = held.pop_front().expect("somebody has something");
        let tenant = permit.tenant();
        waiting.push(new(tenant));
        drop(permit);
    }
    assert!(jain(&served) > 0.99, "{served:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        tenant: u32,
        units: u64,
    },
    Try {
        tenant: u32,
        units: u64,
    },
    Book {
        tenant: u32,
        units: u64,
    },
    Set {
        held: usize,
        units: u64,
    },
    GiveBack {
        held: usize,
    },
    GiveUp {
        waiting: usize,
    },
    /// Grants something and drops the request before it is polled again.
    GiveBackAndGiveUp {
        held: usize,
        waiting: usize,
    },
    Headroom {
        units: u64,
    },
    Reserve {
        tenant: u32,
        units: u64,
    },
    Shares(Shares),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (tenant, units, index) = (0_u32..4, 0_u64..30, 0_usize..32);
    let share = (0_u64..20, 0_u64..10, any::<bool>());
    let share = share.prop_map(|(units, reserve, is_prompt)| Share { units, reserve, is_prompt });
    let shares = (0_u64..20, prop::collection::btree_map(tenant.clone(), share, 0..4));
    let step = prop_oneof![
        6 => (tenant.clone(), units.clone()).prop_map(|(tenant, units)| Step::Acquire { tenant, units }),
        1 => (tenant.clone(), units.clone()).prop_map(|(tenant, units)| Step::Try { tenant, units }),
        1 => (tenant.clone(), units.clone()).prop_map(|(tenant, units)| Step::Book { tenant, units }),
        1 => (index.clone(), units.clone()).prop_map(|(held, units)| Step::Set { held, units }),
        4 => index.clone().prop_map(|held| Step::GiveBack { held }),
        2 => index.clone().prop_map(|waiting| Step::GiveUp { waiting }),
        1 => (index.clone(), index).prop_map(|(held, waiting)| Step::GiveBackAndGiveUp { held, waiting }),
        1 => (0_u64..20).prop_map(|units| Step::Headroom { units }),
        1 => (tenant, 0_u64..10).prop_map(|(tenant, units)| Step::Reserve { tenant, units }),
        1 => shares.prop_map(|(common, tenants)| Step::Shares(Shares { common, tenants })),
    ];
    prop::collection::vec(step, 0..150)
}

struct World {
    pool: Arc<Pool>,
    headroom: u64,
    held: Vec<Permit>,
    waiting: Vec<Waiting>,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Acquire { tenant, units } => {
                let mut waiting = Waiting::new(&self.pool, tenant, units);
                match waiting.poll() {
                    Some(permit) => self.held.push(permit),
                    None => self.waiting.push(waiting),
                }
            }
            Step::Try { tenant, units } => self.held.extend(self.pool.try_acquire(tenant, units)),
            Step::Book { tenant, units } => self.held.push(self.pool.book(tenant, units)),
            Step::Set { held, units } => self.held.get_mut(held).into_iter().for_each(|held| held.set(units)),
            Step::GiveBack { held } if held < self.held.len() => drop(self.held.swap_remove(held)),
            Step::GiveUp { waiting } if waiting < self.waiting.len() => drop(self.waiting.remove(waiting)),
            Step::GiveBackAndGiveUp { held, waiting } if held < self.held.len() && waiting < self.waiting.len() => {
                drop(self.held.swap_remove(held));
                drop(self.waiting.remove(waiting));
            }
            Step::Headroom { units } => {
                self.headroom = units;
                self.pool.set_headroom(units);
            }
            Step::Reserve { tenant, units } => self.pool.set_reserve(tenant, units),
            Step::Shares(shares) => {
                self.headroom = shares.common;
                self.pool.set_shares(&shares);
            }
            Step::GiveBack { .. } | Step::GiveUp { .. } | Step::GiveBackAndGiveUp { .. } => {}
        }
    }

    /// Every request that was woken has its units, and no other has: no wake-up is lost, and none is in vain.
    fn run_woken(&mut self) -> Result<(), TestCaseError> {
        for mut waiting in std::mem::take(&mut self.waiting) {
            let woken = waiting.woken.0.load(Relaxed);
            let permit = waiting.poll();
            prop_assert_eq!(permit.is_some(), woken);
            match permit {
                Some(permit) => self.held.push(permit),
                None => self.waiting.push(waiting),
            }
        }
        Ok(())
    }

    /// Checks what must hold whenever no request is on its way.
    fn check(&self) -> Result<(), TestCaseError> {
        let stats = self.pool.stats();
        let mut used = BTreeMap::<u32, u64>::new();
        self.held.iter().for_each(|held| *used.entry(held.tenant()).or_default() += held.units());
        prop_assert_eq!(stats.used, used.values().sum::<u64>());
        prop_assert_eq!(stats.users, used.values().filter(|&&units| units > 0).count() as u64);
        prop_assert_eq!(stats.waiting, self.waiting.len() as u64);
        let mut heads = BTreeMap::<u32, u64>::new();
        for waiting in &self.waiting {
            heads.entry(waiting.tenant).or_insert(waiting.units);
        }
        for (&tenant, &units) in &heads {
            let Part { used, reserve } = self.pool.part(tenant);
            prop_assert!(used + units > reserve, "{tenant} waits for {units} below its reserve");
        }
        // If requests wait, at least one of them waits for units that are not there, or is above its share.
        let fits = |(tenant, units): (&u32, &u64)| {
            let Part { used, reserve } = self.pool.part(*tenant);
            *units + self.headroom <= stats.rest() + reserve.saturating_sub(used)
        };
        prop_assert!(heads.is_empty() || !heads.iter().all(fits), "all that wait could go: {heads:?}, {stats:?}");
        Ok(())
    }
}

proptest! {
    /// Units are conserved, wake-ups are neither lost nor in vain, reserves are honoured, and no units are idle that
    /// all could have.
    #[test]
    fn units_are_conserved_and_nobody_waits_in_vain(capacity in 1_u64..60, steps in steps()) {
        let (held, waiting) = (Vec::new(), Vec::new());
        let mut world = World { pool: Pool::new(capacity), headroom: 0, held, waiting };
        for step in steps {
            world.take(step);
            world.run_woken()?;
            world.check()?;
        }
        world.pool.set_shares(&Shares::default());
        (0..4).for_each(|tenant| world.pool.set_reserve(tenant, 0));
        loop {
            world.run_woken()?;
            if world.held.is_empty() {
                break;
            }
            world.held.clear();
        }
        prop_assert!(world.waiting.is_empty(), "everybody is served in the end");
        prop_assert!(world.pool.parts().is_empty());
        prop_assert_eq!(world.pool.stats(), PoolStats { capacity, ..PoolStats::default() });
    }

    /// With reserves set beforehand and nothing booked by force, there is never more in use than the capacity.
    #[test]
    fn nothing_that_is_asked_for_goes_beyond_the_capacity(
        reserves in prop::collection::vec(0_u64..20, 4),
        rest in 0_u64..40,
        requests in prop::collection::vec((0_u32..4, 0_u64..30, any::<bool>()), 0..200),
    ) {
        let pool = Pool::new(reserves.iter().sum::<u64>() + rest);
        for (tenant, &reserve) in (0..).zip(&reserves) {
            pool.set_reserve(tenant, reserve);
        }
        let mut held: Vec<Vec<Permit>> = (0..4).map(|_| Vec::new()).collect();
        for (tenant, units, give) in requests {
            if give {
                held[tenant as usize].pop();
            } else {
                let part = pool.part(tenant);
                let taken = pool.try_acquire(tenant, units);
                prop_assert!(taken.is_some() || part.used + units > part.reserve);
                held[tenant as usize].extend(taken);
            }
            let stats = pool.stats();
            prop_assert!(stats.used + stats.kept <= stats.capacity);
        }
    }

    /// A tenant above its share takes nothing of what is kept in common. A tenant below its share is refused only where
    /// too little is left.
    #[test]
    fn what_is_kept_in_common_is_left_to_those_below_their_share(
        (rest, common) in (0_u64..40, 0_u64..40),
        units in prop::collection::vec(0_u64..30, 4),
        requests in prop::collection::vec((0_u32..4, 1_u64..30, any::<bool>()), 0..200),
    ) {
        let pool = Pool::new(rest + common);
        let share = |(tenant, &units): (u32, &u64)| (tenant, Share { units, reserve: 0, is_prompt: true });
        pool.set_shares(&Shares { common, tenants: (0..).zip(&units).map(share).collect() });
        let mut held: Vec<Vec<Permit>> = (0..4).map(|_| Vec::new()).collect();
        for (tenant, asked, give) in requests {
            if give {
                held[tenant as usize].pop();
                continue;
            }
            let (used, left, share) = (pool.part(tenant).used, pool.stats().rest(), units[tenant as usize]);
            let permit = pool.try_acquire(tenant, asked);
            let is_above = permit.as_ref().is_some_and(|permit| used + permit.units() > share);
            prop_assert!(!is_above || pool.stats().rest() >= common);
            prop_assert!(permit.is_some() || used + asked > share || asked > left);
            held[tenant as usize].extend(permit);
        }
    }
}
