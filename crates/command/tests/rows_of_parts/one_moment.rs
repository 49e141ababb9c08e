//! Reads without a snapshot: if the row is made anew between two reads, it is read again, and that counts and costs
//! once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_admission::request_units::Module;
use weir_command::{Moment, Read};

use super::*;

/// When the writer comes, which makes the row anew.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writer {
    Never,
    /// A command has read the row's head and is about to read a part.
    AtPart,
    /// A command has read some of the row and holds a snapshot for the rest.
    AtMoment,
}

struct Racing {
    before: Arc<Store>,
    after: Arc<Store>,
    is_after: AtomicBool,
    writer: Writer,
}

impl Racing {
    /// A store with the rows that `lines` make.
    fn new(lines: &str, writer: Writer) -> Self {
        let made = |first_version| {
            let mut store = Store { versions: AtomicU64::new(first_version), ..Store::default() };
            lines.lines().for_each(|line| drop(store.ask(line)));
            Arc::new(store)
        };
        Self { before: made(0), after: made(1000), is_after: AtomicBool::new(false), writer }
    }

    fn now(&self) -> &Arc<Store> {
        if self.is_after.load(Ordering::Relaxed) { &self.after } else { &self.before }
    }

    /// Called where the writer may come.
    fn meet(&self, writer: Writer) {
        self.is_after.fetch_or(self.writer == writer, Ordering::Relaxed);
    }
}

impl Rows for Racing {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.now().get(database, key, now_ms)
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        unreachable!("nobody goes through all keys")
    }

    fn part<'a>(&'a self, key: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        self.meet(Writer::AtPart);
        self.now().part(key, part, now_ms)
    }

    fn parts<'a>(&'a self, key: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        self.meet(Writer::AtPart);
        self.now().parts(key, range, limit)
    }

    fn settled(&self, _: &[u8]) -> Option<u64> {
        Some(u64::from(self.is_after.load(Ordering::Relaxed)))
    }

    fn moment<'a>(&'a self, _: &'a [u8]) -> Waiting<'a, weir_io::Result<Option<Box<dyn Moment>>>> {
        self.meet(Writer::AtMoment);
        let held: Box<dyn Moment> = Box::new(Held(Arc::clone(self.now())));
        Box::pin(std::future::ready(Ok(Some(held))))
    }
}

struct Held(Arc<Store>);

impl Moment for Held {
    fn read(&self, key: StoredKey, now_ms: u64) -> Read<'static> {
        self.0.row(&key, now_ms)
    }

    fn parts(&self, range: PartRange, limit: usize) -> Waiting<'static, weir_io::Result<PartPage>> {
        Box::pin(std::future::ready(done(self.0.parts(b"", range, limit))))
    }
}

