//! `SYNC` and `PSYNC`: what is streamed, who gets it, and what happens if it cannot be streamed.

use weir_command::rdb::crc64;
use weir_gateway::Settings;
use weir_node::{EngineKind, Unit, UnitLimits};

use crate::support::world::World;
use crate::support::{Client, Running};

/// Asks for a snapshot and reads it: the file, and what follows its mark.
fn snapshot(client: &mut Client, question: &[u8]) -> (Vec<u8>, Vec<u8>) {
    client.send(question);
    if question.starts_with(b"PSYNC") {
        let line = client.until(b"\r\n");
        assert!(line.starts_with(b"+FULLRESYNC ") && line.ends_with(b" 0"), "{}", line.escape_ascii());
    }
    let line = client.until(b"\r\n");
    let mark = line.strip_prefix(b"$EOF:").unwrap_or_else(|| panic!("{}", line.escape_ascii())).to_vec();
    assert_eq!(mark.len(), 40);
    let file = client.until(&mark);
    assert!(!client.is_closed, "the mark is missing");
    (file, client.rest())
}

fn assert_is_whole(file: &[u8]) {
    assert!(file.starts_with(b"REDIS0010\xfa\x09redis-ver\x067.0.15"));
    let (summed, crc) = file.split_last_chunk::<8>().expect("a checksum");
    assert_eq!((crc64(0, summed), summed.last()), (u64::from_le_bytes(*crc), Some(&255)));
}

fn has(file: &[u8], piece: &[u8]) -> bool {
    file.windows(piece.len()).any(|window| window == piece)
}

#[test]
fn a_snapshot_is_streamed_with_all_that_the_tenant_has_and_nothing_of_others() {
    let world = World::new();
    world.tenant("eve", 1, 0).say("SET eves-key 1");
    for (name, engine, partitions) in
        [("tree", EngineKind::Lsm, 1), ("rows", EngineKind::Memory, 1), ("many", EngineKind::Lsm, 3)]
    {
        let mut client = world.tenant_on(engine, name, partitions, 0);
        let long = "x".repeat(300_000);
        for key in 0..1000 {
            client.say(&format!("SET key-{key:03} {key}"));
        }
        client.say(&format!("SET long {long}"));
        client.say("SELECT 9");
        client.say("SET nine ends PXAT 33000000000000");
        client.say("SELECT 0");
        let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        assert_eq!(client.ask(&["FUNCTION", "LOAD", library]), b"$3\r\nlib\r\n");
        assert_eq!(client.say("REPLCONF capa eof capa psync2"), "+OK\r\n");
        assert_eq!(client.say("REPLCONF rdb-only 1"), "+OK\r\n");
        let (file, behind) = snapshot(&mut client, b"SYNC\r\n");
        assert_is_whole(&file);
        assert_eq!(behind, b"");
        assert!((0..1000).all(|key| has(&file, format!("\x07key-{key:03}").as_bytes())));
        assert!(has(&file, long.as_bytes()) && !has(&file, b"eves-key"));
        assert!(has(&file, b"\xfe\x00") && has(&file, b"\xfe\x09\xfc") && has(&file, b"\x00\x04nine\x04ends"));
        assert!(has(&file, b"\xf5") && has(&file, b"register_function"));
        // Functions alone, and what follows the file for a client that expects more.
        let mut client = world.connect(name);
        assert_eq!(client.say("REPLCONF capa eof rdb-filter-only functions"), "+OK\r\n");
        let (file, behind) = snapshot(&mut client, b"PSYNC ? -1\r\n");
        assert_is_whole(&file);
        assert!(has(&file, b"register_function") && !has(&file, b"key-000"));
        assert!(behind.starts_with(b"-ERR this server has no replicas"), "{}", behind.escape_ascii());
    }
}

