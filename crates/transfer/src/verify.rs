//! Compares a tenant with a source.
//!
//! Values are compared by what they mean: both sides dump them, each in its own form, and both dumps are decoded. For
//! values that are too large for that, only the sizes are compared.

use std::io::Read;
use std::sync::atomic::Ordering;

use weir_command::rdb::{Loaded, kind, load};
use weir_io::Yield;

use crate::address::Address;
use crate::failure::{Failure, Result};
use crate::import::{Import, is_own};
use crate::rdb::{Dump, FileBytes, Input, Item, Part, Value};
use crate::resp::{Connection, Reply, Requests};
use crate::scan::Scan;
use crate::tally::shown;
use crate::target::{DATABASES, select, too_long};
use crate::within::pause;

/// Keys that are compared at a time.
const PAGE_KEYS: usize = 64;
/// Most elements of a value that is dumped.
const ELEMENTS_MAX: i64 = 100_000;
/// Most bytes of a string that is dumped.
const TEXT_BYTES_MAX: i64 = 16 << 20;
/// Most elements of a value that is dumped together with others.
const SMALL_ELEMENTS: i64 = 500;
const SMALL_TEXT_BYTES: i64 = 64 << 10;
/// Bytes behind a dumped value: a version and a checksum.
const FOOTER_BYTES: usize = 10;
/// Differences that are kept one by one.
const KEPT: usize = 100;
/// Times that a difference is looked at again, a second apart: the change may be under way.
const LOOKS: u32 = 4;

/// A key that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The database.
    pub database: u8,
    /// The key, as it can be shown.
    pub key: String,
    /// What differs.
    pub what: String,
}

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Keys that were looked at.
    pub keys: u64,
    /// Keys among these of which only the sizes were compared.
    pub by_size: u64,
    /// Keys that differ, or that only one side has.
    pub different: u64,
    /// The first of these differences.
    pub differences: Vec<Difference>,
}

impl Compared {
    fn differs(&mut self, database: u8, key: &[u8], what: impl Into<String>) {
        self.different += 1;
        if self.differences.len() < KEPT {
            self.differences.push(Difference { database, key: shown(key), what: what.into() });
        }
    }
}

/// Compares all keys of `source`, or about `sample` of them, with those of the tenant.
///
/// # Errors
/// One side does not answer, or refuses.
pub async fn verify_live(import: &Import, source: &Address, sample: Option<u64>) -> Result<Compared> {
    let mut there = Connection::open(source, &import.clock).await?;
    let mut here = import.target.connect().await?;
    let value_bytes_max = import.target.value_bytes_max(&mut here).await?;
    let mut compared = Compared::default();
    for database in import.choice.chosen() {
        match there.call(&["SELECT", &database.to_string()]).await? {
            // The source has no more databases.
            Reply::Error(error) if error.contains("out of range") => break,
            Reply::Error(error) => return Err(Failure::new(format!("SELECT at the source: {error}"))),
            _ => {}
        }
        select(&mut here, database).await?;
        match sample {
            Some(count) => {
                for _ in 0..count.div_ceil(PAGE_KEYS as u64) {
                    let Some(mut keys) = random_keys(&mut there).await? else { break };
                    leave_out_too_long(&mut keys, database, value_bytes_max, &mut compared);
                    compare_page(import, &mut there, &mut here, database, keys, &mut compared).await?;
                }
            }
            None => {
                let mut scan = Scan::new();
                while let Some(mut keys) = scan.next(&mut there).await? {
                    leave_out_too_long(&mut keys, database, value_bytes_max, &mut compared);
                    for page in keys.chunks(PAGE_KEYS) {
                        compare_page(import, &mut there, &mut here, database, page.to_vec(), &mut compared).await?;
                    }
                }
                only_here(import, &mut there, &mut here, database, &mut compared).await?;
            }
        }
    }
    Ok(compared)
}

