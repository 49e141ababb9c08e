use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use weir_io::sim::{DeviceSpec, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Class, ErrorKind, Fs, Owner, PAGE, Result, Rng, Tag};
use weir_model::engine::{Entry, Found, Kind, SEQ_MAX, Seq};
use weir_model::parts::{cover_key, cover_value};

use super::*;
use crate::cache::BlockCache;
use crate::cursor::{Cursor, Step};

mod readahead;

const OWNER: Owner = Owner { tenant: 1, partition: 2 };
const TAG: Tag = Tag::new(OWNER, Class::Flush);
const PATH: &str = "7.table";

/// What an entry holds besides key and sequence number.
type Rest = (Kind, u64, Vec<u8>);
type EntryKey = (Vec<u8>, Reverse<Seq>);
type Model = BTreeMap<EntryKey, Rest>;

/// A machine with one table on its disk.
struct Bench {
    sim: Sim,
    fs: Arc<SimFs>,
    cache: Arc<BlockCache>,
}

impl Bench {
    fn new() -> Self {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        Bench { sim, fs, cache: BlockCache::new(1 << 20, 4) }
    }

    fn fs(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.fs) as Arc<dyn Fs>
    }

    fn write(&self, options: TableOptions, model: &Model) -> TableSummary {
        self.sim.block_on(async {
            let mut writer = TableWriter::create(&self.fs(), Path::new(PATH), options, TAG).await.expect("a new file");
            for ((key, Reverse(seq)), (kind, expire_at_ms, value)) in model {
                let entry = Entry { key, seq: *seq, kind: *kind, expire_at_ms: *expire_at_ms, value };
                writer.add(entry).expect("a model is sorted");
                if writer.pending_bytes() > 0 {
                    writer.drain().await.expect("the disk is well");
                }
            }
            writer.finish().await.expect("the disk is well")
        })
    }

    fn open(&self) -> Result<Arc<Table>> {
        let fs = self.fs();
        self.sim.block_on(Table::open(&fs, Path::new(PATH), OWNER, &self.cache, TAG))
    }

    fn table(&self, options: TableOptions, model: &Model) -> Arc<Table> {
        let summary = self.write(options, model);
        let table = self.open().expect("a table just written");
        assert_eq!(*table.summary(), summary);
        assert_counted(&summary, model);
        table
    }

    /// A point read; also says whether a block had to be loaded.
    fn get(&self, table: &Arc<Table>, key: &[u8], at: Seq) -> Result<(Option<Found>, bool)> {
        Ok(match table.get(key, filter::hash(key), at)? {
            TableGet::Absent => (None, false),
            TableGet::Found(found) => (Some(found), false),
            TableGet::Load(address) => {
                let block = self.sim.block_on(table.load(address, Class::Read, false))?;
                (table.get_in(&block, address, key, at)?, true)
            }
        })
    }

    fn finish(&self, cursor: &mut TableCursor, step: Step) -> Result<()> {
        let mut step = step;
        while step == Step::Load {
            step = self.sim.block_on(cursor.load())?;
        }
        Ok(())
    }
}

/// Checks that `summary` counts the entries of `model` right, for writing and `weir check` count by the same code.
fn assert_counted(summary: &TableSummary, model: &Model) {
    let bytes = |(key, value): (&[u8], &[u8])| (key.len() + value.len()) as u64;
    let of = |wanted: fn(&Rest) -> bool| {
        let entries = model.iter().filter(move |(_, rest)| wanted(rest));
        entries.map(|((key, _), (.., value))| bytes((key, value))).fold((0, 0), |(all, sum), one| (all + 1, sum + one))
    };
    assert_eq!((summary.entries, summary.raw_bytes), of(|_| true));
    assert_eq!((summary.tombstones, summary.tombstone_bytes), of(|(kind, ..)| *kind == Kind::Delete));
    assert_eq!(summary.expiring, of(|(kind, at_ms, _)| *kind == Kind::Put && *at_ms != 0).0);
    assert_eq!(summary.holds_heads, of(|(kind, ..)| matches!(kind, Kind::Head | Kind::Cover)).0 > 0);
    let seqs = || model.keys().map(|(_, Reverse(seq))| *seq);
    let (least, greatest) = (seqs().min().unwrap_or(0), seqs().max().unwrap_or(0));
    assert_eq!((summary.smallest_seq, summary.largest_seq), (least, greatest));
    let ends = [model.keys().next(), model.keys().next_back()].map(|key| key.map_or(&[][..], |(key, _)| key));
    assert_eq!([&summary.smallest_key[..], &summary.largest_key], ends);
}

