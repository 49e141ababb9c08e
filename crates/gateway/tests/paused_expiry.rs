//! `CLIENT PAUSE … EXPIRY`: for a while, nothing of a tenant's expires that had not expired at an earlier moment.

use weir_gateway::Settings;
use weir_io::Clock;
use weir_node::EngineKind;

use crate::support::TestClock;
use crate::support::world::World;

#[test]
fn commands_scripts_and_scans_agree_on_what_lives_while_expiry_is_paused() {
    let clock = TestClock::new();
    let world = World::new_at(clock.clone(), Settings { threads: 2, ..Settings::default() });
    for engine in EngineKind::ALL {
        let mut other = world.tenant_on(engine, &format!("other-{engine}"), 1, 0);
        let mut client = world.tenant_on(engine, &format!("paused-{engine}"), 2, 0);
        assert_eq!(other.say("SET k v EX 30"), "+OK\r\n");
        for line in ["SET kept v EX 30", "SET lost v EX 30", "HSET hash f v g v", "HEXPIRE hash 30 FIELDS 1 f"] {
            assert!(!client.say(line).starts_with('-'), "{line}");
        }
        let pause = format!("CLIENT PAUSE 60000 EXPIRY {}", clock.unix_ms());
        assert_eq!(client.say(&pause), "+OK\r\n");
        // It is asked for again and again.
        for _ in 0..20 {
            clock.advance(40);
            assert_eq!(client.say(&pause), "+OK\r\n");
        }
        assert_eq!(client.say("MGET kept"), "*1\r\n$1\r\nv\r\n", "on {engine}");
        assert_eq!(client.say("TTL kept"), ":0\r\n", "its time is over by the wall clock");
        assert_eq!(client.say("HGET hash f"), "$1\r\nv\r\n", "on {engine}");
        assert_eq!(client.say("DBSIZE"), ":3\r\n", "on {engine}");
        let script = "return redis.call('EXISTS', KEYS[1])";
        assert_eq!(client.ask(&["EVAL", script, "1", "kept"]), b":1\r\n", "on {engine}");
        assert_eq!(other.say("EXISTS k"), ":0\r\n", "another tenant is not concerned");
        // New times count from the wall clock. From the paused moment, this one would be over.
        assert_eq!(client.say("EXPIRE kept 400"), ":1\r\n", "on {engine}");
        assert_eq!(client.say("CLIENT PAUSE 0 EXPIRY 0"), "+OK\r\n");
        for (line, answer) in [("EXISTS kept", ":1\r\n"), ("EXISTS lost", ":0\r\n"), ("HGET hash f", "$-1\r\n")] {
            assert_eq!(client.say(line), answer, "{line} on {engine}");
        }
    }
}

#[test]
fn a_pause_of_expiry_is_short_and_is_no_pause_of_commands() {
    let clock = TestClock::new();
    let world = World::new_at(clock.clone(), Settings { threads: 2, ..Settings::default() });
    let mut client = world.tenant("t", 1, 0);
    for (line, answer) in [
        ("CLIENT PAUSE 60001 EXPIRY 1", "-ERR expiry is paused for at most 60000 milliseconds at a time\r\n"),
        ("CLIENT PAUSE 1000 EXPIRY -1", "-ERR the moment is negative\r\n"),
        ("CLIENT PAUSE -1 EXPIRY 1", "-ERR timeout is negative\r\n"),
        ("CLIENT PAUSE 1000 EXPIRY", "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n"),
        ("SET k v EX 30", "+OK\r\n"),
        ("CLIENT PAUSE 60000 EXPIRY 1", "+OK\r\n"),
    ] {
        assert_eq!(client.say(line), answer, "{line}");
    }
    clock.advance(40);
    assert_eq!(client.say("EXISTS k"), ":1\r\n");
    assert_eq!(client.say("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(client.say("EXISTS k"), ":1\r\n", "that was about commands");
    clock.advance(60);
    assert_eq!(client.say("EXISTS k"), ":0\r\n", "nobody has asked for a longer pause");
}
