//! Which class of I/O goes next: a strict order, softened by a deterministic credit (C-7).

use weir_io::Class;

/// How many ranks a gate tells apart.
pub const RANKS: usize = 5;

/// A place in the order of classes. Smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rank {
    /// Reads and log writes: one queue, equal priority (FX-9).
    Foreground = 0,
    /// Flushes: memtables on their way to level 0.
    Flush = 1,
    /// Compactions within level 0 and out of it, where a policy lets them go before deeper ones (SI-6).
    CompactL0 = 2,
    /// All other compactions: deeper ones, those that reclaim the space of dead bytes, and in most profiles those of
    /// level 0.
    CompactDeep = 3,
    /// Everything else.
    Maintenance = 4,
}

impl Rank {
    /// Every rank, in order.
    pub const ALL: [Rank; RANKS] =
        [Rank::Foreground, Rank::Flush, Rank::CompactL0, Rank::CompactDeep, Rank::Maintenance];

    /// The rank of a class unless somebody promotes it (U-11).
    pub const fn of(class: Class) -> Self {
        match class {
            Class::Read | Class::Log => Rank::Foreground,
            Class::Flush => Rank::Flush,
            Class::CompactL0 => Rank::CompactL0,
            Class::CompactDeep | Class::Reclaim => Rank::CompactDeep,
            Class::Maintenance => Rank::Maintenance,
        }
    }

    /// True for everything but [`Rank::Foreground`].
    pub const fn is_background(self) -> bool {
        !matches!(self, Rank::Foreground)
    }
}

/// The knob between a rank and all ranks below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// The lower ranks get what this rank leaves, possibly nothing.
    Strict,
    /// While both wait, the lower ranks get 1 unit of cost for every `n` of this rank (n = 10: 10:1).
    Share(u32),
    /// The same for the ranks down to this one. The ranks below it get what is left, possibly nothing.
    ShareDownTo(Rank, u32),
}

impl Precedence {
    /// Units of cost of this rank for one of `lower`; `None` = `lower` gets what is left.
    fn share(self, lower: usize) -> Option<u64> {
        match self {
            Precedence::Share(n) => Some(n.into()),
            Precedence::ShareDownTo(last, n) if lower <= last as usize => Some(n.into()),
            Precedence::ShareDownTo(..) | Precedence::Strict => None,
        }
    }
}

/// Decides between ranks by what each has been granted. Where RocksDB has a lottery (FX-7), here the lower ranks earn a
/// credit for every cost that went past them: the same 10:1, without chance and without bad luck.
#[derive(Debug)]
pub(crate) struct Order {
    /// The knob between rank `i` and all ranks below it. The last rank has none below.
    precedence: [Precedence; RANKS],
    /// Cost that rank `i` was granted while a lower rank waited, less `n` times what lower ranks got meanwhile.
    credit: [u64; RANKS],
}

impl Order {
    /// Foreground strictly first (FX-14), then 10:1 at every step (FX-9, FX-14, SI-6), so that nothing starves.
    pub(crate) const fn new() -> Self {
        let mut precedence = [Precedence::Share(10); RANKS];
        precedence[Rank::Foreground as usize] = Precedence::Strict;
        Self { precedence, credit: [0; RANKS] }
    }

    /// Turns the knob below `rank`. When one share replaces another, lower ranks keep what they have earned: otherwise
    /// a policy that turns the knob often would starve them.
    pub(crate) fn set(&mut self, rank: Rank, precedence: Precedence) {
        let rank = rank as usize;
        let before = std::mem::replace(&mut self.precedence[rank], precedence);
        if std::mem::discriminant(&before) != std::mem::discriminant(&precedence) {
            self.credit[rank] = 0;
        }
    }

    /// The rank to serve, given the cost at the head of each.
    pub(crate) fn pick(&self, heads: &[Option<u64>; RANKS]) -> Option<Rank> {
        self.best(heads, 0, RANKS - 1).map(|rank| Rank::ALL[rank])
    }

    /// The same among the ranks from `first` to `last`.
    fn best(&self, heads: &[Option<u64>; RANKS], first: usize, last: usize) -> Option<usize> {
        let mut best: Option<usize> = None;
        for rank in (first..=last).rev() {
            if heads[rank].is_none() {
                continue;
            }
            let lower = match self.precedence[rank] {
                // The best of the ranks that the share reaches, whatever they owe to the ranks below them.
                Precedence::ShareDownTo(lowest, _) => self.best(heads, rank + 1, last.min(lowest as usize)),
                Precedence::Strict | Precedence::Share(_) => best,
            };
            let is_due = |&lower: &usize| {
                let share = self.precedence[rank].share(lower);
                share.is_some_and(|n| self.credit[rank] >= heads[lower].unwrap_or(0).saturating_mul(n))
            };
            best = lower.filter(is_due).or(Some(rank));
        }
        best
    }

