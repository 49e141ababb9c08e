//! Commands that are measured: some of every family, with short and long values, on few parts and on many.

/// A command, or several in turn.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    /// What is there before.
    pub(super) setup: Vec<Words>,
    /// What is measured, again and again.
    pub(super) body: Vec<Words>,
    /// Each comes by itself, not in a pipeline.
    pub(super) alone: bool,
    /// It is predicted, and tells nothing to the table.
    pub(super) held_out: bool,
}

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// Keys over which a case goes, or times that the one command of a case without them is in a pipeline.
const KEYS: usize = 16;

/// A line of words: `*` is the number of the key, `~N` are N bytes, `[A..B x y]` stands for the words `xA yA`, `xB yB`
/// and all between, where `#.3` has the number in front. Lines are separated by `;`.
type Line = &'static str;

/// What is measured: its name, what is there before, and the commands. `!` in front of a name: alone; `?`: held out.
const CASES: &[(&str, Line, Line)] = &[
    ("PING", "", "PING"),
    ("!PING", "", "PING"),
    ("!GET 100", "SET k* ~100", "GET k*"),
    ("!SET 100", "", "SET k* ~100"),
    ("!MGET 10", "MSET [0..9 m ~20]", "MGET m0 m1 m2 m3 m4 m5 m6 m7 m8 m9"),
    ("!?INCR", "SET n* 5", "INCR n*"),
    ("!?HGETALL 4", "DEL h*;HSET h* [0..3 f ~20]", "HGETALL h*"),
    ("!?HGET", "HSET h* [0..9 f ~20]", "HGET h* f3"),
    ("GET 10", "SET k* ~10", "GET k*"),
    ("GET 1000", "SET k* ~1000", "GET k*"),
    ("?GET 4000", "SET k* ~4000", "GET k*"),
    ("GET 10000", "SET k* ~10000", "GET k*"),
    ("GET missing", "DEL k*", "GET k*"),
    ("EXISTS", "SET k* ~10", "EXISTS k*"),
    ("?STRLEN", "SET k* ~1000", "STRLEN k*"),
    ("TTL", "SET k* ~10 EX 10000", "TTL k*"),
    ("?TYPE", "SET k* ~10", "TYPE k*"),
    ("GETRANGE", "SET k* ~1000", "GETRANGE k* 10 20"),
    ("MGET 10", "MSET [0..9 m ~20]", "MGET m0 m1 m2 m3 m4 m5 m6 m7 m8 m9"),
    ("?MGET 3", "MSET [0..9 m ~20]", "MGET m0 m1 m2"),
    ("SET 10", "", "SET k* ~10"),
    ("SET 1000", "", "SET k* ~1000"),
    ("?SET 300", "", "SET k* ~300"),
    ("SET 10000", "", "SET k* ~10000"),
    ("SET EX", "", "SET k* ~10 EX 10000"),
    ("SETNX", "SET k* ~10", "SETNX k* ~10"),
    ("?GETSET", "SET k* ~20", "GETSET k* ~20"),
    ("MSET 10", "", "MSET [0..9 m ~20]"),
    ("INCR", "SET n* 5", "INCR n*"),
    ("?INCRBYFLOAT", "SET n* 5", "INCRBYFLOAT n* 1"),
    ("APPEND, SET", "", "SET k* ~100;APPEND k* ~100"),
    ("SETRANGE", "SET k* ~100", "SETRANGE k* 10 ~10"),
    ("SETBIT", "SET k* ~100", "SETBIT k* 7 1"),
    ("?GETBIT", "SET k* ~100", "GETBIT k* 7"),
    ("BITCOUNT 1000", "SET k* ~1000", "BITCOUNT k*"),
    ("EXPIRE", "SET k* ~10", "EXPIRE k* 10000"),
    ("SET, DEL", "", "SET k* ~10;DEL k*"),
    ("DEL missing", "DEL k*", "DEL k*"),
    ("?RENAME", "SET k* ~10", "RENAME k* r*;RENAME r* k*"),
    ("COPY", "SET k* ~100", "COPY k* c* REPLACE"),
    ("HSET 1, small", "DEL h*;HSET h* [0..3 f ~20]", "HSET h* f1 ~20"),
    ("HSET 1, large", "DEL h*;HSET h* [0..999 f ~20]", "HSET h* f1 ~20"),
    ("HSET 20, large", "DEL h*;HSET h* [0..999 f ~20]", "HSET h* [0..19 f ~20]"),
    ("?HSET 5, large", "DEL h*;HSET h* [0..999 f ~20]", "HSET h* [0..4 f ~20]"),
    ("HGET, small", "DEL h*;HSET h* [0..3 f ~20]", "HGET h* f1"),
    ("HGET, large", "DEL h*;HSET h* [0..999 f ~20]", "HGET h* f1"),
    ("?HMGET 10, large", "DEL h*;HSET h* [0..999 f ~20]", "HMGET h* f0 f1 f2 f3 f4 f5 f6 f7 f8 f9"),
    ("HGETALL 4", "DEL h*;HSET h* [0..3 f ~20]", "HGETALL h*"),
    ("HGETALL 1000", "DEL h*;HSET h* [0..999 f ~20]", "HGETALL h*"),
    ("?HGETALL 200", "DEL h*;HSET h* [0..199 f ~20]", "HGETALL h*"),
    ("HLEN", "DEL h*;HSET h* [0..999 f ~20]", "HLEN h*"),
    ("?HINCRBY", "DEL h*;HSET h* n 1", "HINCRBY h* n 1"),
    ("HSET, HDEL, large", "DEL h*;HSET h* [0..999 f ~20]", "HSET h* g ~20;HDEL h* g"),
    ("SADD there, large", "DEL s*;SADD s* [0..999 m]", "SADD s* m5"),
    ("SADD, SREM, large", "DEL s*;SADD s* [0..999 m]", "SADD s* x;SREM s* x"),
    ("SISMEMBER, large", "DEL s*;SADD s* [0..999 m]", "SISMEMBER s* m5"),
    ("?SMEMBERS 1000", "DEL s*;SADD s* [0..999 m]", "SMEMBERS s*"),
    ("SINTER 1000", "DEL {s}a {s}b;SADD {s}a [0..999 m];SADD {s}b [0..9 m]", "SINTER {s}a {s}b"),
    ("SDIFF 100, small", "DEL {s}a {s}b;SADD {s}a [0..99 m];SADD {s}b [50..99 m]", "SDIFF {s}a {s}b"),
    ("?SUNION 200", "DEL {s}a {s}b;SADD {s}a [0..99 m];SADD {s}b [50..199 m]", "SUNION {s}a {s}b"),
    ("LPUSH, LPOP", "DEL l*;RPUSH l* [0..999 v]", "LPUSH l* ~20;LPOP l*"),
    ("?RPUSH, RPOP, small", "DEL l*", "RPUSH l* ~20;RPOP l*"),
    ("LRANGE 10", "DEL l*;RPUSH l* [0..999 v]", "LRANGE l* 0 9"),
    ("LRANGE 1000", "DEL l*;RPUSH l* [0..999 v]", "LRANGE l* 0 -1"),
    ("?LRANGE 100", "DEL l*;RPUSH l* [0..999 v]", "LRANGE l* 100 199"),
    ("LINDEX", "DEL l*;RPUSH l* [0..999 v]", "LINDEX l* 500"),
    ("?LSET", "DEL l*;RPUSH l* [0..999 v]", "LSET l* 500 ~20"),
    ("ZADD, ZREM, large", "DEL z*;ZADD z* [0..999 # m]", "ZADD z* 5 x;ZREM z* x"),
    ("ZINCRBY, large", "DEL z*;ZADD z* [0..999 # m]", "ZINCRBY z* 1 m5"),
    ("ZSCORE, large", "DEL z*;ZADD z* [0..999 # m]", "ZSCORE z* m5"),
    ("ZRANGE 10", "DEL z*;ZADD z* [0..999 # m]", "ZRANGE z* 0 9"),
    ("ZRANGE 200, fractions", "DEL z*;ZADD z* [0..199 #.3 m]", "ZRANGE z* 0 -1 WITHSCORES"),
    ("?ZSCORE, fraction", "DEL z*;ZADD z* [0..999 #.3 m]", "ZSCORE z* m5"),
    ("ZRANGE 1000", "DEL z*;ZADD z* [0..999 # m]", "ZRANGE z* 0 -1 WITHSCORES"),
    ("?ZRANGEBYSCORE 100", "DEL z*;ZADD z* [0..999 # m]", "ZRANGEBYSCORE z* 100 199"),
    ("?ZRANK", "DEL z*;ZADD z* [0..999 # m]", "ZRANK z* m50"),
    ("XADD", "DEL x*", "XADD x* MAXLEN ~ 1000 * f ~20"),
    ("XRANGE 100", "DEL x*;[0..199 XADD x*]", "XRANGE x* - + COUNT 100"),
    ("XADD, small", "DEL x*", "XADD x* MAXLEN 10 * f ~20"),
    ("?XLEN", "DEL x*;XADD x* * f v", "XLEN x*"),
    ("PFADD there", "DEL p*;PFADD p* a b c", "PFADD p* a"),
    ("?PFCOUNT", "DEL p*;PFADD p* a b c", "PFCOUNT p*"),
    ("SORT 1000", "DEL l*;RPUSH l* [0..999 ]", "SORT l* LIMIT 0 10"),
    ("LCS 100", "SET {k}a ~100;SET {k}b ~100", "LCS {k}a {k}b LEN"),
    ("?LCS 300", "SET {k}a ~300;SET {k}b ~300", "LCS {k}a {k}b LEN"),
    ("SCAN 10", "", "SCAN 0"),
    ("?SCAN 100", "", "SCAN 0 COUNT 100"),
    ("OBJECT ENCODING", "SET k* ~10", "OBJECT ENCODING k*"),
    ("EVAL 1", "", "EVAL return(1) 0"),
    ("EVAL 100 GET", "SET k* ~10", "EVAL for\u{a0}i=1,100\u{a0}do\u{a0}redis.call('get',KEYS[1])\u{a0}end 1 k*"),
    ("EVAL GET", "SET k* ~10", "EVAL return(redis.call('get',KEYS[1])) 1 k*"),
    ("?EVAL 10 GET", "SET k* ~10", "EVAL for\u{a0}i=1,10\u{a0}do\u{a0}redis.call('get',KEYS[1])\u{a0}end 1 k*"),
];

