//! Commands that run as one and are about the same row leave its head for one another, and write it once. Nobody can
//! tell from answers, rows or bills.

use weir_command::reply::Protocol;
use weir_command::{Call, Context, Draft, Headless, Request, must_settle_counts, run, settle_counts, table};
use weir_io::{Rng, Yield};
use weir_model::{Batch, VALUE_BYTES_MAX};

use super::{NOW_MS, Store, done};

/// Up to this number of changes, none is left out.
const FEW: usize = 8;

/// A command, and whether it is taken back when it has run.
type Line = (String, bool);

/// What commands that ran as one have left.
struct Ran {
    answers: Vec<String>,
    calls: Vec<Call>,
    /// How many changes there were before some were left out.
    made: usize,
    batch: Batch,
}

fn line(text: &str) -> Line {
    (text.to_owned(), false)
}

/// The key of the only row that a command is about.
fn row_of((line, _): &Line) -> Option<&str> {
    let (name, others) = line.split_once(' ')?;
    table::find(name.as_bytes()).filter(|command| command.has_one_key()).and_then(|_| others.split(' ').next())
}

/// Runs `lines` as one, as a connection does with a group of commands; if `holds`, heads are held back.
fn run_as_one(store: &Store, lines: &[Line], holds: bool) -> Ran {
    let (mut draft, mut drafted) = (Draft::of_several(), Vec::new());
    let (mut answers, mut calls): (Vec<String>, Vec<Call>) = (Vec::new(), Vec::new());
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    for (index, line) in lines.iter().enumerate() {
        let request = Request::new(0, NOW_MS, line.0.split(' ').map(str::as_bytes));
        let (args, mut call) = (request.args(), request.call(VALUE_BYTES_MAX));
        let command = table::find(args.at(0)).expect("a command");
        if must_settle_counts(&draft, command, args, 0) {
            draft = counted(store, &mut calls[index - 1], draft);
            drafted.push((draft.mark(), index - 1));
        }
        let is_followed = row_of(line).is_some() && lines.get(index + 1).and_then(row_of) == row_of(line);
        draft.begin_command(index, holds && is_followed);
        (call.counts_later, call.only_reads) = (command.leaves_counts(), !command.writes());
        let begin = draft.mark();
        let finished = done(run(command, Context::locked(store, &mut host, &mut call, draft), args));
        draft = finished.draft;
        if line.1 {
            draft.rewind(begin);
        }
        answers.push(String::from_utf8_lossy(&host.take_answer(&finished.outcome)).into_owned());
        drafted.push((draft.mark(), index));
        calls.push(call);
    }
    if let Some(last) = calls.last_mut() {
        draft = counted(store, last, draft);
        drafted.push((draft.mark(), lines.len() - 1));
    }
    draft.write_held();
    let made = draft.batch().len();
    for &(index, encoded_len) in draft.unwritten_heads() {
        calls[index].bill.left_out_head(encoded_len);
    }
    let late = draft.take_late_heads();
    draft.settle(|place, change| {
        let head = late.iter().find(|&&(at, _)| at == place);
        let by = head.or_else(|| drafted.get(drafted.partition_point(|&(end, _)| end <= place)));
        let &(_, index) = by.expect("a command has made the change");
        calls[index].bill.left_out(&change);
    });
    Ran { answers, calls, made, batch: draft.into_batch() }
}

fn counted(store: &Store, call: &mut Call, mut draft: Draft) -> Draft {
    draft.write_held();
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let (outcome, draft) = done(settle_counts(store, &mut host, call, draft));
    assert_eq!(outcome, Ok(()));
    draft
}

