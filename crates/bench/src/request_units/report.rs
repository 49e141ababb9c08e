//! The measurements beside what tables predict.

use std::borrow::Borrow;

use weir_admission::request_units::{CostTable, Dimension, Module, Pod, Resources, THOUSAND, reference_read};
use weir_scenario::println;

use super::measured::Measured;

/// A prediction is good if it is off by no more than this share of the measurement.
const NEAR: f64 = 0.15;
/// A module is hardly told apart from others if they explain all but this share of its counts.
const TOLD_APART: f64 = 0.01;
/// Device bytes are compared if a command moves at least this many.
const DEVICE_BYTES_MIN: f64 = 16.0;

/// Prints a table of costs, and the vector of the reference read.
pub fn print_table(engine: &str, table: &CostTable, pod: &Pod) {
    println!("engine {engine}: one of each module takes");
    println!("{:>14} {:>12} {:>14} {:>14} {:>14}", "module", "cpu ns", "memory bytes", "io bytes", "network bytes");
    for module in Module::ALL {
        let cost = Dimension::ALL.map(|dimension| table[module][dimension] as f64 / THOUSAND as f64);
        println!("{:>14} {:>12.3} {:>14.3} {:>14.3} {:>14.3}", module.name(), cost[0], cost[1], cost[2], cost[3]);
    }
    let read = table.resources(&reference_read());
    let read = Dimension::ALL.map(|dimension| read.whole(dimension));
    println!(
        "a read of 1 KiB: {} ns, {} bytes of memory, {} of the device, {} of the network",
        read[0], read[1], read[2], read[3]
    );
    let units = Dimension::ALL.map(|dimension| format!("{} {}", dimension.name(), pod.physical(dimension)));
    println!("physical units a second: {}; logical units a second: {}", units.join(", "), pod.logical());
}

/// Prints the modules whose costs the measured commands hardly tell apart from those of others: one may be taken for
/// the other.
pub fn print_told_apart(told_apart: &[Option<f64>]) {
    let few = Module::ALL.into_iter().zip(told_apart).filter_map(|(module, &share)| Some((module, share?)));
    let few: Vec<String> = few
        .filter(|(_, share)| *share < TOLD_APART)
        .map(|(module, share)| format!("{} {:.2} %", module.name(), share * 100.0))
        .collect();
    let unmeasured = Module::ALL.into_iter().zip(told_apart).filter(|(_, share)| share.is_none());
    let unmeasured: Vec<&str> = unmeasured.map(|(module, _)| module.name()).collect();
    println!("hardly told apart from others (under {} %): {}", TOLD_APART * 100.0, listed(&few));
    println!("not measured, as built in: {}", listed(&unmeasured));
}

fn listed<T: Borrow<str>>(names: &[T]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The source of `weir-admission`'s `default_rows.rs` for these tables, of rows on disk and in memory, on this machine.
pub fn source([on_disk, in_memory]: [&CostTable; 2], pod: &Pod) -> String {
    // With underscores, as people write numbers in source.
    let number = |number: u64| -> String {
        let digits = number.to_string();
        if digits.len() < 5 {
            return digits;
        }
        let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
        groups.collect::<Vec<_>>().join("_")
    };
    let numbers = |resources: &Resources| Dimension::ALL.map(|dimension| number(resources[dimension])).join(", ");
    let mut text = "\
//! What one of each module takes, and the machine where it did: `weir calibrate DIR --print-table` writes this file,
//! from what it has measured.

use super::module::Module;

/// Picoseconds; thousandths of a byte in memory, of the device, and of the network.
pub(super) type Row = (Module, [u64; 4]);

/// What the machine has of each a second.
"
    .to_owned();
    text += &format!("pub(super) const CAPACITY: [u64; 4] = [{}];\n", numbers(&pod.capacity()));
    for (doc, name, table) in
        [("Where rows are on disk.", "ON_DISK", on_disk), ("Where they are in memory.", "IN_MEMORY", in_memory)]
    {
        text += &format!("\n/// {doc}\npub(super) const {name}: [Row; Module::ALL.len()] = [\n");
        for module in Module::ALL {
            text += &format!("    (Module::{module:?}, [{}]),\n", numbers(&table[module]));
        }
        text += "];\n";
    }
    text
}

/// Prints predicted and measured costs for each command, and how many are near; returns the share of processor times
/// that are near.
pub fn print_check(engine: &str, table: &CostTable, measured: &[Measured]) -> f64 {
    println!("engine {engine}: predicted and measured, of one command (+ = held out: the table was made without it)");
    println!(
        "  {:22} {:>10} {:>10} {:>6}   {:>9} {:>9} {:>6}",
        "command", "ns", "measured", "ratio", "io bytes", "measured", "ratio"
    );
    let (mut near, mut near_out, mut out, mut io_near, mut io) = (0, 0, 0, 0, 0);
    for one in measured {
        let [cpu, device] = [Dimension::Cpu, Dimension::Io].map(|dimension| one.predicted(table, dimension));
        let ratio = cpu / one.nanos;
        let is_near = (ratio - 1.0).abs() <= NEAR;
        near += usize::from(is_near);
        out += usize::from(one.held_out);
        near_out += usize::from(one.held_out && is_near);
        let mut line = format!(
            "{} {:22} {cpu:>10.0} {:>10.0} {ratio:>6.2}",
            if one.held_out { '+' } else { ' ' },
            one.name,
            one.nanos
        );
        if one.device_bytes >= DEVICE_BYTES_MIN {
            let ratio = device / one.device_bytes;
            io += 1;
            io_near += usize::from((ratio - 1.0).abs() <= NEAR);
            line += &format!("   {device:>9.0} {:>9.0} {ratio:>6.2}", one.device_bytes);
        }
        println!("{line}{}", if is_near { "" } else { "  *" });
    }
    let count = measured.len();
    println!(
        "processor time within {:.0} %: {near} of {count} commands ({:.0} %), of those held out {near_out} of {out}; device bytes: {io_near} of {io}",
        NEAR * 100.0,
        near as f64 / count.max(1) as f64 * 100.0,
    );
    near as f64 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use weir_admission::request_units::{default_pod, default_table};

    use super::*;

    #[test]
    fn the_built_in_table_is_printed_as_it_stands_in_the_source() {
        let there = include_str!("../../../admission/src/request_units/default_rows.rs");
        assert_eq!(source([&default_table(false), &default_table(true)], &default_pod()), there);
    }
}
