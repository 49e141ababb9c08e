//! Every command: its name, its arguments, and the code that serves it.
//!
//! [`rows`] has one row for each command, and is the only place that knows them all. This module answers questions
//! about a single command.

mod category;
mod find;
mod first_member;
pub mod key_specs;
pub mod key_use;
pub mod redis_facts;
mod rows;
pub mod subcommands;
#[cfg(test)]
mod tests;
mod used_keys;

use std::ops::Range;

use weir_io::{Turn, Yield};
use weir_model::slot;

pub use self::category::Categories;
pub use self::find::find;
use self::key_use::*;
pub(crate) use self::rows::with_commands;
pub use self::used_keys::UsedKey;
use crate::args::Args;
use crate::error::Outcome;
use crate::keyword::lower;
use crate::number::parse_i64;

/// Looking at a key costs at least as much as looking at this many bytes of it.
const KEY_BYTES_LEAST: usize = 64;

/// How many words of a `BITFIELD` are searched for a far offset before it runs. Every `BITFIELD` pays for this look.
const FIELDS_LOOKED_AT: usize = 256;

/// A command of the table, with all facts about it.
pub struct Command {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of arguments, the name included; negative: at least that many.
    pub arity: i32,
    /// Redis' flags for what the command does.
    pub flags: &'static [&'static str],
    /// Redis' ACL categories that the command is in.
    pub categories: Categories,
    /// Position of the first key, of the last (negative: from the end), and the step between keys; 0 = no keys.
    pub keys: (i32, i32, i32),
    /// Where Redis shows channels of hash slots in place of keys: positions as in [`Command::keys`].
    pub channels: Option<(i32, i32, i32)>,
    /// What the command does to its keys.
    pub key_use: KeyUse,
    /// Position of the number of keys, if the command has one; the keys follow it. The keys of `keys` come before them.
    pub counted: Option<usize>,
    /// Subcommands that are followed by one key, although `keys` names none. They work on rows, whatever the others do.
    pub keyed: &'static [&'static str],
    /// The command's keys are the first half of the words behind the word `STREAMS`.
    pub reads_streams: bool,
    /// Redis shows no flags for the command, because its subcommands have their own; some of them write.
    pub writes_behind: bool,
    /// Position of a key that the command may also write in another database, if its options name one.
    pub elsewhere: Option<usize>,
    /// The command writes a key that its option `STORE` names.
    pub stores: bool,
    /// The command's options `BY` and `GET` name other keys, depending on what the row of its first key has.
    pub follows: bool,
    /// The command writes a key that its option `STORE` or `STOREDIST` names; options begin at this word.
    pub stores_from: Option<usize>,
    /// Where the command names channels.
    pub channel_use: ChannelUse,
    /// Redis' group of commands that the command is in.
    pub group: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The command works on rows, and [`crate::run`] runs it. Other commands are about a session, or about all of a
    /// tenant, and are run by the code that has those; but see [`Command::works_on_rows`].
    pub is_of_rows: bool,
    /// When the command writes without a look at what was there before.
    pub plain: Plain,
    /// How the command may be taken apart, so that it does not hold anybody's rows for long.
    pub split: Option<Split>,
    /// Where the command says how long a value it makes.
    pub reach: Reach,
    /// The command names many keys or fields one after the other, although `keys` does not tell. It goes through them
    /// in turns, or bounds their number itself.
    pub takes_many: bool,
    /// Whether the command's arguments may hold a secret.
    pub secret: Secret,
    /// The command is executed where others are queued: between `MULTI` and `EXEC`.
    pub in_multi: bool,
    /// The command is executed even for a client that is subscribed in RESP2, where messages and replies look alike.
    pub in_subscribed: bool,
    /// Redis tells its replicas of the command although it is no write: it sends messages, or may come to write.
    pub may_replicate: bool,
    /// The command's first argument names a subcommand.
    pub is_container: bool,
    /// The command means the same before the writes in front of it as behind them.
    pub any_order: bool,
    /// Position in [`COMMANDS`].
    pub index: usize,
    /// The command's number.
    pub id: Id,
}

/// The fields that most rows leave as they are; the other fields are in every row.
const DEFAULTS: Command = Command {
    name: "",
    arity: 0,
    flags: &[],
    categories: Categories::NONE,
    keys: (0, 0, 0),
    channels: None,
    key_use: NOTHING,
    counted: None,
    keyed: &[],
    reads_streams: false,
    writes_behind: false,
    elsewhere: None,
    stores: false,
    follows: false,
    stores_from: None,
    channel_use: ChannelUse::Nothing,
    group: "",
    summary: "",
    is_of_rows: false,
    plain: Plain::Never,
    split: None,
    reach: Reach::Near,
    takes_many: false,
    secret: Secret::Never,
    in_multi: false,
    in_subscribed: false,
    may_replicate: false,
    is_container: false,
    any_order: false,
    index: 0,
    id: Id::Get,
};

