//! What the table says about commands.

use super::*;
use crate::request::Request;

#[test]
fn what_names_more_keys_behind_a_count_or_a_word_has_not_one_key() {
    for name in ["zunionstore", "zinterstore", "zdiffstore", "sort", "georadius", "xread", "eval", "mset", "rename"] {
        let command = find(name.as_bytes()).expect("there is one");
        assert!(!command.has_one_key(), "{name}");
    }
    for name in ["zadd", "hset", "lpush", "get"] {
        assert!(find(name.as_bytes()).expect("there is one").has_one_key(), "{name}");
    }
}

#[test]
fn every_command_is_documented() {
    let page = include_str!("../../../../docs/protocol.md");
    for command in COMMANDS {
        assert!(page.contains(&format!("`{}`", command.name.to_uppercase())), "{} is missing", command.name);
    }
}

fn request(line: &str) -> (&'static Command, Request) {
    let request = Request::new(0, 0, line.split(' ').map(str::as_bytes));
    (find(request.args().at(0)).expect("a command"), request)
}

#[test]
fn s4_what_may_be_a_secret_is_known_by_its_row() {
    for (line, is_secret) in [
        ("AUTH a b", true),
        ("HELLO 3 AUTH a b", true),
        ("ACL SETUSER a >b", true),
        ("MIGRATE h 1 k 0 9 AUTH a", true),
        ("CONFIG SET requirepass a", true),
        ("config set slowlog-max-len 1 masterauth a", true),
        ("CONFIG SET SLOWLOG-MAX-LEN 1", false),
        ("CONFIG GET requirepass", false),
        ("SET k v", false),
    ] {
        let (command, request) = request(line);
        assert_eq!(command.is_secret(request.args()), is_secret, "{line}");
    }
}

#[test]
fn what_needs_room_is_known_by_the_command_or_its_subcommand() {
    for (line, needs_room) in [
        ("SET k v", true),
        ("DEL k", false),
        ("XGROUP CREATE s g $", true),
        ("xgroup createconsumer s g c", true),
        ("XGROUP DESTROY s g", false),
        ("XGROUP CREATED s g", false),
        ("XGROUP", false),
    ] {
        let (command, request) = request(line);
        assert_eq!(command.needs_room(request.args()), needs_room, "{line}");
    }
}

#[test]
fn what_only_stores_reads_where_it_does_not_store() {
    for (line, writes, is_query) in [
        ("SORT k BY w* LIMIT 0 1", false, true),
        ("SORT k BY STORE", false, true),
        ("SORT k LIMIT 0 1 store d", true, false),
        ("SORT_RO k", false, true),
        ("GEORADIUS STORE 1 2 3 km ASC", false, true),
        ("GEORADIUS k 1 2 3 km STOREDIST d", true, false),
        ("GEORADIUSBYMEMBER k store 3 km", false, true),
        ("GEORADIUSBYMEMBER k m 3 km STORE d", true, false),
        ("BITFIELD k GET u8 0", true, false),
        ("SET k v", true, false),
        ("GET k", false, false),
    ] {
        let (command, request) = request(line);
        let args = request.args();
        assert_eq!((command.writes_with(args), command.is_query(args)), (writes, is_query), "{line}");
    }
}

#[test]
fn what_works_on_rows_is_known_by_the_command_or_by_a_subcommand_with_a_key() {
    for (line, works_on_rows) in [
        ("GET k", true),
        ("OBJECT HELP", true),
        ("MEMORY USAGE k", true),
        ("memory usage", true),
        ("MEMORY STATS", false),
        ("MEMORY", false),
        ("WATCH usage", false),
    ] {
        let (command, request) = request(line);
        assert_eq!(command.works_on_rows(request.args()), works_on_rows, "{line}");
    }
}

#[test]
fn what_is_done_to_keys_depends_on_their_place_and_on_options() {
    for (line, position, words) in [
        ("GET k", 0, &["RO", "access"][..]),
        ("SET k v EX 5", 0, &["OW", "update"]),
        ("SET k get", 0, &["OW", "update"]),
        ("SET k v get", 0, &["RW", "access", "update"]),
        ("BITFIELD k GET u8 0", 0, &["RO", "access"]),
        ("BITFIELD k INCRBY u8 0 1", 0, &["RW", "access", "update"]),
        ("BITOP AND d a b", 0, &["OW", "update"]),
        ("BITOP AND d a b", 2, &["RO", "access"]),
        ("RENAMENX a b", 1, &["OW", "insert"]),
        ("OBJECT FREQ k", 0, &["RO"]),
    ] {
        let (command, request) = request(line);
        assert_eq!(command.key_flags(position, request.args().iter_from(2)), words, "{line}");
    }
}

#[test]
fn categories_follow_from_flags_or_stand_in_the_row() {
    for (name, categories) in [
        ("get", &["read", "fast", "string"][..]),
        ("set", &["write", "slow", "string"]),
        ("sort", &["write", "slow", "list", "set", "sortedset", "dangerous"]),
        ("role", &["fast", "admin", "dangerous"]),
    ] {
        let command = find(name.as_bytes()).expect("a command");
        let mut is_in: Vec<&str> = command.categories.names().collect();
        let mut expected = categories.to_vec();
        is_in.sort_unstable();
        expected.sort_unstable();
        assert_eq!(is_in, expected, "{name}");
    }
}

/// The page names every command and subcommand once, and says how or why for each that differs from Redis. A command
/// that the table does not have must be marked as missing.
#[test]
fn the_page_on_compatibility_knows_every_command() {
    let page = include_str!("../../../../docs/compatibility.md");
    let mut rows = std::collections::BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
        let [name, state, reason] = cells[..] else { panic!("three cells: {line}") };
        let name = name.trim_matches('`').replace("\\|", "|");
        let has_reason = !reason.trim_matches(['|', ' ']).is_empty();
        assert!(matches!((state, has_reason), ("yes", false) | ("differs" | "no", true)), "{line}");
        assert!(rows.insert(name, state).is_none(), "twice: {line}");
    }
    for command in COMMANDS {
        let state = rows.remove(command.name).unwrap_or_else(|| panic!("{} is not on the page", command.name));
        // A command that is always refused is in the table only for its arity, and does not exist for users.
        assert!(state != "no" || command.summary == "Refused", "{}", command.name);
    }
    for subcommand in subcommands::SUBCOMMANDS {
        let name = subcommand.full_name();
        assert!(rows.remove(&name).is_some(), "{name} is not on the page");
    }
    for (name, state) in rows {
        assert_eq!(state, "no", "{name} is not in the table");
    }
}

#[test]
fn every_subcommand_is_found_among_those_of_its_container() {
    for (place, one) in subcommands::SUBCOMMANDS.iter().enumerate() {
        assert_eq!(subcommands::place_of(one.container, one.name.to_uppercase().as_bytes()), Some(place));
        assert!(subcommands::of(one.container).any(|other| std::ptr::eq(one, other)));
        assert!(subcommands::of(one.container).all(|other| other.container == one.container));
    }
    assert_eq!(subcommands::place_of("object", b"nosuch"), None);
    assert_eq!(subcommands::place_of("get", b"help"), None);
}
