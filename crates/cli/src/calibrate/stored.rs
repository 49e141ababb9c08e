//! What was measured, as it lies beside the data, and what follows from it for the node gate.
//! `docs/format/calibration.md` describes the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_admission::{Limits, Rates};
use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, OpenOptions, Owner, Result, Tag};

/// The only version there is.
const VERSION: u32 = 1;
/// A file longer than this was not written by us, in bytes.
const LEN_MAX: u64 = 64 << 10;
/// How much of what the device can do the gate hands out, in percent: a little less, so that the queue is ours, where
/// it has an order, and not the device's.
const HANDED_OUT_PERCENT: u64 = 95;
/// Reads and writes count as independent if half and half each still get this much, in percent, of what the slower gets
/// alone.
const INDEPENDENT_PERCENT: u64 = 90;
const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

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
    /// One for each share of reads.
    pub mixes: Vec<Mix>,
}

/// What a device did under one mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Reads per hundred operations.
    pub read_percent: u64,
    /// In large blocks: the bandwidth.
    pub large: Loop,
    /// In pages: operations per second.
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
    /// Of the measurement as compact JSON, eight hexadecimal digits.
    crc32c: String,
    measurement: Measurement,
}

/// Where the calibration of the data directory `dir` is.
pub fn path(dir: &Path) -> PathBuf {
    dir.join("calibration.json")
}

/// The file's bytes.
pub fn encode(measurement: &Measurement) -> serde_json::Result<Vec<u8>> {
    let crc32c = checksum(measurement)?;
    let envelope =
        Envelope { format: "weir calibration".to_owned(), version: VERSION, crc32c, measurement: measurement.clone() };
    let mut bytes = serde_json::to_vec_pretty(&envelope)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The measurement in a file's bytes, or what is wrong with them.
pub fn decode(bytes: &[u8]) -> std::result::Result<Measurement, String> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| format!("no calibration: {error}"))?;
    if (envelope.format.as_str(), envelope.version) != ("weir calibration", VERSION) {
        return Err(format!("format `{} {}` is not known here", envelope.format, envelope.version));
    }
    let found = checksum(&envelope.measurement).map_err(|error| error.to_string())?;
    if found != envelope.crc32c {
        return Err("its checksum is wrong: it was changed after it was measured".to_owned());
    }
    Ok(envelope.measurement)
}

fn checksum(measurement: &Measurement) -> serde_json::Result<String> {
    Ok(format!("{:08x}", crc32c::crc32c(&serde_json::to_vec(measurement)?)))
}

/// Stores `measurement` beside the data of `dir`, durably, in the place of an earlier one.
pub async fn store(fs: &Arc<dyn Fs>, dir: &Path, measurement: &Measurement) -> Result<()> {
    let path = path(dir);
    let bytes =
        encode(measurement).map_err(|error| Error::new(ErrorKind::Invalid, "write", &path, error.to_string()))?;
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

/// The measurement beside the data of `dir`.
///
/// # Errors
/// `NotFound` if there is none, `Invalid` if it cannot be understood.
pub async fn load(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Measurement> {
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

impl Measurement {
    /// What the node gate may hand out. Reads and writes that hardly disturb each other get a budget each, what they
    /// did alone; others share the least that the device did under any mix.
    ///
    /// # Errors
    /// A mix is missing, or the device did nothing.
    pub fn limits(&self) -> std::result::Result<Limits, String> {
        let mix = |percent| self.mixes.iter().find(|mix| mix.read_percent == percent);
        let (Some(reading), Some(half), Some(writing)) = (mix(100), mix(50), mix(0)) else {
            return Err("it lacks the mixes 100:0, 50:50 and 0:100".to_owned());
        };
        let rates = |bytes: u64, ops: u64| Rates {
            bytes: percent_of(HANDED_OUT_PERCENT, bytes),
            ops: percent_of(HANDED_OUT_PERCENT, ops),
        };
        let alone = reading.large.reads.min(writing.large.writes);
        let together = half.large.reads.min(half.large.writes);
        let limits = if alone > 0 && together >= percent_of(INDEPENDENT_PERCENT, alone) {
            Limits::Split {
                read: rates(reading.large.bytes(), reading.small.reads),
                write: rates(writing.large.bytes(), writing.small.writes),
            }
        } else {
            let least = |of: fn(&Mix) -> u64| self.mixes.iter().map(of).min().unwrap_or(0);
            Limits::Shared(rates(least(|mix| mix.large.bytes()), least(|mix| mix.small.reads + mix.small.writes)))
        };
        let fine = |rates: Rates| rates.bytes >= 4096 && rates.ops >= 1;
        let all_fine = match limits {
            Limits::Shared(rates) => fine(rates),
            Limits::Split { read, write } => fine(read) && fine(write),
        };
        if all_fine { Ok(limits) } else { Err("it says that the device does next to nothing".to_owned()) }
    }
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
    fn a_file_says_what_was_measured_or_that_it_was_changed() {
        let bytes = encode(&device(900)).expect("numbers");
        assert_eq!(decode(&bytes), Ok(device(900)));
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
