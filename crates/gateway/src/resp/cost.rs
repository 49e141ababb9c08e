//! What the commands of a connection have cost: the last one, and their sum.

use weir_command::bill::OwnBill;
use weir_node::request_units::{Module, Price, Prices, Work};
use weir_node::waits::DeviceReads;

/// Adds `reads` to `work`.
#[inline]
pub(in crate::resp) fn count_device_reads(work: &mut Work, DeviceReads { reads, bytes }: DeviceReads) {
    if reads > 0 {
        work.count(Module::DeviceRead, reads);
        work.count(Module::DeviceByte, bytes);
    }
}

/// What a command has cost.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) struct Last {
    /// The name of the command; empty if there was none.
    pub(in crate::resp) command: &'static str,
    pub(in crate::resp) price: Price,
    bill: OwnBill,
    /// Whether the price is exactly what the tenant's prices give for the work. It is not if it is the sum of several
    /// commands, or if the tenant has changed since.
    is_exact: bool,
}

impl Last {
    /// The work that the command was counted as.
    pub(in crate::resp) fn work(&self) -> &Work {
        &self.bill.work
    }

    /// What `work` costs by `prices`, the prices of the tenant. In a pipeline it is often the same as for the command
    /// before.
    #[inline]
    pub(in crate::resp) fn price_of(&self, work: &Work, prices: &Prices) -> Price {
        if self.is_exact && self.work().is_surely(work) { self.price } else { prices.of(work) }
    }

    /// Records that a command has cost `price`. Its `bill` is then cleared for the next command.
    #[inline]
    pub(in crate::resp) fn replace(&mut self, command: &'static str, price: Price, bill: &mut OwnBill) {
        (self.command, self.price, self.is_exact) = (command, price, true);
        std::mem::swap(&mut self.bill, bill);
        bill.clear();
    }

    /// The connection now belongs to another tenant, whose prices may be different.
    pub(in crate::resp) fn forget_prices(&mut self) {
        self.is_exact = false;
    }

    /// Adds the work and the price of `other`.
    pub(in crate::resp) fn add(&mut self, other: &Last) {
        self.is_exact = false;
        self.price.resources += other.price.resources;
        self.price.milli_units = self.price.milli_units.saturating_add(other.price.milli_units);
        self.bill.work += other.work();
    }
}

/// What several commands have cost.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) struct Sum {
    pub(in crate::resp) commands: u64,
    pub(in crate::resp) price: Price,
    pub(in crate::resp) work: Work,
}

impl Sum {
    /// Adds another command, which has cost `price` for `work`.
    pub(in crate::resp) fn add(&mut self, price: &Price, work: &Work) {
        self.commands = self.commands.saturating_add(1);
        self.price.resources += price.resources;
        self.price.milli_units = self.price.milli_units.saturating_add(price.milli_units);
        self.work += work;
    }
}

#[cfg(test)]
mod tests {
    use weir_node::request_units::{default_pod, default_table};

    use super::*;

    fn bill_of(module: Module, count: u64) -> OwnBill {
        let mut bill = OwnBill::default();
        bill.work.count(module, count);
        bill
    }

    #[test]
    fn what_is_as_the_command_before_costs_the_same_while_prices_are_the_same() {
        let [lsm, memory] = [false, true].map(|in_memory| Prices::new(default_table(in_memory), default_pod()));
        let (mut last, mut bill) = (Last::default(), bill_of(Module::RowFound, 3));
        let price = last.price_of(&bill.work, &lsm);
        assert_eq!(price, lsm.of(&bill.work));
        last.replace("get", price, &mut bill);
        assert_eq!((bill.work.counts().count(), last.work()[Module::RowFound]), (0, 3));
        let (same, more) = (bill_of(Module::RowFound, 3), bill_of(Module::RowFound, 4));
        // The price is not computed again, though `memory` has other prices.
        assert_eq!(last.price_of(&same.work, &memory), price);
        assert_eq!(last.price_of(&more.work, &lsm), lsm.of(&more.work));
        // The price of several commands together is not the price of their added work.
        let mut several = last.clone();
        several.add(&last);
        let both = bill_of(Module::RowFound, 6);
        assert_eq!(several.work(), &both.work);
        assert_eq!(several.price.milli_units, 2 * price.milli_units);
        assert_eq!(several.price_of(&both.work, &memory), memory.of(&both.work));
        last.forget_prices();
        assert_eq!(last.price_of(&same.work, &memory), memory.of(&same.work));
        assert_ne!(memory.of(&same.work), price, "the two have different prices");
    }
}
