//! Random numbers, as Redis generates them.

/// The generator of `drand48`, which Redis uses, too.
#[derive(Clone, Copy)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self((seed & 0xffff_ffff) << 16 | 0x330e)
    }

    /// The next number, from 0 up to 1, which is not included.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        ((self.0 >> 17) % 0x7fff_ffff) as f64 / f64::from(0x7fff_ffff)
    }
}