/// Some keys of the database; `None` if it has none.
async fn random_keys(connection: &mut Connection) -> Result<Option<Vec<Vec<u8>>>> {
    let mut requests = Requests::default();
    (0..PAGE_KEYS).for_each(|_| requests.push(&["RANDOMKEY"]));
    let mut keys = Vec::new();
    for reply in connection.exchange_patiently(&requests).await? {
        match reply {
            Reply::Bulk(key) => keys.extend(key),
            Reply::Error(error) => return Err(Failure::new(format!("RANDOMKEY: {error}"))),
            _ => return Err(Failure::new("RANDOMKEY is answered with something else")),
        }
    }
    if keys.is_empty() {
        return Ok(None);
    }
    keys.retain(|key| !is_own(key));
    keys.sort_unstable();
    keys.dedup();
    Ok(Some(keys))
}

/// Why the tenant cannot be asked for `key`, whose name is too long for it: it would close the connection.
fn too_long_name(key: &[u8], value_bytes_max: usize) -> Option<String> {
    // Of the requests in `told`, the one with the longest name.
    too_long(&[b"PEXPIRETIME".as_slice(), key], value_bytes_max)
}

/// Counts the keys whose names are too long for the tenant as different, and takes them out of `keys`.
fn leave_out_too_long(keys: &mut Vec<Vec<u8>>, database: u8, value_bytes_max: usize, compared: &mut Compared) {
    keys.retain(|key| match too_long_name(key, value_bytes_max) {
        Some(reason) => {
            compared.keys += 1;
            compared.differs(database, key, reason);
            false
        }
        None => true,
    });
}

/// Finds keys that only the tenant has.
async fn only_here(
    import: &Import,
    there: &mut Connection,
    here: &mut Connection,
    database: u8,
    compared: &mut Compared,
) -> Result {
    let mut scan = Scan::new();
    while let Some(mut keys) = scan.next(here).await? {
        for look in 0..LOOKS {
            let (of_source, of_tenant) = (exist(there, &keys).await?, exist(here, &keys).await?);
            let both = of_source.into_iter().zip(of_tenant);
            keys = keys.into_iter().zip(both).filter(|(_, both)| *both == (false, true)).map(|(key, _)| key).collect();
            if keys.is_empty() {
                break;
            }
            if look + 1 < LOOKS {
                pause(&import.clock, 1_000).await;
            }
        }
        keys.iter().for_each(|key| compared.differs(database, key, "the source does not have it"));
    }
    Ok(())
}

async fn exist(connection: &mut Connection, keys: &[Vec<u8>]) -> Result<Vec<bool>> {
    let mut requests = Requests::default();
    keys.iter().for_each(|key| requests.push(&[b"EXISTS".as_slice(), key]));
    let is_there = |reply: &Reply| match reply {
        Reply::Number(count) => Ok(*count == 1),
        Reply::Error(error) => Err(Failure::new(format!("EXISTS: {error}"))),
        _ => Err(Failure::new("EXISTS is answered with something else")),
    };
    connection.exchange_patiently(&requests).await?.iter().map(is_there).collect()
}

async fn compare_page(
    import: &Import,
    there: &mut Connection,
    here: &mut Connection,
    database: u8,
    mut keys: Vec<Vec<u8>>,
    compared: &mut Compared,
) -> Result {
    compared.keys += keys.len() as u64;
    for look in 0..LOOKS {
        let (theirs, ours) = (told(there, &keys).await?, told(here, &keys).await?);
        let mut left = Vec::new();
        for ((key, theirs), ours) in keys.into_iter().zip(theirs).zip(ours) {
            let difference = theirs.difference(&ours);
            if look == 0 && (theirs.value == Dumped::TooLarge || ours.value == Dumped::TooLarge) {
                compared.by_size += 1;
            }
            match difference {
                Some(what) if look + 1 == LOOKS => compared.differs(database, &key, what),
                Some(_) => left.push(key),
                None => {}
            }
        }
        import.tally.keys.store(compared.keys, Ordering::Relaxed);
        if left.is_empty() {
            return Ok(());
        }
        keys = left;
        if look + 1 < LOOKS {
            pause(&import.clock, 1_000).await;
        }
    }
    Ok(())
}

