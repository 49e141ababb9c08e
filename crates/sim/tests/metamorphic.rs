//! The same operations under any options give the same answers.

use weir_io::Rng;
use weir_log::SyncMode;
use weir_sim::metamorphic::compare;
use weir_sim::node_store::{NodeStore, draw};
use weir_sim::runner::{Plan, run};

#[test]
fn options_do_not_change_answers() {
    let lists = std::env::var("LISTS").ok().and_then(|lists| lists.parse().ok()).unwrap_or(20);
    let replay = |seed| format!("weir sim same --seed {seed}");
    let compared = run(&Plan::quiet(0..lists), replay, |seed| {
        let mut rng = Rng::new(seed);
        let variants: Vec<_> = (0..5).map(|_| draw(&mut rng, SyncMode::None)).collect();
        compare::<NodeStore>(seed, 10_000, &variants, 3)
    });
    match compared {
        Ok(histories) => println!("{histories}"),
        Err(failure) => panic!("{failure}"),
    }
}
