//! The measurements, as they are stored beside the data, and what follows from them for the node gate.
//! `docs/format/calibration.md` describes the file.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_admission::policy::DeviceMap;
use weir_admission::request_units::{
    CostTable, Dimension, Module, Pod, Prices, Resources, THOUSAND, default_pod, default_table, reference_read,
};
use weir_admission::{Direction, Limits, Rates};
use weir_gateway::UnitPrices;
use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, Result, Tag};
use weir_node::EngineKind;

/// Version of a file that says what the device does, and nothing else.
const VERSION_DEVICE: u32 = 1;
/// Versions of files that also say what requests take, but by modules that differ from today's.
const VERSIONS_EARLIER_UNITS: RangeInclusive<u32> = 2..=3;
/// Version of a file that also says what requests take, by today's modules.
const VERSION_UNITS: u32 = 4;
/// The first version whose checksum covers the version, too.
const VERSION_IN_CHECKSUM: u32 = 3;
/// Says why a table that was measured is not used.
pub const OUTDATED_UNITS: &str = "what requests take was measured by an earlier version, which counted other modules: \
                                  it is not used, and the built-in table holds";
/// A file longer than this was not written by us, in bytes.
const LEN_MAX: u64 = 64 << 10;
/// How much of what the device can do the gate hands out, in percent: a little less, so that requests queue at the
/// gate, which orders them, and not in the device.
const HANDED_OUT_PERCENT: u64 = 95;
/// Reads and writes count as independent if in a mix of half and half each still gets this much, in percent, of what
/// the slower one gets alone.
const INDEPENDENT_PERCENT: u64 = 90;
const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

/// The measurements of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Its disk.
    pub measurement: Measurement,
    /// What requests take, if that was measured.
    pub request_units: Option<RequestUnits>,
    /// What requests take was measured by an earlier version, and is not used: some modules of that version included
    /// costs that other modules have today, so its costs beside built-in ones would charge some things twice.
    pub has_outdated_units: bool,
}

/// What requests take of a machine, and what the machine has per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestUnits {
    /// Wall clock at the end, in milliseconds since 1970.
    pub measured_unix_ms: u64,
    /// Processors.
    pub cores: u64,
    /// Bytes per second that the machine moves in memory.
    pub memory_bytes_per_second: u64,
    /// Costs by module, for tenants whose rows are on disk: picoseconds, and thousandths of bytes of memory, of the
    /// device, and of the network. All modules are there.
    pub lsm: BTreeMap<String, [u64; 4]>,
    /// The same for tenants whose rows are in memory.
    pub memory: BTreeMap<String, [u64; 4]>,
}

/// What a device did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurement {
    /// Wall clock at the end, in milliseconds since 1970.
    pub measured_unix_ms: u64,
    /// How long it took, in seconds.
    pub seconds: u64,
    /// Length of the scratch file.
    pub file_bytes: u64,
    /// Whether the file system took direct I/O; if not, the page cache was measured.
    pub direct: bool,
    /// One mix for each share of reads.
    pub mixes: Vec<Mix>,
}

/// What a device did under one mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Reads per hundred operations.
    pub read_percent: u64,
    /// The loop with large blocks: the bandwidth.
    pub large: Loop,
    /// The loop with pages: operations per second.
    pub small: Loop,
}

/// One closed loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// Bytes of an operation.
    pub block_bytes: u64,
    /// Operations under way at any moment.
    pub depth: u64,
    /// Reads per second.
    pub reads: u64,
    /// Writes per second.
    pub writes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    format: String,
    version: u32,
    /// Checksum of everything else, eight hexadecimal digits: see `docs/format/calibration.md`.
    crc32c: String,
    measurement: Measurement,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_units: Option<RequestUnits>,
}

/// Where the calibration of the data directory `dir` is.
pub fn path(dir: &Path) -> PathBuf {
    dir.join("calibration.json")
}

