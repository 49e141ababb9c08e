//! What scripts may do to others, and others to them. Their results are tested in `families`.

use weir_gateway::Settings;

use crate::support::world::World;
use crate::support::{Client, Running, TestClock, encode};

fn send(client: &mut Client, words: &[&str]) {
    client.send(&encode(words));
}

/// Repeats `SCRIPT KILL` until a script of the tenant runs, which this ends.
fn kill(client: &mut Client) {
    while client.say("SCRIPT KILL").starts_with("-NOTBUSY") {
        std::thread::yield_now();
    }
}

#[test]
fn a_script_that_is_killed_has_written_nothing_and_held_up_nobody() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    let mut eve = world.tenant("eve", 1, 0);
    for end in ["while true do end", "while true do pcall(function() while true do end end) end"] {
        let script = format!("redis.call('set', KEYS[1], 'half') redis.call('incr', 'n') {end}");
        send(&mut client, &["EVAL", &script, "1", "k"]);
        // Scripts of other tenants are served, and commands of its own tenant about other rows.
        assert_eq!(eve.ask(&["EVAL", "return redis.call('incr', 'n')", "0"]).first(), Some(&b':'));
        assert_eq!(other.say("SET elsewhere x"), "+OK\r\n");
        assert_eq!(eve.say("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.\r\n", "another tenant's");
        kill(&mut other);
        let reply = String::from_utf8_lossy(&client.reply()).into_owned();
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{reply}");
        assert_eq!(client.say("EXISTS k n"), ":0\r\n");
    }
}

#[test]
fn what_a_script_writes_is_bounded() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    for endless in [
        "local v = string.rep('v', 1000000) while true do redis.call('append', KEYS[1], v) end",
        "local v = string.rep('v', 1000000) while true do redis.pcall('publish', 'c', v) end",
        "local v = string.rep('v', 1000000) local i = 0 while true do i = i + 1 redis.call('hset', KEYS[1], i, v) end",
    ] {
        let reply = String::from_utf8_lossy(&client.ask(&["EVAL", endless, "1", "k"])).into_owned();
        assert!(reply.contains("more than 64 MB"), "{endless}: {reply}");
        assert_eq!(client.say("EXISTS k"), ":0\r\n");
    }
}

#[test]
fn what_a_script_asks_for_is_bounded() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    let asks = "local k = string.rep('k', 60000) redis.call('set', KEYS[1], 'half') \
                for i = 1, tonumber(ARGV[1]) do redis.call('exists', k .. i) end return 'done'";
    let reply = String::from_utf8_lossy(&client.ask(&["EVAL", asks, "1", "a", "3000"])).into_owned();
    assert!(reply.contains("more than 64 MB of keys"), "{reply}");
    assert_eq!(client.say("EXISTS a"), ":0\r\n");
    // Neither is the rest of a transaction run on rows that are not locked.
    let lines = ["MULTI".to_owned(), "SET b 1".to_owned()];
    lines.iter().for_each(|line| assert!(client.say(line).starts_with('+')));
    assert_eq!(client.ask(&["EVAL", "return redis.call('incr', 'other')", "0"]), b"+QUEUED\r\n");
    assert_eq!(client.ask(&["EVAL", asks, "1", "a", "3000"]), b"+QUEUED\r\n");
    let reply = client.say("EXEC");
    assert!(reply.starts_with("*3\r\n+OK\r\n:1\r\n-ERR the script asks for more than 64 MB"), "{reply}");
    assert_eq!(client.say("MGET b other a"), "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n");
    assert_eq!(client.ask(&["EVAL", asks, "1", "a", "10"]), b"$4\r\ndone\r\n");
}

#[test]
fn what_a_script_makes_others_hear_is_bounded() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    assert_eq!(client.say("CLIENT TRACKING ON"), "+OK\r\n");
    let reads = "redis.call('set', KEYS[1], 'half') for i = 1, 1500 do redis.call('get', KEYS[2]) end";
    let reply = String::from_utf8_lossy(&client.ask(&["EVAL", reads, "2", "a", &"k".repeat(60_000)])).into_owned();
    assert!(reply.contains("more than 64 MB"), "{reply}");
    assert_eq!(client.say("EXISTS a"), ":0\r\n");
}

