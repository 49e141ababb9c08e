//! What is counted and shown about commands: calls, errors, times, and the last command of a connection.

use crate::support::world::{World, name};
use crate::support::{Client, Running, encode};
use weir_gateway::Settings;
use weir_io::real::block_on;
use weir_node::{EngineKind, TenantSettings};

#[test]
fn calls_and_errors_are_told_by_command_and_code() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
    for line in ["SET a b", "SET c d", "CLIENT ID", "LPUSH a x", "GET", "NOSUCH", "XADD s * f"] {
        client.say(line);
    }
    let stats = client.say("INFO commandstats");
    let line = |name: &str| {
        let front = format!("cmdstat_{name}:");
        stats.lines().find(|line| line.starts_with(&front)).unwrap_or_else(|| panic!("{name}: {stats}")).to_owned()
    };
    assert!(line("set").contains("calls=2,") && line("set").contains("failed_calls=0"));
    assert!(line("client|id").contains("calls=1,"));
    assert!(line("config|resetstat").contains("calls=1,"));
    assert!(line("lpush").contains("calls=1,") && line("lpush").contains("failed_calls=1"));
    assert!(line("get").contains("calls=0,") && line("get").contains("rejected_calls=1"));
    assert!(!stats.contains("cmdstat_client:"), "a container is told by its subcommands");
    let errors = client.say("INFO errorstats");
    assert!(errors.contains("errorstat_ERR:count=3\r\n"), "{errors}");
    assert!(errors.contains("errorstat_WRONGTYPE:count=1\r\n"), "{errors}");
    let histogram = client.say("LATENCY HISTOGRAM set client nosuch|x");
    assert!(
        histogram.starts_with("*4\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n"),
        "{histogram}"
    );
    assert!(histogram.contains("\r\n$9\r\nclient|id\r\n*4\r\n$5\r\ncalls\r\n:1\r\n"), "{histogram}");
    let times = client.say("INFO latencystats");
    assert!(times.contains("latency_percentiles_usec_set:p50="), "{times}");
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
    assert!(!client.say("INFO errorstats").contains("errorstat_"));
}

#[test]
fn what_scripts_call_is_counted_once() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    client.say("CONFIG RESETSTAT");
    for (script, front) in [
        ("redis.call('set','k','v') redis.call('set','other','v') return redis.call('get','k')", "$1"),
        ("redis.pcall('lpush','k','v') redis.pcall('lpush','k','v') return 1", ":1"),
        ("return redis.call('hset','k','f','v')", "-WRONGTYPE"),
        ("return redis.error_reply('OWN error')", "-OWN error"),
    ] {
        assert!(client.ask(&["EVAL", script, "1", "k"]).starts_with(front.as_bytes()), "{script}");
    }
    let stats = client.say("INFO commandstats");
    for (name, calls, failed) in [("eval", 4, 2), ("set", 2, 0), ("get", 1, 0), ("lpush", 2, 2), ("hset", 1, 1)] {
        let front = format!("cmdstat_{name}:calls={calls},");
        let line = stats.lines().find(|line| line.starts_with(&front)).unwrap_or_else(|| panic!("{name}: {stats}"));
        assert!(line.ends_with(&format!("failed_calls={failed}")), "{line}");
    }
    let errors = client.say("INFO errorstats");
    assert!(errors.contains("errorstat_WRONGTYPE:count=3\r\n"), "{errors}");
    assert!(errors.contains("errorstat_OWN:count=1\r\n"), "{errors}");
}

#[test]
fn what_scripts_are_refused_and_what_they_make_up_is_counted() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    client.say("CONFIG RESETSTAT");
    for (command, script, front) in [
        ("EVAL_RO", "return redis.call('set','k','v')", "-ERR Write commands are not allowed"),
        ("EVAL_RO", "redis.pcall('set','k','v') return 1", ":1"),
        ("EVAL", "return redis.pcall('get')", "-ERR Wrong number of args"),
        ("EVAL", "return redis.pcall('subscribe','c')", "-ERR This Redis command is not allowed"),
        ("EVAL", "return redis.error_reply('MY_CODE custom')", "-MY_CODE custom"),
        ("EVAL", "return redis.error_reply('my words')", "-my words"),
    ] {
        assert!(client.ask(&[command, script, "0"]).starts_with(front.as_bytes()), "{script}");
    }
    let stats = client.say("INFO commandstats");
    for (name, calls, rejected, failed) in
        [("eval_ro", 2, 0, 1), ("eval", 4, 0, 4), ("set", 0, 2, 0), ("get", 0, 1, 0), ("subscribe", 0, 1, 0)]
    {
        let front = format!("cmdstat_{name}:calls={calls},");
        let line = stats.lines().find(|line| line.starts_with(&front)).unwrap_or_else(|| panic!("{name}: {stats}"));
        assert!(line.ends_with(&format!("rejected_calls={rejected},failed_calls={failed}")), "{line}");
    }
    let errors = client.say("INFO errorstats");
    for line in ["errorstat_ERR:count=4\r\n", "errorstat_MY_CODE:count=1\r\n", "errorstat_my:count=1\r\n"] {
        assert!(errors.contains(line), "{line} in {errors}");
    }
}

