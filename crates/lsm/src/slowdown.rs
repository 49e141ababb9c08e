//! How fast users may write while level 0 is long but not yet full: a pure function.

use crate::options::TreeOptions;

/// Bytes per second at `runs` level-0 runs: the rate falls evenly, from the first of `slow_bytes_per_sec` at `l0_slow`
/// runs to the second at `l0_stop`, so that there is no cliff before the stop. Never 0.
pub fn rate(runs: usize, options: &TreeOptions) -> u64 {
    let steps = options.l0_stop.saturating_sub(options.l0_slow).max(1) as u64;
    let step = (runs.saturating_sub(options.l0_slow) as u64).min(steps);
    let [first, last] = options.slow_bytes_per_sec;
    (first - first.saturating_sub(last) * step / steps).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_with_every_run() {
        let options = TreeOptions::default();
        let rates: Vec<u64> = (20..=36).map(|runs| rate(runs, &options)).collect();
        assert_eq!((rates[0], rates[16]), (16 << 20, 1 << 20));
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
