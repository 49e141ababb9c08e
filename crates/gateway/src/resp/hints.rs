//! Settings by which Redis tunes how it keeps collections in memory, frees them, and saves them. Weir has no use for
//! them, because it chooses a row's shape by its bytes and has a log instead of snapshots. Clients and tools set them
//! all the same, so they are accepted, checked and shown as they were set.

use std::sync::atomic::{AtomicI64, Ordering};

/// The unit of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Number,
    /// Bytes, which may be written as `4kb`.
    Bytes,
    /// `no` or `yes`, kept as 0 or 1.
    Switch,
}

/// A setting of Redis that changes nothing here.
pub(super) struct Hint {
    pub(super) name: &'static str,
    /// Its name before Redis 7.
    pub(super) alias: Option<&'static str>,
    unit: Unit,
    least: i64,
    most: i64,
    /// Its default in Redis.
    standard: i64,
}

const fn hint(name: &'static str, alias: Option<&'static str>, unit: Unit, least: i64, most: i64, std: i64) -> Hint {
    Hint { name, alias, unit, least, most, standard: std }
}

const INT_MIN: i64 = i32::MIN as i64;
const INT_MAX: i64 = i32::MAX as i64;

const fn switch(name: &'static str, is_on: bool) -> Hint {
    hint(name, None, Unit::Switch, 0, 1, is_on as i64)
}

pub(super) const HINTS: [Hint; 23] = [
    switch("activerehashing", true),
    switch("aof-use-rdb-preamble", true),
    switch("dynamic-hz", true),
    hint("hash-max-listpack-entries", Some("hash-max-ziplist-entries"), Unit::Number, 0, i64::MAX, 512),
    hint("hash-max-listpack-value", Some("hash-max-ziplist-value"), Unit::Bytes, 0, i64::MAX, 64),
    hint("hz", None, Unit::Number, 0, INT_MAX, 10),
    hint("key-load-delay", None, Unit::Number, INT_MIN, INT_MAX, 0),
    switch("lazyfree-lazy-eviction", false),
    switch("lazyfree-lazy-expire", false),
    switch("lazyfree-lazy-server-del", false),
    switch("rdbcompression", true),
    hint("loading-process-events-interval-bytes", None, Unit::Bytes, 1024, INT_MAX, 2 << 20),
    hint("maxmemory-samples", None, Unit::Number, 1, INT_MAX, 5),
    hint("rdb-key-save-delay", None, Unit::Number, INT_MIN, INT_MAX, 0),
    switch("stop-writes-on-bgsave-error", true),
    hint("hll-sparse-max-bytes", None, Unit::Bytes, 0, i64::MAX, 3000),
    hint("list-compress-depth", None, Unit::Number, 0, INT_MAX, 0),
    hint("list-max-listpack-size", Some("list-max-ziplist-size"), Unit::Number, INT_MIN, INT_MAX, -2),
    hint("set-max-intset-entries", None, Unit::Number, 0, i64::MAX, 512),
    hint("stream-node-max-bytes", None, Unit::Bytes, 0, i64::MAX, 4096),
    hint("stream-node-max-entries", None, Unit::Number, 0, i64::MAX, 100),
    hint("zset-max-listpack-entries", Some("zset-max-ziplist-entries"), Unit::Number, 0, i64::MAX, 128),
    hint("zset-max-listpack-value", Some("zset-max-ziplist-value"), Unit::Bytes, 0, i64::MAX, 64),
];

/// Whether `CONFIG GET` shows it only if asked for it by its name.
pub(super) fn is_hidden(name: &str) -> bool {
    ["key-load-delay", "loading-process-events-interval-bytes", "rdb-key-save-delay"].contains(&name)
}

/// The position of `name`, in small letters, in [`HINTS`].
pub(super) fn find(name: &str) -> Option<usize> {
    HINTS.iter().position(|hint| hint.name == name || hint.alias == Some(name))
}

/// Bytes as Redis reads them: a number, and a unit of 1000 (`k`, `m`, `g`) or 1024 (`kb`, `mb`, `gb`).
pub(super) fn parse_bytes(text: &str) -> Option<i64> {
    let digits = text.len() - text.trim_start_matches(|byte: char| byte.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

/// The position of `stream-node-max-entries` in [`HINTS`].
const STREAM_NODE_ENTRIES: usize = 20;

impl Hint {
    /// The value as `CONFIG GET` shows it.
    fn show(&self, value: i64) -> String {
        match self.unit {
            Unit::Switch => if value == 1 { "yes" } else { "no" }.to_owned(),
            Unit::Number | Unit::Bytes => value.to_string(),
        }
    }

    /// Reads the number in `value`.
    ///
    /// # Errors
    /// There is no number in it, or it is out of range; the text is that of Redis.
    pub(super) fn parse(&self, value: &[u8]) -> Result<i64, String> {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let number = match self.unit {
            Unit::Number => weir_command::number::parse_i64(value)
                .ok_or_else(|| "argument couldn't be parsed into an integer".to_owned())?,
            Unit::Bytes => parse_bytes(text).ok_or_else(|| "argument must be a memory value".to_owned())?,
            Unit::Switch => match text {
                _ if text.eq_ignore_ascii_case("yes") => 1,
                _ if text.eq_ignore_ascii_case("no") => 0,
                _ => return Err("argument must be 'yes' or 'no'".to_owned()),
            },
        };
        if (self.least..=self.most).contains(&number) {
            Ok(number)
        } else {
            Err(format!("argument must be between {} and {} inclusive", self.least, self.most))
        }
    }
}

/// The values that the clients of one tenant have set.
pub(crate) struct Hints([AtomicI64; HINTS.len()]);

impl Default for Hints {
    fn default() -> Self {
        Self(HINTS.map(|hint| AtomicI64::new(hint.standard)))
    }
}

impl Hints {
    /// The value of the setting at `index` of [`HINTS`].
    pub(super) fn get(&self, index: usize) -> i64 {
        self.0[index].load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, index: usize, value: i64) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    /// Every name, including the older ones, and its value.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, String)> {
        HINTS.iter().enumerate().flat_map(move |(index, hint)| {
            let value = hint.show(self.get(index));
            std::iter::once(hint.name).chain(hint.alias).map(move |name| (name, value.clone()))
        })
    }

    /// How many entries of a stream Redis keeps in one node. Approximate trimming removes this many together.
    pub(crate) fn stream_node_entries(&self) -> u64 {
        self.get(STREAM_NODE_ENTRIES).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_as_in_redis() {
        let read = ["7", "7b", "2k", "2KB", "3mb", "1g", "1gb"].map(parse_bytes);
        let bytes = [7, 7, 2000, 2048, 3 << 20, 1_000_000_000, 1 << 30];
        assert_eq!(read, bytes.map(Some));
        let refused = ["", "kb", "1x", "-1", "9223372036854775807k"].map(parse_bytes);
        assert_eq!(refused, [None; 5]);
    }

    #[test]
    fn a_hint_has_two_names_and_one_value() {
        let hints = Hints::default();
        let index = find("zset-max-ziplist-entries").unwrap();
        hints.set(index, HINTS[index].parse(b"9").unwrap());
        assert_eq!(HINTS[STREAM_NODE_ENTRIES].name, "stream-node-max-entries");
        let told: Vec<_> = hints.all().filter(|(_, value)| value == "9").map(|(name, _)| name).collect();
        assert_eq!(told, ["zset-max-listpack-entries", "zset-max-ziplist-entries"]);
    }
}
