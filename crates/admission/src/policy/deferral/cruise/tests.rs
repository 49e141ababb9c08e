//! What a partition's writes may have of a known device.

use weir_io::Owner;

use super::*;
use crate::cost::Capacity;
use crate::limits::{Limits, Rates};
use crate::policy::bandwidth::BandwidthSettings;
use crate::policy::knobs::NodeKnobs;
use crate::policy::sample::{Bytes, MemoryFacts, TreeFacts};
use crate::policy::{Policy, Profile, Settings};

const SECOND: u64 = 1_000_000_000;
const DEVICE: f64 = 100e6;

/// The mix of a partition: 5 MB/s written, 10 MB/s read, and 15 bytes of background for each byte written.
const LOAD: Load = Load {
    ingest: 5e6,
    average: None,
    peak: 5e6,
    log: 5e6,
    read: 10e6,
    background: 75e6,
    log_ops: 0.0,
    read_ops: 0.0,
    ops_per_byte: 0.0,
    amplification: 15.0,
    doubt: 0.0,
};

fn partition(number: u32, l0_runs: u64, unflushed: u64) -> PartitionSample {
    let tree = TreeFacts {
        l0_runs,
        unflushed,
        memtable_bytes: 1_000_000,
        write_buffers: 4,
        l0_trigger: 4,
        l0_slow: 20,
        l0_stop: 36,
        ..TreeFacts::default()
    };
    PartitionSample { owner: Owner { tenant: number, partition: number }, tree, ..PartitionSample::default() }
}

/// The knobs in the last of `seconds` seconds, each like the others.
fn knobs(
    law: Law,
    device: Limits,
    seconds: u64,
    partitions: &[PartitionSample],
    loads: &[Load],
) -> Vec<PartitionKnobs> {
    let mut cruise = Cruise::new(law, None);
    let of_second = |second: u64| {
        let memory = MemoryFacts::default();
        let sample = Sample { now: second * SECOND, device, memory, partitions: partitions.to_vec() };
        let node = NodeKnobs { limits: device, burst: 0 };
        let mut knobs = Knobs { node, floor: None, partitions: partitions.iter().map(PartitionKnobs::open).collect() };
        cruise.decide(&sample, loads, &mut knobs);
        knobs.partitions
    };
    (1..=seconds).map(of_second).last().expect("a second")
}

fn rates(law: Law, device: Limits, seconds: u64, partitions: &[PartitionSample], loads: &[Load]) -> Vec<Option<u64>> {
    knobs(law, device, seconds, partitions, loads).iter().map(|knobs| knobs.write_rate).collect()
}

#[test]
fn what_can_be_kept_up_fills_the_device() {
    let half = Rates::bytes(DEVICE as u64);
    // CR-5: at that rate, reads, log and background in their present proportion fill the device.
    for (device, full) in [
        (Limits::bytes(DEVICE as u64), 90e6),
        // The budget of writes is the fuller: the log, and 25 of 46 parts of the background.
        (Limits::Split { read: half, write: half }, 5e6 + 75e6 * 25.0 / 46.0),
    ] {
        let rate = rates(Law::Adaptive, device, 5, &[partition(1, 30, 0)], &[LOAD])[0].expect("a limit") as f64;
        let used = full * rate / LOAD.ingest;
        assert!((0.95 * DEVICE..=1.05 * DEVICE).contains(&used), "{device:?}: {used} at {rate}");
    }
}

#[test]
fn what_can_be_kept_up_goes_by_the_mix_where_that_was_measured() {
    // CR-5: 49 % of what the partition moves is read.
    let map = DeviceMap::new([50, 80, 100, 150, 400].map(|mega| Rates::bytes(mega * 1_000_000)));
    let mut cruise = Cruise::new(Law::Adaptive, Some(map));
    let (device, memory, partitions) = (Limits::bytes(50_000_000), MemoryFacts::default(), vec![partition(1, 30, 0)]);
    let mut sample = Sample { now: 0, device, memory, partitions };
    let knobs = [PartitionKnobs::open(&sample.partitions[0])];
    let mut rate = None;
    for second in 1..=5 {
        sample.now = second * SECOND;
        rate = cruise.rates(&sample, &[LOAD], &knobs)[0];
    }
    let used = 90e6 * rate.expect("a limit") as f64 / LOAD.ingest;
    assert!((0.95 * DEVICE..=1.05 * DEVICE).contains(&used), "{used}");
}