fn owned(entry: Option<Entry<'_>>) -> Option<(EntryKey, Rest)> {
    entry.map(|e| ((e.key.to_vec(), Reverse(e.seq)), (e.kind, e.expire_at_ms, e.value.to_vec())))
}

fn cloned(entry: Option<(&EntryKey, &Rest)>) -> Option<(EntryKey, Rest)> {
    entry.map(|(key, rest)| (key.clone(), rest.clone()))
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    // Few letters, so that keys repeat and are prefixes of each other; sometimes long, so that lengths leave their
    // bits.
    prop_oneof![
        4 => proptest::collection::vec(prop_oneof![Just(0_u8), Just(b'a'), Just(b'b'), Just(255)], 0..5),
        2 => "common-prefix/[a-d]{0,4}".prop_map(String::into_bytes),
        1 => (0_u64..4, "[ab]{0,2}").prop_map(|(version, rest)| [&cover_key(version)[..], rest.as_bytes()].concat()),
        1 => (0_usize..200, any::<u8>()).prop_map(|(len, end)| { let mut key = vec![b'k'; len]; key.push(end); key }),
    ]
}

fn models() -> impl Strategy<Value = Model> {
    let value = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => (any::<u8>(), 0_usize..1500).prop_map(|(byte, len)| vec![byte; len]),
        1 => (any::<u8>(), 4000_usize..20_000).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let put = (prop_oneof![Just(0_u64), 1..u64::MAX], value).prop_map(|(at, value)| (Kind::Put, at, value));
    let head = (prop_oneof![Just(0_u64), 1..u64::MAX], proptest::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(at, value)| (Kind::Head, at, value));
    let cover = any::<u64>().prop_map(|bytes| (Kind::Cover, 0, cover_value(bytes)));
    let plain = prop_oneof![4 => put, 1 => Just((Kind::Delete, 0, Vec::new()))];
    let rest = prop_oneof![8 => plain, 1 => head, 1 => cover];
    let seq = prop_oneof![4 => 1_u64..40, 1 => 1..SEQ_MAX];
    proptest::collection::btree_map((keys(), seq.prop_map(Reverse)), rest, 0..250)
}

