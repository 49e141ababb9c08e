//! How many memtables become one run, and how many there may be.

use std::collections::BTreeSet;

use crate::policy::forecast::{Tokens, gather};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Memtables that become one run, at most: twelve make a run of level 0 last twelve times as long.
const MEMTABLES_MAX: u64 = 12;
/// Memtables of a partition, at most: twelve that wait, as many that fill during their flush, and one.
const BUFFERS_MAX: u64 = 25;
/// Share of the memory for memtables that buffers may take if all who write fill all of theirs, in percent, where many
/// do. More than there is (U-20 has 80), for they never do: a tree that gathers has half of what it gathers, on
/// average, and what fills while that is flushed. With 80 too few memtables make a run; with 125 writes begin to wait
/// for memory (`docs/benchmarks/shortage.md` has the figures).
const MEMORY_PERCENT_MAX: f64 = 115.0;
/// What a tree has of its buffers on average, as a part of them; and how far above that one tree alone is at times. The
/// more trees, the nearer to the average all of them together stay: by the root of their number.
const MEAN_FILL: f64 = 0.55;
const FILL_ABOVE_MEAN: f64 = 0.45;
/// What tenants above their share may use of the memory (U-15), three quarters, less what memtables book beyond their
/// size.
const ABOVE_SHARE: f64 = 0.7;
/// From this share in use nobody gathers any more.
const MEMORY_FULL_PERCENT: u64 = 90;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// Memtables that a flush waits for.
    pub memtables: u64,
    /// Memtables allowed.
    pub buffers: u64,
}

/// Share of the memory for memtables that the buffers of `trees` of so many `tenants` may take together, in percent.
///
/// A tree alone fills all of its buffers now and then, and its tenant may not have all of the memory: with as much as
/// many trees may have, its writes waited for memory towards the end of each flush.
fn memory_percent(trees: u64, tenants: u64) -> u64 {
    // Each of them within its share, which is counted as if one more were about to come.
    let within_share = tenants as f64 / (tenants + 1) as f64;
    let fill = MEAN_FILL + FILL_ABOVE_MEAN / (trees.max(1) as f64).sqrt();
    (100.0 * within_share.max(ABOVE_SHARE) / fill).min(MEMORY_PERCENT_MAX) as u64
}

/// For every partition, in the order of the sample. While the node is not `short`, each has what is configured.
pub fn choose(sample: &Sample, loads: &[Load], tokens: &[Tokens], short: bool) -> Vec<Gathering> {
    let memory = sample.memory;
    let is_full = memory.buffers_max.is_some_and(|max| memory.buffers_used * 100 >= max * MEMORY_FULL_PERCENT);
    let writes = |load: &Load| load.ingest > 0.0;
    let all = || sample.partitions.iter().zip(loads).filter(|(_, load)| writes(load));
    let writers = all().count().max(1) as u64;
    let tenants: BTreeSet<u32> = all().map(|(partition, _)| partition.owner.tenant).collect();
    let percent = memory_percent(writers, tenants.len() as u64);
    let each = memory.buffers_max.map(|max| max * percent / 100 / writers);
    let of = |(partition, (load, tokens)): (&PartitionSample, (&Load, &Tokens))| {
        let tree = &partition.tree;
        let affordable = each.map_or(BUFFERS_MAX, |bytes| bytes / tree.memtable_bytes.max(1));
        let more = affordable.min(BUFFERS_MAX).max(tree.write_buffers);
        let memtables = match short && writes(load) && !is_full {
            true => gather(load.ingest, tokens.flush, more, MEMTABLES_MAX),
            false => 1,
        };
        let wanted = if memtables > 1 { more } else { tree.write_buffers };
        // What is there already is given back as it is flushed: nobody is stopped by a buffer that he was given, nor
        // are the flushes of all trees in a hurry at once because they have fewer from now on (U-11: while all but two
        // are full they go before reads).
        let held = if tree.sealed + 2 >= wanted { tree.write_buffers_now } else { wanted };
        Gathering { memtables, buffers: wanted.max(held) }
    };
    sample.partitions.iter().zip(loads.iter().zip(tokens)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::policy::sample::{MemoryFacts, TreeFacts};

    fn chosen(buffers_max: Option<u64>, used: u64, sealed: u64, short: bool) -> (u64, u64) {
        let tree = TreeFacts {
            memtable_bytes: 16,
            write_buffers: 4,
            write_buffers_now: if sealed > 0 { 25 } else { 4 },
            sealed,
            ..TreeFacts::default()
        };
        let sample = Sample {
            now: 0,
            device: Limits::bytes(1000),
            memory: MemoryFacts { buffers_used: used, buffers_max, ..MemoryFacts::default() },
            partitions: vec![PartitionSample { tree, ..PartitionSample::default() }],
        };
        let load = Load { ingest: 3.0, ..Load::default() };
        let [chosen] = choose(&sample, &[load], &[Tokens { flush: 6.0, merge: 0.0 }], short)[..] else { panic!("one") };
        (chosen.memtables, chosen.buffers)
    }

    #[test]
    fn twelve_in_25_if_there_is_memory() {
        assert_eq!(chosen(None, 0, 0, true), (12, 25));
        assert_eq!(chosen(None, 0, 0, false), (1, 4));
        assert_eq!(chosen(Some(1000), 0, 0, true), (12, 25));
        assert_eq!(chosen(Some(140), 0, 0, true), (3, 6), "70 % are six buffers");
        assert_eq!(chosen(Some(1000), 900, 0, true), (1, 4), "U-20");
    }

    #[test]
    fn few_trees_leave_room_for_all_of_their_buffers_and_many_count_on_the_others() {
        let percent = [1, 2, 4, 6, 16, 1000].map(|trees| memory_percent(trees, trees));
        assert_eq!(percent, [70, 80, 103, 115, 115, 115]);
        assert_eq!(memory_percent(16, 1), 105, "of one tenant, which may not have all of it");
        assert_eq!(memory_percent(0, 0), 70);
    }

    #[test]
    fn buffers_are_given_back_as_they_are_flushed() {
        assert_eq!(chosen(None, 0, 7, false), (1, 25));
        assert_eq!([chosen(None, 0, 2, false), chosen(None, 0, 1, false)], [(1, 25), (1, 4)]);
    }
}