/// The file's bytes.
pub fn encode(calibration: &Calibration) -> serde_json::Result<Vec<u8>> {
    let Calibration { measurement, request_units, .. } = calibration.clone();
    // A version that knows only the device can read a file that says nothing else.
    let version = if request_units.is_some() { VERSION_UNITS } else { VERSION_DEVICE };
    let crc32c = checksum(version, &measurement, request_units.as_ref())?;
    let envelope = Envelope { format: "weir calibration".to_owned(), version, crc32c, measurement, request_units };
    let mut bytes = serde_json::to_vec_pretty(&envelope)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The measurements in a file's bytes, or what is wrong with these bytes.
pub fn decode(bytes: &[u8]) -> std::result::Result<Calibration, String> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| format!("no calibration: {error}"))?;
    let is_known = match envelope.version {
        VERSION_DEVICE => envelope.request_units.is_none(),
        VERSION_UNITS => envelope.request_units.is_some(),
        version => VERSIONS_EARLIER_UNITS.contains(&version) && envelope.request_units.is_some(),
    };
    if envelope.format != "weir calibration" || !is_known {
        return Err(format!("format `{} {}` is not known here", envelope.format, envelope.version));
    }
    let units = envelope.request_units;
    let found = checksum(envelope.version, &envelope.measurement, units.as_ref()).map_err(|error| error.to_string())?;
    if found != envelope.crc32c {
        return Err("its checksum is wrong: it was changed after it was measured".to_owned());
    }
    let has_outdated_units = VERSIONS_EARLIER_UNITS.contains(&envelope.version);
    let request_units = units.filter(|_| !has_outdated_units);
    if let Some(units) = &request_units {
        units.check()?;
    }
    Ok(Calibration { measurement: envelope.measurement, request_units, has_outdated_units })
}

fn checksum(version: u32, measurement: &Measurement, units: Option<&RequestUnits>) -> serde_json::Result<String> {
    let mut bytes = serde_json::to_vec(measurement)?;
    if let Some(units) = units {
        bytes.extend(serde_json::to_vec(units)?);
    }
    if version >= VERSION_IN_CHECKSUM {
        // A damaged version number must not make the file look as if it had other modules.
        bytes.extend(version.to_string().bytes());
    }
    Ok(format!("{:08x}", crc32c::crc32c(&bytes)))
}

