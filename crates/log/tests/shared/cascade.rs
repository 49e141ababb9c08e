//! At its cap the log names the members that keep it long, and waits for nobody (DF-12).

use weir_io::sim::{DiskImage, FaultPlan};
use weir_log::{SyncMode, WriteAheadLog};

use super::{CAP_BYTES, SharedGroup, flush, named, open, open_members, write, write_one};
use crate::common::world;

const SLOW: usize = 15;

#[test]
fn at_the_cap_those_who_keep_the_oldest_segment_are_named_and_everybody_writes_on() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(SLOW + 1);
    let mut rng = sim.rng();
    sim.block_on(async {
        let sync = SyncMode::Interval;
        let log = open(&fs, sync, &group, 1, SLOW + 1).await.expect("a fresh disk");
        let members = open_members(&log, sync, &group).await.expect("a fresh disk");
        let (fast, slow) = members.split_last().expect("sixteen");
        for member in slow {
            // All these records are in the first segment.
            write(member, &group, |index| vec![index as u8; 100]).await.expect("nothing fails");
        }
        let mut writes = 0;
        while log.stats().log.live_bytes < CAP_BYTES {
            assert!(named(&log).is_empty(), "below the cap nobody has to flush: {:?}", log.stats());
            write_one(fast, &group, &mut rng).await.expect("nothing fails");
            writes += 1;
            if writes % 10 == 0 {
                flush(fast, &group).await.expect("nothing fails");
            }
        }
        flush(fast, &group).await.expect("nothing fails");
        let everyone: Vec<u32> = (0..SLOW as u32).collect();
        assert_eq!(named(&log), everyone, "the fast one has flushed past it");
        let through: Vec<u64> = log.cascade().into_iter().map(|(_, through)| through).collect();
        assert_eq!(through, [1; SLOW], "what they write later is not in the way");
        // Nobody flushes yet: writes go on.
        for _ in 0..100 {
            write_one(fast, &group, &mut rng).await.expect("a cap stops nobody");
        }
        assert!(log.stats().log.live_bytes > CAP_BYTES);
        assert_eq!((named(&log), log.stats().cascades), (everyone, 1), "it is the same cascade");
        for (flushed, member) in (1..).zip(slow) {
            flush(member, &group).await.expect("nothing fails");
            if flushed < SLOW {
                assert_eq!(named(&log).len(), SLOW - flushed, "those that are left");
                assert!(log.stats().log.live_bytes > CAP_BYTES, "one is enough to keep everything");
            }
        }
        flush(fast, &group).await.expect("nothing fails");
        assert!(named(&log).is_empty() && log.stats().log.segments == 1, "{:?}", log.stats());
        // A member that sleeps and has flushed is not named.
        slow[0].close().await.expect("nothing fails");
        slow[0].remove(slow[0].last()).await.expect("nothing fails");
        write_one(&slow[1], &group, &mut rng).await.expect("nothing fails");
        while named(&log).is_empty() {
            write_one(fast, &group, &mut rng).await.expect("nothing fails");
        }
        assert_eq!((named(&log), log.stats().cascades), (vec![1, SLOW as u32], 2));
    });
}
