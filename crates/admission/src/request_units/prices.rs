//! A cost table and a machine, worked out: what a request pays, in integers and without a division.

use super::module::Work;
use super::pod::Pod;
use super::resources::{Dimension, Resources};
use super::table::CostTable;

/// Prices are kept in fractions of a thousandth of a unit, with so many binary places.
const PLACES: u32 = 48;

/// What a request has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// What it took of the machine.
    pub resources: Resources,
    /// Thousandths of a logical unit.
    pub milli_units: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Prices {
    table: CostTable,
    pod: Pod,
    /// Of a thousandth of the dimension's unit, in 2^-[`PLACES`] thousandths of a logical unit, rounded down.
    each: [u64; Dimension::ALL.len()],
}

impl Prices {
    /// What requests pay where modules take what `table` says, on `pod`.
    pub fn new(table: CostTable, pod: Pod) -> Self {
        let each = Dimension::ALL.map(|dimension| {
            let (above, below) = pod.milli_units_each(dimension);
            let many = above.checked_mul(1 << PLACES).map_or(u128::MAX, |above| above / below);
            u64::try_from(many).unwrap_or(u64::MAX)
        });
        Self { table, pod, each }
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
        let resources = self.table.resources(work);
        Price { resources, milli_units: self.milli_units(&resources) }
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
        work += work;
        assert!(prices.of(&work).milli_units > 1 << 40);
    }

    proptest! {
        /// What is paid is what the formula says: never more, and less by no more than a part in a million and two
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