/// Runs `line`; gives the answer, and the state of the run.
fn read(rows: &Racing, line: &str) -> (String, Call) {
    let request = Request::new(0, NOW_MS, line.split(' ').map(str::as_bytes));
    let command = table::find(request.args().at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = request.call(VALUE_BYTES_MAX);
    let finished = done(run(command, Context::reading(rows, &mut host, &mut call), request.args()));
    (String::from_utf8_lossy(&host.take_answer(&finished.outcome)).into_owned(), call)
}

fn counted(call: &Call, wanted: Module) -> u64 {
    call.bill.work.counts().find(|(module, _)| *module == wanted).map_or(0, |(_, count)| count)
}

/// A command that goes through the parts of a row takes a snapshot, and then looks at the row again: that counts once,
/// too.
#[test]
fn a_row_of_which_many_parts_are_read_counts_once() {
    let fields: String = (0..300).map(|n| format!(" {n} v")).collect();
    for line in ["HGETALL k", "HMGET k 1 2", "HLEN k", "HKEYS k", "HTTL k FIELDS 1 7", "HPEXPIRETIME k FIELDS 2 7 8"] {
        let (answer, call) = read(&Racing::new(&format!("HSET k{fields}"), Writer::Never), line);
        assert!(!answer.starts_with('-'), "{answer}");
        assert_eq!((call.hits, call.misses, counted(&call, Module::RowFound)), (1, 0, 1), "{line}");
    }
    let members: String = (0..1200).map(|n| format!(" {n} m{n}")).collect();
    for line in ["ZRANGE k 0 -1", "ZREVRANGE k 0 900", "ZRANGE k 3 900 REV", "ZRANGE k 3 9", "ZRANGEBYSCORE k 3 900"] {
        let (answer, call) = read(&Racing::new(&format!("ZADD k{members}"), Writer::Never), line);
        assert!(!answer.starts_with('-'), "{answer}");
        assert_eq!((call.hits, call.misses, counted(&call, Module::RowFound)), (1, 0, 1), "{line}");
    }
}

#[test]
fn how_many_parts_a_row_has_is_told_by_its_head_without_a_snapshot() {
    let each = |word: fn(u64) -> String| (0..300).map(|n| format!(" {}", word(n))).collect::<String>();
    for (made, line) in [
        (format!("RPUSH k{}", each(|n| format!("v{n}"))), "LLEN k"),
        (format!("SADD k{}", each(|n| format!("m{n}"))), "SCARD k"),
        (format!("ZADD k{}", each(|n| format!("{n} m{n}"))), "ZCARD k"),
    ] {
        let (answer, call) = read(&Racing::new(&made, Writer::AtMoment), line);
        assert_eq!((&answer[..], call.hits, call.misses), (":300\r\n", 1, 0), "{line}");
        let counts = [Module::RowFound, Module::HeadRead, Module::Moment, Module::Judged];
        assert_eq!(counts.map(|module| counted(&call, module)), [1, 1, 0, 0], "{line}");
    }
}

#[test]
fn a_row_that_may_be_of_several_types_counts_once() {
    for words in [" 1 2 3".to_owned(), (0..300).map(|n| format!(" {n}")).collect()] {
        let scores: String = words.split_whitespace().map(|word| format!(" {word} {word}")).collect();
        let (list, set, zset) = (format!("RPUSH k{words}"), format!("SADD k{words}"), format!("ZADD k{scores}"));
        for (made, line) in [
            (&list, "SORT_RO k LIMIT 0 1"),
            (&set, "SORT_RO k LIMIT 0 1"),
            (&zset, "SORT_RO k BY nosort LIMIT 0 1"),
            (&set, "ZUNION 1 k"),
            (&set, "ZINTERCARD 1 k"),
            (&zset, "ZDIFF 1 k"),
        ] {
            let (answer, call) = read(&Racing::new(made, Writer::Never), line);
            assert!(!answer.starts_with('-'), "{line}: {answer}");
            assert_eq!((call.hits, call.misses, counted(&call, Module::RowFound)), (1, 0, 1), "{line}");
        }
    }
}

#[test]
fn no_more_pending_entries_are_read_than_are_returned() {
    let entries: String = (1..=400).map(|id| format!("XADD k {id}-1 f v\n")).collect();
    let made = format!("{entries}XGROUP CREATE k g 0\nXREADGROUP GROUP g c STREAMS k >");
    for (line, returned) in [
        ("XPENDING k g - + 3 c", 3),
        ("XPENDING k g IDLE 0 - + 3 c", 3),
        ("XPENDING k g 200 + 1000 c", 201),
        ("XPENDING k g IDLE 1000 - + 3 c", 0),
    ] {
        let (answer, call) = read(&Racing::new(&made, Writer::Never), line);
        assert!(answer.starts_with(&format!("*{returned}\r\n")), "{line}: {answer}");
        // The group is a part, too. Which entries were idle for too short a time is only known once they are read.
        let read = if line.contains("1000 -") { 400 } else { returned };
        assert_eq!(counted(&call, Module::PartFound), read + 1, "{line}");
    }
}

#[test]
fn a_member_of_a_row_that_is_made_anew_meanwhile_is_found_and_counts_once() {
    let each = |word: fn(u64) -> String| (0..300).map(|n| format!(" {}", word(n))).collect::<String>();
    let fields = format!("HSET k{}", each(|n| format!("{n} seven")));
    for (made, line, answer) in [
        (&fields, "HGET k 7", "$5\r\nseven\r\n"),
        (&fields, "HEXISTS k 7", ":1\r\n"),
        (&fields, "HSTRLEN k 7", ":5\r\n"),
        (&format!("SADD k{}", each(|n| format!("{n}x"))), "SISMEMBER k 7x", ":1\r\n"),
        (&format!("ZADD k{}", each(|n| format!("{n} m{n}"))), "ZSCORE k m7", "$1\r\n7\r\n"),
    ] {
        for races in [Writer::Never, Writer::AtPart] {
            let rows = Racing::new(made, races);
            let (given, mut call) = read(&rows, line);
            assert_eq!(given, answer, "{line}, races: {races:?}");
            assert_eq!((call.hits, call.misses), (1, 0), "{line}, races: {races:?}");
            let counts =
                [Module::RowFound, Module::PartFound, Module::PartMissing].map(|module| counted(&call, module));
            assert_eq!(counts, [1, 1, 0], "{line}, races: {races:?}");
            assert_eq!(call.bill.take_unpaid(), 2, "{line}, races: {races:?}: a read unit for each");
        }
    }
}

#[test]
fn many_parts_of_a_row_that_is_made_anew_meanwhile_are_of_one_life_of_it() {
    let each = |word: fn(u64) -> String| (0..1200).map(word).collect::<String>();
    let zset = format!("ZADD k{}", each(|n| format!(" {n} m{n}")));
    let hash = format!("HSET k{}", each(|n| format!(" f{n} v")));
    let list = format!("RPUSH k{}", each(|n| format!(" v{n}")));
    let stream = each(|n| format!("XADD k {}-1 f v{n}\n", n + 1));
    for (made, lines) in [
        (&zset, &["ZRANGEBYSCORE k 7 +inf LIMIT 0 10", "ZRANGEBYSCORE k -inf +inf WITHSCORES", "ZRANGE k 3 900"][..]),
        (&zset, &["ZRANGE k 1100 1110", "ZREVRANGE k 5 20", "ZRANK k m700", "ZRANGE k (5 20 BYSCORE LIMIT 4 6"]),
        (&stream, &["XRANGE k 9 + COUNT 10", "XREVRANGE k + -", "XREAD COUNT 10 STREAMS k 9", "XREAD STREAMS k 0"]),
        (&stream, &["XRANGE k 9 + COUNT 0", "XRANGE k 9999 +", "XREAD STREAMS k 9999"]),
        (&hash, &["HGETALL k"]),
        (&list, &["LRANGE k 0 -1", "LRANGE k 5 9"]),
    ] {
        for line in lines {
            let mut plain = Store::default();
            made.lines().for_each(|line| drop(plain.ask(line)));
            for writer in [Writer::Never, Writer::AtPart, Writer::AtMoment] {
                // The members of a hash are in another order in each of its lives.
                let sorted = |answer: &str| {
                    let mut words: Vec<String> = answer.split("\r\n").map(str::to_owned).collect();
                    words.sort_unstable();
                    words
                };
                let (answer, wanted) = (read(&Racing::new(made, writer), line).0, plain.ask(line));
                match line.starts_with('H') {
                    true => assert_eq!(sorted(&answer), sorted(&wanted), "{line}, {writer:?}"),
                    false => assert_eq!(answer, wanted, "{line}, {writer:?}"),
                }
            }
        }
    }
}
