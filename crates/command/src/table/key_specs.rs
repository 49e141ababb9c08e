//! Where the keys of commands are, in the terms that Redis 7.0 tells cluster clients: *key specifications*.

/// Where to begin to look for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this word.
    Index(i64),
    /// Behind this word, which is searched from a position on (negative: from the end, backwards).
    Keyword(&'static str, i64),
    /// Nobody can tell.
    Unknown,
}

/// Which words are keys, from that position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// The last key (negative: from the end), the step between keys, and a limit: only one part in this many of the
    /// remaining words is keys (0 = all of them).
    Range(i64, i64, i64),
    /// The position of the number of keys, the position of the first key, and the step between keys.
    Number(i64, i64, i64),
    /// Nobody can tell.
    Unknown,
}

/// One place where there are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// What is done to the keys.
    pub flags: &'static [&'static str],
    /// Where to begin to look for them.
    pub begin: Begin,
    /// Which words they are.
    pub find: Find,
}

const fn spec(flags: &'static [&'static str], begin: Begin, find: Find) -> KeySpec {
    KeySpec { flags, begin, find }
}

/// The specifications of the command called `name`, in lower case.
pub fn of(name: &str) -> &'static [KeySpec] {
    let has = |(names, _): &&(&str, &[KeySpec])| names.split_ascii_whitespace().any(|one| one == name);
    KEY_SPECS.iter().find(has).map_or(&[], |(_, specs)| specs)
}

