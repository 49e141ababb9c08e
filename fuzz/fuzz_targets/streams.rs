//! Streams: ids and options in a client's words, the content of a stream's parts, and damaged rows. Any words are
//! answered with one whole reply, and an entry that was added is found by its id.
//!
//! Commands end at a byte 254, and their words at a byte 255. The first command is none: it is the head that the row
//! has at the beginning, if it is a head of a stream.
#![no_main]

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use weir_command::reply::Protocol;
use weir_command::{
    Context, Draft, Headless, Host, Page, PartPage, PartRange, Read, Request, Rows, Waiting, run, table,
};
use weir_io::{Rng, Yield};
use weir_model::parts::stream::{
    ConsumerValue, EntryId, GroupValue, PendingValue, StreamDetail, entry_value, entry_words, split_group,
};
use weir_model::parts::{Head, RowType};
use weir_model::{Batch, Change, Row, StoredKey, Value};

/// The words in front of the input's words, chosen by the first of those.
const COMMANDS: [&[&str]; 18] = [
    &["XADD", "x"],
    &["XRANGE", "x"],
    &["XREVRANGE", "x"],
    &["XREAD", "COUNT", "2", "STREAMS", "x"],
    &["XGROUP", "CREATE", "x"],
    &["XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "x"],
    &["XACK", "x", "g"],
    &["XPENDING", "x", "g"],
    &["XCLAIM", "x", "g", "d"],
    &["XAUTOCLAIM", "x", "g", "d"],
    &["XGROUP", "SETID", "x"],
    &["XGROUP", "CREATECONSUMER", "x"],
    &["XGROUP", "DELCONSUMER", "x"],
    &["XTRIM", "x"],
    &["XDEL", "x"],
    &["XSETID", "x"],
    &["XINFO", "STREAM", "x"],
    &["XINFO", "CONSUMERS", "x"],
];

/// Most commands of one input.
const COMMANDS_MAX: usize = 64;

/// Rows and parts by their stored keys.
#[derive(Default)]
struct Store(BTreeMap<Vec<u8>, Row>);

impl Store {
    fn apply(&mut self, batch: &Batch) {
        for change in batch.as_ref().iter() {
            let row = match change {
                Change::Put { value, expire_at_ms, .. } => Row::string(Value::from(value.to_vec()), expire_at_ms),
                Change::Head { head, expire_at_ms, .. } => {
                    Row::of_parts(Head::decode(head).expect("what was written is a head"), expire_at_ms)
                }
                Change::Delete { key } => {
                    self.0.remove(key);
                    continue;
                }
                Change::Cover { .. } => unreachable!("covers are not the commands' business"),
            };
            self.0.insert(change.key().into(), row);
        }
    }

    /// The answer to a command.
    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let request = Request::new(0, 1_000_000, words.iter().copied());
        let args = request.args();
        let command = table::find(args.at(0)).expect("a command");
        if !command.takes(args.len()) {
            return b"-ERR".to_vec();
        }
        let mut host = Headless::new(Protocol::Resp3, Yield::PLAIN, Rng::new(1));
        let mut call = request.call(1 << 20);
        let context = match command.writes() {
            true => Context::locked(&*self, &mut host, &mut call, Draft::default()),
            false => Context::reading(&*self, &mut host, &mut call),
        };
        let finished = done(run(command, context, args));
        self.apply(finished.draft.batch());
        assert!(finished.outcome.is_err() || host.replies().is_whole(), "one whole reply");
        host.take_answer(&finished.outcome)
    }
}

fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Task::from_waker(Waker::noop())) {
            return done;
        }
    }
}

impl Rows for Store {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(self.0.get(&StoredKey::new(database, key)[..]).cloned()))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        Box::pin(std::future::ready(Ok(Page::default())))
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Ok(self.0.get(part).cloned()))
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        let entries = self.0.range(range.from.clone()..range.to.clone());
        let entries: Vec<_> = if range.reverse { entries.rev().collect() } else { entries.collect() };
        let mut page = PartPage::default();
        for (key, row) in entries {
            if page.parts.len() == limit {
                let last = page.parts.last().expect("a limit is at least 1").key.to_vec();
                page.next = Some(match range.reverse {
                    true => PartRange { to: last, ..range },
                    false => PartRange { from: key.clone(), ..range },
                });
                break;
            }
            if let Some(row) = row.clone().into_string() {
                page.parts.push(key, &row.value);
            }
        }
        Box::pin(std::future::ready(Ok(page)))
    }
}

/// Checks that a value that is decoded from any bytes is the same after it is encoded and decoded again.
fn decode(bytes: &[u8]) {
    if let Some(detail) = StreamDetail::decode(bytes) {
        assert_eq!(StreamDetail::decode(&detail.encode()), Some(detail));
    }
    if let Some(group) = GroupValue::decode(bytes) {
        assert_eq!(GroupValue::decode(&group.encode()), Some(group));
    }
    if let Some(consumer) = ConsumerValue::decode(bytes) {
        assert_eq!(ConsumerValue::decode(&consumer.encode()), Some(consumer));
    }
    if let Some(pending) = PendingValue::decode(bytes) {
        assert_eq!(PendingValue::decode(&pending.encode()), Some(pending));
    }
    if let Some(words) = entry_words(bytes) {
        assert_eq!(entry_words(&entry_value(words.iter().copied())), Some(words));
    }
    if let Some(id) = EntryId::of_subkey(bytes) {
        assert_eq!(id.subkey(), bytes);
    }
    let _ = split_group(bytes);
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    let mut commands = bytes.split(|&byte| byte == 254);
    let mut store = Store::default();
    let head = commands.next().and_then(Head::decode).filter(|head| head.kind == RowType::Stream);
    let is_sound = head.is_none();
    if let Some(head) = head {
        store.0.insert(StoredKey::new(0, b"x").to_vec(), Row::of_parts(head, None));
    }
    for command in commands.take(COMMANDS_MAX) {
        let Some((&which, rest)) = command.split_first() else { continue };
        let front = COMMANDS[usize::from(which) % COMMANDS.len()];
        let mut words: Vec<&[u8]> = front.iter().map(|word| word.as_bytes()).collect();
        words.extend(rest.split(|&byte| byte == 255));
        let answer = store.ask(&words);
        let id = answer.strip_prefix(b"$").and_then(|rest| rest.strip_suffix(b"\r\n"));
        let id = id.and_then(|id| id.splitn(2, |&byte| byte == b'\n').nth(1));
        // An entry behind an option may have been trimmed at once.
        if let Some(id) = id.filter(|_| is_sound && front[0] == "XADD" && words.len() == 5) {
            let found = store.ask(&[b"XRANGE", b"x", id, id]);
            assert!(found.starts_with(b"*1\r\n"), "{} is not there", id.escape_ascii());
        }
    }
});
