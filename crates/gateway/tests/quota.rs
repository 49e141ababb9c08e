//! Capacity units over loopback: what is charged, which commands wait, which are refused, and who notices.

use crate::support::world::{World, name};
use crate::support::{Client, Running, encode};
use weir_gateway::Settings;
use weir_node::{OnLimit, Unit, UnitLimits};

/// So slow that nothing comes back while a test runs, except what the test lets pass itself.
const ONE_A_SECOND: UnitLimits = UnitLimits {
    rcu: 1,
    wcu: 1,
    ru: 0,
    spare: false,
    burst_seconds: 0,
    on_limit: OnLimit::Delay { max_ms: 1_000_000 },
};

fn start(limits: UnitLimits) -> (Running, Client) {
    let weir = Running::start(Settings::default());
    weir.store.quota.set_limits(&limits);
    let client = weir.connect();
    (weir, client)
}

/// A value that costs 20 write units: the debt is paid before a client's time limit is over.
fn twenty() -> String {
    "v".repeat(20 * 1024 - 1)
}

#[test]
fn every_command_is_charged_what_it_read_and_wrote() {
    let plenty = UnitLimits { rcu: 1_000_000, wcu: 1_000_000, ..UnitLimits::default() };
    let (weir, mut client) = start(plenty);
    let (four, large) = ("v".repeat(4096), "v".repeat(10_000));
    for (args, reads, writes) in [
        (&["GET", "none"][..], 1, 0),
        (&["SET", "a", "1"], 0, 1),
        (&["SCAN", "0"], 1, 0),
        (&["SET", "four", &four], 0, 5),
        (&["SET", "large", &large, "EX", "100"], 0, 10),
        (&["GET", "four"], 1, 0),
        (&["GET", "large"], 3, 0),
        (&["STRLEN", "large"], 3, 0),
        (&["MGET", "a", "four", "large", "none"], 6, 0),
        (&["EXISTS", "a", "none"], 2, 0),
        (&["OBJECT", "ENCODING", "large"], 3, 0),
        (&["OBJECT", "IDLETIME", "none"], 1, 0),
        (&["MEMORY", "USAGE", "large"], 3, 0),
        (&["OBJECT", "HELP"], 0, 0),
        (&["MEMORY", "DOCTOR"], 0, 0),
        // The value is written anew; reading the old one beyond 4 KiB is paid for.
        (&["APPEND", "large", "v"], 2, 10),
        (&["INCR", "n"], 0, 1),
        (&["SETNX", "a", &four], 0, 1),
        (&["DEL", "a", "none", "n"], 0, 3),
        (&["MSET", "x", "1", "y", &four], 0, 6),
        // By now there are 18 KB, because values lie beside their keys and are read with them.
        (&["SCAN", "0"], 5, 0),
        (&["DBSIZE"], 5, 0),
        (&["PING"], 0, 0),
        // A script costs what its commands do; one that only reads is not free.
        (&["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", "s", "1"], 0, 1),
        (&["EVAL", "return redis.call('get', 'large')", "0"], 3, 0),
        (&["EVAL", "for i = 1, 5 do redis.call('get', 's') end", "1", "s"], 5, 0),
        (&["EVAL", "return 1", "0"], 0, 0),
        // `INFO` counts keys, and does not wait for that.
        (&["INFO"], 5, 0),
        (&["INFO", "server"], 0, 0),
        (&["GET"], 0, 0),
        (&["NOSUCH"], 0, 0),
    ] {
        let before = Unit::ALL.map(|unit| weir.store.quota.stats(unit).units);
        client.ask(args);
        // The reply is sent after the command was settled.
        let after = Unit::ALL.map(|unit| weir.store.quota.stats(unit).units);
        assert_eq!([after[0] - before[0], after[1] - before[1]], [reads, writes], "{}", args[0]);
    }
}

#[test]
fn in_a_pipeline_a_refused_command_fails_alone_and_the_order_holds() {
    let (weir, mut client) = start(UnitLimits { on_limit: OnLimit::Refuse, ..ONE_A_SECOND });
    let value = twenty();
    let requests: [&[&str]; 6] =
        [&["SET", "a", &value], &["SET", "b", "2"], &["PING"], &["GET", "a"], &["INCR", "b"], &["ECHO", "end"]];
    let bytes: Vec<u8> = requests.iter().flat_map(|args| encode(args)).collect();
    client.send(&bytes);
    assert_eq!(client.reply(), b"+OK\r\n");
    let refusal = |reply: Vec<u8>| {
        let text = String::from_utf8(reply).expect("text");
        let rest = text.strip_prefix("-THROTTLED retry_in_ms=").unwrap_or_else(|| panic!("{text}"));
        let (ms, reason) = rest.split_once(' ').expect("two words");
        assert_eq!(reason, "reason=tenant_wcu\r\n");
        assert!((1..=21_000).contains(&ms.parse::<u32>().expect("a number")), "{text}");
    };
    refusal(client.reply());
    assert_eq!(client.reply(), b"+PONG\r\n");
    assert_eq!(client.reply().len(), value.len() + "$20479\r\n\r\n".len());
    refusal(client.reply());
    assert_eq!(client.reply(), b"$3\r\nend\r\n");
    assert_eq!(weir.store.quota.stats(Unit::Write).refused, 2);
    weir.clock.advance(25);
    assert_eq!(client.say("EXISTS b"), ":0\r\n", "it did nothing");
    assert_eq!(client.say("SET b 2"), "+OK\r\n");
}

