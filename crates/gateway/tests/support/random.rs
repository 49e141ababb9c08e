//! Random commands made of few keys, few values and all options, so that they meet.

use weir_io::Rng;

/// The keys that the commands are about.
pub const KEYS: [&str; 5] = ["a", "b", "c", "", "long-key-with-a-name"];

fn one_of(rng: &mut Rng, words: &[&str]) -> String {
    words[rng.below(words.len() as u64) as usize].to_owned()
}

/// One random command.
pub fn random_command(rng: &mut Rng) -> Vec<String> {
    let key = |rng: &mut Rng| one_of(rng, &KEYS);
    let value = |rng: &mut Rng| {
        one_of(
            rng,
            &["", "x", "10", "-3", "9223372036854775807", "3.25", "0.1", "1e3", " 1", "some longer text\r\nhere"],
        )
    };
    let number = |rng: &mut Rng| {
        one_of(rng, &["0", "1", "-1", "5", "-7", "100", "9223372036854775807", "-9223372036854775808", "1.5", "x", ""])
    };
    let time = |rng: &mut Rng| one_of(rng, &["200000000", "100000000", "0", "-1", "9223372036854775807", "1x"]);
    let mut command = Vec::new();
    let mut words = |words: &[String]| command.extend_from_slice(words);
    match rng.below(60) {
        0 => words(&["GET".into(), key(rng)]),
        1 => words(&["SET".into(), key(rng), value(rng)]),
        2 | 3 => {
            words(&["SET".into(), key(rng), value(rng)]);
            for _ in 0..rng.below(4) {
                match rng.below(6) {
                    0 => words(&[one_of(rng, &["EX", "px"]), time(rng)]),
                    1 => words(&[one_of(rng, &["EXAT", "PXAT"]), one_of(rng, &["99999999999", "0", "y"])]),
                    _ => words(&[one_of(rng, &["NX", "XX", "GET", "KEEPTTL", "get", "EX", "bad"])]),
                }
            }
        }
        4 => words(&[one_of(rng, &["SETEX", "PSETEX"]), key(rng), time(rng), value(rng)]),
        5 => words(&[one_of(rng, &["SETNX", "GETSET", "APPEND"]), key(rng), value(rng)]),
        6 => words(&[one_of(rng, &["GETDEL", "STRLEN", "TYPE", "PERSIST"]), key(rng)]),
        7 => {
            words(&["GETEX".into(), key(rng)]);
            match rng.below(4) {
                0 => words(&["PERSIST".into()]),
                1 => words(&[one_of(rng, &["EX", "PX", "BAD"]), time(rng)]),
                2 => words(&["PXAT".into(), one_of(rng, &["99999999999000", "1"])]),
                _ => {}
            }
        }
        8 => words(&["MGET".into(), key(rng), key(rng), key(rng)]),
        9 => words(&[one_of(rng, &["MSET", "MSETNX"]), key(rng), value(rng), key(rng), value(rng)]),
        10 => words(&[one_of(rng, &["MSET", "MSETNX"]), key(rng), value(rng), key(rng)]),
        11 | 12 => words(&[one_of(rng, &["INCR", "DECR"]), key(rng)]),
        13 | 14 => words(&[one_of(rng, &["INCRBY", "DECRBY", "INCRBYFLOAT"]), key(rng), number(rng)]),
        15 | 16 => {
            words(&["INCRBYFLOAT".into(), key(rng), one_of(rng, &["0.1", "-2.75", "1e17", "3", "1234567.1", "5e-3"])])
        }
        17 | 18 => words(&[one_of(rng, &["GETRANGE", "SUBSTR"]), key(rng), number(rng), number(rng)]),
        19 => words(&["SETRANGE".into(), key(rng), one_of(rng, &["0", "3", "20", "-1", "x", "600000000"]), value(rng)]),
        20 => words(&[one_of(rng, &["DEL", "UNLINK", "EXISTS", "TOUCH"]), key(rng), key(rng)]),
        21 => words(&["DEL".into(), key(rng)]),
        22 | 23 => {
            words(&[one_of(rng, &["EXPIRE", "PEXPIRE"]), key(rng), time(rng)]);
            for _ in 0..rng.below(3) {
                words(&[one_of(rng, &["NX", "XX", "GT", "lt", "bad"])]);
            }
        }
        24 => {
            words(&[
                one_of(rng, &["EXPIREAT", "PEXPIREAT"]),
                key(rng),
                one_of(rng, &["99999999999", "9999999999999", "-5"]),
            ]);
            for _ in 0..rng.below(2) {
                words(&[one_of(rng, &["NX", "XX", "GT", "LT"])]);
            }
        }
        25 => words(&["TTL".into(), key(rng)]),
        26 => words(&[one_of(rng, &["EXPIRETIME", "PEXPIRETIME"]), one_of(rng, &["absent", "z"])]),
        27 => words(&["EXISTS".into(), "a".into(), "b".into(), "c".into(), "".into()]),
        28 => words(&[
            "SCAN".into(),
            "0".into(),
            "COUNT".into(),
            "100".into(),
            "MATCH".into(),
            one_of(rng, &["zzz*", "[xy]"]),
        ]),
        29 => words(&["KEYS".into(), one_of(rng, &["long*", "?[^a-z]", "l*[e]", "\\a"])]),
        30 => words(&[one_of(rng, &["GET", "SET", "DEL", "INCR", "NOSUCH", "TTL", "GETRANGE", "PING"])]),
        31 => words(&["PING".into(), value(rng)]),
        32 => words(&["ECHO".into(), value(rng)]),
        33..=44 => words(&bits(rng, key)),
        45..=54 => words(&generic(rng, key)),
        _ => words(&texts(rng, key)),
    }
    command
}

