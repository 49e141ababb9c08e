//! What modules take where nobody has calibrated: measured on one machine, which `docs/policy/request-units.md` names.

use super::module::Module;
use super::pod::Pod;
use super::resources::Resources;
use super::table::{CostTable, reference_read};

/// Picoseconds; thousandths of a byte in memory, of the device, and of the network.
type Row = (Module, [u64; 4]);

/// Where rows are on disk.
const ON_DISK: [Row; Module::ALL.len()] = [
    (Module::Round, [3_698_326, 0, 0, 0]),
    (Module::Command, [227_342, 0, 0, 0]),
    (Module::Word, [56_549, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [75, 1000, 0, 1000]),
    (Module::RowFound, [434_468, 256_000, 0, 0]),
    (Module::RowMissing, [399_062, 128_000, 0, 0]),
    (Module::PartFound, [464_292, 256_000, 0, 0]),
    (Module::PartMissing, [183_056, 128_000, 0, 0]),
    (Module::ReadByte, [0, 1000, 0, 0]),
    (Module::PackedPart, [5000, 16_000, 0, 0]),
    (Module::RowWritten, [660_113, 256_000, 6445, 0]),
    (Module::PartWritten, [465_746, 256_000, 2017, 0]),
    (Module::IndexWritten, [3_815_954, 256_000, 4134, 0]),
    (Module::WrittenByte, [411, 3000, 989, 0]),
    (Module::Page, [1_696_666, 512_000, 0, 0]),
    (Module::Scanned, [100_649, 128_000, 0, 0]),
    (Module::ScannedByte, [722, 1000, 0, 0]),
    (Module::Locked, [264_199, 256_000, 0, 0]),
    (Module::LogRecord, [0, 256_000, 12_701, 0]),
    (Module::Step, [1374, 8000, 0, 0]),
    (Module::Fraction, [250_000, 64_000, 0, 0]),
    (Module::Script, [14_079_290, 65_536_000, 0, 0]),
    (Module::ScriptCall, [500_000, 512_000, 0, 0]),
    (Module::ScriptSlice, [609_319, 65_536_000, 0, 0]),
    (Module::DeviceRead, [12_000_000, 256_000, 0, 0]),
    (Module::DeviceByte, [100, 1000, 1000, 0]),
];

/// Where they are in memory.
const IN_MEMORY: [Row; Module::ALL.len()] = [
    (Module::Round, [2_431_052, 0, 0, 0]),
    (Module::Command, [108_333, 0, 0, 0]),
    (Module::Word, [91_306, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [74, 1000, 0, 1000]),
    (Module::RowFound, [405_925, 256_000, 0, 0]),
    (Module::RowMissing, [397_321, 128_000, 0, 0]),
    (Module::PartFound, [280_186, 256_000, 0, 0]),
    (Module::PartMissing, [48_099, 128_000, 0, 0]),
    (Module::ReadByte, [0, 1000, 0, 0]),
    (Module::PackedPart, [5000, 16_000, 0, 0]),
    (Module::RowWritten, [627_963, 256_000, 6409, 0]),
    (Module::PartWritten, [313_040, 256_000, 1967, 0]),
    (Module::IndexWritten, [1_411_170, 256_000, 3571, 0]),
    (Module::WrittenByte, [334, 3000, 990, 0]),
    (Module::Page, [201_387, 512_000, 0, 0]),
    (Module::Scanned, [100_392, 128_000, 0, 0]),
    (Module::ScannedByte, [3749, 1000, 0, 0]),
    (Module::Locked, [202_434, 256_000, 0, 0]),
    (Module::LogRecord, [0, 256_000, 12_688, 0]),
    (Module::Step, [2004, 8000, 0, 0]),
    (Module::Fraction, [250_000, 64_000, 0, 0]),
    (Module::Script, [58_720_713, 65_536_000, 0, 0]),
    (Module::ScriptCall, [500_000, 512_000, 0, 0]),
    (Module::ScriptSlice, [872_418, 65_536_000, 0, 0]),
    (Module::DeviceRead, [12_000_000, 256_000, 0, 0]),
    (Module::DeviceByte, [100, 1000, 1000, 0]),
];

/// The built-in table of the engine that keeps its rows on disk; of the one `in_memory`, where that is meant.
pub fn default_table(in_memory: bool) -> CostTable {
    let mut table = CostTable::default();
    for (module, cost) in if in_memory { IN_MEMORY } else { ON_DISK } {
        table[module] = Resources::new(cost);
    }
    table
}

/// The machine of the built-in table: two cores, 13.4 GB/s of memory, 803 MB/s of the device, 10 Gbit/s of network.
pub fn default_pod() -> Pod {
    let capacity = Resources::new([2_000_000_000_000, 13_400_000_000_000, 803_000_000_000, 1_250_000_000_000]);
    Pod::new(capacity, default_table(false).resources(&reference_read()))
}
