//! Rows from which something is taken again and again: what is taken is dead until a merge drops it, and a command must
//! not step over all of it each time.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::{Store, with_scores};

const MEMBERS: u64 = 3_000;

/// Asks `line`, and checks that it meets no more than this number of dead parts. Gives the words of the answer.
#[track_caller]
fn ask(store: &mut Store, line: &str, dead_max: u64) -> Vec<String> {
    let before = store.dead_met.load(Ordering::Relaxed);
    let answer = store.ask(line);
    let met = store.dead_met.load(Ordering::Relaxed) - before;
    assert!(met <= dead_max, "{line} meets {met} dead parts of {}", store.dead.len());
    answer.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

#[test]
fn a_queue_is_popped_at_either_end_without_a_walk_over_what_is_gone() {
    for (pop, first) in [("ZPOPMIN z", 0), ("ZPOPMAX z", MEMBERS - 1)] {
        let mut store = with_scores(MEMBERS);
        for popped in 0..MEMBERS {
            let number = first.abs_diff(popped);
            // If a level of counts goes away, all of its buckets are met once more.
            assert_eq!(ask(&mut store, pop, 64), [format!("m{number}"), number.to_string()]);
        }
        assert_eq!(ask(&mut store, "EXISTS z", 0), [":0"]);
        let met = store.dead_met.load(Ordering::Relaxed);
        assert!(met < 3 * MEMBERS, "{pop} meets {met} dead parts in all");
    }
}

#[test]
fn jobs_that_are_due_are_found_and_removed_one_by_one() {
    let mut store = with_scores(MEMBERS);
    for number in 0..MEMBERS - 300 {
        let due = ask(&mut store, "ZRANGEBYSCORE z -inf 100000 LIMIT 0 1", if number == 0 { 0 } else { 16 });
        assert_eq!(due, [format!("m{number}")]);
        assert_eq!(ask(&mut store, &format!("ZREM z m{number}"), 16), [":1"]);
        if number % 100 == 50 {
            // A member that is due before all others, and one whose time is changed. Removed members are between these
            // and the others; the command steps over them.
            ask(&mut store, &format!("ZADD z -1 urgent {} moved", MEMBERS + number), 64);
            assert_eq!(ask(&mut store, "ZRANGE z 0 0", 2 * MEMBERS), ["urgent"]);
            ask(&mut store, &format!("ZADD z {} urgent", 2 * MEMBERS + number), 2 * MEMBERS);
            assert_eq!(ask(&mut store, &format!("ZRANK z m{}", number + 1), 16), [":0"]);
            assert_eq!(ask(&mut store, &format!("ZRANK z m{}", number + 200), 16), [":199"]);
        }
    }
}

#[test]
fn members_are_popped_once_a_round_and_those_put_back_wait() {
    let mut store = Store::default();
    let all: BTreeSet<String> = (0..MEMBERS).map(|number| format!("m{number}")).collect();
    store.ask(&format!("SADD s {}", all.iter().cloned().collect::<Vec<_>>().join(" ")));
    for _round in 0..3 {
        let mut popped = BTreeSet::new();
        for _ in 0..MEMBERS {
            let [member] = &ask(&mut store, "SPOP s", 4)[..] else { panic!("one is popped") };
            assert!(popped.insert(member.clone()), "{member} comes twice in a round");
            assert_eq!(ask(&mut store, &format!("SADD s {member}"), 0), [":1"]);
        }
        assert_eq!(popped, all);
    }
    // Several members at once go round, too.
    let mut popped = BTreeSet::new();
    while popped.len() < all.len() {
        // Only the last ones are left, and to find them, all is gone through.
        let is_end = popped.len() + 7 >= all.len();
        let some = ask(&mut store, "SPOP s 7", if is_end { MEMBERS } else { 16 });
        assert!(!some.is_empty() && some.into_iter().all(|member| popped.insert(member)), "each comes once");
        // One of the remaining members is found, however few there are.
        if popped.len() < all.len() {
            let [left] = &ask(&mut store, "SRANDMEMBER s", 3 * MEMBERS)[..] else { panic!("one is found") };
            assert!(!popped.contains(left));
        }
    }
    assert_eq!((ask(&mut store, "EXISTS s", 0), popped), (vec![":0".to_owned()], all));
}

/// The note for the next pop does not make a row large: neither a row of numbers, nor a row of few members with many
/// bytes.
#[test]
fn a_row_that_was_taken_from_is_encoded_as_before() {
    let mut store = Store::default();
    store.ask(&format!("SADD s {}", (0..400).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")));
    let names: Vec<String> = (0..100).map(|number| format!("{number} a_name_that_is_long_{number}")).collect();
    store.ask(&format!("ZADD z {}", names.join(" ")));
    for (pop, encoding, expected) in
        [("SPOP s", "OBJECT ENCODING s", "intset"), ("ZPOPMIN z", "OBJECT ENCODING z", "listpack")]
    {
        for _ in 0..2 {
            assert!(store.ask(encoding).contains(expected), "{encoding}");
            store.ask(pop);
        }
    }
}

#[test]
fn members_stay_if_the_answer_that_would_take_them_is_too_long() {
    let mut store = Store::default();
    for some in 0..50 {
        let members: String = (0..20).map(|member| format!(" 1 {:040000}", 20 * some + member)).collect();
        assert_eq!(store.ask(&format!("ZADD z{members}")), ":20\r\n");
    }
    for line in ["ZPOPMIN z 1000", "ZPOPMAX z 875", "ZMPOP 1 z MIN COUNT 975"] {
        let answer = store.ask(line);
        assert!(answer.starts_with("-ERR the reply is longer than 32 MB"), "{line}: {} bytes", answer.len());
        assert_eq!(store.ask("ZCARD z"), ":1000\r\n", "{line}");
    }
    assert!(store.ask("ZPOPMIN z 750").starts_with("*1500\r\n"));
    assert_eq!(store.ask("ZCARD z"), ":250\r\n");
}
