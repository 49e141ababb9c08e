//! Functions of a tenant: how long they stay, to whom they belong, and that a `redis-server` accepts their dumps.

use weir_gateway::Settings;
use weir_io::sim::{Fault, FaultPlan, OpKind};

use crate::support::world::World;
use crate::support::{Client, Running, encode};

const LIBRARY: &str = "#!lua name=lib\nlocal count = 0\n\
    redis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)\n\
    redis.register_function{function_name='look', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}}\n\
    redis.register_function('endless', function(keys) redis.call('set', keys[1], 'half') while true do end end)";

fn load(client: &mut Client) {
    assert_eq!(client.ask(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]), b"$3\r\nlib\r\n");
}

#[test]
fn functions_are_of_one_tenant_and_outlive_its_data_and_the_server() {
    let world = World::new();
    let mut eve = world.tenant("eve", 1, 0);
    for (name, partitions) in [("ada", 1), ("many", 3)] {
        let mut client = world.tenant(name, partitions, 0);
        load(&mut client);
        assert_eq!(client.say("FCALL add 1 k 5"), ":5\r\n");
        assert_eq!(client.say("FCALL_RO look 1 k"), "$1\r\n5\r\n");
        assert_eq!(
            client.say("FCALL_RO add 1 k 5"),
            "-ERR Can not execute a script with write flag using *_ro command.\r\n"
        );
        assert_eq!(eve.say("FCALL add 1 k 5"), "-ERR Function not found\r\n");
        // No command about keys shows them.
        client.say("FLUSHALL");
        for line in ["DBSIZE", "EXISTS functions"] {
            assert_eq!(client.say(line), ":0\r\n");
        }
        assert_eq!(client.say("KEYS *"), "*0\r\n");
        assert_eq!(client.say("FCALL add 1 k 2"), ":2\r\n");
    }
    drop(eve);
    let world = world.again();
    for name in ["ada", "many"] {
        let mut client = world.connect(name);
        assert_eq!(client.say("FCALL add 1 k 1"), ":3\r\n");
        assert_eq!(client.say("FUNCTION FLUSH"), "+OK\r\n");
        assert_eq!(client.say("FCALL add 1 k 1"), "-ERR Function not found\r\n");
        client.say("FLUSHALL");
        assert_eq!(client.say("FUNCTION LIST"), "*0\r\n");
    }
}

/// A refused load counts once the log is replaced.
#[test]
fn a_refused_load_that_counts_in_the_end_is_not_forgotten() {
    let (world, disk) = World::on_simulated_disk();
    let mut client = world.tenant("t", 1, 0);
    let load = |client: &mut Client, answer: u32| {
        let function = format!("function_name='which', callback=function() return {answer} end, flags={{'no-writes'}}");
        let library = format!("#!lua name=lib\nredis.register_function{{{function}}}");
        String::from_utf8_lossy(&client.ask(&["FUNCTION", "LOAD", "REPLACE", &library])).into_owned()
    };
    assert_eq!(load(&mut client, 1), "$3\r\nlib\r\n");
    assert_eq!(client.say("FCALL_RO which 0"), ":1\r\n");
    disk.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::Error, 1.0));
    let refusal = load(&mut client, 2);
    assert!(refusal.starts_with('-'), "{refusal}");
    assert_eq!(client.say("FCALL_RO which 0"), ":1\r\n", "reads go on");
    let refusal = load(&mut client, 1);
    assert!(refusal.starts_with('-'), "the other one may yet count: {refusal}");
    disk.set_faults(FaultPlan::none());
    while client.say("SET k v") != "+OK\r\n" {}
    assert_eq!(client.say("FCALL_RO which 0"), ":2\r\n");
    assert_eq!(load(&mut client, 1), "$3\r\nlib\r\n");
    assert_eq!(client.say("FCALL_RO which 0"), ":1\r\n");
}

