//! Commands on rows of many parts. Commands on keys take the rows as they are, commands on strings refuse them, and
//! what the handlers of types read and write is compared with a map.

#[path = "rows_of_parts/events.rs"]
mod events;
#[path = "rows_of_parts/fields.rs"]
mod fields;
#[path = "rows_of_parts/in_turns.rs"]
mod in_turns;
#[path = "rows_of_parts/lists.rs"]
mod lists;
#[path = "rows_of_parts/one_moment.rs"]
mod one_moment;
#[path = "rows_of_parts/payloads.rs"]
mod payloads;
#[path = "rows_of_parts/queues.rs"]
mod queues;
#[path = "rows_of_parts/sorting.rs"]
mod sorting;
#[path = "rows_of_parts/streams.rs"]
mod streams;
#[path = "rows_of_parts/uncounted.rs"]
mod uncounted;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll, Waker};

use weir_command::error::{Outcome, SYNTAX, TOO_LONG, WRONG_TYPE};
use weir_command::reply::Protocol;
use weir_command::{
    Call, Context, Draft, Headless, Page, PartPage, PartRange, Read, Request, Rows, Subkeys, Waiting, run, table,
};
use weir_io::{Rng, Yield};
use weir_model::parts::{Head, Life, RowType, SUBKEY_BYTES_MAX};
use weir_model::{Batch, Change, Row, StoredKey, VALUE_BYTES_MAX, Value};

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW_MS: u64 = 1_000_000;

/// A tenant's rows in memory; every change has a sequence number.
#[derive(Default)]
struct Store {
    map: BTreeMap<Vec<u8>, Row>,
    newest: u64,
    /// The version that was given out last.
    versions: AtomicU64,
    /// How many parts were read in pages.
    paged: AtomicU64,
    /// Deleted keys: an engine steps over them until a merge drops them.
    dead: BTreeSet<Vec<u8>>,
    /// How many deleted keys were met in pages.
    dead_met: AtomicU64,
    /// How much later than [`NOW_MS`] it is.
    later_ms: u64,
}

impl Store {
    fn row(&self, stored: &[u8], now_ms: u64) -> Read<'static> {
        let living = self.map.get(stored).filter(|row| row.end_ms().is_none_or(|at| at > now_ms));
        Read::Ready(Ok(living.cloned()))
    }

    fn apply(&mut self, batch: &Batch) {
        for change in batch.as_ref().iter() {
            self.newest += 1;
            let row = match change {
                Change::Put { value, expire_at_ms, .. } => Row::string(Value::from(value.to_vec()), expire_at_ms),
                Change::Head { head, expire_at_ms, .. } => {
                    Row::of_parts(Head::decode(head).expect("a head"), expire_at_ms)
                }
                Change::Delete { key } => {
                    self.map.remove(key);
                    self.dead.insert(key.into());
                    continue;
                }
                Change::Cover { .. } => unreachable!("covers are not the commands' business"),
            };
            self.dead.remove(change.key());
            self.map.insert(change.key().into(), row);
        }
    }

    /// Runs `line`, one command; gives the answer.
    fn ask(&mut self, line: &str) -> String {
        let (_, answer) = self.answer(line.split(' ').map(str::as_bytes));
        String::from_utf8(answer).expect("text")
    }

    /// Runs the command of `words`; gives the number of turns that it took, and the answer.
    fn answer<'w>(&mut self, words: impl IntoIterator<Item = &'w [u8]>) -> (usize, Vec<u8>) {
        let request = Request::new(0, NOW_MS + self.later_ms, words);
        let args = request.args();
        let command = table::find(args.at(0)).expect("a command");
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = request.call(VALUE_BYTES_MAX);
        let context = match command.writes_with(args) {
            true => Context::locked(&*self, &mut host, &mut call, Draft::default()),
            false => Context::reading(&*self, &mut host, &mut call),
        };
        let (turns, finished) = turns(run(command, context, args));
        self.apply(finished.draft.batch());
        (turns, host.take_answer(&finished.outcome))
    }

    /// Runs `handler` as a command that writes.
    fn run<T>(&mut self, handler: impl AsyncFnOnce(&mut Context<'_>) -> Outcome<T>) -> Outcome<T> {
        let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
        let mut call = Call::new(0, NOW_MS, VALUE_BYTES_MAX);
        let mut context = Context::locked(&*self, &mut host, &mut call, Draft::default());
        let outcome = done(handler(&mut context));
        let finished = context.end(if outcome.is_ok() { Ok(()) } else { Err(SYNTAX) });
        self.apply(finished.draft.batch());
        outcome
    }

    /// A store with the hash `h`, whose fields have their names as values.
    fn with_hash(fields: &[&str]) -> Self {
        let mut store = Store::default();
        let made = store.run(async |cx| {
            let mut head = cx.new_head(RowType::Hash);
            let life = Life::new(head.version);
            for field in fields {
                cx.put_part(life, 0, field.as_bytes(), field.as_bytes())?;
            }
            head.count = fields.len() as u64;
            cx.put_head(b"h", &head, None)
        });
        assert_eq!(made, Ok(()));
        store
    }
}

