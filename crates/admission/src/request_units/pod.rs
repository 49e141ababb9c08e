//! How many units a machine gives (XS-18, XS-20). The arithmetic is exact: in rational numbers, rounded once.

use super::resources::{Dimension, MILLI, Resources};

/// The resources of a machine, which are to be shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// How much there is a second, in each dimension. Never 0.
    capacity: Resources,
    /// What the reference read takes. Never 0.
    read: Resources,
}

impl Pod {
    /// A machine with `capacity` a second, where the reference read takes `read`. A 0 counts as the least that there
    /// can be.
    pub fn new(mut capacity: Resources, mut read: Resources) -> Self {
        for dimension in Dimension::ALL {
            capacity[dimension] = capacity[dimension].max(1);
            read[dimension] = read[dimension].max(1);
        }
        Self { capacity, read }
    }

    /// How much there is a second.
    pub fn capacity(&self) -> Resources {
        self.capacity
    }

    /// What the reference read takes.
    pub fn read(&self) -> Resources {
        self.read
    }

    /// Physical units a second in `dimension`: `PodPRU = capacity / 1KBRead`.
    pub fn physical(&self, dimension: Dimension) -> u64 {
        self.capacity[dimension] / self.read[dimension]
    }

    /// The dimension of which the machine has the fewest physical units; the first one if there are several.
    pub fn scarcest(&self) -> Dimension {
        let order = |left: Dimension, right: Dimension| {
            let crossed =
                |one: Dimension, other: Dimension| u128::from(self.capacity[one]) * u128::from(self.read[other]);
            crossed(left, right).cmp(&crossed(right, left))
        };
        Dimension::ALL.into_iter().min_by(|left, right| order(*left, *right)).unwrap_or(Dimension::Cpu)
    }

    /// Logical units a second: `PodLRU = min(PodPRU)`.
    pub fn logical(&self) -> u64 {
        self.physical(self.scarcest())
    }

    /// What a request that takes `amount` costs of `dimension` alone, in thousandths of a logical unit, rounded up:
    /// `PodLRU * PRU / PodPRU = PodLRU * amount / capacity`, where `PodLRU` is not rounded.
    ///
    /// This is the definition; [`super::Prices`] are what a request pays.
    pub fn milli_units(&self, dimension: Dimension, amount: u64) -> u128 {
        let (above, below) = self.milli_units_each(dimension);
        match above.checked_mul(u128::from(amount)) {
            Some(product) => product.div_ceil(below),
            None => (above / below).saturating_mul(u128::from(amount)),
        }
    }

    /// The same for one thousandth of the dimension's unit, as a fraction.
    pub(super) fn milli_units_each(&self, dimension: Dimension) -> (u128, u128) {
        let scarcest = self.scarcest();
        let above = [u128::from(MILLI), u128::from(self.capacity[scarcest])];
        let below = [u128::from(self.read[scarcest]), u128::from(self.capacity[dimension])];
        // Common factors above and below the line are cancelled first: machines of one balance give one result.
        let common = gcd(above[1], below[1]);
        (above[0] * (above[1] / common), below[0] * (below[1] / common))
    }

    /// What a request that takes `resources` costs, in thousandths of a logical unit: `PodLRU * max(PRU / PodPRU)`.
    pub fn request(&self, resources: &Resources) -> u128 {
        Dimension::ALL.into_iter().map(|dimension| self.milli_units(dimension, resources[dimension])).max().unwrap_or(0)
    }
}

fn gcd(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts() -> impl Strategy<Value = Resources> {
        prop::array::uniform4(1_u64..1 << 40).prop_map(Resources::new)
    }

    #[test]
    fn the_scarcest_dimension_says_how_many_units_there_are() {
        // XS-18.
        let pod = Pod::new(Resources::new([6000, 50_000, 900, 4000]), Resources::new([2, 10, 3, 1]));
        assert_eq!(Dimension::ALL.map(|dimension| pod.physical(dimension)), [3000, 5000, 300, 4000]);
        assert_eq!((pod.scarcest(), pod.logical()), (Dimension::Io, 300));
        // The reference read costs one unit, by the dimension of which it takes most. Less of another dimension costs
        // less.
        assert_eq!(pod.request(&pod.read()), 1000);
        assert_eq!(pod.request(&Resources::new([2, 10, 0, 1])), 100);
        assert_eq!(pod.request(&Resources::new([200, 0, 3, 0])), 10_000);
        assert_eq!(pod.request(&Resources::default()), 0);
    }

    #[test]
    fn six_cores_and_twelve_of_one_balance_charge_the_same() {
        // XS-20. The paper's pods: 6 cores of 2.5 GHz, then twice as much of everything.
        let read = Resources::new([3_137_000, 5_120_000, 4_096_000, 1_069_000]);
        let pod = |cores: u64| {
            let capacity = [1_000_000_000_000, 3_000_000_000_000, 83_333_333_000, 208_333_333_000];
            Pod::new(Resources::new(capacity.map(|one| one * cores)), read)
        };
        for resources in [read, Resources::new([1, 0, 0, 7]), Resources::new([9_999_999_999, 3, 88_888, 0])] {
            assert_eq!(pod(6).request(&resources), pod(12).request(&resources));
        }
        assert!(pod(12).logical().abs_diff(2 * pod(6).logical()) <= 1);
    }

    proptest! {
        /// XS-20: units do not depend on how large a machine is, only on its balance.
        #[test]
        fn machines_of_one_balance_charge_the_same(
            capacity in amounts(), read in amounts(), resources in amounts(), times in 1_u64..1000,
        ) {
            let (one, many) = (Pod::new(capacity, read), Pod::new(capacity.times(times), read));
            prop_assert_eq!(one.request(&resources), many.request(&resources));
        }

        /// XS-18 and XS-20 in the paper's words, where nothing has to be rounded.
        #[test]
        fn the_formulas_are_the_papers(read in prop::array::uniform4(1_u64..1 << 20),
                                       units in prop::array::uniform4(1_u64..1 << 10),
                                       taken in prop::array::uniform4(0_u64..1 << 10)) {
            let all: u64 = 1 << 20;
            // The capacities and the requests are multiples of the reads.
            let by = |factors: [u64; 4]| {
                Resources::new(std::array::from_fn(|at| read[at] * factors[at]))
            };
            let pod = Pod::new(by(units), Resources::new(read));
            let logical = units.into_iter().min().unwrap_or(0);
            prop_assert_eq!(pod.logical(), logical);
            let exact = (0..4).map(|at| (u128::from(logical * 1000) * u128::from(taken[at])).div_ceil(u128::from(units[at])));
            prop_assert_eq!(pod.request(&by(taken)), exact.max().unwrap_or(0));
            prop_assert!(pod.request(&by(taken)) < u128::from(all) * u128::from(all));
        }

        /// More of anything never costs less.
        #[test]
        fn more_never_costs_less(capacity in amounts(), read in amounts(), one in amounts(), more in amounts()) {
            let pod = Pod::new(capacity, read);
            let mut both = one;
            both += more;
            prop_assert!(pod.request(&both) >= pod.request(&one));
        }
    }
}