#[test]
fn a_delayed_command_holds_up_its_own_connection_and_nobody_else() {
    let (weir, mut slow) = start(ONE_A_SECOND);
    weir.clock.freeze();
    let mut other = weir.connect();
    let value = twenty();
    let requests: [&[&str]; 4] = [&["SET", "a", &value], &["ECHO", "before"], &["SET", "b", "2"], &["ECHO", "behind"]];
    let bytes: Vec<u8> = requests.iter().flat_map(|args| encode(args)).collect();
    slow.send(&bytes);
    // The commands before are answered while the third waits.
    assert_eq!(slow.reply(), b"+OK\r\n");
    assert_eq!(slow.reply(), b"$6\r\nbefore\r\n");
    while weir.store.quota.waiting(Unit::Write) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(other.say("PING"), "+PONG\r\n");
    assert_eq!(other.say("EXISTS b"), ":0\r\n");
    assert_eq!(weir.store.quota.waiting(Unit::Write), 1);
    weir.clock.advance(25);
    assert_eq!(slow.reply(), b"+OK\r\n");
    assert_eq!(slow.reply(), b"$6\r\nbehind\r\n");
    let stats = weir.store.quota.stats(Unit::Write);
    assert_eq!((stats.admitted, stats.delayed, stats.refused), (2, 1, 0));
    assert!(stats.delayed_ns > 15_000_000_000, "{stats:?}");
    // The operator is told of the reply that came late, and of the reason.
    let slow = weir.slow_reply_that_waited(1, "set");
    let [quota, others @ ..] = slow.waited;
    assert!(quota > 15_000_000_000 && slow.micros > 15_000_000, "{slow:?}");
    assert_eq!((others.iter().sum::<u64>(), slow.replies), (0, 2), "{slow:?}");
}

#[test]
fn limits_turned_off_let_those_who_wait_go() {
    let (weir, mut client) = start(ONE_A_SECOND);
    assert_eq!(client.ask(&["SET", "a", &twenty()]), b"+OK\r\n");
    client.send(&encode(&["INCR", "n"]));
    while weir.store.quota.waiting(Unit::Write) == 0 {
        std::thread::yield_now();
    }
    weir.store.quota.set_limits(&UnitLimits::default());
    assert_eq!(client.reply(), b":1\r\n");
}

#[test]
fn what_reads_a_key_waits_its_turn_under_whatever_name() {
    let (weir, mut client) = start(UnitLimits { on_limit: OnLimit::Refuse, ..ONE_A_SECOND });
    weir.clock.freeze();
    assert_eq!(client.ask(&["SET", "large", &twenty()]), b"+OK\r\n");
    assert!(client.say("GET large").starts_with('$'));
    for question in ["STRLEN large", "OBJECT ENCODING large", "MEMORY USAGE large"] {
        let reply = client.say(question);
        assert!(reply.starts_with("-THROTTLED "), "{question}: {reply}");
    }
    for free in ["OBJECT HELP", "MEMORY DOCTOR", "MEMORY STATS"] {
        assert!(client.say(free).starts_with(['*', '$']), "{free}");
    }
}

/// Twenty values of a megabyte.
fn fill(client: &mut Client) {
    let value = "v".repeat(1 << 20);
    (0..20).for_each(|i| assert_eq!(client.ask(&["SET", &format!("k{i:02}"), &value]), b"+OK\r\n"));
}

#[test]
fn going_through_keys_costs_the_values_beside_them_and_waits_between_the_pages() {
    let (weir, mut client) = start(UnitLimits { rcu: 1_000_000, ..UnitLimits::default() });
    fill(&mut client);
    let units = || weir.store.quota.stats(Unit::Read).units;
    let before = units();
    assert_eq!(client.say("DBSIZE"), ":20\r\n");
    assert!((20 * 256..21 * 257).contains(&(units() - before)), "{}", units() - before);
    let before = units();
    assert!(client.say("SCAN 0 COUNT 1000").starts_with("*2\r\n"));
    assert!((256..600).contains(&(units() - before)), "one call passes a megabyte: {}", units() - before);
    // With a few units a second the command goes on as they come, and is not refused in the middle.
    let limits = UnitLimits { rcu: 100, on_limit: OnLimit::Refuse, ..UnitLimits::default() };
    weir.store.quota.set_limits(&limits);
    weir.clock.advance(10);
    weir.clock.freeze();
    client.send(&encode(&["DBSIZE"]));
    let counted = || weir.store.scanned_bytes.load(std::sync::atomic::Ordering::Relaxed);
    let from = counted();
    client.stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a socket");
    assert!(client.stream.peek(&mut [0]).is_err(), "it waits");
    assert!(counted() - from < 4 << 20, "{} bytes at once", counted() - from);
    client.stream.set_read_timeout(Some(std::time::Duration::from_millis(5))).expect("a socket");
    let mut seconds = 0;
    while client.stream.peek(&mut [0]).is_err() {
        weir.clock.advance(1);
        seconds += 1;
    }
    assert!(seconds > 10, "{seconds} seconds");
    client.stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a socket");
    assert_eq!(client.reply(), b":20\r\n");
}

