//! The cost of a 4 KiB random direct read, by who makes it and how many are outstanding: the numbers behind the choice
//! of backend. CPU time is that of the whole process, kernel included.
//!
//!     cargo run --release -p weir-io --example read_latency -- [DIR] [SECONDS] [MIB]
#![allow(clippy::disallowed_methods, reason = "it measures the machine")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::time::{ClockId, clock_gettime};
use weir_io::real::{Backend, RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{AlignedBuf, Class, File, Fs, OpenOptions, Owner, PAGE, Rng, Tag};

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Read);
const DEPTHS: [usize; 5] = [1, 2, 8, 16, 32];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| ".".into());
    let seconds: f64 = arguments.next().map_or(1.0, |text| text.parse().expect("SECONDS is a number"));
    let mib: u64 = arguments.next().map_or(1024, |text| text.parse().expect("MIB is a number"));
    let path = Path::new(&dir).join("read_latency.tmp");
    let pages = mib * 256;
    prepare(&path, mib);
    println!("{mib} MiB in {}, {seconds} s each", path.display());
    println!("{:<22} {:>5} {:>10} {:>12} {:>12}", "who", "depth", "IOPS", "CPU us/IO", "latency us");
    let time = Duration::from_secs_f64(seconds);
    for depth in DEPTHS {
        for (name, backend, inline) in [
            ("pread inline", Backend::Threads, true),
            ("worker threads", Backend::Threads, false),
            ("io_uring", Backend::Uring, false),
        ] {
            let fs = RealFs::new(RealFsOptions { backend, ..RealFsOptions::default() });
            let file = block_on(fs.open(&path, OpenOptions::read(), TAG)).expect("the file was just written");
            let cpu = cpu_seconds();
            let start = Instant::now();
            let done = if inline { inline_reads(&file, pages, depth, time) } else { reads(&file, pages, depth, time) };
            let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
            let (iops, cost) = (done as f64 / elapsed, cpu * 1e6 / done as f64);
            println!("{name:<22} {depth:>5} {iops:>10.0} {cost:>12.2} {:>12.1}", depth as f64 / iops * 1e6);
        }
    }
    println!("{:<22} {:>5} {:>10} {:>12} {:>12}", "writes, worker threads", "depth", "IOPS", "CPU us/IO", "latency us");
    for (name, len, dsync) in [("4 KiB synced", PAGE, true), ("256 KiB appended", 256 << 10, false)] {
        for depth in [1, 4] {
            let fs = RealFs::new(RealFsOptions { backend: Backend::Threads, ..RealFsOptions::default() });
            let path = if dsync { path.clone() } else { path.with_extension("append") };
            let options = OpenOptions { write: true, dsync, create_new: !dsync, ..OpenOptions::read() };
            let file = block_on(fs.open(&path, options, TAG)).expect("DIR can be written");
            let cpu = cpu_seconds();
            let start = Instant::now();
            let done = writes(&file, len, depth, time);
            let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
            let (iops, cost) = (done as f64 / elapsed, cpu * 1e6 / done as f64);
            println!("{name:<22} {depth:>5} {iops:>10.0} {cost:>12.2} {:>12.1}", depth as f64 / iops * 1e6);
            if !dsync {
                std::fs::remove_file(&path).expect("our own file");
            }
        }
    }
    std::fs::remove_file(&path).expect("our own file");
}

fn prepare(path: &Path, mib: u64) {
    let _ = std::fs::remove_file(path);
    let fs = RealFs::new(RealFsOptions { backend: Backend::Threads, ..RealFsOptions::default() });
    let file = block_on(fs.open(path, OpenOptions::create_new(), TAG)).expect("DIR can be written");
    if !file.is_direct() {
        println!("O_DIRECT is refused here: these numbers are the page cache's");
    }
    let mut rng = Rng::new(1);
    for chunk in 0..mib {
        let mut buf = AlignedBuf::with_len(1 << 20);
        for word in buf.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        block_on(file.write_at(chunk << 20, buf, TAG)).expect("there is space");
    }
    block_on(file.sync(TAG)).expect("the device works");
}

fn offset(rng: &mut Rng, pages: u64) -> u64 {
    rng.below(pages) * PAGE as u64
}

/// One thread per outstanding read.
fn inline_reads(file: &Arc<dyn File>, pages: u64, depth: usize, time: Duration) -> u64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..depth {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                let _scope = blocking_scope();
                let mut rng = Rng::new(seed as u64);
                let mut buf = AlignedBuf::with_len(PAGE);
                let mut mine = 0;
                while !stop.load(Ordering::Relaxed) {
                    buf = block_on(file.read_at(offset(&mut rng, pages), buf, TAG)).expect("the device works");
                    mine += 1;
                }
                done.fetch_add(mine, Ordering::Relaxed);
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    done.into_inner()
}

/// One thread that keeps `depth` reads outstanding.
fn reads(file: &Arc<dyn File>, pages: u64, depth: usize, time: Duration) -> u64 {
    let mut rng = Rng::new(7);
    let mut outstanding: FuturesUnordered<_> =
        (0..depth).map(|_| file.read_at(offset(&mut rng, pages), AlignedBuf::with_len(PAGE), TAG)).collect();
    let end = Instant::now() + time;
    let mut done = 0;
    block_on(async {
        while let Some(result) = outstanding.next().await {
            let buf = result.expect("the device works");
            done += 1;
            if Instant::now() < end {
                outstanding.push(file.read_at(offset(&mut rng, pages), buf, TAG));
            }
        }
    });
    done
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One thread that keeps `depth` writes outstanding, one after the other in the file, at most 1 GiB of them.
fn writes(file: &Arc<dyn File>, len: usize, depth: usize, time: Duration) -> u64 {
    let mut next = (0..(1_u64 << 30) / len as u64).map(|number| number * len as u64);
    let first: Vec<u64> = next.by_ref().take(depth).collect();
    let mut outstanding: FuturesUnordered<_> =
        first.into_iter().map(|at| file.write_at(at, AlignedBuf::with_len(len), TAG)).collect();
    let end = Instant::now() + time;
    let mut done = 0;
    block_on(async {
        while let Some(result) = outstanding.next().await {
            let buf = result.expect("the device works");
            done += 1;
            if Instant::now() < end
                && let Some(at) = next.next()
            {
                outstanding.push(file.write_at(at, buf, TAG));
            }
        }
    });
    done
}
