//! How many elements registers stand for. This is Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches" (arXiv:1702.01284), step by step as Redis has it, so that the same registers give the same number.

use super::{REGISTERS, Registers};

/// The highest rank that an element can have. A higher rank did not come from counting, but was put there.
const RANK_MAX: usize = 51;

/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        let before = z;
        x *= x;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        let before = z;
        x = x.sqrt();
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

/// About how many different elements were counted in `registers`.
pub fn count(registers: &Registers) -> u64 {
    let mut of_rank = [0_u32; 256];
    registers.iter().for_each(|&rank| of_rank[usize::from(rank)] += 1);
    let all = REGISTERS as f64;
    let mut z = all * tau((all - f64::from(of_rank[RANK_MAX])) / all);
    for rank in (1..RANK_MAX).rev() {
        z += f64::from(of_rank[rank]);
        z *= 0.5;
    }
    z += all * sigma(f64::from(of_rank[0]) / all);
    (ALPHA * all * all / z).round() as u64
}
