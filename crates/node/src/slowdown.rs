//! How much a write is delayed while level 0 is long but not yet full: a pure function.

use weir_io::Nanos;
use weir_lsm::TreeOptions;

/// The delay of a write of `bytes` at `runs` level-0 runs: the rate falls evenly, from the first of `slow_bytes_per_sec` at `l0_slow` runs to the second
/// at `l0_stop`, so that there is no cliff before the stop.
pub fn delay(runs: usize, options: &TreeOptions, bytes: usize) -> Nanos {
    let steps = options.l0_stop.saturating_sub(options.l0_slow).max(1) as u64;
    let step = (runs.saturating_sub(options.l0_slow) as u64).min(steps);
    let [first, last] = options.slow_bytes_per_sec;
    delay_at(first - first.saturating_sub(last) * step / steps, bytes)
}

/// The delay of a write of `bytes` at `rate` bytes per second.
pub fn delay_at(rate: u64, bytes: usize) -> Nanos {
    (u128::from(bytes as u64) * 1_000_000_000 / u128::from(rate.max(1))).try_into().unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_grows_with_every_run() {
        let options = TreeOptions::default();
        let delays: Vec<Nanos> = (20..=36).map(|runs| delay(runs, &options, 1 << 20)).collect();
        assert_eq!(delays[0], 1_000_000_000 / 16);
        assert_eq!(delays[16], 1_000_000_000);
        assert!(delays.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
