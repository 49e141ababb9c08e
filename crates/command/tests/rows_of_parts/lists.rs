//! What commands on large lists write, and where their limits are; and the sorting of other rows.

use weir_model::parts::{put_f64, put_i64};

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
        ("LREM l 1 10", 1, 10 + 2),
        ("LREM l 1 989", 1, 10 + 2),
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
    assert_eq!(store.changes("LTRIM l 300 -400"), ("+OK\r\n".into(), 301 + 1));
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

/// Large and small rows: of the type `kind` with the members `10`, `9`, `1`, whose scores are in that order.
fn with_members(kind: RowType, is_large: bool) -> Store {
    let mut store = Store::default();
    let made = store.run(async |cx| {
        let mut row = cx.new_head(kind);
        let members = [("10", 1.0), ("9", 2.0), ("1", 3.0)];
        let mut packed = weir_model::parts::Packed::default();
        for (member, score) in members {
            let mut value = Vec::new();
            if kind == RowType::SortedSet {
                put_f64(&mut value, score).expect("a number");
            }
            let placed = weir_model::parts::placed(row.version, member.as_bytes());
            if is_large {
                cx.put_part(Life::new(row.version), 0, &placed, &value)?;
            } else {
                let subkey = member.as_bytes();
                packed.put(weir_model::parts::PackedPart { space: 0, subkey, value: &value, expire_at_ms: None });
            }
            row.count += 1;
            row.bytes += (member.len() + value.len()) as u64;
        }
        row.packed = (!is_large).then_some(packed);
        cx.put_head(b"m", &row, None)
    });
    assert_eq!(made, Ok(()));
    store
}

#[test]
fn sets_and_sorted_sets_are_sorted_too() {
    let told = |members: &[&str]| {
        let members: String = members.iter().map(|member| format!("${}\r\n{member}\r\n", member.len())).collect();
        format!("*3\r\n{members}")
    };
    for (kind, is_large) in
        [(RowType::Set, false), (RowType::Set, true), (RowType::SortedSet, false), (RowType::SortedSet, true)]
    {
        let mut store = with_members(kind, is_large);
        for (line, members) in
            [("SORT m", ["1", "9", "10"]), ("SORT m DESC", ["10", "9", "1"]), ("SORT_RO m ALPHA", ["1", "10", "9"])]
        {
            assert_eq!(store.ask(line), told(&members), "{line} of a {kind:?}");
        }
        assert_eq!(store.ask("SORT m BY nosort STORE d"), ":3\r\n");
        // The elements of a set have to be in some order that is always the same.
        let stored = if kind == RowType::Set { ["1", "10", "9"] } else { ["10", "9", "1"] };
        assert_eq!(store.ask("LRANGE d 0 -1"), told(&stored), "of a {kind:?}");
        if kind == RowType::SortedSet {
            assert_eq!(store.ask("SORT m BY nosort DESC"), told(&["1", "9", "10"]));
            assert_eq!(store.ask("SORT m BY nosort LIMIT 1 1"), "*1\r\n$1\r\n9\r\n");
            assert_eq!(store.ask("SORT m BY nosort DESC LIMIT 2 5"), "*1\r\n$2\r\n10\r\n");
        }
    }
}

#[test]
fn what_is_sorted_at_once_is_bounded() {
    let mut store = with_list(0, 0..10);
    let refused = "-ERR SORT has at most 64 MB in hand: the elements, or what belongs to them, are more\r\n";
    for value in 0..10 {
        store.ask(&format!("SET w_{value} {}", "x".repeat(8 << 20)));
    }
    assert_eq!(store.ask("SORT l GET w_* STORE d"), refused);
    assert_eq!(store.ask("SORT l BY w_* ALPHA"), refused);
    assert_eq!(
        store.ask("SORT l BY w_* LIMIT 0 1 STORE d"),
        "-ERR One or more scores can't be converted into double\r\n"
    );
    assert_eq!(store.ask("EXISTS d"), ":0\r\n");
}