/// How a command of many keys may be taken apart: into several commands of the same name, each with some of the keys,
/// in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The answers are whole numbers, and the answer to all is their sum.
    Sum,
    /// The answers are `OK`, and so is the answer to all.
    Ok,
}

/// When a command writes without a look at what was there before. Such a command can be gathered with others into one
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// It always looks, or it does not write.
    Never,
    /// It never looks.
    Always,
    /// It looks if it has conditions, as `SET` may.
    WithoutConditions,
}

/// Where a command has an offset that may lie far behind the end of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nowhere.
    Near,
    /// Argument 2 counts bytes.
    Byte,
    /// Argument 2 counts bits.
    Bit,
    /// The offset follows the width of a field of bits. It is in bits, or with `#` in front of it in fields.
    Fields,
}

/// Where a command names the channels that it sends to or listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelUse {
    /// It names no channels, or only those that it stops listening to.
    Nothing,
    /// Argument 1 is a channel.
    First,
    /// All its arguments are channels.
    Names,
    /// All its arguments are patterns of channels.
    Patterns,
}

/// Whether the arguments of a command may hold a secret (S4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// They do not.
    Never,
    /// They may.
    Always,
    /// The arguments of its subcommand `SET` may, except for the settings of the slow log.
    Settings,
}

impl Command {
    /// Whether a client that has not logged in may call the command (S2).
    pub fn is_for_strangers(&self) -> bool {
        self.flags.contains(&"no_auth")
    }

    /// Whether the command may write.
    #[inline]
    pub fn writes(&self) -> bool {
        self.flags.first() == Some(&"write") || self.writes_behind
    }

    /// Whether the command may write with these `args`. A command that writes what its option `STORE` names only reads
    /// without that option.
    #[inline]
    pub fn writes_with(&self, args: Args<'_>) -> bool {
        let only_stores = self.stores || self.stores_from.is_some();
        self.writes() && (!only_stores || self.stored_place(args).is_some())
    }

    /// Whether the command is refused where its tenant may store no more. With a container it is up to the subcommand.
    pub fn needs_room(&self, args: Args<'_>) -> bool {
        self.has_flag("denyoom", args)
    }

    /// Whether the command is one of those that only read. With a container it is up to the subcommand.
    pub fn only_reads(&self, args: Args<'_>) -> bool {
        self.has_flag("readonly", args)
    }

    fn has_flag(&self, flag: &str, args: Args<'_>) -> bool {
        let has = |flags: &[&str]| flags.contains(&flag);
        let subcommand = args.get(1).filter(|_| self.is_container).and_then(|name| subcommands::find(self.name, name));
        has(self.flags) || subcommand.is_some_and(|subcommand| has(subcommand.flags))
    }

