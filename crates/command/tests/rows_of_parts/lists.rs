//! What commands on large lists write, and where their limits are.

use weir_model::engine::Kind;
use weir_model::parts::audit::Audit;
use weir_model::parts::list::{Chunk, ListPart};
use weir_model::parts::{Part, put_i64};

use super::*;

/// A list whose values have keys of their own: they are the numbers in `values`, and the first one is at the position
/// `first`.
fn with_list(first: i64, values: std::ops::Range<i64>) -> Store {
    let mut store = Store::default();
    let made = store.run(async |cx| {
        let mut head = cx.new_head(RowType::List);
        put_i64(&mut head.detail, first);
        for (index, value) in values.clone().enumerate() {
            let mut position = Vec::new();
            put_i64(&mut position, first + index as i64);
            let value = value.to_string();
            cx.put_part(Life::new(head.version), 0, &position, value.as_bytes())?;
            head.count += 1;
            head.bytes += 8 + value.len() as u64;
        }
        cx.put_head(b"l", &head, None)
    });
    assert_eq!(made, Ok(()));
    store
}

impl Store {
    /// What is wrong with the rows.
    fn problems(&self) -> Vec<String> {
        let mut audit = Audit::default();
        for (key, row) in &self.map {
            match row.head() {
                Some(head) => audit.entry(Kind::Head, key, &head.encode()),
                None => audit.entry(Kind::Put, key, &row.clone().into_string().expect("a string").value),
            }
        }
        assert!(!audit.next_round(), "there are few lives");
        audit.into_problems()
    }

    /// The answers to `lines`, which are one record.
    fn ask_together(&mut self, lines: &[String]) -> Vec<String> {
        let (mut draft, mut answers) = (Draft::of_several(), Vec::new());
        for line in lines {
            let request = Request::new(0, NOW_MS, line.split(' ').map(str::as_bytes));
            let args = request.args();
            let command = table::find(args.at(0)).expect("a command");
            let mut host = Headless::new(Protocol::Resp2, Yield::PLAIN, Rng::new(1));
            let mut call = request.call(VALUE_BYTES_MAX);
            let finished = done(run(command, Context::locked(&*self, &mut host, &mut call, draft), args));
            answers.push(String::from_utf8(host.take_answer(&finished.outcome)).expect("text"));
            draft = finished.draft;
        }
        self.apply(draft.batch());
        answers
    }

    /// The parts of the only spread list: how many values each has.
    fn parts_of_list(&self) -> Vec<usize> {
        let parts = self.map.iter().filter_map(|(key, row)| Some((Part::parse(key)?, row)));
        let values = parts.map(|(part, row)| match ListPart::parse(part.subkey).expect("a part of a list") {
            ListPart::Value(_) => 1,
            ListPart::Chunk(_) => {
                let value = row.clone().into_string().expect("a part is a string").value;
                Chunk::parse(&value).expect("a chunk").values_len()
            }
        });
        values.collect()
    }

    /// The answer to `line`, and how many changes it makes.
    fn changes(&mut self, line: &str) -> (String, u64) {
        let before = self.newest;
        let answer = self.ask(line);
        (answer, self.newest - before)
    }
}

#[test]
fn the_ends_of_a_large_list_cost_a_part_and_the_head() {
    let mut store = with_list(0, 0..1000);
    for (line, answer, changes) in [
        ("LPUSH l a", ":1001\r\n", 2),
        ("RPUSH l b", ":1002\r\n", 2),
        ("RPOP l", "$1\r\nb\r\n", 2),
        ("LPOP l", "$1\r\na\r\n", 2),
        ("LMOVE l l LEFT RIGHT", "$1\r\n0\r\n", 3),
        ("LMOVE l l RIGHT LEFT", "$1\r\n0\r\n", 3),
        // Also if the length stays: whoever watches the row looks at its head.
        ("LSET l 500 abc", "+OK\r\n", 2),
        ("LSET l 500 ab", "+OK\r\n", 2),
        ("LINDEX l 500", "$2\r\nab\r\n", 0),
        ("LPOP l 3", "*3\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n", 4),
        ("LTRIM l 0 -4", "+OK\r\n", 4),
        ("LLEN l", ":994\r\n", 0),
    ] {
        assert_eq!(store.changes(line), (answer.to_owned(), changes), "{line}");
    }
}

