//! `SWAPDB`: clients see the same as with a redis-server, an exchange is all or nothing for everybody, and it lasts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_io::real::block_on;
use weir_node::EngineKind;

use crate::differential::Redis;
use crate::support::world::{World, name, secret};
use crate::support::{Client, encode};

fn words(line: &str) -> Vec<u8> {
    encode(&line.split(' ').collect::<Vec<_>>())
}

/// The answers to a line of `databases.txt`.
fn told(clients: &mut [Client], line: &str) -> Vec<String> {
    let (who, asked) = line.split_once(' ').unwrap_or((line, ""));
    let client: usize = who[..1].parse().expect("a number");
    match who.get(1..) {
        Some(">") => {
            let waiting = |other: &mut Client| {
                let info = other.say("INFO clients");
                let count = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("a count");
                count.trim().parse::<usize>().expect("a number")
            };
            clients[client].send(&words(asked));
            // A command that subscribes is answered at once.
            while !asked.contains("SUBSCRIBE") && waiting(&mut clients[0]) == 0 {
                std::thread::yield_now();
            }
            Vec::new()
        }
        Some("<") => vec![String::from_utf8_lossy(&clients[client].reply()).into_owned()],
        _ => {
            let lines: Vec<&str> = asked.split(" ; ").collect();
            // All lines are sent together, as a pipeline.
            clients[client].send(&lines.iter().flat_map(|line| words(line)).collect::<Vec<_>>());
            lines.iter().map(|_| String::from_utf8_lossy(&clients[client].reply()).into_owned()).collect()
        }
    }
}

#[test]
fn exchanges_are_answered_alike() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    for (engine, partitions) in [(EngineKind::Lsm, 1), (EngineKind::Memory, 1), (EngineKind::Lsm, 4)] {
        let tenant = format!("swap-{engine}-{partitions}");
        let mut ours = vec![world.tenant_on(engine, &tenant, partitions, 0)];
        ours.extend([world.connect(&tenant), world.connect(&tenant)]);
        let mut theirs: Vec<Client> = (0..3).map(|_| redis.connect()).collect();
        theirs[0].say("FLUSHALL");
        let script = include_str!("databases.txt");
        let lines = script.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (number, line) in lines {
            let (theirs, ours) = (told(&mut theirs, line), told(&mut ours, line));
            assert_eq!(ours, theirs, "{tenant}, line {}: {line}", number + 1);
        }
    }
}

#[test]
fn what_cannot_be_one_with_an_exchange_is_refused_and_nothing_is_done() {
    let world = World::new();
    let mut client = world.tenant("swap", 1, 0);
    client.say("SET k zero");
    for other in ["SET j 1", "SWAPDB 0 2", "EVAL return(1) 0", "FLUSHDB"] {
        for line in ["MULTI", other, "SWAPDB 0 1"] {
            client.say(line);
        }
        let refused = client.say("EXEC");
        assert!(refused.starts_with("-EXECABORT") && refused.contains("SWAPDB stands alone"), "{other}: {refused}");
        assert_eq!(client.say("GET k"), "$4\r\nzero\r\n", "{other}");
        assert_eq!(client.say("DBSIZE"), ":1\r\n", "{other}");
    }
    let refused = client.say("EVAL return(redis.call('swapdb',0,1)) 0");
    assert!(refused.contains("not allowed from script"), "{refused}");
    assert_eq!(client.say("GET k"), "$4\r\nzero\r\n");
}

#[test]
fn who_keeps_values_believes_none_of_them_after_an_exchange() {
    let world = World::new();
    let (mut keeper, mut other) = (world.tenant("swap", 1, 0), world.connect("swap"));
    keeper.say("HELLO 3");
    keeper.say("CLIENT TRACKING ON");
    keeper.say("GET k");
    assert_eq!(other.say("SWAPDB 0 1"), "+OK\r\n");
    assert_eq!(keeper.reply(), b">2\r\n$10\r\ninvalidate\r\n_\r\n");
}

