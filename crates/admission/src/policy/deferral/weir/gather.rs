//! How many memtables become one run, and how many memtables a tree may have.

use std::collections::BTreeSet;

use crate::policy::INTRA_L0_FAN_IN;
use crate::policy::forecast::{Tokens, gather};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample, TreeFacts};

/// Memtables that become one run, at most: twelve make a run of level 0 last twelve times as long.
const MEMTABLES_MAX: u64 = 12;
/// Memtables of a partition, at most: twelve that wait, as many that fill while those are flushed, and one.
const BUFFERS_MAX: u64 = 25;
/// How much of the memory for memtables the buffers of all trees that write may add up to, in percent, where there are
/// many such trees. It is more than there is (U-20 has 80), because trees never fill all of their buffers together
/// ([`fill`]). With less, fewer memtables make a run (`docs/benchmarks/shortage.md` has the figures).
const MEMORY_PERCENT_MAX: f64 = 190.0;
/// The part of the memory that tenants above their share may use (U-15): three quarters, less what memtables book
/// beyond their size.
const ABOVE_SHARE: f64 = 0.7;
/// A run may be larger than its memtables, by this part of them: the last write into a memtable overfills it, and a
/// table fills some of its blocks up to whole pages.
const RUN_EXCESS: u64 = 16;
/// A sealed memtable is flushed after at most this many seconds, however little was gathered. The tree's picker does
/// so, in `lsm/src/pick/leveled.rs`, which this crate does not see.
const GATHER_SECONDS: f64 = 60.0;
/// Once this share of the memory is in use, nobody gathers any more.
const MEMORY_FULL_PERCENT: u64 = 90;

/// How a partition gathers memtables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// How many sealed memtables a flush waits for.
    pub memtables: u64,
    /// Memtables allowed.
    pub buffers: u64,
}

/// Memtables of `tree` that become one run, at most. Four such runs fit into a merge within level 0: larger ones would
/// be in no merge, and level 0 would only grow in stage two. (Where more have filled by the time the flush begins, it
/// takes up to twelve: to make room for writes is more urgent.)
fn memtables_max(tree: &TreeFacts) -> u64 {
    if tree.l0_merge_bytes_max == 0 {
        return MEMTABLES_MAX;
    }
    let memtable = tree.memtable_bytes + tree.memtable_bytes / RUN_EXCESS;
    (tree.l0_merge_bytes_max / INTRA_L0_FAN_IN / memtable.max(1)).clamp(1, MEMTABLES_MAX)
}

/// The largest part of their buffers that `trees` trees have full at a time, where all have equally many buffers.
///
/// At worst all fill theirs at the same moment. Then their flushes begin with one half of the buffers full. As flushes
/// go one after the other ([`super::flush_order`]), the first tree has given back that half before it has filled the
/// other one. From then on as much comes back as is filled. A tree alone fills all of its buffers.
fn fill(trees: f64) -> f64 {
    0.5 + 0.5 / trees.max(1.0)
}

/// Share of the memory for memtables that the buffers of `trees` trees of `tenants` tenants may take together, in
/// percent.
///
/// A tree alone fills all of its buffers now and then, and its tenant may not have all of the memory. When a single
/// tree could count on as much as many trees may, its writes waited for memory towards the end of each flush.
fn memory_percent(trees: u64, tenants: u64) -> u64 {
    // What tenants within their shares use: a share is counted as if one more tenant were about to come.
    let within_share = tenants as f64 / (tenants + 1) as f64;
    (100.0 * within_share.max(ABOVE_SHARE) / fill(trees as f64)).min(MEMORY_PERCENT_MAX) as u64
}

