//! Medians, and ratios of medians.

use crate::outcome::Outcome;

/// The middle value; the mean of the two in the middle of an even number.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { high } else { (sorted[sorted.len() / 2 - 1] + high) / 2.0 })
}

/// A ratio of medians, and the smallest and largest ratio within one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    min: f64,
    max: f64,
}

impl Ratio {
    /// Of what `measure` finds in the runs of both sides; `None` unless both ran in one round at least.
    pub(crate) fn of(ours: &[&Outcome], theirs: &[&Outcome], measure: impl Fn(&Outcome) -> f64) -> Option<Self> {
        let in_round = |outcome: &&Outcome| {
            let peer = theirs.iter().find(|peer| peer.round == outcome.round)?;
            Some(measure(outcome) / measure(peer))
        };
        let ratios: Vec<f64> = ours.iter().filter_map(in_round).collect();
        let values = |runs: &[&Outcome]| runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>();
        Self::from_values(&values(ours), &values(theirs), &ratios)
    }

    /// From both sides' values and the ratios within rounds; `None` without any.
    pub(crate) fn from_values(ours: &[f64], theirs: &[f64], ratios: &[f64]) -> Option<Self> {
        let of_medians = median(ours)? / median(theirs)?;
        let min = ratios.iter().copied().reduce(f64::min)?;
        let max = ratios.iter().copied().reduce(f64::max)?;
        Some(Self { of_medians, min, max })
    }

    pub(crate) fn spread(&self) -> String {
        format!("[{:.2} .. {:.2}]", self.min, self.max)
    }
}
