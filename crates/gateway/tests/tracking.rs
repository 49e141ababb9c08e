//! `CLIENT TRACKING`: who keeps values is told of their changes, in order, and in whose place. The answers are compared
//! with Redis in differential.rs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::pubsub::{figure, next, until};
use crate::support::tenants::{connect, start_at};
use crate::support::troubled::Troubled;
use crate::support::world::World;
use crate::support::{Client, OpenDoor, Running, Served, TestClock, encode};
use weir_gateway::Settings;
use weir_io::sim::{Fault, FaultPlan, OpKind};
use weir_node::{OnLimit, Unit, UnitLimits};

/// This holds although other messages are sent while a reply waits.
/// Asks until a command of some connection waits.
fn until_blocked(client: &mut Client) {
    while figure(client, "blocked_clients") == 0 {}
}

#[test]
fn who_keeps_values_is_told_of_his_own_changes_behind_the_reply() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let settings = Settings { threads: 1, ..Settings::default() };
    let served = Served::start(settings, Arc::new(OpenDoor::new(store.clone())), clock);
    let (mut keeper, mut other) = (served.connect(), served.connect());
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    let invalid = |key: &str| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n{key}\r\n");
    for (requests, reply) in [
        (vec![encode(&["SET", "k", "2"])], "+OK\r\n"),
        // Commands that are run together.
        (vec![encode(&["APPEND", "j", "2"]), encode(&["APPEND", "k", "2"])], ":2\r\n"),
        (vec![encode(&["MULTI"]), encode(&["SET", "k", "2"]), encode(&["EXEC"])], "*1\r\n+OK\r\n"),
    ] {
        assert_eq!(other.say("SET k 1"), "+OK\r\n");
        assert_eq!(keeper.say("GET k"), "$1\r\n1\r\n");
        store.trouble.commits_wait.store(true, Ordering::SeqCst);
        keeper.send(&requests.concat());
        while other.say("GET k") == "$1\r\n1\r\n" {}
        store.trouble.commits_wait.store(false, Ordering::SeqCst);
        let told = String::from_utf8_lossy(&keeper.until(invalid("k").as_bytes())).into_owned();
        assert!(told.ends_with(reply), "{told}");
    }
}

/// Whatever the reply waits for; here it waits for the commit of a write in front of it.
#[test]
fn who_keeps_a_value_is_told_of_its_change_behind_the_reply_that_has_it() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(Settings::default(), Arc::new(OpenDoor::new(store.clone())), clock);
    let [mut keeper, mut other, mut third] = [0; 3].map(|_| served.connect());
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    let invalid = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    let (write, read) = (encode(&["SET", "a", "v"]), encode(&["GET", "k"]));
    for (requests, replies) in [
        ([&write[..], &read].concat(), "+OK\r\n$1\r\n1\r\n"),
        (
            [&encode(&["MULTI"])[..], &write, &read, &encode(&["EXEC"])].concat(),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n",
        ),
        (encode(&["EVAL", "redis.call('SET', 'a', 'v') return redis.call('GET', KEYS[1])", "1", "k"]), "$1\r\n1\r\n"),
    ] {
        assert_eq!(other.say("MSET k 1 a 0"), "+OK\r\n");
        store.trouble.commits_wait.store(true, Ordering::SeqCst);
        keeper.send(&requests);
        until(&mut third, "GET a", "$1\r\nv\r\n");
        other.send(&encode(&["SET", "k", "2"]));
        until(&mut third, "GET k", "$1\r\n2\r\n");
        store.trouble.commits_wait.store(false, Ordering::SeqCst);
        assert_eq!(next(&mut other), "+OK\r\n");
        let told = String::from_utf8_lossy(&keeper.until(invalid.as_bytes())).into_owned();
        assert_eq!(told, replies);
    }
    // A command that waits for a row holds no messages back.
    assert_eq!(keeper.say("GET k"), "$1\r\n2\r\n");
    keeper.send(&encode(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]));
    until_blocked(&mut third);
    assert_eq!(other.say("SET k 3"), "+OK\r\n");
    assert_eq!(next(&mut keeper), invalid);
}

