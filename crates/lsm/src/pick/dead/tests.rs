//! Trees whose keys and times of expiry are known: tables may be dropped if that changes no answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use weir_model::engine::{Counter, Urgency};

use super::*;
use crate::pick::Claims;

const NOW_MS: u64 = 1_000;

/// What a table has for each of some keys: a tombstone, or a value until that time (0 = for ever).
type Entries = BTreeMap<u8, Option<u64>>;

fn meta(id: u64, level: usize, entries: &Entries) -> TableMeta {
    let mut counter = Counter::new(NOW_MS);
    let expiring = entries.values().flatten().filter(|at| **at > 0);
    expiring.clone().for_each(|at| counter.add(*at, 1));
    let tombstones = entries.values().filter(|value| value.is_none()).count() as u64;
    TableMeta {
        id,
        epoch: if level == 0 { 100 - id } else { 0 },
        bytes: entries.len() as u64,
        digest: 0,
        entries: entries.len() as u64,
        tombstones,
        expiring: expiring.count() as u64,
        smallest_seq: 1,
        largest_seq: 1,
        smallest: [*entries.keys().next().expect("an entry")].into(),
        largest: [*entries.keys().last().expect("an entry")].into(),
        raw_bytes: entries.len() as u64,
        tombstone_bytes: tombstones,
        deadlines: counter.finish(),
    }
}

/// What a read of each key finds: the newest version decides.
fn read<'a>(tables: impl Iterator<Item = &'a Entries>) -> Vec<u8> {
    let mut seen = Entries::new();
    for (key, value) in tables.flatten() {
        seen.entry(*key).or_insert(*value);
    }
    let lives = |value: &Option<u64>| value.is_some_and(|at| at == 0 || at > NOW_MS);
    seen.into_iter().filter(|(_, value)| lives(value)).map(|(key, _)| key).collect()
}

fn tables() -> impl Strategy<Value = Vec<Entries>> {
    let value = prop_oneof![Just(None), Just(Some(0)), Just(Some(NOW_MS)), Just(Some(NOW_MS)), Just(Some(NOW_MS + 1))];
    proptest::collection::vec(proptest::collection::btree_map(0_u8..12, value, 1..4), 1..9)
}

proptest! {
    /// The first tables are runs of level 0, the newest first; each of the others is a level of its own.
    #[test]
    fn no_answer_changes(tables in tables(), runs in 0_usize..9, claimed in proptest::collection::btree_set(0_u64..9, 0..3)) {
        let level_of = |index: usize| if index < runs { 0 } else { (index - runs + 1).min(LEVELS) };
        let there: Vec<(usize, &Entries)> = tables.iter().enumerate().filter(|(index, _)| level_of(*index) < LEVELS).collect();
        let metas: Vec<(usize, TableMeta)> =
            there.iter().map(|&(index, entries)| (level_of(index), meta(index as u64, level_of(index), entries))).collect();
        let levels = std::array::from_fn(|level| metas.iter().filter(|(at, _)| *at == level).map(|(_, meta)| meta).collect());
        let claims = Claims { tables: claimed.clone(), ranges: Vec::new() };
        let levels_view = LevelsView { levels, claims: &claims, is_filling: false, flush_is_due: false, memtables_may_wait: true, now_ms: NOW_MS, horizon: 0, urgency: Urgency::Idle, disk_is_full: false, covered: Arc::default() };
        let dropped: Vec<u64> = pick(&levels_view).map_or(Vec::new(), |pick| pick.inputs.iter().map(|(_, id)| *id).collect());
        let is_dropped = |index: usize| dropped.contains(&(index as u64));
        let left = there.iter().filter(|(index, _)| !is_dropped(*index)).map(|(_, entries)| *entries);
        prop_assert_eq!(read(left), read(there.iter().map(|(_, entries)| *entries)));
        prop_assert!(dropped.iter().all(|id| !claimed.contains(id)));
        // And tables that can go do: dead ones that nobody has claimed, with nothing older at all.
        if let Some((index, oldest)) = there.last() {
            let is_dead = oldest.values().all(|value| value.is_none() || *value == Some(NOW_MS));
            prop_assert_eq!(is_dropped(*index), is_dead && !claimed.contains(&(*index as u64)));
        }
    }
}
