//! Every command: its name, what it takes, and who serves it. This table is the only place that knows them all.

use std::sync::LazyLock;

use weir_io::{Turn, Yield};
use weir_model::slot;

use crate::args::Args;
use crate::keyword::lower;
use crate::number::parse_i64;

/// To look at a key costs as much as to look at so many bytes of it, at least.
const KEY_BYTES_LEAST: usize = 64;

/// Words of a `BITFIELD` among which a far offset is looked for before it runs: every command of its kind pays for the
/// look.
const FIELDS_LOOKED_AT: usize = 256;

/// A command as `COMMAND` shows it.
pub struct Command {
    /// In lower case.
    pub name: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub arity: i32,
    /// Redis' words for what it does.
    pub flags: &'static [&'static str],
    /// Position of the first key, of the last (negative: from the end), and the step between keys; 0 = no keys.
    pub keys: (i32, i32, i32),
    /// Redis' group of commands.
    pub group: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// It works on rows, and [`crate::run`] runs it. Others are about a session, or about all of a tenant, and whoever
    /// has that runs them.
    pub is_of_rows: bool,
    /// Position in [`COMMANDS`].
    pub index: usize,
    /// Its number.
    pub id: Id,
}

/// How a command of many keys may be taken apart: into several of the same name, each with some of the keys, in their
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The answers are whole numbers, and the answer to all is their sum.
    Sum,
    /// The answers are `OK`, and so is the answer to all.
    Ok,
}

impl Command {
    /// Whether somebody may call it whom nobody knows yet (S2).
    pub fn is_for_strangers(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Whether it may write.
    #[inline]
    pub fn writes(&self) -> bool {
        self.flags.first() == Some(&"write")
    }

    /// How it may be taken apart, so that nobody's rows are held for long.
    pub fn split(&self) -> Option<Split> {
        match self.id {
            Id::Del | Id::Unlink => Some(Split::Sum),
            Id::MSet => Some(Split::Ok),
            _ => None,
        }
    }

    /// The keys in `args`, in their order, where the table tells: not those that a word among the options names.
    pub fn keys_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (first, last, step) = self.keys_with(args.get(1));
        let last = if last < 0 { args.len() as i32 + last } else { last };
        let end = if first == 0 { 0 } else { last + 1 };
        (first..end).step_by(step.max(1) as usize).filter_map(move |place| args.get(place as usize))
    }

    /// Whether it makes a value of so many bytes out of a few: by an offset far behind the end of what is there.
    pub fn reaches(&self, args: Args<'_>, bytes: usize) -> bool {
        let is_far = |arg: &[u8], limit: usize| parse_i64(arg).is_some_and(|offset| offset >= limit as i64);
        match self.id {
            Id::SetRange => args.get(2).is_some_and(|offset| is_far(offset, bytes)),
            Id::SetBit => args.get(2).is_some_and(|offset| is_far(offset, bytes * 8)),
            // An offset stands behind the width of its field: in bits, or in fields of 64 bits at most.
            Id::BitField => args.iter_from(2).zip(args.iter_from(3)).take(FIELDS_LOOKED_AT).any(|(width, offset)| {
                let is_width = matches!(width, [b'i' | b'u', _, ..]);
                is_width
                    && (is_far(offset, bytes * 8)
                        || offset.strip_prefix(b"#").is_some_and(|nth| is_far(nth, bytes / 8)))
            }),
            _ => false,
        }
    }

    /// Whether it may have many words: it names keys or fields one after the other, and goes through them in turns or
    /// bounds them itself.
    pub fn takes_many(&self) -> bool {
        self.keys.1 < 0 || matches!(self.id, Id::BitField | Id::BitFieldRo | Id::Command | Id::Migrate)
    }

    /// Whether it can be called with `len` arguments, its name included.
    pub fn takes(&self, len: usize) -> bool {
        takes(self.arity, len)
    }

