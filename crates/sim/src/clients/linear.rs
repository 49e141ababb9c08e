//! Checks whether a history of overlapping commands could have happened one after the other (Herlihy and Wing 1990), by
//! the search of Wing and Gong with the memory of Lowe: a set of finished operations is looked at only once with the
//! state it led to.
//!
//! The effect of one command alone is taken from its own handler, run on a map. So the check is that commands do not
//! mix, do not get lost, and do not come late.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::pin::pin;
use std::task::{Context as Task, Poll, Waker};

use weir_command::reply::Protocol;
use weir_command::{
    Context, Draft, Headless, Page, PartPage, PartRange, Read, Request, Rows, StoredParts, Waiting, run, table,
};
use weir_io::{Nanos, Rng, Yield};
use weir_model::parts::Head;
use weir_model::{Change, Row, StoredKey, VALUE_BYTES_MAX, Value};

/// A command that was asked and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The client that asked.
    pub client: usize,
    /// What was asked.
    pub request: Request,
    /// When it was asked.
    pub from: Nanos,
    /// When it was answered.
    pub to: Nanos,
    /// The answer, in bytes of the protocol.
    pub answer: Vec<u8>,
    /// Whether this is the part of an `MGET` about one of its keys, put as an `MGET` of that key alone.
    pub split: bool,
}

type EntryMap = BTreeMap<Vec<u8>, Entry>;

/// The value of a stored key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    is_head: bool,
    bytes: Vec<u8>,
    expire_at_ms: Option<u64>,
}

impl Entry {
    fn row(&self, now_ms: u64) -> Option<Row> {
        self.expire_at_ms.is_none_or(|at| at > now_ms).then(|| match self.is_head {
            false => Row::string(Value::from(self.bytes.clone()), self.expire_at_ms),
            true => {
                let head = Head::decode(&self.bytes).expect("a handler has made it");
                Row::of_parts(head, self.expire_at_ms)
            }
        })
    }
}

struct Map<'s>(&'s EntryMap);

impl Rows for Map<'_> {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        Read::Ready(Ok(self.0.get(&StoredKey::new(database, key)[..]).and_then(|entry| entry.row(now_ms))))
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        Read::Ready(Ok(self.0.get(part).and_then(|entry| entry.row(now_ms))))
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, _: usize) -> Waiting<'a, weir_io::Result<PartPage>> {
        let parts = self.0.range(range.from..range.to).map(|(key, entry)| (&key[..], &entry.bytes[..]));
        let parts: StoredParts = if range.reverse { parts.rev().collect() } else { parts.collect() };
        Box::pin(std::future::ready(Ok(PartPage { parts, ..PartPage::default() })))
    }

    fn new_version(&self) -> u64 {
        let version = |entry: &Entry| Head::decode(&entry.bytes).filter(|_| entry.is_head).map(|head| head.version);
        self.0.values().filter_map(version).max().unwrap_or(0) + 1
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, weir_io::Result<Page>> {
        unreachable!("commands that go through all keys are not checked")
    }
}

/// What `request` answers on `state`, and the state after it.
fn step(state: &EntryMap, request: &Request) -> (Vec<u8>, EntryMap) {
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(0));
    let mut call = request.call(VALUE_BYTES_MAX);
    let finished = {
        let rows = Map(state);
        let context = Context::locked(&rows, &mut host, &mut call, Draft::default());
        let mut run = pin!(run(command, context, args));
        loop {
            // The handler waits for nothing but its own turns.
            if let Poll::Ready(finished) = run.as_mut().poll(&mut Task::from_waker(Waker::noop())) {
                break finished;
            }
        }
    };
    let mut next = state.clone();
    for change in finished.draft.batch().as_ref().iter() {
        match change {
            Change::Put { key, value: bytes, expire_at_ms } | Change::Head { key, head: bytes, expire_at_ms } => {
                let is_head = matches!(change, Change::Head { .. });
                next.insert(key.to_vec(), Entry { is_head, bytes: bytes.to_vec(), expire_at_ms });
            }
            Change::Delete { key } => drop(next.remove(key)),
            Change::Cover { .. } => unreachable!("commands write no covers"),
        }
    }
    (host.take_answer(&finished.outcome), next)
}

