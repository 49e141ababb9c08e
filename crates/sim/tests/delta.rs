//! Delayed Fair Sharing: whoever asks for its share has it within its delay.

use clap::Parser;
use weir_node::ShareMode;
use weir_sim::delta::{Buffer, Class, Shared, heading, row, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Buffer,
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
            // Nothing at all is less than a millisecond.
            assert!(tenant.longest_ms <= (delta * 1.01).max(1.0), "{}: {tenant:?}", shared.mode);
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
