//! The same operations under any options give the same answers.

use weir_io::Rng;
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_lsm::table::Compression;
use weir_sim::metamorphic::compare;
use weir_sim::pair_store::{PairOptions, PairStore};
use weir_sim::runner::{Plan, run};

fn draw(rng: &mut Rng) -> PairOptions {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let compression = [Compression::None, Compression::Lz4, Compression::Zstd];
    let tree = TreeOptions {
        write_buffer_bytes: pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]) as usize,
        write_buffers_max: pick(&[2, 4]) as usize,
        flush_memtables_max: pick(&[1, 4]) as usize,
        l0_trigger: pick(&[1, 2, 4]) as usize,
        level1_bytes: pick(&[8 << 10, 64 << 10, 1 << 20]),
        level_factor: pick(&[2, 4, 10]),
        table_bytes: pick(&[4 << 10, 32 << 10, 1 << 20]),
        block_bytes: pick(&[128, 512, 4096]) as usize,
        filter_bits_per_key: pick(&[0, 10]) as u32,
        compression: std::array::from_fn(|_| compression[pick(&[0, 1, 2]) as usize]),
        io_bytes: pick(&[4096, 65536]) as usize,
        ..TreeOptions::default()
    };
    PairOptions {
        sync: SyncMode::None,
        tree,
        cache_bytes: pick(&[0, 16 << 10, 1 << 20]) as usize,
        segment_bytes: 256 << 10,
    }
}

#[test]
fn options_do_not_change_answers() {
    let lists = std::env::var("LISTS").ok().and_then(|lists| lists.parse().ok()).unwrap_or(20);
    let replay = |seed| format!("weir sim same --seed {seed}");
    let compared = run(&Plan::quiet(0..lists), replay, |seed| {
        let mut rng = Rng::new(seed);
        let variants: Vec<PairOptions> = (0..5).map(|_| draw(&mut rng)).collect();
        compare::<PairStore>(seed, 10_000, &variants, 3)
    });
    match compared {
        Ok(histories) => println!("{histories}"),
        Err(failure) => panic!("{failure}"),
    }
}
