//! Speed of the parts below the tree, one thread unless said, in a scratch directory given as the first argument:
//!
//! ```text
//! cargo run --release -p weir-lsm --example lower -- DIRECTORY [PART…]
//! ```
//!
//! Times are CPU times, which neighbours on the machine disturb less, except where a disk is in play.
//!
//! Parts: memtable, cache, write, read, scan. Without a part: all.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures real time")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Class, Fs, Owner, Rng, Tag};
use weir_lsm::cache::BlockCache;
use weir_lsm::cursor::{Cursor, Step};
use weir_lsm::memtable::Memtable;
use weir_lsm::table::{Caching, Compression, CursorOptions, Table, TableGet, TableOptions, TableWriter, filter};
use weir_model::engine::{Entry, Kind, SEQ_MAX};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TAG: Tag = Tag::new(Owner { tenant: 0, partition: 0 }, Class::Maintenance);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("which directory? see the top of this file")?);
    let parts: Vec<String> = arguments.collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|other| other == part);
    let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
    let _blocking = blocking_scope();
    if wanted("memtable") {
        memtable();
    }
    if wanted("cache") {
        cache(&fs, &dir)?;
    }
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        if wanted("write") {
            for value_bytes in [1000, 100] {
                write(&fs, &dir, compression, value_bytes)?;
            }
        }
    }
    for value_bytes in [1000, 100] {
        if wanted("read") {
            read(&fs, &dir, value_bytes)?;
        }
        if wanted("scan") {
            scan(&fs, &dir, value_bytes)?;
        }
    }
    Ok(())
}

/// CPU time of this thread.
struct Cpu(Timespec);

impl Cpu {
    fn now() -> Self {
        Cpu(clock_gettime(ClockId::ThreadCPUTime))
    }

    fn seconds(&self) -> f64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        (now.tv_sec - self.0.tv_sec) as f64 + (now.tv_nsec - self.0.tv_nsec) as f64 / 1e9
    }
}

fn report(name: &str, count: u64, start: &Cpu) {
    let seconds = start.seconds();
    println!("{name:<44} {:>8.2} M/s {:>7.0} ns", count as f64 / seconds / 1e6, seconds * 1e9 / count as f64);
}

/// Sixteen bytes: eight that differ, eight that do not, like db_bench's.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Half of it compresses.
fn value(bytes: usize, rng: &mut Rng) -> Vec<u8> {
    let mut value = vec![0; bytes];
    value[..bytes / 2].fill_with(|| rng.next_u64() as u8);
    value
}

fn memtable() {
    const ENTRIES: u64 = 400_000;
    for (order, value_bytes) in [("random", 100), ("sequential", 100), ("random", 1000)] {
        let mut rng = Rng::new(1);
        let mut numbers: Vec<u64> = (0..ENTRIES).collect();
        if order == "random" {
            for last in (1..numbers.len()).rev() {
                numbers.swap(last, rng.below(last as u64 + 1) as usize);
            }
        }
        let value = value(value_bytes, &mut rng);
        yardstick(&numbers, &value, order);
        let memtable = Memtable::new();
        let start = Cpu::now();
        for (seq, &number) in numbers.iter().enumerate() {
            let seq = seq as u64 + 1;
            memtable.insert(Entry { key: &key(number), seq, kind: Kind::Put, expire_at_ms: 0, value: &value });
        }
        report(&format!("memtable insert {order} {value_bytes} B"), ENTRIES, &start);
        let start = Cpu::now();
        for _ in 0..ENTRIES {
            let found = memtable.get(&key(rng.below(ENTRIES)), SEQ_MAX);
            assert!(black_box(found).is_some());
        }
        report(&format!("memtable get random of {order} {value_bytes} B"), ENTRIES, &start);
        let start = Cpu::now();
        let mut cursor = memtable.cursor();
        assert_eq!(cursor.seek_first(), Step::Ready);
        let mut count = 0;
        while let Some(entry) = cursor.entry() {
            count += u64::from(!black_box(entry).value.is_empty());
            assert_eq!(cursor.next(), Step::Ready);
        }
        report(&format!("memtable scan of {order} {value_bytes} B"), count, &start);
        let start = Cpu::now();
        drop((cursor, memtable));
        println!("{:<44} {:>8.2} ms", "memtable drop", start.seconds() * 1e3);
    }
}