#[test]
fn s12_what_the_scripts_of_a_transaction_keep_is_bounded() {
    // On a busy machine the scripts would take longer than they may.
    let world = World::new_at(TestClock::new(), Settings { threads: 2, ..Settings::default() });
    let mut client = world.tenant("t", 1, 0);
    // Each of them keeps 60 MB, so five of them have more than 256 MiB together.
    let publishes = "local m = string.rep('m', 1000000) for i = 1, 60 do redis.call('publish', 'c', m) end";
    // The keys differ from the beginning on: to compare long ones that differ at the end takes long.
    let asks = "local k, keys = string.rep('k', 60000), {} for i = 1, 1000 do keys[i] = i .. ARGV[1] .. k end \
                redis.call('exists', unpack(keys))";
    for script in [publishes, asks] {
        assert_eq!([client.say("MULTI"), client.say("SET a 1")], ["+OK\r\n", "+QUEUED\r\n"]);
        for number in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(client.ask(&["EVAL", script, "0", number]), b"+QUEUED\r\n");
        }
        let reply = client.say("EXEC");
        assert!(reply.starts_with("-ERR the transaction writes more than 256 MB at once, or "), "{script}: {reply}");
        assert_eq!(client.say("EXISTS a"), ":0\r\n");
    }
    // Keys that all of them ask for are kept once.
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    for _ in 0..6 {
        assert_eq!(client.ask(&["EVAL", asks, "0", "a"]), b"+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), format!("*6\r\n{}", "$-1\r\n".repeat(6)));
}

/// The words of a script have the limits of a client's words.
#[test]
fn a_script_may_ask_for_no_more_than_a_client() {
    let mut settings = Settings { threads: 2, ..Settings::default() };
    settings.limits.bulk_bytes_max = 100_000;
    let world = World::new_at(TestClock::new(), settings);
    let mut client = world.tenant("t", 1, 0);
    for (script, part) in [
        ("return redis.call('set', KEYS[1], string.rep('v', 100001))", "string exceeds maximum allowed size"),
        ("return redis.call('publish', string.rep('c', 65537), 'm')", "channel exceeds maximum allowed size"),
        (
            "local t = {} for i = 1, 2100 do t[i] = 'x' end return redis.call('set', 'k', unpack(t))",
            "at most 2048 words",
        ),
    ] {
        let reply = String::from_utf8_lossy(&client.ask(&["EVAL", script, "1", "k"])).into_owned();
        assert!(reply.contains(part), "{script}: {reply}");
    }
    assert_eq!(client.say("EXISTS k"), ":0\r\n");
}

/// A key that is longer than any that exists is looked for in vain, as it is without a script.
#[test]
fn a_script_finds_nothing_where_no_key_can_be() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    let long = "k".repeat((64 << 10) + 1);
    let reads = "return{redis.call('get',KEYS[1]),redis.call('exists',KEYS[1],KEYS[2]),redis.call('hget',KEYS[1],'f')}";
    assert_eq!(client.say("SET k v"), "+OK\r\n");
    assert_eq!(client.ask(&["EVAL", reads, "2", &long, "k"]), b"*3\r\n$-1\r\n:1\r\n$-1\r\n");
    let writes = "return redis.call('set',KEYS[1],'v')";
    let refused = String::from_utf8_lossy(&client.ask(&["EVAL", writes, "1", &long])).into_owned();
    assert!(refused.starts_with("-ERR key exceeds maximum allowed size"), "{refused}");
}

#[test]
fn whoever_goes_takes_the_script_along() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    send(&mut client, &["EVAL", "redis.call('set', KEYS[1], 'x') while true do end", "1", "k"]);
    kill(&mut other);
    drop(client);
    // The script's rows are unlocked.
    assert_eq!(other.say("SET k y"), "+OK\r\n");
    assert_eq!(other.say("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.\r\n");
}

#[test]
fn scripts_that_are_kept_belong_to_one_tenant() {
    let world = World::new();
    let (mut ada, mut eve) = (world.tenant("ada", 1, 0), world.tenant("eve", 1, 0));
    ada.ask(&["SCRIPT", "LOAD", "return 1"]);
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(ada.say(&format!("EVALSHA {digest} 0")), ":1\r\n");
    assert_eq!(eve.say(&format!("SCRIPT EXISTS {digest}")), "*1\r\n:0\r\n");
    assert!(eve.say(&format!("EVALSHA {digest} 0")).starts_with("-NOSCRIPT"));
    eve.say("SCRIPT FLUSH");
    assert_eq!(ada.say(&format!("EVALSHA {digest} 0")), ":1\r\n");
}