impl Rows for Store {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.row(&StoredKey::new(database, key), now_ms)
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, weir_io::Result<Page>> {
        let mut page = Page::default();
        for (key, row) in self.map.range(StoredKey::new(database, from).to_vec()..vec![database + 1]) {
            if page.keys.len() == limit {
                page.next = Some(key[1..].to_vec());
                break;
            }
            page.kinds.extend(row.kind().map(|kind| (page.keys.len(), kind)));
            page.keys.push(key[1..].to_vec());
        }
        Box::pin(std::future::ready(Ok(page)))
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        self.row(part, now_ms)
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        let entries = self.map.range(range.from.clone()..range.to.clone());
        let entries: Vec<_> = if range.reverse { entries.rev().collect() } else { entries.collect() };
        let (mut page, mut passed) = (PartPage::default(), range.from.clone()..range.to.clone());
        for (key, row) in entries {
            let row = row.clone().into_string().expect("a part is no head");
            self.paged.fetch_add(1, Ordering::Relaxed);
            page.parts.push(key, &row.value);
            if page.parts.len() == limit {
                let behind = [&key[..], &[0]].concat();
                (passed, page.next) = match range.reverse {
                    true => (key.clone()..range.to.clone(), Some(PartRange { to: key.clone(), ..range })),
                    false => (range.from.clone()..behind.clone(), Some(PartRange { from: behind, ..range })),
                };
                break;
            }
        }
        self.dead_met.fetch_add(self.dead.range(passed).count() as u64, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(page)))
    }

    fn new_version(&self) -> u64 {
        self.versions.fetch_max(self.newest, Ordering::Relaxed);
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    turns(future).1
}

/// How many turns `future` takes before it is done, and its result.
fn turns<T>(future: impl Future<Output = T>) -> (usize, T) {
    let mut future = pin!(future);
    let mut turns = 0;
    loop {
        match future.as_mut().poll(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready(done) => return (turns, done),
            Poll::Pending => turns += 1,
        }
    }
}

const REFUSED: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

#[test]
fn commands_on_strings_refuse_what_is_none() {
    for line in [
        "GET h",
        "SET h v GET",
        "GETSET h v",
        "GETDEL h",
        "GETEX h",
        "GETEX h PERSIST",
        "APPEND h v",
        "STRLEN h",
        "SETRANGE h 1 v",
        "GETRANGE h 0 1",
        "SUBSTR h 0 1",
        "INCR h",
        "DECR h",
        "INCRBY h 2",
        "DECRBY h 2",
        "INCRBYFLOAT h 1",
        "SETBIT h 1 1",
        "GETBIT h 1",
        "BITCOUNT h",
        "BITPOS h 1",
        "BITFIELD h GET u8 0",
        "BITFIELD h SET u8 0 1",
        "BITFIELD_RO h GET u8 0",
        "BITOP AND d h s",
        "BITOP NOT d h",
    ] {
        let mut store = Store::with_hash(&["a", "b"]);
        store.ask("SET s v");
        let before = store.map.clone();
        assert_eq!(store.ask(line), REFUSED, "{line}");
        assert_eq!(store.map, before, "{line} wrote nothing");
    }
}