fn options() -> impl Strategy<Value = TableOptions> {
    let compression = prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)];
    (
        compression,
        prop_oneof![Just(64_usize), Just(300), Just(4096), Just(32 << 10)],
        prop_oneof![Just(0_u32), Just(10)],
    )
        .prop_map(|(compression, block_bytes, filter_bits_per_key)| TableOptions {
            compression,
            block_bytes,
            filter_bits_per_key,
            write_bytes: 2 * PAGE,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_like_a_sorted_map(
        model in models(),
        options in options(),
        probes in proptest::collection::vec((keys(), prop_oneof![0_u64..45, Just(SEQ_MAX)]), 1..30),
        readahead_bytes in prop_oneof![Just(0_usize), Just(2 * PAGE), Just(64 << 10)],
        caching in prop_oneof![Just(Caching::Fill), Just(Caching::Leave), Just(Caching::Pass)],
    ) {
        let bench = Bench::new();
        let table = bench.table(options, &model);
        prop_assert!(bench.sim.block_on(table.verify(Class::Maintenance)).is_ok());
        let cursor_options = CursorOptions { class: Class::Read, readahead_bytes, caching };
        let mut cursor = table.cursor(cursor_options);
        let known: Vec<_> = model.keys().map(|(key, Reverse(seq))| (key.clone(), *seq)).collect();
        for (key, seq) in probes.into_iter().chain(known) {
            let from = (key.clone(), Reverse(seq));
            let expected = model.range(from.clone()..).next().filter(|((found, _), _)| *found == key);
            let (found, _) = bench.get(&table, &key, seq).expect("the disk is well");
            prop_assert_eq!(
                found.map(|f| (Reverse(f.seq), f.kind, f.expire_at_ms, f.value.to_vec())),
                expected.map(|((_, seq), (kind, at, value))| (*seq, *kind, *at, value.clone()))
            );
            let step = cursor.seek(&key, seq);
            bench.finish(&mut cursor, step).expect("the disk is well");
            prop_assert_eq!(owned(cursor.entry()), cloned(model.range(from.clone()..).next()));
            if cursor.entry().is_some() {
                let step = cursor.prev();
                bench.finish(&mut cursor, step).expect("the disk is well");
                prop_assert_eq!(owned(cursor.entry()), cloned(model.range(..from.clone()).next_back()));
            }
            let step = cursor.seek_before(&key, seq);
            bench.finish(&mut cursor, step).expect("the disk is well");
            prop_assert_eq!(owned(cursor.entry()), cloned(model.range(..from.clone()).next_back()));
            if cursor.entry().is_some() {
                let step = cursor.next();
                bench.finish(&mut cursor, step).expect("the disk is well");
                prop_assert_eq!(owned(cursor.entry()), cloned(model.range(from..).next()));
            }
        }
    }

    #[test]
    fn cursors_walk_both_ways(
        model in models(),
        options in options(),
        readahead_bytes in prop_oneof![Just(0_usize), Just(64 << 10)],
        caching in prop_oneof![Just(Caching::Fill), Just(Caching::Leave), Just(Caching::Pass)],
    ) {
        let bench = Bench::new();
        let table = bench.table(options, &model);
        let mut cursor = table.cursor(CursorOptions { class: Class::Read, readahead_bytes, caching });
        prop_assert!(cursor.entry().is_none());
        let step = cursor.seek_first();
        bench.finish(&mut cursor, step).expect("the disk is well");
        for expected in &model {
            prop_assert_eq!(owned(cursor.entry()), cloned(Some(expected)));
            let step = cursor.next();
            bench.finish(&mut cursor, step).expect("the disk is well");
        }
        prop_assert!(cursor.entry().is_none());
        let step = cursor.seek_last();
        bench.finish(&mut cursor, step).expect("the disk is well");
        for expected in model.iter().rev() {
            prop_assert_eq!(owned(cursor.entry()), cloned(Some(expected)));
            let step = cursor.prev();
            bench.finish(&mut cursor, step).expect("the disk is well");
        }
        prop_assert!(cursor.entry().is_none());
    }

    #[test]
    fn arbitrary_bytes_decode_to_an_error_or_to_something(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        key in keys(),
    ) {
        let _ = index::Index::decode(&bytes, 1 << 20, 1 << 16);
        for (holds_heads, holds_parts) in [(false, false), (true, false), (true, true)] {
            let section = format::Section { offset: 0, len: 0, crc: 0 };
            let footer =
                format::Footer { filter: section, index: section, properties: section, holds_heads, holds_parts };
            let _ = TableSummary::decode(&bytes, 4096, &footer);
        }
        let _ = span::Stored::check(&bytes, 0, 0);
        if let Ok(block) = Block::from_vec(bytes) {
            let block = Arc::new(block);
            let _ = block.get(&key, 5);
            let _ = block.restart_before(&key, 5);
        }
    }
}

/// `count` keys of 16 bytes with values of `value_bytes`, as db_bench makes them.
fn plain(count: u64, value_bytes: usize) -> Model {
    let mut rng = Rng::new(3);
    let entry = |number: u64| {
        let mut key = vec![b'0'; 16];
        key[..8].copy_from_slice(&number.to_be_bytes());
        let mut value = vec![0; value_bytes];
        value.fill_with(|| rng.next_u64() as u8);
        ((key, Reverse(number + 1)), (Kind::Put, 0, value))
    };
    (0..count).map(entry).collect()
}

#[test]
fn a_read_of_a_kilobyte_costs_one_page_and_opening_one_read() {
    let bench = Bench::new();
    let model = plain(4000, 1000);
    let table = bench.table(TableOptions::default(), &model);
    assert_eq!(table.blocks(), 1000, "four entries to a block");
    let opened = bench.fs.count(Class::Flush, OpKind::Read);
    assert_eq!(opened.ops, 1, "footer, index and filter came in one read");
    for (key, _) in model.keys().step_by(4) {
        let (found, loaded) = bench.get(&table, key, SEQ_MAX).expect("the disk is well");
        assert!(found.is_some() && loaded);
    }
    let read = bench.fs.count(Class::Read, OpKind::Read);
    assert_eq!((read.ops, read.bytes), (1000, 1000 * PAGE as u64));
    // 4 x 1016 bytes to a page of 4096, plus index, filter and footer.
    let summary = table.summary();
    assert!(summary.bytes as f64 <= 1.015 * summary.raw_bytes as f64, "{summary:?}");
}

#[test]
fn a_block_that_does_not_fill_its_pages_costs_the_sectors_that_it_is_in() {
    const SECTOR: u64 = 512;
    let bench = Bench::new();
    // Three entries to a block, for four would be a little more than a page: most blocks begin in the middle of a page.
    let model = plain(3000, 1024);
    let table = bench.table(TableOptions::default(), &model);
    assert_eq!(table.blocks(), 1000);
    let wanted = |number| {
        let BlockAddress { offset, len, .. } = table.block(number);
        (offset + u64::from(len)).next_multiple_of(SECTOR) - offset / SECTOR * SECTOR
    };
    for (key, _) in model.keys().step_by(3) {
        let (found, loaded) = bench.get(&table, key, SEQ_MAX).expect("the disk is well");
        assert!(found.is_some() && loaded);
    }
    let read = bench.fs.count(Class::Read, OpKind::Read);
    assert_eq!((read.ops, read.bytes), (1000, (0..1000).map(wanted).sum()));
    assert!(read.bytes < 1000 * PAGE as u64, "by the page it would be more than 1,700 pages");
}

#[test]
fn a_table_just_written_is_opened_without_a_read() {
    for count in [1, 80, 4000] {
        let (bench, model) = (Bench::new(), plain(count, 1000));
        let fs = bench.fs();
        let table = bench.sim.block_on(async {
            let mut writer = TableWriter::create(&fs, Path::new(PATH), TableOptions::default(), TAG).await?;
            for ((key, Reverse(seq)), (kind, expire_at_ms, value)) in &model {
                let entry = Entry { key, seq: *seq, kind: *kind, expire_at_ms: *expire_at_ms, value };
                writer.add(entry).expect("a model is sorted");
            }
            let (_, fresh) = writer.finish_warm().await?;
            Table::open_fresh(&fs, Path::new(PATH), OWNER, &bench.cache, fresh, TAG).await
        });
        let table = table.expect("a table just written");
        assert_eq!(bench.fs.count(Class::Flush, OpKind::Read).ops, 0);
        // It is the same table as the one on the disk.
        let opened = bench.open().expect("a table just written");
        assert_eq!((table.summary(), table.blocks()), (opened.summary(), opened.blocks()));
        for ((key, _), (.., value)) in model.iter().step_by(7) {
            for table in [&table, &opened] {
                let (found, _) = bench.get(table, key, SEQ_MAX).expect("the disk is well");
                assert!(found.is_some_and(|found| found.value[..] == value[..]));
            }
        }
    }
}

#[test]
fn small_entries_lose_less_than_two_percent_to_page_boundaries() {
    let bench = Bench::new();
    let model = plain(20_000, 100);
    let table = bench.table(TableOptions::default(), &model);
    let in_one_page = |block: &BlockAddress| block.offset / PAGE as u64 == (block.end() - 1) / PAGE as u64;
    assert!((0..table.blocks()).map(|number| table.block(number)).all(|block| in_one_page(&block)));
    let gaps: u64 = (1..table.blocks()).map(|n| table.block(n).offset - table.block(n - 1).end()).sum();
    assert!(gaps * 50 < table.summary().bytes, "{gaps} of {}", table.summary().bytes);
}

#[test]
fn entries_of_any_size_cost_little_space() {
    for value_bytes in [10, 500, 1400, 2500, 3800, 5000, 70_000] {
        let bench = Bench::new();
        let model = plain(4_000_000 / (value_bytes as u64 + 16), value_bytes);
        let summary = bench.write(TableOptions::default(), &model);
        let ratio = summary.bytes as f64 / summary.raw_bytes as f64;
        assert!(ratio < 1.04, "{value_bytes}: {ratio}");
    }
}

#[test]
fn versions_of_one_key_across_many_blocks_are_found_with_one_load_each() {
    let bench = Bench::new();
    let mut model = Model::new();
    for seq in 1..=400 {
        model.insert((b"key".to_vec(), Reverse(2 * seq)), (Kind::Put, 0, vec![seq as u8; 300]));
    }
    model.insert((b"before".to_vec(), Reverse(1)), (Kind::Put, 0, vec![0; 300]));
    model.insert((b"later".to_vec(), Reverse(1)), (Kind::Put, 0, vec![0; 300]));
    let table = bench.table(TableOptions::default(), &model);
    assert!(table.blocks() > 20);
    for at in 0..=801 {
        let (found, _) = bench.get(&table, b"key", at).expect("the disk is well");
        assert_eq!(found.map(|f| f.seq), (at >= 2).then_some(at.min(800) / 2 * 2), "at {at}");
    }
}

#[test]
fn huge_values_and_keys_round_trip() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bench = Bench::new();
        let mut model = plain(10, 100);
        model.insert((vec![b'x'; 64 << 10], Reverse(9)), (Kind::Put, 0, (0..5 << 20).map(|i| (i / 3) as u8).collect()));
        model.insert((vec![b'y'; 64 << 10], Reverse(9)), (Kind::Put, 8, Vec::new()));
        let table = bench.table(TableOptions { compression, ..TableOptions::default() }, &model);
        for ((key, Reverse(seq)), (_, expire_at_ms, value)) in &model {
            let (found, _) = bench.get(&table, key, SEQ_MAX).expect("the disk is well");
            let found = found.expect("it was written");
            assert!(found.seq == *seq && found.expire_at_ms == *expire_at_ms && *found.value == value[..]);
        }
        bench.sim.block_on(table.verify(Class::Maintenance)).expect("the table is whole");
    }
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bench = Bench::new();
        let mut model = plain(30, 100);
        for seq in 1..40 {
            model.insert((b"many versions".to_vec(), Reverse(seq)), (Kind::Put, seq, vec![b'v'; 150]));
        }
        let options = TableOptions { compression, block_bytes: 1000, ..TableOptions::default() };
        let summary = bench.write(options, &model);
        let (mut detected, mut harmless) = (0_u64, 0_u64);
        for offset in 0..summary.bytes {
            let bit = (offset % 8) as u8;
            assert!(bench.fs.flip_bit(PATH, offset, bit));
            match read_all(&bench) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "byte {offset}: {error}");
                    assert_eq!(error.path(), Path::new(PATH));
                    let named = error.offset().expect("a corruption says where");
                    assert!(named <= offset || named >= offset - offset % PAGE as u64, "byte {offset}: {error}");
                    detected += 1;
                }
                Ok(entries) => {
                    assert_eq!(entries, model, "byte {offset}: something wrong was served");
                    harmless += 1;
                }
            }
            assert!(bench.fs.flip_bit(PATH, offset, bit));
        }
        assert_eq!(read_all(&bench).expect("every flip was taken back"), model);
        // Only the zeros between the parts carry nothing.
        assert!(detected > 2000 && harmless < PAGE as u64 + 200, "{detected} detected, {harmless} harmless");
    }
}

