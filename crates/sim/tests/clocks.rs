//! Wall clocks that jump.

use weir_io::plant::{Plant, with_planted};
use weir_sim::clocks::{indifferent, jump};
use weir_sim::runner::{Failure, Plan, run};

fn days(seeds: u64) -> Result<weir_sim::clocks::Jumps, Failure> {
    run(&Plan::quiet(0..seeds), |seed| format!("weir sim clocks --seed {seed}"), |seed| jump(seed, 5, 150))
}

#[test]
fn keys_live_by_the_clock_and_what_was_found_gone_stays_gone() {
    match days(60) {
        Ok(jumps) => {
            println!("{jumps}");
            assert!(jumps.buried > 500 && jumps.back > 1_000, "too little happened: {jumps}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_read_that_leaves_what_has_expired_where_it_is_would_be_found() {
    let failure = with_planted(Some(Plant::ExpiredLeft), || days(60)).expect_err("a key comes back");
    assert!(failure.story.contains("there again"), "{failure}");
}

/// Policies, gates, hibernation and background work use the monotonic clock.
#[test]
fn nothing_but_the_end_of_keys_looks_at_the_wall_clock() {
    for seed in 0..10 {
        if let Err(story) = indifferent(seed, false) {
            panic!("seed {seed}: {story}");
        }
    }
    // And the fingerprint would show such a look: the end of keys does look at the wall clock.
    assert!((0..5).any(|seed| indifferent(seed, true).is_err()), "nobody ever looks at the wall clock");
}
