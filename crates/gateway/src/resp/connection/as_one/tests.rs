//! What commands that run as one book on their tenant.

use weir_command::reply::Protocol;
use weir_command::table::find;
use weir_command::{Headless, NoRows, Request};
use weir_io::Rng;
use weir_io::real::block_on;
use weir_io::sim::SimClock;

use super::*;

fn host() -> Headless {
    Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1))
}

fn as_one<'a>(
    members: &'a [Member<'a>],
    budget: &'a ByteBudget,
    host: &'a mut Headless,
    clock: &'a Arc<dyn Clock>,
) -> AsOne<'a> {
    AsOne::new(members, Call::new(0, 0, 1 << 20), host, clock, budget)
}

fn three(request: &Request) -> [Member<'_>; 3] {
    [Member { command: find(b"SET").expect("a command"), args: request.args(), database: 0, denied: None }; 3]
}

fn member(request: &Request) -> Member<'_> {
    Member { command: find(request.args().at(0)).expect("a command"), ..three(request)[0] }
}

/// How many changes they write, and why they were refused.
fn run(commands: &mut AsOne<'_>) -> (usize, Option<Error>) {
    let draft = block_on(commands.run(&NoRows)).expect("nothing is read");
    (draft.batch().len(), commands.refused.take())
}

#[test]
fn s12_what_the_transactions_of_a_tenant_hold_is_bounded() {
    let (budget, clock) = (ByteBudget::new(768 << 10), SimClock::new() as Arc<dyn Clock>);
    let value = vec![b'v'; 200 << 10];
    let long = Request::new(0, 0, [&b"SET"[..], b"k", &value[..]]);
    let short = Request::new(0, 0, [&b"SET"[..], b"k", b"v"]);
    let (long, short) = (three(&long), three(&short));
    let mut hosts = [host(), host(), host()];
    let [first, second, third] = &mut hosts;
    let (mut one, mut other) = (as_one(&long, &budget, first, &clock), as_one(&long, &budget, second, &clock));
    // It has booked the two in front of its last one: 448 KiB.
    assert_eq!(run(&mut one), (3, None));
    assert_eq!(run(&mut other), (0, Some(NO_ROOM)));
    other.answer_bytes_max = Some(1 << 20);
    assert_eq!(run(&mut other), (2, None), "commands of a pipeline go on later");
    // Short ones need no room.
    let mut rest = budget.hold();
    assert!(rest.try_grow_to(64 << 10) && !budget.hold().try_grow_to(1));
    assert_eq!(run(&mut as_one(&short, &budget, third, &clock)), (3, None));
    // All is given back when it is applied, when it begins again, and when the client is gone.
    one.ended();
    drop(rest);
    other.answer_bytes_max = None;
    assert_eq!(run(&mut other), (3, None));
    other.let_go();
    assert_eq!(run(&mut one), (3, None));
    // What scripts keep has yet to be sent.
    one.kept_by_scripts = 128 << 10;
    one.ended();
    assert!(!budget.hold().try_grow_to(641 << 10));
    assert!(budget.hold().try_grow_to(640 << 10));
    drop(one);
    assert!(budget.hold().try_grow_to(768 << 10));
}

#[test]
fn s12_what_has_to_be_known_of_many_changes_is_booked() {
    let (budget, clock) = (ByteBudget::new(64 << 10), SimClock::new() as Arc<dyn Clock>);
    let keys: Vec<String> = (0..2000).map(|key| key.to_string()).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
    let request = Request::new(0, 0, [&b"MSET"[..]].into_iter().chain(pairs));
    let command = find(b"MSET").expect("a command");
    let members = [Member { command, args: request.args(), database: 0, denied: None }; 2];
    let mut host = host();
    // By themselves, the changes of the first one have fewer bytes than are free.
    assert_eq!(run(&mut as_one(&members, &budget, &mut host, &clock)), (0, Some(NO_ROOM)));
}

#[test]
fn s12_answers_that_wait_for_a_commit_are_booked() {
    let (budget, clock) = (ByteBudget::new(768 << 10), SimClock::new() as Arc<dyn Clock>);
    let value = vec![b'v'; 200 << 10];
    let (set, get) = (Request::new(0, 0, [&b"SET"[..], b"k", &value[..]]), Request::new(0, 0, [&b"GET"[..], b"k"]));
    let members = [member(&set), member(&get), member(&get), member(&get)];
    let mut hosts = [host(), host()];
    let [first, second] = &mut hosts;
    let (mut one, mut other) = (as_one(&members, &budget, first, &clock), as_one(&members, &budget, second, &clock));
    assert_eq!(run(&mut one), (1, None));
    one.ended();
    // 600 KiB of answers, of which 256 KiB are free.
    assert!(!budget.hold().try_grow_to(425 << 10));
    assert!(budget.hold().try_grow_to(423 << 10));
    assert_eq!(run(&mut other), (0, Some(NO_ROOM)));
    drop(one);
    assert_eq!(run(&mut other), (1, None));
}
