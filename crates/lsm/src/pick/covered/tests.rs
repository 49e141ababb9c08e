//! Trees of lives: tables that are dropped were dead, and tables that are rewritten are rewritten once.

use proptest::prelude::*;

use weir_model::engine::{Deadlines, Urgency};
use weir_model::parts::{Life, cover_key};

use super::*;
use crate::options::TreeOptions;
use crate::pick::leveled::Leveled;
use crate::pick::{Claims, Picker};

/// A table by what is in it.
#[derive(Clone, Debug)]
struct Drawn {
    id: u64,
    level: usize,
    met: Seq,
    /// Parts: version and subkey.
    parts: BTreeSet<(u64, u8)>,
    /// Sequence number and bytes of covers, by version.
    covers: BTreeMap<u64, (Seq, u64)>,
    has_head: bool,
}

/// Bytes of a part here.
const PART: u64 = 100;

impl Drawn {
    fn new(id: u64, level: usize, parts: impl IntoIterator<Item = (u64, u8)>) -> Self {
        let parts = parts.into_iter().collect();
        Self { id, level, met: 0, parts, covers: BTreeMap::new(), has_head: false }
    }

    fn covering(self, version: u64, seq: Seq, bytes: u64) -> Self {
        let covers = [(version, (seq, bytes))].into();
        Self { covers, ..self }
    }

    fn meta(&self) -> TableMeta {
        let parts = self.parts.iter().map(|&(version, subkey)| Life::new(version).part(0, &[subkey]));
        let covers = self.covers.keys().map(|&version| cover_key(version).to_vec());
        let keys: BTreeSet<Vec<u8>> = parts.chain(covers).chain(self.has_head.then(|| b"\0head".to_vec())).collect();
        let raw_bytes = self.parts.len() as u64 * PART + self.covers.len() as u64 * COVER_BYTES;
        TableMeta {
            id: self.id,
            epoch: 1000 - self.id,
            bytes: raw_bytes,
            digest: 0,
            entries: keys.len() as u64,
            tombstones: 0,
            expiring: 0,
            smallest_seq: 0,
            largest_seq: 1,
            smallest: keys.first().expect("it has an entry").clone().into(),
            largest: keys.last().expect("it has an entry").clone().into(),
            raw_bytes,
            tombstone_bytes: 0,
            deadlines: Deadlines::default(),
        }
    }

    fn points(&self) -> Vec<CoverPoint> {
        let point = |(&version, &(seq, bytes)): (&u64, &(Seq, u64))| CoverPoint {
            first: version,
            last: version,
            seq,
            count: 1,
            bytes,
        };
        self.covers.iter().map(point).collect()
    }
}

/// Finds what is covered, and the tables to drop.
fn with_view<T>(tables: &[Drawn], claimed: &[u64], horizon: Seq, ask: impl FnOnce(&LevelsView<'_>) -> T) -> T {
    let facts: Vec<(TableMeta, Vec<CoverPoint>)> = tables.iter().map(|drawn| (drawn.meta(), drawn.points())).collect();
    let mut holders: [Vec<Holder<'_>>; LEVELS] = Default::default();
    for (drawn, (meta, covers)) in tables.iter().zip(&facts) {
        holders[drawn.level].push(Holder { meta, met: drawn.met, covers });
    }
    let (runs, deeper) = holders.split_at_mut(1);
    runs[0].sort_by_key(|run| std::cmp::Reverse(run.meta.epoch));
    deeper.iter_mut().for_each(|tables| tables.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest)));
    let covered = Covered::of(&holders, horizon).into();
    let claims = Claims { tables: claimed.iter().copied().collect(), ranges: Vec::new() };
    let levels = holders.map(|tables| tables.iter().map(|table| table.meta).collect());
    let urgency = Urgency::Idle;
    ask(&LevelsView {
        levels,
        claims: &claims,
        is_filling: false,
        flush_is_due: false,
        memtables_may_wait: true,
        now_ms: 0,
        horizon,
        urgency,
        disk_is_full: false,
        covered,
    })
}

fn dropped(tables: &[Drawn], claimed: &[u64], horizon: Seq) -> Vec<u64> {
    let pick = with_view(tables, claimed, horizon, pick);
    pick.map_or(Vec::new(), |pick| pick.inputs.iter().map(|(_, id)| *id).collect())
}

