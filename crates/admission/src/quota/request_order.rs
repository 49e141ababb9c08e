//! Which of the node's two queues of requests goes next (XS-27): the queue of reads or that of writes.
//!
//! While both wait, each is to get its share of the units. A read goes as soon as that leaves reads within their share;
//! in all other cases a write goes. So nobody starves. A read waits for at most as many times its own units of writes
//! as the shares say, and writes go at once as long as reads have had their share.

/// The two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Access {
    /// Commands that only read.
    Read = 0,
    /// All others.
    Write = 1,
}

impl Access {
    /// Both, in their order.
    pub const ALL: [Access; 2] = [Access::Read, Access::Write];
}

/// How the two queues share the units while both wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestOrder {
    /// Half of the units each.
    #[default]
    InTurn,
    /// Writes first: they have nine tenths. For loads that lose what is not written in time, such as time series.
    WritesFirst,
}

impl RequestOrder {
    /// The parts of reads and of writes.
    const fn shares(self) -> [u64; 2] {
        match self {
            RequestOrder::InTurn => [1, 1],
            RequestOrder::WritesFirst => [1, 9],
        }
    }
}

/// Which queue goes next. `heads` are the units of the first request of each queue, and `served` is what each queue got
/// since both began to wait.
pub fn next(order: RequestOrder, heads: [Option<u64>; 2], served: [u64; 2]) -> Option<Access> {
    let [reads, writes] = order.shares().map(u128::from);
    match heads {
        [None, None] => None,
        [Some(_), None] => Some(Access::Read),
        [None, Some(_)] => Some(Access::Write),
        [Some(read), Some(_)] => {
            let with_it = u128::from(served[0]) + u128::from(read);
            let is_within = with_it * writes <= u128::from(served[1]) * reads;
            Some(if is_within { Access::Read } else { Access::Write })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(order: RequestOrder, heads: [u64; 2], count: usize) -> String {
        let mut served = [0; 2];
        let turn = |_| {
            let access = next(order, heads.map(Some), served).expect("both wait");
            served[access as usize] += heads[access as usize];
            if access == Access::Read { 'r' } else { 'w' }
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn the_order_is_what_was_asked_for() {
        assert_eq!(turns(RequestOrder::InTurn, [1, 1], 6), "wrwrwr");
        assert_eq!(turns(RequestOrder::InTurn, [2, 1], 6), "wwrwwr");
        assert_eq!(turns(RequestOrder::WritesFirst, [1, 1], 20), "wwwwwwwwwrwwwwwwwwwr");
        assert_eq!(turns(RequestOrder::WritesFirst, [1, 3], 8), "wwwrwwwr");
    }

    #[test]
    fn who_waits_alone_goes() {
        for order in [RequestOrder::InTurn, RequestOrder::WritesFirst] {
            assert_eq!(next(order, [None, None], [0, 0]), None);
            assert_eq!(next(order, [Some(9), None], [u64::MAX, 0]), Some(Access::Read));
            assert_eq!(next(order, [None, Some(9)], [0, u64::MAX]), Some(Access::Write));
        }
    }

    proptest! {
        /// Whatever the sizes are, reads never have more than their share, and never less by more than one read.
        #[test]
        fn nobody_starves(costs in prop::collection::vec((1_u64..10_000, 1_u64..10_000), 1..300)) {
            for (order, [reads, writes]) in [(RequestOrder::InTurn, [1, 1]), (RequestOrder::WritesFirst, [1, 9])] {
                let (mut served, mut at) = ([0_u64; 2], [0_usize; 2]);
                while at[0] < costs.len() && at[1] < costs.len() {
                    let heads = [costs[at[0]].0, costs[at[1]].1];
                    let access = next(order, heads.map(Some), served).expect("both wait") as usize;
                    served[access] += heads[access];
                    at[access] += 1;
                    prop_assert!(served[0] * writes <= served[1] * reads, "reads have more than their share");
                    // A write of any size may be in front.
                    prop_assert!(served[1] * reads <= (served[0] + 10_000) * writes + 10_000 * reads, "reads starve");
                }
            }
        }
    }
}
