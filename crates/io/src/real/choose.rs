//! Worker threads or io_uring: the policy, and the short measurement that decides.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blocking::block_on;
use super::device::Device;
use super::open::open;
use super::options::Backend;
use super::threads::Lane;
use super::transfer::{Transfer, Verb};
use crate::{AlignedBuf, Error, OpenOptions, PAGE, Result, Rng};

/// Which backend drives the disk, and why. For the log of the process that opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Never [`Backend::Auto`].
    pub backend: Backend,
    /// The reason, as one clause.
    pub reason: String,
}

/// io_uring needs less CPU per read than worker threads at every depth we measured (see the example `read_latency`),
/// so it may be this much slower in a noisy measurement and is still taken.
const RING_MAY_LOSE: f64 = 0.9;
/// Reads outstanding while measuring.
const DEPTH: usize = 8;
/// Pages of the file to measure on: 1 MiB, which even a slow disk writes in a moment.
const PAGES: u64 = 256;
/// Each backend is measured for this long, this many times, and the two alternate: whatever else the machine does
/// affects both.
const TURN: Duration = Duration::from_millis(10);
const TURNS: usize = 3;

/// How the names of the files to measure on begin; the id of the process follows.
const PROBE: &str = ".weir-probe-";

/// Chooses the backend by reads per second.
pub(super) fn choice(threads_per_sec: f64, ring_per_sec: f64) -> Choice {
    let backend = if ring_per_sec >= RING_MAY_LOSE * threads_per_sec { Backend::Uring } else { Backend::Threads };
    let reason = format!(
        "measured {ring_per_sec:.0} reads/s with io_uring and {threads_per_sec:.0} with worker threads, {DEPTH} reads \
         at a time"
    );
    Choice { backend, reason }
}

/// Measures both backends on a file in `dir`, which it creates and removes. Takes some 60 ms.
pub(super) fn measure(dir: &Path, threads: &Device, ring: &Device) -> Result<Choice> {
    remove_leftovers(dir);
    let path = dir.join(format!("{PROBE}{}", std::process::id()));
    let measured = measure_on(&path, threads, ring);
    match std::fs::remove_file(&path) {
        Err(error) if measured.is_ok() && error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::from_std("remove", &path, &error))
        }
        // An earlier error says more, or another process took the file for a leftover, which harms no measurement.
        _ => measured,
    }
}

/// Removes the files of processes that were killed while they measured, also of one that had our id. A process that
/// measures at this moment goes on with its open file.
fn remove_leftovers(dir: &Path) {
    // If the directory cannot be read, the measurement fails and says so.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PROBE.as_bytes()) {
            // A leftover that stays costs 1 MiB, and the next start tries again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn measure_on(path: &Path, threads: &Device, ring: &Device) -> Result<Choice> {
    let handle = open(path, OpenOptions::create_new()).map_err(|error| Error::from_std("open", path, &error.into()))?;
    let handle = Arc::new(handle);
    let page =
        |verb, number: u64| Transfer::new(Arc::clone(&handle), verb, number * PAGE as u64, AlignedBuf::with_len(PAGE));
    let content = AlignedBuf::with_len(PAGES as usize * PAGE);
    Transfer::new(Arc::clone(&handle), Verb::Write, 0, content).run()?;
    let mut rng = Rng::new(1);
    let mut done = [0_u64; 2];
    for _ in 0..TURNS {
        for (device, done) in [threads, ring].into_iter().zip(&mut done) {
            let end = Instant::now() + TURN;
            let mut read = || device.submit(Lane::Foreground, page(Verb::Read, rng.below(PAGES)));
            let mut outstanding: VecDeque<_> = (0..DEPTH).map(|_| read()).collect();
            while let Some(next) = outstanding.pop_front() {
                block_on(next)?;
                if Instant::now() < end {
                    *done += 1;
                    outstanding.push_back(read());
                }
            }
        }
    }
    let per_sec = |done| done as f64 / (TURN * TURNS as u32).as_secs_f64();
    Ok(choice(per_sec(done[0]), per_sec(done[1])))
}