    /// Books a grant of `cost` to `rank`. `waiting` says which ranks had something waiting just before it.
    pub(crate) fn granted(&mut self, rank: Rank, cost: u64, waiting: &[bool; RANKS]) {
        let rank = rank as usize;
        for higher in 0..rank {
            if let Some(n) = self.precedence[higher].share(rank) {
                // This holds also while nobody above waits: what the lower ranks get then is not owed to them a second
                // time.
                self.credit[higher] = self.credit[higher].saturating_sub(cost.saturating_mul(n));
            }
        }
        let earns = |lower: usize| waiting[lower] && self.precedence[rank].share(lower).is_some();
        let lower_waits = (rank + 1..RANKS).any(earns);
        self.credit[rank] = if lower_waits { self.credit[rank].saturating_add(cost) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(order: &mut Order, heads: [Option<u64>; RANKS], rounds: usize) -> [u64; RANKS] {
        let waiting = heads.map(|head| head.is_some());
        let mut served = [0; RANKS];
        for _ in 0..rounds {
            let rank = order.pick(&heads).expect("somebody waits");
            let cost = heads[rank as usize].expect("picked ranks wait");
            order.granted(rank, cost, &waiting);
            served[rank as usize] += cost;
        }
        served
    }

    #[test]
    fn ten_to_one_by_cost_whatever_the_sizes() {
        for (flush, deep) in [(4096, 4096), (524_288, 4096), (4096, 524_288), (30_000, 7_777)] {
            let served = serve(&mut Order::new(), [None, Some(flush), None, Some(deep), None], 100_000);
            let ratio = served[1] as f64 / served[3] as f64;
            assert!((ratio - 10.0).abs() < 0.1, "flush {flush} deep {deep}: {ratio}");
        }
    }

    #[test]
    fn every_step_below_foreground_is_ten_to_one() {
        // FX-7, with three saturated queues: 10/11, then 10/11 of the rest.
        let served = serve(&mut Order::new(), [None, Some(1), Some(1), Some(1), None], 1_000_000);
        let share = |rank: usize| served[rank] as f64 / 1e6;
        assert!((share(1) - 10.0 / 11.0).abs() < 1e-3, "{served:?}");
        assert!((share(2) - 10.0 / 121.0).abs() < 1e-3, "{served:?}");
        assert!((share(3) - 1.0 / 121.0).abs() < 1e-3, "{served:?}");
    }

    #[test]
    fn a_share_down_to_a_rank_is_for_nobody_below_it() {
        let waits = Some(1);
        let mut order = Order::new();
        order.set(Rank::Foreground, Precedence::ShareDownTo(Rank::Flush, 9));
        let served = serve(&mut order, [waits, waits, None, waits, None], 10_000);
        assert!((900..=1000).contains(&served[1]) && served[3] == 0, "{served:?}");
        let served = serve(&mut order, [waits, None, None, waits, None], 10_000);
        assert_eq!(served[0], 10_000, "no flush waits");
        let mut order = Order::new();
        order.set(Rank::Foreground, Precedence::ShareDownTo(Rank::CompactL0, 9));
        let served = serve(&mut order, [waits, waits, waits, waits, waits], 11_000);
        assert!((950..=1050).contains(&served[1]), "ten to one between flushes and merges: {served:?}");
        assert!((90..=105).contains(&served[2]) && served[3..] == [0, 0], "{served:?}");
        let served = serve(&mut order, [waits, None, waits, waits, None], 10_000);
        assert!((950..=1050).contains(&served[2]), "no flush waits: {served:?}");
    }

    #[test]
    fn a_share_that_is_turned_all_the_time_is_still_given() {
        let heads = [Some(1), Some(100), None, None, None];
        let (mut order, mut served) = (Order::new(), [0; RANKS]);
        for turn in 0..1000 {
            order.set(Rank::Foreground, Precedence::Share(9 + turn % 3));
            let of_turn = serve(&mut order, heads, 100);
            (0..RANKS).for_each(|rank| served[rank] += of_turn[rank]);
        }
        let ratio = served[0] as f64 / served[1] as f64;
        assert!((9.0..=11.0).contains(&ratio), "{served:?}");
    }

    #[test]
    fn foreground_is_strict_unless_told() {
        let heads = [Some(1), Some(1), Some(1), Some(1), Some(1)];
        assert_eq!(serve(&mut Order::new(), heads, 1000)[0], 1000);
        let mut order = Order::new();
        order.set(Rank::Foreground, Precedence::Share(19));
        assert_eq!(serve(&mut order, heads, 1000)[0], 950, "a floor of 5 % for everything below");
    }

    #[test]
    fn a_long_compaction_earns_nothing_against_the_next_flush() {
        let mut order = Order::new();
        serve(&mut order, [None, None, Some(1), Some(1), None], 1000);
        assert_eq!(order.pick(&[None, Some(1), Some(1), Some(1), None]), Some(Rank::Flush));
    }
}