/// `SETBIT` and its kin. Offsets are small or far too large, because those in between cost memory on both sides.
fn bits(rng: &mut Rng, key: impl Fn(&mut Rng) -> String) -> Vec<String> {
    let offset = |rng: &mut Rng| match rng.below(12) {
        0 => {
            one_of(rng, &["-1", "x", "", "4294967296", "9223372036854775807", "9223372036854775808", "#1", " 1", "1.5"])
        }
        _ => rng.below(200).to_string(),
    };
    let position = |rng: &mut Rng| match rng.below(10) {
        0 => one_of(rng, &["x", "9223372036854775807", "-9223372036854775808", ""]),
        _ => (rng.below(60) as i64 - 30).to_string(),
    };
    let unit = |rng: &mut Rng| one_of(rng, &["BIT", "bit", "BYTE", "byte", "BITS"]);
    let mut words = Vec::new();
    match rng.below(12) {
        0..=2 => words.extend(["SETBIT".into(), key(rng), offset(rng), one_of(rng, &["0", "1", "1", "2", "-1", "x"])]),
        3 => words.extend(["GETBIT".into(), key(rng), offset(rng)]),
        4 | 5 => {
            words.extend(["BITCOUNT".into(), key(rng)]);
            words.extend((0..one_of(rng, &["0", "2", "2", "2", "1"]).parse().unwrap_or(0)).map(|_| position(rng)));
            if rng.chance(0.5) {
                words.push(unit(rng));
            }
        }
        6 | 7 => {
            words.extend(["BITPOS".into(), key(rng), one_of(rng, &["0", "1", "1", "0", "2", "x"])]);
            words.extend((0..rng.below(3)).map(|_| position(rng)));
            if rng.chance(0.4) {
                words.push(unit(rng));
            }
            if rng.chance(0.03) {
                words.push("more".into());
            }
        }
        8 => {
            words.extend(["BITOP".into(), one_of(rng, &["AND", "or", "XOR", "NOT", "NAND"]), key(rng)]);
            words.extend((0..1 + rng.below(3)).map(|_| key(rng)));
        }
        _ => {
            words.extend([one_of(rng, &["BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"]), key(rng)]);
            for _ in 0..rng.below(4) {
                words.extend(field(rng));
            }
        }
    }
    words
}