/// Names of commands, and the specifications that they share.
static KEY_SPECS: &[(&str, &[KeySpec])] = &[
    (
        "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd",
        &[spec(&["RW", "insert"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    (
        "bitcount bitfield_ro bitpos dump expiretime geodist geohash geopos georadius_ro georadiusbymember_ro \
         geosearch get getbit getrange hget hgetall hkeys hmget hrandfield hscan hvals lindex lpos lrange \
         pexpiretime pttl smembers smismember srandmember sscan substr ttl xpending xrange xrevrange zcount \
         zlexcount zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex \
         zrevrangebyscore zrevrank zscan zscore",
        &[spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    ("bitfield set", &[spec(&["RW", "access", "update", "variable_flags"], Begin::Index(1), Find::Range(0, 1, 0))]),
    (
        "bitop",
        &[
            spec(&["OW", "update"], Begin::Index(2), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(3), Find::Range(-1, 1, 0)),
        ],
    ),
    (
        "blmove brpoplpush lmove rpoplpush smove",
        &[
            spec(&["RW", "access", "delete"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RW", "insert"], Begin::Index(2), Find::Range(0, 1, 0)),
        ],
    ),
    ("blmpop bzmpop", &[spec(&["RW", "access", "delete"], Begin::Index(2), Find::Number(0, 1, 1))]),
    ("blpop brpop bzpopmax bzpopmin", &[spec(&["RW", "access", "delete"], Begin::Index(1), Find::Range(-2, 1, 0))]),
    (
        "copy",
        &[
            spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Index(2), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "decr decrby getex getset hincrby hincrbyfloat incr incrby incrbyfloat move setbit zincrby",
        &[spec(&["RW", "access", "update"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    ("del unlink", &[spec(&["RM", "delete"], Begin::Index(1), Find::Range(-1, 1, 0))]),
    ("eval evalsha fcall", &[spec(&["RW", "access", "update"], Begin::Index(2), Find::Number(0, 1, 1))]),
    ("eval_ro evalsha_ro fcall_ro", &[spec(&["RO", "access"], Begin::Index(2), Find::Number(0, 1, 1))]),
    ("exists touch watch", &[spec(&["RO"], Begin::Index(1), Find::Range(-1, 1, 0))]),
    (
        "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange xack xadd xclaim xsetid zadd",
        &[spec(&["RW", "update"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    (
        "georadius",
        &[
            spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Keyword("STORE", 6), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Keyword("STOREDIST", 6), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "georadiusbymember",
        &[
            spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Keyword("STORE", 5), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Keyword("STOREDIST", 5), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "geosearchstore zrangestore",
        &[
            spec(&["OW", "update"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(2), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "getdel lpop rpop spop zpopmax zpopmin",
        &[spec(&["RW", "access", "delete"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    (
        "hdel lrem ltrim srem xautoclaim xdel xtrim zrem zremrangebylex zremrangebyrank zremrangebyscore",
        &[spec(&["RW", "delete"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    (
        "hexists hlen hstrlen llen scard sismember strlen type xlen zcard",
        &[spec(&["RO"], Begin::Index(1), Find::Range(0, 1, 0))],
    ),
    ("lcs", &[spec(&["RO", "access"], Begin::Index(1), Find::Range(1, 1, 0))]),
    ("lmpop zmpop", &[spec(&["RW", "access", "delete"], Begin::Index(1), Find::Number(0, 1, 1))]),
    ("mget sdiff sinter sunion", &[spec(&["RO", "access"], Begin::Index(1), Find::Range(-1, 1, 0))]),
    (
        "migrate",
        &[
            spec(&["RW", "access", "delete"], Begin::Index(3), Find::Range(0, 1, 0)),
            spec(&["RW", "access", "delete", "incomplete"], Begin::Keyword("KEYS", -2), Find::Range(-1, 1, 0)),
        ],
    ),
    ("mset", &[spec(&["OW", "update"], Begin::Index(1), Find::Range(-1, 2, 0))]),
    ("msetnx", &[spec(&["OW", "insert"], Begin::Index(1), Find::Range(-1, 2, 0))]),
    ("pfcount", &[spec(&["RW", "access"], Begin::Index(1), Find::Range(-1, 1, 0))]),
    ("pfdebug", &[spec(&["RW", "access"], Begin::Index(2), Find::Range(0, 1, 0))]),
    (
        "pfmerge",
        &[
            spec(&["RW", "access", "insert"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(2), Find::Range(-1, 1, 0)),
        ],
    ),
    ("psetex restore restore-asking setex", &[spec(&["OW", "update"], Begin::Index(1), Find::Range(0, 1, 0))]),
    (
        "rename",
        &[
            spec(&["RW", "access", "delete"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["OW", "update"], Begin::Index(2), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "renamenx",
        &[
            spec(&["RW", "access", "delete"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["OW", "insert"], Begin::Index(2), Find::Range(0, 1, 0)),
        ],
    ),
    (
        "sdiffstore sunionstore",
        &[
            spec(&["OW", "update"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(2), Find::Range(-1, 1, 0)),
        ],
    ),
    ("setnx", &[spec(&["OW", "insert"], Begin::Index(1), Find::Range(0, 1, 0))]),
    ("sintercard zdiff zinter zintercard zunion", &[spec(&["RO", "access"], Begin::Index(1), Find::Number(0, 1, 1))]),
    (
        "sinterstore",
        &[
            spec(&["RW", "update"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(2), Find::Range(-1, 1, 0)),
        ],
    ),
    (
        "sort",
        &[
            spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Unknown, Find::Unknown),
            spec(&["OW", "update"], Begin::Unknown, Find::Unknown),
        ],
    ),
    (
        "sort_ro",
        &[
            spec(&["RO", "access"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Unknown, Find::Unknown),
        ],
    ),
    ("spublish", &[spec(&["not_key"], Begin::Index(1), Find::Range(0, 1, 0))]),
    ("ssubscribe sunsubscribe", &[spec(&["not_key"], Begin::Index(1), Find::Range(-1, 1, 0))]),
    ("xread", &[spec(&["RO", "access"], Begin::Keyword("STREAMS", 1), Find::Range(-1, 1, 2))]),
    ("xreadgroup", &[spec(&["RO", "access"], Begin::Keyword("STREAMS", 4), Find::Range(-1, 1, 2))]),
    (
        "zdiffstore zinterstore zunionstore",
        &[
            spec(&["OW", "update"], Begin::Index(1), Find::Range(0, 1, 0)),
            spec(&["RO", "access"], Begin::Index(2), Find::Number(0, 1, 1)),
        ],
    ),
];