#[test]
fn who_would_follow_is_refused_and_rights_are_asked_for() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    assert!(client.say("SYNC").starts_with("-ERR SYNC streams a dump whose end is a mark"));
    assert_eq!(client.say("REPLCONF capa eof listening-port 7000"), "+OK\r\n");
    // Like `redis-cli --replica`, which wants neither rows nor functions.
    let mut watching = world.connect("t");
    assert_eq!(watching.ask(&["REPLCONF", "capa", "eof", "rdb-filter-only", ""]), b"+OK\r\n");
    for question in ["SYNC", "PSYNC ? -1"] {
        for (client, code) in [(&mut client, "NOMASTERLINK"), (&mut watching, "ERR")] {
            let refusal = format!("-{code} this server has no replicas, and sends no changes");
            assert!(client.say(question).starts_with(&refusal), "{question}");
        }
    }
    client.say("ACL SETUSER reader on nopass ~* +@all -@dangerous");
    client.say("AUTH t/reader x");
    for question in ["SYNC", "PSYNC ? -1", "REPLCONF capa eof"] {
        assert!(client.say(question).starts_with("-NOPERM"), "{question}");
    }
}

#[test]
fn one_snapshot_of_a_tenant_is_streamed_at_a_time() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    let value = "v".repeat(1 << 20);
    for key in 0..40 {
        client.say(&format!("SET key-{key} {value}"));
    }
    // The client reads nothing of it, so whatever the sockets do not hold waits.
    let mut slow = world.connect("t");
    assert_eq!(slow.say("REPLCONF capa eof"), "+OK\r\n");
    slow.send(b"SYNC\r\n");
    while !client.say("INFO persistence").contains("rdb_bgsave_in_progress:1") {
        std::thread::yield_now();
    }
    assert_eq!(client.say("REPLCONF capa eof"), "+OK\r\n");
    assert!(client.say("SYNC").starts_with("-ERR a dump of this tenant is being streamed"));
    drop(slow);
    while client.say("INFO persistence").contains("rdb_bgsave_in_progress:1") {
        std::thread::yield_now();
    }
    // That the client is gone is not the snapshot's fault.
    assert!(client.say("INFO persistence").contains("rdb_last_bgsave_status:ok"));
    assert_is_whole(&snapshot(&mut client, b"SYNC\r\n").0);
}

#[test]
fn what_has_no_form_in_the_file_ends_it_and_is_named() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    client.say("HSET mortal f v");
    client.say("HPEXPIRE mortal 100000000 FIELDS 1 f");
    for (filler, answer) in [(0, &b"-ERR the key \"mortal\": its fields have deadlines"[..]), (600_000, b"$EOF:")] {
        client.say(&format!("SET a-filler {}", "x".repeat(filler)));
        let mut asking = world.connect("t");
        asking.say("REPLCONF capa eof");
        asking.send(b"SYNC\r\n");
        // Nothing of a short file was sent, so the reason is the answer. A long file is cut.
        let told = asking.rest();
        assert!(told.starts_with(answer), "{}", told[..told.len().min(200)].escape_ascii());
        if let Some(rest) = told.strip_prefix(b"$EOF:") {
            assert!(!has(&rest[40..], &rest[..40]), "a file that is not whole has its mark");
        }
        let info = client.say("INFO persistence");
        let why = "rdb_last_sync_error:ERR the key \"mortal\": its fields have deadlines";
        assert!(info.contains("rdb_last_bgsave_status:err") && info.contains(why), "{info}");
    }
    client.say("HPERSIST mortal FIELDS 1 f");
    let mut asking = world.connect("t");
    asking.say("REPLCONF capa eof");
    assert_is_whole(&snapshot(&mut asking, b"SYNC\r\n").0);
    assert!(client.say("INFO persistence").contains("rdb_last_bgsave_status:ok"));
}

#[test]
fn a_snapshot_is_charged_as_what_it_reads() {
    let weir = Running::start(Settings::default());
    weir.store.quota.set_limits(&UnitLimits { rcu: 1_000_000, wcu: 1_000_000, ..UnitLimits::default() });
    let mut client = weir.connect();
    let value = "v".repeat(8 << 10);
    for key in 0..250 {
        client.say(&format!("SET k{key} {value}"));
    }
    let units = || weir.store.quota.stats(Unit::Read).units;
    let before = units();
    client.say("REPLCONF capa eof rdb-only 1");
    assert_is_whole(&snapshot(&mut client, b"SYNC\r\n").0);
    // Each value costs two units, and going past it costs as much.
    let spent = units() - before;
    assert!((500..1500).contains(&spent), "{spent}");
}
