//! The rows of the table: one for each command, with all facts about it.
//!
//! ```text
//! Id "name" arity "group" [flags] [categories] (first last step USE) handler { field: value } "summary";
//! ```
//!
//! - `arity`: the number of words, the name included; negative: at least that many.
//! - `group`: the part of Redis' manual that describes the command.
//! - `[flags]`: Redis' flags, as `COMMAND INFO` shows them; `write` comes first if the command writes.
//! - `[categories]`: Redis' ACL categories, at least one. `read`, `write`, `fast` and `slow` follow from the flags, and
//!   may be left out if there are others.
//! - `(first last step USE)`: where the keys are ([`Command::keys`](super::Command::keys)) and what is done to them
//!   ([`key_use`](super::key_use)); `()` if there are none, `(0 0 0 USE)` if only some subcommands have one.
//! - `handler`: a function of `handlers`; `session` if the command is not of rows. If only its subcommands with a key
//!   are, the function that serves these follows `session`.
//! - `{ field: value }`: fields of [`Command`](super::Command) that most commands leave as they are.

/// Hands all rows to the macro `$use_them`. In `table.rs` they become `COMMANDS`; in `run.rs` they become the calls of
/// their handlers.
macro_rules! with_commands {
    ($use_them:ident) => {
        $use_them! {
            Get "get" 2 "string" [readonly fast] [string] (1 1 1 READ) strings::get "The value of a key";
            Set "set" -3 "string" [write denyoom] [string] (1 1 1 SET)
                strings::set { plain: Plain::WithoutConditions } "Sets a key, with conditions and expiry";
            SetEx "setex" 4 "string" [write denyoom] [string] (1 1 1 OVERWRITE)
                strings::setex { plain: Plain::Always } "Sets a key that expires in seconds";
            PSetEx "psetex" 4 "string" [write denyoom] [string] (1 1 1 OVERWRITE)
                strings::psetex { plain: Plain::Always } "Sets a key that expires in milliseconds";
            SetNx "setnx" 3 "string" [write denyoom fast] [string] (1 1 1 INSERT)
                strings::setnx "Sets a key that does not exist";
            GetSet "getset" 3 "string" [write denyoom fast] [string] (1 1 1 CHANGE)
                strings::getset "Sets a key, gives the old value";
            GetDel "getdel" 2 "string" [write fast] [string] (1 1 1 TAKE)
                strings::getdel "Deletes a key, gives its value";
            GetEx "getex" -2 "string" [write fast] [string] (1 1 1 CHANGE)
                strings::getex "The value of a key, whose expiry is changed";
            MGet "mget" -2 "string" [readonly fast] [string] (1 -1 1 READ) strings::mget "The values of several keys";
            MSet "mset" -3 "string" [write denyoom] [string] (1 -1 2 OVERWRITE)
                strings::mset { plain: Plain::Always, split: Some(Split::Ok) } "Sets several keys as one";
            MSetNx "msetnx" -3 "string" [write denyoom] [string] (1 -1 2 INSERT)
                strings::msetnx "Sets several keys if none exists";
            Incr "incr" 2 "string" [write denyoom fast] [string] (1 1 1 CHANGE) numbers::incr "Adds one";
            Decr "decr" 2 "string" [write denyoom fast] [string] (1 1 1 CHANGE) numbers::decr "Subtracts one";
            IncrBy "incrby" 3 "string" [write denyoom fast] [string] (1 1 1 CHANGE)
                numbers::incrby "Adds a whole number";
            DecrBy "decrby" 3 "string" [write denyoom fast] [string] (1 1 1 CHANGE)
                numbers::decrby "Subtracts a whole number";
            IncrByFloat "incrbyfloat" 3 "string" [write denyoom fast] [string] (1 1 1 CHANGE)
                numbers::incrbyfloat "Adds a number";
            Append "append" 3 "string" [write denyoom fast] [string] (1 1 1 EXTEND) ranges::append "Appends to a value";
            StrLen "strlen" 2 "string" [readonly fast] [string] (1 1 1 LOOK) ranges::strlen "The length of a value";
            GetRange "getrange" 4 "string" [readonly] [string] (1 1 1 READ) ranges::getrange "A part of a value";
            SubStr "substr" 4 "string" [readonly] [string] (1 1 1 READ)
                ranges::getrange "A part of a value (old name of getrange)";
            SetRange "setrange" 4 "string" [write denyoom] [string] (1 1 1 UPDATE)
                ranges::setrange { reach: Reach::Byte } "Overwrites a part of a value";

            Lcs "lcs" -3 "string" [readonly] [string] (1 2 1 READ)
                lcs::lcs "The longest common subsequence of two values";

            SetBit "setbit" 4 "bitmap" [write denyoom] [bitmap] (1 1 1 CHANGE)
                bitmap::setbit { reach: Reach::Bit } "Sets a bit, gives the old one";
            GetBit "getbit" 3 "bitmap" [readonly fast] [bitmap] (1 1 1 READ) bitmap::getbit "A bit of a value";
            BitCount "bitcount" -2 "bitmap" [readonly] [bitmap] (1 1 1 READ) bitmap::bitcount "How many bits are set";
            BitPos "bitpos" -3 "bitmap" [readonly] [bitmap] (1 1 1 READ)
                bitmap::bitpos "The first bit that is set, or not";
            BitOp "bitop" -4 "bitmap" [write denyoom] [bitmap] (2 -1 1 COMBINE)
                bitmap::bitop "Combines values bit by bit";
            BitField "bitfield" -2 "bitmap" [write denyoom] [bitmap] (1 1 1 BITFIELD)
                bitfield::bitfield { reach: Reach::Fields, takes_many: true } "Numbers of any width in a value";
            BitFieldRo "bitfield_ro" -2 "bitmap" [readonly fast] [bitmap] (1 1 1 READ)
                bitfield::bitfield_ro { takes_many: true } "The same, only reading";

            HSet "hset" -4 "hash" [write denyoom fast] [hash] (1 1 1 UPDATE)
                hashes::hset { takes_many: true } "Sets fields of a hash";
            HMSet "hmset" -4 "hash" [write denyoom fast] [hash] (1 1 1 UPDATE)
                hashes::hmset { takes_many: true } "Sets fields of a hash (old name of hset)";
            HSetNx "hsetnx" 4 "hash" [write denyoom fast] [hash] (1 1 1 EXTEND)
                hashes::hsetnx "Sets a field that does not exist";
            HGet "hget" 3 "hash" [readonly fast] [hash] (1 1 1 READ) hashes::hget "The value of a field";
            HMGet "hmget" -3 "hash" [readonly fast] [hash] (1 1 1 READ)
                hashes::hmget { takes_many: true } "The values of several fields";
            HGetAll "hgetall" 2 "hash" [readonly] [hash] (1 1 1 READ) hashes::hgetall "All fields with their values";
            HKeys "hkeys" 2 "hash" [readonly] [hash] (1 1 1 READ) hashes::hkeys "All fields";
            HVals "hvals" 2 "hash" [readonly] [hash] (1 1 1 READ) hashes::hvals "All values";
            HLen "hlen" 2 "hash" [readonly fast] [hash] (1 1 1 LOOK) hashes::hlen "How many fields there are";
            HExists "hexists" 3 "hash" [readonly fast] [hash] (1 1 1 LOOK) hashes::hexists "Whether a field exists";
            HStrLen "hstrlen" 3 "hash" [readonly fast] [hash] (1 1 1 LOOK) hashes::hstrlen "The length of a value";
            HDel "hdel" -3 "hash" [write fast] [hash] (1 1 1 REMOVE)
                hashes::hdel { takes_many: true } "Deletes fields";
            HIncrBy "hincrby" 4 "hash" [write denyoom fast] [hash] (1 1 1 CHANGE)
                hashes::hincrby "Adds a whole number to a value";
            HIncrByFloat "hincrbyfloat" 4 "hash" [write denyoom fast] [hash] (1 1 1 CHANGE)
                hashes::hincrbyfloat "Adds a number to a value";
            HRandField "hrandfield" -2 "hash" [readonly] [hash] (1 1 1 READ)
                hashes::hrandfield "Fields by chance";
            HExpire "hexpire" -6 "hash" [write fast] [hash] (1 1 1 UPDATE)
                field_expiry::hexpire { takes_many: true } "Fields expire in seconds";
            HPExpire "hpexpire" -6 "hash" [write fast] [hash] (1 1 1 UPDATE)
                field_expiry::hpexpire { takes_many: true } "Fields expire in milliseconds";
            HExpireAt "hexpireat" -6 "hash" [write fast] [hash] (1 1 1 UPDATE)
                field_expiry::hexpireat { takes_many: true } "Fields expire at a time in seconds";
            HPExpireAt "hpexpireat" -6 "hash" [write fast] [hash] (1 1 1 UPDATE)
                field_expiry::hpexpireat { takes_many: true } "Fields expire at a time in milliseconds";
            HPersist "hpersist" -5 "hash" [write fast] [hash] (1 1 1 UPDATE)
                field_expiry::hpersist { takes_many: true } "Fields do not expire";
            HTtl "httl" -5 "hash" [readonly fast] [hash] (1 1 1 READ)
                field_expiry::httl { takes_many: true } "In how many seconds fields expire";
            HPTtl "hpttl" -5 "hash" [readonly fast] [hash] (1 1 1 READ)
                field_expiry::hpttl { takes_many: true } "In how many milliseconds fields expire";
            HExpireTime "hexpiretime" -5 "hash" [readonly fast] [hash] (1 1 1 READ)
                field_expiry::hexpiretime { takes_many: true } "When fields expire, in seconds";
            HPExpireTime "hpexpiretime" -5 "hash" [readonly fast] [hash] (1 1 1 READ)
                field_expiry::hpexpiretime { takes_many: true } "When fields expire, in milliseconds";
            HGetDel "hgetdel" -5 "hash" [write fast] [hash] (1 1 1 TAKE)
                field_values::hgetdel { takes_many: true } "Deletes fields, gives their values";
            HGetEx "hgetex" -5 "hash" [write fast] [hash] (1 1 1 CHANGE)
                field_values::hgetex { takes_many: true } "The values of fields, whose expiry is changed";
            HSetEx "hsetex" -6 "hash" [write denyoom fast] [hash] (1 1 1 UPDATE)
                field_values::hsetex { takes_many: true } "Sets fields that expire, with conditions";
            HScan "hscan" -3 "hash" [readonly] [hash] (1 1 1 READ)
                hashes::hscan "Some fields, and where to go on";

            SAdd "sadd" -3 "set" [write denyoom fast] [set] (1 1 1 EXTEND)
                sets::sadd { takes_many: true } "Adds members to a set";
            SRem "srem" -3 "set" [write fast] [set] (1 1 1 REMOVE)
                sets::srem { takes_many: true } "Removes members from a set";
            SIsMember "sismember" 3 "set" [readonly fast] [set] (1 1 1 LOOK)
                sets::sismember "Whether something is a member";
            SMIsMember "smismember" -3 "set" [readonly fast] [set] (1 1 1 READ)
                sets::smismember { takes_many: true } "Whether things are members";
            SCard "scard" 2 "set" [readonly fast] [set] (1 1 1 LOOK) sets::scard "How many members there are";
            SMembers "smembers" 2 "set" [readonly] [set] (1 1 1 READ) sets::smembers "All members";
            SRandMember "srandmember" -2 "set" [readonly] [set] (1 1 1 READ)
                sets::srandmember "Members by chance";
            SPop "spop" -2 "set" [write fast] [set] (1 1 1 TAKE)
                sets::spop "Removes members by chance, gives them";
            SMove "smove" 4 "set" [write fast] [set] (1 2 1 HAND_OVER)
                sets::smove "Moves a member to another set";
            SScan "sscan" -3 "set" [readonly] [set] (1 1 1 READ)
                sets::sscan "Some members, and where to go on";
            SInter "sinter" -2 "set" [readonly] [set] (1 -1 1 READ)
                set_operations::sinter "Members that all sets have";
            SUnion "sunion" -2 "set" [readonly] [set] (1 -1 1 READ)
                set_operations::sunion "Members that any of the sets has";
            SDiff "sdiff" -2 "set" [readonly] [set] (1 -1 1 READ)
                set_operations::sdiff "Members that only the first of the sets has";
            SInterStore "sinterstore" -3 "set" [write denyoom] [set] (1 -1 1 INTERSECT)
                set_operations::sinterstore "Makes a set of members that all sets have";
            SUnionStore "sunionstore" -3 "set" [write denyoom] [set] (1 -1 1 COMBINE)
                set_operations::sunionstore "Makes a set of members that any of the sets has";
            SDiffStore "sdiffstore" -3 "set" [write denyoom] [set] (1 -1 1 COMBINE)
                set_operations::sdiffstore "Makes a set of members that only the first of the sets has";
            SInterCard "sintercard" -3 "set" [readonly movablekeys] [set] (0 0 0 READ)
                set_operations::sintercard { counted: Some(1), takes_many: true }
                "How many members all sets have, up to a limit";

            PfAdd "pfadd" -2 "hyperloglog" [write denyoom fast] [hyperloglog] (1 1 1 EXTEND)
                hyperloglogs::pfadd { takes_many: true } "Counts elements, each once";
            PfCount "pfcount" -2 "hyperloglog" [readonly] [hyperloglog] (1 -1 1 REFRESH)
                hyperloglogs::pfcount { may_replicate: true } "About how many elements were counted";
            PfMerge "pfmerge" -2 "hyperloglog" [write denyoom] [hyperloglog] (1 -1 1 MERGE)
                hyperloglogs::pfmerge "Counts what the others have counted, too";
            PfDebug "pfdebug" 3 "hyperloglog" [write denyoom admin] [hyperloglog admin dangerous] (2 2 1 REFRESH)
                hyperloglogs::pfdebug "How a HyperLogLog is kept";
            PfSelfTest "pfselftest" 1 "hyperloglog" [admin] [hyperloglog admin dangerous] ()
                hyperloglogs::pfselftest "Whether counting works";
            ZAdd "zadd" -4 "sorted-set" [write denyoom fast] [sortedset] (1 1 1 UPDATE)
                zsets::zadd { takes_many: true } "Gives members scores";
            ZIncrBy "zincrby" 4 "sorted-set" [write denyoom fast] [sortedset] (1 1 1 CHANGE)
                zsets::zincrby "Adds to a score";
            ZScore "zscore" 3 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ) zsets::zscore "The score of a member";
            ZMScore "zmscore" -3 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ)
                zsets::zmscore { takes_many: true } "The scores of several members";
            ZCard "zcard" 2 "sorted-set" [readonly fast] [sortedset] (1 1 1 LOOK) zsets::zcard "How many members there are";
            ZRem "zrem" -3 "sorted-set" [write fast] [sortedset] (1 1 1 REMOVE)
                zsets::zrem { takes_many: true } "Removes members";
            ZRank "zrank" 3 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ)
                zsets::zrank "How many members have a lower score";
            ZRevRank "zrevrank" 3 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ)
                zsets::zrevrank "How many members have a higher score";
            ZRandMember "zrandmember" -2 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zsets::zrandmember "Members by chance";
            ZScan "zscan" -3 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zsets::zscan "Some members, and where to go on";
            ZCount "zcount" 4 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ)
                zranges::zcount "How many members have scores in a range";
            ZLexCount "zlexcount" 4 "sorted-set" [readonly fast] [sortedset] (1 1 1 READ)
                zranges::zlexcount "How many members have names in a range";
            ZRange "zrange" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrange "Members in a range of ranks, scores or names";
            ZRevRange "zrevrange" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrevrange "Members in a range of ranks, the last one first";
            ZRangeByScore "zrangebyscore" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrangebyscore "Members with scores in a range";
            ZRevRangeByScore "zrevrangebyscore" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrevrangebyscore "Members with scores in a range, the last one first";
            ZRangeByLex "zrangebylex" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrangebylex "Members with names in a range";
            ZRevRangeByLex "zrevrangebylex" -4 "sorted-set" [readonly] [sortedset] (1 1 1 READ)
                zranges::zrevrangebylex "Members with names in a range, the last one first";
            ZRangeStore "zrangestore" -5 "sorted-set" [write denyoom] [sortedset] (1 2 1 COMBINE)
                zranges::zrangestore "Stores members in a range";
            ZRemRangeByRank "zremrangebyrank" 4 "sorted-set" [write] [sortedset] (1 1 1 REMOVE)
                zranges::zremrangebyrank "Removes members in a range of ranks";
            ZRemRangeByScore "zremrangebyscore" 4 "sorted-set" [write] [sortedset] (1 1 1 REMOVE)
                zranges::zremrangebyscore "Removes members with scores in a range";
            ZRemRangeByLex "zremrangebylex" 4 "sorted-set" [write] [sortedset] (1 1 1 REMOVE)
                zranges::zremrangebylex "Removes members with names in a range";
            ZPopMin "zpopmin" -2 "sorted-set" [write fast] [sortedset] (1 1 1 TAKE)
                zpops::zpopmin "Removes members with the lowest scores, and gives them";
            ZPopMax "zpopmax" -2 "sorted-set" [write fast] [sortedset] (1 1 1 TAKE)
                zpops::zpopmax "Removes members with the highest scores, and gives them";
            ZMPop "zmpop" -4 "sorted-set" [write movablekeys] [sortedset] (0 0 0 TAKE)
                zpops::zmpop { counted: Some(1), takes_many: true } "The same, of the first set that has some";
            ZUnion "zunion" -3 "sorted-set" [readonly movablekeys] [sortedset] (0 0 0 READ)
                zcombine::zunion { counted: Some(1), takes_many: true } "All members of several sets";
            ZInter "zinter" -3 "sorted-set" [readonly movablekeys] [sortedset] (0 0 0 READ)
                zcombine::zinter { counted: Some(1), takes_many: true } "Members that all of several sets have";
            ZDiff "zdiff" -3 "sorted-set" [readonly movablekeys] [sortedset] (0 0 0 READ)
                zcombine::zdiff { counted: Some(1), takes_many: true } "Members of a set that no other has";
            ZUnionStore "zunionstore" -4 "sorted-set" [write denyoom movablekeys] [sortedset] (1 1 1 COMBINE)
                zcombine::zunionstore { counted: Some(2), takes_many: true } "Stores all members of several sets";
            ZInterStore "zinterstore" -4 "sorted-set" [write denyoom movablekeys] [sortedset] (1 1 1 COMBINE)
                zcombine::zinterstore { counted: Some(2), takes_many: true }
                "Stores members that all of several sets have";
            ZDiffStore "zdiffstore" -4 "sorted-set" [write denyoom movablekeys] [sortedset] (1 1 1 COMBINE)
                zcombine::zdiffstore { counted: Some(2), takes_many: true } "Stores members of a set that no other has";
            ZInterCard "zintercard" -3 "sorted-set" [readonly movablekeys] [sortedset] (0 0 0 READ)
                zcombine::zintercard { counted: Some(1), takes_many: true } "How many members all of several sets have";
            LPush "lpush" -3 "list" [write denyoom fast] [list] (1 1 1 EXTEND)
                lists::lpush { takes_many: true } "Puts values in front of a list";
            RPush "rpush" -3 "list" [write denyoom fast] [list] (1 1 1 EXTEND)
                lists::rpush { takes_many: true } "Puts values behind a list";
            LPushX "lpushx" -3 "list" [write denyoom fast] [list] (1 1 1 EXTEND)
                lists::lpushx { takes_many: true } "Puts values in front of a list that exists";
            RPushX "rpushx" -3 "list" [write denyoom fast] [list] (1 1 1 EXTEND)
                lists::rpushx { takes_many: true } "Puts values behind a list that exists";
            LPop "lpop" -2 "list" [write fast] [list] (1 1 1 TAKE) lists::lpop "Takes the first values of a list";
            RPop "rpop" -2 "list" [write fast] [list] (1 1 1 TAKE) lists::rpop "Takes the last values of a list";
            LLen "llen" 2 "list" [readonly fast] [list] (1 1 1 LOOK) lists::llen "The length of a list";
            LRange "lrange" 4 "list" [readonly] [list] (1 1 1 READ) lists::lrange "Some values of a list";
            LIndex "lindex" 3 "list" [readonly] [list] (1 1 1 READ) lists::lindex "A value of a list";
            LSet "lset" 4 "list" [write denyoom] [list] (1 1 1 UPDATE) lists::lset "Sets a value of a list";
            LInsert "linsert" 5 "list" [write denyoom] [list] (1 1 1 EXTEND)
                lists::linsert "Puts a value beside another one";
            LRem "lrem" 4 "list" [write] [list] (1 1 1 REMOVE) lists::lrem "Takes values out that are equal to one";
            LTrim "ltrim" 4 "list" [write] [list] (1 1 1 REMOVE) lists::ltrim "Keeps some values of a list";
            LPos "lpos" -3 "list" [readonly] [list] (1 1 1 READ) list_search::lpos "Where in a list a value is";
            LMove "lmove" 5 "list" [write denyoom] [list] (1 2 1 HAND_OVER)
                list_moves::lmove "Takes a value out of a list and puts it into another";
            RPopLPush "rpoplpush" 3 "list" [write denyoom] [list] (1 2 1 HAND_OVER)
                list_moves::rpoplpush "The same, from the end of one to the front of the other";
            LMPop "lmpop" -4 "list" [write movablekeys] [list] (0 0 0 TAKE)
                list_moves::lmpop { counted: Some(1), takes_many: true }
                "Takes values out of the first list that has some";

            GeoAdd "geoadd" -5 "geo" [write denyoom] [geo] (1 1 1 UPDATE)
                geo::geoadd { takes_many: true } "Puts members somewhere";
            GeoPos "geopos" -2 "geo" [readonly] [geo] (1 1 1 READ)
                geo::geopos { takes_many: true } "Where members are";
            GeoHash "geohash" -2 "geo" [readonly] [geo] (1 1 1 READ)
                geo::geohash { takes_many: true } "Where members are, in letters";
            GeoDist "geodist" -4 "geo" [readonly] [geo] (1 1 1 READ) geo::geodist "How far two members are apart";
            GeoSearch "geosearch" -7 "geo" [readonly] [geo] (1 1 1 READ)
                geosearch::geosearch "Members in a circle or a box";
            GeoSearchStore "geosearchstore" -8 "geo" [write denyoom] [geo] (1 2 1 COMBINE)
                geosearch::geosearchstore "Stores members in a circle or a box";
            GeoRadius "georadius" -6 "geo" [write denyoom movablekeys] [geo] (1 1 1 READ)
                geosearch::georadius { stores_from: Some(6) } "Members in a circle";
            GeoRadiusRo "georadius_ro" -6 "geo" [readonly] [geo] (1 1 1 READ)
                geosearch::georadius_ro "The same, only reading";
            GeoRadiusByMember "georadiusbymember" -5 "geo" [write denyoom movablekeys] [geo] (1 1 1 READ)
                geosearch::georadiusbymember { stores_from: Some(5) } "Members in a circle around one of them";
            GeoRadiusByMemberRo "georadiusbymember_ro" -5 "geo" [readonly] [geo] (1 1 1 READ)
                geosearch::georadiusbymember_ro "The same, only reading";

            XAdd "xadd" -5 "stream" [write denyoom fast] [stream] (1 1 1 UPDATE)
                streams::xadd { takes_many: true } "Adds an entry to a stream";
            XLen "xlen" 2 "stream" [readonly fast] [stream] (1 1 1 LOOK) streams::xlen "How many entries a stream has";
            XRange "xrange" -4 "stream" [readonly] [stream] (1 1 1 READ) streams::xrange "Entries from an id to another";
            XRevRange "xrevrange" -4 "stream" [readonly] [stream] (1 1 1 READ)
                streams::xrevrange "The same, the last one first";
            XDel "xdel" -3 "stream" [write fast] [stream] (1 1 1 REMOVE)
                streams::xdel { takes_many: true } "Deletes entries";
            XTrim "xtrim" -4 "stream" [write] [stream] (1 1 1 REMOVE) streams::xtrim "Deletes the oldest entries";
            XSetId "xsetid" -3 "stream" [write denyoom fast] [stream] (1 1 1 UPDATE)
                streams::xsetid "Sets the last id of a stream";
            XRead "xread" -4 "stream" [readonly blocking movablekeys] [stream blocking] (0 0 0 READ)
                stream_reads::xread { reads_streams: true, takes_many: true }
                "Entries behind ids of several streams, waits for them";
            XReadGroup "xreadgroup" -7 "stream" [write blocking movablekeys] [stream blocking] (0 0 0 READ)
                stream_reads::xreadgroup { reads_streams: true, takes_many: true }
                "The same for a consumer of a group";
            XGroup "xgroup" -2 "stream" [] [slow] (0 0 0 UPDATE)
                stream_groups::xgroup { is_container: true, writes_behind: true,
                                        keyed: &["create", "setid", "destroy", "createconsumer", "delconsumer"] }
                "Makes and ends groups of consumers";
            XAck "xack" -4 "stream" [write fast] [stream] (1 1 1 UPDATE)
                stream_groups::xack { takes_many: true } "Acknowledges entries";
            XClaim "xclaim" -6 "stream" [write fast] [stream] (1 1 1 UPDATE)
                stream_claims::xclaim { takes_many: true } "Gives pending entries to another consumer";
            XAutoClaim "xautoclaim" -6 "stream" [write fast] [stream] (1 1 1 REMOVE)
                stream_claims::xautoclaim "The same with those that have been pending for long";
            XPending "xpending" -3 "stream" [readonly] [stream] (1 1 1 READ)
                stream_info::xpending "What is pending for a group";
            XInfo "xinfo" -2 "stream" [] [slow] (0 0 0 READ)
                stream_info::xinfo { is_container: true, keyed: &["stream", "groups", "consumers"] }
                "What a stream is like";

            BLPop "blpop" -3 "list" [write noscript blocking] [list blocking] (1 -2 1 TAKE)
                blocking::blpop "Takes the first value of a list, waits for it";
            BRPop "brpop" -3 "list" [write noscript blocking] [list blocking] (1 -2 1 TAKE)
                blocking::brpop "Takes the last value of a list, waits for it";
            BLMove "blmove" 6 "list" [write denyoom noscript blocking] [list blocking] (1 2 1 HAND_OVER)
                blocking::blmove "Moves a value to another list, waits for it";
            BRPopLPush "brpoplpush" 4 "list" [write denyoom noscript blocking] [list blocking] (1 2 1 HAND_OVER)
                blocking::brpoplpush "The same, from the end of one to the front of the other";
            BLMPop "blmpop" -5 "list" [write blocking movablekeys] [list blocking] (0 0 0 TAKE)
                blocking::blmpop { counted: Some(2), takes_many: true }
                "Takes values out of the first list that has some, waits for them";
            BZPopMin "bzpopmin" -3 "sorted-set" [write noscript fast blocking] [sortedset blocking] (1 -2 1 TAKE)
                blocking::bzpopmin "Removes the member with the lowest score, waits for it";
            BZPopMax "bzpopmax" -3 "sorted-set" [write noscript fast blocking] [sortedset blocking] (1 -2 1 TAKE)
                blocking::bzpopmax "Removes the member with the highest score, waits for it";
            BZMPop "bzmpop" -5 "sorted-set" [write blocking movablekeys] [sortedset blocking] (0 0 0 TAKE)
                blocking::bzmpop { counted: Some(2), takes_many: true }
                "Removes members of the first set that has some, waits for them";

            Del "del" -2 "generic" [write] [keyspace] (1 -1 1 DELETE)
                keys::del { split: Some(Split::Sum) } "Deletes keys";
            Unlink "unlink" -2 "generic" [write fast] [keyspace] (1 -1 1 DELETE)
                keys::del { split: Some(Split::Sum) } "Deletes keys";
            Exists "exists" -2 "generic" [readonly fast] [keyspace] (1 -1 1 LOOK)
                keys::exists "How many of the keys exist";
            Touch "touch" -2 "generic" [readonly fast] [keyspace] (1 -1 1 LOOK)
                keys::exists "How many of the keys exist";
            Type "type" 2 "generic" [readonly fast] [keyspace] (1 1 1 LOOK) keys::type_of "The type of a key's value";
            Expire "expire" -3 "generic" [write fast] [keyspace] (1 1 1 UPDATE)
                expiry::expire "Lets a key expire in seconds";
            PExpire "pexpire" -3 "generic" [write fast] [keyspace] (1 1 1 UPDATE)
                expiry::pexpire "Lets a key expire in milliseconds";
            ExpireAt "expireat" -3 "generic" [write fast] [keyspace] (1 1 1 UPDATE)
                expiry::expireat "Lets a key expire at a Unix time";
            PExpireAt "pexpireat" -3 "generic" [write fast] [keyspace] (1 1 1 UPDATE)
                expiry::pexpireat "Lets a key expire at a Unix time in ms";
            Ttl "ttl" 2 "generic" [readonly fast] [keyspace] (1 1 1 READ) expiry::ttl "Seconds until a key expires";
            PTtl "pttl" 2 "generic" [readonly fast] [keyspace] (1 1 1 READ)
                expiry::pttl "Milliseconds until a key expires";
            ExpireTime "expiretime" 2 "generic" [readonly fast] [keyspace] (1 1 1 READ)
                expiry::expiretime "The Unix time a key expires at";
            PExpireTime "pexpiretime" 2 "generic" [readonly fast] [keyspace] (1 1 1 READ)
                expiry::pexpiretime "The same in milliseconds";
            Persist "persist" 2 "generic" [write fast] [keyspace] (1 1 1 UPDATE) expiry::persist "Lets a key stay";
            Scan "scan" -2 "generic" [readonly] [keyspace] () scan::scan "Some keys, and where to go on";
            Keys "keys" 2 "generic" [readonly] [keyspace dangerous] () scan::keys "All keys that match a pattern";
            RandomKey "randomkey" 1 "generic" [readonly] [keyspace] () scan::randomkey "Some key";
            Rename "rename" 3 "generic" [write] [keyspace] (1 2 1 RENAME) moves::rename "Gives a key another name";
            RenameNx "renamenx" 3 "generic" [write fast] [keyspace] (1 2 1 RENAME_NX)
                moves::renamenx "Gives a key another name that is free";
            Copy "copy" -3 "generic" [write denyoom] [keyspace] (1 2 1 COPY)
                moves::copy { elsewhere: Some(2) } "Copies a value to another key";
            Move "move" 3 "generic" [write fast] [keyspace] (1 1 1 CHANGE)
                moves::move_key { elsewhere: Some(1) } "Moves a key to another database";
            SwapDb "swapdb" 3 "server" [write fast] [keyspace dangerous] ()
                session "Exchanges two databases: each has the other's keys from then on";
            Dump "dump" 2 "generic" [readonly] [keyspace] (1 1 1 READ)
                dump::dump "A value in the format of Redis' dump files";
            Restore "restore" -4 "generic" [write denyoom] [keyspace dangerous] (1 1 1 OVERWRITE)
                dump::restore "Sets a key to a dumped value";
            Migrate "migrate" -6 "generic" [write movablekeys] [keyspace dangerous] (3 3 1 TAKE)
                dump::migrate { takes_many: true, secret: Secret::Always } "Refused";
            Object "object" -2 "generic" [] [slow] (0 0 0 LOOK)
                object::object { is_container: true, keyed: &["encoding", "freq", "idletime", "refcount"] }
                "How Redis would keep a value";
            Sort "sort" -2 "generic" [write denyoom movablekeys] [list set sortedset dangerous] (1 1 1 READ)
                sort::sort { stores: true, follows: true } "Sorts a list or set";
            SortRo "sort_ro" -2 "generic" [readonly movablekeys] [list set sortedset dangerous] (1 1 1 READ)
                sort::sort_ro { follows: true } "The same, only reading";
            Wait "wait" 3 "generic" [noscript] [connection] () session "How many replicas have the last write: none";
            DbSize "dbsize" 1 "server" [readonly fast] [keyspace] ()
                scan::dbsize "The number of keys (counted: it takes time)";
            FlushDb "flushdb" -1 "server" [write] [keyspace dangerous] ()
                session "Deletes every key of the database, a page at a time";
            FlushAll "flushall" -1 "server" [write] [keyspace dangerous] ()
                session "Deletes every key of all databases, at once";

            Eval "eval" -3 "scripting" [noscript stale skip_monitor no_mandatory_keys movablekeys] [scripting] (0 0 0 CHANGE)
                session { counted: Some(2), takes_many: true, may_replicate: true } "Runs a script";
            EvalSha "evalsha" -3 "scripting" [noscript stale skip_monitor no_mandatory_keys movablekeys] [scripting]
                (0 0 0 CHANGE) session { counted: Some(2), takes_many: true, may_replicate: true } "Runs a script that is kept";
            EvalRo "eval_ro" -3 "scripting" [readonly noscript stale skip_monitor no_mandatory_keys movablekeys]
                [scripting] (0 0 0 READ) session { counted: Some(2), takes_many: true } "Runs a script that only reads";
            EvalShaRo "evalsha_ro" -3 "scripting" [readonly noscript stale skip_monitor no_mandatory_keys movablekeys]
                [scripting] (0 0 0 READ) session { counted: Some(2), takes_many: true }
                "Runs a script that is kept and only reads";
            FCall "fcall" -3 "scripting" [noscript stale skip_monitor no_mandatory_keys movablekeys] [scripting]
                (0 0 0 CHANGE) session { counted: Some(2), takes_many: true, may_replicate: true } "Runs a function";
            FCallRo "fcall_ro" -3 "scripting" [readonly noscript stale skip_monitor no_mandatory_keys movablekeys]
                [scripting] (0 0 0 READ) session { counted: Some(2), takes_many: true } "Runs a function that only reads";
            Function "function" -2 "scripting" [] [slow] () session { is_container: true } "The libraries of functions";
            Script "script" -2 "scripting" [] [slow] () session { is_container: true } "Scripts that are kept, or run";

            Multi "multi" 1 "transactions" [noscript loading stale fast allow_busy] [transaction] ()
                session { in_multi: true } "Opens a transaction: what follows is queued";
            Exec "exec" 1 "transactions" [noscript loading stale skip_slowlog] [transaction] ()
                session { in_multi: true } "Runs what was queued as one";
            Discard "discard" 1 "transactions" [noscript loading stale fast allow_busy] [transaction] ()
                session { in_multi: true } "Forgets what was queued, and what is watched";
            Watch "watch" -2 "transactions" [noscript loading stale fast allow_busy] [transaction] (1 -1 1 LOOK)
                session { in_multi: true, takes_many: true } "Lets EXEC fail if a key changes before it";
            Unwatch "unwatch" 1 "transactions" [noscript loading stale fast allow_busy] [transaction] ()
                session "Forgets what is watched";

            Subscribe "subscribe" -2 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true, channel_use: ChannelUse::Names } "Listens to channels";
            Unsubscribe "unsubscribe" -1 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true } "Listens to channels no more";
            PSubscribe "psubscribe" -2 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true, channel_use: ChannelUse::Patterns } "Listens to channels that match patterns";
            PUnsubscribe "punsubscribe" -1 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true } "Listens to patterns no more";
            Publish "publish" 3 "pubsub" [pubsub loading stale fast] [pubsub] ()
                session { channel_use: ChannelUse::First, may_replicate: true } "Sends a message to those who listen to a channel";
            SSubscribe "ssubscribe" -2 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true, channels: Some((1, -1, 1)),
                          channel_use: ChannelUse::Names }
                "Listens to channels of hash slots";
            SUnsubscribe "sunsubscribe" -1 "pubsub" [pubsub noscript loading stale] [pubsub] ()
                session { in_subscribed: true, takes_many: true, channels: Some((1, -1, 1)) }
                "Listens to channels of hash slots no more";
            SPublish "spublish" 3 "pubsub" [pubsub loading stale fast] [pubsub] ()
                session { channels: Some((1, 1, 1)), channel_use: ChannelUse::First, may_replicate: true }
                "Sends a message to those who listen to a channel of a hash slot";
            PubSub "pubsub" -2 "pubsub" [] [slow] ()
                session { is_container: true, takes_many: true } "About channels and who listens";

            Ping "ping" -1 "connection" [fast] [connection] ()
                session { any_order: true, in_subscribed: true } "Answers";
            Echo "echo" 2 "connection" [loading stale fast] [connection] () session { any_order: true } "Says it back";
            Quit "quit" -1 "connection" [noscript loading stale fast no_auth allow_busy] [connection] ()
                session { in_multi: true, in_subscribed: true } "Closes the connection";
            Select "select" 2 "connection" [loading stale fast] [connection] ()
                session "Chooses one of the databases, 0 to 15";
            Reset "reset" 1 "connection" [noscript loading stale fast no_auth allow_busy] [connection] ()
                session { in_multi: true, in_subscribed: true } "Makes the connection as new";
            Auth "auth" -2 "connection" [noscript loading stale fast no_auth allow_busy] [connection] ()
                session { secret: Secret::Always } "Says who you are";
            Hello "hello" -1 "connection" [noscript loading stale fast no_auth allow_busy] [connection] ()
                session { secret: Secret::Always } "Chooses the protocol, and says who is here";
            Client "client" -2 "connection" [] [slow] ()
                session { is_container: true } "About this connection and the others";

            Acl "acl" -2 "server" [] [slow] ()
                session { is_container: true, secret: Secret::Always } "The users of the tenant, and what they may do";
            Command "command" -1 "server" [loading stale] [connection] ()
                session { is_container: true, takes_many: true } "About the commands";
            Info "info" -1 "server" [loading stale] [dangerous] () session "About the server";
            Config "config" -2 "server" [] [slow] ()
                session { is_container: true, secret: Secret::Settings } "About the settings";
            Monitor "monitor" 1 "server" [admin noscript loading stale] [admin dangerous] ()
                session "Lets the connection be told every command of its tenant";
            Role "role" 1 "server" [noscript loading stale fast] [admin dangerous] ()
                session "What part it has in replication";
            SlowLog "slowlog" -2 "server" [] [slow] ()
                session { is_container: true } "The last commands that took long";
            Latency "latency" -2 "server" [] [slow] ()
                session { is_container: true } "Commands that took long, and how long commands take";
            Memory "memory" -2 "server" [] [slow] (0 0 0 LOOK)
                session memory::usage { is_container: true, keyed: &["usage"] } "What takes memory";
            Save "save" 1 "server" [admin noscript no_async_loading no_multi] [admin dangerous] ()
                session "Everything that was answered is saved";
            BgSave "bgsave" -1 "server" [admin noscript no_async_loading] [admin dangerous] ()
                session "The same";
            BgRewriteAof "bgrewriteaof" 1 "server" [admin noscript no_async_loading] [admin dangerous] ()
                session "The same: the log is never rewritten";
            ReplicaOf "replicaof" 3 "server" [admin noscript stale no_async_loading] [admin dangerous] ()
                session "Refused, but for NO ONE";
            SlaveOf "slaveof" 3 "server" [admin noscript stale no_async_loading] [admin dangerous] ()
                session "Refused, but for NO ONE (old name of replicaof)";
            Sync "sync" 1 "server" [admin noscript no_async_loading no_multi] [admin dangerous] ()
                session "Streams all that the tenant has as a dump file, and closes the connection";
            PSync "psync" -3 "server" [admin noscript no_async_loading no_multi] [admin dangerous] ()
                session "The same: nothing is followed";
            ReplConf "replconf" -1 "server" [admin noscript loading stale allow_busy] [admin dangerous] ()
                session "What SYNC is to stream";
            Failover "failover" -1 "server" [admin noscript stale] [admin dangerous] ()
                session "Refused: there are no replicas";
            Shutdown "shutdown" -1 "server" [admin noscript loading stale no_multi allow_busy] [admin dangerous] ()
                session "Refused: the server is shared";
            Module "module" -2 "server" [] [slow] () session { is_container: true } "There are no modules";
            LolWut "lolwut" -1 "server" [readonly fast] [fast] () session "The version";
            Debug "debug" -2 "server" [admin noscript loading stale] [admin dangerous] ()
                session "For tests, where it is allowed";
            LastSave "lastsave" 1 "server" [loading stale fast] [admin dangerous] ()
                session "When everything was safe on disk";
            Cluster "cluster" -2 "cluster" [] [slow] ()
                session { is_container: true } "The slot of a key; else an error: to clients this is one server";
            ReadOnly "readonly" 1 "cluster" [loading stale fast] [connection] () session "An error: this is no cluster";
            ReadWrite "readwrite" 1 "cluster" [loading stale fast] [connection] ()
                session "An error: this is no cluster";
            Asking "asking" 1 "cluster" [fast] [connection] () session "An error: this is no cluster";
            Ru "ru" -2 "server" [loading stale] [slow] ()
                session "Weir's own: what commands cost, in request units";
            Time "time" 1 "server" [loading stale fast] [fast] () session { any_order: true } "The server's clock";
        }
    };
}
pub(crate) use with_commands;