/// The same with a locked B-tree.
fn yardstick(numbers: &[u64], value: &[u8], order: &str) {
    let tree = parking_lot::RwLock::new(BTreeMap::new());
    let entries = numbers.len() as u64;
    let start = Cpu::now();
    for &number in numbers {
        tree.write().insert(key(number).to_vec(), value.to_vec());
    }
    report(&format!("(B-tree insert {order} {} B", value.len()), entries, &start);
    let mut rng = Rng::new(1);
    let start = Cpu::now();
    for _ in 0..entries {
        assert!(black_box(tree.read().get(key(rng.below(entries)).as_slice())).is_some());
    }
    report(&format!("(B-tree get random of {order} {} B", value.len()), entries, &start);
}

/// A skewed load on the cache alone: the smaller of two draws, squared, over 200,000 blocks with room for 20,000.
fn cache(fs: &Arc<dyn Fs>, dir: &Path) -> weir_io::Result<()> {
    const BLOCKS: u64 = 200_000;
    const LOOKUPS: u64 = 5_000_000;
    let (table, _) = open(fs, dir, 100, 1 << 20, &BlockCache::new(1 << 20, 1))?;
    let block = block_on(table.load(table.block(0), Class::Maintenance, false))?;
    for threads in [1, 2] {
        let cache = BlockCache::new(20_000 * block.bytes(), 16);
        let work = |thread: u64| {
            let door = cache.table(Owner { tenant: 1, partition: thread as u32 });
            let mut rng = Rng::new(thread);
            let start = Cpu::now();
            for _ in 0..LOOKUPS {
                let draw = rng.unit() * rng.unit();
                let offset = (draw * draw * draw * BLOCKS as f64) as u64 * 4096;
                if door.get(offset).is_none() {
                    door.insert(offset, &block, false);
                }
            }
            report(&format!("cache, thread {} of {threads}", thread + 1), LOOKUPS, &start);
        };
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        let usage = cache.usage();
        println!("{:<44} {:>8.1} %", "hits", 100.0 * usage.hits as f64 / (usage.hits + usage.misses) as f64);
    }
    Ok(())
}

fn write(fs: &Arc<dyn Fs>, dir: &Path, compression: Compression, value_bytes: usize) -> weir_io::Result<()> {
    let entries = (256 << 20) / (value_bytes as u64 + 16);
    let path = dir.join("lower.write");
    let _ = block_on(fs.remove(&path, TAG));
    let start = Instant::now();
    let (adding, summary) =
        fill(fs, &path, TableOptions { compression, ..TableOptions::default() }, entries, value_bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "write {compression:?} {value_bytes} B: {:.0} MB/s, {:.0} MB/s of CPU alone; {:.3} x raw",
        summary.raw_bytes as f64 / seconds / 1e6,
        summary.raw_bytes as f64 / adding / 1e6,
        summary.bytes as f64 / summary.raw_bytes as f64,
    );
    block_on(fs.remove(&path, TAG))
}

/// Writes a table of `entries`; also returns how many seconds the adding alone took.
fn fill(
    fs: &Arc<dyn Fs>,
    path: &Path,
    options: TableOptions,
    entries: u64,
    value_bytes: usize,
) -> weir_io::Result<(f64, weir_lsm::table::TableSummary)> {
    let mut rng = Rng::new(2);
    let values: Vec<Vec<u8>> = (0..64).map(|_| value(value_bytes, &mut rng)).collect();
    block_on(async {
        let mut writer = TableWriter::create(fs, path, options, TAG).await?;
        let mut adding = 0.0;
        let mut number = 0;
        while number < entries {
            let start = Cpu::now();
            while number < entries && writer.pending_bytes() == 0 {
                let value = &values[number as usize % 64];
                // Sequence numbers as a random fill leaves them.
                let seq = 1 + rng.below(entries);
                let key = key(number);
                writer.add(Entry { key: &key, seq, kind: Kind::Put, expire_at_ms: 0, value }).expect("keys ascend");
                number += 1;
            }
            adding += start.seconds();
            writer.drain().await?;
        }
        Ok((adding, writer.finish().await?))
    })
}

