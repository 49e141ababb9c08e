//! A cost table and a machine, worked out beforehand: the price of a request, in integers and without a division.

use super::module::{Module, Work};
use super::pod::Pod;
use super::resources::{Dimension, Resources};
use super::table::CostTable;

/// Prices are kept in fractions of a thousandth of a unit, with this many binary places.
const PLACES: u32 = 48;

/// Counts and costs below this are multiplied and added up without a check for overflow: there are fewer than 64
/// modules, and 28 + 28 + 6 bits are less than 64.
const SMALL: u64 = 1 << 28;

/// What a request has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// What the request took of the machine.
    pub resources: Resources,
    /// Thousandths of a logical unit.
    pub milli_units: u64,
}

/// The prices of requests on one machine.
#[derive(Clone, Debug)]
pub struct Prices {
    table: CostTable,
    pod: Pod,
    /// The price of a thousandth of each dimension's unit, in 2^-[`PLACES`] thousandths of a logical unit, rounded
    /// down.
    each: [u64; Dimension::ALL.len()],
    /// Whether the costs of all modules, in every dimension, are below [`SMALL`].
    is_small: bool,
}

impl Prices {
    /// The prices of requests on `pod`, where modules take what `table` says.
    pub fn new(table: CostTable, pod: Pod) -> Self {
        let each = Dimension::ALL.map(|dimension| {
            let (above, below) = pod.milli_units_each(dimension);
            let many = above.checked_mul(1 << PLACES).map_or(u128::MAX, |above| above / below);
            u64::try_from(many).unwrap_or(u64::MAX)
        });
        let is_small = |module: Module| Dimension::ALL.into_iter().all(|dimension| table[module][dimension] < SMALL);
        Self { is_small: Module::ALL.into_iter().all(is_small), table, pod, each }
    }

    /// What modules take.
    pub fn table(&self) -> &CostTable {
        &self.table
    }

    /// The machine.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// What `work` has cost (XS-19, XS-20).
    #[inline]
    pub fn of(&self, work: &Work) -> Price {
        let resources = self.resources(work);
        Price { resources, milli_units: self.milli_units(&resources) }
    }

    #[inline]
    fn resources(&self, work: &Work) -> Resources {
        let (mut sums, mut counts) = ([0_u64; Dimension::ALL.len()], 0);
        for (module, count) in work.used() {
            counts |= count;
            for dimension in Dimension::ALL {
                let sum = &mut sums[dimension as usize];
                *sum = sum.wrapping_add(self.table[module][dimension].wrapping_mul(count));
            }
        }
        if self.is_small && counts < SMALL { Resources::new(sums) } else { self.table.resources(work) }
    }

    #[inline]
    fn milli_units(&self, resources: &Resources) -> u64 {
        let mut most = 0_u128;
        for dimension in Dimension::ALL {
            most = most.max(u128::from(resources[dimension]) * u128::from(self.each[dimension as usize]));
        }
        u64::try_from(most.div_ceil(1 << PLACES)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{MILLI, Module, default_pod, default_table, reference_read};
    use super::*;

    #[test]
    fn the_reference_read_costs_one_unit() {
        // XS-17, with the table of the engine that reads from the device.
        let prices = Prices::new(default_table(false), default_pod());
        assert_eq!(prices.of(&reference_read()).milli_units, MILLI);
        assert_eq!(prices.of(&Work::default()), Price::default());
    }

    #[test]
    fn every_module_costs_something() {
        for in_memory in [false, true] {
            let prices = Prices::new(default_table(in_memory), default_pod());
            for module in Module::ALL {
                let mut work = Work::default();
                work.count(module, 1_000_000);
                assert!(prices.of(&work).milli_units > 0, "{}", module.name());
            }
        }
    }

    #[test]
    fn no_request_is_too_large_for_its_price() {
        let prices = Prices::new(default_table(false), default_pod());
        let mut work = Work::default();
        Module::ALL.into_iter().for_each(|module| work.count(module, u64::MAX));
        work += &work.clone();
        assert!(prices.of(&work).milli_units > 1 << 40);
    }

    proptest! {
        /// However large counts and costs are, nothing is lost on the fast path.
        #[test]
        fn what_is_taken_is_what_the_table_says(
            counts in prop::collection::vec((0..Module::ALL.len(), 0_u32..65, any::<u64>()), 0..12),
            costs in prop::collection::vec((0..Module::ALL.len(), prop::array::uniform4(any::<u64>())), 0..3),
            in_memory in any::<bool>(),
        ) {
            let (mut table, mut work) = (default_table(in_memory), Work::default());
            costs.into_iter().for_each(|(place, cost)| table[Module::ALL[place]] = Resources::new(cost));
            counts.into_iter().for_each(|(place, bits, count)| {
                work.count(Module::ALL[place], count.checked_shr(bits).unwrap_or(0));
            });
            prop_assert_eq!(Prices::new(table, default_pod()).of(&work).resources, table.resources(&work));
        }

        /// The price is what the formula says: never more, and less by no more than a part in a million and two
        /// thousandths.
        #[test]
        fn prices_are_the_formula(
            capacity in prop::array::uniform4(1_u64 << 20..1 << 50),
            read in prop::array::uniform4(1_u64 << 8..1 << 30),
            taken in prop::array::uniform4(0_u64..1 << 40),
        ) {
            let pod = Pod::new(Resources::new(capacity), Resources::new(read));
            let prices = Prices::new(CostTable::default(), pod);
            prop_assume!(prices.each.iter().all(|&each| each < u64::MAX));
            let taken = Resources::new(taken);
            let (paid, exact) = (u128::from(prices.milli_units(&taken)), pod.request(&taken));
            prop_assert!(paid <= exact, "{paid} is more than {exact}");
            prop_assert!(exact - paid <= 2 + exact / 1_000_000, "{paid} is less than {exact}");
        }
    }
}