    /// Whether the command changes only what groups of consumers know of their stream. As in Redis, that is no change
    /// of the stream for those who watch it or keep its value.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        matches!(self.id, Id::XReadGroup | Id::XAck | Id::XClaim | Id::XAutoClaim)
    }

    /// Whether Redis tells its replicas of the command.
    pub fn is_replicated(&self) -> bool {
        self.writes() || self.may_replicate
    }

    /// Whether the command may read much, and writes nothing with these `args` (XS-25).
    pub fn is_query(&self, args: Args<'_>) -> bool {
        let only_reads = self.flags.contains(&"readonly") || (self.writes() && !self.writes_with(args));
        self.is_of_rows && only_reads && !self.flags.contains(&"fast")
    }

    /// Whether the command always has exactly one key, and no other key in its options.
    pub fn has_one_key(&self) -> bool {
        let (first, last, _) = self.keys;
        let has_more = self.stores || self.stores_from.is_some() || self.counted.is_some() || self.reads_streams;
        first > 0 && first == last && !has_more && self.elsewhere.is_none()
    }

    /// The keys in `args`, in their order, as far as their positions tell: without keys that an option names.
    pub fn keys_in<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.key_places(args).filter_map(move |place| args.get(place))
    }

    /// The positions of these keys.
    fn key_places<'a>(&self, args: Args<'a>) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let (first, last, step) = self.keys_with(args.get(1));
        let last = if last < 0 { args.len() as i32 + last } else { last };
        let end = if first == 0 { 0 } else { last + 1 };
        let counted = self.counted_keys(args).or_else(|| self.streams_keys(args)).unwrap_or_default();
        let places = (first..end).step_by(step.max(1) as usize).map(|place| place as usize);
        places.chain(counted).filter(move |&place| place < args.len())
    }

    /// The positions of the keys whose number is among the words, as far as the request has that many words; `None` if
    /// there is no such number, or if it is not positive.
    pub fn counted_keys(&self, args: Args<'_>) -> Option<Range<usize>> {
        let place = self.counted?;
        let count = usize::try_from(parse_i64(args.get(place)?)?).ok().filter(|&count| count > 0)?;
        let first = place + 1;
        Some(first..first.saturating_add(count).min(args.len()))
    }

    /// The positions of the keys behind the word `STREAMS`; `None` if there is none.
    pub fn streams_keys(&self, args: Args<'_>) -> Option<Range<usize>> {
        if !self.reads_streams {
            return None;
        }
        let first = streams_at(args)? + 1;
        Some(first..first + (args.len() - first) / 2)
    }

    /// Whether the command makes a value of at least `bytes` bytes out of a few, by an offset far behind the value's
    /// end.
    pub fn reaches(&self, args: Args<'_>, bytes: usize) -> bool {
        let is_far = |arg: &[u8], limit: usize| parse_i64(arg).is_some_and(|offset| offset >= limit as i64);
        match self.reach {
            Reach::Near => false,
            Reach::Byte => args.get(2).is_some_and(|offset| is_far(offset, bytes)),
            Reach::Bit => args.get(2).is_some_and(|offset| is_far(offset, bytes * 8)),
            // A field has 64 bits at most.
            Reach::Fields => args.iter_from(2).zip(args.iter_from(3)).take(FIELDS_LOOKED_AT).any(|(width, offset)| {
                let is_width = matches!(width, [b'i' | b'u', _, ..]);
                is_width
                    && (is_far(offset, bytes * 8)
                        || offset.strip_prefix(b"#").is_some_and(|nth| is_far(nth, bytes / 8)))
            }),
        }
    }

    /// Whether the command may have many words. Such a command names keys or fields one after the other, and goes
    /// through them in turns or bounds their number itself.
    pub fn takes_many(&self) -> bool {
        self.keys.1 < 0 || self.takes_many
    }

    /// The command's name in errors; for a container, with the subcommand in `args`.
    pub fn full_name(&self, args: Args<'_>) -> String {
        match args.get(1).map(lower) {
            Some(sub) if self.is_container => format!("{}|{}", self.name, String::from_utf8_lossy(sub.as_slice())),
            _ => self.name.to_owned(),
        }
    }

    /// Refuses a subcommand that the command does not have, or that does not take this number of words.
    ///
    /// # Errors
    /// Redis' answer in that case.
    pub fn check_subcommand(&self, args: Args<'_>) -> Outcome {
        if self.is_container { subcommands::check(self.name, args) } else { Ok(()) }
    }

    /// Whether the command can be called with `len` arguments, its name included.
    pub fn takes(&self, len: usize) -> bool {
        takes(self.arity, len)
    }

    /// Where the keys are, as in [`Command::keys`], when `subcommand` is the first argument.
    pub fn keys_with(&self, subcommand: Option<&[u8]>) -> (i32, i32, i32) {
        if self.is_keyed(subcommand) { (2, 2, 1) } else { self.keys }
    }

    /// Whether `subcommand` is followed by one key, although [`Command::keys`] names none.
    fn is_keyed(&self, subcommand: Option<&[u8]>) -> bool {
        let is_one = |word: &[u8]| self.keyed.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        subcommand.is_some_and(is_one)
    }

    /// Whether the command with these `args` works on rows, so that [`crate::run`] runs it: it is
    /// [of rows](Command::is_of_rows), or only its subcommand is, which has a key.
    #[inline]
    pub fn works_on_rows(&self, args: Args<'_>) -> bool {
        self.is_of_rows || self.is_keyed(args.get(1))
    }

    /// Whether all keys in `args` are in one hash slot. Every byte of every key is looked at, and others are served
    /// meanwhile. Keys that follow from what is stored may be in any slot.
    pub async fn stays_in_one_slot(&self, args: Args<'_>, yields: Yield) -> bool {
        let (first, last, _) = self.keys;
        if self.follows && follows(args.iter_from(2)) {
            return false;
        }
        if first == last && !self.stores && self.stores_from.is_none() && self.counted.is_none() && !self.reads_streams
        {
            // There is at most one key, so there is nothing to compare it with.
            return true;
        }
        let stored = self.stored_key(args);
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

    /// Whether `args` may hold a secret that must not be shown (S4). Weir's own commands may have one, and so may
    /// Redis' commands that Weir refuses.
    pub fn is_secret(&self, args: Args<'_>) -> bool {
        let is_known = |name: &[u8]| name.get(..8).is_some_and(|front| front.eq_ignore_ascii_case(b"slowlog-"));
        match self.secret {
            Secret::Never => false,
            Secret::Always => true,
            Secret::Settings => {
                args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"SET"))
                    && !args.iter_from(2).step_by(2).all(is_known)
            }
        }
    }

    /// The key that takes the result, if the options in `args` name one; the last such option counts.
    pub fn stored_key<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        self.stored_place(args).and_then(|place| args.get(place))
    }

    fn stored_place(&self, args: Args<'_>) -> Option<usize> {
        match self.stores_from {
            Some(from) => found_key(args, from),
            None if self.stores => stored_key(args),
            None => None,
        }
    }

    /// Redis' words for what is done to the key at `position` (in the order of the keys) if `options` follow the first
    /// key, for `COMMAND GETKEYSANDFLAGS`.
    pub fn key_flags<'a>(&self, position: usize, options: impl Iterator<Item = &'a [u8]>) -> Words {
        self.key_use.words(position, options)
    }
}