/// Stores `calibration` beside the data of `dir`, durably; it replaces an earlier one.
pub async fn store(fs: &Arc<dyn Fs>, dir: &Path, calibration: &Calibration) -> Result<()> {
    let path = path(dir);
    let bytes =
        encode(calibration).map_err(|error| Error::new(ErrorKind::Invalid, "write", &path, error.to_string()))?;
    let temporary = path.with_extension("json.tmp");
    match fs.remove(&temporary, TAG).await {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = fs.open(&temporary, OpenOptions::create_new_buffered(), TAG).await?;
    file.write_at(0, AlignedBuf::copy_of(&bytes), TAG).await?;
    file.sync(TAG).await?;
    fs.rename(&temporary, &path, TAG).await?;
    fs.sync_dir(dir, TAG).await
}

/// Loads the calibration that is stored beside the data of `dir`.
///
/// # Errors
/// `NotFound` if there is none, `Invalid` if it cannot be understood.
pub async fn load(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Calibration> {
    let path = path(dir);
    let file = fs.open(&path, OpenOptions::read_buffered(), TAG).await?;
    let len = file.len().await?;
    let invalid = |message: String| Error::new(ErrorKind::Invalid, "read", &path, message);
    if len > LEN_MAX {
        return Err(invalid(format!("{len} bytes are too many for a calibration")));
    }
    let bytes = file.read_at(0, AlignedBuf::with_len(usize::try_from(len).unwrap_or(0)), TAG).await?;
    decode(&bytes).map_err(invalid)
}

impl RequestUnits {
    /// Makes them from these tables, for a machine with `cores` processors.
    pub fn new(
        measured_unix_ms: u64,
        cores: u64,
        memory_bytes_per_second: u64,
        [lsm, memory]: [&CostTable; 2],
    ) -> Self {
        let by_name = |table: &CostTable| {
            let row = |module: Module| Dimension::ALL.map(|dimension| table[module][dimension]);
            Module::ALL.into_iter().map(|module| (module.name().to_owned(), row(module))).collect()
        };
        let (lsm, memory) = (by_name(lsm), by_name(memory));
        Self { measured_unix_ms, cores, memory_bytes_per_second, lsm, memory }
    }

    /// Another version may know other modules, whose costs must not be taken for those of ours.
    fn check(&self) -> std::result::Result<(), String> {
        for table in [&self.lsm, &self.memory] {
            let is_known = |name: &&String| Module::ALL.into_iter().any(|module| module.name() == name.as_str());
            if let Some(name) = table.keys().find(|name| !is_known(name)) {
                return Err(format!("there is no module `{name}`: calibrate again"));
            }
            if let Some(module) = Module::ALL.into_iter().find(|module| !table.contains_key(module.name())) {
                return Err(format!("it lacks the module `{}`: calibrate again", module.name()));
            }
        }
        Ok(())
    }

    /// What modules take of this machine, for tenants of either engine.
    pub fn table(&self, engine: EngineKind) -> CostTable {
        let (rows, in_memory) = match engine {
            EngineKind::Lsm | EngineKind::SpLsm => (&self.lsm, false),
            EngineKind::Memory => (&self.memory, true),
        };
        let mut table = default_table(in_memory);
        for module in Module::ALL {
            if let Some(row) = rows.get(module.name()) {
                table[module] = Resources::new(*row);
            }
        }
        table
    }

    /// The capacity of this machine, whose device gives what `limits` say.
    pub fn pod(&self, limits: &Limits) -> Pod {
        let io = limits.rates(Direction::Read).bytes;
        let thousandths = |whole: u64| whole.saturating_mul(THOUSAND);
        let mut capacity = default_pod().capacity();
        capacity[Dimension::Cpu] = thousandths(self.cores.saturating_mul(1_000_000_000));
        capacity[Dimension::Memory] = thousandths(self.memory_bytes_per_second);
        capacity[Dimension::Io] = thousandths(io);
        Pod::new(capacity, self.table(EngineKind::Lsm).resources(&reference_read()))
    }

    /// The prices of requests.
    pub fn prices(&self, limits: &Limits) -> UnitPrices {
        let pod = self.pod(limits);
        let of = |engine| Arc::new(Prices::new(self.table(engine), pod));
        UnitPrices { lsm: of(EngineKind::Lsm), memory: of(EngineKind::Memory) }
    }
}

impl Measurement {
    /// What the node gate may hand out. If reads and writes hardly disturb each other, each gets a budget of its own:
    /// what the device did for it alone. Otherwise they share the least that the device did under any mix.
    ///
    /// # Errors
    /// A mix is missing, or the device did nothing.
    pub fn limits(&self) -> std::result::Result<Limits, String> {
        let mix = |percent| self.mixes.iter().find(|mix| mix.read_percent == percent);
        let (Some(reading), Some(half), Some(writing)) = (mix(100), mix(50), mix(0)) else {
            return Err("it lacks the mixes 100:0, 50:50 and 0:100".to_owned());
        };
        let alone = reading.large.reads.min(writing.large.writes);
        let together = half.large.reads.min(half.large.writes);
        let limits = if alone > 0 && together >= percent_of(INDEPENDENT_PERCENT, alone) {
            Limits::Split {
                read: handed_out(reading.large.bytes(), reading.small.reads),
                write: handed_out(writing.large.bytes(), writing.small.writes),
            }
        } else {
            let least = |of: fn(&Mix) -> u64| self.mixes.iter().map(of).min().unwrap_or(0);
            Limits::Shared(handed_out(least(|mix| mix.large.bytes()), least(|mix| mix.small.reads + mix.small.writes)))
        };
        let fine = |rates: Rates| rates.bytes >= 4096 && rates.ops >= 1;
        let all_fine = match limits {
            Limits::Shared(rates) => fine(rates),
            Limits::Split { read, write } => fine(read) && fine(write),
        };
        if all_fine { Ok(limits) } else { Err("it says that the device does next to nothing".to_owned()) }
    }

    /// What the device gives by the mix, a little less than it did: for policies that go by what it can keep up, where
    /// there is no gate (CR-5). `None` if a mix was not measured.
    pub fn map(&self) -> Option<DeviceMap> {
        let mut mixes = [Rates::UNLIMITED; DeviceMap::MIXES];
        for (percent, rates) in (0..=100_u64).step_by(100 / (DeviceMap::MIXES - 1)).zip(&mut mixes) {
            let mix = self.mixes.iter().find(|mix| mix.read_percent == percent)?;
            *rates = handed_out(mix.large.bytes(), mix.small.reads + mix.small.writes);
        }
        Some(DeviceMap::new(mixes))
    }
}

/// What is handed out of a device that gives `bytes` and `ops` per second.
fn handed_out(bytes: u64, ops: u64) -> Rates {
    Rates { bytes: percent_of(HANDED_OUT_PERCENT, bytes), ops: percent_of(HANDED_OUT_PERCENT, ops) }
}

fn percent_of(percent: u64, full: u64) -> u64 {
    u64::try_from(u128::from(full) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

impl Loop {
    /// Bytes per second, reads and writes together.
    pub fn bytes(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_mul(self.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(at_half: u64) -> Measurement {
        let mix = |read_percent, reads, writes| Mix {
            read_percent,
            large: Loop { block_bytes: 1000, depth: 8, reads, writes },
            small: Loop { block_bytes: 100, depth: 32, reads: 10 * reads, writes: 10 * writes },
        };
        Measurement {
            measured_unix_ms: 1,
            seconds: 2,
            file_bytes: 3,
            direct: true,
            mixes: vec![mix(100, 2000, 0), mix(50, at_half, at_half), mix(0, 0, 1000)],
        }
    }

    #[test]
    fn independent_directions_get_a_budget_each_and_others_the_least_that_was_seen() {
        let split =
            Limits::Split { read: Rates { bytes: 1_900_000, ops: 19_000 }, write: Rates { bytes: 950_000, ops: 9500 } };
        assert_eq!(device(950).limits(), Ok(split));
        assert_eq!(device(450).limits(), Ok(Limits::Shared(Rates { bytes: 855_000, ops: 8550 })));
        assert!(device(0).limits().is_err());
        let mut lacking = device(950);
        lacking.mixes.truncate(1);
        assert!(lacking.limits().is_err());
    }

    #[test]
    fn the_map_has_every_mix_in_its_place() {
        let mut measured = device(450);
        assert_eq!(measured.map(), None, "two mixes lack");
        let between = |read_percent, operations| Mix {
            read_percent,
            large: Loop { reads: operations, ..measured.mixes[0].large.clone() },
            small: Loop { reads: 10 * operations, ..measured.mixes[0].small.clone() },
        };
        let more = [between(75, 1200), between(25, 700)];
        measured.mixes.extend(more);
        let rates = |operations: u64| Rates { bytes: operations * 950, ops: operations * 19 / 2 };
        assert_eq!(measured.map(), Some(DeviceMap::new([1000, 700, 900, 1200, 2000].map(rates))));
    }

    fn calibration(with_units: bool) -> Calibration {
        let (lsm, memory) = (default_table(false), default_table(true));
        let units = with_units.then(|| RequestUnits::new(7, 2, 9_000_000_000, [&lsm, &memory]));
        Calibration { measurement: device(900), request_units: units, has_outdated_units: false }
    }

    #[test]
    fn request_units_are_those_of_the_file() {
        let mut units = calibration(true).request_units.expect("there");
        units.lsm.insert("command".to_owned(), [123, 0, 0, 0]);
        let table = units.table(EngineKind::Lsm);
        assert_eq!(table[Module::Command], Resources::new([123, 0, 0, 0]));
        assert_eq!(table[Module::Round], default_table(false)[Module::Round]);
        let pod = units.pod(&Limits::bytes(100_000_000));
        assert_eq!(pod.capacity()[Dimension::Io], 100_000_000_000);
        assert_eq!(pod.capacity()[Dimension::Cpu], 2_000_000_000_000);
    }

    #[test]
    fn a_file_with_other_modules_than_these_is_an_error() {
        let changed = |change: fn(&mut RequestUnits)| {
            let mut units = calibration(true).request_units.expect("there");
            change(&mut units);
            decode(&encode(&Calibration { request_units: Some(units), ..calibration(false) }).expect("numbers"))
        };
        assert!(changed(|_| {}).is_ok());
        let more = changed(|units| {
            units.memory.insert("nosuch".to_owned(), [1; 4]);
        });
        assert!(more.is_err_and(|error| error.contains("nosuch") && error.contains("calibrate again")));
        let less = changed(|units| {
            units.lsm.remove("row_command");
        });
        assert!(less.is_err_and(|error| error.contains("row_command") && error.contains("calibrate again")));
    }

    /// Files as the versions before `row_command`, and before `member`, wrote them: device and request units.
    const EARLIER: [&str; 2] = [
        include_str!("../../tests/fixtures/calibration-2.json"),
        include_str!("../../tests/fixtures/calibration-3.json"),
    ];

    #[test]
    fn an_earlier_version_tells_of_the_device_and_not_of_requests() {
        for earlier in EARLIER {
            let found = decode(earlier.as_bytes()).expect("it is read");
            assert!(found.has_outdated_units && found.request_units.is_none());
            assert!(found.measurement.limits().is_ok());
            // Such a file is read as carefully as others.
            let damaged = earlier.replace("\"cores\": 2", "\"cores\": 3");
            assert_ne!(damaged, earlier);
            assert!(decode(damaged.as_bytes()).is_err_and(|error| error.contains("checksum")));
            // The file that replaces it is of this version again.
            let again = encode(&found).expect("numbers");
            assert_eq!(decode(&again), Ok(Calibration { has_outdated_units: false, ..found }));
        }
    }

    #[test]
    fn a_version_says_what_is_in_the_file() {
        let [device, units] = [false, true]
            .map(|with_units| String::from_utf8(encode(&calibration(with_units)).expect("numbers")).expect("text"));
        for (file, from, to) in [(&device, 1, 2), (&device, 1, 4), (&device, 1, 5), (&units, 4, 1), (&units, 4, 5)] {
            let other = file.replace(&format!("\"version\": {from}"), &format!("\"version\": {to}"));
            assert_ne!(&other, file);
            assert!(decode(other.as_bytes()).is_err_and(|error| error.contains("not known")), "{from} as {to}");
        }
        // These versions differ only in what their modules mean.
        let files = [(&units[..], 4, 2), (&units, 4, 3), (EARLIER[0], 2, 4), (EARLIER[1], 3, 4)];
        for (file, from, to) in files {
            let file = file.replace(&format!("\"version\": {from}"), &format!("\"version\": {to}"));
            assert!(decode(file.as_bytes()).is_err_and(|error| error.contains("checksum")));
        }
    }

    #[test]
    fn a_file_says_what_was_measured_or_that_it_was_changed() {
        [false, true].into_iter().for_each(a_file_says_what_was_measured);
    }

    fn a_file_says_what_was_measured(with_units: bool) {
        let calibration = calibration(with_units);
        let bytes = encode(&calibration).expect("numbers");
        assert!(bytes.len() as u64 <= LEN_MAX, "{}", bytes.len());
        assert_eq!(decode(&bytes), Ok(calibration));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            // Blanks between the fields mean nothing; everything else is noticed.
            if !bytes[at].is_ascii_whitespace() {
                assert!(decode(&changed).is_err(), "a flip at {at} was not noticed");
            }
            // The last byte is the end of the line.
            assert!(at + 1 == bytes.len() || decode(&bytes[..at]).is_err());
        }
    }
}
