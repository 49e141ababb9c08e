//! Worker order: which tree that waits for a compaction slot gets the next one.
//!
//! 1. Compactions that relieve level 0 go before deeper ones, but after [`URGENT_IN_A_ROW`] of them one deep compaction
//!    goes (C-7): nothing starves.
//! 2. Of the tenants that wait, the one that holds the fewest slots is served. Among equals it is the one that has held
//!    slots for the shortest time so far.
//! 3. Of one tenant's trees, the one that has waited longest is served.
//! 4. A spare slot is for trees that are short of space and would give some back: their writes must not wait until
//!    others have merged. The gates still see to it that the I/O of such a job goes behind the rest.

use weir_io::{Class, Nanos, Owner};

/// How many others waiting deep compactions let pass before one of them goes.
const URGENT_IN_A_ROW: u32 = 10;

/// A tree that waits for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its owner.
    pub owner: Owner,
    /// The class of the compaction that it wants to run.
    pub class: Class,
    /// A tree with a lower number came earlier.
    pub turn: u64,
    /// Whether its tenant is near its disk limit, or has reached it.
    pub is_short_of_space: bool,
    /// How many slots its tenant holds.
    pub running: usize,
    /// For how long its tenant has held slots, in nanoseconds summed over slots.
    pub had: Nanos,
}

impl Wish {
    fn is_urgent(&self) -> bool {
        self.class < Class::CompactDeep
    }
}

/// Which tree gets a free slot, and how many urgent compactions in a row have gone before deep ones that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whose turn it is.
    pub owner: Owner,
    /// To be passed to [`next`] the next time.
    pub urgent_in_a_row: u32,
}

/// Which of `wishes` gets a free slot, after `urgent_in_a_row` urgent compactions went before deep ones that wait.
pub fn next(wishes: impl Iterator<Item = Wish> + Clone, urgent_in_a_row: u32) -> Option<Turn> {
    let some_urgent = wishes.clone().any(|wish| wish.is_urgent());
    let some_deep = wishes.clone().any(|wish| !wish.is_urgent());
    let takes_urgent = some_urgent && !(some_deep && urgent_in_a_row >= URGENT_IN_A_ROW);
    let candidates = wishes.filter(|wish| wish.is_urgent() == takes_urgent);
    let first = candidates.min_by_key(|wish| (wish.running, wish.had, wish.turn, wish.owner))?;
    let urgent_in_a_row = if takes_urgent && some_deep { urgent_in_a_row + 1 } else { 0 };
    Some(Turn { owner: first.owner, urgent_in_a_row })
}

/// Which of `wishes` gets the spare slot.
pub fn next_spare(wishes: impl Iterator<Item = Wish>) -> Option<Owner> {
    let short = wishes.filter(|wish| wish.is_short_of_space && wish.class == Class::Reclaim);
    short.min_by_key(|wish| (wish.turn, wish.owner)).map(|wish| wish.owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(tenant: u32, class: Class) -> Wish {
        let owner = Owner { tenant, partition: tenant };
        Wish { owner, class, turn: u64::from(tenant), is_short_of_space: false, running: 0, had: 0 }
    }

    fn tenant(wishes: &[Wish], urgent_in_a_row: u32) -> Option<u32> {
        next(wishes.iter().copied(), urgent_in_a_row).map(|turn| turn.owner.tenant)
    }

    #[test]
    fn slots_held_then_time_had_then_the_time_of_arrival_decide() {
        let deep = |tenant| wish(tenant, Class::CompactDeep);
        assert_eq!(tenant(&[], 0), None);
        assert_eq!(tenant(&[deep(2), deep(1), deep(3)], 0), Some(1));
        assert_eq!(tenant(&[Wish { had: 1, ..deep(1) }, deep(2)], 0), Some(2));
        assert_eq!(tenant(&[Wish { running: 1, ..deep(1) }, Wish { had: 9, ..deep(2) }], 0), Some(2));
    }

    #[test]
    fn what_relieves_level_0_goes_ten_times_before_one_that_is_deeper() {
        let both = [wish(1, Class::CompactL0), wish(2, Class::CompactDeep)];
        let mut in_a_row = 0;
        let order = (0..22).filter_map(|_| {
            let turn = next(both.iter().copied(), in_a_row)?;
            in_a_row = turn.urgent_in_a_row;
            Some(turn.owner.tenant)
        });
        let deep: Vec<usize> = order.enumerate().filter(|&(_, tenant)| tenant == 2).map(|(turn, _)| turn).collect();
        assert_eq!(deep, [10, 21]);
        assert_eq!(next(both[..1].iter().copied(), 9).map(|turn| turn.urgent_in_a_row), Some(0), "nobody was passed");
    }

    #[test]
    fn the_spare_slot_is_for_those_who_can_give_space_back() {
        let short = |tenant, class| Wish { is_short_of_space: true, ..wish(tenant, class) };
        let wishes =
            [short(1, Class::CompactL0), wish(2, Class::Reclaim), short(4, Class::Reclaim), short(3, Class::Reclaim)];
        assert_eq!(next_spare(wishes.into_iter()).map(|owner| owner.tenant), Some(3));
        assert_eq!(next_spare(wishes[..2].iter().copied()), None);
    }
}
