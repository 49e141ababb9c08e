//! Random commands on lists, and `SORT` of them.

use weir_io::Rng;

use super::{ALL_OF_IT, Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "lists",
    random,
    unordered: &[],
    reads: &["LRANGE KEY 0 -1", "LLEN KEY", "LRANGE KEY -3 -1", "LINDEX KEY 70"],
    masked: ALL_OF_IT,
    cases: include_str!("lists.txt"),
};

/// A few values, so that equal ones meet; some are long.
fn value(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => one_of(rng, &["", "x", "a value\r\nof two lines", "3.25", "-1"]),
        1 => "v".repeat(rng.below(300) as usize),
        _ => rng.below(12).to_string(),
    }
}

fn values(rng: &mut Rng, most: u64) -> Vec<String> {
    (0..1 + rng.below(most)).map(|_| value(rng)).collect()
}

fn index(rng: &mut Rng) -> String {
    match rng.below(20) {
        0 => one_of(rng, &["x", "", "9223372036854775807", "-9223372036854775808", "1.5"]),
        1..=9 => (rng.below(20) as i64 - 10).to_string(),
        _ => (rng.below(500) as i64 - 250).to_string(),
    }
}

fn end(rng: &mut Rng) -> String {
    let word = one_of(rng, &["LEFT", "RIGHT", "left", "Right"]);
    if rng.chance(0.03) { "UP".into() } else { word }
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words = Vec::new();
    match rng.below(40) {
        0..=5 => {
            words.extend([one_of(rng, &["LPUSH", "RPUSH", "lpush"]), key]);
            words.extend(values(rng, 6));
        }
        // Enough values to spread the row.
        6 | 7 => {
            words.extend([one_of(rng, &["LPUSH", "RPUSH"]), key]);
            words.extend(values(rng, 150));
        }
        8 => {
            words.extend([one_of(rng, &["LPUSHX", "RPUSHX"]), key]);
            words.extend(values(rng, 6));
        }
        9..=12 => words.extend([one_of(rng, &["LPOP", "RPOP"]), key]),
        13 => {
            let count = one_of(rng, &["0", "1", "3", "20", "150", "10000", "-1", "x"]);
            words.extend([one_of(rng, &["LPOP", "RPOP"]), key, count]);
        }
        14 => words.extend(["LLEN".into(), key]),
        15 | 16 => words.extend(["LRANGE".into(), key, index(rng), index(rng)]),
        17 => words.extend(["LINDEX".into(), key, index(rng)]),
        18 | 19 => words.extend(["LSET".into(), key, index(rng), value(rng)]),
        20..=22 => {
            let place = one_of(rng, &["BEFORE", "AFTER", "after", "beside"]);
            words.extend(["LINSERT".into(), key, place, value(rng), value(rng)]);
        }
        23 | 24 => {
            let count = one_of(rng, &["0", "1", "-1", "2", "-3", "10", "-40", "x", "-9223372036854775808"]);
            words.extend(["LREM".into(), key, count, value(rng)]);
        }
        25 => words.extend(["LTRIM".into(), key, index(rng), index(rng)]),
        26 => words.extend(["LTRIM".into(), key, rng.below(4).to_string(), (-1 - rng.below(4) as i64).to_string()]),
        27 | 28 => {
            words.extend(["LPOS".into(), key, value(rng)]);
            for _ in 0..rng.below(3) {
                match rng.below(4) {
                    0 => words.extend(["RANK".into(), one_of(rng, &["1", "-1", "2", "-3", "0", "40", "x"])]),
                    1 => words.extend(["COUNT".into(), one_of(rng, &["0", "1", "2", "100", "-1", "x"])]),
                    2 => words.extend(["maxlen".into(), one_of(rng, &["0", "1", "10", "200", "-1", "x"])]),
                    _ => words.push(one_of(rng, &["RANK", "COUNT", "BAD"])),
                }
            }
        }
        29 | 30 => words.extend(["LMOVE".into(), key, one_of(rng, &KEYS), end(rng), end(rng)]),
        31 => words.extend(["RPOPLPUSH".into(), key, one_of(rng, &KEYS)]),
        32 => {
            let count = 1 + rng.below(3);
            words.extend(["LMPOP".into(), count.to_string(), key]);
            words.extend((1..count).map(|_| one_of(rng, &KEYS)));
            words.push(end(rng));
            if rng.chance(0.6) {
                words.extend(["COUNT".into(), one_of(rng, &["1", "3", "100", "10000", "0", "x"])]);
            }
            if rng.chance(0.05) {
                words.push("more".into());
            }
        }
        33 => words.extend(["DEL".into(), key]),
        34 => {
            let name = format!("w_{}", rng.below(12));
            match rng.below(3) {
                0 => words.extend(["SET".into(), name, rng.below(30).to_string()]),
                1 => words.extend(["HSET".into(), format!("o_{}", rng.below(12)), "f".into(), value(rng)]),
                _ => words.extend(["DEL".into(), name]),
            }
        }
        35 => {
            words.push(one_of(rng, &["LPUSH", "LPOP", "LSET", "LPOS", "LMOVE", "LMPOP", "LRANGE", "SORT"]));
            words.push(key);
        }
        _ => return sort(rng, key),
    }
    words
}

/// If elements are sorted as text by other keys, there is neither a limit nor a stored result: among equal ones Redis
/// takes any.
fn sort(rng: &mut Rng, key: String) -> Vec<String> {
    let mut words = vec![one_of(rng, &["SORT", "SORT", "SORT_RO"]), key];
    let by_others = rng.chance(0.3);
    let is_text = rng.chance(0.6);
    if by_others {
        words.extend(["BY".into(), one_of(rng, &["w_*", "o_*->f", "none_*", "w_*->", "a*"])]);
    } else if rng.chance(0.3) {
        words.extend(["by".into(), one_of(rng, &["nosort", "#"])]);
    }
    if is_text {
        words.push("ALPHA".into());
    }
    if !(by_others && is_text) && rng.chance(0.5) {
        words.extend(["LIMIT".into(), index(rng), index(rng)]);
    }
    for _ in 0..rng.below(3) {
        words.extend(["GET".into(), one_of(rng, &["#", "w_*", "o_*->f", "constant", "none_*"])]);
    }
    words.extend((0..rng.below(2)).map(|_| one_of(rng, &["DESC", "asc", "desc", "DESC"])));
    if !(by_others && is_text) && rng.chance(0.3) {
        words.extend(["STORE".into(), one_of(rng, &KEYS)]);
    }
    if rng.chance(0.03) {
        words.push(one_of(rng, &["BY", "GET", "LIMIT", "STORE", "BAD"]));
    }
    words
}
