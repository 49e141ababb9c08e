//! What one of each module takes, and the machine where it did: `weir calibrate DIR --print-table` writes this file, from
//! what it has measured.

use super::module::Module;

/// Picoseconds; thousandths of a byte in memory, of the device, and of the network.
pub(super) type Row = (Module, [u64; 4]);

/// What the machine has of each a second.
pub(super) const CAPACITY: [u64; 4] = [2_000_000_000_000, 13_400_000_000_000, 803_000_000_000, 1_250_000_000_000];

/// Where rows are on disk.
pub(super) const ON_DISK: [Row; Module::ALL.len()] = [
    (Module::Round, [6_996_519, 0, 0, 0]),
    (Module::Command, [164_550, 0, 0, 0]),
    (Module::Word, [34_419, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [16, 1000, 0, 1000]),
    (Module::ReplyElement, [10_000, 32_000, 0, 0]),
    (Module::RowCommand, [250_000, 128_000, 0, 0]),
    (Module::RowFound, [173_000, 128_000, 0, 0]),
    (Module::RowMissing, [60_000, 64_000, 0, 0]),
    (Module::InHand, [60_000, 64_000, 0, 0]),
    (Module::HeadRead, [60_000, 256_000, 0, 0]),
    (Module::PartFound, [303_911, 256_000, 0, 0]),
    (Module::PartMissing, [596_259, 128_000, 0, 0]),
    (Module::ReadByte, [43, 1000, 0, 0]),
    (Module::PackedPart, [6000, 16_000, 0, 0]),
    (Module::PartCopied, [40_000, 96_000, 0, 0]),
    (Module::PackedChange, [150_000, 256_000, 0, 0]),
    (Module::PackedByte, [100, 2000, 0, 0]),
    (Module::RowWritten, [299_000, 256_000, 3963, 0]),
    (Module::HeadWritten, [150_000, 512_000, 0, 0]),
    (Module::PartWritten, [531_649, 256_000, 3095, 0]),
    (Module::IndexWritten, [3_096_215, 256_000, 3756, 0]),
    (Module::WrittenByte, [937, 3000, 1001, 0]),
    (Module::Page, [200_000, 512_000, 0, 0]),
    (Module::Scanned, [70_000, 128_000, 0, 0]),
    (Module::ScannedByte, [800, 1000, 0, 0]),
    (Module::Locked, [372_452, 256_000, 0, 0]),
    (Module::LogRecord, [70_205, 256_000, 15_459, 0]),
    (Module::Commit, [1_000_000, 256_000, 0, 0]),
    (Module::Step, [1045, 8000, 0, 0]),
    (Module::Fraction, [146_552, 64_000, 0, 0]),
    (Module::Script, [2_906_732, 65_536_000, 0, 0]),
    (Module::ScriptCall, [389_000, 512_000, 0, 0]),
    (Module::ScriptSlice, [186_000, 6_553_600, 0, 0]),
    (Module::DeviceRead, [12_000_000, 256_000, 0, 0]),
    (Module::DeviceByte, [100, 1000, 1000, 0]),
];

/// Where they are in memory.
pub(super) const IN_MEMORY: [Row; Module::ALL.len()] = [
    (Module::Round, [7_289_887, 0, 0, 0]),
    (Module::Command, [194_284, 0, 0, 0]),
    (Module::Word, [15_994, 0, 0, 0]),
    (Module::RequestByte, [0, 1000, 0, 1000]),
    (Module::ReplyByte, [54, 1000, 0, 1000]),
    (Module::ReplyElement, [10_000, 32_000, 0, 0]),
    (Module::RowCommand, [190_000, 128_000, 0, 0]),
    (Module::RowFound, [117_000, 128_000, 0, 0]),
    (Module::RowMissing, [33_000, 64_000, 0, 0]),
    (Module::InHand, [50_000, 64_000, 0, 0]),
    (Module::HeadRead, [60_000, 256_000, 0, 0]),
    (Module::PartFound, [261_751, 256_000, 0, 0]),
    (Module::PartMissing, [115_413, 128_000, 0, 0]),
    (Module::ReadByte, [20, 1000, 0, 0]),
    (Module::PackedPart, [6000, 16_000, 0, 0]),
    (Module::PartCopied, [40_000, 96_000, 0, 0]),
    (Module::PackedChange, [150_000, 256_000, 0, 0]),
    (Module::PackedByte, [100, 2000, 0, 0]),
    (Module::RowWritten, [430_000, 256_000, 3966, 0]),
    (Module::HeadWritten, [150_000, 512_000, 0, 0]),
    (Module::PartWritten, [754_982, 256_000, 3012, 0]),
    (Module::IndexWritten, [975_531, 256_000, 3760, 0]),
    (Module::WrittenByte, [534, 3000, 1003, 0]),
    (Module::Page, [600_000, 512_000, 0, 0]),
    (Module::Scanned, [155_000, 128_000, 0, 0]),
    (Module::ScannedByte, [100, 1000, 0, 0]),
    (Module::Locked, [274_842, 256_000, 0, 0]),
    (Module::LogRecord, [211_912, 256_000, 15_378, 0]),
    (Module::Commit, [1_000_000, 256_000, 0, 0]),
    (Module::Step, [1054, 8000, 0, 0]),
    (Module::Fraction, [122_841, 64_000, 0, 0]),
    (Module::Script, [3_167_186, 65_536_000, 0, 0]),
    (Module::ScriptCall, [869_000, 512_000, 0, 0]),
    (Module::ScriptSlice, [186_000, 6_553_600, 0, 0]),
    (Module::DeviceRead, [12_000_000, 256_000, 0, 0]),
    (Module::DeviceByte, [100, 1000, 1000, 0]),
];
