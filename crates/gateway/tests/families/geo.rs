//! Random commands on places.

use weir_io::Rng;

use super::{ALL_OF_IT, Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "geo",
    random,
    unordered: &[],
    reads: &["ZRANGE KEY 0 -1 WITHSCORES", "ZRANGE distances 0 -1 WITHSCORES", "ZCARD KEY", "OBJECT ENCODING KEY"],
    masked: ALL_OF_IT,
    cases: include_str!("geo.txt"),
};

fn member(rng: &mut Rng) -> String {
    format!("m{}", rng.below(400))
}

/// Where distances are stored. As places they would all be the same, and equal distances have no order in Redis.
const DISTANCES: &str = "distances";

/// A number between `-limit` and `limit` that hardly comes twice.
fn number(rng: &mut Rng, limit: f64) -> String {
    format!("{:.7}", (rng.below(2_000_000_000) as f64 / 1e9 - 1.0) * limit)
}

fn place(rng: &mut Rng) -> [String; 2] {
    match rng.below(12) {
        0 => [one_of(rng, &["181", "x", "-180.5", ""]), one_of(rng, &["86", "0", "nan", "-85.06"])],
        1..=3 => [number(rng, 180.0), number(rng, 85.05)],
        _ => [number(rng, 3.0), number(rng, 2.0)],
    }
}

fn size(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => one_of(rng, &["0", "-1", "x", "1e9", "0.001"]),
        1 => rng.below(20_000).to_string(),
        _ => rng.below(400).to_string(),
    }
}

fn unit(rng: &mut Rng) -> String {
    one_of(rng, &["km", "km", "km", "mi", "KM", "m", "ft", "parsec"])
}

fn options(rng: &mut Rng, words: &mut Vec<String>) {
    while rng.chance(0.5) {
        match rng.below(7) {
            0 | 1 => words.push(one_of(rng, &["WITHDIST", "WITHHASH", "WITHCOORD", "withdist"])),
            2 | 3 => words.push(one_of(rng, &["ASC", "DESC"])),
            4 => words.extend(["COUNT".into(), one_of(rng, &["1", "5", "30", "5", "0", "x"])]),
            5 => words.extend(["COUNT".into(), one_of(rng, &["1", "5", "30"]), "ANY".into()]),
            _ if rng.chance(0.1) => words.push(one_of(rng, &["ANY", "bad", "COUNT"])),
            _ => {}
        }
    }
}

fn search(rng: &mut Rng, words: &mut Vec<String>) {
    if rng.chance(0.5) {
        words.extend(["FROMMEMBER".into(), member(rng)]);
    } else {
        words.push("FROMLONLAT".into());
        words.extend(place(rng));
    }
    if rng.chance(0.5) {
        words.extend(["BYRADIUS".into(), size(rng), unit(rng)]);
    } else {
        words.extend(["BYBOX".into(), size(rng), size(rng), unit(rng)]);
    }
    options(rng, words);
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(20) {
        // Enough members to spread the row.
        0 | 1 => {
            words.extend(["GEOADD".into(), key]);
            for _ in 0..rng.below(80) + 1 {
                words.extend([number(rng, 3.0), number(rng, 2.0), member(rng)]);
            }
        }
        2..=4 => {
            words.extend(["GEOADD".into(), key]);
            words.extend((0..rng.below(2)).map(|_| one_of(rng, &["NX", "XX", "CH", "ch"])));
            for _ in 0..1 + rng.below(3) {
                words.extend(place(rng));
                words.push(member(rng));
            }
        }
        5 => words.extend([one_of(rng, &["GEOPOS", "GEOHASH"]), key, member(rng), member(rng), "none".into()]),
        6 | 7 => {
            words.extend(["GEODIST".into(), key, member(rng), member(rng)]);
            words.extend((0..rng.below(3)).map(|_| unit(rng)));
        }
        8..=11 => {
            words.extend([one_of(rng, &["GEOSEARCH", "geosearch"]), key]);
            search(rng, &mut words);
        }
        12 | 13 => {
            let is_distance = rng.chance(0.5);
            words.push("GEOSEARCHSTORE".into());
            words.extend([if is_distance { DISTANCES.into() } else { one_of(rng, &KEYS) }, key]);
            search(rng, &mut words);
            words.extend(is_distance.then(|| "STOREDIST".into()));
        }
        14 | 15 => {
            words.extend([one_of(rng, &["GEORADIUS", "GEORADIUS_RO"]), key]);
            words.extend(place(rng));
            words.extend([size(rng), unit(rng)]);
            options(rng, &mut words);
        }
        16 => {
            words.extend([one_of(rng, &["GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"]), key, member(rng)]);
            words.extend([size(rng), unit(rng)]);
            options(rng, &mut words);
        }
        17 => {
            words.extend(["GEORADIUSBYMEMBER".into(), key, member(rng), size(rng), unit(rng)]);
            match rng.below(2) {
                0 => words.extend(["STORE".into(), one_of(rng, &KEYS)]),
                _ => words.extend(["STOREDIST".into(), DISTANCES.into()]),
            }
        }
        18 => words.extend(["ZREM".into(), key, member(rng), member(rng)]),
        _ => words.extend([one_of(rng, &["GEOADD", "GEOPOS", "GEODIST", "GEOSEARCH", "GEORADIUS"]), key]),
    }
    words
}
