//! Random commands on HyperLogLogs. Their values are compared byte by byte.
//!
//! A `PFCOUNT` of one key is only among the written-out cases, because Redis notes in the value what it counts.

use weir_io::Rng;

use weir_node::EngineKind;

use super::{ALL_OF_IT, Family, KEYS, Pair, one_of};
use crate::differential::Redis;
use crate::support::world::World;

pub const FAMILY: Family = Family {
    name: "hyperloglogs",
    random,
    unordered: &[],
    reads: &["GET KEY", "PFCOUNT KEY KEY"],
    masked: ALL_OF_IT,
    cases: include_str!("hyperloglogs.txt"),
};

/// Either a few elements that come again, or many, so that values grow in sparse form, or are dense at once.
fn elements(rng: &mut Rng) -> Vec<String> {
    let (count, all) = match rng.below(8) {
        0 => (0, 1),
        1..=4 => (1 + rng.below(5), 100),
        5 => (rng.below(40), 1_000_000_000),
        6 => ([300, 300, 300, 3000][rng.below(4) as usize], 1_000_000_000),
        _ => (rng.below(20), 40),
    };
    let front = one_of(rng, &["", "", "element-", "a longer element with more bytes "]);
    (0..count).map(|_| format!("{front}{}", rng.below(all))).collect()
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(16) {
        0..=7 => {
            words.extend([one_of(rng, &["PFADD", "pfadd"]), key]);
            words.extend(elements(rng));
        }
        8 => {
            words.extend(["PFCOUNT".into(), key]);
            words.extend((0..1 + rng.below(3)).map(|_| one_of(rng, &KEYS)));
        }
        9 => {
            words.extend(["PFMERGE".into(), key]);
            words.extend((0..rng.below(3)).map(|_| one_of(rng, &KEYS)));
        }
        10 => words.extend(["GET".into(), key]),
        11 => words.extend(["DEL".into(), key]),
        12 => words.extend(["PFDEBUG".into(), one_of(rng, &["ENCODING", "decode", "bad"]), key]),
        13 if rng.chance(0.2) => words.extend(["PFDEBUG".into(), one_of(rng, &["GETREG", "TODENSE"]), key]),
        14 if rng.chance(0.1) => words.extend(["SADD".into(), key, "x".into()]),
        _ => {
            words.extend(["PFADD".into(), key]);
            words.extend(elements(rng));
        }
    }
    words
}

/// Adds one element at a time once a sparse value is about as long as it may be.
#[test]
fn values_grow_out_of_their_sparse_form_at_the_same_element() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    drop(world.tenant_on(EngineKind::ALL[0], "grows", 1, 0));
    let mut pair = Pair {
        redis: redis.connect(),
        weir: world.connect("grows"),
        unordered: &[],
        masked: ALL_OF_IT,
        asked: Vec::new(),
    };
    for key in 0..8 {
        let mut words = vec!["PFADD".to_owned(), key.to_string()];
        words.extend((0..1100).map(|number| format!("{key}-{number}")));
        pair.ask(&words);
        for number in 1100..1700 {
            pair.say(&format!("PFADD {key} {key}-{number}"));
            pair.say(&format!("STRLEN {key}"));
        }
        pair.say(&format!("GET {key}"));
        assert_eq!(pair.weir.say(&format!("PFDEBUG ENCODING {key}")), "+dense\r\n");
    }
}