/// What one side says about a key.
struct Told {
    kind: String,
    len: Option<i64>,
    /// When it expires, in milliseconds since 1970.
    end: Option<i64>,
    value: Dumped,
}

/// A value as one side has it.
#[derive(PartialEq)]
enum Dumped {
    Loaded(Loaded),
    /// It is too large to be asked for, or to be dumped.
    TooLarge,
    /// There is no value.
    Nothing,
    /// It is not known, for this reason.
    Unknown(String),
}

impl Told {
    fn difference(&self, ours: &Self) -> Option<String> {
        if self.kind != ours.kind {
            return Some(format!("its type is {} at the source, and {} here", self.kind, ours.kind));
        }
        if self.len != ours.len {
            let text = |len: Option<i64>| len.map_or("unknown".into(), |len| len.to_string());
            return Some(format!("its length is {} at the source, and {} here", text(self.len), text(ours.len)));
        }
        if self.end.is_some() && self.end != ours.end {
            return Some("it ends at another moment".to_owned());
        }
        self.value.difference(&ours.value)
    }
}

impl Dumped {
    fn difference(&self, ours: &Self) -> Option<String> {
        match (self, ours) {
            (Self::Unknown(why), _) => Some(format!("the source does not tell its value: {why}")),
            (_, Self::Unknown(why)) => Some(format!("the tenant does not tell its value: {why}")),
            (Self::TooLarge, _) | (_, Self::TooLarge) => None,
            (theirs, ours) => (theirs != ours).then(|| "its value differs".to_owned()),
        }
    }
}

async fn told(connection: &mut Connection, keys: &[Vec<u8>]) -> Result<Vec<Told>> {
    let mut requests = Requests::default();
    keys.iter().for_each(|key| requests.push(&[b"TYPE".as_slice(), key]));
    keys.iter().for_each(|key| requests.push(&[b"PEXPIRETIME".as_slice(), key]));
    let replies = connection.exchange_patiently(&requests).await?;
    let (kinds, ends) = replies.split_at(keys.len());
    let text = |reply: &Reply| reply.text().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
    let kinds: Vec<String> = kinds.iter().map(text).collect();
    // A Redis before 7.0 does not say when a key expires, only how long it still lives.
    let ends: Vec<Option<i64>> = ends.iter().map(number).collect();
    let mut requests = Requests::default();
    for (key, kind) in keys.iter().zip(&kinds) {
        let count = match kind.as_str() {
            "list" => "LLEN",
            "set" => "SCARD",
            "hash" => "HLEN",
            "zset" => "ZCARD",
            "stream" => "XLEN",
            _ => "STRLEN",
        };
        requests.push(&[count.as_bytes(), key]);
    }
    let lens: Vec<Option<i64>> = connection.exchange_patiently(&requests).await?.iter().map(number).collect();
    let is_at_most = |at: usize, text_bytes: i64, elements: i64| {
        let max = if kinds[at] == "string" { text_bytes } else { elements };
        lens[at].is_some_and(|len| len <= max)
    };
    // Small values are dumped together, the others one by one.
    let mut together = Requests::default();
    let small: Vec<bool> = (0..keys.len()).map(|at| is_at_most(at, SMALL_TEXT_BYTES, SMALL_ELEMENTS)).collect();
    keys.iter().zip(&small).filter(|(_, small)| **small).for_each(|(key, _)| together.push(&[b"DUMP".as_slice(), key]));
    let mut dumps = connection.exchange_patiently(&together).await?.into_iter();
    let mut values = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let dump = match small[at] {
            true => dumps.next(),
            false if is_at_most(at, TEXT_BYTES_MAX, ELEMENTS_MAX) => {
                Some(connection.call_patiently(&[b"DUMP".as_slice(), key]).await?)
            }
            false => None,
        };
        values.push(match dump {
            None => Dumped::TooLarge,
            Some(Reply::Bulk(Some(payload))) => value_of(&payload).await,
            Some(Reply::Bulk(None)) => Dumped::Nothing,
            Some(Reply::Error(error)) if error.contains("too large for DUMP") => Dumped::TooLarge,
            Some(Reply::Error(error)) => Dumped::Unknown(error),
            Some(_) => Dumped::Unknown("DUMP is answered with something else".to_owned()),
        });
    }
    let all = kinds.into_iter().zip(lens).zip(ends).zip(values);
    Ok(all.map(|(((kind, len), end), value)| Told { kind, len, end, value }).collect())
}