#[test]
fn what_is_put_in_or_taken_out_in_between_moves_the_shorter_side() {
    for (line, answer, changes) in [
        ("LINSERT l BEFORE 10 x", 1001, 10 + 2),
        ("LINSERT l AFTER 989 x", 1001, 10 + 2),
        ("LREM l 1 10", 1, 11 + 2),
        ("LREM l 1 989", 1, 11 + 2),
        ("LREM l 0 none", 0, 0),
    ] {
        let mut store = with_list(-500, 0..1000);
        assert_eq!(store.changes(line), (format!(":{answer}\r\n"), changes), "{line}");
    }
    // If only a few values are kept, they begin a new life.
    let mut store = with_list(0, 0..1000);
    let parts = |store: &Store| store.map.keys().filter(|key| key[0] == 128).count();
    assert_eq!(store.changes("LTRIM l 990 -1"), ("+OK\r\n".into(), 1));
    assert_eq!(store.ask("LRANGE l 0 1"), "*2\r\n$3\r\n990\r\n$3\r\n991\r\n");
    assert_eq!(parts(&store), 1000, "what was before is left to the cover");
    let mut store = with_list(0, 0..1000);
    // The 129 values that are too many for a head are three chunks. The last one is written again when it is full, and
    // two more follow.
    assert_eq!(store.changes("LTRIM l 300 -400"), ("+OK\r\n".into(), 3 + 1 + 2 + 1));
}

#[test]
fn short_values_stand_together_and_what_is_written_for_one_of_them_is_bounded() {
    let mut store = Store::default();
    let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    store.ask(&format!("RPUSH l {}", numbers.join(" ")));
    // The first 129 were in the head when it became too large.
    assert_eq!(store.parts_of_list(), [64, 64, 64, 8]);
    // A further value joins the last chunk; one that goes stays in its chunk until all of them are gone.
    assert_eq!(store.changes("RPUSH l a"), (":201\r\n".into(), 2));
    assert_eq!(store.parts_of_list(), [64, 64, 64, 9]);
    for number in 0..64 {
        let changes = if number == 63 { 2 } else { 1 };
        assert_eq!(store.ask("LINDEX l 0"), format!("${}\r\n{number}\r\n", number.to_string().len()));
        let answer = format!("${}\r\n{number}\r\n", number.to_string().len());
        assert_eq!(store.changes("LPOP l"), (answer, changes));
    }
    assert_eq!(store.parts_of_list(), [64, 64, 9]);
    // A chunk that was written before takes values of 50 bytes up to 256 bytes, one of the same command up to 1 KiB.
    let value = "v".repeat(50);
    store.ask(&format!("RPUSH l{}", format!(" {value}").repeat(45)));
    assert_eq!(store.parts_of_list(), [64, 64, 13, 20, 20, 1]);
    (0..9).for_each(|_| drop(store.ask(&format!("RPUSH l {value}"))));
    assert_eq!(store.parts_of_list(), [64, 64, 13, 20, 20, 5, 5]);
    // Each of many commands of one record writes the chunk again, too.
    store.ask_together(&vec![format!("RPUSH l {value}"); 12]);
    assert_eq!(store.parts_of_list(), [64, 64, 13, 20, 20, 5, 5, 5, 5, 2]);
    // Long values are parts by themselves; so are those that are put in front of a list that begins behind zero.
    store.ask(&format!("RPUSH l {}", vec!["v".repeat(65); 3].join(" ")));
    store.ask("LPUSH l a b");
    assert_eq!(store.parts_of_list(), [1, 1, 64, 64, 13, 20, 20, 5, 5, 5, 5, 2, 1, 1, 1]);
    assert_eq!(store.problems(), Vec::<String>::new());
}

/// Before a value there may be a chunk that reaches to it, but not where the page before has ended.
#[test]
fn pages_of_a_list_do_not_read_parts_again() {
    for (first, push, beside) in [(0, "RPUSH l a", 63), (-3000, "LPUSH l a", 0)] {
        let mut store = with_list(first, 0..3000);
        store.ask(push);
        let mut paged = |line: &str| {
            let before = store.paged.load(Ordering::Relaxed);
            assert!(!store.ask(line).starts_with('-'), "{line}");
            store.paged.load(Ordering::Relaxed) - before
        };
        for line in ["LRANGE l 0 -1", "LPOS l none", "LPOS l none RANK -1"] {
            assert_eq!(paged(line), 3001, "{line}, from {first}");
        }
        // Only the first page looks for such a chunk.
        assert_eq!(paged("LRANGE l 1000 -1"), 2001 + beside, "from {first}");
    }
}

