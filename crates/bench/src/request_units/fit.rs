//! Finds the costs that explain the measurements.

/// The most passes over all unknowns; and how far a pass may still move a cost, as a share of all measurements
/// together, once the costs are found.
const PASSES: usize = 50_000;
const FOUND: f64 = 1e-10;
/// How often the measurements are weighed anew.
const WEIGHINGS: usize = 20;
/// An error up to this size, as a share of the measurement, counts by its square; of a larger error the excess counts
/// less and less. A prediction may be off by this much.
const ORDINARY_ERROR: f64 = 0.15;

/// How often each module was gone through, and what was measured.
pub(super) type Row = (Vec<f64>, f64);

/// The costs, none below 0, for which the sums of counts times costs come close to the measurements, each error taken
/// as a share of its measurement. A cost that is not allowed, or that no row counts, is `None`.
///
/// Least squares would let a few rows that no costs explain spoil all the others. So these weigh less, the farther they
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

/// The weighted sums over all rows: of the product of each pair of unknowns, each count as a share of its row's
/// measurement; and of each unknown alone.
fn normal_equations(rows: &[Row], weights: &[f64], unknowns: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let (mut pairs, mut alone) = (vec![vec![0.0; unknowns]; unknowns], vec![0.0; unknowns]);
    for ((counts, value), weight) in rows.iter().zip(weights) {
        let shares: Vec<f64> = counts.iter().map(|count| count / value).collect();
        for (one, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            alone[one] += weight * share;
            pairs[one].iter_mut().zip(&shares).for_each(|(pair, other)| *pair += weight * share * other);
        }
    }
    (pairs, alone)
}

/// Moves `costs` to where the weighted squares of the relative errors are least: one cost after the other.
fn descend(rows: &[Row], weights: &[f64], may: &[bool], costs: &mut [f64]) {
    let (pairs, alone) = normal_equations(rows, weights, may.len());
    let told = |pairs: &[f64]| -> f64 { pairs.iter().zip(&*costs).map(|(pair, cost)| pair * cost).sum() };
    // How much would be gained by raising each cost.
    let mut slopes: Vec<f64> = pairs.iter().zip(&alone).map(|(pairs, alone)| alone - told(pairs)).collect();
    for _ in 0..PASSES {
        let mut moved = 0.0_f64;
        for at in (0..may.len()).filter(|&at| may[at] && pairs[at][at] > 0.0) {
            let step = (costs[at] + slopes[at] / pairs[at][at]).max(0.0) - costs[at];
            if step != 0.0 {
                slopes.iter_mut().zip(&pairs[at]).for_each(|(slope, pair)| *slope -= pair * step);
                costs[at] += step;
                moved = moved.max((step * step * pairs[at][at]).sqrt());
            }
        }
        if moved < FOUND {
            break;
        }
    }
}

/// How well each unknown is told apart from all others together: the share of its counts that no mixture of the others
/// explains. `None` for an unknown that is not allowed, or that no row counts.
pub(super) fn told_apart(rows: &[Row], may: &[bool]) -> Vec<Option<f64>> {
    /// Added to each unknown's own product: two that always come together are told apart as badly as this.
    const RIDGE: f64 = 1e-9;
    let (pairs, _) = normal_equations(rows, &vec![1.0; rows.len()], may.len());
    let used: Vec<usize> = (0..may.len()).filter(|&at| may[at] && pairs[at][at] > 0.0).collect();
    let cosine = |one: usize, other: usize| pairs[one][other] / (pairs[one][one] * pairs[other][other]).sqrt();
    // To the right of the cosines stands the identity matrix, which becomes their inverse.
    let n = used.len();
    let mut table: Vec<Vec<f64>> = (0..n)
        .map(|row| {
            let identity = (0..n).map(|column| f64::from(u8::from(row == column)));
            let cosines = used.iter().map(|&other| cosine(used[row], other));
            cosines.zip(identity.clone()).map(|(cosine, own)| cosine + RIDGE * own).chain(identity).collect()
        })
        .collect();
    for at in 0..n {
        // The matrix is positive definite, so that no other row need be searched for.
        let by = table[at][at];
        table[at].iter_mut().for_each(|cell| *cell /= by);
        let pivot = table[at].clone();
        for (_, row) in table.iter_mut().enumerate().filter(|(row, _)| *row != at) {
            let times = row[at];
            row.iter_mut().zip(&pivot).for_each(|(cell, pivot)| *cell -= times * pivot);
        }
    }
    let mut shares = vec![None; may.len()];
    used.iter().enumerate().for_each(|(row, &at)| shares[at] = Some(1.0 / table[row][n + row]));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: [f64; 4] = [3.0, 0.0, 0.25, 100.0];

    /// Rows that [`COSTS`] explain, each measured as `wrong(row)` times what it took.
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
        let found = robust_fit(&[(vec![1.0, 0.0], 5.0)], &[true, true]);
        assert!(found[0].is_some_and(|cost| (cost - 5.0).abs() < 1e-9) && found[1].is_none(), "{found:?}");
    }

    #[test]
    fn costs_are_found_again_where_some_rows_were_measured_three_times_too_high() {
        assert_near(&robust_fit(&rows(|row| if row % 7 == 3 { 3.0 } else { 1.0 }), &[true; 4]), 0.05);
    }

    #[test]
    fn what_always_comes_with_others_is_told_apart_badly() {
        let shares = told_apart(&rows(|_| 1.0), &[true, true, true, false]);
        assert!(shares[..3].iter().flatten().all(|&share| share > 0.05 && share <= 1.0), "{shares:?}");
        assert_eq!(shares[3], None);
        // A fifth unknown that is twice the first, and a sixth that no row counts.
        let doubled: Vec<Row> = rows(|_| 1.0)
            .into_iter()
            .map(|(mut counts, value)| {
                counts.extend([counts[0] * 2.0, 0.0]);
                (counts, value)
            })
            .collect();
        let shares = told_apart(&doubled, &[true; 6]);
        assert!([0, 4].iter().all(|&at| shares[at].is_some_and(|share| share < 1e-3)), "{shares:?}");
        assert!(shares[1].is_some_and(|share| share > 0.05), "{shares:?}");
        assert_eq!(shares[5], None);
    }

    #[test]
    fn the_same_measurements_give_the_same_costs() {
        let noisy = rows(|row| 1.0 + f64::from(row % 5) / 20.0);
        assert_eq!(robust_fit(&noisy, &[true; 4]), robust_fit(&noisy, &[true; 4]));
    }
}