fn number(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Number(number) => Some(*number),
        _ => None,
    }
}

async fn value_of(payload: &[u8]) -> Dumped {
    match payload.len().checked_sub(FOOTER_BYTES) {
        Some(len) => loaded(&payload[..len]).await,
        None => Dumped::Unknown("it is dumped as nothing".to_owned()),
    }
}

/// Decodes the value that is written as `body`.
async fn loaded(body: &[u8]) -> Dumped {
    match load(body, usize::MAX, Yield::PLAIN).await {
        Ok(value) => Dumped::Loaded(ordered(value)),
        Err(refusal) => Dumped::Unknown(format!("its dump is no value ({refusal:?})")),
    }
}

/// The same value, with its unordered elements put in an order.
fn ordered(value: Loaded) -> Loaded {
    match value {
        Loaded::Set(mut members) => {
            members.sort_unstable();
            Loaded::Set(members)
        }
        Loaded::Hash(mut fields) => {
            fields.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Loaded::Hash(fields)
        }
        Loaded::SortedSet(mut scores) => {
            scores.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Loaded::SortedSet(scores)
        }
        Loaded::Stream(mut stream) => {
            // When a consumer asked last is no part of what the stream says.
            stream.groups.values_mut().flat_map(|group| group.consumers.values_mut()).for_each(|seen| *seen = 0);
            Loaded::Stream(stream)
        }
        other => other,
    }
}

/// Compares all keys of a dump file with those of the tenant.
///
/// # Errors
/// The file is no dump, or damaged, or the tenant refuses.
pub async fn verify_file(import: &Import, file: impl Read + Send) -> Result<Compared> {
    let mut here = import.target.connect().await?;
    let value_bytes_max = import.target.value_bytes_max(&mut here).await?;
    let mut dump = Dump::open(Input::new(FileBytes(file), Vec::new()), value_bytes_max, import.whole_bytes_max).await?;
    let (mut compared, mut chosen) = (Compared::default(), None);
    loop {
        let key = match dump.next().await? {
            Item::Key(key) => key,
            Item::End => return Ok(compared),
            _ => continue,
        };
        import.tally.bytes.store(dump.consumed(), Ordering::Relaxed);
        let Some(database) = u8::try_from(key.database).ok().filter(|&at| at < DATABASES) else { continue };
        let is_over = key.expire_at_ms.is_some_and(|end| end <= import.clock.unix_ms());
        if is_own(&key.name) || is_over || !import.choice.has(key.database) || matches!(key.value, Value::Module(_)) {
            continue;
        }
        if chosen != Some(database) {
            select(&mut here, database).await?;
            chosen = Some(database);
        }
        compared.keys += 1;
        import.tally.keys.store(compared.keys, Ordering::Relaxed);
        if let Some(reason) = too_long_name(&key.name, value_bytes_max) {
            compared.differs(database, &key.name, reason);
            continue;
        }
        let end = key.expire_at_ms.map_or(-1, |end| i64::try_from(end).unwrap_or(i64::MAX));
        let ours = told(&mut here, std::slice::from_ref(&key.name)).await?.remove(0);
        let of_type = match &key.value {
            Value::Text(_) | Value::TooLong(_) => type_name(kind::STRING),
            Value::Whole(body) => type_name(body[0]),
            Value::Parts(kind) => type_name(*kind),
            Value::Module(_) => "module",
        };
        let (theirs, len) = match key.value {
            Value::Text(text) => (Dumped::Loaded(Loaded::String(text)), None),
            Value::Whole(body) => (loaded(&body).await, None),
            Value::TooLong(bytes) => (Dumped::TooLarge, Some(i64::try_from(bytes).unwrap_or(i64::MAX))),
            Value::Module(_) => (Dumped::Nothing, None),
            Value::Parts(_) => {
                let mut len = 0;
                while let Some(part) = dump.part().await? {
                    len += elements(&part);
                }
                (Dumped::TooLarge, Some(len))
            }
        };
        let len = match &theirs {
            Dumped::Loaded(value) if ours.value == Dumped::TooLarge => Some(size(value)),
            _ => len,
        };
        compared.by_size += u64::from(len.is_some());
        if ours.kind == "none" {
            compared.differs(database, &key.name, "the tenant does not have it");
        } else if ours.kind != of_type {
            compared.differs(database, &key.name, format!("its type is {of_type} in the dump, and {} here", ours.kind));
        } else if ours.end != Some(end) {
            compared.differs(database, &key.name, "it ends at another moment");
        } else if let Some(len) = len {
            if ours.len != Some(len) {
                compared.differs(database, &key.name, format!("its length is {len} in the dump, and another here"));
            }
        } else if let Some(what) = theirs.difference(&ours.value) {
            compared.differs(database, &key.name, what);
        }
    }
}

