//! How much a write is delayed while level 0 is long but not yet full: a pure function.

use weir_io::Nanos;

/// Rate at the first run above the threshold, in bytes per second (RocksDB's first delayed write rate).
const RATE_BYTES_PER_SEC_MAX: u64 = 16 << 20;
/// Rate at the last run before writes stop.
const RATE_BYTES_PER_SEC_MIN: u64 = 1 << 20;

/// The delay of a write of `bytes` at `runs` level-0 runs, `slow` being the threshold and `stop` where writes stop. The rate falls
/// evenly from 16 to 1 MiB/s in between, so that there is no cliff before the stop.
pub fn delay(runs: usize, slow: usize, stop: usize, bytes: usize) -> Nanos {
    let steps = stop.saturating_sub(slow).max(1) as u64;
    let step = (runs.saturating_sub(slow) as u64).min(steps);
    let rate = RATE_BYTES_PER_SEC_MAX - (RATE_BYTES_PER_SEC_MAX - RATE_BYTES_PER_SEC_MIN) * step / steps;
    delay_at(rate, bytes)
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
        let delays: Vec<Nanos> = (20..=36).map(|runs| delay(runs, 20, 36, 1 << 20)).collect();
        assert_eq!(delays[0], 1_000_000_000 / 16);
        assert_eq!(delays[16], 1_000_000_000);
        assert!(delays.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
