//! The same operations under any options give the same answers.

use weir_io::Rng;
use weir_log::SyncMode;
use weir_sim::metamorphic::compare;
use weir_sim::node_store::{NodeStore, draw};
use weir_sim::runner::{Plan, run};

#[test]
fn options_do_not_change_answers() {
    // A hundred lists of ten thousand operations under five option sets each: five million operations.
    let plan = Plan { threads: 2, ..Plan::quiet(0..100) };
    let replay = |seed| format!("weir sim same --options 5 --seed {seed}");
    let compared = run(&plan, replay, |seed| {
        let mut rng = Rng::new(seed);
        let variants: Vec<_> = (0..5).map(|_| draw(&mut rng, SyncMode::None)).collect();
        compare::<NodeStore>(seed, 10_000, &variants, 3)
    });
    match compared {
        Ok(histories) => println!("{histories}"),
        Err(failure) => panic!("{failure}"),
    }
}