/// Bytes of buffers that a tree fills at most. A tree that gathers the full number of memtables for a run fills all
/// buffers that it may have. A tree that writes less fills its active memtable, what comes until the memtable that was
/// sealed first has waited for as long as it may, and what comes while that one is flushed.
fn fillable(tree: &TreeFacts, load: &Load, tokens: &Tokens) -> f64 {
    let memtable = tree.memtable_bytes.max(1) as f64;
    // The busiest second would say too much of a tree that is written a few times a minute.
    let ingest = load.ingest.max(load.average.unwrap_or(0.0));
    let waiting = 1.0 + ingest * GATHER_SECONDS / memtable;
    let while_flushing = if tokens.flush > 0.0 { (load.ingest / tokens.flush).min(1.0) } else { 1.0 };
    let buffers = if waiting < MEMTABLES_MAX as f64 { waiting * (1.0 + while_flushing) } else { BUFFERS_MAX as f64 };
    memtable * buffers
}

/// The max-min fair part of `all` bytes among trees that can fill `fillable` bytes each: a tree that fills less leaves
/// the rest to the others. What nobody fills is for a tree that comes to write more.
fn max_min_fair(mut fillable: Vec<f64>, all: f64) -> f64 {
    fillable.sort_by(f64::total_cmp);
    let (mut left, mut trees) = (all, fillable.len());
    for &fills in &fillable {
        if fills * trees as f64 >= left {
            return left / trees as f64;
        }
        (left, trees) = (left - fills, trees - 1);
    }
    fillable.last().map_or(all, |largest| largest + left)
}

/// Bytes of buffers for each tree that writes, of `max`. Each has an equal part, within its tenant's share. It has more
/// where others write little and cannot fill theirs: then some are above their share.
fn each(max: u64, tenants: u64, fillable: Vec<f64>) -> u64 {
    let trees = fillable.len().max(1) as u64;
    let equal = max * memory_percent(trees, tenants) / 100 / trees;
    let largest = fillable.iter().copied().fold(1.0, f64::max);
    let as_many_as_largest = fillable.iter().sum::<f64>() / largest;
    let above_share = (ABOVE_SHARE / fill(as_many_as_largest)).min(MEMORY_PERCENT_MAX / 100.0);
    // Saturates.
    equal.max(max_min_fair(fillable, max as f64 * above_share) as u64)
}

