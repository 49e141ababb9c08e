//! Random commands on streams and groups of consumers.

use weir_io::Rng;

use super::{Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "streams",
    random,
    unordered: &[],
    reads: &["XRANGE KEY - +", "XLEN KEY", "XREVRANGE KEY + - COUNT 3", "XINFO STREAM KEY", "XINFO GROUPS KEY"],
    masked,
    cases: include_str!("streams.txt"),
};

/// Times, and the number of nodes in Redis' tree, are replaced by `#`. The time for which an entry has been pending
/// comes in front of how often it was delivered: of two numbers that follow one another the first is a time.
fn masked(command: &str, reply: Vec<u8>) -> Vec<u8> {
    if !["XINFO", "XPENDING"].iter().any(|name| command.eq_ignore_ascii_case(name)) {
        return reply;
    }
    let mut lines: Vec<&[u8]> = reply.split_inclusive(|&byte| byte == b'\n').collect();
    let is_number = |line: &[u8]| line.starts_with(b":");
    let mut index = 0;
    while index + 1 < lines.len() {
        let name = lines[index].trim_ascii_end();
        let is_time = [&b"idle"[..], b"seen-time", b"radix-tree-keys", b"radix-tree-nodes"].contains(&name);
        if is_time && is_number(lines[index + 1]) {
            lines[index + 1] = b"#\r\n";
        } else if is_number(lines[index]) && is_number(lines[index + 1]) {
            lines[index] = b"#\r\n";
        }
        index += 1;
    }
    lines.concat()
}

fn word(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => one_of(rng, &["", "a value\r\nof two lines", "3.25", "-1", "9223372036854775807"]),
        1 => "v".repeat(rng.below(200) as usize),
        _ => rng.below(12).to_string(),
    }
}

/// Few and small ids, so that commands meet.
fn id(rng: &mut Rng) -> String {
    match rng.below(30) {
        0 => one_of(rng, &["x", "", "1-x", "-1", "18446744073709551615-18446744073709551615", "0-0", "-", "+", "$"]),
        1..=5 => rng.below(60).to_string(),
        _ => format!("{}-{}", rng.below(60), rng.below(3)),
    }
}

fn bound(rng: &mut Rng, open: &str) -> String {
    match rng.below(4) {
        0 => open.into(),
        1 => format!("({}", id(rng)),
        _ => id(rng),
    }
}

fn group(rng: &mut Rng) -> String {
    one_of(rng, &["g", "g", "h", "none"])
}

fn consumer(rng: &mut Rng) -> String {
    one_of(rng, &["c", "d", "e"])
}

fn count(rng: &mut Rng) -> Vec<String> {
    if rng.chance(0.5) {
        vec![one_of(rng, &["COUNT", "count"]), one_of(rng, &["1", "2", "3", "10", "1000", "0", "-1", "x"])]
    } else {
        Vec::new()
    }
}

fn trim(rng: &mut Rng) -> Vec<String> {
    let mut words = match rng.below(8) {
        // Redis' nodes and the entries that are trimmed together here only agree if nothing is trimmed.
        0 => vec!["MAXLEN".into(), "~".into(), "100000".into()],
        1..=3 => vec!["MAXLEN".into(), rng.below(40).to_string()],
        4 => vec!["maxlen".into(), "=".into(), rng.below(20).to_string()],
        5 | 6 => vec!["MINID".into(), id(rng)],
        _ => vec![one_of(rng, &["MAXLEN", "MINID"]), one_of(rng, &["-1", "x", "=", "~"])],
    };
    if rng.chance(0.1) {
        words.extend(["LIMIT".into(), one_of(rng, &["0", "5", "-1", "x"])]);
    }
    words
}

/// Ids of added entries go up, so that streams grow.
fn new_id(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => id(rng),
        1 | 2 => format!("{}-*", rng.below(60)),
        _ => format!("{}-{}", rng.below(64), rng.below(4)),
    }
}

