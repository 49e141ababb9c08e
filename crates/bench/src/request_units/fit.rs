//! Which costs explain what was measured?

/// Passes over all unknowns.
const PASSES: usize = 5000;
/// Times that the measurements are weighed anew.
const WEIGHINGS: usize = 20;
/// An error up to this, as a share of the measurement, counts by its square; of a larger one the excess counts less
/// and less.
const ORDINARY_ERROR: f64 = 0.05;

/// Counts of what was gone through, and what was measured.
pub(super) type Row = (Vec<f64>, f64);

/// The costs, none below 0, for which the sums of counts times costs are near to what was measured, each error as a
/// share of its measurement. A cost that may not be, or that nobody counts, is `None`.
///
/// Least squares would let a few rows that no costs explain spoil all the others: these weigh less, the farther they
/// are off (weights of Cauchy).
pub(super) fn robust_fit(rows: &[Row], may: &[bool]) -> Vec<Option<f64>> {
    let mut weights = vec![1.0; rows.len()];
    let mut costs = vec![0.0; may.len()];
    for _ in 0..WEIGHINGS {
        descend(rows, &weights, may, &mut costs);
        for (weight, (counts, value)) in weights.iter_mut().zip(rows) {
            let told: f64 = counts.iter().zip(&costs).map(|(count, cost)| count * cost).sum();
            let error = (told / value - 1.0) / ORDINARY_ERROR;
            *weight = 1.0 / (1.0 + error * error);
        }
    }
    let is_used = |at: usize| may[at] && rows.iter().any(|(counts, _)| counts[at] > 0.0);
    costs.iter().enumerate().map(|(at, &cost)| is_used(at).then_some(cost)).collect()
}

/// Moves `costs` to where the weighted squares of the relative errors are least: one cost after the other.
fn descend(rows: &[Row], weights: &[f64], may: &[bool], costs: &mut [f64]) {
    let scaled: Vec<Vec<f64>> = rows
        .iter()
        .zip(weights)
        .map(|((counts, value), weight)| counts.iter().map(|count| count / value * weight.sqrt()).collect())
        .collect();
    let norm: Vec<f64> = (0..may.len()).map(|at| scaled.iter().map(|row| row[at] * row[at]).sum()).collect();
    // What is missing of each row.
    let told = |row: &[f64]| -> f64 { row.iter().zip(&*costs).map(|(count, cost)| count * cost).sum() };
    let mut left: Vec<f64> = scaled.iter().zip(weights).map(|(row, weight)| weight.sqrt() - told(row)).collect();
    for _ in 0..PASSES {
        let mut moved = 0.0_f64;
        for at in (0..may.len()).filter(|&at| may[at] && norm[at] > 0.0) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [f64; 4] = [3.0, 0.0, 0.25, 100.0];

    /// Rows that [`COSTS`] explain, each measured `wrong(row)` times as much as it took.
    fn rows(wrong: impl Fn(u32) -> f64) -> Vec<Row> {
        let counts = |row: u32| (0..4).map(|at| f64::from((row * 7 + at * 13 + row * at) % 11)).collect::<Vec<f64>>();
        let row = |row: u32| {
            let counts = counts(row);
            let value: f64 = counts.iter().zip(COSTS).map(|(count, cost)| count * cost).sum();
            (counts, value * wrong(row))
        };
        (0..40).map(row).filter(|(_, value)| *value > 0.0).collect()
    }

    fn assert_near(found: &[Option<f64>], share: f64) {
        for (found, cost) in found.iter().zip(COSTS) {
            assert!((found.expect("used") - cost).abs() <= share * cost.max(1.0), "{found:?} for {cost}");
        }
    }

    #[test]
    fn costs_are_found_again_and_none_is_negative() {
        assert_near(&robust_fit(&rows(|_| 1.0), &[true; 4]), 1e-3);
        let found = robust_fit(&rows(|_| 1.0), &[true, false, true, true]);
        assert!(found[1].is_none() && found[0].is_some_and(|cost| cost >= 0.0));
        assert_eq!(robust_fit(&[(vec![1.0, 0.0], 5.0)], &[true, true]), [Some(5.0), None]);
    }

    #[test]
    fn costs_are_found_again_where_some_rows_were_measured_three_times_too_high() {
        assert_near(&robust_fit(&rows(|row| if row % 7 == 3 { 3.0 } else { 1.0 }), &[true; 4]), 0.02);
    }

    #[test]
    fn the_same_measurements_give_the_same_costs() {
        let noisy = rows(|row| 1.0 + f64::from(row % 5) / 20.0);
        assert_eq!(robust_fit(&noisy, &[true; 4]), robust_fit(&noisy, &[true; 4]));
    }
}
