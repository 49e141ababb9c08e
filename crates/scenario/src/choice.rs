//! Which item is asked for next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::Rng;

use crate::data::fnv;
use crate::mix::Kind;

/// How the next item is chosen.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Each of this many items is equally likely.
    Uniform(u64),
    /// Few of them often, most of them seldom: Zipf's law with exponent 0.99. Ranks are scattered over the keys, as
    /// keys are hashes of numbers.
    Zipf(Zipf),
    /// Zipf's law as YCSB scrambles it: ten billion ranks, however many items there are, each hashed onto one of
    /// `items`. Of these it asks for those that are there.
    Scrambled {
        /// The items that are there together with those that are expected.
        items: u64,
        /// The law over the ten billion ranks.
        ranks: Zipf,
        /// The items that are there.
        stored: Arc<Stored>,
    },
    /// Zipf's law over the items that are there, the newest first, as YCSB has it.
    Latest {
        /// The law over the items that were there at the last draw.
        ranks: Arc<Mutex<Zipf>>,
        /// The items that are there.
        stored: Arc<Stored>,
    },
    /// A new item: the first that nobody who shares the same count has drawn yet.
    Next(Arc<Stored>),
}

/// YCSB's exponent.
const THETA: f64 = 0.99;

/// Ranks that YCSB scrambles, and the sum of their weights.
const YCSB_RANKS: (u64, f64) = (10_000_000_000, 26.469_028_201_783_02);

impl Choice {
    /// Zipf's law over `items`.
    pub fn zipf(items: u64) -> Self {
        Choice::Zipf(Zipf::of(items))
    }

    /// YCSB's scrambled law over the `stored` items, of which there will be up to `items`.
    pub fn scrambled(items: u64, stored: Arc<Stored>) -> Self {
        let (count, sum) = YCSB_RANKS;
        Choice::Scrambled { items, ranks: Zipf { items: count, sum }, stored }
    }

    /// Zipf's law over the `stored` items, the newest first.
    pub fn latest(stored: Arc<Stored>) -> Self {
        Choice::Latest { ranks: Arc::new(Mutex::new(Zipf::of(stored.count()))), stored }
    }

    /// Draws an item.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Choice::Next(stored) => stored.next.fetch_add(1, Ordering::Relaxed),
            Choice::Uniform(items) => rng.below((*items).max(1)),
            Choice::Zipf(zipf) => zipf.rank(rng),
            Choice::Scrambled { items, ranks, stored } => loop {
                let item = fnv(ranks.rank(rng)) % items;
                if item < stored.count() {
                    return item;
                }
            },
            Choice::Latest { ranks, stored } => {
                let count = stored.count();
                let mut ranks = ranks.lock();
                ranks.grow(count);
                count.saturating_sub(1) - ranks.rank(rng).min(count.saturating_sub(1))
            }
        }
    }

    /// Notes that `item`, which was drawn to be written, is there now.
    pub fn is_stored(&self, item: u64) {
        if let Choice::Next(stored) = self {
            stored.note(item);
        }
    }

    /// The kind of operation that a write to a drawn item is.
    pub fn kind_of_write(&self) -> Kind {
        if matches!(self, Choice::Next(_)) { Kind::Insert } else { Kind::Update }
    }
}

/// Zipf's law.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    items: u64,
    /// The sum of all weights.
    sum: f64,
}

impl Zipf {
    /// Zipf's law over `items`.
    pub fn of(items: u64) -> Self {
        let mut zipf = Self { items: 0, sum: 0.0 };
        zipf.grow(items);
        zipf
    }

    /// Grows to this many `items`; it never shrinks.
    fn grow(&mut self, items: u64) {
        self.sum += (self.items + 1..=items).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        self.items = self.items.max(items);
    }

    /// Draws a rank, from 0, which is the most frequent (Gray et al., SIGMOD 1994).
    fn rank(&self, rng: &mut Rng) -> u64 {
        let Self { items, sum } = *self;
        let (drawn, second) = (rng.unit(), 0.5_f64.powf(THETA));
        let scaled = drawn * sum;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + second {
            return 1.min(items.saturating_sub(1));
        }
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - (1.0 + second) / sum);
        let rank = items as f64 * (eta * drawn - eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(items.saturating_sub(1))
    }
}

/// The items of a partition to which new ones come: all with a number below a count, as YCSB's clients keep it. Writers
/// end in any order, so an item counts only when all items before it are there as well.
#[derive(Debug)]
pub struct Stored {
    /// The number of the next new item.
    next: AtomicU64,
    /// How many items are there without a gap.
    count: AtomicU64,
    /// The items that are there beyond a gap.
    beyond: Mutex<BTreeSet<u64>>,
}

impl Stored {
    /// The first `items` items, and none beyond.
    pub fn new(items: u64) -> Arc<Self> {
        Arc::new(Self { next: items.into(), count: items.into(), beyond: Mutex::default() })
    }