/// What is read ahead for the pops of one record is what they take out next, whichever end they take it from.
#[test]
fn pops_of_one_record_read_each_part_about_once() {
    const POPS: u64 = 50;
    let long = "v".repeat(65);
    for (push, pop) in [("RPUSH", "LPOP"), ("RPUSH", "RPOP"), ("LPUSH", "LPOP"), ("LPUSH", "RPOP")] {
        let mut store = Store::default();
        // One of the values was short, so the head has to know which parts are outermost.
        store.ask(&format!("{push} l short{}", format!(" {long}").repeat(199)));
        let before = store.paged.load(Ordering::Relaxed);
        let answers = store.ask_together(&vec![format!("{pop} l"); POPS as usize]);
        let paged = store.paged.load(Ordering::Relaxed) - before;
        assert!(paged <= POPS + 16, "{push}, {pop}: {paged} parts");
        let is_first = (push == "RPUSH") == (pop == "LPOP");
        let taken = answers.iter().map(|answer| answer.lines().nth(1).expect("a value"));
        let expected = std::iter::once("short").filter(|_| is_first).chain(std::iter::repeat(&long[..]));
        assert!(taken.eq(expected.take(POPS as usize)), "{push}, {pop}");
        assert_eq!(store.problems(), Vec::<String>::new(), "{push}, {pop}");
    }
}

/// The values on both sides of those that stay are in the chunk of these.
#[test]
fn values_are_taken_out_of_a_chunk_from_both_ends_at_once() {
    let mut store = Store::default();
    let numbers: Vec<String> = (0..131).map(|number| number.to_string()).collect();
    store.ask(&format!("RPUSH l {}", numbers.join(" ")));
    store.ask("LPOP l 64");
    store.ask("RPOP l 3");
    assert_eq!(store.parts_of_list(), [64]);
    store.ask("LSET l 10 x");
    store.ask("LSET l 50 x");
    assert_eq!(store.ask("LREM l 0 x"), ":2\r\n");
    // The ten values in front are on the side of zero, where chunks do not grow.
    assert_eq!(store.parts_of_list(), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 39 + 13]);
    assert_eq!(store.problems(), Vec::<String>::new());
    let left = numbers[64..128].iter().filter(|number| !["74", "114"].contains(&&number[..]));
    let told: String = left.map(|number| format!("${}\r\n{number}\r\n", number.len())).collect();
    assert_eq!(store.ask("LRANGE l 0 -1"), format!("*62\r\n{told}"));
}

/// In the middle of the command the list is empty, and has no outermost parts.
#[test]
fn the_only_value_of_a_list_moves_from_either_end_to_either_end() {
    for value in ["v", &"v".repeat(65)] {
        for (push, pop) in [("RPUSH", "LPOP"), ("RPUSH", "RPOP"), ("LPUSH", "LPOP"), ("LPUSH", "RPOP")] {
            for ends in ["LEFT LEFT", "LEFT RIGHT", "RIGHT LEFT", "RIGHT RIGHT"] {
                let mut store = Store::default();
                store.ask(&format!("{push} l short{}", format!(" {value}").repeat(149)));
                // One by one: what is left stays where it is, and does not begin a new life.
                (0..149).for_each(|_| drop(store.ask(&format!("{pop} l"))));
                assert_eq!(store.parts_of_list().len(), 1);
                let only = store.ask("LINDEX l 0");
                let told = format!("{push}, {pop}, {ends}, {only}");
                assert_eq!(store.ask(&format!("LMOVE l l {ends}")), only, "{told}");
                assert_eq!(store.problems(), Vec::<String>::new(), "{told}");
                assert_eq!([store.ask("LPUSH l a"), store.ask("RPUSH l b")], [":2\r\n", ":3\r\n"], "{told}");
                assert_eq!(store.ask("LRANGE l 0 -1"), format!("*3\r\n$1\r\na\r\n{only}$1\r\nb\r\n"), "{told}");
                assert_eq!(store.problems(), Vec::<String>::new(), "{told}");
            }
        }
    }
}

