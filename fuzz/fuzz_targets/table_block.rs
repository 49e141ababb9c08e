//! A table with damaged blocks whose checksums happen to be right: reading it ends, in an error or in entries.
//!
//! Checksums would refuse every input, so they are not checked here (a planted bug). The input says which bytes of a
//! good table to change.
#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use weir_io::plant::{Plant, with_planted};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{Class, Fs, Owner, Result, Rng, Tag};
use weir_lsm::cache::BlockCache;
use weir_lsm::cursor::{Cursor, Step};
use weir_lsm::table::{Caching, Compression, CursorOptions, Table, TableOptions, TableWriter};
use weir_model::engine::{Entry, Kind};
use weir_model::parts::{Life, cover_key, cover_value};

const PATH: &str = "1.sst";
const OWNER: Owner = Owner { tenant: 1, partition: 1 };
const TAG: Tag = Tag::new(OWNER, Class::Maintenance);
/// More entries than a table of a few kilobytes can hold, however it is damaged.
const ENTRIES_MAX: usize = 1 << 20;

fn good() -> &'static Vec<u8> {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let sim = Sim::new(1);
        let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(1));
        let fs: Arc<dyn Fs> = disk.clone();
        let options =
            TableOptions { block_bytes: 512, compression: Compression::None, filter_bits_per_key: 10, write_bytes: 4096 };
        sim.block_on(async {
            let mut writer = TableWriter::create(&fs, Path::new(PATH), options, TAG).await.expect("an empty disk");
            for number in 0..200_u64 {
                let key = format!("key{:05}", number / 2);
                let kind = if number % 7 == 0 { Kind::Delete } else { Kind::Put };
                let value: &[u8] = if kind == Kind::Delete { b"" } else { b"some value of some length" };
                let expire_at_ms = if kind == Kind::Put && number % 5 == 0 { number + 1 } else { 0 };
                let entry = Entry { key: key.as_bytes(), seq: 1_000 - number, kind, expire_at_ms, value };
                writer.add(entry).expect("in order");
            }
            for version in 1..20 {
                let (cover, part) = (cover_key(version), Life::new(version).part(0, b"some subkey"));
                let entry = Entry { key: &part, seq: version, kind: Kind::Put, expire_at_ms: 0, value: b"value" };
                let (kind, value) = (Kind::Cover, cover_value(version));
                writer.add(Entry { key: &cover, seq: version + 1, kind, value: &value, ..entry }).expect("in order");
                writer.add(entry).expect("in order");
            }
            writer.finish().await.expect("an empty disk");
        });
        disk.crash_keeping(Keep::All, &mut Rng::new(1)).read(PATH).expect("just written")
    })
}

async fn read(fs: Arc<dyn Fs>) -> Result<()> {
    let cache = BlockCache::new(1 << 20, 1);
    let table = Table::open(&fs, Path::new(PATH), OWNER, &cache, TAG).await?;
    let options = CursorOptions { class: Class::Read, readahead_bytes: 4096, caching: Caching::Fill };
    for forward in [true, false] {
        let mut cursor = table.cursor(options);
        let mut step = if forward { cursor.seek_first() } else { cursor.seek_last() };
        for count in 0.. {
            assert!(count < ENTRIES_MAX, "reading the table does not end");
            while step == Step::Load {
                step = cursor.load().await?;
            }
            if cursor.entry().is_none() {
                break;
            }
            step = if forward { cursor.next() } else { cursor.prev() };
        }
    }
    let mut cursor = table.cursor(options);
    let mut step = cursor.seek(b"key00050", 990);
    while step == Step::Load {
        step = cursor.load().await?;
    }
    Ok(())
}

fuzz_target!(|changes: Vec<(u16, u8)>| {
    let mut bytes = good().clone();
    for (at, value) in changes {
        let at = usize::from(at) % bytes.len();
        bytes[at] = value;
    }
    let mut image = DiskImage::new();
    image.insert(PATH, &bytes).expect("a plain name");
    let sim = Sim::new(1);
    let disk = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(1));
    let _ = with_planted(Some(Plant::ChecksumIgnored), || sim.block_on(read(disk)));
});