    /// How many items are there without a gap.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn note(&self, item: u64) {
        let mut beyond = self.beyond.lock();
        beyond.insert(item);
        let mut count = self.count();
        while beyond.remove(&count) {
            count += 1;
        }
        self.count.store(count, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// How often each of `items` was drawn.
    fn counts(choice: &Choice, items: usize, seed: u64) -> Vec<f64> {
        let (mut counts, mut rng) = (vec![0.0; items], Rng::new(seed));
        (0..DRAWS).for_each(|_| counts[choice.draw(&mut rng) as usize] += 1.0);
        counts
    }

    /// Weights of the first ranks.
    fn weights(ranks: std::ops::RangeInclusive<u64>) -> f64 {
        ranks.map(|rank| (rank as f64).powf(-THETA)).sum()
    }

    /// How far `drawn`, a number of draws, is from `share` of all draws, in standard deviations.
    fn apart(drawn: f64, share: f64) -> f64 {
        let draws = DRAWS as f64;
        (drawn - share * draws).abs() / (share * (1.0 - share) * draws).sqrt()
    }

    #[test]
    fn few_items_are_drawn_often_by_the_law() {
        let counts = counts(&Choice::zipf(10_000), 10_000, 1);
        let sum = weights(1..=10_000);
        // The first two ranks are exact. The method overdraws the next few by a tenth, in YCSB itself as well; the
        // others are within a twentieth.
        for (rank, &drawn) in (1..).zip(&counts[..2]) {
            assert!(apart(drawn, weights(rank..=rank) / sum) < 4.0, "{rank}: {drawn}");
        }
        for (from, to, off) in [(3, 10, 0.12), (11, 100, 0.05), (101, 1_000, 0.05), (1_001, 10_000, 0.05)] {
            let drawn: f64 = counts[from - 1..to].iter().sum();
            let share = weights(from as u64..=to as u64) / sum;
            assert!((drawn / DRAWS as f64 / share - 1.0).abs() < off, "{from} to {to}: {drawn}, {share}");
        }
    }

    #[test]
    fn scrambled_ranks_fall_where_ycsb_hashes_them() {
        let items = 1_000;
        let counts = counts(&Choice::scrambled(items, Stored::new(items)), items as usize, 2);
        let share = |rank: u64| weights(rank..=rank) / YCSB_RANKS.1;
        // What falls on an item besides a known rank: its part of all other ranks.
        let others = (1.0 - (1..=100).map(share).sum::<f64>()) / items as f64;
        let mut wanted = vec![others; items as usize];
        (1..=100).for_each(|rank| wanted[(fnv(rank - 1) % items) as usize] += share(rank));
        let hottest = (fnv(0) % items) as usize;
        assert!(counts.iter().all(|&count| count <= counts[hottest]));
        assert!((counts[hottest] / DRAWS as f64 / wanted[hottest] - 1.0).abs() < 0.05, "{}", counts[hottest]);
        let off: f64 = counts.iter().zip(&wanted).map(|(count, wanted)| (count / DRAWS as f64 - wanted).abs()).sum();
        assert!(off < 0.1, "{off} of all draws elsewhere than by the law");
        // Ranks are scattered: neighbours of the hottest are no hotter than others.
        let half: f64 = counts[..500].iter().sum();
        assert!((0.4..0.6).contains(&(half / DRAWS as f64)), "{half}");
    }

    #[test]
    fn what_is_expected_is_not_asked_for_before_it_is_there() {
        let stored = Stored::new(1_000);
        let choice = Choice::scrambled(2_000, Arc::clone(&stored));
        let of = |seed| counts(&choice, 2_000, seed)[1_000..].iter().sum::<f64>();
        assert_eq!(of(3), 0.0);
        (1_000..1_500).for_each(|item| stored.note(item));
        assert!((0.2..0.5).contains(&(of(4) / DRAWS as f64)), "a third of what is there came later");
    }

    #[test]
    fn the_newest_are_asked_for_most() {
        let stored = Stored::new(9_000);
        let (choice, next) = (Choice::latest(Arc::clone(&stored)), Choice::Next(Arc::clone(&stored)));
        let mut rng = Rng::new(5);
        for _ in 0..1_000 {
            let item = next.draw(&mut rng);
            next.is_stored(item);
        }
        let counts = counts(&choice, 10_000, 6);
        let sum = weights(1..=10_000);
        for age in 0..2 {
            let share = weights(age + 1..=age + 1) / sum;
            assert!(apart(counts[9_999 - age as usize], share) < 4.0, "{age}");
        }
        let newest: f64 = counts[9_000..].iter().sum();
        assert!((newest / DRAWS as f64 / (weights(1..=1_000) / sum) - 1.0).abs() < 0.05, "{newest}");
    }

    #[test]
    fn an_item_counts_when_all_before_it_are_there() {
        let stored = Stored::new(10);
        let next = Choice::Next(Arc::clone(&stored));
        let drawn: Vec<u64> = (0..3).map(|_| next.draw(&mut Rng::new(0))).collect();
        assert_eq!(drawn, [10, 11, 12]);
        let counts = [11, 12, 10].map(|item| {
            next.is_stored(item);
            stored.count()
        });
        assert_eq!(counts, [10, 10, 13]);
        assert_eq!((next.kind_of_write(), Choice::zipf(1).kind_of_write()), (Kind::Insert, Kind::Update));
    }
}
