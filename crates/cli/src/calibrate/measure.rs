//! Measures what a device does under mixes of reads and writes: closed loops on one scratch file, through the door that
//! the server uses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use weir_io::real::block_on;
use weir_io::{AlignedBuf, Class, Clock, ErrorKind, File, Fs, Nanos, OpenOptions, Owner, Result, Rng, Tag};

use super::stored::{Loop, Measurement, Mix};

/// Reads per hundred operations.
pub const MIXES: [u64; 5] = [100, 75, 50, 25, 0];
/// Large operations find the bandwidth: what a compaction reads and writes at once.
const LARGE: Shape = Shape { block_bytes: 256 << 10, depth: 8 };
/// Small operations find the operations per second: a page, as a read of one key.
const SMALL: Shape = Shape { block_bytes: 4 << 10, depth: 32 };
/// Longest scratch file, in bytes: more than most devices cache, and quickly written.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Shortest scratch file, in bytes, however slow the device is: random offsets need room.
const FILE_BYTES_MIN: u64 = 16 << 20;
const SECOND: Nanos = 1_000_000_000;

struct Shape {
    block_bytes: u64,
    /// Operations under way at any moment.
    depth: usize,
}

/// Where and how long to measure.
pub struct Plan {
    /// The scratch file; removed in the end.
    pub scratch: PathBuf,
    /// Nanoseconds for everything: a fifth to write the file, the rest for the loops.
    pub time: Nanos,
    /// The tag for reads: as if a client waited.
    pub read: Tag,
    /// The tag for writes.
    pub write: Tag,
}

impl Plan {
    /// A plan for the file `.weir-calibrate.tmp` in `dir`.
    pub fn new(dir: &Path, seconds: u64) -> Self {
        Self {
            scratch: dir.join(".weir-calibrate.tmp"),
            time: seconds * SECOND,
            // Foreground classes: they have enough worker threads for the depth of the small loops.
            read: Tag::new(Owner::default(), Class::Read),
            write: Tag::new(Owner::default(), Class::Log),
        }
    }
}

/// Measures every mix; `progress` is told what is measured, and how many thousandths are done.
///
/// # Errors
/// Those of the disk.
pub fn measure(
    fs: &Arc<dyn Fs>,
    clock: &Arc<dyn Clock>,
    plan: &Plan,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<Measurement> {
    remove(fs, plan)?;
    let measured = measure_on_scratch(fs, clock, plan, progress);
    let removed = remove(fs, plan);
    let measured = measured?;
    removed.map(|()| measured)
}

/// Removes the scratch file: our own, or one that a killed run left.
fn remove(fs: &Arc<dyn Fs>, plan: &Plan) -> Result<()> {
    match block_on(fs.remove(&plan.scratch, plan.write)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn measure_on_scratch(
    fs: &Arc<dyn Fs>,
    clock: &Arc<dyn Clock>,
    plan: &Plan,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<Measurement> {
    let file = block_on(fs.open(&plan.scratch, OpenOptions::create_new(), plan.write))?;
    let mut rng = Rng::new(0x7765_6972);
    progress("writing the scratch file", 0);
    let file_bytes = fill(&file, clock, plan, &mut rng)?;
    let shapes = [&LARGE, &SMALL];
    let time = plan.time * 4 / 5 / (MIXES.len() * shapes.len()) as u64;
    let mut mixes = Vec::new();
    for (number, read_percent) in MIXES.into_iter().enumerate() {
        let mut loops = shapes.iter().enumerate().map(|(index, shape)| {
            let done = (number * shapes.len() + index) as u64;
            let what = format!("{read_percent}:{} in {} KiB", 100 - read_percent, shape.block_bytes >> 10);
            progress(&what, 200 + 800 * done / (MIXES.len() * shapes.len()) as u64);
            run(&file, clock, plan, &mut rng, &Work { shape, read_percent, file_bytes, time })
        });
        let (Some(large), Some(small)) = (loops.next(), loops.next()) else { unreachable!("two shapes") };
        mixes.push(Mix { read_percent, large: large?, small: small? });
    }
    progress("done", 1000);
    Ok(Measurement {
        measured_unix_ms: clock.unix_ms(),
        seconds: plan.time / SECOND,
        file_bytes,
        direct: file.is_direct(),
        mixes,
    })
}

/// Writes the scratch file front to back, for a fifth of the time at most; gives the file's length.
fn fill(file: &Arc<dyn File>, clock: &Arc<dyn Clock>, plan: &Plan, rng: &mut Rng) -> Result<u64> {
    let content = noise(rng);
    let end = clock.now() + plan.time / 5;
    let mut under_way = FuturesUnordered::new();
    let mut len = 0;
    while len < FILE_BYTES_MAX && (len < FILE_BYTES_MIN || clock.now() < end) {
        if under_way.len() == LARGE.depth
            && let Some(written) = block_on(under_way.next())
        {
            let _: AlignedBuf = written?;
        }
        under_way.push(file.write_at(len, AlignedBuf::copy_of(&content), plan.write));
        len += LARGE.block_bytes;
    }
    while let Some(written) = block_on(under_way.next()) {
        let _: AlignedBuf = written?;
    }
    block_on(file.sync(plan.write))?;
    Ok(len)
}

struct Work<'a> {
    shape: &'a Shape,
    read_percent: u64,
    file_bytes: u64,
    time: Nanos,
}

/// One closed loop: whenever an operation completes, another begins, until the time is over. It counts the operations
/// that completed, including the last ones under way, over the time that they took.
fn run(file: &Arc<dyn File>, clock: &Arc<dyn Clock>, plan: &Plan, rng: &mut Rng, work: &Work<'_>) -> Result<Loop> {
    let block = work.shape.block_bytes;
    let content = noise(rng);
    let mut submit = || {
        let offset = rng.below(work.file_bytes / block) * block;
        let is_read = rng.below(100) < work.read_percent;
        let op = if is_read {
            file.read_at(offset, AlignedBuf::with_len(block as usize), plan.read)
        } else {
            file.write_at(offset, AlignedBuf::copy_of(&content[..block as usize]), plan.write)
        };
        async move { (is_read, op.await) }
    };
    let begin = clock.now();
    let mut under_way: FuturesUnordered<_> = (0..work.shape.depth).map(|_| submit()).collect();
    let (mut reads, mut writes) = (0, 0);
    while let Some((is_read, done)) = block_on(under_way.next()) {
        let _: AlignedBuf = done?;
        *if is_read { &mut reads } else { &mut writes } += 1;
        if clock.now() - begin < work.time {
            under_way.push(submit());
        }
    }
    let nanos = u128::from((clock.now() - begin).max(1));
    let per_second = |ops: u64| u64::try_from(u128::from(ops) * u128::from(SECOND) / nanos).unwrap_or(u64::MAX);
    Ok(Loop {
        block_bytes: block,
        depth: work.shape.depth as u64,
        reads: per_second(reads),
        writes: per_second(writes),
    })
}

/// A block that no device can compress.
fn noise(rng: &mut Rng) -> AlignedBuf {
    let mut noise = AlignedBuf::with_capacity(LARGE.block_bytes as usize);
    while noise.len() < LARGE.block_bytes as usize {
        noise.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    noise
}
