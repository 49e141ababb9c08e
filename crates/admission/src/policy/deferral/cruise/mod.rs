//! CruiseDB's admission of writes on the ordinary tree (CR-2 to CR-7, CR-11, CR-22). Writes pass at a rate that keeps
//! write buffers and level 0 half full, from the beginning and not only before a stall.
//!
//! Beside the paper's law there are the two that it is compared with: a fixed limit, and the law of its published code.
//! Everything else is as in a RocksDB, except for the number of write buffers.

mod adaptive;
mod fixed;
mod published;
mod recent;

use std::collections::BTreeMap;

use weir_io::Owner;

use self::adaptive::Adaptive;
use self::fixed::Fixed;
use self::published::Published;
use self::recent::Recent;
use super::{DeferralPolicy, Never};
use crate::cost::WCU_BYTES;
use crate::policy::device::Front;
use crate::policy::device_map::DeviceMap;
use crate::policy::knobs::{Floor, Knobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Memtables allowed, the active one included (CR-16).
const BUFFERS: u64 = 12;

/// Where the node has a gate, no compaction starves behind clients (CR-18): flushes and compactions have a hundredth of
/// the device in any case, and compactions have one part of that for ten of flushes. A grant takes half a millisecond
/// of the device, so a compaction that waits has its turn after about half a second.
const FLOOR: Floor = Floor { foreground: 99, merges: true };

/// A partition that writes less than this, in bytes per second, does not count among those that share the device.
const WRITES: f64 = 1024.0;

/// The law that sets the rate of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The paper's: it follows how full the write buffers and level 0 are.
    Adaptive,
    /// A fixed rate: what was written while there was no limit (CR-22).
    Fixed,
    /// The published code's: it follows the scores of levels, and what passed of late (CR-11).
    Published,
}

/// Limits the writes of every partition by a [`Law`].
pub struct Cruise {
    law: Law,
    /// What the device gives by the mix; `None` = the same for all mixes, as the sample says.
    map: Option<DeviceMap>,
    partitions: BTreeMap<Owner, Partition>,
}

/// What is remembered of a partition.
struct Partition {
    recent: Recent,
    limiter: Limiter,
}

enum Limiter {
    Adaptive(Adaptive),
    Fixed(Fixed),
    Published(Published),
}

/// What a limiter sees of a partition, once a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    /// Seconds since the last look.
    seconds: f64,
    /// How full write buffers and level 0 are, 1 = the tree would slow writes
    /// ([`TreeFacts::watermark`](crate::policy::TreeFacts::watermark)).
    watermark: f64,
    /// The same, 1 = the tree would stop writes.
    brink: f64,
    /// What users wrote since the last look, in bytes per second.
    ingest: f64,
    /// What users wrote of late, in bytes per second.
    mean: f64,
    /// What users wrote in the last whole minute, in bytes per second; `None` in the first minute (FX-12).
    minute: Option<f64>,
    /// What can be kept up for ever, in bytes per second (T_c, CR-5); infinite where the device has no limit.
    sustainable: f64,
    /// What could be kept up with an equal part of the device and no reads, in bytes per second.
    fair: f64,
    /// All write buffers, in bytes.
    buffers: f64,
    /// What the tenant bought, in bytes per second; infinite where it has no limit.
    quota: f64,
    /// Runs of level 0, divided by the number of runs that makes a merge due.
    l0_score: f64,
    /// The same or, if that is more, the bytes of the fullest deeper level divided by its target.
    worst_score: f64,
}

impl Limiter {
    fn new(law: Law) -> Self {
        match law {
            Law::Adaptive => Limiter::Adaptive(Adaptive::default()),
            Law::Fixed => Limiter::Fixed(Fixed::default()),
            Law::Published => Limiter::Published(Published::default()),
        }
    }

    /// Bytes per second that users may write from now on; `None` = as they like.
    fn step(&mut self, seen: &Seen) -> Option<f64> {
        match self {
            Limiter::Adaptive(limiter) => limiter.step(seen),
            Limiter::Fixed(limiter) => limiter.step(seen),
            Limiter::Published(limiter) => limiter.step(seen),
        }
    }
}

