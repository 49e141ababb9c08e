//! Which changes survive a power cut, of those that were not yet durable: drawn change by change.

use crate::Rng;

/// Which of the changes that are not yet durable survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of them: the kindest disk, and what a killed process leaves.
    All,
    /// None: only what was synced.
    None,
    /// Those before some point, in the order they were made; the write at that point is torn.
    Prefix,
    /// Any of them, in any combination, writes torn at any sector: the least generous disk that POSIX allows.
    Random,
}

/// The fate of one write in a power cut.
pub(super) enum Fate {
    Kept,
    Lost,
    Torn(Tear),
}

/// Which sectors of a torn write survive. Sectors are counted from the first one of the write.
pub(super) enum Tear {
    /// The first `n`.
    Head(u64),
    /// All but the first `n`.
    Tail(u64),
    /// Each sector by the toss of a coin.
    Coins(Rng),
}

impl Tear {
    /// Draws the surviving sectors of a write of `sectors` sectors.
    pub(super) fn draw(rng: &mut Rng, sectors: u64) -> Self {
        match rng.below(3) {
            0 => Tear::Head(rng.below(sectors + 1)),
            1 => Tear::Tail(rng.below(sectors + 1)),
            _ => Tear::Coins(Rng::new(rng.next_u64())),
        }
    }

    /// Whether `sector` survives. Ask for each sector once, in ascending order.
    pub(super) fn keeps(&mut self, sector: u64) -> bool {
        match self {
            Tear::Head(count) => sector < *count,
            Tear::Tail(count) => sector >= *count,
            Tear::Coins(rng) => rng.next_u64() & 1 == 0,
        }
    }
}

/// Draws the fates of one power cut.
pub(super) struct Fates<'a> {
    keep: Keep,
    rng: &'a mut Rng,
    /// [`Keep::Prefix`]: the first change that is not kept.
    cut: u64,
    /// [`Keep::Random`]: the probabilities that data survives this cut, that metadata does, and that a write is torn.
    /// Drawn per cut, because the bugs are at the extremes: all data and no names, all names and no data.
    data: f64,
    metadata: f64,
    torn: f64,
}

impl<'a> Fates<'a> {
    /// `first..end`: the numbers of all changes that are not yet durable.
    pub(super) fn new(keep: Keep, rng: &'a mut Rng, first: u64, end: u64) -> Self {
        const LIKELIHOODS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];
        let draw = |rng: &mut Rng| LIKELIHOODS[rng.below(LIKELIHOODS.len() as u64) as usize];
        let cut = first + rng.below(end.saturating_sub(first) + 1);
        let (data, metadata, torn) = (draw(rng), draw(rng), draw(rng));
        Self { keep, rng, cut, data, metadata, torn }
    }

    /// The fate of the write `number` over `sectors` sectors.
    pub(super) fn write(&mut self, number: u64, sectors: u64) -> Fate {
        match self.keep {
            Keep::All => Fate::Kept,
            Keep::None => Fate::Lost,
            Keep::Prefix if number == self.cut => Fate::Torn(Tear::Head(self.rng.below(sectors + 1))),
            Keep::Prefix if number < self.cut => Fate::Kept,
            Keep::Prefix => Fate::Lost,
            Keep::Random if self.rng.chance(self.torn) => Fate::Torn(Tear::draw(self.rng, sectors)),
            Keep::Random if self.rng.chance(self.data) => Fate::Kept,
            Keep::Random => Fate::Lost,
        }
    }

    /// Whether the change `number` of a length or a name survives.
    pub(super) fn metadata(&mut self, number: u64) -> bool {
        match self.keep {
            Keep::All => true,
            Keep::None => false,
            Keep::Prefix => number < self.cut,
            Keep::Random => self.rng.chance(self.metadata),
        }
    }
}
