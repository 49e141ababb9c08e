//! Scripts: written-out cases, and scripts that call random commands.

use weir_io::Rng;

use super::{ALL_OF_IT, Family, KEYS, one_of};

pub const FAMILY: Family = Family {
    name: "scripts",
    random,
    unordered: &[],
    reads: &["TYPE KEY", "TTL KEY"],
    masked: ALL_OF_IT,
    cases: include_str!("scripts.txt"),
};

/// A command as the arguments of `redis.call`, on keys that were declared or not.
fn call(rng: &mut Rng) -> String {
    let key = match rng.below(3) {
        0 => "KEYS[1]".to_owned(),
        1 => format!("'{}'", one_of(rng, &KEYS)),
        _ => "KEYS[2]".to_owned(),
    };
    let value = rng.below(20);
    match rng.below(16) {
        0 => format!("'set',{key},{value}"),
        1 => format!("'incrby',{key},{value}"),
        2 => format!("'get',{key}"),
        3 => format!("'getset',{key},ARGV[1]"),
        4 => format!("'rpush',{key},{value},ARGV[1]"),
        5 => format!("'lrange',{key},0,{value}"),
        6 => format!("'lpop',{key}"),
        7 => format!("'hset',{key},'f{value}',ARGV[1]"),
        8 => format!("'hget',{key},'f{value}'"),
        9 => format!("'zadd',{key},{value}.5,'m{value}'"),
        10 => format!("'zrange',{key},0,-1,'withscores'"),
        11 => format!("'del',{key}"),
        12 => format!("'xadd',{key},'{value}-*','f',ARGV[1]"),
        13 => format!("'xrange',{key},'-','+'"),
        14 => format!("'rename',{key},KEYS[1]"),
        _ => format!("'exists',{key}"),
    }
}

/// A few commands. Some errors are caught, and a result may decide what follows.
fn script(rng: &mut Rng) -> String {
    let mut lines = Vec::new();
    for _ in 0..rng.below(4) {
        let (how, call) = (one_of(rng, &["call", "pcall", "pcall"]), call(rng));
        lines.push(match rng.below(5) {
            0 => format!("local r = redis.{how}({call})"),
            1 => format!("if redis.{how}({call}) then redis.pcall({}) end", self::call(rng)),
            2 => format!("for i = 1, {} do redis.{how}({call}) end", rng.below(4)),
            _ => format!("redis.{how}({call})"),
        });
    }
    let last = format!("return redis.{}({})", one_of(rng, &["call", "pcall"]), call(rng));
    lines.push(match rng.below(8) {
        0 => "return {KEYS[1], ARGV[1], {1, 2.5, true, false}}".to_owned(),
        1 => format!("return {{redis.pcall({}), redis.pcall({})}}", call(rng), call(rng)),
        2 => "return redis.sha1hex(ARGV[1])".to_owned(),
        3 => "error(ARGV[1])".to_owned(),
        _ => last,
    });
    lines.join("\n")
}

fn random(rng: &mut Rng) -> Vec<String> {
    let name = one_of(rng, &["EVAL", "EVAL", "EVAL", "EVAL_RO", "eval"]);
    let argument = one_of(rng, &["x", "12", "", "a value", "3.5"]);
    vec![name, script(rng), "2".into(), one_of(rng, &KEYS), one_of(rng, &KEYS), argument]
}
