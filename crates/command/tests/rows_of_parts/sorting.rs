//! `SORT`: of sets and sorted sets, and how much it has in hand.

use weir_model::parts::{Packed, PackedPart, placed, put_f64};

use super::*;

/// Large and small rows: of the type `kind` with the members `10`, `9`, `1`, whose scores are in that order.
fn with_members(kind: RowType, is_large: bool) -> Store {
    let mut store = Store::default();
    let made = store.run(async |cx| {
        let mut row = cx.new_head(kind);
        let members = [("10", 1.0), ("9", 2.0), ("1", 3.0)];
        let mut packed = Packed::default();
        for (member, score) in members {
            let mut value = Vec::new();
            if kind == RowType::SortedSet {
                put_f64(&mut value, score).expect("a number");
            }
            let placed = placed(row.version, member.as_bytes());
            if is_large {
                cx.put_part(Life::new(row.version), 0, &placed, &value)?;
            } else {
                let subkey = member.as_bytes();
                packed.put(PackedPart { space: 0, subkey, value: &value, expire_at_ms: None });
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
    let mut store = Store::default();
    assert_eq!(store.ask("RPUSH l 0 1 2 3 4 5 6 7 8 9"), ":10\r\n");
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