/// A step of `BITFIELD`.
fn field(rng: &mut Rng) -> Vec<String> {
    let kind = match rng.below(15) {
        0 => one_of(rng, &["u64", "i65", "i0", "x8", "u", "i-1", "I8", "i8 "]),
        _ => format!("{}{}", one_of(rng, &["i", "u"]), 1 + rng.below(63)),
    };
    let offset = match rng.below(12) {
        0 => one_of(rng, &["-1", "#-1", "x", "#9223372036854775807", "9223372036854775807", "#"]),
        1..=4 => format!("#{}", rng.below(5)),
        _ => rng.below(150).to_string(),
    };
    let number = match rng.below(3) {
        0 => one_of(rng, &["9223372036854775807", "-9223372036854775808", "x", "0", "-1", "128", "-129", "255", "256"]),
        _ => (rng.next_u64() as i64 >> rng.below(64)).to_string(),
    };
    match rng.below(8) {
        0 | 1 => vec!["GET".into(), kind, offset],
        2 | 3 => vec!["SET".into(), kind, offset, number],
        4 | 5 => vec!["INCRBY".into(), kind, offset, number],
        6 => vec!["OVERFLOW".into(), one_of(rng, &["WRAP", "SAT", "FAIL", "sat", "fail", "bad"])],
        _ => vec![one_of(rng, &["GET", "set", "OVERFLOW", "nothing"])],
    }
}

/// Commands about keys of any type.
fn generic(rng: &mut Rng, key: impl Fn(&mut Rng) -> String) -> Vec<String> {
    let mut words = Vec::new();
    match rng.below(14) {
        0..=2 => words.extend([one_of(rng, &["RENAME", "RENAMENX", "COPY"]), key(rng), key(rng)]),
        3 => {
            words.extend(["COPY".into(), key(rng), key(rng)]);
            for _ in 0..rng.below(3) {
                words.push(one_of(rng, &["REPLACE", "replace", "DB", "0", "99", "x", "9999999999"]));
            }
        }
        4 => words.extend(["MOVE".into(), key(rng), one_of(rng, &["0", "99", "-1", "x", "9999999999"])]),
        5 | 6 => {
            words.extend([one_of(rng, &["SORT", "SORT_RO"]), one_of(rng, &["a", "b", "none", "missing"])]);
            for _ in 0..rng.below(4) {
                match rng.below(7) {
                    0 => {
                        words.extend(["LIMIT".into(), one_of(rng, &["0", "x", "-1"]), one_of(rng, &["10", "-1", "y"])])
                    }
                    1 => words.extend(["STORE".into(), key(rng)]),
                    2 => words.extend([one_of(rng, &["BY", "GET"]), one_of(rng, &["nosort", "w_*", "#"])]),
                    _ => words.push(one_of(rng, &["ASC", "desc", "ALPHA", "LIMIT", "STORE", "bad"])),
                }
            }
        }
        7 => words.extend(["WAIT".into(), one_of(rng, &["0", "-1", "x"]), one_of(rng, &["0", "10", "-1", "x"])]),
        8 => words.extend([
            "OBJECT".into(),
            one_of(rng, &["FREQ", "refcounts", "encoding"]),
            one_of(rng, &["none", "x"]),
        ]),
        9 | 10 => {
            words.extend(["RESTORE".into(), key(rng), one_of(rng, &["0", "100000000", "-1", "x"])]);
            words.push(one_of(rng, &["", "too short", "long enough, but wrong"]));
            for _ in 0..rng.below(3) {
                words.push(one_of(rng, &["REPLACE", "ABSTTL", "IDLETIME", "FREQ", "5", "-1", "256", "bad"]));
            }
        }
        11 => words.extend(["DUMP".into(), one_of(rng, &["none", "missing"])]),
        12 => words.extend([one_of(rng, &["SELECT", "PERSIST", "DUMP", "RENAME", "LCS", "BITOP", "MOVE"])]),
        _ => words.extend([one_of(rng, &["PTTL", "TTL", "PEXPIRETIME", "EXPIRETIME", "TYPE"]), key(rng)]),
    }
    words
}

/// `LCS`, and commands that set values for it.
fn texts(rng: &mut Rng, key: impl Fn(&mut Rng) -> String) -> Vec<String> {
    let mut words = Vec::new();
    if rng.chance(0.5) {
        let len = rng.below(40);
        let text = (0..len).map(|_| one_of(rng, &["a", "b", "c", "G", "T", "é"])).collect();
        words.extend(["SET".into(), key(rng), text]);
        return words;
    }
    words.extend(["LCS".into(), key(rng), key(rng)]);
    for _ in 0..rng.below(4) {
        match rng.below(5) {
            0 => words.extend(["MINMATCHLEN".into(), one_of(rng, &["0", "2", "4", "-1", "x"])]),
            _ => words.push(one_of(rng, &["LEN", "IDX", "IDX", "WITHMATCHLEN", "MINMATCHLEN", "idx", "bad"])),
        }
    }
    words
}