/// Whether an `XREAD` or `XREADGROUP` may wait: it has the option `BLOCK`.
pub fn reads_blocking(command: &Command, args: Args<'_>) -> bool {
    let end = streams_at(args).filter(|_| command.reads_streams).unwrap_or(0);
    let mut place = 1;
    while place < end {
        let is = |name: &str| args.at(place).eq_ignore_ascii_case(name.as_bytes());
        if is("BLOCK") {
            return true;
        }
        place += option_words(is);
    }
    false
}

/// How many words an option of `XREAD` and `XREADGROUP` has, with its name. A group may have the name of an option.
fn option_words(is: impl Fn(&str) -> bool) -> usize {
    match () {
        () if is("GROUP") => 3,
        () if is("COUNT") || is("BLOCK") => 2,
        () => 1,
    }
}

/// The position of the word `STREAMS` among the options of an `XREAD` or `XREADGROUP`.
fn streams_at(args: Args<'_>) -> Option<usize> {
    let mut place = 1;
    while let Some(word) = args.get(place) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STREAMS") {
            return Some(place);
        }
        place += option_words(is);
    }
    None
}

/// The position of the key behind the last `STORE` of a `SORT`.
fn stored_key(args: Args<'_>) -> Option<usize> {
    let (mut stored, mut place) = (None, 2);
    while let Some(word) = args.get(place) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STORE") && place + 1 < args.len() {
            stored = Some(place + 1);
        }
        place += match () {
            () if is("LIMIT") => 3,
            () if is("STORE") || is("BY") || is("GET") => 2,
            () => 1,
        };
    }
    stored
}

/// Whether the `words` behind the first key of a `SORT` name keys that depend on what that key has.
fn follows<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> bool {
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("STORE") {
            words.next();
        } else if is("LIMIT") {
            words.nth(1);
        } else if (is("BY") || is("GET")) && words.next().is_some_and(|pattern| pattern.contains(&b'*')) {
            return true;
        }
    }
    false
}

/// The position of the key behind the last `STORE` or `STOREDIST` among the options of a search, which begin at `from`.
fn found_key(args: Args<'_>, from: usize) -> Option<usize> {
    let (mut stored, mut place) = (None, from);
    while let Some(word) = args.get(place) {
        let is_store = [&b"STORE"[..], b"STOREDIST"].iter().any(|name| word.eq_ignore_ascii_case(name));
        if is_store && place + 1 < args.len() {
            stored = Some(place + 1);
        }
        place += if is_store { 2 } else { 1 };
    }
    stored
}

/// Whether `len` arguments, the name included, are what `arity` asks for: exactly that many, or at least that many if
/// it is negative.
pub fn takes(arity: i32, len: usize) -> bool {
    if arity < 0 { len >= arity.unsigned_abs() as usize } else { len == arity as usize }
}

macro_rules! facts {
    ($($id:ident $name:literal $arity:literal $group:literal [$($flag:ident)*] [$($category:ident)+] $keys:tt
       $module:ident $(:: $handler:ident)? $($keyed_module:ident :: $keyed_handler:ident)?
       $({ $($field:ident: $value:expr),* })? $summary:literal;)*) => {
        /// A command's number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the table says what they do")]
        pub enum Id { $($id),* }

        /// All commands.
        pub static COMMANDS: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            flags: &[$(stringify!($flag)),*],
            categories: Categories::of(&[$(stringify!($category)),+]).with_flags(&[$(stringify!($flag)),*], $group),
            keys: facts!(@places $keys),
            key_use: facts!(@use $keys),
            group: $group,
            summary: $summary,
            is_of_rows: facts!(@rows $module $(:: $handler)?),
            index: Id::$id as usize,
            id: Id::$id,
            $($($field: $value,)*)?
            ..DEFAULTS
        }),*];
    };
    (@places ()) => { (0, 0, 0) };
    (@places ($first:literal $last:literal $step:literal $use:ident)) => { ($first, $last, $step) };
    (@use ()) => { NOTHING };
    (@use ($first:literal $last:literal $step:literal $use:ident)) => { $use };
    (@rows session) => { false };
    (@rows $module:ident :: $handler:ident) => { true };
}

with_commands!(facts);