#[test]
fn who_keeps_what_a_subcommand_has_told_of_a_key_is_told_of_its_change() {
    let weir = Running::start(Settings::default());
    let [mut keeper, mut other] = [0; 2].map(|_| weir.connect());
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(other.say("XGROUP CREATE s g $ MKSTREAM"), "+OK\r\n");
    assert_eq!(other.say("SET k 1"), "+OK\r\n");
    for (read, key, write) in [
        ("OBJECT ENCODING k", "k", "APPEND k 1"),
        ("OBJECT REFCOUNT k", "k", "APPEND k 1"),
        ("MEMORY USAGE k", "k", "APPEND k 1"),
        ("XINFO STREAM s", "s", "XADD s * f v"),
        ("XINFO GROUPS s", "s", "XADD s * f v"),
        ("XINFO CONSUMERS s g", "s", "XADD s * f v"),
        ("EVAL return(redis.call('OBJECT','ENCODING',KEYS[1])) 1 k", "k", "APPEND k 1"),
    ] {
        let reply = keeper.say(read);
        assert!(!reply.starts_with('-'), "{read}: {reply}");
        assert!(!other.say(write).starts_with('-'));
        assert_eq!(next(&mut keeper), format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n{key}\r\n"), "{read}");
    }
}

/// A refused write counts once the log is replaced, and was told when it was applied.
#[test]
fn who_keeps_a_value_without_a_refused_write_is_told_when_that_counts() {
    let (world, disk) = World::on_simulated_disk();
    let (mut keeper, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(other.say("SET k 1"), "+OK\r\n");
    assert_eq!(keeper.say("GET k"), "$1\r\n1\r\n");
    disk.set_faults(FaultPlan::none().chance(OpKind::Write, Fault::Error, 1.0));
    let refusal = other.say("SET k 2");
    assert!(refusal.starts_with('-'), "{refusal}");
    assert_eq!(next(&mut keeper), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert_eq!(keeper.say("GET k"), "$1\r\n1\r\n");
    disk.set_faults(FaultPlan::none());
    while other.say("SET j v") != "+OK\r\n" {}
    assert_eq!(next(&mut keeper), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!(keeper.say("GET k"), "$1\r\n2\r\n");
}

/// Some keys are gone, and nobody knows which.
#[test]
fn who_keeps_values_or_waits_for_rows_is_told_of_a_flush_that_is_cut() {
    let weir = Running::start(Settings::default());
    let [mut keeper, mut waiter, mut client, mut other] = [0; 4].map(|_| weir.connect());
    let pairs: Vec<String> = (0..3000).flat_map(|index| [format!("t{index}"), "v".to_owned()]).collect();
    client.ask(&[vec!["MSET".to_owned()], pairs].concat());
    assert_eq!(client.say("SET k 1"), "+OK\r\n");
    assert_eq!(client.say("XGROUP CREATE s g $ MKSTREAM"), "+OK\r\n");
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(keeper.say("GET k"), "$1\r\n1\r\n");
    waiter.send(&encode(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]));
    until_blocked(&mut other);
    let id = client.say("CLIENT ID")[1..].trim_end().to_owned();
    // It owes for its first page, and waits.
    let on_limit = OnLimit::Delay { max_ms: 1_000_000 };
    weir.store.quota.set_limits(&UnitLimits { rcu: 1, on_limit, ..UnitLimits::default() });
    client.send(&encode(&["FLUSHALL"]));
    while weir.store.quota.waiting(Unit::Read) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(next(&mut keeper), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!(next(&mut waiter), "-UNBLOCKED the stream key no longer exists\r\n");
}

/// Whatever becomes of the next command: it is refused, unknown, or run together with others.
#[test]
fn what_is_chosen_for_the_next_command_is_not_chosen_for_the_one_behind_it() {
    let weir = Running::start(Settings::default());
    let [mut keeper, mut other] = [0; 2].map(|_| weir.connect());
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON OPTOUT"), "+OK\r\n");
    let invalid = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    for next_ones in [
        vec![encode(&["GET"])],
        vec![encode(&["NOSUCH", "k"])],
        vec![encode(&["APPEND", "i", "v"]), encode(&["APPEND", "j", "v"])],
    ] {
        assert_eq!(other.say("SET k 1"), "+OK\r\n");
        assert_eq!(keeper.say("CLIENT CACHING NO"), "+OK\r\n");
        keeper.send(&[next_ones.concat(), encode(&["GET", "k"])].concat());
        keeper.until(b"$1\r\n1\r\n");
        assert_eq!(other.say("SET k 2"), "+OK\r\n");
        keeper.send(&encode(&["PING"]));
        assert_eq!(String::from_utf8_lossy(&keeper.until(b"+PONG\r\n")), invalid, "{next_ones:?}");
    }
    // As in Redis, the choice outlasts other subcommands of `CLIENT`.
    assert_eq!(keeper.say("CLIENT CACHING NO"), "+OK\r\n");
    assert!(keeper.say("CLIENT ID").starts_with(':'));
    assert_eq!(keeper.say("GET k"), "$1\r\n2\r\n");
    assert_eq!(other.say("SET k 3"), "+OK\r\n");
    assert_eq!(keeper.say("PING"), "+PONG\r\n");
}

/// In RESP3, as in Redis, whatever the connection does meanwhile.
#[test]
fn who_is_told_in_the_place_of_another_need_not_listen_to_anything() {
    let weir = Running::start(Settings::default());
    let [mut keeper, mut target, mut other] = [0; 3].map(|_| weir.connect());
    assert!(target.say("HELLO 3").starts_with('%'));
    let id = target.say("CLIENT ID")[1..].trim_end().to_owned();
    assert_eq!(keeper.say(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
    let mut change = |keeper: &mut Client| {
        keeper.say("GET k");
        assert_eq!(other.say("SET k v"), "+OK\r\n");
    };
    let told = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    change(&mut keeper);
    assert_eq!(next(&mut target), told);
    target.send(&encode(&["BLPOP", "l", "0"]));
    until_blocked(&mut keeper);
    change(&mut keeper);
    assert_eq!(next(&mut target), told);
    assert_eq!(keeper.say("RPUSH l x"), ":1\r\n");
    assert_eq!(next(&mut target), "*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    target.send(&[encode(&["CLIENT", "REPLY", "OFF"]), encode(&["HELLO", "3"])].concat());
    change(&mut keeper);
    assert_eq!(next(&mut target), told);
    assert_eq!(target.say("CLIENT REPLY ON"), "+OK\r\n");
    // This connection was blocked when the other one named it.
    let [mut late, mut keeper] = [0; 2].map(|_| weir.connect());
    assert!(late.say("HELLO 3").starts_with('%'));
    let id = late.say("CLIENT ID")[1..].trim_end().to_owned();
    late.send(&encode(&["BLPOP", "l", "0"]));
    until_blocked(&mut keeper);
    assert_eq!(keeper.say(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
    change(&mut keeper);
    assert_eq!(next(&mut late), told);
}

#[test]
fn nothing_overtakes_the_word_that_the_protocol_is_another() {
    let clock = TestClock::new();
    let store = Troubled::new(&clock, 0);
    let served = Served::start(Settings::default(), Arc::new(OpenDoor::new(store.clone())), clock);
    let [mut keeper, mut target, mut other] = [0; 3].map(|_| served.connect());
    let id = target.say("CLIENT ID")[1..].trim_end().to_owned();
    assert_eq!(keeper.say(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
    assert_eq!(keeper.say("GET k"), "$-1\r\n");
    store.trouble.commits_wait.store(true, Ordering::SeqCst);
    // The answer about the protocol waits behind the write.
    target.send(&[encode(&["SET", "a", "v"]), encode(&["HELLO", "3"])].concat());
    while !keeper.say(&format!("CLIENT LIST ID {id}")).contains("resp=3") {}
    other.send(&encode(&["SET", "k", "v"]));
    while figure(&mut keeper, "tracking_total_keys") > 0 {}
    store.trouble.commits_wait.store(false, Ordering::SeqCst);
    assert_eq!(next(&mut target), "+OK\r\n");
    assert!(next(&mut target).starts_with('%'));
    assert_eq!(next(&mut target), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

#[test]
fn s5_who_becomes_another_tenants_is_told_in_the_place_of_that_ones_connections_alone() {
    let (weir, _) = start_at(&TestClock::new(), Settings::default());
    let mut target = connect(&weir, "bob");
    assert!(target.say("HELLO 3").starts_with('%'));
    let redirect = format!("CLIENT TRACKING ON REDIRECT {}", &target.say("CLIENT ID")[1..].trim_end());
    let change = |tenant: &str, keeper: &mut Client, key: &str| {
        keeper.say(&format!("GET {key}"));
        assert_eq!(connect(&weir, tenant).say(&format!("SET {key} v")), "+OK\r\n");
    };
    let told = |key: &str| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\n{key}\r\n");
    let [mut bob, mut ada] = ["bob", "ada"].map(|tenant| connect(&weir, tenant));
    assert_eq!(bob.say(&redirect), "+OK\r\n");
    change("bob", &mut bob, "bobs");
    assert_eq!(next(&mut target), told("bobs"));
    assert_eq!(target.say("AUTH ada ada-secret"), "+OK\r\n");
    assert_eq!(ada.say(&redirect), "+OK\r\n");
    change("bob", &mut bob, "bobs");
    change("ada", &mut ada, "adas");
    assert_eq!(next(&mut target), told("adas"));
    assert_eq!(target.say("PING"), "+PONG\r\n");
}

#[test]
fn who_loses_keys_to_a_smaller_table_is_told_at_once() {
    let weir = Running::start(Settings::default());
    let (mut keeper, mut other) = (weir.connect(), weir.connect());
    assert!(keeper.say("HELLO 3").starts_with('%'));
    assert_eq!(keeper.say("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(keeper.say("MGET a b"), "*2\r\n_\r\n_\r\n");
    assert_eq!(other.say("CONFIG SET tracking-table-max-keys 1"), "+OK\r\n");
    assert_eq!(next(&mut keeper), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
    assert_eq!(figure(&mut other, "tracking_total_keys"), 1);
}
