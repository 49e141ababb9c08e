//! Files and names, on every backend.

use super::*;

#[test]
fn direct_bytes_come_back() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        let mut all = AlignedBuf::new();
        for number in 0..64 {
            all.extend_from_slice(&page(number));
        }
        let written = block_on(file.write_at(0, all, FLUSH)).unwrap();
        block_on(file.sync(FLUSH)).unwrap();
        block_on(fs.sync_dir(&dir.0, FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), 64 * PAGE as u64);

        let again = open(&fs, &dir.at("table"), OpenOptions::read());
        let read = block_on(again.read_at(0, AlignedBuf::with_len(64 * PAGE), READ)).unwrap();
        assert!(read[..] == written[..]);
        let one = block_on(again.read_at(17 * PAGE as u64, AlignedBuf::with_len(PAGE), READ)).unwrap();
        assert!(one[..] == page(17)[..]);
        // A piece of a page, as small as the device can read.
        let unit = again.read_unit();
        assert!(unit.is_power_of_two() && (512..=PAGE).contains(&unit) && (again.is_direct() || unit == PAGE));
        let last = (18 * PAGE - unit) as u64;
        let piece = block_on(again.read_at(last, AlignedBuf::with_len(unit), READ)).unwrap();
        assert!(piece[..] == page(17)[PAGE - unit..]);
        let error = block_on(again.read_at(last + 1, AlignedBuf::with_len(unit), READ)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_read_across_the_end_is_cut_to_what_is_there() {
    each_way(|fs, dir| {
        let log = open(&fs, &dir.at("log"), OpenOptions::create_new_buffered());
        block_on(log.write_at(0, AlignedBuf::copy_of(&[7; PAGE + 100]), FLUSH)).unwrap();
        block_on(log.sync(FLUSH)).unwrap();
        for options in [OpenOptions::read(), OpenOptions::read_buffered()] {
            let file = open(&fs, &dir.at("log"), options);
            let read = |page: u64, pages: usize| {
                block_on(file.read_at(page * PAGE as u64, AlignedBuf::with_len(pages * PAGE), READ)).unwrap()
            };
            assert_eq!(read(0, 8).len(), PAGE + 100, "{options:?}");
            assert_eq!(read(1, 1)[..], [7; 100], "{options:?}");
            assert_eq!(read(2, 1).len(), 0, "{options:?}");
            assert_eq!(read(1000, 1).len(), 0, "{options:?}");
        }
    });
}

#[test]
fn buffered_writes_and_cached_reads_are_done_at_once() {
    let (fs, dir) = (with_backend(Backend::Threads), Dir::new());
    let log = open(&fs, &dir.at("log"), OpenOptions::create_new_buffered());
    assert!(!log.is_direct());
    let write = log.write_at(3, AlignedBuf::copy_of(b"record"), FLUSH);
    assert!(matches!(write, Op::Ready(_)));
    block_on(write).unwrap();
    let read = log.read_at(3, AlignedBuf::with_len(6), READ);
    assert!(matches!(read, Op::Ready(_)));
    assert_eq!(block_on(read).unwrap()[..], *b"record");
}

#[test]
fn every_write_of_a_dsync_file_leaves_the_callers_thread() {
    let (fs, dir) = (with_backend(Backend::Threads), Dir::new());
    let options = OpenOptions { dsync: true, ..OpenOptions::create_new_buffered() };
    let log = open(&fs, &dir.at("log"), options);
    let write = log.write_at(0, AlignedBuf::copy_of(b"record"), FLUSH);
    assert!(matches!(write, Op::Pending(_)));
    assert_eq!(block_on(write).unwrap()[..], *b"record");
}

#[test]
fn what_direct_io_cannot_do_is_refused_with_path_and_offset() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        let error = block_on(file.write_at(100, AlignedBuf::with_len(PAGE), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Invalid, Some(100)));
        assert_eq!(error.path(), dir.at("table"));
        let error = block_on(file.read_at(0, AlignedBuf::with_len(10), READ)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let reader = open(&fs, &dir.at("table"), OpenOptions::read());
        let error = block_on(reader.write_at(0, AlignedBuf::with_len(PAGE), FLUSH)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn where_direct_io_is_refused_the_page_cache_serves_and_it_is_told() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("table"), OpenOptions::create_new());
        // This depends on where the system keeps its temporary files, but both must agree.
        assert_eq!(fs.direct_refused().is_some(), !file.is_direct());
        let refused = open(&fs, Path::new("/proc/version"), OpenOptions::read());
        assert!(!refused.is_direct() && fs.direct_refused().is_some());
        let read = block_on(refused.read_at(0, AlignedBuf::with_len(PAGE), READ)).unwrap();
        assert!(read.starts_with(b"Linux"));
        // A request that would be refused elsewhere is refused here too.
        let error = block_on(refused.read_at(1, AlignedBuf::with_len(PAGE), READ)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_full_device_is_no_space() {
    each_way(|fs, _| {
        let options = OpenOptions { write: true, ..OpenOptions::read_buffered() };
        let full = open(&fs, Path::new("/dev/full"), options);
        let error = block_on(full.write_at(8, AlignedBuf::copy_of(b"x"), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8)));
        // The error also comes through the backend: a synced write does not run on the caller's thread.
        let full = open(&fs, Path::new("/dev/full"), OpenOptions { dsync: true, ..options });
        let error = block_on(full.write_at(8, AlignedBuf::copy_of(b"x"), FLUSH)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8)));
    });
}

