//! How fast users may write while level 0 has many runs, or many bytes of compactions are pending: a pure function.

use crate::options::TreeOptions;

/// Bytes per second at `runs` level-0 runs and `pending_bytes` of pending compactions. The rate falls evenly, so that
/// there is no cliff before the stop: from the first of `slow_bytes_per_sec`, at the limit where writes begin to be
/// slowed, to the second, at the limit where they stop. Of runs and pending bytes, the one that is closer to its stop
/// decides. Never 0.
pub fn rate(runs: usize, pending_bytes: u64, options: &TreeOptions) -> u64 {
    let way = |at: u64, [slow, stop]: [u64; 2]| {
        let steps = stop.saturating_sub(slow).max(1);
        (at.saturating_sub(slow).min(steps), steps)
    };
    let [first, last] = options.slow_bytes_per_sec;
    let at = |(step, steps): (u64, u64)| {
        let less = u128::from(first.saturating_sub(last)) * u128::from(step) / u128::from(steps);
        first - u64::try_from(less).unwrap_or(u64::MAX).min(first)
    };
    let by_runs = at(way(runs as u64, [options.l0_slow as u64, options.l0_stop as u64]));
    by_runs.min(at(way(pending_bytes, options.pending_bytes_limits))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_with_every_run() {
        let options = TreeOptions::default();
        let rates: Vec<u64> = (20..=36).map(|runs| rate(runs, 0, &options)).collect();
        assert_eq!((rates[0], rates[16]), (16 << 20, 1 << 20));
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn the_rate_falls_with_what_is_pending() {
        let at = |runs, gib: u64| rate(runs, gib << 30, &TreeOptions::default()) >> 20;
        assert_eq!([0, 64, 128, 192, 256, 1000].map(|gib| at(0, gib)), [16, 16, 11, 6, 1, 1]);
        assert_eq!((at(28, 64), at(28, 250)), (8, 1), "whichever is closer to its stop");
    }
}
