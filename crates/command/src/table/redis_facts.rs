//! What Redis 7.0 tells of its commands beside where their keys are: hints for clients that spread requests over
//! several servers, and the version that introduced each command.

/// The tips for a command, or a subcommand (`container|name`), by its name in lower case.
pub fn tips(name: &str) -> &'static [&'static str] {
    find(TIPS, name).map_or(&[], |(tips, _)| tips)
}

/// The version that introduced it; `None` = not known.
pub fn since(name: &str) -> Option<&'static str> {
    find(SINCE, name).map(|(version, _)| *version)
}

/// Whether Redis 7.0 has a command, or a subcommand, of this name in lower case.
pub fn is_in_redis_7_0(name: &str) -> bool {
    since(name).is_some_and(|version| version < "7.1")
}

fn find<T>(table: &'static [(T, &str)], name: &str) -> Option<&'static (T, &'static str)> {
    table.iter().find(|(_, names)| names.split_ascii_whitespace().any(|one| one == name))
}

static TIPS: &[(&[&str], &str)] = &[
    (
        &["nondeterministic_output"],
        "client|info client|list cluster|bumpepoch cluster|count-failure-reports cluster|getkeysinslot cluster|info \
         cluster|links cluster|nodes cluster|replicas cluster|shards cluster|slaves cluster|slots dump hrandfield \
         hscan lastsave migrate object|encoding object|freq object|idletime object|refcount pttl spop srandmember \
         sscan time ttl xadd xautoclaim xclaim xinfo|consumers xpending xtrim zrandmember zscan",
    ),
    (
        &["nondeterministic_output_order"],
        "command command|docs command|info command|list function|list hgetall hkeys hvals module|list sdiff sinter \
         smembers sunion",
    ),
    (
        &["request_policy:all_nodes", "response_policy:all_succeeded"],
        "config|set latency|reset script|flush script|load slowlog|reset",
    ),
    (&["request_policy:all_shards", "response_policy:agg_sum"], "dbsize"),
    (&["request_policy:multi_shard", "response_policy:agg_sum"], "del exists touch unlink"),
    (
        &["request_policy:all_shards", "response_policy:all_succeeded"],
        "flushall flushdb function|delete function|flush function|load function|restore memory|purge ping",
    ),
    (&["request_policy:all_shards", "response_policy:one_succeeded"], "function|kill script|kill"),
    (
        &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        "function|stats info memory|doctor memory|malloc-stats memory|stats",
    ),
    (&["nondeterministic_output_order", "request_policy:all_shards"], "keys"),
    (
        &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        "latency|doctor latency|graph latency|histogram latency|history latency|latest",
    ),
    (&["request_policy:multi_shard"], "mget"),
    (&["request_policy:multi_shard", "response_policy:all_succeeded"], "mset"),
    (&["request_policy:multi_shard", "response_policy:agg_min"], "msetnx"),
    (&["nondeterministic_output", "request_policy:all_shards"], "randomkey"),
    (&["nondeterministic_output", "request_policy:special"], "scan"),
    (&["request_policy:all_shards", "response_policy:agg_logical_and"], "script|exists"),
    (&["nondeterministic_output", "request_policy:all_nodes"], "slowlog|get"),
    (&["nondeterministic_output", "request_policy:all_nodes", "response_policy:agg_sum"], "slowlog|len"),
    (&["request_policy:all_shards", "response_policy:agg_min"], "wait"),
];

static SINCE: &[(&str, &str)] = &[
    (
        "1.0.0",
        "auth bgrewriteaof bgsave dbsize debug decr decrby del echo exists expire flushall flushdb get getset incr \
         incrby info keys lastsave lindex llen lpop lpush lrange lrem lset ltrim mget monitor move ping quit \
         randomkey rename renamenx rpop rpush sadd save scard sdiff sdiffstore select set setnx shutdown sinter \
         sinterstore sismember slaveof smembers smove sort spop srandmember srem substr sunion sunionstore sync ttl \
         type",
    ),
    ("1.0.1", "mset msetnx"),
    ("1.0.5", "zrangebyscore"),
    ("1.2.0", "exec expireat multi rpoplpush zadd zcard zincrby zrange zrem zremrangebyscore zrevrange zscore"),
    (
        "2.0.0",
        "append blpop brpop config config|get config|resetstat config|set discard hdel hexists hget hgetall hincrby \
         hkeys hlen hmget hmset hset hsetnx hvals psubscribe publish punsubscribe setex subscribe unsubscribe zcount \
         zinterstore zrank zremrangebyrank zrevrank zunionstore",
    ),
    ("2.2.0", "brpoplpush getbit linsert lpushx persist rpushx setbit setrange strlen unwatch watch zrevrangebyscore"),
    ("2.2.3", "object object|encoding object|idletime object|refcount"),
    ("2.2.12", "slowlog slowlog|get slowlog|len slowlog|reset"),
    ("2.4.0", "client client|kill client|list getrange"),
    (
        "2.6.0",
        "bitcount bitop dump eval evalsha hincrbyfloat incrbyfloat migrate pexpire pexpireat psetex pttl restore \
         script script|exists script|flush script|kill script|load time",
    ),
    ("2.6.9", "client|getname client|setname"),
    ("2.8.0", "config|rewrite hscan psync pubsub pubsub|channels pubsub|numpat pubsub|numsub scan sscan zscan"),
    ("2.8.7", "bitpos"),
    ("2.8.9", "pfadd pfcount pfdebug pfmerge pfselftest zlexcount zrangebylex zremrangebylex zrevrangebylex"),
    ("2.8.12", "role"),
    (
        "2.8.13",
        "command command|count command|getkeys command|info latency latency|doctor latency|graph latency|help \
         latency|history latency|latest latency|reset",
    ),
    ("2.9.50", "client|pause"),
    (
        "3.0.0",
        "asking cluster cluster|addslots cluster|bumpepoch cluster|count-failure-reports cluster|countkeysinslot \
         cluster|delslots cluster|failover cluster|flushslots cluster|forget cluster|getkeysinslot cluster|info \
         cluster|keyslot cluster|meet cluster|myid cluster|nodes cluster|replicate cluster|reset cluster|saveconfig \
         cluster|set-config-epoch cluster|setslot cluster|slaves cluster|slots readonly readwrite replconf \
         restore-asking wait",
    ),
    ("3.2.0", "bitfield client|reply geoadd geodist geohash geopos georadius georadiusbymember hstrlen script|debug"),
    ("3.2.1", "touch"),
    ("3.2.10", "georadius_ro georadiusbymember_ro"),
    (
        "4.0.0",
        "memory memory|doctor memory|help memory|malloc-stats memory|purge memory|stats memory|usage module \
         module|list module|load module|unload object|freq swapdb unlink",
    ),
    (
        "5.0.0",
        "bzpopmax bzpopmin client|help client|id client|unblock cluster|help cluster|replicas command|help \
         config|help lolwut module|help replicaof script|help xack xadd xclaim xdel xgroup xgroup|create \
         xgroup|delconsumer xgroup|destroy xgroup|help xgroup|setid xinfo xinfo|consumers xinfo|groups xinfo|help \
         xinfo|stream xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim zpopmax zpopmin",
    ),
    (
        "6.0.0",
        "acl acl|cat acl|deluser acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save acl|setuser \
         acl|users acl|whoami bitfield_ro client|caching client|getredir client|tracking hello",
    ),
    ("6.0.6", "lpos"),
    (
        "6.2.0",
        "blmove client|info client|trackinginfo client|unpause copy failover geosearch geosearchstore getdel getex \
         hrandfield lmove object|help pubsub|help reset slowlog|help smismember xautoclaim xgroup|createconsumer \
         zdiff zdiffstore zinter zmscore zrandmember zrangestore zunion",
    ),
    (
        "7.0.0",
        "acl|dryrun blmpop bzmpop client|no-evict cluster|addslotsrange cluster|delslotsrange cluster|links \
         cluster|shards command|docs command|getkeysandflags command|list eval_ro evalsha_ro expiretime fcall \
         fcall_ro function function|delete function|dump function|flush function|help function|kill function|list \
         function|load function|restore function|stats latency|histogram lcs lmpop module|loadex pexpiretime \
         pubsub|shardchannels pubsub|shardnumsub sintercard sort_ro spublish ssubscribe sunsubscribe zintercard \
         zmpop",
    ),
    ("7.2.0", "client|no-touch client|setinfo"),
    ("7.4.0", "hexpire hexpireat hexpiretime hpersist hpexpire hpexpireat hpexpiretime hpttl httl"),
    ("8.0.0", "client|capa hgetdel hgetex hsetex"),
];
