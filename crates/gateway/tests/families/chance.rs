//! Random answers cannot be compared. So these tests check that members are members, that they differ where they have
//! to, and that all of them come.

use std::collections::BTreeSet;

use weir_node::EngineKind;

use crate::support::Client;
use crate::support::world::World;

/// The elements of an answer.
fn elements(client: &mut Client, line: &str) -> Vec<String> {
    let answer = client.say(line);
    assert!(answer.starts_with(['*', '$', '~']), "{line}: {answer}");
    let is_element = |line: &&str| !line.starts_with(['*', '$', '~']);
    answer.lines().filter(is_element).map(str::to_owned).collect()
}

/// `count` members, which decides whether the set is packed or spread.
fn members(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("member-{number}")).collect()
}

fn on_both_engines(test: impl Fn(&mut Client, &BTreeSet<String>)) {
    let world = World::new();
    for engine in EngineKind::ALL {
        drop(world.tenant_on(engine, &format!("chance-{engine}"), 1, 0));
        let mut client = world.connect(&format!("chance-{engine}"));
        for count in [1, 7, 60, 700] {
            let all = members(count);
            let words: Vec<&str> = ["SADD", "s"].into_iter().chain(all.iter().map(String::as_str)).collect();
            client.say("DEL s");
            client.ask(&words);
            test(&mut client, &all);
        }
    }
}

#[test]
fn srandmember_gives_members_and_meets_all() {
    on_both_engines(|client, all| {
        for count in [1, 2, all.len() / 8, all.len() / 2, all.len() - 1, all.len(), all.len() + 9] {
            let found = elements(client, &format!("SRANDMEMBER s {count}"));
            assert_eq!(found.len(), count.min(all.len()), "{count} of {}", all.len());
            let different: BTreeSet<String> = found.iter().cloned().collect();
            assert_eq!(different.len(), found.len(), "each once");
            assert!(different.is_subset(all));
        }
        let many = elements(client, &format!("SRANDMEMBER s -{}", all.len() * 40));
        assert_eq!(many.len(), all.len() * 40);
        let met: BTreeSet<String> = many.into_iter().collect();
        assert!(met.is_subset(all) && met.len() * 10 >= all.len() * 9, "{} of {}", met.len(), all.len());
        let mut met = BTreeSet::new();
        for _ in 0..100 * all.len().min(60) {
            met.extend(elements(client, "SRANDMEMBER s"));
        }
        assert!(met.is_subset(all) && (all.len() > 60 || met.len() == all.len()), "{} of {}", met.len(), all.len());
        assert_eq!(client.say("SCARD s"), format!(":{}\r\n", all.len()), "nothing is taken out");
    });
}

#[test]
fn spop_takes_every_member_out_once() {
    on_both_engines(|client, all| {
        let (mut left, mut turn) = (all.clone(), 0);
        while !left.is_empty() {
            turn += 1;
            let count = [1, 2, left.len() / 9 + 1, left.len() / 3 + 1][turn % 4];
            let line = if count == 1 { "SPOP s".to_owned() } else { format!("SPOP s {count}") };
            let found = elements(client, &line);
            assert_eq!(found.len(), count.min(left.len()));
            assert!(found.iter().all(|member| left.remove(member)), "{found:?}");
            assert_eq!(client.say("SCARD s"), format!(":{}\r\n", left.len()));
            let shown: BTreeSet<String> = elements(client, "SMEMBERS s").into_iter().collect();
            assert_eq!(shown, left);
        }
        assert_eq!(client.say("EXISTS s"), ":0\r\n");
        let words: Vec<&str> = ["SADD", "s"].into_iter().chain(all.iter().map(String::as_str)).collect();
        client.ask(&words);
        let taken: BTreeSet<String> = elements(client, "SPOP s 100000").into_iter().collect();
        assert_eq!((&taken, client.say("EXISTS s")), (all, ":0\r\n".to_owned()));
    });
}

#[test]
fn sets_of_numbers_are_told_in_their_order() {
    let world = World::new();
    for engine in EngineKind::ALL {
        drop(world.tenant_on(engine, &format!("order-{engine}"), 1, 0));
        let mut client = world.connect(&format!("order-{engine}"));
        for count in [5, 100, 512] {
            // Steps of 7 go through all of them in another order, because 7 divides no count.
            let numbers: Vec<String> = (0..count).map(|number| (number * 7 % count - count / 2).to_string()).collect();
            client.say("DEL s t");
            for key in ["s", "t"] {
                client.ask(&["SADD", key].into_iter().chain(numbers.iter().map(String::as_str)).collect::<Vec<_>>());
            }
            let mut expected = numbers;
            expected.sort_by_key(|number| number.parse::<i64>().expect("a number"));
            for line in ["SMEMBERS s", "SUNION s t", "SINTER s t", "SDIFF s none"] {
                assert_eq!(elements(&mut client, line), expected, "{line}");
            }
            if count <= 100 {
                // In the order in which a small set keeps them.
                assert_eq!(elements(&mut client, "SRANDMEMBER s 1000"), expected);
                assert_eq!(elements(&mut client, "SSCAN s 0")[1..], expected);
            }
            assert_eq!(client.say("OBJECT ENCODING s"), "$6\r\nintset\r\n");
        }
        assert_eq!(client.say("SADD s 512"), ":1\r\n");
        assert_eq!(client.say("OBJECT ENCODING s"), "$9\r\nhashtable\r\n");
    }
}

/// So that members are asked for in several pages, and results take more than a turn.
#[test]
fn large_sets_are_put_together() {
    let world = World::new();
    for engine in EngineKind::ALL {
        drop(world.tenant_on(engine, &format!("large-{engine}"), 1, 0));
        let mut client = world.connect(&format!("large-{engine}"));
        let numbered = |numbers: std::ops::Range<usize>| -> BTreeSet<String> {
            numbers.map(|number| format!("m{number}")).collect()
        };
        let (a, b, c) = (numbered(0..6000), numbered(2000..9000), numbered(5900..6100));
        for (key, all) in [("a", &a), ("b", &b), ("c", &c)] {
            client.ask(&["SADD", key].into_iter().chain(all.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        for (operation, expected) in
            [("SINTER", numbered(5900..6000)), ("SUNION", numbered(0..9000)), ("SDIFF", numbered(0..2000))]
        {
            let told: Vec<String> = elements(&mut client, &format!("{operation} a b c"));
            assert_eq!(told.len(), expected.len(), "{operation}: each once");
            assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), expected, "{operation}");
            let count = client.say(&format!("{operation}STORE d a b c"));
            assert_eq!(count, format!(":{}\r\n", expected.len()));
            let stored: BTreeSet<String> = elements(&mut client, "SMEMBERS d").into_iter().collect();
            assert_eq!(stored, expected, "{operation}STORE");
        }
        assert_eq!(client.say("SINTERCARD 2 a b"), ":4000\r\n");
        assert_eq!(client.say("SINTERCARD 2 a b LIMIT 1234"), ":1234\r\n");
        // The result may take the place of one of its sources.
        assert_eq!(client.say("SUNIONSTORE a a b c"), ":9000\r\n");
        assert_eq!(client.say("SDIFFSTORE b a b"), ":2000\r\n");
    }
}
