//! What the words of commands on hashes, lists, sets and sorted sets are like. `K` is a key, `F` a field or member, `V` a
//! value, `N` a whole number, `S` a score; what stands between bars is chosen from; anything else is a word.

/// The words behind the name of the command that is called `name`.
pub(super) fn template(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(names, _)| names.split(' ').any(|one| one == name)).map(|(_, words)| *words)
}

/// Names of commands, and their words.
const TEMPLATES: [(&str, &str); 52] = [
    ("hset", "K F V F V"),
    ("hmset hsetnx", "K F V"),
    ("hget hexists hstrlen sismember zscore zrank zrevrank", "K F"),
    ("hmget hdel sadd srem smismember zmscore zrem pfadd", "K F F"),
    ("hgetall hkeys hvals hlen scard smembers zcard llen pfcount", "K"),
    ("hrandfield srandmember zrandmember", "K"),
    ("hincrby", "K F N"),
    ("hincrbyfloat", "K F S"),
    ("hscan sscan zscan", "K 0 COUNT 1000"),
    // All of it: which member comes by chance nobody could check.
    ("spop", "K 1000"),
    ("smove", "K K F"),
    ("sinter sunion sdiff", "K K"),
    ("sinterstore sunionstore sdiffstore", "K K K"),
    ("sintercard", "2 K K LIMIT N"),
    ("pfmerge", "K K"),
    ("pfdebug", "ENCODING K"),
    ("pfselftest", ""),
    ("zadd", "K |NX|XX|GT|LT|CH| S F"),
    ("zincrby", "K S F"),
    ("zcount zremrangebyscore", "K S +inf"),
    ("zlexcount zremrangebylex", "K - [F"),
    ("zrange", "K N N |WITHSCORES|REV|"),
    ("zrevrange", "K N N WITHSCORES"),
    ("zrangebyscore", "K -inf S LIMIT 0 3"),
    ("zrevrangebyscore", "K +inf S WITHSCORES"),
    ("zrangebylex", "K - +"),
    ("zrevrangebylex", "K + -"),
    ("zrangestore", "K K 0 N"),
    ("zremrangebyrank", "K N N"),
    ("zpopmin zpopmax", "K 2"),
    ("zmpop", "2 K K |MIN|MAX| COUNT 2"),
    ("zunion zinter", "2 K K AGGREGATE |SUM|MIN|MAX|"),
    ("zdiff", "2 K K WITHSCORES"),
    ("zunionstore zinterstore", "K 2 K K WEIGHTS 2 S"),
    ("zdiffstore", "K 2 K K"),
    ("zintercard", "2 K K"),
    ("lpush rpush lpushx rpushx", "K V V"),
    ("lpop rpop", "K |1|2|"),
    ("lrange", "K N N"),
    ("lindex", "K N"),
    ("lset", "K N V"),
    ("linsert", "K |BEFORE|AFTER| V V"),
    ("lrem", "K N V"),
    ("ltrim", "K N N"),
    ("lpos", "K V RANK -1"),
    ("lmove", "K K |LEFT|RIGHT| |LEFT|RIGHT|"),
    ("rpoplpush", "K K"),
    ("lmpop", "2 K K |LEFT|RIGHT| COUNT 2"),
    ("blpop brpop bzpopmin bzpopmax", "K K 1"),
    ("blmove", "K K |LEFT|RIGHT| |LEFT|RIGHT| 1"),
    ("brpoplpush", "K K 1"),
    ("blmpop", "1 2 K K |LEFT|RIGHT|"),
];
