//! Random commands on sorted sets.

use weir_io::Rng;

use super::{ALL_OF_IT, Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "zsets",
    random,
    unordered: &["ZSCAN", "ZRANDMEMBER"],
    reads: &[
        "ZRANGE KEY 0 -1 WITHSCORES",
        "ZCARD KEY",
        "ZREVRANGE KEY 0 -1",
        "ZSCAN KEY 0 COUNT 100000",
        "OBJECT ENCODING KEY",
        "ZRANGE names 0 -1",
    ],
    masked: ALL_OF_IT,
    cases: include_str!("zsets.txt"),
};

/// A set whose members have the same score, because only then there is an order by names.
const NAMES: &str = "names";

fn member(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => one_of(rng, &["", "m", "12", "a member\r\nof two lines"]),
        1 if rng.chance(0.05) => "long".repeat(20),
        1..=6 => format!("m{}", rng.below(20)),
        _ => format!("member-{}", rng.below(900)),
    }
}

fn score(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => one_of(
            rng,
            &["inf", "-inf", "+inf", "1e17", "-0", "0", "0.1", "3.0", "1e-7", "123456789012345678", "5e-324"],
        ),
        1 => one_of(rng, &["1e400", "nan", "x", "", " 1", "1e-400", "-1e22", ".5", "2."]),
        2..=5 => rng.below(10).to_string(),
        6 => format!("{}", rng.below(1000) as f64 / 7.0),
        _ => (rng.below(2000) as i64 - 1000).to_string(),
    }
}

fn end(rng: &mut Rng) -> String {
    let open = if rng.chance(0.3) { "(" } else { "" };
    match rng.below(6) {
        0 => one_of(rng, &["-inf", "+inf", "inf", "-inf"]),
        1 => one_of(rng, &["x", "", "nan", " 3", "(", "1e400", "-0"]),
        _ => format!("{open}{}", rng.below(1600) as i64 - 800),
    }
}

fn name_end(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => one_of(rng, &["-", "+", "-", "+", "x", "", "+a"]),
        _ => format!("{}{}", one_of(rng, &["[", "("]), member(rng)),
    }
}

fn rank(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => one_of(rng, &["x", "9223372036854775807", "-9223372036854775808", "1.5"]),
        1..=3 => (rng.below(12) as i64 - 6).to_string(),
        _ => (rng.below(900) as i64 - 450).to_string(),
    }
}

fn limit(rng: &mut Rng, words: &mut Vec<String>) {
    if rng.chance(0.4) {
        let offset = one_of(rng, &["0", "0", "1", "7", "120", "-1", "x"]);
        words.extend(["LIMIT".into(), offset, one_of(rng, &["5", "-1", "0", "40", "700", "-7"])]);
    }
    if rng.chance(0.02) {
        words.push(one_of(rng, &["LIMIT", "BYLEX", "BYSCORE", "REV", "bad"]));
    }
}

fn scores_too(rng: &mut Rng, words: &mut Vec<String>) {
    if rng.chance(0.5) {
        words.push(one_of(rng, &["WITHSCORES", "withscores"]));
    }
}

fn add(rng: &mut Rng, key: String) -> Vec<String> {
    let mut words = vec![one_of(rng, &["ZADD", "ZADD", "zadd"]), key];
    while rng.chance(0.25) {
        words.push(one_of(rng, &["NX", "XX", "GT", "LT", "CH", "INCR", "ch", "gt"]));
    }
    for _ in 0..1 + rng.below(3) {
        words.extend([score(rng), member(rng)]);
    }
    if rng.chance(0.03) {
        words.push("odd".into());
    }
    words
}

