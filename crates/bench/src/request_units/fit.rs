//! Which costs explain what was measured?

/// Passes over all unknowns.
const PASSES: usize = 20_000;

/// The costs, none below 0, for which the sums of counts times costs are nearest to what was measured, each error as a
/// share of its measurement. `rows` are counts and what was measured; a cost that may not be, or that nobody counts, is
/// `None`.
pub(super) fn least_relative_squares(rows: &[(Vec<f64>, f64)], may: &[bool]) -> Vec<Option<f64>> {
    let unknowns = may.len();
    let scaled: Vec<Vec<f64>> =
        rows.iter().map(|(counts, value)| counts.iter().map(|count| count / value).collect()).collect();
    let norm: Vec<f64> = (0..unknowns).map(|at| scaled.iter().map(|row| row[at] * row[at]).sum()).collect();
    let is_used = |at: usize| may[at] && norm[at] > 0.0;
    let mut costs = vec![0.0; unknowns];
    // What is missing of each row.
    let mut left = vec![1.0; rows.len()];
    for _ in 0..PASSES {
        let mut moved = 0.0_f64;
        for at in (0..unknowns).filter(|&at| is_used(at)) {
            let slope: f64 = scaled.iter().zip(&left).map(|(row, left)| row[at] * left).sum();
            let better = (costs[at] + slope / norm[at]).max(0.0);
            let step = better - costs[at];
            if step != 0.0 {
                scaled.iter().zip(&mut left).for_each(|(row, left)| *left -= row[at] * step);
                costs[at] = better;
                moved = moved.max((step * step * norm[at]).sqrt());
            }
        }
        if moved < 1e-9 {
            break;
        }
    }
    (0..unknowns).map(|at| is_used(at).then_some(costs[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_found_again_and_none_is_negative() {
        let costs = [3.0, 0.0, 0.25, 100.0];
        let rows: Vec<(Vec<f64>, f64)> = (0..40)
            .map(|row: u32| {
                let counts: Vec<f64> = (0..4).map(|at| f64::from((row * 7 + at * 13 + row * at) % 11)).collect();
                let value = counts.iter().zip(costs).map(|(count, cost)| count * cost).sum::<f64>();
                (counts, value)
            })
            .filter(|(_, value)| *value > 0.0)
            .collect();
        let found = least_relative_squares(&rows, &[true, true, true, true]);
        for (found, cost) in found.iter().zip(costs) {
            assert!((found.expect("used") - cost).abs() < 0.01, "{found:?} for {cost}");
        }
        let found = least_relative_squares(&rows, &[true, false, true, true]);
        assert!(found[1].is_none() && found[0].is_some_and(|cost| cost >= 0.0));
    }
}