/// A value around the length from which values are parts by themselves.
fn some_value(rng: &mut Rng) -> String {
    let len = [1, 3, 20, 63, 64, 65, 300][rng.below(7) as usize];
    char::from(b'a' + rng.below(5) as u8).to_string().repeat(len)
}

/// What a list of these `values` answers to `line`, and what becomes of it.
fn answer_of(values: &mut Vec<String>, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let bulk = |value: &str| format!("${}\r\n{value}\r\n", value.len());
    let array = |some: &[String]| format!("*{}\r\n{}", some.len(), some.iter().map(|v| bulk(v)).collect::<String>());
    let number = |word: &str| word.parse::<usize>().expect("a number");
    match words[..] {
        ["LPUSH" | "RPUSH", _, ref pushed @ ..] => {
            for &value in pushed {
                values.insert(if words[0] == "LPUSH" { 0 } else { values.len() }, value.to_owned());
            }
            format!(":{}\r\n", values.len())
        }
        ["LPOP" | "RPOP", _, count] => {
            let count = number(count).min(values.len());
            let mut taken: Vec<String> = match words[0] {
                "LPOP" => values.drain(..count).collect(),
                _ => values.drain(values.len() - count..).collect(),
            };
            if words[0] == "RPOP" {
                taken.reverse();
            }
            array(&taken)
        }
        ["LPOP", _] => bulk(&values.remove(0)),
        ["RPOP", _] => bulk(&values.pop().expect("a value")),
        ["LMOVE", _, _, from, to] => {
            let value = values.remove(if from == "LEFT" { 0 } else { values.len() - 1 });
            values.insert(if to == "LEFT" { 0 } else { values.len() }, value.clone());
            bulk(&value)
        }
        ["LSET", _, index, value] => {
            values[number(index)] = value.to_owned();
            "+OK\r\n".to_owned()
        }
        ["LINDEX", _, index] => bulk(&values[number(index)]),
        ["LRANGE", _, first, last] => {
            array(&values[number(first)..number(last).saturating_add(1).clamp(number(first), values.len())])
        }
        ["LINSERT", ..] => {
            let len = values.len();
            in_model(values, &words);
            if values.len() == len { ":-1\r\n".to_owned() } else { format!(":{}\r\n", values.len()) }
        }
        ["LREM", ..] => {
            let len = values.len();
            in_model(values, &words);
            format!(":{}\r\n", len - values.len())
        }
        _ => {
            in_model(values, &words);
            "+OK\r\n".to_owned()
        }
    }
}

/// A command on a list of `len` values, which are more than a few.
fn some_line(rng: &mut Rng, len: u64) -> String {
    let side = |rng: &mut Rng| ["LEFT", "RIGHT"][rng.below(2) as usize];
    let values = |rng: &mut Rng, count: u64| (0..count).map(|_| format!(" {}", some_value(rng))).collect::<String>();
    match rng.below(20) {
        0..3 => format!("LPUSH l{}", values(rng, 1)),
        3..6 => format!("RPUSH l{}", values(rng, 1)),
        6 => {
            let count = 1 + rng.below(30);
            format!("LPUSH l{}", values(rng, count))
        }
        7 => {
            let count = 1 + rng.below(30);
            format!("RPUSH l{}", values(rng, count))
        }
        8 | 9 => "LPOP l".to_owned(),
        10 | 11 => "RPOP l".to_owned(),
        12 => format!("{} l {}", ["LPOP", "RPOP"][rng.below(2) as usize], 1 + rng.below(12)),
        13 => format!("LMOVE l l {} {}", side(rng), side(rng)),
        14 => format!("LSET l {}{}", rng.below(len), values(rng, 1)),
        15 => format!("LINDEX l {}", rng.below(len)),
        16 => format!("LRANGE l {} {}", rng.below(len), rng.below(len + 9)),
        17 => format!("LINSERT l {}{}{}", ["BEFORE", "AFTER"][rng.below(2) as usize], values(rng, 1), values(rng, 1)),
        18 => format!("LREM l {}{}", rng.below(7) as i64 - 3, values(rng, 1)).replace(" 0 ", " 1 "),
        _ => format!("LTRIM l {} {}", rng.below(9), len - 1 - rng.below(9)),
    }
}