/// Everything in the table, read with a cursor and then with point reads.
fn read_all(bench: &Bench) -> Result<Model> {
    let table = bench.open()?;
    let mut cursor =
        table.cursor(CursorOptions { class: Class::Read, readahead_bytes: 64 << 10, caching: Caching::Leave });
    let step = cursor.seek_first();
    bench.finish(&mut cursor, step)?;
    let mut entries = Model::new();
    while let Some((place, rest)) = owned(cursor.entry()) {
        let (found, _) = bench.get(&table, &place.0, place.1.0)?;
        let found = found.map(|f| (f.kind, f.expire_at_ms, f.value.to_vec()));
        assert_eq!(found.as_ref(), Some(&rest), "a point read and a scan agree");
        entries.insert(place, rest);
        let step = cursor.next();
        bench.finish(&mut cursor, step)?;
    }
    Ok(entries)
}

#[test]
fn a_cut_off_or_foreign_file_is_an_error_that_says_so() {
    let bench = Bench::new();
    let summary = bench.write(TableOptions::default(), &plain(100, 100));
    for (len, message) in
        [(summary.bytes - PAGE as u64, "magic number"), (summary.bytes - 1, "truncated"), (0, "truncated")]
    {
        bench.sim.block_on(async {
            let mut options = weir_io::OpenOptions::read();
            options.write = true;
            let file = bench.fs.open(Path::new(PATH), options, TAG).await.expect("it is there");
            file.set_len(len, TAG).await.expect("the disk is well");
        });
        let error = bench.open().err().expect("that is not a table");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn what_is_pinned_is_read_once() {
    let bench = Bench::new();
    let model = plain(400, 1000);
    let table = bench.table(TableOptions::default(), &model);
    for number in 0..table.blocks() {
        bench.sim.block_on(table.load(table.block(number), Class::Flush, true)).expect("the disk is well");
    }
    let before = bench.fs.count(Class::CompactL0, OpKind::Read);
    let mut cursor =
        table.cursor(CursorOptions { class: Class::CompactL0, readahead_bytes: 1 << 20, caching: Caching::Leave });
    assert_eq!(cursor.seek_first(), Step::Ready);
    let mut entries = 0;
    while cursor.entry().is_some() {
        entries += 1;
        assert_eq!(cursor.next(), Step::Ready);
    }
    assert_eq!(entries, 400);
    assert_eq!(bench.fs.count(Class::CompactL0, OpKind::Read), before);
    assert!(bench.cache.charged_bytes() > 0);
    drop((cursor, table));
    assert_eq!(bench.cache.usage_of(OWNER).pinned_bytes, 0, "pinned blocks go with their table");
    assert_eq!(bench.cache.charged_bytes(), 0);
}

#[test]
fn a_failing_write_fails_the_table() {
    let bench = Bench::new();
    bench.fs.fail_next(Some(OpKind::Write), weir_io::sim::Fault::Error);
    let fs = bench.fs();
    let result = bench.sim.block_on(async {
        let mut writer = TableWriter::create(&fs, Path::new(PATH), TableOptions::default(), TAG).await?;
        for ((key, Reverse(seq)), (kind, expire_at_ms, value)) in &plain(2000, 1000) {
            let entry = Entry { key, seq: *seq, kind: *kind, expire_at_ms: *expire_at_ms, value };
            writer.add(entry).expect("a model is sorted");
            if writer.pending_bytes() > 0 {
                writer.drain().await?;
            }
        }
        writer.finish().await
    });
    assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::Device));
}

#[test]
fn entries_out_of_order_are_refused() {
    let bench = Bench::new();
    let entry = Entry { key: b"bb", seq: 5, kind: Kind::Put, expire_at_ms: 0, value: b"" };
    bench.sim.block_on(async {
        let mut writer =
            TableWriter::create(&bench.fs(), Path::new(PATH), TableOptions::default(), TAG).await.expect("a new file");
        assert_eq!(writer.add(entry), Ok(()));
        for (key, seq) in [("bb", 5), ("bb", 6), ("b", 4), ("ba", 4), ("a", 4)] {
            assert!(writer.add(Entry { key: key.as_bytes(), seq, ..entry }).is_err(), "{key}, {seq}");
        }
        for (key, seq) in [("bb", 4), ("bba", 9), ("c", 9)] {
            assert_eq!(writer.add(Entry { key: key.as_bytes(), seq, ..entry }), Ok(()), "{key}, {seq}");
        }
        assert_eq!(writer.finish().await.expect("the disk is well").entries, 4, "what was refused is not in it");
    });
}
