//! Which running compactions give their slots to compactions that relieve level 0 (SI-8, U-6).
//!
//! 1. Where trees wait for a slot to relieve level 0, and deeper compactions hold all slots, one deeper compaction
//!    gives way for each tree that waits.
//! 2. The least complete compaction gives way first: it has least to keep meanwhile. One that is nearly done ends
//!    sooner than it could give way.
//! 3. One deeper compaction always stays. SILK has one store, which relieves level 0 once at a time. On a node with
//!    many trees there is always one that wants to, and deeper compactions would starve (C-7).

use weir_io::Class;

use super::parking::must_park;

/// A compaction that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// The number of the slot.
    pub number: u64,
    /// The class of the compaction.
    pub class: Class,
    /// How much of its input it has consumed, 0 to 1.
    pub progress: f64,
    /// Whether it is giving way already.
    pub gives_way: bool,
    /// Whether it goes on to its end whatever is asked of it.
    pub stays: bool,
}

impl Running {
    fn is_deep(&self) -> bool {
        self.class >= Class::CompactDeep
    }
}

/// Numbers of the slots that must be given back so that `waiting` trees can relieve level 0.
pub fn to_give_way(waiting: usize, running: &[Running]) -> Vec<u64> {
    let gives_way = running.iter().filter(|job| job.gives_way).count();
    let stays = || running.iter().filter(|job| job.is_deep() && !job.gives_way);
    let wanted = waiting.saturating_sub(gives_way).min(stays().count().saturating_sub(1));
    let mut victims: Vec<&Running> = stays().filter(|job| !job.stays && must_park(false, job.progress)).collect();
    victims.sort_by(|a, b| a.progress.total_cmp(&b.progress).then(a.number.cmp(&b.number)));
    victims.into_iter().take(wanted).map(|job| job.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(number: u64, class: Class, progress: f64) -> Running {
        Running { number, class, progress, gives_way: false, stays: false }
    }

    #[test]
    fn the_least_complete_deep_compaction_gives_way_to_each_that_waits() {
        let deep = |number, progress| running(number, Class::CompactDeep, progress);
        let all = [deep(1, 0.5), deep(2, 0.1), deep(3, 0.95), running(4, Class::CompactL0, 0.0)];
        assert!(to_give_way(0, &all).is_empty());
        assert_eq!(to_give_way(1, &all), [2]);
        assert_eq!(to_give_way(9, &all), [2, 1], "one stays");
        let first = Running { gives_way: true, ..all[1] };
        let after = [all[0], first, all[2], all[3]];
        assert!(to_give_way(1, &after).is_empty(), "a slot is on its way");
        assert_eq!(to_give_way(2, &after), [1]);
        let stays = Running { stays: true, ..all[1] };
        assert_eq!(to_give_way(9, &[all[0], stays]), [1], "the one that stays is the other one");
    }

    #[test]
    fn what_relieves_level_0_and_the_last_deep_one_stay() {
        let level0 = running(1, Class::CompactL0, 0.0);
        assert!(to_give_way(3, &[level0, running(2, Class::CompactDeep, 0.0)]).is_empty());
        assert_eq!(
            to_give_way(3, &[level0, running(2, Class::Reclaim, 0.2), running(3, Class::CompactDeep, 0.3)]),
            [2]
        );
    }
}
