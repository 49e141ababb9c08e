//! The events that commands on rows are told as.

use weir_command::events::Classes;

use super::*;

/// Runs the command of `words`; gives the names of the events that it is told as.
fn told(store: &mut Store, words: &[&[u8]]) -> Vec<&'static str> {
    let request = Request::new(0, NOW_MS, words.iter().copied());
    let args = request.args();
    let command = table::find(args.at(0)).expect("a command");
    let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
    let mut call = request.call(VALUE_BYTES_MAX);
    call.wants = Classes::parse(b"A").expect("letters");
    let context = Context::locked(&*store, &mut host, &mut call, Draft::default());
    let finished = done(run(command, context, args));
    assert_eq!(finished.outcome, Ok(()));
    let (batch, events) = finished.draft.into_parts();
    store.apply(&batch);
    events.into_iter().map(|event| event.name).collect()
}

/// Runs `line`, one command; gives the same.
fn told_of(store: &mut Store, line: &str) -> Vec<&'static str> {
    told(store, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn a_time_that_stays_the_same_is_told_and_written() {
    let mut store = Store::default();
    store.ask("SET s v");
    for line in ["PEXPIREAT s 2000000", "PEXPIREAT s 2000000", "GETEX s PXAT 2000000", "GETEX s EX 1000"] {
        let newest = store.newest;
        assert_eq!(told_of(&mut store, line), ["expire"], "{line}");
        assert_eq!(store.newest, newest + 1, "{line}");
    }
    assert_eq!(told_of(&mut store, "GETEX s PERSIST"), ["persist"]);
    assert!(told_of(&mut store, "GETEX s PERSIST").is_empty() && told_of(&mut store, "GETEX s").is_empty());
}