/// A random command, mostly on the row of `key`, and mostly one that fits its type.
fn draw(rng: &mut Rng, key: &str) -> String {
    let (one, other, few) = (rng.below(240), rng.below(240), rng.below(4));
    let kind = if rng.below(12) == 0 { ["h", "s", "l", "z", "x"][rng.below(5) as usize] } else { &key[..1] };
    match rng.below(30) {
        0 => return format!("SET {key} {one}"),
        1 => return format!("INCR {key}"),
        2 => return format!("EXPIRE {key} {}", rng.below(3) as i64 * 100 - 100),
        3 => return format!("PERSIST {key}"),
        4 => return ["TYPE", "TTL", "GETDEL", "STRLEN"][few as usize].to_owned() + " " + key,
        5 => return format!("DEL {key}"),
        6 => return ["RENAME h1 h2", "EXISTS h1 s1", "KEYS *", "COPY l1 l2 REPLACE"][few as usize].to_owned(),
        _ => {}
    }
    match (kind, rng.below(10)) {
        ("h", 0..3) => format!("HSET {key} f{one} {other}"),
        ("h", 3) => format!("HSET {key} f{few} 1 f{one} 2 f{few} {other}"),
        ("h", 4) => format!("HDEL {key} f{one} f{few}"),
        ("h", 5) => format!("HINCRBY {key} f{few} 1"),
        ("h", 6) => format!("HEXPIRE {key} {} FIELDS 2 f{few} f{one}", 100 * few),
        ("h", 7) => format!("HPERSIST {key} FIELDS 1 f{few}"),
        ("h", 8) => format!("HLEN {key}"),
        ("h", _) => format!("HGET {key} f{few}"),
        ("s", 0..4) => format!("SADD {key} m{one}"),
        ("s", 4..8) => format!("SREM {key} m{one} m{few} m{other}"),
        ("s", 8) => format!("SCARD {key}"),
        ("s", _) => format!("SISMEMBER {key} m{few}"),
        ("l", 0..2) => format!("RPUSH {key} {one}"),
        ("l", 2..4) => format!("LPUSH {key} {one} {other}"),
        ("l", 4) => format!("LPOP {key} {}", few + 1),
        ("l", 5) => format!("LSET {key} {few} {one}"),
        ("l", 6) => format!("LTRIM {key} {few} -{}", few + 1),
        ("l", 7) => format!("LINSERT {key} BEFORE {one} {other}"),
        ("l", 8) => format!("LLEN {key}"),
        ("l", _) => format!("LINDEX {key} {few}"),
        ("z", 0..3) => format!("ZADD {key} {one} m{other}"),
        ("z", 3..5) => format!("ZREM {key} m{one} m{few}"),
        ("z", 5) => format!("ZINCRBY {key} 3 m{few}"),
        ("z", 6) => format!("ZPOPMIN {key}"),
        ("z", 7) => format!("ZRANK {key} m{one}"),
        ("z", 8) => format!("ZCARD {key}"),
        ("z", _) => format!("ZREMRANGEBYRANK {key} {few} {}", few + 1),
        ("x", 0..5) => format!("XADD {key} {one}-1 f v"),
        ("x", 5) => format!("XADD {key} MAXLEN 3 {one}-2 f v"),
        ("x", 6) => format!("XDEL {key} {one}-1 {one}-2"),
        ("x", 7) => format!("XTRIM {key} MAXLEN {few}"),
        _ => format!("XLEN {key}"),
    }
}

/// Small rows, or also rows whose parts have keys of their own.
fn filled(is_large: bool) -> Store {
    let mut store = Store::default();
    if is_large {
        let members = |member: &dyn Fn(u64) -> String| (0..200).map(member).collect::<Vec<_>>().join(" ");
        for line in [
            format!("HSET h1 {}", members(&|number| format!("f{number} {number}"))),
            format!("SADD s1 {}", members(&|number| format!("m{number}"))),
            format!("RPUSH l1 {}", members(&|number| number.to_string())),
            format!("ZADD z1 {}", members(&|number| format!("{number} m{number}"))),
        ] {
            assert_eq!(store.ask(&line), ":200\r\n");
        }
    }
    store
}

/// The changes of `batch`, as text, in some order.
fn changes(batch: &Batch) -> Vec<String> {
    let mut changes: Vec<String> = batch.as_ref().iter().map(|change| format!("{change:?}")).collect();
    changes.sort();
    changes
}

