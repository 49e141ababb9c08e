//! Random commands on hashes.

use weir_io::Rng;

use super::{ALL_OF_IT, Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "hashes",
    random,
    unordered: &["HGETALL", "HKEYS", "HVALS", "HSCAN", "HRANDFIELD"],
    reads: &["HGETALL KEY", "HLEN KEY", "HSCAN KEY 0 COUNT 100000"],
    masked: ALL_OF_IT,
    cases: include_str!("hashes.txt"),
};

fn field(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => one_of(rng, &["", "f", "a field\r\nof two lines"]),
        1..=5 => format!("f{}", rng.below(20)),
        _ => format!("field-{}", rng.below(400)),
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => "v".repeat(rng.below(200) as usize),
        1..=4 => one_of(rng, &["", "x", "10", "-3", "9223372036854775807", "3.25", " 1", "1e3"]),
        _ => rng.below(1000).to_string(),
    }
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(24) {
        0..=5 => {
            words.extend([one_of(rng, &["HSET", "HSET", "hset", "HMSET"]), key]);
            for _ in 0..1 + rng.below(3) {
                words.extend([field(rng), value(rng)]);
            }
            if rng.chance(0.03) {
                words.push("odd".into());
            }
        }
        // Enough fields to spread the row.
        6 => {
            words.extend(["HSET".into(), key]);
            for _ in 0..rng.below(60) + 1 {
                words.extend([format!("field-{}", rng.below(400)), value(rng)]);
            }
        }
        7 => words.extend(["HSETNX".into(), key, field(rng), value(rng)]),
        8 | 9 => words.extend(["HGET".into(), key, field(rng)]),
        10 => words.extend(["HMGET".into(), key, field(rng), field(rng), field(rng)]),
        11 => words.extend([one_of(rng, &["HGETALL", "HKEYS", "HVALS", "HLEN"]), key]),
        12 => words.extend([one_of(rng, &["HEXISTS", "HSTRLEN"]), key, field(rng)]),
        13 | 14 => {
            words.extend(["HDEL".into(), key]);
            words.extend((0..1 + rng.below(4)).map(|_| field(rng)));
        }
        15 => {
            words.extend(["HDEL".into(), key]);
            words.extend((0..400).filter(|_| rng.chance(0.3)).map(|number| format!("field-{number}")));
            words.push("f1".into());
        }
        16 | 17 => {
            let number = one_of(rng, &["1", "-7", "9223372036854775807", "-9223372036854775808", "1.5", "x", ""]);
            words.extend(["HINCRBY".into(), key, field(rng), number]);
        }
        18 => {
            let number = one_of(rng, &["0.1", "-2.75", "1e17", "3", "nan", "inf", "x", "5e-3"]);
            words.extend(["HINCRBYFLOAT".into(), key, field(rng), number]);
        }
        19 => {
            words.extend(["HSCAN".into(), key, one_of(rng, &["0", "0", "x"]), "COUNT".into(), "100000".into()]);
            if rng.chance(0.5) {
                words.extend(["MATCH".into(), one_of(rng, &["*", "f1*", "[^f]*", "field-?"])]);
            }
            if rng.chance(0.1) {
                words.push(one_of(rng, &["COUNT", "NOVALUES", "bad"]));
            }
        }
        20 => words.extend([one_of(rng, &["HSET", "HGET", "HDEL", "HLEN", "HSETNX", "HINCRBY"]), key]),
        21 => {
            words.extend(["HRANDFIELD".into(), key, one_of(rng, &["0", "1000", "9000", "x", "9223372036854775807"])]);
            words.extend((0..rng.below(2)).map(|_| one_of(rng, &["WITHVALUES", "withvalues", "bad"])));
        }
        _ => words.extend(["HSET".into(), key, field(rng), value(rng)]),
    }
    words
}
