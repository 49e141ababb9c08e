//! Peaks and valleys of a load, as SILK's authors describe them (SI-E1, SI-E4).

use weir_io::Rng;

use crate::trace::Trace;

/// How peaks and valleys follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// The same lengths all the time, in seconds.
    Regular {
        /// Length of a peak.
        peak: u64,
        /// Length of a valley.
        valley: u64,
    },
    /// Drawn, like a day at Nutanix (SI-E1): nine peaks of ten last 10 to 20 s, the others 100 to 400 s, most of them
    /// short; valleys last 5 to 20 s, 15 on average.
    Drawn,
}

/// What `tenants` do in `seconds`, second by second: everything in a peak, the share `low` in a valley. Each tenant
/// begins in a valley. Where lengths are drawn, each tenant has its own; otherwise all move together.
pub fn trace(course: Course, low: f32, tenants: usize, seconds: u64, seed: u64) -> Trace {
    let mut rng = Rng::new(seed ^ 0x0062_7572_7374);
    let tenants = (0..tenants).map(|_| {
        let mut rng = rng.fork("tenant");
        let mut steps = Vec::new();
        while (steps.len() as u64) < seconds {
            let (valley, peak) = match course {
                Course::Regular { peak, valley } => (valley, peak),
                Course::Drawn => (drawn_valley(&mut rng), drawn_peak(&mut rng)),
            };
            steps.extend((0..valley).map(|_| (low, low)));
            steps.extend((0..peak).map(|_| (1.0, 1.0)));
        }
        steps.truncate(seconds as usize);
        steps
    });
    Trace::of(1, tenants.collect())
}

/// The length of a valley in seconds. It is the larger of two draws: the mean of 5 to 20 is 15 then.
fn drawn_valley(rng: &mut Rng) -> u64 {
    5 + rng.below(16).max(rng.below(16))
}

/// The length of a peak in seconds.
fn drawn_peak(rng: &mut Rng) -> u64 {
    if rng.below(10) < 9 { 10 + rng.below(11) } else { 100 + (300.0 * rng.unit() * rng.unit()) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the peaks and of the valleys of the first tenant.
    fn lengths(trace: &Trace) -> [Vec<u64>; 2] {
        let shares: Vec<f64> = trace.steps(0, false).collect();
        let mut lengths = [Vec::new(), Vec::new()];
        for same in shares.chunk_by(|a, b| a == b) {
            lengths[usize::from(same[0] < 1.0)].push(same.len() as u64);
        }
        lengths
    }

    #[test]
    fn regular_peaks_come_at_their_times() {
        let trace = trace(Course::Regular { peak: 100, valley: 10 }, 0.25, 2, 330, 1);
        assert_eq!(lengths(&trace), [vec![100; 3], vec![10; 3]]);
        assert_eq!((trace.seconds(), trace.tenants()), (330, 2));
        assert_eq!(trace.steps(1, true).next(), Some(0.25));
    }

    #[test]
    fn a_drawn_day_is_what_the_paper_says_of_it() {
        let day = trace(Course::Drawn, 0.02, 2, 86_400, 7);
        let [mut peaks, mut valleys] = lengths(&day);
        // The end of the day may cut the last peak or the last valley.
        peaks.pop();
        valleys.pop();
        let mean = |lengths: &[u64]| lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
        let within = |from, to| peaks.iter().filter(|&&peak| (from..=to).contains(&peak)).count() as f64;
        assert!((14.0..16.0).contains(&mean(&valleys)), "{}", mean(&valleys));
        assert!((0.87..0.93).contains(&(within(10, 20) / peaks.len() as f64)));
        assert_eq!(within(10, 20) + within(100, 400), peaks.len() as f64);
        let of = |tenant| day.steps(tenant, false).collect::<Vec<_>>();
        assert_ne!(of(0), of(1), "each has a day of its own");
        assert_eq!(day, trace(Course::Drawn, 0.02, 2, 86_400, 7));
    }
}