/// What a server says is the type of a value that a dump has as `of_kind`.
fn type_name(of_kind: u8) -> &'static str {
    use kind::*;
    match of_kind {
        STRING => "string",
        LIST | LIST_ZIPLIST | QUICKLIST | QUICKLIST_2 => "list",
        SET | SET_INTSET | SET_LISTPACK => "set",
        SORTED_SET | SORTED_SET_2 | SORTED_SET_ZIPLIST | SORTED_SET_LISTPACK => "zset",
        STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 => "stream",
        _ => "hash",
    }
}

/// What a server says is the length of a value.
fn size(value: &Loaded) -> i64 {
    let len = match value {
        Loaded::String(text) => text.len(),
        Loaded::List(some) | Loaded::Set(some) => some.len(),
        Loaded::Hash(fields) => fields.len(),
        Loaded::SortedSet(scores) => scores.len(),
        Loaded::Stream(stream) => stream.entries.len(),
    };
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn elements(part: &Part) -> i64 {
    let len = match part {
        Part::Values(some) | Part::Members(some) => some.len(),
        Part::Fields(some) => some.len(),
        Part::Scores(some) => some.len(),
        Part::Entries(some) => some.len(),
        Part::Counts { .. } | Part::Group { .. } | Part::Consumer { .. } | Part::Refused(_) => 0,
    };
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use weir_io::Clock;
    use weir_io::real::RealClock;

    use super::*;
    use crate::resp::take_request;

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
    }

    /// A connection to a server that answers every request with `answer`.
    async fn connection(answer: &'static str) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut received = Vec::new();
            while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
                let mut rest = &received[..];
                let requests = std::iter::from_fn(|| take_request(&mut rest).expect("requests")).count();
                received = rest.to_vec();
                stream.write_all(answer.repeat(requests).as_bytes()).await.expect("it listens");
            }
        });
        let clock: Arc<dyn Clock> = RealClock::new();
        Connection::open(&address, &clock).await.expect("a server")
    }

    #[test]
    fn who_does_not_tell_whether_a_key_exists_ends_the_comparison() {
        in_runtime(async {
            let mut connection = connection("-NOPERM this user may not\r\n").await;
            let failure = exist(&mut connection, &[b"key".to_vec()]).await.expect_err("no answer");
            assert!(failure.message.starts_with("EXISTS: NOPERM"), "{failure}");
        });
    }

    #[test]
    fn who_does_not_tell_a_key_ends_the_comparison_of_a_sample() {
        in_runtime(async {
            let mut refusing = connection("-NOPERM this user may not\r\n").await;
            let failure = random_keys(&mut refusing).await.expect_err("no answer");
            assert!(failure.message.starts_with("RANDOMKEY: NOPERM"), "{failure}");
            for (answer, keys) in [("$-1\r\n", None), ("$1\r\nk\r\n", Some(vec![b"k".to_vec()]))] {
                assert_eq!(random_keys(&mut connection(answer).await).await.expect("it is answered"), keys);
            }
        });
    }
}