#[test]
fn commands_on_keys_take_every_row() {
    for (line, answer) in [
        ("TYPE h", "+hash\r\n"),
        ("EXISTS h h", ":2\r\n"),
        ("MGET h s", "*2\r\n$-1\r\n$1\r\nv\r\n"),
        ("SETNX h v", ":0\r\n"),
        ("SET h v NX", "$-1\r\n"),
        ("MSETNX n v h v", ":0\r\n"),
        ("TTL h", ":-1\r\n"),
        ("EXPIRE h 10", ":1\r\n"),
        ("PERSIST h", ":0\r\n"),
        ("OBJECT ENCODING h", "$8\r\nlistpack\r\n"),
        ("OBJECT REFCOUNT h", ":1\r\n"),
        ("LCS h s", "-ERR The specified keys must contain string values\r\n"),
        ("RESTORE h 0 x", "-BUSYKEY Target key name already exists.\r\n"),
        ("RENAME h h", "+OK\r\n"),
        ("RENAMENX s h", ":0\r\n"),
        ("COPY h s", ":0\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("KEYS *", "*2\r\n$1\r\nh\r\n$1\r\ns\r\n"),
        ("SCAN 0 TYPE hash", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nh\r\n"),
        ("SCAN 0 TYPE string", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\ns\r\n"),
        ("SCAN 0 TYPE zset", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SCAN 0 TYPE none", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ] {
        let mut store = Store::with_hash(&["a"]);
        store.ask("SET s v");
        assert_eq!(store.ask(line), answer, "{line}");
    }
    for (line, answer, kind) in [
        ("DEL h", ":1\r\n", "none"),
        ("UNLINK h s", ":2\r\n", "none"),
        ("RENAME h n", "+OK\r\n", "none"),
        ("MOVE h 3", ":1\r\n", "none"),
        ("COPY h n", ":1\r\n", "hash"),
        ("SET h v", "+OK\r\n", "string"),
        ("SET h v XX", "+OK\r\n", "string"),
        ("MSET h v", "+OK\r\n", "string"),
        ("RENAME s h", "+OK\r\n", "string"),
        ("COPY s h REPLACE", ":1\r\n", "string"),
        ("BITOP NOT h s", ":1\r\n", "string"),
        ("EXPIRE h -1", ":1\r\n", "none"),
    ] {
        let mut store = Store::with_hash(&["a"]);
        store.ask("SET s v");
        assert_eq!(store.ask(line), answer, "{line}");
        assert_eq!(store.ask("TYPE h"), format!("+{kind}\r\n"), "{line}");
    }
}

#[test]
fn an_expiry_is_given_and_taken_at_the_head_alone() {
    let mut store = Store::with_hash(&["a", "b"]);
    let (entries, newest) = (store.map.len(), store.newest);
    assert_eq!(store.ask("PEXPIREAT h 1000500"), ":1\r\n");
    assert_eq!(store.ask("PTTL h"), ":500\r\n");
    assert_eq!(store.ask("SET h v KEEPTTL GET"), REFUSED);
    assert_eq!(store.ask("PERSIST h"), ":1\r\n");
    assert_eq!(store.ask("TYPE h"), "+hash\r\n");
    assert_eq!((store.map.len(), store.newest), (entries, newest + 2), "one change each");
    store.ask("PEXPIREAT h 1000500");
    assert_eq!(store.ask("SET h v KEEPTTL"), "+OK\r\n");
    assert_eq!(store.ask("PTTL h"), ":500\r\n");
}

/// `subkeys` of `h`, page by page.
async fn fields(cx: &mut Context<'_>, subkeys: Subkeys, limit: usize) -> Outcome<Vec<String>> {
    let Some((head, _)) = cx.head(b"h", RowType::Hash).await? else { return Ok(Vec::new()) };
    let life = Life::new(head.version);
    let (mut found, mut next) = (Vec::new(), Some(subkeys));
    while let Some(subkeys) = next {
        let page = cx.parts(b"h", life, subkeys, limit).await?;
        assert!(page.parts.len() <= limit);
        found.extend(page.parts.iter().map(|part| String::from_utf8(part.subkey.clone()).expect("text")));
        next = page.next;
    }
    Ok(found)
}

#[test]
fn pages_and_parts_show_what_the_command_has_written_itself() {
    for (reverse, limit) in [(false, 1), (false, 2), (false, 9), (true, 1), (true, 2), (true, 9)] {
        let mut store = Store::with_hash(&["b", "d", "f", "h"]);
        store.ask("EXPIRE h 100");
        let checked = store.run(async |cx| {
            let (head, expire_at_ms) = cx.head(b"h", RowType::Hash).await?.expect("it is there");
            assert_eq!((head.count, expire_at_ms), (4, Some(NOW_MS + 100_000)));
            let life = Life::new(head.version);
            cx.delete_part(life, 0, b"d")?;
            for field in [b"a", b"e", b"i"] {
                cx.put_part(life, 0, field, b"new")?;
            }
            cx.put_part(life, 1, b"z", b"another order")?;
            let mut expected = vec!["a", "b", "e", "f", "h", "i"];
            let mut inside = vec!["b", "e", "f"];
            if reverse {
                expected.reverse();
                inside.reverse();
            }
            assert_eq!(fields(cx, Subkeys { reverse, ..Subkeys::all(0) }, limit).await?, expected, "{limit}");
            let (from, to) = (Bound::Excluded(b"a".to_vec()), Bound::Included(b"f".to_vec()));
            assert_eq!(fields(cx, Subkeys { space: 0, from, to, reverse }, limit).await?, inside, "{limit}");
            let (from, to) = (Bound::Included(b"x".to_vec()), Bound::Excluded(b"c".to_vec()));
            assert!(fields(cx, Subkeys { space: 0, from, to, reverse }, limit).await?.is_empty());
            for (field, value) in [("a", Some("new")), ("b", Some("b")), ("c", None), ("d", None), ("g", None)] {
                let part = cx.part(b"h", life, 0, field.as_bytes()).await?;
                assert_eq!(part.map(|part| part.value.to_vec()), value.map(Vec::from), "{field}");
            }
            Ok(())
        });
        assert_eq!(checked, Ok(()));
    }
}

#[test]
fn every_life_of_a_row_has_a_larger_version_and_no_parts_of_another() {
    let mut store = Store::with_hash(&["a", "b"]);
    let seen = store.run(async |cx| {
        let (first, _) = cx.head(b"h", RowType::Hash).await?.expect("it is there");
        let mut versions = vec![first.version];
        // Two more lives within one command.
        for field in [b"x", b"y"] {
            cx.delete(b"h")?;
            assert_eq!(cx.head(b"h", RowType::Hash).await, Ok(None));
            let head = cx.new_head(RowType::Hash);
            versions.push(head.version);
            cx.put_part(Life::new(head.version), 0, field, b"")?;
            cx.put_head(b"h", &head, None)?;
        }
        assert_eq!(fields(cx, Subkeys::all(0), 10).await?, ["y"]);
        assert_eq!(cx.head(b"h", RowType::Set).await, Err(WRONG_TYPE));
        Ok(versions)
    });
    let mut versions = seen.expect("it is done");
    versions.push(store.newest + 1);
    store.ask("SET h v");
    versions.push(store.run(async |cx| Ok(cx.new_head(RowType::Hash).version)).expect("it is done"));
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[test]
fn a_command_that_fails_has_written_no_part() {
    let mut store = Store::with_hash(&["a"]);
    let before = store.map.clone();
    let failed: Outcome = store.run(async |cx| {
        let life = Life::new(1);
        cx.put_part(life, 0, b"b", b"")?;
        assert!(cx.put_part(life, 0, &[0; SUBKEY_BYTES_MAX + 1], b"").is_err());
        Err(SYNTAX)
    });
    assert_eq!((failed, store.map), (Err(SYNTAX), before));
}

/// A store with the sorted set `z` of `members` members, whose scores are the numbers in their names, added in no
/// particular order.
fn with_scores(members: u64) -> Store {
    let mut store = Store::default();
    let numbers: Vec<u64> = (0..members).map(|index| index * 7919 % members).collect();
    // One command adds very many members, and many commands add a few each.
    let (first, others) = numbers.split_at(numbers.len() / 2);
    for numbers in [first].into_iter().chain(others.chunks(100)) {
        let words: Vec<String> = numbers.iter().map(|number| format!("{number} m{number}")).collect();
        assert_eq!(store.ask(&format!("ZADD z {}", words.join(" "))), format!(":{}\r\n", numbers.len()));
    }
    store
}

#[test]
fn a_large_sorted_set_is_asked_and_changed_at_a_few_parts() {
    const MEMBERS: u64 = 100_000;
    let mut store = with_scores(MEMBERS);
    for (line, answer) in [
        ("ZCARD z", ":100000\r\n"),
        ("ZRANK z m31234", ":31234\r\n"),
        ("ZREVRANK z m31234", ":68765\r\n"),
        ("ZCOUNT z 100 (39000", ":38900\r\n"),
        ("ZRANGE z 20000 20001", "*2\r\n$6\r\nm20000\r\n$6\r\nm20001\r\n"),
        ("ZREVRANGE z 20000 20000", "*1\r\n$6\r\nm79999\r\n"),
        ("ZRANGEBYSCORE z 10 +inf LIMIT 30000 1", "*1\r\n$6\r\nm30010\r\n"),
        ("ZREMRANGEBYRANK z 30000 30001", ":2\r\n"),
        ("ZADD z 30000 m30000 30001 m30001", ":2\r\n"),
        ("ZADD z 7.5 m39999", ":0\r\n"),
        ("ZPOPMIN z", "*2\r\n$2\r\nm0\r\n$1\r\n0\r\n"),
    ] {
        let before = store.paged.load(Ordering::Relaxed);
        assert_eq!(store.ask(line), answer, "{line}");
        let read = store.paged.load(Ordering::Relaxed) - before;
        assert!(read < 300, "{line} reads {read} parts");
    }
    // Written are the head, the member by name and by score, and one tally on each of two levels.
    for (line, expected) in [("ZADD z 12345.5 new", 5), ("ZADD z 12345.75 new", 4), ("ZREM z new", 5)] {
        let before = store.newest;
        store.ask(line);
        assert_eq!(store.newest - before, expected, "{line}");
    }
    // The cost of a change of a set that has no counts yet.
    let mut store = Store::default();
    let words: Vec<String> = (0..100).map(|number| format!("{number} a_name_that_is_long_{number}")).collect();
    store.ask(&format!("ZADD z {}", words.join(" ")));
    let before = store.newest;
    store.ask("ZADD z 1.5 new");
    assert_eq!(store.newest - before, 3);
}

#[test]
fn members_come_by_chance_each_once_or_each_in_the_end() {
    for members in [100, 400] {
        let mut store = with_scores(members);
        let names = |answer: String| -> Vec<String> {
            answer.lines().filter(|line| line.starts_with('m')).map(str::to_owned).collect()
        };
        for count in [1, members / 10, members / 2, members, members + 5] {
            let mut found = names(store.ask(&format!("ZRANDMEMBER z {count}")));
            assert_eq!(found.len() as u64, count.min(members));
            found.sort();
            found.dedup();
            assert_eq!(found.len() as u64, count.min(members), "each once");
            assert!(found.iter().all(|name| name[1..].parse::<u64>().is_ok_and(|number| number < members)));
        }
        let mut all = names(store.ask(&format!("ZRANDMEMBER z -{}", members * 50)));
        assert_eq!(all.len() as u64, members * 50);
        all.sort();
        all.dedup();
        assert_eq!(all.len() as u64, members);
        let answer = store.ask("ZRANDMEMBER z 3 WITHSCORES");
        let lines: Vec<&str> = answer.lines().skip(1).filter(|line| !line.starts_with('$')).collect();
        assert!(lines.chunks(2).all(|pair| pair[0] == format!("m{}", pair[1])), "{answer}");
    }
}

#[test]
fn a_value_that_is_too_long_for_a_batch_is_refused() {
    type Put = fn(&mut Context<'_>, &[u8]) -> Outcome;
    let puts: [Put; 3] = [
        |cx, value| cx.put(b"k", value, None),
        |cx, value| cx.put_part(Life::new(1), 0, b"part", value),
        |cx, value| cx.put_member_part(Life::new(1), 0, b"member", value),
    ];
    // Nobody looks at these zeros, so they take no memory.
    let (mut store, long) = (Store::default(), vec![0_u8; VALUE_BYTES_MAX + 1]);
    for put in puts {
        assert_eq!(store.run(async |cx| put(cx, &long)), Err(TOO_LONG));
    }
    // A field across the end of the longest value can be read, but not written.
    let refused = "-ERR bit offset is not an integer or out of range\r\n";
    assert_eq!(store.ask("BITFIELD k SET u16 4294967295 1"), refused);
    assert_eq!(store.ask("BITFIELD k INCRBY u2 4294967295 1"), refused);
    assert_eq!(store.ask("BITFIELD k GET u16 4294967295"), "*1\r\n:0\r\n");
    assert!(store.map.is_empty());
}