    /// Where the keys are, as in [`Command::keys`], when `subcommand` is the first argument.
    pub fn keys_with(&self, subcommand: Option<&[u8]>) -> (i32, i32, i32) {
        let names: &[&str] = match self.id {
            Id::Object => &["encoding", "freq", "idletime", "refcount"],
            Id::Memory => &["usage"],
            _ => return self.keys,
        };
        let is_one = |word: &[u8]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if subcommand.is_some_and(is_one) { (2, 2, 1) } else { self.keys }
    }

    /// Whether all keys in `args` are of one hash slot. Others are served meanwhile: every byte of every key is looked
    /// at.
    pub async fn stays_in_one_slot(&self, args: Args<'_>, yields: Yield) -> bool {
        let (first, last, _) = self.keys;
        if first == last && self.id != Id::Sort {
            // One key at most: nothing to compare it with.
            return true;
        }
        let stored = (self.id == Id::Sort).then(|| stored_key(args.iter_from(2))).flatten();
        let (mut of_first, mut turn) = (None, Turn::new());
        for key in self.keys_in(args).chain(stored) {
            if turn.spend(KEY_BYTES_LEAST + key.len()) {
                yields.now().await;
            }
            let slot = slot(key);
            if *of_first.get_or_insert(slot) != slot {
                return false;
            }
        }
        true
    }

    /// Whether it is in the category of Redis' ACLs that is called so, in any case.
    pub fn is_in_category(&self, name: &[u8]) -> bool {
        let has = |flag| self.flags.contains(&flag);
        match lower(name).as_slice() {
            b"read" => has("readonly"),
            b"write" => has("write"),
            b"fast" => has("fast"),
            b"slow" => !has("fast"),
            b"string" => self.group == "string",
            b"bitmap" => self.group == "bitmap",
            b"list" | b"set" | b"sortedset" => matches!(self.id, Id::Sort | Id::SortRo),
            b"keyspace" => match self.id {
                Id::DbSize | Id::FlushDb | Id::FlushAll => true,
                Id::Object | Id::Sort | Id::SortRo | Id::Wait => false,
                _ => self.group == "generic",
            },
            b"connection" => match self.id {
                Id::Wait | Id::Command | Id::ReadOnly | Id::ReadWrite | Id::Asking => true,
                Id::Client => false,
                _ => self.group == "connection",
            },
            b"transaction" => self.group == "transactions",
            b"admin" => matches!(self.id, Id::Role | Id::LastSave),
            b"dangerous" => matches!(
                self.id,
                Id::FlushDb
                    | Id::FlushAll
                    | Id::Info
                    | Id::Keys
                    | Id::LastSave
                    | Id::Migrate
                    | Id::Restore
                    | Id::Role
                    | Id::Sort
                    | Id::SortRo
            ),
            _ => false,
        }
    }

