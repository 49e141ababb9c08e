//! The keys of a request, wherever it names them, and what is done to each: for checks of what is allowed, and for
//! `COMMAND GETKEYS`.

use super::key_use::Words;
use super::{Command, Id};
use crate::args::Args;
use crate::keyword::lower;
use crate::number::parse_i64;

/// A key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedKey<'a> {
    /// The number of the key's word.
    pub place: usize,
    /// The key.
    pub key: &'a [u8],
    /// Redis' words for what is done to it.
    pub words: Words,
}

impl UsedKey<'_> {
    /// Whether the command tells or uses what the value says.
    pub fn is_read(&self) -> bool {
        self.words.contains(&"access")
    }

    /// Whether the command changes, makes or removes the value.
    pub fn is_written(&self) -> bool {
        ["update", "insert", "delete"].iter().any(|word| self.words.contains(word))
    }
}

impl Command {
    /// The keys in `args`, in their order, including keys that an option names, but not those that follow from what is
    /// stored.
    pub fn used_keys<'a>(&'static self, args: Args<'a>) -> impl Iterator<Item = UsedKey<'a>> + Clone + use<'a> {
        let migrated = (self.id == Id::Migrate).then(|| migrated_keys(args)).flatten();
        let is_plain = migrated.is_none() && !self.miscounts(args);
        let plain = is_plain.then(|| self.key_places(args)).into_iter().flatten();
        let places = plain.chain(migrated.into_iter().flatten());
        let keys = places.enumerate().filter_map(move |(position, place)| {
            Some(UsedKey { place, key: args.get(place)?, words: self.key_flags(position, args.iter_from(2)) })
        });
        let stored = self
            .stored_place(args)
            .and_then(move |place| Some(UsedKey { place, key: args.get(place)?, words: &["OW", "update"] }));
        keys.chain(stored)
    }
}

impl Command {
    /// Whether the request announces more keys than it has words, or names streams without ids. As in Redis, it then
    /// names no keys, and the code that runs it refuses it.
    fn miscounts(&self, args: Args<'_>) -> bool {
        let said = self.counted.and_then(|place| args.get(place)).and_then(parse_i64);
        let found = self.counted_keys(args).map_or(0, |keys| keys.len());
        let streams = self.streams_keys(args).map_or(0, |keys| args.len() - keys.start);
        said.is_some_and(|said| said > found as i64) || streams % 2 == 1
    }
}

/// The positions of the keys of a `MIGRATE` whose single key is empty: they follow its word `KEYS`.
fn migrated_keys(args: Args<'_>) -> Option<std::ops::Range<usize>> {
    let mut at = 6;
    // A `KEYS` at the end is followed by no keys.
    while at + 1 < args.len() && args.at(3).is_empty() {
        at += match lower(args.at(at)).as_slice() {
            b"keys" => return Some(at + 1..args.len()),
            b"auth" => 2,
            b"auth2" => 3,
            _ => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::request::Request;
    use crate::table::find;

    #[test]
    fn all_keys_are_found_with_what_is_done_to_them() {
        for (line, keys) in [
            ("GET k", "1 k r"),
            ("EXISTS a b", "1 a -, 2 b -"),
            ("COPY a b", "1 a r, 2 b w"),
            ("SET k v GET", "1 k rw"),
            ("SORT k BY STORE GET x STORE d", "1 k r, 7 d w"),
            ("SORT k LIMIT 0 1 STORE a STORE b", "1 k r, 8 b w"),
            ("GEORADIUS g 1 2 3 m STORE d", "1 g r, 7 d w"),
            ("ZUNIONSTORE d 2 a b", "1 d w, 3 a r, 4 b r"),
            ("XREAD COUNT 1 STREAMS a b 0 0", "4 a r, 5 b r"),
            ("EVAL s 1 k a", "3 k rw"),
            ("EVAL s 3 k a", ""),
            ("ZUNIONSTORE d 3 a b", ""),
            ("XREAD STREAMS a b 0", ""),
            ("OBJECT ENCODING k", "2 k -"),
            ("OBJECT HELP", ""),
            ("MIGRATE h 1 k 0 9", "3 k rw"),
            ("MIGRATE h 1  0 9 AUTH KEYS KEYS a b", "9 a rw, 10 b rw"),
            ("PING", ""),
        ] {
            let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
            let command = find(request.args().at(0)).expect("a command");
            let told: Vec<String> = command
                .used_keys(request.args())
                .map(|used| {
                    let how = match (used.is_read(), used.is_written()) {
                        (true, true) => "rw",
                        (true, false) => "r",
                        (false, true) => "w",
                        (false, false) => "-",
                    };
                    format!("{} {} {how}", used.place, String::from_utf8_lossy(used.key))
                })
                .collect();
            assert_eq!(told.join(", "), keys, "{line}");
        }
    }
}
