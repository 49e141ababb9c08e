//! Random commands on sets.

use weir_io::Rng;
use weir_node::EngineKind;

use super::{ALL_OF_IT, Family, KEYS, one_of};
use crate::support::world::World;

pub const FAMILY: Family = Family {
    name: "sets",
    random,
    unordered: &["SMEMBERS", "SSCAN", "SRANDMEMBER", "SPOP", "SINTER", "SUNION", "SDIFF"],
    reads: &["SMEMBERS KEY", "SCARD KEY", "SSCAN KEY 0 COUNT 100000"],
    masked: ALL_OF_IT,
    cases: include_str!("sets.txt"),
};

fn member(rng: &mut Rng) -> String {
    match rng.below(9) {
        0 => one_of(rng, &["", "m", "01", "-0", "a member\r\nof two lines", "9223372036854775807", "-1"]),
        1..=5 => rng.below(30).to_string(),
        _ => format!("m{}", rng.below(20)),
    }
}

/// Up to 700 members, of which `part` are kept: numbers alone (a set of integers), or with a letter in front.
fn many(rng: &mut Rng, part: f64) -> Vec<String> {
    let front = one_of(rng, &["", "", "m"]);
    let all = rng.below(700);
    (0..all).filter(|_| rng.chance(part)).map(|number| format!("{front}{number}")).chain(["1".into()]).collect()
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(27) {
        0..=5 => {
            words.extend([one_of(rng, &["SADD", "SADD", "sadd"]), key]);
            words.extend((0..1 + rng.below(4)).map(|_| member(rng)));
        }
        // Enough members to spread the row, and more numbers than Redis keeps as such.
        6 => {
            let part = [0.1, 0.3, 0.9][rng.below(3) as usize];
            words.extend(["SADD".into(), key]);
            words.extend(many(rng, part));
        }
        7 | 8 => {
            words.extend(["SREM".into(), key]);
            words.extend((0..1 + rng.below(4)).map(|_| member(rng)));
        }
        9 => {
            words.extend(["SREM".into(), key]);
            words.extend(many(rng, 0.5));
        }
        10 => words.extend(["SISMEMBER".into(), key, member(rng)]),
        11 => words.extend(["SMISMEMBER".into(), key, member(rng), member(rng), member(rng)]),
        12 => words.extend([one_of(rng, &["SCARD", "SMEMBERS"]), key]),
        13 | 14 => words.extend(["SMOVE".into(), key, one_of(rng, &KEYS), member(rng)]),
        15 | 16 => {
            words.extend([one_of(rng, &["SINTER", "SUNION", "SDIFF"]), key]);
            words.extend((0..rng.below(4)).map(|_| one_of(rng, &KEYS)));
        }
        17..=19 => {
            words.extend([one_of(rng, &["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE", "SDIFFSTORE"]), key]);
            words.extend((0..1 + rng.below(3)).map(|_| one_of(rng, &KEYS)));
        }
        20 => {
            words.extend(["SINTERCARD".into(), one_of(rng, &["1", "2", "2", "2", "3", "0", "x"]), key]);
            words.extend((0..rng.below(3)).map(|_| one_of(rng, &KEYS)));
            if rng.chance(0.5) {
                words.extend(["LIMIT".into(), one_of(rng, &["0", "1", "3", "1000", "-1", "x"])]);
            }
        }
        21 => {
            words.extend(["SSCAN".into(), key, one_of(rng, &["0", "0", "x"]), "COUNT".into(), "100000".into()]);
            if rng.chance(0.5) {
                words.extend(["MATCH".into(), one_of(rng, &["*", "1*", "[^m]*", "m?"])]);
            }
            if rng.chance(0.1) {
                words.push(one_of(rng, &["COUNT", "NOVALUES", "bad"]));
            }
        }
        22 => {
            let name = one_of(rng, &["SADD", "SREM", "SISMEMBER", "SMISMEMBER", "SMOVE", "SINTERSTORE", "SINTERCARD"]);
            words.extend([name, key]);
        }
        // More than there are, because a random choice cannot be compared.
        23 => {
            words.extend(["SRANDMEMBER".into(), key, one_of(rng, &["0", "5000", "9000", "x", "9223372036854775807"])]);
        }
        24 if rng.chance(0.2) => words.extend(["SPOP".into(), key, one_of(rng, &["0", "5000", "9000", "x", "-1"])]),
        _ => words.extend(["SADD".into(), key, member(rng)]),
    }
    words
}

/// Members that come and go leave many versions of their keys in a memtable.
#[test]
fn a_member_that_comes_and_goes_is_gone_in_the_end() {
    let world = World::new();
    for engine in [EngineKind::Lsm, EngineKind::Memory] {
        let mut client = world.tenant_on(engine, &format!("guests-{engine}"), 1, 0);
        let members = |with: &dyn Fn(u32) -> String| (100..400).map(with).collect::<Vec<_>>().join(" ");
        for row in [
            format!("SADD set {}", members(&|number| format!("m{number}"))),
            format!("ZADD zset {}", members(&|number| format!("{number} m{number}"))),
            format!("HSET hash {}", members(&|number| format!("m{number} v"))),
        ] {
            assert_eq!(client.say(&row), ":300\r\n");
        }
        for _ in 0..40 {
            for line in ["SREM set m100", "SADD set m100", "ZREM zset m100", "ZADD zset 100 m100"] {
                assert_eq!(client.say(line), ":1\r\n", "{line}");
            }
            for line in ["HDEL hash m100", "HSET hash m100 v"] {
                assert_eq!(client.say(line), ":1\r\n", "{line}");
            }
        }
        for line in ["SREM set m100", "ZREM zset m100", "HDEL hash m100"] {
            assert_eq!(client.say(line), ":1\r\n", "{line}");
        }
        for line in ["SMEMBERS set", "SSCAN set 0 COUNT 1000", "ZRANGE zset 0 -1", "HGETALL hash"] {
            let reply = client.say(line);
            assert!(reply.contains("m101\r\n") && !reply.contains("m100\r\n"), "{engine}, {line}: {reply}");
        }
        assert_eq!(client.say("SUNIONSTORE copy set"), ":299\r\n", "{engine}");
        assert_eq!(client.say("ZPOPMIN zset"), "*2\r\n$4\r\nm101\r\n$3\r\n101\r\n", "{engine}");
        assert_eq!(client.say("ZCARD zset"), ":298\r\n", "{engine}");
    }
}