/// The step deletes what the tenant has at its end, also libraries that were stored meanwhile.
#[test]
fn libraries_change_only_when_a_flush_has_ended_whose_client_was_killed() {
    let weir = Running::start(Settings { threads: 1, long_threads: 0, ..Settings::default() });
    let (mut killed, mut client, mut other) = (weir.connect(), weir.connect(), weir.connect());
    let emptying = || weir.store.emptying.lock().expect("no panic");
    *emptying() = Some(Vec::new());
    let id = killed.say("CLIENT ID");
    killed.send(&encode(&["FLUSHALL"]));
    while emptying().as_ref().is_none_or(Vec::is_empty) {
        std::thread::yield_now();
    }
    assert_eq!(other.say(&format!("CLIENT KILL ID {}", id.trim().trim_start_matches(':'))), ":1\r\n");
    assert_eq!(killed.rest(), b"");
    client.send(&encode(&["FUNCTION", "DELETE", "none"]));
    let line = loop {
        let stats = other.say("INFO commandstats");
        if let Some(line) = stats.lines().find(|line| line.starts_with("cmdstat_function|delete:calls=1,")) {
            break line.to_owned();
        }
        std::thread::yield_now();
    };
    // There is one thread, and nothing else that the command could wait for.
    assert!(line.ends_with(",failed_calls=0"), "{line}");
    *emptying() = None;
    assert_eq!(client.reply(), b"-ERR Library not found\r\n");
}

#[test]
fn a_function_in_a_transaction_belongs_to_it() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    load(&mut client);
    client.say("MULTI");
    for line in ["SET k 1", "FCALL add 1 k 5", "FCALL_RO look 1 k", "FCALL none 0"] {
        assert_eq!(client.say(line), "+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), "*4\r\n+OK\r\n:6\r\n$1\r\n6\r\n-ERR Function not found\r\n");
}

#[test]
fn a_function_that_runs_is_shown_and_killed() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    load(&mut client);
    client.send(&encode(&["FCALL", "endless", "1", "k", "x"]));
    let shown = loop {
        let stats = other.say("FUNCTION STATS");
        if stats.contains("endless") {
            break stats;
        }
        std::thread::yield_now();
    };
    assert!(shown.contains("*5\r\n$5\r\nFCALL\r\n$7\r\nendless\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\nx\r\n"), "{shown}");
    assert_eq!(other.say("FUNCTION KILL"), "+OK\r\n");
    let reply = String::from_utf8_lossy(&client.reply()).into_owned();
    assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{reply}");
    assert_eq!(client.say("EXISTS k"), ":0\r\n");
}

#[test]
fn what_a_tenant_may_load_is_bounded() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    let long = format!("#!lua name=long\n--{}\n", "x".repeat(1 << 20));
    assert!(client.ask(&["FUNCTION", "LOAD", &long]).starts_with(b"-ERR a library is at most 1 MB long"));
    let half = |name: &str| {
        let comment = "x".repeat(600 << 10);
        format!("#!lua name={name}\nredis.register_function('{name}', function() return 1 end) --{comment}")
    };
    assert_eq!(client.ask(&["FUNCTION", "LOAD", &half("a")]), b"$1\r\na\r\n");
    assert!(client.ask(&["FUNCTION", "LOAD", &half("b")]).starts_with(b"-ERR a tenant's functions are at most"));
    let described = "#!lua name=d\nredis.register_function{function_name='d', callback=function() end, \
                     description=('x'):rep(600000)}";
    assert!(client.ask(&["FUNCTION", "LOAD", described]).starts_with(b"-ERR a tenant's functions are at most"));
    assert!(
        client
            .ask(&["FUNCTION", "LOAD", "#!lua name=c\nlocal t = {} while true do t[#t + 1] = {} end"])
            .starts_with(b"-ERR")
    );
    assert_eq!(client.say("FCALL a 0"), ":1\r\n");
}