fn ranges(rng: &mut Rng, key: String) -> Vec<String> {
    let mut words = Vec::new();
    match rng.below(9) {
        0 | 1 => {
            words.extend([one_of(rng, &["ZRANGE", "ZREVRANGE"]), key, rank(rng), rank(rng)]);
            scores_too(rng, &mut words);
        }
        2 | 3 => {
            words.extend([one_of(rng, &["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]), key, end(rng), end(rng)]);
            scores_too(rng, &mut words);
            limit(rng, &mut words);
        }
        4 => {
            words.extend([one_of(rng, &["ZRANGEBYLEX", "ZREVRANGEBYLEX"]), NAMES.into(), name_end(rng), name_end(rng)]);
            limit(rng, &mut words);
        }
        5 => {
            words.extend(["ZRANGE".into(), key, end(rng), end(rng), "BYSCORE".into()]);
            words.extend((0..rng.below(2)).map(|_| "REV".into()));
            limit(rng, &mut words);
            scores_too(rng, &mut words);
        }
        6 => {
            words.extend(["ZRANGE".into(), NAMES.into(), name_end(rng), name_end(rng), "BYLEX".into()]);
            words.extend((0..rng.below(2)).map(|_| "REV".into()));
            limit(rng, &mut words);
        }
        7 => {
            words.extend(["ZRANGE".into(), key, rank(rng), rank(rng), "REV".into()]);
            scores_too(rng, &mut words);
        }
        _ => {
            words.extend(["ZRANGESTORE".into(), one_of(rng, &KEYS), key]);
            match rng.below(3) {
                0 => words.extend([rank(rng), rank(rng)]),
                1 => {
                    words.extend([end(rng), end(rng), "BYSCORE".into()]);
                    limit(rng, &mut words);
                }
                _ => words.extend([
                    end(rng),
                    end(rng),
                    "BYSCORE".into(),
                    "REV".into(),
                    "LIMIT".into(),
                    "2".into(),
                    "9".into(),
                ]),
            }
        }
    }
    words
}

fn combine(rng: &mut Rng) -> Vec<String> {
    let name = one_of(
        rng,
        &["ZUNION", "ZINTER", "ZDIFF", "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE", "ZINTERCARD", "zunionstore"],
    );
    let mut words = vec![name.clone()];
    if name.to_uppercase().ends_with("STORE") {
        words.push(one_of(rng, &KEYS));
    }
    // More than two would be summed up in an order that depends on the machine.
    let count = 1 + rng.below(2);
    words.push(if rng.chance(0.05) { one_of(rng, &["0", "-1", "x", "9"]) } else { count.to_string() });
    words.extend((0..count).map(|_| if rng.chance(0.1) { "none".into() } else { one_of(rng, &KEYS) }));
    if rng.chance(0.3) {
        words.push("WEIGHTS".into());
        words.extend((0..count).map(|_| one_of(rng, &["1", "2", "-1.5", "0", "inf", "0.1", "x"])));
    }
    if rng.chance(0.3) {
        words.extend(["AGGREGATE".into(), one_of(rng, &["SUM", "MIN", "MAX", "min", "bad"])]);
    }
    if rng.chance(0.2) {
        words.push("WITHSCORES".into());
    }
    if rng.chance(0.1) {
        words.extend(["LIMIT".into(), one_of(rng, &["0", "1", "7", "-1", "x"])]);
    }
    words
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(32) {
        // Enough members to spread the row, and to count them.
        0..=2 => {
            words.extend(["ZADD".into(), key]);
            for _ in 0..rng.below(600) + 1 {
                words.extend([rng.below(300).to_string(), format!("member-{}", rng.below(900))]);
            }
        }
        3 => {
            words.extend(["ZADD".into(), NAMES.into()]);
            for _ in 0..rng.below(40) + 1 {
                words.extend(["0".into(), member(rng)]);
            }
        }
        4 | 5 => words.extend(["ZINCRBY".into(), key, score(rng), member(rng)]),
        6 => words.extend(["ZSCORE".into(), key, member(rng)]),
        7 => words.extend(["ZMSCORE".into(), key, member(rng), member(rng), member(rng)]),
        8 => words.extend([one_of(rng, &["ZCOUNT", "ZCOUNT", "zcount"]), key, end(rng), end(rng)]),
        9 => words.extend(["ZLEXCOUNT".into(), NAMES.into(), name_end(rng), name_end(rng)]),
        10 | 11 => words.extend([one_of(rng, &["ZRANK", "ZREVRANK"]), key, member(rng)]),
        12 => {
            words.extend(["ZREM".into(), key]);
            words.extend((0..1 + rng.below(4)).map(|_| member(rng)));
        }
        13 if rng.chance(0.3) => {
            words.extend(["ZREM".into(), key]);
            words.extend((0..900).filter(|_| rng.chance(0.3)).map(|number| format!("member-{number}")));
            words.push("m1".into());
        }
        14 => words.extend(["ZREMRANGEBYRANK".into(), key, rank(rng), (rng.below(200) as i64 - 100).to_string()]),
        15 => words.extend(["ZREMRANGEBYSCORE".into(), key, end(rng), (rng.below(400) as i64 - 200).to_string()]),
        16 if rng.chance(0.3) => words.extend(["ZREMRANGEBYLEX".into(), NAMES.into(), name_end(rng), name_end(rng)]),
        17 | 18 => {
            words.extend([one_of(rng, &["ZPOPMIN", "ZPOPMAX"]), key]);
            if rng.chance(0.6) {
                words.push(one_of(rng, &["0", "1", "3", "60", "1000", "-1", "x"]));
            }
        }
        19 => {
            words.extend(["ZMPOP".into(), one_of(rng, &["2", "2", "2", "1", "0", "x", "7"]), "none".into(), key]);
            words.push(one_of(rng, &["MIN", "MAX", "max", "bad"]));
            if rng.chance(0.5) {
                words.extend(["COUNT".into(), one_of(rng, &["1", "5", "100", "0", "x"])]);
            }
        }
        20 => {
            words.extend(["ZSCAN".into(), key, one_of(rng, &["0", "0", "x"]), "COUNT".into(), "100000".into()]);
            if rng.chance(0.5) {
                words.extend(["MATCH".into(), one_of(rng, &["*", "m1*", "[^m]*", "member-?"])]);
            }
        }
        21 => {
            words.extend(["ZRANDMEMBER".into(), key, one_of(rng, &["0", "1000", "9000", "x", "9223372036854775807"])]);
            words.extend((0..rng.below(2)).map(|_| one_of(rng, &["WITHSCORES", "withscores", "bad"])));
        }
        22 | 23 => words = combine(rng),
        24..=28 => words = ranges(rng, key),
        29 => {
            let name = one_of(rng, &["ZADD", "ZCARD", "ZREM", "ZRANK", "ZCOUNT", "ZPOPMIN", "ZMPOP", "ZINTERCARD"]);
            words.extend([name, key]);
        }
        _ => words = add(rng, key),
    }
    words
}