fn dead(tables: &[Drawn], id: u64) -> u64 {
    with_view(tables, &[], 100, |view| {
        let table = view.levels.iter().flatten().find(|table| table.id == id);
        view.covered.bytes_of(table.expect("it was drawn"))
    })
}

/// Life 5 over four tables: the first has another one before it, the last another one behind it.
fn large() -> Vec<Drawn> {
    vec![
        Drawn::new(1, 1, [(4, 0), (5, 0)]),
        Drawn::new(2, 1, [(5, 1), (5, 2)]),
        Drawn::new(3, 1, [(5, 3), (5, 4)]),
        Drawn::new(4, 1, [(5, 5), (6, 0)]),
        Drawn { met: 50, ..Drawn::new(9, 0, []).covering(5, 40, 6 * PART) },
    ]
}

#[test]
fn tables_that_lie_within_a_dead_life_are_dropped() {
    assert_eq!(dropped(&large(), &[], 100), [2, 3]);
    assert_eq!(dropped(&large(), &[2], 100), [3], "somebody has it");
    assert_eq!(dropped(&large(), &[], 39), [0_u64; 0], "not everybody sees the cover");
    assert_eq!(dropped(&large()[..4], &[], 100), [0_u64; 0], "it lives");
    let with_head: Vec<Drawn> = large().into_iter().map(|drawn| Drawn { has_head: true, ..drawn }).collect();
    assert_eq!(dropped(&with_head, &[], 100), [0_u64; 0]);
    let with_cover = [Drawn { met: 0, ..Drawn::new(1, 1, [(5, 1)]).covering(5, 40, PART) }];
    assert_eq!(dropped(&with_cover, &[], 100), [0_u64; 0], "the cover may be needed elsewhere");
}

