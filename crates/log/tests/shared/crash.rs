//! Power cuts and kills at every change of the disk, in every sync mode, for a log that three members share.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use weir_io::sim::{DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{Rng, sleep_until};
use weir_log::{MemberLog, SharedLog, SyncMode, WriteAheadLog};

use super::{Group, SharedGroup, flush, open, open_member, open_members, write_one};
use crate::common::world;

const MEMBERS: usize = 3;

/// Each member writes `count` records. Meanwhile somebody syncs, flushes a part of a member's records, and maintains.
/// Nothing fails.
async fn work(members: &[MemberLog], group: &SharedGroup, count: usize, sim: &Sim) {
    let (mut rng, clock) = (sim.rng(), sim.clock());
    let mut chance = rng.fork("control");
    let done = Arc::new(Mutex::new(0));
    let writers = members.iter().map(|log| {
        let (mut rng, clock) = (rng.fork(&format!("writer {}", log.member())), sim.clock());
        let done = Arc::clone(&done);
        async move {
            for _ in 0..count {
                write_one(log, group, &mut rng).await.expect("nothing fails");
                // The higher its number, the slower the member.
                let pause = u64::from(log.member()) * rng.below(200_000);
                sleep_until(&clock, clock.now() + pause).await;
            }
            *done.lock() += 1;
        }
    });
    let control = async {
        while *done.lock() < members.len() {
            let log = &members[chance.below(members.len() as u64) as usize];
            let member = log.member() as usize;
            match chance.below(6) {
                0 => {
                    let target = log.last();
                    log.sync().await.expect("nothing fails");
                    let promises = &mut group.0.lock().members[member];
                    promises.synced = promises.synced.max(target);
                }
                1 => {
                    let persisted = {
                        let promises = &mut group.0.lock().members[member];
                        let last = promises.appended.len() as u64;
                        promises.persisted += chance.below(last - promises.persisted + 1);
                        promises.persisted
                    };
                    log.truncate(persisted).await.expect("nothing fails");
                    assert!(!log.would_truncate(persisted));
                }
                2 => log.maintain().await.expect("nothing fails"),
                _ => {}
            }
            sleep_until(&clock, clock.now() + 10_000 + chance.below(90_000)).await;
        }
    };
    join(join_all(writers), control).await;
}

/// A member falls asleep, having flushed everything or not, and wakes up again.
async fn sleep_and_wake(
    log: &SharedLog,
    members: &mut [MemberLog],
    sync: SyncMode,
    group: &SharedGroup,
    rng: &mut Rng,
) {
    let position = rng.below(MEMBERS as u64) as usize;
    let sleeper = &members[position];
    let flushes = rng.chance(0.5);
    if flushes {
        flush(sleeper, group).await.expect("nothing fails");
    }
    sleeper.close().await.expect("nothing fails");
    group.0.lock().members[position].synced = sleeper.last();
    if flushes {
        sleeper.remove(sleeper.last()).await.expect("nothing fails");
    }
    members[position] = open_member(log, sync, group, position).await.expect("it wakes up");
}

async fn live(fs: &Arc<SimFs>, sim: &Sim, sync: SyncMode, group: &SharedGroup, salt: u64, count: usize) {
    let log = open(fs, sync, group, salt, MEMBERS).await.expect("it opens");
    let mut members = open_members(&log, sync, group).await.expect("they open");
    let mut rng = sim.rng().fork("life");
    for _ in 0..3 {
        work(&members, group, count, sim).await;
        sleep_and_wake(&log, &mut members, sync, group, &mut rng).await;
    }
}

/// Runs a workload, takes the images that several power cuts at each change would leave, and recovers each. Then it
/// writes on there, cuts the power again and recovers once more.
fn cut_everywhere(seed: u64, sync: SyncMode, count: usize) -> usize {
    let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(MEMBERS);
    let cuts: Arc<Mutex<Vec<(DiskImage, Group)>>> = Arc::default();
    {
        let (cuts, group, mut rng) = (Arc::clone(&cuts), group.clone(), sim.rng());
        fs.on_cut_point(move |fs, _| {
            let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
            let image = fs.crash_keeping(keep, &mut rng);
            // The hook may run inside a call that the group's owner makes.
            if let Some(group) = group.0.try_lock() {
                cuts.lock().push((image, group.clone()));
            }
        });
    }
    sim.block_on(live(&fs, &sim, sync, &group, seed, count));
    fs.clear_hook();
    let cuts = std::mem::take(&mut *cuts.lock());
    let count = cuts.len();
    for (number, (image, before)) in (0..).zip(cuts) {
        let (sim, fs) = world(seed ^ number, &image, FaultPlan::none());
        let group = SharedGroup(Arc::new(Mutex::new(before)));
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1000 + number, MEMBERS).await.expect("recovery");
            let members = open_members(&log, sync, &group).await.expect("recovery");
            for _ in 0..4 {
                let member = &members[rng.below(MEMBERS as u64) as usize];
                write_one(member, &group, &mut rng).await.expect("writing on after recovery");
            }
            if rng.chance(0.5) {
                for member in &members {
                    member.sync().await.expect("syncing after recovery");
                    group.0.lock().members[member.member() as usize].synced = member.last();
                }
            }
        });
        let (sim, fs) = world(seed ^ number, &fs.crash(&mut rng), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, sync, &group, 2000 + number, MEMBERS).await.expect("the second recovery");
            open_members(&log, sync, &group).await.expect("the second recovery");
        });
    }
    count
}

#[test]
fn a_power_cut_at_any_change_leaves_each_member_a_prefix_with_everything_promised() {
    let mut cuts = 0;
    for seed in 0..8 {
        cuts += cut_everywhere(seed, SyncMode::Always, 8);
        cuts += cut_everywhere(seed, SyncMode::Interval, 25);
        cuts += cut_everywhere(seed, SyncMode::None, 40);
    }
    println!("{cuts} cuts");
    assert!(cuts > 2000, "only {cuts} cuts");
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_of_any_member() {
    for (seed, sync) in (0..15).flat_map(|seed| [(seed, SyncMode::Always), (seed, SyncMode::Interval)]) {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(MEMBERS);
        for life in 0..4 {
            group.0.lock().members.iter_mut().for_each(|promises| promises.synced = promises.acknowledged);
            sim.block_on(live(&fs, &sim, sync, &group, seed * 10 + life, 8));
        }
    }
}