/// Every value is where it should be, and every row is whole, whatever was done, alone or as one record with others.
#[test]
fn lists_of_short_and_long_values_are_changed_as_a_model() {
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        // Some lists begin as earlier versions have left them: every value is a part by itself.
        let first = [-700, -200, -90, 0, 500][rng.below(5) as usize];
        let (mut store, mut values) = match seed % 3 {
            0 => (with_list(first, 0..200), (0..200).map(|number| number.to_string()).collect::<Vec<_>>()),
            _ => (Store::default(), Vec::new()),
        };
        for step in 0..150 {
            let mut lines = Vec::new();
            let mut expected = Vec::new();
            for _ in 0..if rng.chance(0.3) { 1 + rng.below(12) } else { 1 } {
                let line = match values.len() {
                    0..40 => format!("RPUSH l {}", vec![some_value(&mut rng); 150].join(" ")),
                    len => some_line(&mut rng, len as u64),
                };
                expected.push(answer_of(&mut values, &line));
                lines.push(line);
            }
            let answers = match &lines[..] {
                [line] => vec![store.ask(line)],
                lines => store.ask_together(lines),
            };
            let told = format!("seed {seed}, step {step}: {lines:?}");
            assert_eq!(answers, expected, "{told}");
            assert_eq!(store.problems(), Vec::<String>::new(), "{told}");
            let all = format!("LRANGE l 0 {}", values.len());
            assert_eq!(store.ask(&all), answer_of(&mut values, &all), "{told}");
            let (from, to) = (rng.below(values.len() as u64), rng.below(values.len() as u64));
            let some = format!("LRANGE l {from} {}", to.max(from));
            assert_eq!(store.ask(&some), answer_of(&mut values, &some), "{told}");
        }
    }
}

/// Commands of one record have the chunk in hand that the one in front of them has left.
#[test]
fn what_is_written_as_one_record_is_what_would_be_written_one_by_one() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (mut together, mut apart, mut values) = (Store::default(), Store::default(), Vec::new());
        for step in 0..100 {
            let mut lines = Vec::new();
            for _ in 0..1 + rng.below(16) {
                let line = match values.len() {
                    0..40 => format!("RPUSH l {}", vec![some_value(&mut rng); 150].join(" ")),
                    len => some_line(&mut rng, len as u64),
                };
                // These may begin a new life, whose number depends on how many records there were.
                if !["LINSERT", "LREM", "LTRIM"].iter().any(|name| line.starts_with(name)) {
                    answer_of(&mut values, &line);
                    lines.push(line);
                }
            }
            let answers: Vec<String> = lines.iter().map(|line| apart.ask(line)).collect();
            assert_eq!(together.ask_together(&lines), answers, "seed {seed}, step {step}: {lines:?}");
            assert_eq!(together.map, apart.map, "seed {seed}, step {step}: {lines:?}");
        }
    }
}

/// A chunk in hand belongs to one life of a list, and not to a key: lists get other keys, and keys get other lists.
#[test]
fn commands_of_one_record_on_whole_lists_are_answered_as_one_by_one() {
    let mut rng = Rng::new(1);
    let (mut together, mut apart) = (Store::default(), Store::default());
    for step in 0..300 {
        for (key, value) in [("a", "first"), ("b", "second")] {
            let push = format!("RPUSH {key} {}", [value; 150].join(" "));
            for line in [&format!("DEL {key}"), &push] {
                assert_eq!(together.ask(line), apart.ask(line));
            }
        }
        let mut lines = Vec::new();
        for number in 0..1 + rng.below(24) {
            let (key, other) = [("a", "b"), ("b", "a")][rng.below(2) as usize];
            lines.push(match rng.below(24) {
                0..2 => format!("RPUSH {key} {}", vec![number.to_string(); 150].join(" ")),
                2..7 => format!("RPUSH {key} r{number}"),
                7..9 => format!("LPUSH {key} l{number}"),
                9..14 => format!("RPOP {key}"),
                14..16 => format!("LPOP {key}"),
                16 => format!("RENAME {key} {other}"),
                17 => format!("COPY {key} {other} REPLACE"),
                18 => format!("LMOVE {key} {other} RIGHT RIGHT"),
                19 => format!("EXPIRE {key} {}", [-1, 1000][rng.below(2) as usize]),
                20 => format!("SET {key} text"),
                21 => format!("DEL {key}"),
                22 => format!("LTRIM {key} 2 -3"),
                _ => format!("LINDEX {key} -1"),
            });
        }
        lines.extend(["LRANGE a 0 -1", "LRANGE b 0 -1"].map(str::to_owned));
        let answers: Vec<String> = lines.iter().map(|line| apart.ask(line)).collect();
        assert_eq!(together.ask_together(&lines), answers, "step {step}: {lines:?}");
    }
}