#[test]
fn heads_that_are_held_back_leave_the_same_answers_rows_and_bills() {
    const KEYS: [&str; 10] = ["h1", "s1", "l1", "z1", "x1", "h2", "s2", "l2", "z2", "x2"];
    for seed in 0..24 {
        let (mut rng, is_large) = (Rng::new(seed), seed % 2 == 0);
        let (mut held, mut pushed, mut apart) = (filled(is_large), filled(is_large), filled(is_large));
        for _ in 0..12 {
            let count = 1 + rng.below([4, 12, 40][seed as usize % 3]);
            let mut key = KEYS[rng.below(10) as usize];
            let mut drawn = || {
                if rng.below(7) == 0 {
                    key = KEYS[rng.below(10) as usize];
                }
                (draw(&mut rng, key), rng.below(10) == 0)
            };
            let lines: Vec<Line> = (0..count).map(|_| drawn()).collect();
            let (holding, pushing) = (run_as_one(&held, &lines, true), run_as_one(&pushed, &lines, false));
            assert_eq!(holding.answers, pushing.answers, "{lines:#?}");
            for ((one, other), line) in holding.calls.iter().zip(&pushing.calls).zip(&lines) {
                assert_eq!((&*one.bill, one.wrote), (&*other.bill, other.wrote), "{line:?} of {lines:#?}");
            }
            if pushing.made > FEW {
                assert_eq!(changes(&holding.batch), changes(&pushing.batch), "{lines:#?}");
            }
            assert!(holding.batch.len() <= pushing.batch.len());
            held.apply(&holding.batch);
            pushed.apply(&pushing.batch);
            // Versions are given out by the number of changes.
            held.newest = pushed.newest;
            assert_eq!(held.map, pushed.map, "{lines:#?}");
            for ((line, is_taken_back), answer) in lines.iter().zip(&holding.answers) {
                let before = is_taken_back.then(|| apart.map.clone());
                assert_eq!(&apart.ask(line), answer, "{line} of {lines:#?}");
                if let Some(map) = before {
                    apart.map = map;
                }
            }
        }
    }
}

#[test]
fn a_row_that_is_written_again_and_again_has_its_head_written_once() {
    for (is_large, count) in [(false, 1), (true, 6 + 1)] {
        let mut store = filled(is_large);
        let lines: Vec<Line> = (0..6).map(|number| line(&format!("SADD s1 new{number}"))).collect();
        let ran = run_as_one(&store, &lines, true);
        assert_eq!(ran.answers, vec![":1\r\n"; 6]);
        assert_eq!(ran.batch.len(), count);
        store.apply(&ran.batch);
        assert_eq!(store.ask("SMISMEMBER s1 new0 new5 new6"), "*3\r\n:1\r\n:1\r\n:0\r\n");
    }
}

#[test]
fn a_command_that_is_taken_back_leaves_the_head_of_the_one_before() {
    for is_large in [false, true] {
        let mut store = filled(is_large);
        let before = if is_large { 200 } else { 0 };
        let mut lines: Vec<Line> = ["HSET h1 a 1", "HSET h1 b 2", "HLEN h1", "HGET h1 b"].map(line).to_vec();
        lines[1].1 = true;
        let ran = run_as_one(&store, &lines, true);
        assert_eq!(ran.answers[2..], [format!(":{}\r\n", before + 1), "$-1\r\n".to_owned()]);
        store.apply(&ran.batch);
        assert_eq!(store.ask("HMGET h1 a b"), "*2\r\n$1\r\n1\r\n$-1\r\n");
        // The row goes, and comes back with its head.
        let mut lines: Vec<Line> = ["SADD t m", "SREM t m", "SADD t n", "SCARD t"].map(line).to_vec();
        lines[1].1 = true;
        let ran = run_as_one(&store, &lines, true);
        assert_eq!(ran.answers, [":1\r\n", ":1\r\n", ":1\r\n", ":2\r\n"]);
    }
}
