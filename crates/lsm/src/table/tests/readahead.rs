//! How far scans and merges read ahead.

use std::ops::Bound;

use weir_model::engine::Range;

use super::*;

const CLIENT: CursorOptions = CursorOptions { class: Class::Read, readahead_bytes: 64 << 10, caching: Caching::Fill };

/// A scan of the entries `from..to` (by their place in `model`) of `table`, of which about `bytes` are wanted: it goes
/// through `entries` of them. Returns how often the device was asked, and for how many pages.
fn scanned(
    bench: &Bench,
    (table, model): (&Arc<Table>, &Model),
    (from, to): (usize, usize),
    reverse: bool,
    (bytes, entries): (u64, usize),
) -> (u64, u64) {
    let key = |place: usize| model.keys().nth(place).map(|key| key.0.clone()).expect("it is one of them");
    let before = bench.fs.count(Class::Read, OpKind::Read);
    let range = Range { from: Bound::Included(key(from)), to: Bound::Excluded(key(to)), reverse };
    let mut cursor = table.cursor(CLIENT);
    let mut step = if reverse { cursor.seek_before(&key(to), SEQ_MAX) } else { cursor.seek(&key(from), SEQ_MAX) };
    cursor.expect(Extent { range: Arc::new(range), bytes });
    for place in 0..entries {
        bench.finish(&mut cursor, step).expect("the disk is well");
        let wanted = key(if reverse { to - 1 - place } else { from + place });
        assert_eq!(cursor.entry().map(|entry| entry.key), Some(&wanted[..]));
        step = if reverse { cursor.prev() } else { cursor.next() };
    }
    let read = bench.fs.count(Class::Read, OpKind::Read);
    (read.ops - before.ops, (read.bytes - before.bytes) / PAGE as u64)
}

#[test]
fn what_is_known_to_be_wanted_is_read_at_once() {
    // Four entries to a block, which is a page.
    let model = plain(400, 1000);
    for reverse in [false, true] {
        // Entries 200 to 221 are in six blocks: the end of the range says so.
        let bench = Bench::new();
        let table = (&bench.table(TableOptions::default(), &model), &model);
        assert_eq!(scanned(&bench, table, (200, 222), reverse, (u64::MAX, 22)), (1, 6));
        // In the cache now, all or in part.
        assert_eq!(scanned(&bench, table, (200, 222), reverse, (u64::MAX, 22)), (0, 0));
        let wider = if reverse { (190, 222) } else { (200, 232) };
        assert_eq!(scanned(&bench, table, wider, reverse, (u64::MAX, 32)), (1, 3), "the rest");
        // The range goes on, but ten entries are wanted: from the middle of a block that is two more.
        let bench = Bench::new();
        let table = (&bench.table(TableOptions::default(), &model), &model);
        let to_the_end = if reverse { (0, 222) } else { (202, 399) };
        assert_eq!(scanned(&bench, table, to_the_end, reverse, (10 * 1008, 10)), (1, 3));
        // One entry: the block that it is in.
        let bench = Bench::new();
        let table = (&bench.table(TableOptions::default(), &model), &model);
        assert_eq!(scanned(&bench, table, to_the_end, reverse, (1008, 1)), (1, 1));
        // Never more at once than the options allow.
        let bench = Bench::new();
        let table = (&bench.table(TableOptions::default(), &model), &model);
        assert_eq!(scanned(&bench, table, to_the_end, reverse, (u64::MAX, 1)), (1, 16));
    }
}

#[test]
fn where_the_end_is_in_the_cache_it_is_not_read_again() {
    let model = plain(400, 1000);
    for reverse in [false, true] {
        let bench = Bench::new();
        let table = (&bench.table(TableOptions::default(), &model), &model);
        let (end, range) = if reverse { ((200, 207), (200, 219)) } else { ((212, 219), (200, 219)) };
        assert_eq!(scanned(&bench, table, end, reverse, (u64::MAX, 7)), (1, 2));
        assert_eq!(scanned(&bench, table, range, reverse, (u64::MAX, 19)), (1, 3));
    }
}

