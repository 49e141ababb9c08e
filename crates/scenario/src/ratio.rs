//! Medians over rounds, and ratios of medians.

/// The middle value; of an even number of values, the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { high } else { (sorted[sorted.len() / 2 - 1] + high) / 2.0 })
}

/// A ratio of medians, and the smallest and largest ratio within one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of the medians.
    pub of_medians: f64,
    /// The smallest ratio within a round.
    pub min: f64,
    /// The largest ratio within a round.
    pub max: f64,
}

impl Ratio {
    /// Computed from both sides' values and the ratios within rounds; `None` without any.
    pub fn from_values(ours: &[f64], theirs: &[f64], ratios: &[f64]) -> Option<Self> {
        let of_medians = over(median(ours)?, median(theirs)?);
        let min = ratios.iter().copied().reduce(f64::min)?;
        let max = ratios.iter().copied().reduce(f64::max)?;
        Some(Self { of_medians, min, max })
    }

    /// The range within rounds, in words.
    pub fn spread(&self) -> String {
        format!("[{:.2} .. {:.2}]", self.min, self.max)
    }
}

/// `ours` divided by `theirs`; 1 if both are 0.
pub fn over(ours: f64, theirs: f64) -> f64 {
    if ours == theirs { 1.0 } else { ours / theirs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_its_range_and_nothing_is_as_much_as_nothing() {
        let ratio = Ratio::from_values(&[1.0, 9.0, 3.0], &[2.0, 2.0, 4.0], &[0.5, 4.5, 0.75]).expect("values");
        assert_eq!((ratio.of_medians, ratio.spread()), (1.5, "[0.50 .. 4.50]".to_owned()));
        assert_eq!((over(0.0, 0.0), over(1.0, 2.0), Ratio::from_values(&[], &[], &[])), (1.0, 0.5, None));
    }
}