/// What `line` makes of a list of these `values`.
fn in_model(values: &mut Vec<String>, words: &[&str]) {
    let place = |values: &Vec<String>, value: &str| values.iter().position(|other| other == value);
    match words {
        ["LINSERT", _, side, pivot, value] => {
            if let Some(at) = place(values, pivot) {
                values.insert(at + usize::from(*side == "AFTER"), (*value).to_owned());
            }
        }
        ["LREM", _, count, value] => {
            let count: i64 = count.parse().expect("a number");
            for _ in 0..if count == 0 { values.len() as u64 } else { count.unsigned_abs() } {
                let at = match count < 0 {
                    true => values.iter().rposition(|other| other == value),
                    false => place(values, value),
                };
                let Some(at) = at else { break };
                values.remove(at);
            }
        }
        ["LTRIM", _, first, last] => {
            let (first, last): (usize, usize) = (first.parse().expect("a number"), last.parse().expect("a number"));
            let end = (last + 1).min(values.len());
            *values = values.drain(first.min(end)..end).collect();
        }
        _ => unreachable!("{words:?}"),
    }
}

/// A list with so many values that they are read in several steps, and with few different ones.
#[test]
fn large_lists_are_changed_as_small_ones() {
    let mut rng = Rng::new(1);
    for (len, different) in [(2500, 2), (2500, 9), (4000, 700), (1500, 1)] {
        let mut values: Vec<String> = (0..len).map(|_| rng.below(different).to_string()).collect();
        let mut store = Store::default();
        store.ask(&format!("RPUSH l {}", values.join(" ")));
        for step in 0..60 {
            let value = rng.below(different + 3).to_string();
            let line = match rng.below(8) {
                // So many values go that the list begins a new life, from its end.
                _ if step == 0 => "LREM l -900 0".to_owned(),
                0..4 => {
                    format!("LINSERT l {} {value} new-{}", ["BEFORE", "AFTER"][rng.below(2) as usize], rng.below(9))
                }
                4..7 => {
                    let count = [0, 1, -1, 3, -3, 40, -40, 900, -900][rng.below(9) as usize];
                    // Now and then a value that was added, which may be anywhere.
                    let value = if rng.chance(0.3) { format!("new-{}", rng.below(9)) } else { value };
                    format!("LREM l {} {value}", if count == 0 && different < 9 { 1 } else { count })
                }
                _ => format!("LTRIM l {} {}", rng.below(60), values.len().max(60) as u64 - 1 - rng.below(60)),
            };
            assert!(!store.ask(&line).starts_with('-'), "{line}");
            in_model(&mut values, &line.split(' ').collect::<Vec<_>>());
            let told: String = values.iter().map(|value| format!("${}\r\n{value}\r\n", value.len())).collect();
            assert!(store.ask("LRANGE l 0 -1") == format!("*{}\r\n{told}", values.len()), "{line}");
            let head = store.map.values().find_map(Row::head);
            let parts = head.map_or((0, 0), |head| (head.count, head.bytes));
            let bytes: usize = values.iter().map(|value| 8 + value.len()).sum();
            assert_eq!(parts, (values.len() as u64, bytes as u64), "{line}");
        }
    }
}

#[test]
fn what_would_move_too_many_values_is_refused() {
    let large = 0..202_000;
    let too_many = "-ERR the list is too large for this";
    let mut store = with_list(0, large);
    let before = store.newest;
    for line in ["LINSERT l BEFORE 101000 x", "LREM l 0 101000", "LTRIM l 101000 -1", "LPOP l 101000", "RPOP l 100001"]
    {
        let answer = store.ask(line);
        assert!(answer.starts_with(too_many), "{line}: {answer}");
    }
    assert_eq!(store.newest, before);
    assert_eq!(store.ask("LINSERT l BEFORE 100 x"), ":202001\r\n");
    assert_eq!(store.changes("LTRIM l 1 0"), ("+OK\r\n".into(), 1), "all of it goes with its head");
}