impl Cruise {
    /// The policy under `law`, for a device with this `map`. Without one the device gives the same under all mixes, as
    /// samples say.
    pub fn new(law: Law, map: Option<DeviceMap>) -> Self {
        Self { law, map, partitions: BTreeMap::new() }
    }

    /// Bytes per second that users may write to each partition of the sample from now on; `None` = as they like.
    /// `knobs` say how many write buffers each has.
    pub fn rates(&mut self, sample: &Sample, loads: &[Load], knobs: &[PartitionKnobs]) -> Vec<Option<u64>> {
        let (law, map) = (self.law, self.map);
        let mut known = std::mem::take(&mut self.partitions);
        let new = || Partition { recent: Recent::default(), limiter: Limiter::new(law) };
        let mut seconds = Vec::with_capacity(loads.len());
        let mut recents = Vec::with_capacity(loads.len());
        for (partition, load) in sample.partitions.iter().zip(loads) {
            let mut state = known.remove(&partition.owner).unwrap_or_else(new);
            seconds.push(state.recent.step(sample.now, load));
            recents.push(state.recent.load(load));
            self.partitions.insert(partition.owner, state);
        }
        let device =
            |front: Front, background: f64| map.map_or(sample.device, |map| map.at(front.read_parts(background)));
        // CR-5: the recent mix needs `share` of the device with nothing put off. So the device could keep up `1 /
        // share` times as much of it.
        let front = Front::of(&recents);
        let background: f64 = recents.iter().map(Load::background_need).sum();
        let share = front.share(&device(front, background), background);
        let writing = recents.iter().filter(|recent| recent.ingest >= WRITES).count().max(1);
        let idle = front.idle();
        let part = idle.background_at(&device(idle, 1.0), 1.0) / writing as f64;
        let rate = |(index, partition): (usize, &PartitionSample)| {
            let (load, recent, tree) = (&loads[index], &recents[index], &partition.tree);
            let buffers = knobs[index].write_buffers;
            let l0_score = tree.l0_runs as f64 / tree.l0_trigger.max(1) as f64;
            let seen = Seen {
                seconds: seconds[index],
                watermark: tree.watermark(buffers, tree.l0_mild()),
                brink: tree.watermark(buffers, tree.l0_stop.max(tree.l0_slow)),
                ingest: load.ingest,
                mean: recent.ingest,
                minute: load.average,
                sustainable: if share > 0.0 { recent.ingest / share } else { f64::INFINITY },
                fair: part / recent.amplification.max(1.0),
                buffers: (buffers * tree.memtable_bytes) as f64,
                quota: quota(partition),
                l0_score,
                worst_score: l0_score.max(tree.worst_level as f64 / 100.0),
            };
            let rate = self.partitions.get_mut(&partition.owner)?.limiter.step(&seen)?;
            rate.is_finite().then_some(rate as u64)
        };
        sample.partitions.iter().enumerate().map(rate).collect()
    }
}

/// Bytes per second that `partition`'s tenant may write by what it bought. For each unit these are more bytes than a
/// unit has, as the largest item of one unit comes with a key and a header.
fn quota(partition: &PartitionSample) -> f64 {
    match partition.capacity.wcu {
        0 => f64::INFINITY,
        units => units.saturating_mul(WCU_BYTES) as f64 * 1.25,
    }
}

impl DeferralPolicy for Cruise {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        for knob in &mut knobs.partitions {
            knob.write_buffers = knob.write_buffers.max(BUFFERS);
        }
        let rates = self.rates(sample, loads, &knobs.partitions);
        knobs.partitions.iter_mut().zip(rates).for_each(|(knob, rate)| knob.write_rate = rate);
        knobs.floor = (!knobs.node.limits.is_unlimited()).then_some(FLOOR);
        Never.decide(sample, loads, knobs);
    }

    fn is_atypical(&self, _: Owner) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