fn random(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    let mut words: Vec<String> = Vec::new();
    match rng.below(46) {
        0..=11 => {
            words.extend(["XADD".into(), key]);
            if rng.chance(0.1) {
                words.push("NOMKSTREAM".into());
            }
            if rng.chance(0.1) {
                words.extend(trim(rng));
            }
            words.push(new_id(rng));
            let pairs = 1 + rng.below(3);
            words.extend((0..pairs * 2).map(|_| word(rng)));
            if rng.chance(0.03) {
                words.pop();
            }
        }
        12 | 13 => {
            words.extend(["XDEL".into(), key]);
            words.extend((0..1 + rng.below(4)).map(|_| id(rng)));
        }
        14 if rng.chance(0.4) => {
            words.extend(["XTRIM".into(), key]);
            words.extend(trim(rng));
        }
        15 | 16 => {
            words.extend(["XRANGE".into(), key, bound(rng, "-"), bound(rng, "+")]);
            words.extend(count(rng));
        }
        17 => {
            words.extend(["XREVRANGE".into(), key, bound(rng, "+"), bound(rng, "-")]);
            words.extend(count(rng));
        }
        18 => words.extend(["XLEN".into(), key]),
        19 if rng.chance(0.3) => {
            words.extend(["XSETID".into(), key, format!("{}-{}", 40 + rng.below(24), rng.below(4))]);
            if rng.chance(0.5) {
                words.extend(["ENTRIESADDED".into(), rng.below(300).to_string(), "MAXDELETEDID".into(), id(rng)]);
            }
        }
        20..=22 => {
            words.push("XREAD".into());
            words.extend(count(rng));
            words.push("STREAMS".into());
            let streams = 1 + rng.below(3);
            words.extend((0..streams).map(|_| one_of(rng, &KEYS)));
            words.extend((0..streams).map(|_| id(rng)));
        }
        23..=25 => {
            let mut create = vec!["XGROUP".into(), "CREATE".into(), key, group(rng), id(rng)];
            if rng.chance(0.6) {
                create.push("MKSTREAM".into());
            }
            if rng.chance(0.2) {
                create.extend(["ENTRIESREAD".into(), one_of(rng, &["0", "3", "-1", "-2", "x"])]);
            }
            words.extend(create);
        }
        26 => match rng.below(6) {
            0 => words.extend(["XGROUP".into(), "DESTROY".into(), key, group(rng)]),
            1 => words.extend(["XGROUP".into(), "SETID".into(), key, group(rng), id(rng)]),
            2 => words.extend([
                "XGROUP".into(),
                "SETID".into(),
                key,
                group(rng),
                id(rng),
                "ENTRIESREAD".into(),
                rng.below(90).to_string(),
            ]),
            3 => words.extend(["XGROUP".into(), "CREATECONSUMER".into(), key, group(rng), consumer(rng)]),
            _ => words.extend(["XGROUP".into(), "DELCONSUMER".into(), key, group(rng), consumer(rng)]),
        },
        27..=31 => {
            words.extend(["XREADGROUP".into(), "GROUP".into(), one_of(rng, &["g", "h"]), consumer(rng)]);
            words.extend(count(rng));
            if rng.chance(0.1) {
                words.push("NOACK".into());
            }
            words.push("STREAMS".into());
            let streams = 1 + rng.below(2);
            words.extend((0..streams).map(|_| one_of(rng, &KEYS[..2])));
            words.extend((0..streams).map(|_| if rng.chance(0.7) { ">".into() } else { id(rng) }));
        }
        32 | 33 => {
            words.extend(["XACK".into(), key, group(rng)]);
            words.extend((0..1 + rng.below(4)).map(|_| id(rng)));
        }
        34 | 35 => {
            let idle = one_of(rng, &["0", "0", "0", "10000000", "-5", "x"]);
            words.extend(["XCLAIM".into(), key, group(rng), consumer(rng), idle]);
            words.extend((0..1 + rng.below(4)).map(|_| id(rng)));
            for _ in 0..rng.below(3) {
                match rng.below(6) {
                    0 => words.push("FORCE".into()),
                    1 => words.push("JUSTID".into()),
                    2 => words.extend(["RETRYCOUNT".into(), one_of(rng, &["0", "7", "-1", "x"])]),
                    3 => words.extend(["IDLE".into(), one_of(rng, &["0", "20000", "-1", "x"])]),
                    4 => words.extend(["TIME".into(), one_of(rng, &["1000", "99999999999999", "-1", "x"])]),
                    _ => words.extend(["LASTID".into(), id(rng)]),
                }
            }
        }
        36 | 37 => {
            let idle = one_of(rng, &["0", "0", "0", "10000000", "-5", "x"]);
            words.extend(["XAUTOCLAIM".into(), key, group(rng), consumer(rng), idle, bound(rng, "-")]);
            words.extend(count(rng));
            if rng.chance(0.3) {
                words.push("JUSTID".into());
            }
        }
        38 | 39 => {
            words.extend(["XPENDING".into(), key, group(rng)]);
            if rng.chance(0.6) {
                if rng.chance(0.3) {
                    words.extend(["IDLE".into(), one_of(rng, &["0", "10000000", "x"])]);
                }
                words.extend([bound(rng, "-"), bound(rng, "+"), one_of(rng, &["1", "3", "100", "0", "-1", "x"])]);
                if rng.chance(0.4) {
                    words.push(consumer(rng));
                }
            }
        }
        40 => words.extend(["XINFO".into(), "GROUPS".into(), key]),
        41 => words.extend(["XINFO".into(), "CONSUMERS".into(), key, group(rng)]),
        42 => {
            words.extend(["XINFO".into(), "STREAM".into(), key]);
            if rng.chance(0.7) {
                words.push("FULL".into());
                words.extend(count(rng));
            }
        }
        43 => {
            words.push(one_of(rng, &["XADD", "XREAD", "XREADGROUP", "XGROUP", "XINFO", "XCLAIM", "XPENDING", "XTRIM"]));
            words.push(key);
        }
        44 if rng.chance(0.1) => words.extend(["DEL".into(), key]),
        _ => words.extend(["XREVRANGE".into(), key, "+".into(), "-".into(), "COUNT".into(), "1".into()]),
    }
    words
}
