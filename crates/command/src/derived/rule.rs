//! Which events a command that has written is told as: its own event, and those that go with it.

use crate::args::Args;
use crate::events::Classes;
use crate::table::{Command, Id};

/// A class and the name of an event in it.
pub(super) type Event = (Classes, &'static str);

/// How the events of a command follow from what it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The handler tells all events.
    Said,
    /// Nothing that anybody reads has changed; the handler tells what there is to tell.
    Silent,
    /// `del` for each key that is gone.
    Gone,
    /// This event for each key that was written; `del` for each key that is gone.
    Each(Event),
    /// As `Each`, followed by the event that the key expires.
    EachExpiring(Event),
    /// This event for each key that was written to; then `del` for each key that is gone.
    Taken(Event),
    /// This event for the key that took the result; `del` if the result was empty and the key had existed.
    Stored(Event),
    /// The first key has got another name.
    Renamed,
    /// The key has moved to another database.
    Moved,
    /// A copy was made.
    Copied,
    /// `taken` for the first key, then `put` for the second one; with `put_first` the other way round.
    HandedOver { taken: Event, put: Event, put_first: bool },
}

/// Whether the words from `from` on include one of `names`, in upper or lower case.
fn has_word(args: Args<'_>, from: usize, names: &[&str]) -> bool {
    args.iter_from(from).any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())))
}

/// Whether a `ZADD` increments. Its options stand in front of the first score; behind it, `INCR` is a member.
fn increments(args: Args<'_>) -> bool {
    let is_one_of = |word: &[u8], names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let mut options = args.iter_from(2).take_while(|word| is_one_of(word, &["NX", "XX", "GT", "LT", "CH", "INCR"]));
    options.any(|word| is_one_of(word, &["INCR"]))
}

fn list(name: &'static str) -> Event {
    (Classes::LIST, name)
}

fn string(name: &'static str) -> Rule {
    Rule::Each((Classes::STRING, name))
}

fn scores(name: &'static str) -> Event {
    (Classes::SORTED_SET, name)
}

/// How a value moves from one list to another: `from` and `to` are the ends at which it leaves and enters.
fn handed_over(from: &[u8], to: &[u8]) -> Rule {
    let is_left = |word: &[u8]| word.eq_ignore_ascii_case(b"LEFT");
    Rule::HandedOver {
        taken: list(if is_left(from) { "lpop" } else { "rpop" }),
        put: list(if is_left(to) { "lpush" } else { "rpush" }),
        put_first: true,
    }
}

/// The end of a list that is named behind the counted keys of a command: `LMPOP` and its kin.
fn end_of<'a>(command: &Command, args: Args<'a>) -> &'a [u8] {
    let place = command.counted_keys(args).map_or(usize::MAX, |keys| keys.end);
    args.get(place).unwrap_or_default()
}