#[test]
fn a_scan_reads_ahead_and_a_seek_does_not() {
    let bench = Bench::new();
    let model = plain(4000, 1000);
    let table = bench.table(TableOptions::default(), &model);
    let (first, _) = model.iter().nth(2000).expect("there are 4000");
    let client = CursorOptions { class: Class::Read, readahead_bytes: 128 << 10, caching: Caching::Fill };
    let mut cursor = table.cursor(client);
    let step = cursor.seek(&first.0, SEQ_MAX);
    bench.finish(&mut cursor, step).expect("the disk is well");
    let read = bench.fs.count(Class::Read, OpKind::Read);
    assert_eq!((read.ops, read.bytes), (1, PAGE as u64));
    for _ in 0..400 {
        let step = cursor.next();
        bench.finish(&mut cursor, step).expect("the disk is well");
    }
    // 100 blocks more: 2 + 4 + 8 + 16 + 32 + 32 + 32 (the last goes beyond).
    let read = bench.fs.count(Class::Read, OpKind::Read);
    assert_eq!((read.ops, read.bytes), (8, 127 * PAGE as u64));
    assert_eq!(bench.cache.usage_of(OWNER).entries, 101);

    let compaction = CursorOptions { class: Class::CompactDeep, readahead_bytes: 512 << 10, caching: Caching::Leave };
    let mut cursor = table.cursor(compaction);
    let mut step = cursor.seek_first();
    let mut entries = 0;
    loop {
        bench.finish(&mut cursor, step).expect("the disk is well");
        if cursor.entry().is_none() {
            break;
        }
        entries += 1;
        step = cursor.next();
    }
    assert_eq!(entries, 4000);
    let read = bench.fs.count(Class::CompactDeep, OpKind::Read);
    // 1000 pages in windows of 128: blocks that lie in the cache in the middle are not worth a smaller read.
    assert!(read.ops <= 9, "{read:?}");
    assert_eq!(bench.cache.usage_of(OWNER).entries, 101, "the cache was left alone");
}

#[test]
fn a_scan_of_blocks_that_do_not_fill_their_pages_reads_each_sector_once() {
    const SECTOR: u64 = 512;
    let bench = Bench::new();
    // Three entries to a block of 3.1 KiB: four reads of a page and more, which all begin and end within pages.
    let model = plain(3000, 1024);
    let table = bench.table(TableOptions::default(), &model);
    let (first, _) = model.iter().nth(1500).expect("there are 3000");
    let client = CursorOptions { class: Class::Read, readahead_bytes: 64 << 10, caching: Caching::Fill };
    let mut cursor = table.cursor(client);
    let mut step = cursor.seek(&first.0, SEQ_MAX);
    for _ in 0..48 {
        bench.finish(&mut cursor, step).expect("the disk is well");
        step = cursor.next();
    }
    let read = bench.fs.count(Class::Read, OpKind::Read);
    // 1 + 2 + 4 + 9 blocks: windows of 8, 16 and 32 KiB.
    let blocks = table.block(500).offset..table.block(515).end();
    assert_eq!(read.ops, 4);
    let most = blocks.end - blocks.start + 2 * SECTOR * read.ops;
    assert!(read.bytes <= most, "{read:?} for {} bytes of blocks", blocks.end - blocks.start);
}

#[test]
fn a_merge_holds_one_long_value_of_each_source() {
    let bench = Bench::new();
    let table = bench.table(TableOptions::default(), &plain(4, 2 << 20));
    let mut cursor =
        table.cursor(CursorOptions { class: Class::CompactL0, readahead_bytes: 256 << 10, caching: Caching::Leave });
    let mut step = cursor.seek_first();
    for read in 1..=4 {
        bench.finish(&mut cursor, step).expect("the disk is well");
        assert!(cursor.entry().is_some());
        assert_eq!(bench.fs.count(Class::CompactL0, OpKind::Read).ops, read, "none is read ahead");
        step = cursor.next();
    }
}

#[test]
fn a_scan_backwards_reads_ahead_backwards() {
    let bench = Bench::new();
    let table = bench.table(TableOptions::default(), &plain(400, 1000));
    let mut cursor =
        table.cursor(CursorOptions { class: Class::Read, readahead_bytes: 128 << 10, caching: Caching::Fill });
    let mut step = cursor.seek_last();
    let mut entries = 0;
    loop {
        bench.finish(&mut cursor, step).expect("the disk is well");
        if cursor.entry().is_none() {
            break;
        }
        entries += 1;
        step = cursor.prev();
    }
    assert_eq!(entries, 400);
    // 100 blocks: 2 + 4 + 8 + 16 + 32 + 32 + 6, each read once.
    let read = bench.fs.count(Class::Read, OpKind::Read);
    assert_eq!((read.ops, read.bytes), (7, 100 * PAGE as u64));
}
