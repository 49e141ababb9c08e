//! Consecutive writes of a pipeline are one record of the log, and nobody can tell from the answers.

use std::sync::atomic::Ordering;

use weir_io::Rng;
use weir_node::{Unit, UnitLimits};

use crate::support::{Client, Running, encode};
use weir_gateway::Settings;

/// Sends `lines` together, and returns the replies.
fn all(client: &mut Client, lines: &[String]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>()));
    client.send(&words.collect::<Vec<u8>>());
    lines.iter().map(|_| String::from_utf8_lossy(&client.reply()).into_owned()).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.split(" ; ").map(str::to_owned).collect()
}

#[test]
fn they_are_one_record_and_one_that_fails_has_no_part_in_it() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    client.say("SET text x");
    weir.store.batches.lock().expect("no panic").clear();
    let asked = lines("INCR n ; INCR n ; INCR text ; HSET h f 1 ; APPEND s abc ; SET p 1 ; HINCRBY h f 4 ; GETDEL s");
    let not_a_number = "-ERR value is not an integer or out of range\r\n";
    let replies = [":1\r\n", ":2\r\n", not_a_number, ":1\r\n", ":3\r\n", "+OK\r\n", ":5\r\n", "$3\r\nabc\r\n"];
    assert_eq!(all(&mut client, &asked), replies);
    assert_eq!(weir.store.batches.lock().expect("no panic")[..], [7], "one record of what has not failed");
    // A short read of a written row goes along, and sees the write.
    assert_eq!(
        all(&mut client, &lines("INCR n ; INCR n ; GET n ; HSET h f 7 ; HGET h f ; INCR n")),
        [":3\r\n", ":4\r\n", "$1\r\n4\r\n", ":0\r\n", "$1\r\n7\r\n", ":5\r\n"]
    );
    // Any other read ends the group.
    for read in ["GET other", "GETRANGE n 0 0", "MGET n"] {
        let asked = lines(&format!("INCR n ; INCR n ; {read} ; INCR n ; INCR n"));
        assert_eq!(all(&mut client, &asked).len(), 5);
    }
    assert_eq!(weir.store.batches.lock().expect("no panic")[1..], [4, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn a_record_that_is_lost_is_told_to_all() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    weir.store.fail_commits.store(true, Ordering::Relaxed);
    let replies = all(&mut client, &lines("INCR n ; APPEND s abc ; GETSET p 1 ; PING"));
    assert!(replies[..3].iter().all(|reply| reply.starts_with("-MISCONF")), "{replies:?}");
    assert_eq!(replies[3], "+PONG\r\n");
}

/// Random writes, in pipelines and one by one, get the same answers.
#[test]
fn the_answers_are_those_of_one_at_a_time() {
    let (together, apart) = (Running::start(Settings::default()), Running::start(Settings::default()));
    let (mut together, mut apart) = (together.connect(), apart.connect());
    let mut rng = Rng::new(1);
    for _ in 0..300 {
        let count = 1 + rng.below(100);
        let asked: Vec<String> = (0..count)
            .map(|_| {
                let key = ["a", "b", "c"][rng.below(3) as usize];
                match rng.below(12) {
                    0 => format!("SET {key} {}", rng.below(10)),
                    1 | 2 => format!("INCR {key}"),
                    3 => format!("APPEND {key} x"),
                    4 => format!("HSET {key} f{} v", rng.below(4)),
                    5 => format!("HINCRBY {key} f{} 3", rng.below(4)),
                    6 => format!("GETDEL {key}"),
                    7 => format!("EXPIRE {key} 1000"),
                    8 => format!("RENAME {key} b"),
                    9 => format!("GET {key}"),
                    10 => format!("DEL {key}"),
                    _ => format!("NOSUCH {key}"),
                }
            })
            .collect();
        let expected: Vec<String> = asked.iter().flat_map(|line| all(&mut apart, std::slice::from_ref(line))).collect();
        assert_eq!(all(&mut together, &asked), expected, "{asked:?}");
    }
}

/// So do those on lists whose short values share parts: such a part is left to the command behind.
#[test]
fn the_answers_about_lists_are_those_of_one_at_a_time() {
    let (together, apart) = (Running::start(Settings::default()), Running::start(Settings::default()));
    let (mut together, mut apart) = (together.connect(), apart.connect());
    let mut rng = Rng::new(1);
    for _ in 0..60 {
        let mut asked = vec![format!("RPUSH a{}", " v".repeat(200))];
        asked.extend((0..1 + rng.below(60)).map(|number| {
            let key = ["a", "a", "a", "b"][rng.below(4) as usize];
            match rng.below(40) {
                0..8 => format!("RPUSH {key} r{number}"),
                8..16 => format!("LPUSH {key} l{number} {}", "x".repeat(1 + rng.below(70) as usize)),
                16..22 => format!("LPOP {key}"),
                22..28 => format!("RPOP {key}"),
                28..30 => format!("LSET {key} {} s{number}", ["0", "-1", "-9"][rng.below(3) as usize]),
                30..32 => format!("RPOP {key} 3"),
                32..34 => format!("LLEN {key}"),
                34 => "APPEND b x".to_owned(),
                35 => format!("RPOPLPUSH {key} a"),
                36 => format!("RENAME {key} b"),
                37 => format!("EXPIRE {key} 1000"),
                38 => format!("LTRIM {key} 5 -5"),
                _ => format!("DEL {key}"),
            }
        }));
        asked.extend(lines("LRANGE a 0 -1 ; LRANGE b 0 -1"));
        let expected: Vec<String> = asked.iter().flat_map(|line| all(&mut apart, std::slice::from_ref(line))).collect();
        assert_eq!(all(&mut together, &asked), expected, "{asked:?}");
    }
}

/// What the commands of a group change of the counts of a sorted set is one change for all of them. If the counts
/// cannot be read, nothing is written, and each command is answered with the error.
#[test]
fn where_what_they_have_in_common_cannot_be_read_none_is_done() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let members: Vec<String> = (0..200).map(|number| format!("{number} m{number}")).collect();
    assert_eq!(client.say(&format!("ZADD z {}", members.join(" "))), ":200\r\n");
    let damaged = "-ERR stored data is damaged: the server's log says where\r\n";
    let group = lines("ZADD z 1 a ; INCR n ; ZSCORE z a ; ZREM z m1");
    let asked_amid = lines("ZADD z 1 a ; ZRANK z a ; INCR n");
    weir.store.has_lost_counts.store(true, Ordering::Relaxed);
    assert_eq!(all(&mut client, &group), [damaged; 4]);
    // A command after the one that needs the counts was not run with the others, because it does not depend on them.
    assert_eq!(all(&mut client, &asked_amid), [damaged, "$-1\r\n", ":1\r\n"]);
    for queued in [&group, &asked_amid] {
        client.say("MULTI");
        assert!(all(&mut client, queued).iter().all(|reply| reply == "+QUEUED\r\n"));
        let answer: Vec<u8> = client.ask(&["EXEC"]);
        let wanted = format!("*{}\r\n{}", queued.len(), damaged.repeat(queued.len()));
        assert_eq!(String::from_utf8_lossy(&answer), wanted);
    }
    weir.store.has_lost_counts.store(false, Ordering::Relaxed);
    assert_eq!(all(&mut client, &lines("GET n ; ZSCORE z a ; ZCARD z")), ["$1\r\n1\r\n", "$-1\r\n", ":200\r\n"]);
    let replies = all(&mut client, &lines("ZADD z 1 a ; INCR n ; ZRANK z m1 ; ZREM z m1 ; ZRANK z m2"));
    assert_eq!(replies, [":1\r\n", ":2\r\n", ":2\r\n", ":1\r\n", ":2\r\n"]);
}

/// The same work is charged, whether commands run together or one by one.
#[test]
fn each_is_charged_as_by_itself() {
    let limits = UnitLimits { rcu: 1_000_000, wcu: 1_000_000, ..UnitLimits::default() };
    let paid = |asked: &[&[String]]| {
        let weir = Running::start(Settings::default());
        weir.store.quota.set_limits(&limits);
        let mut client = weir.connect();
        asked.iter().for_each(|lines| drop(all(&mut client, lines)));
        Unit::ALL.map(|unit| weir.store.quota.stats(unit).units)
    };
    let asked = lines("INCR n ; HSET h f 1 ; APPEND s abc ; INCR h ; GETDEL s ; SETRANGE s 3000 x ; INCR n");
    let one_by_one: Vec<&[String]> = asked.chunks(1).collect();
    assert_eq!(paid(&[&asked]), paid(&one_by_one));
}