pub(super) fn cases() -> Vec<Case> {
    CASES.iter().map(|(name, setup, body)| case(name, setup, body)).collect()
}

fn case(name: &str, setup: Line, body: Line) -> Case {
    let plain = name.trim_start_matches(['!', '?']);
    let marks = &name[..name.len() - plain.len()];
    // A script may have semicolons of its own.
    let lines: Vec<&str> = if body.starts_with("EVAL") { vec![body] } else { body.split(';').collect() };
    let of = |lines: &[&str], times: usize| -> Vec<Words> {
        let has_numbers = lines.iter().any(|line| line.contains('*'));
        let keys = if has_numbers { KEYS } else { times };
        (0..keys).flat_map(|key| lines.iter().flat_map(move |line| words(line, key))).collect()
    };
    let setup: Vec<&str> = setup.split(';').filter(|line| !line.is_empty()).collect();
    Case {
        name: format!("{plain}{}", if marks.contains('!') { ", alone" } else { "" }),
        setup: of(&setup, 1),
        body: of(&lines, KEYS),
        alone: marks.contains('!'),
        held_out: marks.contains('?'),
    }
}

/// The commands of `line` for the key with this number.
fn words(line: &str, key: usize) -> Vec<Words> {
    if let Some(inner) = line.strip_prefix("[0..199 ").and_then(|rest| rest.strip_suffix(']')) {
        return (0..200).map(|_| words(&format!("{inner} * f ~20"), key).remove(0)).collect();
    }
    let mut all: Words = Vec::new();
    let mut rest = line;
    while let Some(word) = rest.split(' ').next().filter(|_| !rest.is_empty()) {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inner, behind) = inner.split_once(']').unwrap_or((inner, ""));
            let mut parts = inner.split(' ');
            let (from, to) = parts.next().and_then(|range| range.split_once("..")).unwrap_or(("0", "0"));
            let (from, to): (usize, usize) = (from.parse().unwrap_or(0), to.parse().unwrap_or(0));
            let parts: Vec<&str> = parts.collect();
            for number in from..=to {
                for part in &parts {
                    all.push(match part.strip_prefix('~') {
                        Some(bytes) => filled(bytes),
                        None if part.starts_with('#') => part.replace('#', &number.to_string()).into_bytes(),
                        None => format!("{part}{number}").into_bytes(),
                    });
                }
            }
            rest = behind.trim_start();
            continue;
        }
        rest = rest[word.len()..].trim_start_matches(' ');
        all.push(match word.strip_prefix('~').filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => filled(bytes),
            None if word == "*" || word == "~" => word.as_bytes().to_vec(),
            None => word.replace('*', &key.to_string()).replace('\u{a0}', " ").into_bytes(),
        });
    }
    vec![all]
}

fn filled(bytes: &str) -> Vec<u8> {
    vec![b'v'; bytes.parse().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_words() {
        let text = |case: &Case| -> Vec<String> {
            case.body
                .iter()
                .map(|words| words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "))
                .collect()
        };
        let pairs = case("?SET, DEL", "", "SET k* ~3;DEL k*");
        assert_eq!(text(&pairs)[..3], ["SET k0 vvv", "DEL k0", "SET k1 vvv"]);
        assert!(pairs.held_out && !pairs.alone && pairs.body.len() == 32);
        assert_eq!(
            text(&case("a", "", "ZADD z* [3..4 # m] x")),
            (0..16).map(|key| format!("ZADD z{key} 3 m3 4 m4 x")).collect::<Vec<_>>()
        );
        assert_eq!(text(&case("a", "", "XADD x MAXLEN ~ 1000 * f ~2"))[0], "XADD x MAXLEN ~ 1000 * f vv");
        assert_eq!(case("a", "[0..199 XADD x]", "PING").setup.len(), 200);
        assert!(cases().iter().any(|case| case.alone) && cases().len() > 70);
    }
}
