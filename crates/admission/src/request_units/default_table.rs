//! What modules take where nobody has calibrated: measured on one machine, which `docs/policy/request-units.md` names.

use super::module::Module;
use super::pod::Pod;
use super::resources::Resources;
use super::table::{CostTable, reference_read};

/// Picoseconds; thousandths of a byte in memory, of the device, and of the network.
type Row = (Module, [u64; 4]);

/// Where rows are on disk.
const ON_DISK: [Row; Module::ALL.len()] = [
    (Module::Round, [6_996_519, 0, 0, 0]),
    (Module::Command, [164_550, 0, 0, 0]),
    (Module::Word, [34_419, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [16, 1000, 0, 1000]),
    (Module::RowFound, [423_479, 256_000, 0, 0]),
    (Module::RowMissing, [310_034, 128_000, 0, 0]),
    (Module::PartFound, [303_911, 256_000, 0, 0]),
    (Module::PartMissing, [596_259, 128_000, 0, 0]),
    (Module::ReadByte, [43, 1000, 0, 0]),
    (Module::PackedPart, [8654, 16_000, 0, 0]),
    (Module::RowWritten, [548_828, 256_000, 3963, 0]),
    (Module::PartWritten, [531_649, 256_000, 3095, 0]),
    (Module::IndexWritten, [3_096_215, 256_000, 3756, 0]),
    (Module::WrittenByte, [937, 3000, 1001, 0]),
    (Module::Page, [0, 512_000, 0, 0]),
    (Module::Scanned, [87_290, 128_000, 0, 0]),
    (Module::ScannedByte, [1016, 1000, 0, 0]),
    (Module::Locked, [372_452, 256_000, 0, 0]),
    (Module::LogRecord, [70_205, 256_000, 15_459, 0]),
    (Module::Step, [1045, 8000, 0, 0]),
    (Module::Fraction, [146_552, 64_000, 0, 0]),
    (Module::Script, [2_906_732, 65_536_000, 0, 0]),
    (Module::ScriptCall, [638_785, 512_000, 0, 0]),
    (Module::ScriptSlice, [1_860_000, 65_536_000, 0, 0]),
    (Module::DeviceRead, [12_000_000, 256_000, 0, 0]),
    (Module::DeviceByte, [100, 1000, 1000, 0]),
];

/// Where they are in memory.
const IN_MEMORY: [Row; Module::ALL.len()] = [
    (Module::Round, [7_289_887, 0, 0, 0]),
    (Module::Command, [194_284, 0, 0, 0]),
    (Module::Word, [15_994, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [54, 1000, 0, 1000]),
    (Module::RowFound, [307_241, 256_000, 0, 0]),
    (Module::RowMissing, [222_831, 128_000, 0, 0]),
    (Module::PartFound, [261_751, 256_000, 0, 0]),
    (Module::PartMissing, [115_413, 128_000, 0, 0]),
    (Module::ReadByte, [20, 1000, 0, 0]),
    (Module::PackedPart, [8723, 16_000, 0, 0]),
    (Module::RowWritten, [509_886, 256_000, 3966, 0]),
    (Module::PartWritten, [754_982, 256_000, 3012, 0]),
    (Module::IndexWritten, [975_531, 256_000, 3760, 0]),
    (Module::WrittenByte, [534, 3000, 1003, 0]),
    (Module::Page, [638_441, 512_000, 0, 0]),
    (Module::Scanned, [175_569, 128_000, 0, 0]),
    (Module::ScannedByte, [0, 1000, 0, 0]),
    (Module::Locked, [274_842, 256_000, 0, 0]),
    (Module::LogRecord, [211_912, 256_000, 15_378, 0]),
    (Module::Step, [1054, 8000, 0, 0]),
    (Module::Fraction, [122_841, 64_000, 0, 0]),
    (Module::Script, [3_167_186, 65_536_000, 0, 0]),
    (Module::ScriptCall, [1_059_125, 512_000, 0, 0]),
    (Module::ScriptSlice, [1_860_000, 65_536_000, 0, 0]),
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
