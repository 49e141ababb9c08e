//! Medians, and ratios of what runs of both sides measured.

pub(crate) use weir_scenario::ratio::{Ratio, median};

use crate::outcome::Outcome;

/// The median of counts, or of times in nanoseconds; 0 of none.
pub(crate) fn median_of_counts(counts: impl Iterator<Item = u64>) -> u64 {
    median(&counts.map(|count| count as f64).collect::<Vec<_>>()).unwrap_or(0.0) as u64
}

/// The ratio of what `measure` finds in the runs of both sides; `None` unless both ran in one round at least.
pub(crate) fn ratio_of(ours: &[&Outcome], theirs: &[&Outcome], measure: impl Fn(&Outcome) -> f64) -> Option<Ratio> {
    let in_round = |outcome: &&Outcome| {
        let peer = theirs.iter().find(|peer| peer.round == outcome.round)?;
        Some(measure(outcome) / measure(peer))
    };
    let ratios: Vec<f64> = ours.iter().filter_map(in_round).collect();
    let values = |runs: &[&Outcome]| runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>();
    Ratio::from_values(&values(ours), &values(theirs), &ratios)
}