#[test]
fn an_exchange_lasts() {
    for (engine, partitions) in [(EngineKind::Lsm, 1), (EngineKind::Memory, 1), (EngineKind::Lsm, 3)] {
        let world = World::new();
        let mut client = world.tenant_on(engine, "swap", partitions, 0);
        for line in ["SET k zero", "SELECT 1", "SET k one", "SWAPDB 0 1", "SWAPDB 1 7", "SET k uno"] {
            client.say(line);
        }
        let backup = world.backup("swap");
        block_on(world.node.restore(&backup, name("again"), Some(secret()))).expect("restored");
        let _ = std::fs::remove_dir_all(&backup);
        let world = world.again();
        for tenant in ["swap", "again"] {
            let mut client = world.connect(tenant);
            let found = ["SELECT 0", "GET k", "SELECT 1", "GET k", "SELECT 7", "GET k"].map(|line| client.say(line));
            assert_eq!(
                found[1..].iter().step_by(2).collect::<Vec<_>>(),
                ["$3\r\none\r\n", "$3\r\nuno\r\n", "$4\r\nzero\r\n"]
            );
        }
    }
}

/// While two databases are exchanged again and again, everybody sees one or the other for the length of a transaction,
/// no command for one database lands in the other, and when an exchange is answered, nothing from before it comes in.
#[test]
fn nobody_sees_half_of_an_exchange() {
    const SWAPS: usize = 300;
    for partitions in [1, 3] {
        let world = World::new();
        let mut swapper = world.tenant("swap", partitions, 0);
        for (database, name) in [(0, "A"), (1, "B")] {
            swapper.say(&format!("SELECT {database}"));
            swapper.say(&format!("SET {{t}}which {name}"));
        }
        let (ended, in_a, in_b) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut client = world.connect("swap");
                scope.spawn({
                    let (ended, in_a, in_b) = (&ended, &in_a, &in_b);
                    move || {
                        while !ended.load(Ordering::Relaxed) {
                            let lines = ["MULTI", "GET {t}which", "INCR {t}count", "GET {t}which", "EXEC"];
                            client.send(&lines.iter().flat_map(|line| words(line)).collect::<Vec<_>>());
                            let last = lines.map(|_| client.reply()).into_iter().next_back().expect("five");
                            let text = String::from_utf8_lossy(&last).into_owned();
                            let is_a = text.matches("\r\nA\r\n").count();
                            let is_b = text.matches("\r\nB\r\n").count();
                            assert!(matches!((is_a, is_b), (2, 0) | (0, 2)), "{text}");
                            if is_a == 2 { in_a } else { in_b }.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            // Plain writes, which are gathered, to the database with the name 0.
            let mut client = world.connect("swap");
            scope.spawn({
                let ended = &ended;
                move || {
                    let mut count = 0;
                    while !ended.load(Ordering::Relaxed) {
                        let lines: Vec<String> = (count..count + 20).map(|n| format!("SET {{t}}plain {n}")).collect();
                        client.send(&lines.iter().flat_map(|line| words(line)).collect::<Vec<_>>());
                        lines.iter().for_each(|_| assert_eq!(client.reply(), b"+OK\r\n"));
                        count += 20;
                    }
                }
            });
            // Nobody writes to the database with the name 1.
            swapper.say("SELECT 1");
            for _ in 0..SWAPS {
                assert_eq!(swapper.say("SWAPDB 0 1"), "+OK\r\n");
                let first = swapper.say("GET {t}plain");
                for _ in 0..5 {
                    assert_eq!(swapper.say("GET {t}plain"), first);
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
        for (database, which) in [("SELECT 0", "A"), ("SELECT 1", "B")] {
            swapper.say(database);
            assert_eq!(swapper.say("GET {t}which"), format!("$1\r\n{which}\r\n"), "an even number of exchanges");
            let counted = if which == "A" { &in_a } else { &in_b }.load(Ordering::Relaxed);
            let found = swapper.say("GET {t}count");
            assert_eq!(found.lines().nth(1), Some(&*counted.to_string()), "{which}");
            assert!(counted > 0, "{which}");
        }
    }
}