/// Checks that `operations` could have happened one after the other, each between its question and its answer.
///
/// # Errors
/// They could not. The error has the longest beginning that could, and the operations that could not follow.
pub fn check(mut operations: Vec<Operation>) -> Result<(), String> {
    operations.sort_by_key(|operation| (operation.from, operation.client));
    let mut search = Search { operations: &operations, seen: BTreeSet::new(), longest: Vec::new() };
    let mut order = Vec::new();
    if search.go_on(&mut vec![false; operations.len()], &EntryMap::new(), &mut order) {
        return Ok(());
    }
    let mut story = "no order explains the answers; the longest that explains some:\n".to_owned();
    for &index in &search.longest {
        story.push_str(&line(&operations[index]));
    }
    story.push_str("and none of these can be next:\n");
    let left = (0..operations.len()).filter(|index| !search.longest.contains(index));
    left.take(10).for_each(|index| story.push_str(&line(&operations[index])));
    Err(story)
}

fn line(operation: &Operation) -> String {
    let Operation { client, request, from, to, answer, .. } = operation;
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ =
        writeln!(line, "  {from:>12} to {to:>12} client {client}: {:?} -> {}", request.args(), answer.escape_ascii());
    line
}

struct Search<'o> {
    operations: &'o [Operation],
    /// Sets of finished operations, with the states after them.
    seen: BTreeSet<(Vec<bool>, EntryMap)>,
    longest: Vec<usize>,
}

impl Search<'_> {
    fn go_on(&mut self, done: &mut Vec<bool>, state: &EntryMap, order: &mut Vec<usize>) -> bool {
        if order.len() > self.longest.len() {
            self.longest.clone_from(order);
        }
        let left = || (0..self.operations.len()).filter(|&index| !done[index]);
        // An operation that began after another had been answered comes after it.
        let Some(end) = left().map(|index| self.operations[index].to).min() else { return true };
        let next: Vec<usize> = left().take_while(|&index| self.operations[index].from <= end).collect();
        for index in next {
            let (answer, after) = step(state, &self.operations[index].request);
            if answer != self.operations[index].answer {
                continue;
            }
            done[index] = true;
            order.push(index);
            if self.seen.insert((done.clone(), after.clone())) && self.go_on(done, &after, order) {
                return true;
            }
            order.pop();
            done[index] = false;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(client: usize, line: &str, (from, to): (Nanos, Nanos), answer: &str) -> Operation {
        let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
        Operation { client, request, from, to, answer: answer.as_bytes().to_vec(), split: false }
    }

    #[test]
    fn what_overlaps_may_have_come_in_any_order() {
        let history = |answer: &str| {
            vec![
                operation(1, "SET k a", (0, 10), "+OK\r\n"),
                operation(2, "SET k b", (5, 15), "+OK\r\n"),
                operation(3, "GET k", (20, 30), answer),
            ]
        };
        for answer in ["$1\r\na\r\n", "$1\r\nb\r\n"] {
            assert_eq!(check(history(answer)), Ok(()));
        }
        assert!(check(history("$-1\r\n")).is_err());
    }

    #[test]
    fn a_read_that_comes_late_an_increment_that_is_lost_and_half_a_command_are_found() {
        let stale = vec![
            operation(1, "SET k a", (0, 1), "+OK\r\n"),
            operation(1, "SET k b", (2, 3), "+OK\r\n"),
            operation(2, "GET k", (4, 5), "$1\r\na\r\n"),
        ];
        assert!(check(stale).is_err());
        let lost = vec![operation(1, "INCR n", (0, 10), ":1\r\n"), operation(2, "INCR n", (0, 10), ":1\r\n")];
        assert!(check(lost).is_err());
        let half =
            vec![operation(1, "MSET a 1 b 1", (0, 10), "+OK\r\n"), operation(2, "EXISTS a b", (0, 10), ":1\r\n")];
        assert!(check(half).is_err());
    }
}