fn open(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    value_bytes: usize,
    total_bytes: u64,
    cache: &Arc<BlockCache>,
) -> weir_io::Result<(Arc<Table>, u64)> {
    let path = dir.join("lower.read");
    let _ = block_on(fs.remove(&path, TAG));
    let entries = total_bytes / (value_bytes as u64 + 16);
    fill(fs, &path, TableOptions::default(), entries, value_bytes)?;
    let start = Instant::now();
    let table = block_on(Table::open(fs, &path, Owner::default(), cache, TAG))?;
    println!(
        "{:<44} {:>8.2} ms",
        format!("open {} MB, {value_bytes} B", total_bytes >> 20),
        start.elapsed().as_secs_f64() * 1e3
    );
    Ok((table, entries))
}

fn read(fs: &Arc<dyn Fs>, dir: &Path, value_bytes: usize) -> weir_io::Result<()> {
    for megabytes in [16, 64, 200] {
        let cache = BlockCache::new(512 << 20, 16);
        let (table, entries) = open(fs, dir, value_bytes, megabytes << 20, &cache)?;
        for number in 0..table.blocks() {
            block_on(table.load(table.block(number), Class::Maintenance, false))?;
        }
        let gets = 2_000_000;
        let mut rng = Rng::new(3);
        let start = Cpu::now();
        for _ in 0..gets {
            let key = key(rng.below(entries));
            let answer = table.get(&key, filter::hash(&key), SEQ_MAX)?;
            assert!(matches!(black_box(answer), TableGet::Found(_)));
        }
        report(&format!("get cached {value_bytes} B of {megabytes} MB"), gets, &start);
        let start = Cpu::now();
        for _ in 0..gets {
            let key = key(entries + rng.below(entries));
            black_box(table.get(&key, filter::hash(&key), SEQ_MAX)?);
        }
        report(&format!("get absent {value_bytes} B of {megabytes} MB"), gets, &start);
    }
    Ok(())
}

fn scan(fs: &Arc<dyn Fs>, dir: &Path, value_bytes: usize) -> weir_io::Result<()> {
    let cache = BlockCache::new(512 << 20, 16);
    let (table, _) = open(fs, dir, value_bytes, 200 << 20, &cache)?;
    let client = CursorOptions { class: Class::Read, readahead_bytes: 256 << 10, caching: Caching::Fill };
    let compaction = CursorOptions { class: Class::CompactDeep, readahead_bytes: 1 << 20, caching: Caching::Leave };
    for (name, options, reverse) in [
        ("compaction, disk", compaction, false),
        ("client, disk", client, false),
        ("client, cached", client, false),
        ("client, cached, backwards", client, true),
    ] {
        let start = Cpu::now();
        let mut cursor = table.cursor(options);
        let mut step = if reverse { cursor.seek_last() } else { cursor.seek_first() };
        let mut count = 0;
        loop {
            while step == Step::Load {
                step = block_on(cursor.load())?;
            }
            let Some(entry) = cursor.entry() else { break };
            count += u64::from(!black_box(entry).value.is_empty());
            step = if reverse { cursor.prev() } else { cursor.next() };
        }
        report(&format!("scan {name} {value_bytes} B"), count, &start);
        let seconds = start.seconds();
        println!("{:<44} {:>8.0} MB/s", "", count as f64 * value_bytes as f64 / seconds / 1e6);
    }
    Ok(())
}
