//! Tests which commands of a source are taken, and in which form.

use super::kills::stream_of;
use super::tests::{import, names};
use super::*;
use crate::import::Choice;
use crate::rdb::FileBytes;

/// What is taken of commands of a source, and what is refused of them, if these databases are imported (none = all).
fn taken(databases: &[u8], lines: &[&str]) -> (Vec<String>, Vec<String>) {
    taken_by(Choice { databases: databases.to_vec(), ..Choice::default() }, lines)
}

/// The same for any choice of what is imported.
fn taken_by(choice: Choice, lines: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut import = import();
    import.choice = choice;
    let mut taker = Taker { import: &import, value_bytes_max: 1000, is_in_transaction: false, begun: None };
    let mut input = Input::new(FileBytes(&b""[..]), stream_of(lines));
    let mut position = Position { history: "h".repeat(40), offset: 0, database: 0, in_step_ms: 0 };
    let mut all = Vec::new();
    while let Some(taken) = taker.take(&mut input, &position).expect("requests") {
        all.extend(names(&taken).into_iter().map(|name| format!("{} {name}", taken.step.database)));
        position = taken.end;
    }
    let refused = import.tally.refused().0.into_iter().map(|refused| format!("{} {}", refused.database, refused.what));
    (all, refused.collect())
}

#[test]
fn commands_about_keys_that_are_named_like_ours_are_listed() {
    let lines = [
        "SET weir:import:position x",
        "RENAME weir:import:position:3 a",
        "SORT a STORE {weir:import:position}:probe",
        "SET a weir:import:position",
        "SET weir:import:positions x",
    ];
    let (all, refused) = taken(&[], &lines);
    assert_eq!(all, ["0 SET a weir:import:position", "0 SET weir:import:positions x"]);
    assert_eq!(refused, ["0 SET weir:import:position", "0 RENAME weir:import:position:3", "0 SORT a"]);
}

#[test]
fn keys_that_go_between_databases_are_followed_as_far_as_these_are_imported() {
    let lines = [
        "MOVE a 1",
        "MOVE b 2",
        "COPY c d DB 2 REPLACE",
        "COPY c d REPLACE db 1",
        "COPY c d",
        "SELECT 2",
        "MOVE e 0",
        "MOVE f 3",
        "COPY g h DB 1",
        "COPY DB h",
    ];
    let (all, refused) = taken(&[0, 1], &lines);
    assert_eq!(all, ["0 MOVE a 1", "0 DEL b", "0 COPY c d REPLACE db 1", "0 COPY c d"]);
    assert_eq!(refused, ["0 MOVE e", "1 COPY g"]);
    let (all, refused) = taken(&[], &lines);
    assert_eq!((all.len(), refused.len()), (lines.len() - 1, 0));
}

#[test]
fn commands_that_are_too_long_for_a_request_are_taken_apart_or_listed() {
    let values = format!(" {}", "v".repeat(1000)).repeat(17_000);
    let long = format!("RPUSH long{values}");
    let many = format!("RPUSH many{}", " v".repeat(1 << 20));
    let apart = format!("MSET{}", values.replace(" v", " key v"));
    let (all, refused) = taken(&[], &["SET a 1", &long, &many, &apart, "SET b 2"]);
    assert_eq!(refused, ["0 RPUSH long", "0 RPUSH many"]);
    let expected: Vec<String> = ["0 SET a 1".to_owned()]
        .into_iter()
        .chain(vec![format!("0 MSET key {}", "v".repeat(1000)); 17_000])
        .chain(["0 SET b 2".to_owned()])
        .collect();
    // Too long to be shown.
    assert!(all == expected, "{} commands", all.len());
}

#[test]
fn libraries_are_followed_whatever_database_is_chosen() {
    let lines = ["SELECT 3", "FUNCTION LOAD code", "SET a 1", "function restore payload flush", "FUNCTION FLUSH"];
    let loaded = "0 FUNCTION LOAD REPLACE code";
    let flushes = ["0 function restore payload flush", "0 FUNCTION FLUSH"];
    assert_eq!(taken(&[0], &lines), ([loaded, flushes[0], flushes[1]].map(ToOwned::to_owned).to_vec(), Vec::new()));
    // Libraries that the tenant had before stay.
    let choice = Choice { databases: vec![0], replace: true, ..Choice::default() };
    let (all, refused) = taken_by(choice, &lines);
    assert_eq!(all, [loaded]);
    assert_eq!(refused, ["0 function restore", "0 FUNCTION FLUSH"]);
}
