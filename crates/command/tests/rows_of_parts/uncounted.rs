//! Commands that run as one leave their changes of the counts of sorted sets uncounted until somebody asks for a rank,
//! or all of them have run. They answer as they do one by one, and ranks are right afterwards.

use weir_command::reply::Protocol;
use weir_command::{Context, Draft, Headless, Request, must_settle_counts, run, settle_counts, table};
use weir_io::{Rng, Yield};
use weir_model::VALUE_BYTES_MAX;

use super::{NOW_MS, Store, done, with_scores};

/// Runs `lines` as one, as a connection does with a group of commands, and applies what they leave; gives the answers.
fn ask_as_one(store: &mut Store, lines: &[String]) -> Vec<String> {
    let (mut draft, mut answers) = (Draft::of_several(), Vec::new());
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut last = Request::new(0, NOW_MS, [&b"ZCARD"[..]]).call(VALUE_BYTES_MAX);
    for line in lines {
        let request = Request::new(0, NOW_MS, line.split(' ').map(str::as_bytes));
        let (args, mut call) = (request.args(), request.call(VALUE_BYTES_MAX));
        let command = table::find(args.at(0)).expect("a command");
        if must_settle_counts(&draft, command, args, 0) {
            draft = counted(store, &mut host, &mut last, draft);
        }
        (call.counts_later, call.counts_as_read) = (command.leaves_counts(), !command.writes());
        let context = Context::locked(&*store, &mut host, &mut call, draft);
        let finished = done(run(command, context, args));
        draft = finished.draft;
        answers.push(String::from_utf8_lossy(&host.take_answer(&finished.outcome)).into_owned());
        last = call;
    }
    draft = counted(store, &mut host, &mut last, draft);
    draft.settle(|_, _| {});
    let (batch, _) = draft.into_parts();
    store.apply(&batch);
    answers
}

fn counted(store: &Store, host: &mut Headless, call: &mut weir_command::Call, draft: Draft) -> Draft {
    let (outcome, draft) = done(settle_counts(store, host, call, draft));
    assert_eq!(outcome, Ok(()));
    draft
}

/// A random command on one of two sorted sets, whose members have numbers up to `members` in their names.
fn draw(rng: &mut Rng, members: u64) -> String {
    let key = if rng.below(4) == 0 { "y" } else { "z" };
    let (one, other, score) = (rng.below(members), rng.below(members), rng.below(members));
    match rng.below(40) {
        0..12 => format!("ZADD {key} {score} m{one}"),
        12..15 => format!("ZADD {key} {score} m{one} {one} m{other} 1.5 m{score}"),
        15 => format!("ZADD {key} GT CH {score} m{one}"),
        16..18 => format!("ZINCRBY {key} 10.5 m{one}"),
        18..21 => format!("ZREM {key} m{one} m{other}"),
        21..24 => format!("ZPOPMIN {key}"),
        24 => format!("ZPOPMAX {key} 3"),
        // The command is refused if one of the members is there already.
        25 => format!("ZADD {key} {score} m{one} 5 {}", "long".repeat(17_000)),
        26..28 => format!("ZSCORE {key} m{one}"),
        28 => format!("ZCARD {key}"),
        29..32 => format!("ZRANK {key} m{one}"),
        32 => format!("ZREVRANK {key} m{one}"),
        33 => format!("ZRANGE {key} {one} {}", one + 3),
        34 => format!("ZCOUNT {key} {one} (5000"),
        35 => format!("ZREMRANGEBYRANK {key} {one} {}", one + 40),
        36 => format!("ZUNIONSTORE {key} 2 z y"),
        37 => ["DEL y", "RENAME y w", "COPY z y REPLACE"][rng.below(3) as usize].to_owned(),
        38 => format!("SET {} x", if rng.below(3) == 0 { "y" } else { "s" }),
        _ => format!("EXPIRE y {}", rng.below(3) as i64 - 1),
    }
}

/// Checks that every member of `z` has the right rank.
fn assert_ranks(store: &mut Store) {
    let all = store.ask("ZRANGE z 0 -1");
    let members: Vec<&str> = all.lines().filter(|line| line.starts_with('m')).collect();
    assert_eq!(store.ask("ZCARD z"), format!(":{}\r\n", members.len()));
    for (rank, member) in members.iter().enumerate() {
        assert_eq!(store.ask(&format!("ZRANK z {member}")), format!(":{rank}\r\n"));
    }
}

#[test]
fn what_runs_as_one_answers_as_one_by_one_and_leaves_the_same_ranks() {
    // Packed, without counts, with one level of counts, with two.
    for (seed, members) in [100, 140, 700, 6_000, 100, 140, 700].into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let (mut together, mut apart) = (with_scores(members), with_scores(members));
        for _ in 0..24 {
            let lines: Vec<String> = (0..1 + rng.below(40)).map(|_| draw(&mut rng, members)).collect();
            let one_by_one: Vec<String> = lines.iter().map(|line| apart.ask(line)).collect();
            let shown: Vec<&str> = lines.iter().map(|line| &line[..line.len().min(60)]).collect();
            assert_eq!(ask_as_one(&mut together, &lines), one_by_one, "{shown:?}");
        }
        assert_eq!(together.ask("ZRANGE z 0 -1 WITHSCORES"), apart.ask("ZRANGE z 0 -1 WITHSCORES"));
        assert_ranks(&mut together);
    }
}

#[test]
fn a_tally_is_read_and_written_once_for_all() {
    let mut store = with_scores(100_000);
    let lines: Vec<String> = (0..16).map(|number| format!("ZADD z 777.{number:02} new{number}")).collect();
    let before = store.newest;
    assert_eq!(ask_as_one(&mut store, &lines), vec![":1\r\n"; 16]);
    // Written are each member by name and by score, the head, and one tally on each of two levels, even if the bucket
    // was divided.
    assert_eq!(store.newest - before, 2 * 16 + 1 + 2);
    assert_eq!(store.ask("ZRANK z m778"), ":794\r\n");
}

#[test]
fn a_key_that_is_too_long_does_not_exist_for_a_read_among_writes() {
    let long = "k".repeat(70_000);
    let lines = ["ZADD z 1 a".into(), format!("ZSCORE {long} a"), format!("ZADD {long} 1 a"), "ZCARD z".into()];
    let answers = ask_as_one(&mut Store::default(), &lines);
    assert_eq!(answers, [":1\r\n", "$-1\r\n", "-ERR key exceeds maximum allowed size (65536 bytes)\r\n", ":1\r\n"]);
}
