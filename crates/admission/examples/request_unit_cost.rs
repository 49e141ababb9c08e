//! What it costs to count and to price a request (XS-19: less than a microsecond), in real time:
//! `cargo run --release -p weir-admission --example request_unit_cost`.
//!
//! With a number behind it, it only counts and prices so often: for a tool that counts instructions.

use std::hint::black_box;

use weir_admission::request_units::{Module, Prices, Work, default_pod, default_table};
use weir_io::Clock;
use weir_io::real::RealClock;

const ROUNDS: u64 = 5_000_000;

/// A `GET` in a pipeline, as the server counts it.
fn get(bytes: u64) -> Work {
    let mut work = Work::default();
    work.count(Module::RowFound, 1);
    work.count(Module::ReadByte, black_box(bytes));
    let mut request = Work::default();
    request.count(Module::Command, 1);
    request.count(Module::Word, black_box(2));
    request.count(Module::RequestByte, black_box(30));
    work += request;
    work.count(Module::ReplyByte, black_box(bytes + 9));
    work.count(Module::Round, black_box(0));
    work
}

fn main() {
    let prices = Prices::new(default_table(false), default_pod());
    let once = |bytes| black_box(prices.of(&get(bytes)));
    if let Some(rounds) = std::env::args().nth(1).and_then(|rounds| rounds.parse::<u64>().ok()) {
        for round in 0..rounds {
            once(round & 1023);
        }
        return;
    }
    let clock = RealClock::new();
    let time = |what: &str, run: &dyn Fn(u64)| {
        let mut best = u64::MAX;
        for _ in 0..5 {
            let begin = clock.now();
            (0..ROUNDS).for_each(|round| run(round & 1023));
            best = best.min(clock.now() - begin);
        }
        println!("{what:30} {:>8.1} ns", best as f64 / ROUNDS as f64);
    };
    time("counted", &|bytes| {
        black_box(get(bytes));
    });
    let work = get(100);
    time("priced", &|_| {
        black_box(prices.of(black_box(&work)));
    });
    time("counted and priced", &|bytes| {
        once(bytes);
    });
}