#[test]
fn values_that_are_taken_out_at_once_are_answered_at_once() {
    let mut store = Store::default();
    let value = "x".repeat(17 << 20);
    store.ask(&format!("RPUSH l {value} a b"));
    let before = store.newest;
    let refused = "-ERR these values have more than 16 MB together: take less at a time\r\n";
    for line in ["LPOP l 2", "RPOP l 3", "LMPOP 1 l LEFT COUNT 9"] {
        assert_eq!(store.ask(line), refused, "{line}");
    }
    assert_eq!(store.newest, before);
    assert_eq!(store.ask("LPOP l 1").len(), value.len() + "*1\r\n$17825792\r\n\r\n".len());
    assert_eq!(store.ask("LMPOP 1 l RIGHT COUNT 9"), "*2\r\n$1\r\nl\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n");
    assert_eq!(store.ask("EXISTS l"), ":0\r\n");
}

#[test]
fn positions_run_out_with_an_error() {
    let mut store = with_list(i64::MIN, 0..200);
    let refused = "-ERR the list has no position left at this end\r\n";
    assert_eq!(store.ask("LPUSH l x"), refused);
    assert_eq!(store.ask("LINSERT l BEFORE 1 x"), refused);
    assert_eq!(store.ask("RPUSH l x"), ":201\r\n");
    let mut store = with_list(i64::MAX - 199, 0..200);
    assert_eq!(store.ask("LRANGE l 198 -1"), "*2\r\n$3\r\n198\r\n$3\r\n199\r\n");
    assert_eq!(store.ask("RPUSH l x"), refused);
    assert_eq!(store.ask("LINSERT l AFTER 198 x"), refused);
    assert_eq!(store.ask("LPUSH l x"), ":201\r\n");
    // A command that fails leaves the chunk as the one in front of it has left it, also if it has filled the chunk.
    let mut store = with_list(i64::MAX - 299, 0..200);
    let many = format!("RPUSH l{}", " v".repeat(100));
    let lines = ["RPUSH l a", &many, "RPUSH l b", "RPOP l", "RPUSH l c", "LINDEX l -1", "LINDEX l -2"];
    let answers = store.ask_together(&lines.map(str::to_owned));
    assert_eq!(answers, [":201\r\n", refused, ":202\r\n", "$1\r\nb\r\n", ":202\r\n", "$1\r\nc\r\n", "$1\r\na\r\n"]);
    assert_eq!(store.problems(), Vec::<String>::new());
}

#[test]
fn a_list_that_has_lost_a_value_is_an_error() {
    let mut store = with_list(0, 0..200);
    let key = store.map.keys().filter(|key| key[0] == 128).nth(7).expect("it is there").clone();
    store.map.remove(&key);
    let damaged = "-ERR stored data is damaged: a list has lost a value\r\n";
    for line in ["LINDEX l 7", "LRANGE l 0 -1", "LREM l 0 x", "LPOS l x", "LTRIM l 10 -1", "SORT l"] {
        assert_eq!(store.ask(line), damaged, "{line}");
    }
    assert_eq!(store.ask("LINDEX l 8"), "$1\r\n8\r\n");
}

#[test]
fn a_list_that_does_not_say_where_it_begins_is_an_error() {
    let damaged = "-ERR stored data is damaged: a list does not say where it begins\r\n";
    for detail in [&[][..], &[0x80; 7], &[0x80, 0, 0, 0, 0, 0, 0, 0, 3, 0]] {
        let mut store = with_list(0, 0..200);
        let found = store.map.iter().find_map(|(key, row)| Some((key.clone(), row.head()?.clone())));
        let (key, head) = found.expect("its head");
        store.map.insert(key, Row::of_parts(Head { detail: detail.to_vec(), ..head }, None));
        for line in ["LINDEX l 7", "LRANGE l 0 -1", "RPUSH l x", "LPUSH l x", "LPOP l", "LSET l 3 x", "LREM l 1 3"] {
            assert_eq!(store.ask(line), damaged, "{line}, {detail:?}");
        }
        assert_eq!(store.ask("LLEN l"), ":200\r\n");
    }
}