/// Many clients add to the same rows by scripts that find their keys as they run: each script has its effect once.
#[test]
fn scripts_are_one_after_the_other_on_the_rows_that_they_find() {
    const EACH: i64 = 60;
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    for line in ["SET which counter", "SET counter 0"] {
        client.say(line);
    }
    let script =
        "local k = redis.call('get', 'which') local n = redis.call('get', k) return redis.call('set', k, n + 1)";
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut client = world.connect("t");
            scope.spawn(move || {
                for _ in 0..EACH {
                    assert_eq!(client.ask(&["EVAL", script, "0"]), b"+OK\r\n");
                }
            });
        }
    });
    assert_eq!(client.say("INCRBY counter 0"), format!(":{}\r\n", 3 * EACH));
}

#[test]
fn keys_of_other_slots_and_ever_new_keys_are_refused() {
    let world = World::new();
    let mut client = world.tenant("t", 4, 0);
    let set = "return redis.call('set', ARGV[1], 'x')";
    assert_eq!(client.ask(&["EVAL", set, "1", "{a}1", "{a}2"]), b"+OK\r\n");
    let reply = String::from_utf8_lossy(&client.ask(&["EVAL", set, "1", "a", "b"])).into_owned();
    assert_eq!(reply, "-ERR Script attempted to access a non local key in a cluster node\r\n");
    assert!(client.ask(&["EVAL", "return 1", "2", "a", "b"]).starts_with(b"-CROSSSLOT"));
    assert_eq!(client.say("EXISTS b"), ":0\r\n");
    let mut single = world.tenant("single", 1, 0);
    let grows = "redis.call('incr', 'n') local n = redis.call('get', 'n') \
                 for i = 1, 3 do redis.call('set', redis.sha1hex(math.random() .. n), 'x') end return 1";
    assert_eq!(single.ask(&["EVAL", grows, "0"]), b":1\r\n", "chance is the same whenever it is run again");
}

#[test]
fn messages_of_a_script_are_sent_when_it_has_ended_well() {
    let world = World::new();
    let (mut client, mut listener) = (world.tenant("t", 1, 0), world.connect("t"));
    listener.say("SUBSCRIBE news");
    let publish = "redis.call('set', 'k', 'v') return redis.call('publish', 'news', redis.call('get', 'k'))";
    assert_eq!(client.ask(&["EVAL", publish, "0"]), b":1\r\n");
    assert_eq!(listener.reply(), encode_message("news", "v"));
}

fn encode_message(channel: &str, message: &str) -> Vec<u8> {
    encode(&["message", channel, message])
}

