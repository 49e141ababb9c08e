//! Caches at their limits, in virtual time. An hour of it:
//! `WEIR_SECONDS=3600 cargo test -p weir-sim --test sim cache:: -- --nocapture`, or `weir sim cache --seconds 3600`.

use weir_sim::cache::{Caches, run};

#[test]
fn a_cache_at_its_limit_goes_on_for_ever_and_its_neighbours_do_not_notice() {
    let seconds = std::env::var("WEIR_SECONDS").map_or(180, |seconds| seconds.parse().expect("a number"));
    let cache = run(1, seconds, Caches::Expire).expect("nothing fails");
    println!("{cache}");
    assert_eq!(cache.refused, 0, "{cache}");
    assert!(cache.space_max <= 1.5, "{cache}");
    assert!(cache.reclaim_bytes[1] > 0 || cache.tables_dropped > 0, "{cache}");
    let plain = run(1, seconds, Caches::Overwrite).expect("nothing fails");
    println!("{plain}");
    assert!(plain.short_seconds > 0, "nobody was short of anything: {plain}");
    let ms = 1_000_000;
    assert!(cache.read_p99 <= plain.read_p99 + plain.read_p99 / 10 + ms, "{cache}\n{plain}");
    assert!(cache.write_p99 <= plain.write_p99 + plain.write_p99 / 10 + ms, "{cache}\n{plain}");
}
