//! What it costs to count and to price a request (XS-19: less than a microsecond), and to check it against limits
//! (XS-E4), in real time: `cargo run --release -p weir-admission --example request_unit_cost`.
//!
//! With a number as its argument, it only counts and prices that many times, each `GET` unlike the one before: for a
//! tool that counts instructions.

use std::hint::black_box;

use std::sync::Arc;

use weir_admission::request_units::{Module, Price, Prices, Work, default_pod, default_table};
use weir_admission::{Access, NodeUnits, Quota, RequestOrder, Unit, UnitLimits};
use weir_io::Clock;
use weir_io::real::RealClock;

const ROUNDS: u64 = 5_000_000;

/// Counts a `GET` in a pipeline, as the server does.
#[inline(never)]
fn count_get(work: &mut Work, bytes: u64) {
    work.clear();
    work.count(Module::RowFound, 1);
    work.count(Module::ReadByte, black_box(bytes));
    work.count(Module::RowCommand, 1);
    work.count_all([
        (Module::Command, 1),
        (Module::Word, black_box(2)),
        (Module::RequestByte, black_box(30)),
        (Module::ReplyByte, black_box(bytes + 9)),
    ]);
}

/// One connection: what it counts, and how its previous command was counted and what that cost.
#[derive(Default)]
struct Connection {
    work: Box<Work>,
    last: Box<Work>,
    price: Price,
}

impl Connection {
    /// Counts and prices a `GET`, and keeps both for `RU LAST`, as `gateway`'s `charging.rs` does.
    #[inline(never)]
    fn get(&mut self, prices: &Prices, bytes: u64) {
        count_get(&mut self.work, bytes);
        if !self.last.is_surely(&self.work) {
            self.price = prices.of(&self.work);
        }
        std::mem::swap(&mut self.work, &mut self.last);
    }
}

fn main() {
    let prices = Prices::new(default_table(false), default_pod());
    let mut connection = Connection::default();
    if let Some(rounds) = std::env::args().nth(1).and_then(|rounds| rounds.parse::<u64>().ok()) {
        for round in 0..rounds {
            connection.get(&prices, round & 1023);
        }
        black_box(connection.price);
        return;
    }
    let clock = RealClock::new();
    fn time(clock: &RealClock, what: &str, mut run: impl FnMut(u64)) {
        let mut best = u64::MAX;
        for _ in 0..5 {
            let begin = clock.now();
            (0..ROUNDS).for_each(|round| run(round & 1023));
            best = best.min(clock.now() - begin);
        }
        println!("{what:45} {:>8.1} ns", best as f64 / ROUNDS as f64);
    }
    time(&clock, "nothing", |bytes| {
        black_box(bytes);
    });
    let mut work = Work::default();
    time(&clock, "counted", |bytes| count_get(black_box(&mut work), bytes));
    count_get(&mut work, 100);
    time(&clock, "priced", |_| {
        black_box(prices.of(black_box(&work)));
    });
    time(&clock, "counted and priced", |bytes| connection.get(&prices, bytes));
    time(&clock, "the same where it is as the command before", |_| connection.get(&prices, 100));
    black_box(connection.price);
    // What a command does beside that, as in `gateway`'s `charging.rs`.
    let node = NodeUnits::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let quota = |ru| {
        let limits = UnitLimits { ru, ..UnitLimits::default() };
        Quota::on_node(Arc::clone(&clock) as Arc<dyn Clock>, &limits, Arc::clone(&node))
    };
    let charge = |quota: &Quota, actual: u64| {
        if !quota.is_free() {
            black_box(quota.try_admit(Unit::Request, black_box(300)));
            drop(black_box(quota.enter_node(Access::Read, 300)));
            quota.settle(Unit::Request, 0, 300, black_box(actual));
        }
    };
    let (free, limited) = (quota(0), quota(1_000_000_000));
    time(&clock, "charged and settled: no limit", |_| charge(&free, 310));
    time(&clock, "charged and settled: a limit that is far away", |_| charge(&limited, 310));
    node.queue().set(Some(1_000_000_000_000), RequestOrder::InTurn);
    time(&clock, "the same, and the node has queues", |_| charge(&limited, 310));
}
