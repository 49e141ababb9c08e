use weir_io::Owner;

use super::*;
use crate::bucket::UNLIMITED;
use crate::cost::Capacity;
use crate::policy::sample::{MemoryFacts, TreeFacts};
use crate::policy::{Policy, Profile, Settings};

const SETTINGS: BandwidthSettings = BandwidthSettings { read_amplification: 4, background: 60_000_000 };

fn sample(device: Limits) -> Sample {
    let partition = |partition, capacity, partitions| PartitionSample {
        owner: Owner { tenant: 1, partition },
        capacity,
        partitions,
        tree: TreeFacts { memtable_bytes: 16_000_000, write_buffers: 4, depth: 3, ..TreeFacts::default() },
        ..PartitionSample::default()
    };
    let partitions = vec![partition(1, Capacity { rcu: 3000, wcu: 3000 }, 3), partition(2, Capacity::default(), 1)];
    Sample { now: 0, device, memory: MemoryFacts::default(), partitions }
}

fn load(ingest: f64, average: Option<f64>) -> Load {
    Load { ingest, average, peak: ingest, background: ingest * 20.0, amplification: 20.0, ..Load::default() }
}

#[test]
fn foreground_follows_what_was_sold() {
    let sample = sample(Limits::bytes(500_000_000));
    let knobs = Fixed(SETTINGS).decide(&sample, &[Load::default(); 2]);
    assert_eq!(Fixed(SETTINGS).node(sample.device).limits, sample.device);
    let [first, second] = knobs[..] else { panic!("two partitions") };
    assert_eq!((first.foreground, first.weight), (Limits::bytes(51 * 1_024_000), Some(17 * 1_024_000)));
    assert_eq!((second.foreground, second.background), (Limits::UNLIMITED, Limits::bytes(60_000_000)));
}

#[test]
fn only_calcspar_and_weir_lend_what_is_reserved_in_front() {
    // C-9: FlexEngine as written and its ablations reserve and do not lend. A partition without limits has no limit to
    // borrow beyond.
    let sample = sample(Limits::bytes(500_000_000));
    for profile in Profile::ALL {
        let policy = Policy::new(profile, Settings::new(SETTINGS));
        let borrows = sample.partitions.iter().map(|partition| policy.opening(partition).borrows);
        let lends = matches!(profile, Profile::Calcspar | Profile::Weir);
        assert_eq!(borrows.collect::<Vec<_>>(), [lends, false], "{profile}");
    }
}

#[test]
fn background_is_the_ingest_of_the_last_minute_times_amplification() {
    // FX-12: 2 MB/s times 20 make 40 MB/s. As written, nothing is left of it after an idle minute.
    let sample = sample(Limits::bytes(500_000_000));
    let mut paper = Reserved { settings: SETTINGS, lends: false };
    let knobs = paper.decide(&sample, &[load(0.0, Some(2e6)), load(3e6, Some(0.0))]);
    let background: Vec<Limits> = knobs.iter().map(|knobs| knobs.background).collect();
    assert_eq!(background, [Limits::bytes(40_000_000), Limits::bytes(4096)]);
    let first = paper.decide(&sample, &[load(3e6, None); 2]);
    assert_eq!(first[0].background, Limits::bytes(60_000_000), "nothing is known in the first minute");
}

#[test]
fn the_hole_after_idle_is_closed() {
    // U-9: raised at once, lowered at the minute.
    let sample = sample(Limits::bytes(100_000_000));
    let mut reserved = Reserved { settings: SETTINGS, lends: true };
    let busy = load(3e6, Some(0.0));
    let knobs = reserved.decide(&sample, &[busy, load(0.0, Some(2e6))]);
    let background: Vec<Limits> = knobs.iter().map(|knobs| knobs.background).collect();
    assert_eq!(background, [Limits::bytes(60_000_000), Limits::bytes(40_000_000)]);
    let beside =
        |reserved: &mut Reserved, other: Load| reserved.decide(&sample, &[load(0.0, Some(0.0)), other])[0].background;
    let alone = beside(&mut reserved, load(1e6, Some(1e6)));
    assert_eq!(alone, Limits::bytes(80_000_000), "what nobody needs is lent, beyond what is configured");
    let put_off = Load { background: 10e6, ..load(3e6, Some(3e6)) };
    assert_eq!(beside(&mut reserved, put_off), Limits::bytes(90_000_000), "and what is needed, but not used");
    let lent = Load { background: 80e6, ..load(1e6, Some(1e6)) };
    assert_eq!(beside(&mut reserved, lent), Limits::bytes(80_000_000), "a loan does not end because it is used");
    let full = self::sample(Limits::bytes(60_000_000));
    let idle = reserved.decide(&full, &[load(0.0, Some(0.0)), load(3e6, Some(3e6))]);
    assert_eq!(idle[0].background, Limits::bytes(3_000_000), "5 % of the largest while the node is full");
}

#[test]
fn as_much_as_there_is_means_the_device() {
    // What `weir serve` is configured with: an idle partition on a full node must still be able to flush.
    let settings = BandwidthSettings { background: crate::UNLIMITED, ..SETTINGS };
    let sample = sample(Limits::bytes(100_000_000));
    let mut reserved = Reserved { settings, lends: true };
    let knobs = reserved.decide(&sample, &[load(0.0, Some(0.0)), load(6e6, Some(6e6))]);
    assert_eq!(knobs[0].background, Limits::bytes(5_000_000));
    let fresh = reserved.decide(&sample, &[load(0.0, None), load(6e6, Some(6e6))]);
    assert_eq!(fresh[0].background, Limits::bytes(100_000_000), "nothing is known in the first minute");
}

#[test]
fn an_unlimited_device_limits_nobody_behind() {
    let settings = BandwidthSettings { background: crate::UNLIMITED, ..SETTINGS };
    let mut reserved = Reserved { settings, lends: true };
    let knobs = reserved.decide(&sample(Limits::UNLIMITED), &[Load::default(); 2]);
    assert!(knobs.iter().all(|knobs| knobs.background == Limits::UNLIMITED));
}

#[test]
fn a_second_s_contract_may_be_used_at_any_moment() {
    let knobs = Calcspar(SETTINGS).decide(&sample(Limits::bytes(7)), &[Load::default(); 2]);
    let node = Calcspar(SETTINGS).node(Limits::bytes(7));
    assert_eq!((node.limits, node.burst), (Limits::bytes(7), 1_000_000_000));
    assert_eq!(knobs[1].background, Limits::UNLIMITED);
}

#[test]
fn autotune_has_one_bucket_as_large_as_both_sides_need() {
    // FX-17; at first a half (FX-18). The device's bandwidth is the most.
    let first = |background, device| {
        let mut autotune = Autotune::new(BandwidthSettings { background, ..SETTINGS }, AutotuneSettings::default());
        let knobs = autotune.decide(&sample(device), &[Load::default(); 2])[0];
        (knobs.foreground, knobs.background, knobs.one_bucket)
    };
    let bucket = |limits| (limits, Limits::UNLIMITED, Some(10_000_000));
    let front = 51 * 1_024_000;
    assert_eq!(first(60_000_000, Limits::bytes(500_000_000)), bucket(Limits::bytes((front + 60_000_000) / 2)));
    assert_eq!(first(60_000_000, Limits::bytes(80_000_000)), bucket(Limits::bytes(40_000_000)));
    assert_eq!(first(UNLIMITED, Limits::bytes(500_000_000)), bucket(Limits::bytes(250_000_000)));
    assert_eq!(first(UNLIMITED, Limits::UNLIMITED), bucket(Limits::UNLIMITED));
}