    /// Whether `args` may hold a secret, which is not to be shown (S4): of Weir's own commands, or of Redis' that are
    /// refused here.
    pub fn is_secret(&self, args: Args<'_>) -> bool {
        let is_known = |name: &[u8]| name.get(..8).is_some_and(|front| front.eq_ignore_ascii_case(b"slowlog-"));
        match self.id {
            Id::Auth | Id::Hello | Id::Acl | Id::Migrate => true,
            Id::Config => {
                args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"SET"))
                    && !args.iter_from(2).step_by(2).all(is_known)
            }
            _ => false,
        }
    }

    /// Redis' words for what `args` do to the key at `position` (in the order of the keys), for
    /// `COMMAND GETKEYSANDFLAGS`.
    pub fn key_flags<'a>(&self, position: usize, mut args: impl Iterator<Item = &'a [u8]>) -> &'static [&'static str] {
        match self.id {
            Id::StrLen | Id::Exists | Id::Touch | Id::Type => &["RO"],
            Id::Set if !args.any(|arg| arg.eq_ignore_ascii_case(b"GET")) => &["OW", "update"],
            Id::BitField
                if !args.any(|arg| arg.eq_ignore_ascii_case(b"SET") || arg.eq_ignore_ascii_case(b"INCRBY")) =>
            {
                &["RO", "access"]
            }
            Id::SetEx | Id::PSetEx | Id::MSet | Id::Restore => &["OW", "update"],
            Id::SetNx | Id::MSetNx => &["OW", "insert"],
            Id::Watch => &["RO"],
            Id::GetDel => &["RW", "access", "delete"],
            Id::Append => &["RW", "insert"],
            Id::SetRange | Id::Expire | Id::PExpire | Id::ExpireAt | Id::PExpireAt | Id::Persist => &["RW", "update"],
            Id::Del | Id::Unlink => &["RM", "delete"],
            Id::BitOp if position == 0 => &["OW", "update"],
            Id::BitOp => &["RO", "access"],
            Id::Migrate => &["RW", "access", "delete"],
            Id::Rename | Id::RenameNx if position == 0 => &["RW", "access", "delete"],
            Id::Rename => &["OW", "update"],
            Id::RenameNx => &["OW", "insert"],
            Id::Copy if position == 1 => &["OW", "update"],
            _ if self.flags.contains(&"readonly") || matches!(self.id, Id::Copy | Id::Sort) => &["RO", "access"],
            _ => &["RW", "access", "update"],
        }
    }
}

/// The key that takes the result of a `SORT`, if `words` (those behind its first key) name one: the last counts.
pub fn stored_key<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut stored = None;
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STORE") {
            stored = words.next().or(stored);
        } else if is("BY") || is("GET") {
            words.next();
        } else if is("LIMIT") {
            words.nth(1);
        }
    }
    stored
}

/// Whether `len` arguments, the name included, are what `arity` asks for: so many, or where it is negative at least so
/// many.
pub fn takes(arity: i32, len: usize) -> bool {
    if arity < 0 { len >= arity.unsigned_abs() as usize } else { len == arity as usize }
}

