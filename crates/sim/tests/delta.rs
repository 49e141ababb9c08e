//! Delayed Fair Sharing: whoever asks for its share has it within its delay.

use clap::Parser;
use weir_node::ShareMode;
use weir_sim::delta::flush::{self, Flush, Slotted};
use weir_sim::delta::{Buffer, Class, Shared, heading, row, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Buffer,
}

#[derive(Parser)]
struct FlushLine {
    #[command(flatten)]
    args: Flush,
}

/// DF-E2, DF-3: a table of the paper, with what the node measures of this device.
#[test]
fn a_share_of_the_write_memory_is_there_within_the_delay_that_was_promised() {
    let args = Line::parse_from("it --seconds 20".split_whitespace()).args;
    println!("{}", heading(&args));
    let run = |mode: &ShareMode| run(&args, *mode).expect("it runs");
    let runs: Vec<Shared> = args.modes.iter().map(run).inspect(|shared| println!("{}", row(shared))).collect();
    for shared in &runs {
        assert!(shared.is_lawful, "reserves are the law's: {shared:?}");
        let Some(delta) = shared.delta_ms else { continue };
        for tenant in &shared.tenants {
            // Where there is no time to give anything back, a third one that asks is one more than was promised.
            let is_promised = delta > 0.0 || tenant.class == Class::Ramping;
            // Nothing at all is less than a millisecond.
            assert!(!is_promised || tenant.longest_ms <= (delta * 1.01).max(1.0), "{}: {tenant:?}", shared.mode);
        }
    }
    let [quota, deltas @ .., fair] = &runs[..] else { panic!("six modes") };
    let ramping = |shared: &Shared| shared.longest_ms(Class::Ramping);
    assert!(ramping(quota) < 1.0 && ramping(fair) > 200.0, "fair sharing alone: {} ms", ramping(fair));
    let reserves: Vec<f64> = runs.iter().map(|shared| shared.reserve_percent).collect();
    assert!(reserves.is_sorted_by(|one, other| one >= other), "{reserves:?}");
    assert!(reserves[1] == 12.5 && reserves[4] < reserves[1], "the longest delay needs less than none: {reserves:?}");
    let written = |shared: &Shared| shared.bytes_per_sec;
    assert!(deltas.iter().all(|delta| written(delta) > written(quota)), "what is not kept is lent: {runs:?}");
}

/// DF-E7: with a slot reserved a flush begins at once, and without one it waits for a whole flush.
#[test]
fn a_flush_slot_is_there_within_the_delay_that_was_promised() {
    let args = FlushLine::parse_from(["it"]).args;
    let run = |mode: &ShareMode| flush::run(&args, *mode).expect("it runs");
    let runs: Vec<Slotted> = args.modes.iter().map(run).inspect(|slotted| println!("{slotted:?}")).collect();
    for slotted in &runs {
        let Some(delta) = slotted.delta_ms else { continue };
        let ramping = slotted.longest_ms(Class::Ramping);
        assert!(ramping <= (delta * 1.01).max(1.0), "{slotted:?}");
        let time = slotted.flush_ms.expect("some were flushed");
        assert_eq!(slotted.reserved, u64::from(time > delta), "one slot of two, if a flush takes longer than that");
    }
    let [quota, .., fair] = &runs[..] else { panic!("six modes") };
    let ramping = |slotted: &Slotted| slotted.longest_ms(Class::Ramping);
    assert!(ramping(quota) < 1.0 && ramping(fair) > 500.0, "fair sharing alone: {} ms", ramping(fair));
    assert!(runs.iter().any(|slotted| slotted.delta_ms.is_some() && slotted.reserved == 0), "{runs:?}");
    assert!(quota.bytes_per_sec >= 0.99 * fair.bytes_per_sec, "a slot that is kept costs little: {runs:?}");
}