#[test]
fn names_behave() {
    each_way(|fs, dir| {
        let deep = dir.at("a/b/c");
        block_on(fs.create_dir_all(&deep, FLUSH)).unwrap();
        block_on(fs.create_dir_all(&deep, FLUSH)).unwrap();
        drop(open(&fs, &deep.join("one"), OpenOptions::create_new_buffered()));
        let again = block_on(fs.open(&deep.join("one"), OpenOptions::create_new(), FLUSH));
        assert_eq!(again.err().map(|error| error.kind()), Some(ErrorKind::AlreadyExists));
        block_on(fs.hard_link(&deep.join("one"), &deep.join("two"), FLUSH)).unwrap();
        block_on(fs.rename(&deep.join("one"), &deep.join("three"), FLUSH)).unwrap();
        let names = |path: &Path| {
            let entries = block_on(fs.list(path, FLUSH)).unwrap();
            entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect::<Vec<_>>()
        };
        assert_eq!(names(&deep), [("three".to_string(), false), ("two".to_string(), false)]);
        assert_eq!(names(&dir.at("a/b")), [("c".to_string(), true)]);
        block_on(fs.sync_dir(&deep, FLUSH)).unwrap();

        let missing = block_on(fs.rename(&deep.join("one"), &deep.join("four"), FLUSH)).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("four"), "{missing}");
        assert_eq!(block_on(fs.remove(&deep.join("one"), FLUSH)).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(block_on(fs.list(&dir.at("none"), FLUSH)).unwrap_err().kind(), ErrorKind::NotFound);
        block_on(fs.remove(&deep.join("two"), FLUSH)).unwrap();
        block_on(fs.remove(&deep.join("three"), FLUSH)).unwrap();
        block_on(fs.remove_dir(&deep, FLUSH)).unwrap();
        assert_eq!(names(&dir.at("a/b")), []);
    });
}

#[test]
fn allocated_space_reads_as_zero_and_lengths_change_both_ways() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("segment"), OpenOptions::create_new());
        let pages = |count: u64| count * PAGE as u64;
        block_on(file.allocate(pages(16), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(16));
        let read = block_on(file.read_at(pages(15), AlignedBuf::copy_of(&[1; PAGE]), READ)).unwrap();
        assert_eq!(read[..], [0; PAGE]);
        block_on(file.allocate(pages(4), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(4));
        block_on(file.set_len(pages(8), FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), pages(8));
        block_on(file.set_len(0, FLUSH)).unwrap();
        block_on(file.allocate(0, FLUSH)).unwrap();
        assert_eq!(block_on(file.len()).unwrap(), 0);
    });
}

#[test]
fn behind_the_end_of_the_data_there_are_zeros() {
    each_way(|fs, dir| {
        let file = open(&fs, &dir.at("segment"), OpenOptions::create_new_buffered());
        block_on(file.allocate(1 << 20, FLUSH)).unwrap();
        block_on(file.write_at(70_000, AlignedBuf::copy_of(&[7; 5000]), FLUSH)).unwrap();
        for _ in ["in the page cache", "on the device"] {
            // Where the file system has no holes, that is the length.
            let end = block_on(file.data_end(FLUSH)).unwrap();
            assert!((75_000..=1 << 20).contains(&end), "{end}");
            let rest = AlignedBuf::with_len((1 << 20) - end as usize);
            assert!(block_on(file.read_at(end, rest, READ)).unwrap().iter().all(|&byte| byte == 0));
            block_on(file.sync(FLUSH)).unwrap();
        }
    });
}

#[test]
fn a_lock_has_one_holder_and_says_who() {
    each_way(|fs, dir| {
        let held = block_on(fs.lock(&dir.at("LOCK"))).unwrap();
        let Err(error) = block_on(fs.lock(&dir.at("LOCK"))) else { panic!("two holders of one lock") };
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
        assert_eq!(error.path(), dir.at("LOCK"));
        drop(held);
        drop(block_on(fs.lock(&dir.at("LOCK"))).unwrap());
    });
}

#[test]
fn the_parent_of_a_relative_name_of_one_part_can_be_synced() {
    let parent = Path::new("data").parent().unwrap();
    each_way(|fs, _| block_on(fs.sync_dir(parent, FLUSH)).unwrap());
}