#[test]
fn of_a_shared_point_nobody_knows_which_lives_it_covers() {
    let tables = large();
    let (metas, points) = (tables.iter().map(Drawn::meta).collect::<Vec<_>>(), tables[4].points());
    let shared = [CoverPoint { first: 4, ..points[0] }];
    let holder = |at: usize, covers| Holder { meta: &metas[at], met: tables[at].met, covers };
    let lower = (0..4).map(|at| holder(at, &[][..])).collect();
    let mut levels: [Vec<Holder<'_>>; LEVELS] = Default::default();
    (levels[0], levels[1]) = (vec![holder(4, &shared)], lower);
    let covered = Covered::of(&levels, 100);
    assert!(covered.whole.is_empty());
    let bytes: Vec<u64> = metas.iter().map(|meta| covered.bytes_of(meta)).collect();
    assert_eq!(bytes, [3 * PART / 2; 4].into_iter().chain([0]).collect::<Vec<_>>());
}

#[test]
fn what_a_cover_says_is_dead_is_dealt_out_to_the_tables_that_may_have_it() {
    assert_eq!([1, 2, 3, 4, 9].map(|id| dead(&large(), id)), [PART, 2 * PART, 2 * PART, PART, 0]);
    let mut met = large();
    (met[0].met, met[3].met) = (40, 39);
    assert_eq!([1, 4].map(|id| dead(&met, id)), [0, 2 * PART], "who has met the cover has nothing more");
    assert_eq!(dead(&met, 9), 0, "it is still needed");
    let met: Vec<Drawn> = large().into_iter().map(|drawn| Drawn { met: 40, ..drawn }).collect();
    assert_eq!([1, 2, 3, 4].map(|id| dead(&met, id)), [0; 4]);
    assert_eq!(dead(&met, 9), COVER_BYTES, "nothing is left to cover");
}

#[test]
fn a_cover_of_more_than_there_is_makes_all_of_a_table_dead() {
    let forged = Drawn { met: 50, ..Drawn::new(9, 0, []).covering(5, 40, u64::MAX) };
    // The cover in it has nothing left to cover, so that its own bytes are dead, too.
    let tables = [forged, Drawn::new(1, 1, [(5, 0)]).covering(7, 40, 0)];
    assert_eq!(dead(&tables, 1), PART + COVER_BYTES);
}

fn tables() -> impl Strategy<Value = Vec<Drawn>> {
    let part = (1_u64..6, 0_u8..6);
    let cover = (1_u64..6, (10_u64..60, 0_u64..2_000));
    let (parts, covers) =
        (proptest::collection::btree_set(part, 0..12), proptest::collection::btree_map(cover.0, cover.1, 0..3));
    let run = (parts, covers, 0_usize..4, any::<bool>(), prop_oneof![Just(0_u64), 10..60_u64]);
    proptest::collection::vec(run, 1..7).prop_map(|runs| {
        let mut tables: Vec<Drawn> = Vec::new();
        for (at, (mut parts, covers, level, has_head, met)) in runs.into_iter().enumerate() {
            // Each deeper level has its keys in one table or in several, which must not overlap.
            let id = at as u64 * 10;
            let is_taken = tables.iter().any(|table| table.level == level && level > 0);
            if is_taken || (parts.is_empty() && covers.is_empty()) {
                continue;
            }
            if level > 0 && covers.is_empty() && !has_head && parts.len() > 2 {
                let upper = parts.split_off(&parts.iter().nth(parts.len() / 2).copied().expect("it has several"));
                tables.push(Drawn { met, ..Drawn::new(id + 1, level, upper) });
            }
            tables.push(Drawn { id, level, met, parts, covers, has_head });
        }
        // Parts that are dead by a cover that their table has met are not in it.
        let mut known: BTreeMap<u64, Seq> = BTreeMap::new();
        for (&version, &(seq, _)) in tables.iter().flat_map(|table| &table.covers) {
            known.entry(version).and_modify(|least| *least = seq.min(*least)).or_insert(seq);
        }
        for table in &mut tables {
            let met = table.met;
            table.parts.retain(|(version, _)| known.get(version).is_none_or(|&seq| met < seq));
        }
        tables.retain(|table| !table.parts.is_empty() || !table.covers.is_empty());
        tables
    })
}

/// Lives that a cover says are over, for reads at `horizon`.
fn ended(tables: &[Drawn], horizon: Seq) -> BTreeSet<u64> {
    let covers = tables.iter().flat_map(|table| &table.covers);
    covers.filter(|(_, (seq, _))| *seq <= horizon).map(|(version, _)| *version).collect()
}

proptest! {
    #[test]
    fn nothing_that_lives_is_dropped_and_reclaiming_ends(tables in tables(), horizon in 0_u64..70) {
        let ended = ended(&tables, horizon);
        let mut tables = tables;
        let living = |tables: &[Drawn]| -> BTreeSet<(u64, u8)> {
            tables.iter().flat_map(|table| table.parts.clone()).filter(|(version, _)| !ended.contains(version)).collect()
        };
        let before = living(&tables);
        let options = TreeOptions { l0_trigger: 100, table_bytes: 256, level1_bytes: 1 << 20, ..TreeOptions::default() };
        for _ in 0..4 * (tables.len() + 1) {
            let drops = dropped(&tables, &[], horizon);
            tables.retain(|table| !drops.contains(&table.id));
            prop_assert_eq!(&living(&tables), &before);
            let Some(pick) = with_view(&tables, &[], horizon, |view| Leveled.compaction(view, weir_model::engine::Scope::All, &options))
            else {
                return Ok(());
            };
            // A merge: covered parts go, and so do covers that nobody else needs.
            let (inputs, mut rest): (Vec<Drawn>, Vec<Drawn>) =
                tables.into_iter().partition(|table| pick.inputs.contains(&(table.level, table.id)));
            prop_assert_eq!(inputs.len(), pick.inputs.len());
            let mut output = Drawn { met: horizon, ..Drawn::new(inputs[0].id, pick.output_level, []) };
            for input in inputs {
                output.parts.extend(input.parts.into_iter().filter(|(version, _)| !ended.contains(version)));
                output.has_head |= input.has_head;
                for (version, (seq, bytes)) in input.covers {
                    let point = CoverPoint { first: version, last: version, seq, count: 1, bytes };
                    let metas: Vec<(Seq, TableMeta)> = rest.iter().map(|table| (table.met, table.meta())).collect();
                    let is_needed = metas.iter().any(|(met, meta)| Holder { meta, met: *met, covers: &[] }.may_hold(&point));
                    if is_needed || seq > horizon {
                        output.covers.insert(version, (seq, bytes));
                    }
                }
            }
            if !output.parts.is_empty() || !output.covers.is_empty() {
                rest.push(output);
            }
            tables = rest;
            prop_assert_eq!(&living(&tables), &before);
        }
        prop_assert!(false, "it does not end: {tables:?}");
    }
}