/// The rule for `command` with these `args`.
pub(super) fn rule(command: &Command, args: Args<'_>) -> Rule {
    let set = |name| (Classes::SET, name);
    let hash = |name| Rule::Each((Classes::HASH, name));
    let generic = |name| Rule::Each((Classes::GENERIC, name));
    match command.id {
        Id::Set if has_word(args, 3, &["EX", "PX", "EXAT", "PXAT"]) => Rule::EachExpiring((Classes::STRING, "set")),
        Id::SetEx | Id::PSetEx => Rule::EachExpiring((Classes::STRING, "set")),
        Id::Set | Id::SetNx | Id::GetSet | Id::MSet | Id::MSetNx => string("set"),
        Id::GetEx if has_word(args, 2, &["PERSIST"]) => generic("persist"),
        Id::GetEx | Id::Expire | Id::PExpire | Id::ExpireAt | Id::PExpireAt => generic("expire"),
        Id::Persist => generic("persist"),
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy => string("incrby"),
        Id::IncrByFloat => string("incrbyfloat"),
        Id::Append => string("append"),
        Id::SetRange => string("setrange"),
        Id::SetBit | Id::BitField => string("setbit"),
        Id::BitOp => Rule::Stored((Classes::STRING, "set")),
        Id::PfAdd | Id::PfMerge => string("pfadd"),
        Id::HSet | Id::HMSet | Id::HSetNx => hash("hset"),
        Id::HIncrBy => hash("hincrby"),
        Id::HIncrByFloat => hash("hincrbyfloat"),
        Id::HDel => Rule::Taken((Classes::HASH, "hdel")),
        Id::SAdd => Rule::Each(set("sadd")),
        Id::SRem => Rule::Taken(set("srem")),
        Id::SPop => Rule::Taken(set("spop")),
        Id::SMove => Rule::HandedOver { taken: set("srem"), put: set("sadd"), put_first: false },
        Id::SInterStore => Rule::Stored(set("sinterstore")),
        Id::SUnionStore => Rule::Stored(set("sunionstore")),
        Id::SDiffStore => Rule::Stored(set("sdiffstore")),
        Id::ZAdd if increments(args) => Rule::Each(scores("zincr")),
        Id::ZAdd | Id::GeoAdd => Rule::Each(scores("zadd")),
        Id::ZIncrBy => Rule::Each(scores("zincr")),
        Id::ZRem => Rule::Taken(scores("zrem")),
        Id::ZRemRangeByRank => Rule::Taken(scores("zremrangebyrank")),
        Id::ZRemRangeByScore => Rule::Taken(scores("zremrangebyscore")),
        Id::ZRemRangeByLex => Rule::Taken(scores("zremrangebylex")),
        Id::ZPopMin | Id::BZPopMin => Rule::Taken(scores("zpopmin")),
        Id::ZPopMax | Id::BZPopMax => Rule::Taken(scores("zpopmax")),
        Id::ZMPop | Id::BZMPop if end_of(command, args).eq_ignore_ascii_case(b"MIN") => Rule::Taken(scores("zpopmin")),
        Id::ZMPop | Id::BZMPop => Rule::Taken(scores("zpopmax")),
        Id::ZRangeStore => Rule::Stored(scores("zrangestore")),
        Id::ZUnionStore => Rule::Stored(scores("zunionstore")),
        Id::ZInterStore => Rule::Stored(scores("zinterstore")),
        Id::ZDiffStore => Rule::Stored(scores("zdiffstore")),
        Id::GeoSearchStore => Rule::Stored(scores("geosearchstore")),
        Id::GeoRadius | Id::GeoRadiusByMember => Rule::Stored(scores("georadiusstore")),
        Id::LPush | Id::LPushX => Rule::Each(list("lpush")),
        Id::RPush | Id::RPushX => Rule::Each(list("rpush")),
        Id::LInsert => Rule::Each(list("linsert")),
        Id::LSet => Rule::Each(list("lset")),
        Id::LRem => Rule::Taken(list("lrem")),
        Id::LPop | Id::BLPop => Rule::Taken(list("lpop")),
        Id::RPop | Id::BRPop => Rule::Taken(list("rpop")),
        Id::LMPop | Id::BLMPop if end_of(command, args).eq_ignore_ascii_case(b"LEFT") => Rule::Taken(list("lpop")),
        Id::LMPop | Id::BLMPop => Rule::Taken(list("rpop")),
        Id::LMove | Id::BLMove => handed_over(args.at(3), args.at(4)),
        Id::RPopLPush | Id::BRPopLPush => handed_over(b"RIGHT", b"LEFT"),
        Id::Sort => Rule::Stored(list("sortstore")),
        Id::XDel => Rule::Each((Classes::STREAM, "xdel")),
        Id::XTrim => Rule::Each((Classes::STREAM, "xtrim")),
        Id::XSetId => Rule::Each((Classes::STREAM, "xsetid")),
        Id::Rename | Id::RenameNx => Rule::Renamed,
        Id::Move => Rule::Moved,
        Id::Copy => Rule::Copied,
        Id::Restore => generic("restore"),
        _ if command.is_quiet() => Rule::Silent,
        Id::GetDel | Id::Del | Id::Unlink | Id::LTrim => Rule::Gone,
        // What has become of the fields is told by the handlers.
        Id::HExpire | Id::HPExpire | Id::HExpireAt | Id::HPExpireAt | Id::HPersist => Rule::Gone,
        Id::HGetDel | Id::HGetEx | Id::HSetEx => Rule::Gone,
        _ => Rule::Said,
    }
}

/// Whether `command` looks for the key at `place` among its rows as a read does, so that a missing key is a miss.
pub(super) fn misses(command: &Command, args: Args<'_>, place: usize) -> bool {
    match command.id {
        Id::Object | Id::Memory => false,
        // Such a command tells its misses as it goes.
        _ if command.follows => false,
        Id::BitField => !has_word(args, 2, &["SET", "INCRBY"]),
        _ if !command.writes() => true,
        Id::Set if !has_word(args, 3, &["GET"]) => false,
        Id::Set | Id::GetSet | Id::GetDel | Id::GetEx | Id::PfMerge | Id::XReadGroup => true,
        Id::BitOp | Id::SInterStore | Id::SUnionStore | Id::SDiffStore => place > 0,
        Id::ZUnionStore | Id::ZInterStore | Id::ZDiffStore | Id::ZRangeStore | Id::GeoSearchStore => place > 0,
        Id::Copy | Id::GeoRadius | Id::GeoRadiusByMember | Id::XClaim | Id::XAutoClaim | Id::XAck => place == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::table;

    #[test]
    fn options_of_zadd_stand_in_front_of_its_scores() {
        for (line, event) in [
            ("ZADD k incr 1 m", "zincr"),
            ("zadd k nx CH Incr 1 m", "zincr"),
            ("ZADD k 1 incr", "zadd"),
            ("ZADD k CH 1 m 2 INCR", "zadd"),
        ] {
            let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
            let command = table::find(b"zadd").expect("a command");
            assert_eq!(rule(command, request.args()), Rule::Each(scores(event)), "{line}");
        }
    }
}