/// Hands all rows of the table to the macro `$use_them`: here they become [`COMMANDS`], in `run.rs` the calls of their
/// handlers. A row is `Id "name" arity "group" [flags] (first key, last key, step) handler "summary";`, where the
/// handler is `session` if the command is not of rows.
macro_rules! with_commands {
    ($use_them:ident) => {
        $use_them! {
            Get "get" 2 "string" [readonly fast] (1 1 1) strings::get "The value of a key";
            Set "set" -3 "string" [write denyoom] (1 1 1) strings::set "Sets a key, with conditions and expiry";
            SetEx "setex" 4 "string" [write denyoom] (1 1 1) strings::setex "Sets a key that expires in seconds";
            PSetEx "psetex" 4 "string" [write denyoom] (1 1 1) strings::psetex "Sets a key that expires in milliseconds";
            SetNx "setnx" 3 "string" [write denyoom fast] (1 1 1) strings::setnx "Sets a key that does not exist";
            GetSet "getset" 3 "string" [write denyoom fast] (1 1 1) strings::getset "Sets a key, gives the old value";
            GetDel "getdel" 2 "string" [write fast] (1 1 1) strings::getdel "Deletes a key, gives its value";
            GetEx "getex" -2 "string" [write fast] (1 1 1) strings::getex "The value of a key, whose expiry is changed";
            MGet "mget" -2 "string" [readonly fast] (1 -1 1) strings::mget "The values of several keys";
            MSet "mset" -3 "string" [write denyoom] (1 -1 2) strings::mset "Sets several keys as one";
            MSetNx "msetnx" -3 "string" [write denyoom] (1 -1 2) strings::msetnx "Sets several keys if none exists";
            Incr "incr" 2 "string" [write denyoom fast] (1 1 1) numbers::incr "Adds one";
            Decr "decr" 2 "string" [write denyoom fast] (1 1 1) numbers::decr "Subtracts one";
            IncrBy "incrby" 3 "string" [write denyoom fast] (1 1 1) numbers::incrby "Adds a whole number";
            DecrBy "decrby" 3 "string" [write denyoom fast] (1 1 1) numbers::decrby "Subtracts a whole number";
            IncrByFloat "incrbyfloat" 3 "string" [write denyoom fast] (1 1 1) numbers::incrbyfloat "Adds a number";
            Append "append" 3 "string" [write denyoom fast] (1 1 1) ranges::append "Appends to a value";
            StrLen "strlen" 2 "string" [readonly fast] (1 1 1) ranges::strlen "The length of a value";
            GetRange "getrange" 4 "string" [readonly] (1 1 1) ranges::getrange "A part of a value";
            SubStr "substr" 4 "string" [readonly] (1 1 1) ranges::getrange "A part of a value (old name of getrange)";
            SetRange "setrange" 4 "string" [write denyoom] (1 1 1) ranges::setrange "Overwrites a part of a value";

            Lcs "lcs" -3 "string" [readonly] (1 2 1) lcs::lcs "The longest common subsequence of two values";

            SetBit "setbit" 4 "bitmap" [write denyoom] (1 1 1) bitmap::setbit "Sets a bit, gives the old one";
            GetBit "getbit" 3 "bitmap" [readonly fast] (1 1 1) bitmap::getbit "A bit of a value";
            BitCount "bitcount" -2 "bitmap" [readonly] (1 1 1) bitmap::bitcount "How many bits are set";
            BitPos "bitpos" -3 "bitmap" [readonly] (1 1 1) bitmap::bitpos "The first bit that is set, or not";
            BitOp "bitop" -4 "bitmap" [write denyoom] (2 -1 1) bitmap::bitop "Combines values bit by bit";
            BitField "bitfield" -2 "bitmap" [write denyoom] (1 1 1) bitfield::bitfield "Numbers of any width in a value";
            BitFieldRo "bitfield_ro" -2 "bitmap" [readonly fast] (1 1 1) bitfield::bitfield_ro "The same, only reading";

            Del "del" -2 "generic" [write] (1 -1 1) keys::del "Deletes keys";
            Unlink "unlink" -2 "generic" [write fast] (1 -1 1) keys::del "Deletes keys";
            Exists "exists" -2 "generic" [readonly fast] (1 -1 1) keys::exists "How many of the keys exist";
            Touch "touch" -2 "generic" [readonly fast] (1 -1 1) keys::exists "How many of the keys exist";
            Type "type" 2 "generic" [readonly fast] (1 1 1) keys::type_of "The type of a key's value";
            Expire "expire" -3 "generic" [write fast] (1 1 1) expiry::expire "Lets a key expire in seconds";
            PExpire "pexpire" -3 "generic" [write fast] (1 1 1) expiry::pexpire "Lets a key expire in milliseconds";
            ExpireAt "expireat" -3 "generic" [write fast] (1 1 1) expiry::expireat "Lets a key expire at a Unix time";
            PExpireAt "pexpireat" -3 "generic" [write fast] (1 1 1) expiry::pexpireat "Lets a key expire at a Unix time in ms";
            Ttl "ttl" 2 "generic" [readonly fast] (1 1 1) expiry::ttl "Seconds until a key expires";
            PTtl "pttl" 2 "generic" [readonly fast] (1 1 1) expiry::pttl "Milliseconds until a key expires";
            ExpireTime "expiretime" 2 "generic" [readonly fast] (1 1 1) expiry::expiretime "The Unix time a key expires at";
            PExpireTime "pexpiretime" 2 "generic" [readonly fast] (1 1 1) expiry::pexpiretime "The same in milliseconds";
            Persist "persist" 2 "generic" [write fast] (1 1 1) expiry::persist "Lets a key stay";
            Scan "scan" -2 "generic" [readonly] (0 0 0) scan::scan "Some keys, and where to go on";
            Keys "keys" 2 "generic" [readonly] (0 0 0) scan::keys "All keys that match a pattern";
            RandomKey "randomkey" 1 "generic" [readonly] (0 0 0) scan::randomkey "Some key";
            Rename "rename" 3 "generic" [write] (1 2 1) moves::rename "Gives a key another name";
            RenameNx "renamenx" 3 "generic" [write fast] (1 2 1) moves::renamenx "Gives a key another name that is free";
            Copy "copy" -3 "generic" [write denyoom] (1 2 1) moves::copy "Copies a value to another key";
            Move "move" 3 "generic" [write fast] (1 1 1) moves::move_key "Moves a key to another database";
            Dump "dump" 2 "generic" [readonly] (1 1 1) dump::dump "A value in the format of Redis' dump files";
            Restore "restore" -4 "generic" [write denyoom] (1 1 1) dump::restore "Sets a key to a dumped value";
            Migrate "migrate" -6 "generic" [write movablekeys] (3 3 1) dump::migrate "Refused";
            Object "object" -2 "generic" [] (0 0 0) object::object "How Redis would keep a value";
            Sort "sort" -2 "generic" [write denyoom movablekeys] (1 1 1) sort::sort "Sorts a list or set";
            SortRo "sort_ro" -2 "generic" [readonly movablekeys] (1 1 1) sort::sort_ro "The same, only reading";
            Wait "wait" 3 "generic" [noscript] (0 0 0) session "How many replicas have the last write: none";
            DbSize "dbsize" 1 "server" [readonly fast] (0 0 0) scan::dbsize "The number of keys (counted: it takes time)";
            FlushDb "flushdb" -1 "server" [write] (0 0 0) session "Deletes every key of the database, a page at a time";
            FlushAll "flushall" -1 "server" [write] (0 0 0) session "Deletes every key of all databases, at once";

            Multi "multi" 1 "transactions" [noscript loading stale fast allow_busy] (0 0 0) session "Opens a transaction, in which every command is refused";
            Exec "exec" 1 "transactions" [noscript loading stale skip_slowlog] (0 0 0) session "Ends a transaction: it is not executed";
            Discard "discard" 1 "transactions" [noscript loading stale fast allow_busy] (0 0 0) session "Ends a transaction";
            Watch "watch" -2 "transactions" [noscript loading stale fast allow_busy] (1 -1 1) session "Refused";
            Unwatch "unwatch" 1 "transactions" [noscript loading stale fast allow_busy] (0 0 0) session "Nothing is watched";

            Ping "ping" -1 "connection" [fast] (0 0 0) session "Answers";
            Echo "echo" 2 "connection" [loading stale fast] (0 0 0) session "Says it back";
            Quit "quit" -1 "connection" [noscript loading stale fast no_auth allow_busy] (0 0 0) session "Closes the connection";
            Select "select" 2 "connection" [loading stale fast] (0 0 0) session "Chooses one of the databases, 0 to 15";
            Reset "reset" 1 "connection" [noscript loading stale fast no_auth allow_busy] (0 0 0) session "Makes the connection as new";
            Auth "auth" -2 "connection" [noscript loading stale fast no_auth allow_busy] (0 0 0) session "Says who you are";
            Hello "hello" -1 "connection" [noscript loading stale fast no_auth allow_busy] (0 0 0) session "Chooses the protocol, and says who is here";
            Client "client" -2 "connection" [] (0 0 0) session "About this connection and the others";

            Acl "acl" -2 "server" [] (0 0 0) session "Who you are";
            Command "command" -1 "server" [loading stale] (0 0 0) session "About the commands";
            Info "info" -1 "server" [loading stale] (0 0 0) session "About the server";
            Config "config" -2 "server" [] (0 0 0) session "About the settings";
            Role "role" 1 "server" [noscript loading stale fast] (0 0 0) session "What part it has in replication";
            SlowLog "slowlog" -2 "server" [] (0 0 0) session "The last commands that took long";
            Latency "latency" -2 "server" [] (0 0 0) session "For tools that ask: nothing is recorded";
            Memory "memory" -2 "server" [] (0 0 0) session "What takes memory";
            LastSave "lastsave" 1 "server" [loading stale fast] (0 0 0) session "When everything was safe on disk";
            Cluster "cluster" -2 "cluster" [] (0 0 0) session "The slot of a key; else an error: to clients this is one server";
            ReadOnly "readonly" 1 "cluster" [loading stale fast] (0 0 0) session "An error: this is no cluster";
            ReadWrite "readwrite" 1 "cluster" [loading stale fast] (0 0 0) session "An error: this is no cluster";
            Asking "asking" 1 "cluster" [fast] (0 0 0) session "An error: this is no cluster";
            Time "time" 1 "server" [loading stale fast] (0 0 0) session "The server's clock";
        }
    };
}
pub(crate) use with_commands;

