//! Decides which tenants go behind the others: a tenant that keeps the gateway's threads busy while others also want to
//! be served is noisy (G12). Its connections move to the nicer threads, those [for long
//! requests](crate::resp::connection), so that the other tenants find their threads free. Tenants are judged once a
//! second, by what they used in the second before.

use std::sync::Arc;

use weir_io::Nanos;

/// A tenant becomes noisy above this share of one thread: 25 requests of 10 us in each millisecond.
const BEGINS: f64 = 0.25;
/// A noisy tenant stays noisy until its share falls below this. The gap is there because each move back and forth costs
/// the tenant something.
const ENDS: f64 = 0.10;

/// What a tenant did since it was last judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Processor time that the gateway's threads spent on its connections. It is not the time on the clock: beside a
    /// busy neighbour a light tenant's turns are long on the clock, because others run in the middle of them.
    pub(crate) busy: Nanos,
    /// The time since it was last judged.
    pub(crate) elapsed: Nanos,
    /// Whether anybody else was served meanwhile.
    pub(crate) has_neighbours: bool,
}

/// What a tenant has used of the gateway's threads, as of the last judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorUse {
    /// The tenant's name.
    pub name: Arc<str>,
    /// Processor time since the start.
    pub nanos: Nanos,
    /// Whether the tenant goes behind the others.
    pub is_noisy: bool,
}

/// Whether a tenant that did this is noisy; `was` says whether it was noisy until now.
pub(crate) fn is_noisy(done: Use, was: bool) -> bool {
    let share = done.busy as f64 / done.elapsed.max(1) as f64;
    done.has_neighbours && share > if was { ENDS } else { BEGINS }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn noisy_is_who_takes_a_quarter_of_a_thread_from_others() {
        let done = |busy, has_neighbours| Use { busy, elapsed: SECOND, has_neighbours };
        assert!(!is_noisy(done(SECOND / 5, true), false));
        assert!(is_noisy(done(SECOND / 3, true), false));
        assert!(is_noisy(done(SECOND / 5, true), true), "it has to fall further");
        assert!(!is_noisy(done(SECOND / 20, true), true));
        assert!(!is_noisy(done(4 * SECOND, false), true), "nobody is there whom it could keep waiting");
        assert!(!is_noisy(Use { busy: 0, elapsed: 0, has_neighbours: true }, false));
    }
}
