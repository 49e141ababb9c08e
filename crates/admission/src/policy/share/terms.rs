//! A tenant's own settings for its shares (DF-1, DF-2).

use weir_io::Nanos;

const MS: Nanos = 1_000_000;

/// How long a tenant may have to wait for its share, δ. The delay holds for each shared resource by itself: a request
/// that waits for two of them, one after the other, may wait twice as long (DF-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// As long as the node promises to everybody.
    #[default]
    OfNode,
    /// This many milliseconds.
    Ms(u32),
    /// For ever: nothing is kept for the tenant, and it may take nothing of what is kept for others (U-14).
    Endless,
}

impl Delay {
    /// The longest delay that has an end, in milliseconds: an hour. Nobody wants more.
    pub const MS_MAX: u32 = 3_600_000;

    /// The delay in nanoseconds, where the node promises `promised`; `None` = endless.
    pub fn within(self, promised: Nanos) -> Option<Nanos> {
        match self {
            Delay::OfNode => Some(promised),
            Delay::Ms(ms) => Some(Nanos::from(ms) * MS),
            Delay::Endless => None,
        }
    }
}

/// The settings of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareTerms {
    /// Its share in proportion to those of others, 1 to [`ShareTerms::WEIGHT_MAX`] (DF-2).
    pub weight: u16,
    /// How long it may have to wait for its share.
    pub delay: Delay,
}

impl ShareTerms {
    /// The largest weight.
    pub const WEIGHT_MAX: u16 = 1000;

    /// What is wrong with these settings, in words; `None` if nothing is.
    pub fn problem(&self) -> Option<String> {
        if !(1..=Self::WEIGHT_MAX).contains(&self.weight) {
            return Some(format!("its weight cannot be {}: 1 to {} are possible", self.weight, Self::WEIGHT_MAX));
        }
        match self.delay {
            Delay::Ms(ms) if ms > Delay::MS_MAX => Some(format!(
                "its delay cannot be {ms} ms: at most {} ms are possible, or an endless delay",
                Delay::MS_MAX
            )),
            Delay::OfNode | Delay::Ms(_) | Delay::Endless => None,
        }
    }
}

impl Default for ShareTerms {
    /// One among equals.
    fn default() -> Self {
        Self { weight: 1, delay: Delay::OfNode }
    }
}