#[test]
fn a_script_in_a_transaction_belongs_to_it() {
    let world = World::new();
    let (mut client, mut other) = (world.tenant("t", 1, 0), world.connect("t"));
    let queue = |client: &mut Client, words: &[&str]| assert_eq!(client.ask(words), b"+QUEUED\r\n");
    // Each script sees what those in front of it have written, even under keys that it has not declared.
    client.say("MULTI");
    queue(&mut client, &["SET", "a", "1"]);
    queue(&mut client, &["EVAL", "return redis.call('incrby', 'a', ARGV[1])", "0", "5"]);
    queue(&mut client, &["EVAL", "return redis.call('nothing')", "0"]);
    queue(&mut client, &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"]);
    queue(&mut client, &["SELECT", "3"]);
    queue(&mut client, &["EVAL", "return redis.call('set', KEYS[1], 'three')", "1", "a"]);
    queue(&mut client, &["SELECT", "0"]);
    queue(&mut client, &["GET", "a"]);
    let reply = String::from_utf8_lossy(&client.ask(&["EXEC"])).into_owned();
    let (front, behind) = (reply.find("*8\r\n+OK\r\n:6\r\n-ERR Unknown Redis command"), reply.find("-NOSCRIPT"));
    assert!(front == Some(0) && behind.is_some() && reply.ends_with("+OK\r\n+OK\r\n+OK\r\n$1\r\n6\r\n"), "{reply}");
    // A watched key was changed, so nothing is run.
    client.say("WATCH a");
    other.say("SET a 2");
    client.say("MULTI");
    queue(&mut client, &["EVAL", "return redis.call('incr', 'a')", "0"]);
    assert_eq!(client.say("EXEC"), "*-1\r\n");
    // A script that has to leave takes the whole transaction along, once.
    client.say("MULTI");
    queue(&mut client, &["INCR", "a"]);
    queue(&mut client, &["EVAL", "for i = 1, 1000000 do end return redis.call('incr', 'a')", "1", "a"]);
    queue(&mut client, &["INCR", "a"]);
    assert_eq!(client.say("EXEC"), "*3\r\n:3\r\n:4\r\n:5\r\n");
    // A script that is killed has written nothing, and the others have.
    client.say("MULTI");
    queue(&mut client, &["INCR", "a"]);
    queue(&mut client, &["EVAL", "redis.call('set', 'a', 'gone') while true do end", "1", "a"]);
    queue(&mut client, &["INCR", "a"]);
    send(&mut client, &["EXEC"]);
    kill(&mut other);
    let reply = String::from_utf8_lossy(&client.reply()).into_owned();
    assert!(reply.starts_with("*3\r\n:6\r\n-ERR Script killed by user") && reply.ends_with(":7\r\n"), "{reply}");
}

/// A command that goes through all keys may do so within a script, too, and meets what the script has written.
#[test]
fn a_script_goes_through_all_keys_with_its_own_among_them() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    assert_eq!(client.say("MSET a 1 b 2 c 3"), "+OK\r\n");
    let script = "redis.call('del', 'b') redis.call('rpush', 'd', 1) redis.call('set', 'e', 1) \
                  redis.call('select', 1) redis.call('set', 'other', 1) redis.call('select', 0) \
                  local keys, next, lists = redis.call('keys', '*'), '0', {} \
                  repeat \
                    local page = redis.call('scan', next, 'count', 2, 'type', 'list') \
                    next = page[1] \
                    for _, key in ipairs(page[2]) do table.insert(lists, key) end \
                  until next == '0' \
                  return {table.concat(keys, ' '), table.concat(lists, ' '), redis.call('dbsize'), \
                          redis.call('randomkey') ~= 'b'}";
    let mut told = client.ask(&["EVAL", script, "3", "b", "d", "e"]);
    assert_eq!(String::from_utf8_lossy(&told), "*4\r\n$7\r\na c d e\r\n$1\r\nd\r\n:4\r\n:1\r\n");
    told = client.ask(&["EVAL", "return #redis.call('keys', '*')", "0"]);
    assert_eq!(String::from_utf8_lossy(&told), ":4\r\n");
    let mut spread = world.tenant("spread", 2, 0);
    let told = spread.ask(&["EVAL", "return redis.call('keys', '*')", "0"]);
    assert!(told.starts_with(b"-ERR This Redis command is not allowed from script"), "{}", told.escape_ascii());
}

#[test]
fn a_script_asks_for_the_memory_usage_of_keys_that_it_has_written_or_not_declared() {
    let world = World::new();
    let mut client = world.tenant("t", 1, 0);
    assert_eq!(client.say("SET other 1"), "+OK\r\n");
    let script = "redis.call('hset', KEYS[1], 'f', string.rep('v', 50000)) \
                  return {redis.call('memory', 'usage', KEYS[1]) > 50000, \
                          redis.call('MEMORY', 'USAGE', 'other', 'SAMPLES', 5), \
                          redis.call('memory', 'usage', 'none')}";
    let told = client.ask(&["EVAL", script, "1", "h"]);
    assert_eq!(String::from_utf8_lossy(&told), "*3\r\n:1\r\n:70\r\n$-1\r\n");
    let told = client.ask(&["EVAL_RO", "return redis.call('memory', 'usage', KEYS[1])", "1", "other"]);
    assert_eq!(String::from_utf8_lossy(&told), ":70\r\n");
}

#[test]
fn a_subcommand_that_does_not_exist_is_an_unknown_command_to_scripts() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for (script, front) in [
        ("return redis.call('xgroup','nosuch','k','g')", "-ERR Unknown Redis command called from script"),
        ("return redis.call('config','nosuch')", "-ERR Unknown Redis command called from script"),
        ("return redis.call('xgroup','create','k')", "-ERR Wrong number of args calling Redis command"),
        ("return redis.call('object','encoding','k')", "$-1\r\n"),
        ("return redis.call('memory','usage')", "-ERR Wrong number of args calling Redis command"),
        ("return redis.call('pubsub','nosuch')", "-ERR Unknown Redis command called from script"),
        ("return redis.call('memory','stats')", "-ERR This Redis command is not allowed from script"),
        ("return redis.acl_check_cmd('config','nosuch')", "-ERR Invalid command passed to redis.acl_check_cmd()"),
        ("return redis.acl_check_cmd('config','get','x')", ":1\r\n"),
    ] {
        let told = client.ask(&["EVAL", script, "0"]);
        assert!(told.starts_with(front.as_bytes()), "{script}: {}", told.escape_ascii());
    }
}