#[test]
fn changes_since_the_last_save_are_counted() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let mut changes = |lines: &[&str]| {
        for line in lines {
            assert!(!client.say(line).starts_with('-'), "{line}");
        }
        let info = client.say("INFO persistence");
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).expect("a count");
        line.to_owned()
    };
    assert_eq!(changes(&["SAVE"]), "0");
    assert_eq!(changes(&["SET k v", "SETBIT b 0 1", "SETBIT b 0 1", "GET k"]), "2");
    assert_eq!(changes(&["MULTI", "INCR n", "GET n", "EXEC"]), "3");
    assert_eq!(changes(&["EVAL return{redis.call('incr','n'),redis.call('incr','n')} 0"]), "4");
    assert_eq!(changes(&["BGREWRITEAOF"]), "4");
    assert_eq!(changes(&["BGSAVE"]), "0");
}

#[test]
fn the_last_command_and_what_is_queued_are_in_the_list() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    assert_eq!(other.say("PING"), "+PONG\r\n");
    let list = client.say("CLIENT LIST");
    assert!(list.contains(" multi=-1 qbuf=26 ") && list.contains(" cmd=client|list user="), "{list}");
    assert!(list.contains(" qbuf=0 ") && list.contains(" cmd=ping user="), "{list}");
    for line in ["CLIENT SETNAME other", "MULTI", "GET a", "GET b"] {
        other.say(line);
    }
    let list = client.say("CLIENT LIST");
    let line = list.lines().find(|line| line.contains("name=other")).expect("its line");
    assert!(line.contains(" flags=x ") && line.contains(" cmd=get "), "{line}");
}

/// The line of the connection `id`.
fn listed(client: &mut Client, id: &str) -> String {
    client.say(&format!("CLIENT LIST ID {id}"))
}

#[test]
fn connections_are_listed_in_the_order_in_which_they_are_asked_for() {
    let weir = Running::start(Settings::default());
    let [mut client, mut other] = [0; 2].map(|_| weir.connect());
    let [one, two] = [&mut client, &mut other].map(|client| client.say("CLIENT ID")[1..].trim_end().to_owned());
    let list = client.say(&format!("CLIENT LIST ID {two} {one} 999999 {two}"));
    let listed: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
    assert_eq!(listed, [&two[..], &one[..], &two[..]]);
    assert_eq!(client.say(&format!("CLIENT LIST ID {one} x")), "-ERR Invalid client ID\r\n");
    assert_eq!(client.say("CLIENT LIST TYPE replica"), "$0\r\n\r\n");
}

#[test]
fn a_transaction_is_in_the_list_from_multi_to_exec() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let id = other.say("CLIENT ID")[1..].trim_end().to_owned();
    for (words, queued) in [("MULTI", 0), ("GET a", 1), ("GET b", 2)] {
        other.say(words);
        let line = listed(&mut client, &id);
        assert!(line.contains(" flags=x ") && line.contains(&format!(" multi={queued} ")), "{words}: {line}");
    }
    assert_eq!(other.say("EXEC"), "*2\r\n$-1\r\n$-1\r\n");
    let line = listed(&mut client, &id);
    assert!(!line.contains(" flags=x ") && line.contains(" multi=-1 "), "{line}");
}

#[test]
fn the_last_of_some_commands_that_run_as_one_is_in_the_list() {
    let weir = Running::start(Settings::default());
    let (mut client, mut other) = (weir.connect(), weir.connect());
    let id = other.say("CLIENT ID")[1..].trim_end().to_owned();
    other.send(&[encode(&["INCR", "a"]), encode(&["APPEND", "b", "x"])].concat());
    assert_eq!([other.reply(), other.reply()], [b":1\r\n"; 2]);
    let line = listed(&mut client, &id);
    assert!(line.contains(" cmd=append "), "{line}");
}

