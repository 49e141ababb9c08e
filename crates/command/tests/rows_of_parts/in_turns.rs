//! Commands that name very many keys let others be served (S14).

use weir_command::reply::Protocol;
use weir_command::{Context, Draft, Headless, Request, run, table};
use weir_io::{Rng, Yield};
use weir_model::VALUE_BYTES_MAX;

use crate::{NOW_MS, Store, turns};

/// Most keys that are looked at in a turn.
const TURN_KEYS: usize = 1000;

/// In how many turns the command in `words` runs.
fn turns_of(store: &Store, words: &[String]) -> usize {
    let request = Request::new(0, NOW_MS, words.iter().map(String::as_bytes));
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = request.call(VALUE_BYTES_MAX);
    let context = match command.writes_with(args) {
        true => Context::locked(store, &mut host, &mut call, Draft::default()),
        false => Context::reading(store, &mut host, &mut call),
    };
    let (turns, finished) = turns(run(command, context, args));
    assert_eq!(finished.outcome, Ok(()), "{}", words[0]);
    turns
}

fn words(front: &str, keys: impl Iterator<Item = String>, back: &str) -> Vec<String> {
    let split = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    split(front).into_iter().chain(keys).chain(split(back)).collect()
}

#[test]
fn s14_commands_go_on_to_the_next_key_in_turns() {
    const KEYS: usize = 5 * TURN_KEYS;
    let keys = || (0..KEYS).map(|key| format!("none-{key}"));
    let store = Store::default();
    for command in [
        words("ZMPOP 5000", keys(), "MIN"),
        words("BZMPOP 0 5000", keys(), "MIN"),
        words("BZPOPMIN", keys(), "0"),
        words("BLPOP", keys(), "0"),
        words("BLMPOP 0 5000", keys(), "LEFT"),
        words("LMPOP 5000", keys(), "LEFT"),
        words("XREAD STREAMS", keys().chain(keys().map(|_| "0".into())), ""),
    ] {
        let turns = turns_of(&store, &command);
        assert!(turns >= KEYS / TURN_KEYS, "{}: {turns} turns", command[0]);
    }
}

#[test]
fn s14_commands_go_on_to_the_next_stream_of_a_group_in_turns() {
    const KEYS: usize = 2 * TURN_KEYS;
    let mut store = Store::default();
    let keys = || (0..KEYS).map(|key| format!("stream-{key}"));
    keys().for_each(|key| assert_eq!(store.ask(&format!("XGROUP CREATE {key} g 0 MKSTREAM")), "+OK\r\n"));
    let command = words("XREADGROUP GROUP g c STREAMS", keys().chain(keys().map(|_| ">".into())), "");
    let turns = turns_of(&store, &command);
    // Each stream is looked at twice: whether the group is there, and whether it has something.
    assert!(turns >= 2 * KEYS / TURN_KEYS, "{turns}");
}

#[test]
fn s14_commands_go_on_to_the_next_key_of_an_element_in_turns() {
    const GETS: usize = 500;
    const KEYS: usize = 5 * TURN_KEYS;
    let mut store = Store::default();
    let elements = (0..KEYS / GETS).map(|element| element.to_string()).collect::<Vec<_>>();
    assert_eq!(store.ask(&format!("RPUSH list {}", elements.join(" "))), ":10\r\n");
    let gets = std::iter::repeat_n(["GET".to_owned(), "none_*".to_owned()], GETS).flatten();
    let turns = turns_of(&store, &words("SORT list BY nosort", gets, ""));
    // What belongs to the elements is looked up, and then answered.
    assert!(turns >= 2 * KEYS / TURN_KEYS, "{turns}");
}

/// Some thousand of them may stand in as many parts as a page of long values has.
#[test]
fn s14_commands_go_on_to_the_next_short_value_of_a_list_in_turns() {
    const VALUES: usize = 20 * TURN_KEYS;
    let mut store = Store::default();
    assert_eq!(store.ask(&format!("RPUSH list{}", " v".repeat(VALUES))), format!(":{VALUES}\r\n"));
    for line in ["LPOS list none", "LPOS list none RANK -1", "LREM list 0 none", "LINSERT list BEFORE none x"] {
        let turns = turns_of(&store, &words(line, std::iter::empty(), ""));
        // All values of a chunk are looked at in one turn.
        assert!(turns >= VALUES / (TURN_KEYS + 64), "{line}: {turns} turns");
    }
}

#[test]
fn commands_that_hold_all_of_their_rows_take_a_bounded_number_of_them() {
    const KEYS_MAX: usize = 10_000;
    let mut store = Store::default();
    for count in [KEYS_MAX, KEYS_MAX + 1] {
        let (keys, ids) = (" none".repeat(count), " 0".repeat(count));
        for line in [
            format!("ZUNION {count}{keys}"),
            format!("ZINTER {count}{keys}"),
            format!("ZDIFF {count}{keys}"),
            format!("ZINTERCARD {count}{keys}"),
            format!("ZUNIONSTORE target {count}{keys}"),
            format!("SUNION{keys}"),
            format!("XREAD STREAMS{keys}{ids}"),
        ] {
            let answer = store.ask(&line);
            assert_eq!(answer.starts_with("-ERR"), count > KEYS_MAX, "{}: {answer}", &line[..20]);
        }
    }
}