#[test]
fn a_script_asks_how_many_listen() {
    let weir = Running::start(Settings::default());
    let (mut client, mut listener) = (weir.connect(), weir.connect());
    for words in ["SUBSCRIBE c", "PSUBSCRIBE p*", "SSUBSCRIBE s"] {
        listener.say(words);
    }
    let script = "return {redis.call('pubsub', 'numsub', 'c', 'd'), redis.call('PUBSUB', 'SHARDNUMSUB', 's'), \
                  redis.call('pubsub', 'numpat'), redis.call('lastsave') > 1000000000}";
    let told = client.ask(&["EVAL_RO", script, "0"]);
    let counts = "*4\r\n*4\r\n$1\r\nc\r\n:1\r\n$1\r\nd\r\n:0\r\n*2\r\n$1\r\ns\r\n:1\r\n:1\r\n:1\r\n";
    assert_eq!(String::from_utf8_lossy(&told), counts);
    let refused = client.ask(&["EVAL", "return redis.call('pubsub', 'channels')", "0"]);
    assert!(refused.starts_with(b"-ERR This Redis command is not allowed from script"), "{}", refused.escape_ascii());
}

#[test]
fn a_script_that_may_write_is_not_run_as_one_that_only_reads() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    let refused = b"-ERR Can not execute a script with write flag using *_ro command.\r\n";
    for (first, answer) in [("", &b":1\r\n"[..]), ("#!lua\n", refused), ("#!lua flags=no-writes\n", b":1\r\n")] {
        let script = format!("{first}return 1");
        assert_eq!(client.ask(&["EVAL", &script, "0"]), b":1\r\n", "{script}");
        assert_eq!(client.ask(&["EVAL_RO", &script, "0"]), answer, "{script}");
        let loaded = String::from_utf8_lossy(&client.ask(&["SCRIPT", "LOAD", &script])).into_owned();
        let digest = loaded.lines().nth(1).expect("a digest");
        assert_eq!(client.ask(&["EVALSHA_RO", digest, "0"]), answer, "{script}");
    }
    let unknown = "0".repeat(40);
    assert_eq!(client.ask(&["EVALSHA", &unknown, "x"]), b"-ERR value is not an integer or out of range\r\n");
    assert!(client.ask(&["EVALSHA", &unknown, "0"]).starts_with(b"-NOSCRIPT"));
    assert!(client.ask(&["EVALSHA", "abc", "x"]).starts_with(b"-NOSCRIPT"));
}

#[test]
fn script_flush_takes_one_of_two_words() {
    let weir = Running::start(Settings::default());
    let mut client = weir.connect();
    for line in ["SCRIPT FLUSH SYNC ASYNC", "SCRIPT FLUSH now"] {
        assert_eq!(client.say(line), "-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n", "{line}");
    }
    assert_eq!(client.say("SCRIPT FLUSH async"), "+OK\r\n");
}

/// Time stands still for a script, however long it takes.
#[test]
fn a_key_that_expires_while_a_script_sleeps_is_there_until_the_script_ends() {
    let weir = Running::start(Settings { allow_debug: true, ..Settings::default() });
    let mut client = weir.connect();
    let script = "redis.call('SET', KEYS[1], 'v', 'PX', 1) redis.call('DEBUG', 'SLEEP', 0.005) \
                  return redis.call('EXISTS', KEYS[1])";
    let refused = client.ask(&["EVAL", script, "1", "k"]);
    assert!(refused.starts_with(b"-ERR This Redis command is not allowed from script"), "{}", refused.escape_ascii());
    assert_eq!(client.say("DEBUG SET-DISABLE-DENY-SCRIPTS 1"), "+OK\r\n");
    assert_eq!(client.ask(&["EVAL", script, "1", "k"]), b":1\r\n");
    assert_eq!(client.say("EXISTS k"), ":0\r\n");
}