macro_rules! facts {
    ($($id:ident $name:literal $arity:literal $group:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal)
       $module:ident $(:: $handler:ident)? $summary:literal;)*) => {
        /// A command's number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the table says what they do")]
        pub enum Id { $($id),* }

        /// All commands.
        pub static COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: &[$(stringify!($flag)),*],
            keys: ($first, $last, $step),
            group: $group,
            summary: $summary,
            is_of_rows: facts!(@rows $module $(:: $handler)?),
            index: Id::$id as usize,
            id: Id::$id,
        }),*];
    };
    (@rows session) => { false };
    (@rows $module:ident :: $handler:ident) => { true };
}

with_commands!(facts);

/// Longest name in the table, in bytes. With its length it fits 16 bytes, which are compared at once.
const NAME_BYTES_MAX: usize = 15;
/// Slots of the look-up: a power of two, several times the number of commands, so that probes are short.
const SLOTS: usize = 512;

struct Lookup {
    slots: [Option<(u128, &'static Command)>; SLOTS],
}

static LOOKUP: LazyLock<Lookup> = LazyLock::new(|| {
    let mut slots = [None; SLOTS];
    for command in COMMANDS {
        let name = pack(command.name.as_bytes()).expect("command names are short");
        let mut slot = slot_of(name);
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some((name, command));
    }
    Lookup { slots }
});

/// The command called `name`, in any mixture of cases.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let name = pack(name)?;
    let mut slot = slot_of(name);
    while let Some((candidate, command)) = LOOKUP.slots[slot] {
        if candidate == name {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// The name in lower case and its length as one number; `None` if it is too long to be in the table.
#[inline]
fn pack(name: &[u8]) -> Option<u128> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0; NAME_BYTES_MAX + 1];
    bytes[NAME_BYTES_MAX] = name.len() as u8;
    for (packed, byte) in bytes[..NAME_BYTES_MAX].iter_mut().zip(name) {
        *packed = byte.to_ascii_lowercase();
    }
    Some(u128::from_le_bytes(bytes))
}

#[inline]
fn slot_of(name: u128) -> usize {
    let folded = (name as u64) ^ (name >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_documented() {
        let page = include_str!("../../../docs/protocol.md");
        for command in COMMANDS {
            assert!(page.contains(&format!("`{}`", command.name.to_uppercase())), "{} is missing", command.name);
        }
    }

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(command.index, index);
            assert!(std::ptr::eq(find(command.name.as_bytes()).expect("known"), command));
            assert!(std::ptr::eq(find(command.name.to_uppercase().as_bytes()).expect("known"), command));
        }
        for unknown in ["", "ge", "gett", "a_name_longer_than_any_command", "get\0"] {
            assert!(find(unknown.as_bytes()).is_none(), "{unknown:?}");
        }
    }
}