#[test]
fn behind_a_gate_what_can_be_kept_up_is_what_the_gate_hands_out() {
    let settings = Settings::new(BandwidthSettings { read_amplification: 4, background: DEVICE as u64 });
    let rate = |profile: Profile, map: Option<DeviceMap>| {
        let mut policy = Policy::new(profile, Settings { map, ..settings });
        let mut rate = None;
        for second in 1..=5 {
            let bytes = Bytes { user: second * 5_000_000, ..Bytes::default() };
            let partitions = vec![PartitionSample { bytes, ..partition(1, 30, 0) }];
            let (device, memory) = (Limits::bytes(50_000_000), MemoryFacts::default());
            let decision = policy.decide(&Sample { now: second * SECOND, device, memory, partitions });
            rate = decision.knobs.partitions[0].write_rate;
        }
        rate.expect("a limit") as f64
    };
    let map = Some(DeviceMap::new([Rates::bytes(200_000_000); DeviceMap::MIXES]));
    assert_eq!(rate(Profile::Cruise, map), rate(Profile::Cruise, None));
    let times = rate(Profile::CruiseNoSp, map) / rate(Profile::CruiseNoSp, None);
    assert!((times - 4.0).abs() < 0.01, "{times}");
}

#[test]
fn who_has_a_long_level_0_is_slowed_and_nobody_else() {
    // CR-9. Both together need 180 MB/s.
    let device = Limits::bytes(DEVICE as u64);
    let both = [partition(1, 30, 0), partition(2, 3, 0)];
    assert_eq!(rates(Law::Adaptive, device, 5, &both, &[LOAD; 2]), [Some(2_777_777), None]);
    let both = [partition(1, 3, 0), partition(2, 3, 10_000_000)];
    assert_eq!(rates(Law::Adaptive, device, 5, &both, &[LOAD; 2]), [None, Some(2_777_777)], "or full buffers");
}

#[test]
fn who_comes_late_is_not_starved_by_those_who_write_already() {
    // A quarter of an equal part: 100 MB/s for two, at 15 bytes a byte.
    let device = Limits::bytes(DEVICE as u64);
    let late = Load { ingest: 10_000.0, log: 10_000.0, read: 0.0, ..LOAD };
    let both = [partition(1, 30, 0), partition(2, 30, 0)];
    assert_eq!(rates(Law::Adaptive, device, 5, &both, &[LOAD, late])[1], Some(833_333));
}

#[test]
fn a_long_level_0_counts_by_its_runs_or_by_their_bytes() {
    let tree = |l0_runs, l0_bytes| TreeFacts { l0_runs, l0_bytes, ..partition(1, 0, 3_000_000).tree };
    let of = |runs, megabytes: u64| tree(runs, megabytes * 1_000_000).watermark(12, 32);
    assert_eq!([of(0, 0), of(16, 16), of(4, 24), of(4, 4)], [0.25, 0.5, 0.75, 0.25]);
}

#[test]
fn three_runs_of_twelve_memtables_hold_writes_at_what_can_be_kept_up() {
    // So beside a policy that lets memtables gather, this law would slow writes almost at once.
    let device = Limits::bytes(DEVICE as u64);
    let of = |memtables: u64| {
        let sample = partition(1, 3, 0);
        let tree = TreeFacts { l0_bytes: 3 * memtables * sample.tree.memtable_bytes, ..sample.tree };
        rates(Law::Adaptive, device, 5, &[PartitionSample { tree, ..sample }], &[LOAD])[0]
    };
    assert_eq!([of(1), of(12)], [None, Some(5_555_555)]);
}

#[test]
fn there_are_twelve_write_buffers_and_no_limit_at_first() {
    let device = Limits::bytes(DEVICE as u64);
    for law in [Law::Adaptive, Law::Fixed, Law::Published] {
        let knobs = knobs(law, device, 5, &[partition(1, 3, 5_000_000)], &[LOAD]);
        assert_eq!((knobs[0].write_buffers, knobs[0].flush_gather, knobs[0].write_rate), (12, 1, None), "{law:?}");
    }
}

#[test]
fn all_of_cruisedb_has_a_gate_of_which_clients_leave_a_hundredth() {
    // CR-18.
    let device = Limits::bytes(DEVICE as u64);
    let settings = Settings::new(BandwidthSettings { read_amplification: 4, background: DEVICE as u64 });
    let decided = |profile: Profile| {
        let memory = MemoryFacts::default();
        let sample = Sample { now: SECOND, device, memory, partitions: vec![partition(1, 3, 0)] };
        let knobs = Policy::new(profile, settings).decide(&sample).knobs;
        (knobs.node.limits, knobs.floor)
    };
    assert_eq!(decided(Profile::Cruise), (device, Some(Floor { foreground: 99, merges: true })));
    assert_eq!(decided(Profile::CruiseNoSp), (Limits::UNLIMITED, None));
}

#[test]
fn nobody_may_write_more_than_was_bought() {
    // U-13: before there was a limit, 5 MB/s were written, and 2000 units are 2.56 MB/s.
    let device = Limits::bytes(DEVICE as u64);
    let sold = PartitionSample { capacity: Capacity { rcu: 0, wcu: 2000 }, ..partition(1, 16, 0) };
    assert_eq!(rates(Law::Adaptive, device, 2, &[sold], &[LOAD]), [Some(2_560_000)]);
}

#[test]
fn a_device_of_which_nothing_is_known_limits_nobody() {
    assert_eq!(rates(Law::Adaptive, Limits::UNLIMITED, 5, &[partition(1, 30, 0)], &[LOAD]), [None]);
}