#[test]
fn going_through_short_entries_costs_a_unit_for_ten_of_them() {
    let (weir, mut client) = start(UnitLimits { rcu: 1_000_000, ..UnitLimits::default() });
    let value = "v".repeat(300);
    (0..100).for_each(|i| assert_eq!(client.ask(&["SET", &format!("k{i:02}"), &value]), b"+OK\r\n"));
    for (question, units) in [("SCAN 0", 1), ("SCAN 0 COUNT 50", 5), ("DBSIZE", 10), ("KEYS k9*", 10)] {
        let before = weir.store.quota.stats(Unit::Read).units;
        client.say(question);
        assert_eq!(weir.store.quota.stats(Unit::Read).units - before, units, "{question}");
    }
}

#[test]
fn info_counts_what_is_cheap_and_remembers_the_rest() {
    let (weir, mut client) = start(UnitLimits { rcu: 1_000_000, ..UnitLimits::default() });
    weir.clock.freeze();
    let scanned = || weir.store.scanned_bytes.load(std::sync::atomic::Ordering::Relaxed);
    let mut keys = || {
        let before = scanned();
        let text = client.say("INFO keyspace");
        let keys = text
            .split_once("db0:keys=")
            .map_or(0, |(_, rest)| rest.split(',').next().and_then(|keys| keys.parse().ok()).unwrap_or(0));
        (keys, scanned() - before)
    };
    let mut writer = weir.connect();
    writer.say("MSET a 1 b 2");
    assert_eq!(keys().0, 2);
    writer.say("DEL a");
    assert_eq!(keys().0, 1, "what is cheap is always right");
    writer.say("DEL b");
    fill(&mut writer);
    let (some, bytes) = keys();
    assert!((1..20).contains(&some) && bytes <= 5 << 18, "{some} keys, {bytes} bytes");
    assert_eq!(keys(), (some, 0), "remembered");
    weir.clock.advance(11);
    assert!(keys().1 > 0);
    weir.clock.advance(11);
    weir.store.is_asleep.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(keys(), (some, 0), "nobody is woken");
    weir.store.is_asleep.store(false, std::sync::atomic::Ordering::Relaxed);
    // Without units it shows what it knows, and neither waits nor is refused.
    weir.store.quota.set_limits(&UnitLimits { on_limit: OnLimit::Refuse, ..ONE_A_SECOND });
    while !writer.say("GET none").starts_with("-THROTTLED") {}
    assert_eq!(keys(), (some, 0));
    weir.store.quota.set_limits(&UnitLimits::default());
    writer.say("FLUSHALL");
    assert_eq!(keys().0, 0);
}

#[test]
fn random_keys_are_not_looked_for_through_gigabytes() {
    let (weir, mut client) = start(UnitLimits::default());
    fill(&mut client);
    for _ in 0..5 {
        let before = weir.store.scanned_bytes.load(std::sync::atomic::Ordering::Relaxed);
        assert!(client.say("RANDOMKEY").starts_with("$3\r\nk"));
        let passed = weir.store.scanned_bytes.load(std::sync::atomic::Ordering::Relaxed) - before;
        assert!(passed <= 6 << 20, "{passed} bytes");
    }
}

/// Prometheus takes a counter that falls for one that began anew, and adds all of it once more.
#[test]
fn a_counter_of_units_does_not_fall_when_units_are_given_back() {
    let world = World::new();
    drop(world.tenant("shop", 1, 0));
    let tenant = world.node.tenant(&name("shop")).expect("there");
    let quota = tenant.quota();
    quota.set_limits(&UnitLimits { wcu: 100, ..UnitLimits::default() });
    let counted = || {
        let metrics = world.metrics();
        let sample = metrics
            .lines()
            .find_map(|line| line.strip_prefix("weir_tenant_units_total{tenant=\"shop\",unit=\"write\"} "));
        sample.expect("a sample").parse::<u64>().expect("a whole number")
    };
    assert!(quota.try_admit(Unit::Write, 7));
    assert_eq!(counted(), 7);
    quota.refund(Unit::Write, 5);
    assert_eq!((counted(), quota.stats(Unit::Write).units), (7, 2));
    assert!(quota.try_admit(Unit::Write, 4));
    assert_eq!(counted(), 7);
    assert!(quota.try_admit(Unit::Write, 3));
    assert_eq!((counted(), quota.stats(Unit::Write).units), (9, 9), "what was given back is deducted");
}