/// How every partition gathers, in the order of the sample. While the node is not `short`, each has what is configured.
pub fn choose(sample: &Sample, loads: &[Load], tokens: &[Tokens], short: bool) -> Vec<Gathering> {
    let memory = sample.memory;
    let is_full = memory.buffers_max.is_some_and(|max| memory.buffers_used * 100 >= max * MEMORY_FULL_PERCENT);
    let writes = |load: &Load| load.ingest > 0.0;
    let all = || sample.partitions.iter().zip(loads.iter().zip(tokens)).filter(|(_, (load, _))| writes(load));
    let tenants: BTreeSet<u32> = all().map(|(partition, _)| partition.owner.tenant).collect();
    let each = memory.buffers_max.map(|max| {
        let fillable = all().map(|(partition, (load, tokens))| fillable(&partition.tree, load, tokens)).collect();
        each(max, tenants.len() as u64, fillable)
    });
    let of = |(partition, (load, tokens)): (&PartitionSample, (&Load, &Tokens))| {
        let tree = &partition.tree;
        let affordable = each.map_or(BUFFERS_MAX, |bytes| bytes / tree.memtable_bytes.max(1));
        let more = affordable.min(BUFFERS_MAX).max(tree.write_buffers);
        let memtables = match short && writes(load) && !is_full {
            true => gather(load.ingest, tokens.flush, more, memtables_max(tree)),
            false => 1,
        };
        let wanted = if memtables > 1 { more } else { tree.write_buffers };
        // Buffers that are in use already are given back as they are flushed. So no tree is stopped by a buffer that it
        // was given, and the flushes of all trees are not urgent at once because they have fewer buffers from now on
        // (U-11: while all but two are full, flushes go before reads).
        let held = if tree.sealed + 2 >= wanted { tree.write_buffers_now } else { wanted };
        Gathering { memtables, buffers: wanted.max(held) }
    };
    sample.partitions.iter().zip(loads.iter().zip(tokens)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use weir_io::Owner;

    use super::*;
    use crate::limits::Limits;
    use crate::policy::sample::MemoryFacts;

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
    fn four_runs_fit_into_a_merge_within_level_0() {
        let most = |mib: u64, l0_merge_bytes_max: u64| {
            memtables_max(&TreeFacts { memtable_bytes: mib << 20, l0_merge_bytes_max, ..TreeFacts::default() })
        };
        assert_eq!([16, 40, 64, 128].map(|mib| most(mib, 2 << 30)), [12, 12, 7, 3]);
        assert_eq!(most(1024, 2 << 30), 1, "a memtable is a run");
        assert_eq!(most(64, 0), 12, "the bound is not known");
    }

    #[test]
    fn few_trees_leave_room_for_all_of_their_buffers_and_many_count_on_the_others() {
        let percent = [1, 2, 4, 6, 16, 1000].map(|trees| memory_percent(trees, trees));
        assert_eq!(percent, [70, 93, 128, 146, 177, 190]);
        assert_eq!(memory_percent(16, 1), 131, "of one tenant, which may not have all of it");
        assert_eq!(memory_percent(0, 0), 70);
    }

    #[test]
    fn buffers_are_given_back_as_they_are_flushed() {
        assert_eq!(chosen(None, 0, 7, false), (1, 25));
        assert_eq!([chosen(None, 0, 2, false), chosen(None, 0, 1, false)], [(1, 25), (1, 4)]);
    }

    /// Trees of different tenants write `ingests` bytes a second into memtables of 16 bytes, and have `buffers_max`
    /// bytes of memory; flushes write twice as fast. Gives how the first and the last of them gather.
    fn first_and_last(buffers_max: u64, ingests: &[f64]) -> [(u64, u64); 2] {
        let tree = TreeFacts { memtable_bytes: 16, write_buffers: 4, write_buffers_now: 4, ..TreeFacts::default() };
        let of =
            |tenant| PartitionSample { owner: Owner { tenant, partition: tenant }, tree, ..PartitionSample::default() };
        let sample = Sample {
            now: 0,
            device: Limits::bytes(1000),
            memory: MemoryFacts { buffers_max: Some(buffers_max), ..MemoryFacts::default() },
            partitions: (0..ingests.len() as u32).map(of).collect(),
        };
        let loads: Vec<Load> = ingests.iter().map(|&ingest| Load { ingest, ..Load::default() }).collect();
        let tokens: Vec<Tokens> = ingests.iter().map(|ingest| Tokens { flush: 2.0 * ingest, merge: 0.0 }).collect();
        let chosen = choose(&sample, &loads, &tokens, true);
        [chosen[0], chosen[ingests.len() - 1]].map(|of| (of.memtables, of.buffers))
    }

    #[test]
    fn who_writes_little_leaves_its_part_to_those_who_fill_theirs() {
        assert_eq!(first_and_last(2000, &[100.0; 20]), [(6, 11); 2], "all alike: 181 % of 125 buffers");
        let mut ingests = [0.01; 20];
        ingests[..2].fill(100.0);
        assert_eq!(first_and_last(2000, &ingests)[0], (12, 25), "two burst");
        ingests[..8].fill(100.0);
        assert_eq!(first_and_last(2000, &ingests)[0], (10, 17), "eight do: 125 buffers, less 19 that twelve fill");
    }

    #[test]
    fn what_others_do_not_fill_is_dealt_out_evenly() {
        assert_eq!(max_min_fair(vec![9.0, 1.0, 1.0, 1.0], 12.0), 9.0);
        assert_eq!(max_min_fair(vec![10.0, 1.0, 10.0, 1.0], 12.0), 5.0);
        assert_eq!(max_min_fair(vec![10.0, 10.0], 12.0), 6.0);
        assert_eq!(max_min_fair(vec![1.0, 2.0], 9.0), 8.0, "one may come to write more");
        assert_eq!(max_min_fair(Vec::new(), 9.0), 9.0);
    }
}