#[test]
fn who_tracks_keys_is_in_the_list() {
    let weir = Running::start(Settings::default());
    let [mut keeper, mut target, mut other] = [0; 3].map(|_| weir.connect());
    let own = keeper.say("CLIENT ID")[1..].trim_end().to_owned();
    let id = target.say("CLIENT ID")[1..].trim_end().to_owned();
    assert!(listed(&mut other, &own).contains(" redir=-1 "));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    let line = listed(&mut other, &own);
    assert!(line.contains(" flags=t ") && line.contains(" redir=0 "), "{line}");
    assert_eq!(keeper.say("CLIENT TRACKING OFF"), "+OK\r\n");
    assert_eq!(keeper.say(&format!("CLIENT TRACKING ON BCAST REDIRECT {id}")), "+OK\r\n");
    let line = listed(&mut other, &own);
    assert!(line.contains(" flags=tB ") && line.contains(&format!(" redir={id} ")), "{line}");
    drop(target);
    // That the receiver is gone shows when there is something to tell it.
    while !listed(&mut other, &own).contains(" flags=tRB ") {
        assert_eq!(other.say("SET k v"), "+OK\r\n");
    }
}

#[test]
fn what_takes_long_is_kept_where_it_is_asked_for() {
    let weir = Running::start(Settings { allow_debug: true, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(client.say("DEBUG SLEEP 0.02"), "+OK\r\n");
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n", "nobody has asked for it");
    assert_eq!(client.say("CONFIG SET latency-monitor-threshold 10"), "+OK\r\n");
    assert_eq!(client.say("DEBUG SLEEP 0.02"), "+OK\r\n");
    let latest = client.say("LATENCY LATEST");
    assert!(latest.starts_with("*1\r\n*4\r\n$7\r\ncommand\r\n"), "{latest}");
    assert!(client.say("LATENCY HISTORY command").starts_with("*1\r\n*2\r\n:"));
    assert!(client.say("LATENCY GRAPH command").contains("command - high "));
    assert_eq!(client.say("LATENCY RESET nosuch"), ":0\r\n");
    assert!(client.say("LATENCY RESET").starts_with(":"));
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n");
}

#[test]
fn debug_object_sees_a_key_that_has_expired_and_is_still_stored() {
    let weir = Running::start(Settings { allow_debug: true, ..Settings::default() });
    let mut client = weir.connect();
    assert_eq!(client.say("SET k value EX 1"), "+OK\r\n");
    weir.pass(2);
    let seen = client.say("DEBUG OBJECT k");
    assert!(seen.starts_with("+Value at:0x0 refcount:1 encoding:embstr serializedlength:"), "{seen}");
    assert_eq!(client.say("DEBUG LISTPACK k"), "-ERR no such key\r\n");
    assert_eq!(client.say("EXISTS k"), ":0\r\n");
}

#[test]
fn sizes_of_memory_are_told_for_people_too() {
    let world = World::new();
    let info = world.tenant("t", 1, 0).say("INFO memory");
    assert!(info.contains("\r\nmaxmemory:0\r\nmaxmemory_human:0B\r\n"), "{info}");
    assert!(info.contains("\r\nused_memory_human:"), "{info}");
}

#[test]
fn the_limit_on_memory_is_told_by_config_and_info_alike() {
    let world = World::new();
    let limited = |settings: &mut TenantSettings| -> weir_io::Result<()> {
        settings.memory_bytes_max = 5 << 20;
        Ok(())
    };
    for (engine, told) in [(EngineKind::Memory, "5242880"), (EngineKind::Lsm, "0")] {
        let tenant = engine.to_string();
        let mut client = world.tenant_on(engine, &tenant, 1, 0);
        assert_eq!(client.say("CONFIG GET maxmemory"), "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n");
        block_on(world.node.alter_tenant(&name(&tenant), limited)).expect("altered");
        let shown = client.say("CONFIG GET maxmemory maxmem*");
        assert!(shown.contains(&format!("\r\nmaxmemory\r\n${}\r\n{told}\r\n", told.len())), "{shown}");
        assert_eq!(shown.matches("\r\nmaxmemory\r\n").count(), 1, "{shown}");
        assert!(shown.contains("\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"), "{shown}");
        let info = client.say("INFO memory");
        assert!(info.contains(&format!("\r\nmaxmemory:{told}\r\n")), "{info}");
        assert_eq!(client.say(&format!("CONFIG SET maxmemory {told}")), "+OK\r\n", "what it is");
        assert!(client.say("CONFIG SET maxmemory 1").starts_with("-ERR CONFIG SET failed"));
    }
}
