//! Users of a tenant: what each of them may do, compared with a redis-server where that is the reference, and what
//! becomes of connections when rights change.

mod differential;
mod roles;

use weir_command::table::COMMANDS;

use crate::support::world::{TOKEN, World};
use crate::support::{Client, encode};

/// Sends each line, and checks its answer.
fn hold(client: &mut Client, lines: &[(&str, &str)]) {
    for (line, answer) in lines {
        assert_eq!(client.say(line), *answer, "{line}");
    }
}

/// A world with the tenant Ada, and her connection.
fn ada() -> (World, Client) {
    let world = World::new();
    let client = world.tenant("ada", 1, 0);
    (world, client)
}

/// A connection of a user.
fn user(world: &World, name: &str, password: &str) -> Client {
    let mut client = world.connect("ada");
    assert_eq!(client.say(&format!("AUTH {name} {password}")), "+OK\r\n");
    client
}

const NO_GET: &str = "-NOPERM this user has no permissions to run the 'get' command\r\n";
const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const NO_CHANNEL: &str = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn a_user_is_made_logs_in_and_lasts() {
    let (world, mut owner) = ada();
    hold(
        &mut owner,
        &[
            ("ACL WHOAMI", "$7\r\ndefault\r\n"),
            ("ACL SETUSER bob on >secret-one ~b:* +@all", "+OK\r\n"),
            ("ACL SETUSER eve on nopass +get (+set ~e:*)", "+OK\r\n"),
            ("ACL SETUSER off >secret-two +@all", "+OK\r\n"),
            ("ACL USERS", "*4\r\n$3\r\nbob\r\n$7\r\ndefault\r\n$3\r\neve\r\n$3\r\noff\r\n"),
            ("ACL SAVE", "+OK\r\n"),
            ("ACL LOAD", "+OK\r\n"),
            ("ACL SAVE x", "-ERR wrong number of arguments for 'acl|save' command\r\n"),
        ],
    );
    let list = owner.say("ACL LIST");
    assert!(list.contains("user bob on #") && list.contains(" ~b:* resetchannels +@all"), "{list}");
    assert!(!list.contains("secret"), "{list}");
    let world = world.again();
    let mut owner = world.connect("ada");
    assert_eq!(owner.say("ACL LIST"), list, "also after a restart");
    let mut bob = user(&world, "ada/bob", "secret-one");
    hold(
        &mut bob,
        &[
            ("ACL WHOAMI", "$3\r\nbob\r\n"),
            ("SET b:1 x", "+OK\r\n"),
            ("SET c:1 x", NO_KEY),
            ("AUTH ada/eve whatever", "+OK\r\n"),
            ("GET b:1", NO_KEY),
            ("SET e:1 x", "+OK\r\n"),
            ("AUTH ada/off secret-two", WRONG),
            ("AUTH ada/bob secret-two", WRONG),
            ("AUTH ada/nobody x", WRONG),
            ("AUTH bob secret-one", WRONG),
            ("AUTH nobody/bob secret-one", WRONG),
            ("ACL WHOAMI", "-NOPERM this user has no permissions to run the 'acl|whoami' command\r\n"),
        ],
    );
    assert!(bob.ask(&["HELLO", "2", "AUTH", "ada/bob", "secret-one"]).starts_with(b"*14"));
    assert_eq!(bob.ask(&[b"AUTH", &b"ada/default"[..], TOKEN]), b"+OK\r\n");
    assert_eq!(bob.say("ACL WHOAMI"), "$7\r\ndefault\r\n");
    assert!(owner.say("CLIENT LIST").contains(" user=default "));
}

#[test]
fn new_users_may_use_all_channels_if_the_tenant_says_so() {
    let (world, mut owner) = ada();
    hold(
        &mut owner,
        &[
            ("CONFIG GET acl-pubsub-default", "*2\r\n$18\r\nacl-pubsub-default\r\n$13\r\nresetchannels\r\n"),
            ("ACL SETUSER old on nopass +@all", "+OK\r\n"),
            ("CONFIG SET acl-pubsub-default AllChannels", "+OK\r\n"),
            ("CONFIG GET acl-pubsub-default", "*2\r\n$18\r\nacl-pubsub-default\r\n$11\r\nallchannels\r\n"),
            ("ACL SETUSER old +@all", "+OK\r\n"),
            ("ACL SETUSER bob on nopass +@all", "+OK\r\n"),
            ("ACL SETUSER sub on nopass resetchannels (+publish)", "+OK\r\n"),
            ("ACL SETUSER again resetchannels reset on nopass +@all", "+OK\r\n"),
            (
                "ACL SETUSER one &c",
                "-ERR Error in ACL SETUSER modifier '&c': Adding a pattern after the * pattern (or the 'allchannels' \
                 flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels\r\n",
            ),
            ("CONFIG SET acl-pubsub-default resetchannels", "+OK\r\n"),
            ("ACL SETUSER eve on nopass +@all", "+OK\r\n"),
        ],
    );
    assert!(owner.say("CONFIG SET acl-pubsub-default some").starts_with("-ERR CONFIG SET failed"));
    let world = world.again();
    for (name, answer) in
        [("old", NO_CHANNEL), ("bob", ":0\r\n"), ("sub", ":0\r\n"), ("again", ":0\r\n"), ("eve", NO_CHANNEL)]
    {
        assert_eq!(user(&world, &format!("ada/{name}"), "x").say("PUBLISH c hello"), answer, "{name}");
    }
}

#[test]
fn passwords_are_added_and_removed_as_they_are_and_as_they_are_shown() {
    let (world, mut owner) = ada();
    // The SHA-256 of "one".
    let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    hold(&mut owner, &[("ACL SETUSER bob on >one >two >one +@all", "+OK\r\n")]);
    let shown = owner.say("ACL LIST");
    assert!(!shown.contains(hash), "what is shown is not the SHA-256");
    assert_eq!(shown.matches(" #").count(), 3, "two, and the tenant's own: {shown}");
    hold(&mut owner, &[(&format!("ACL SETUSER bob !{hash}"), "+OK\r\n")]);
    let mut bob = world.connect("ada");
    hold(&mut bob, &[("AUTH ada/bob one", WRONG), ("AUTH ada/bob two", "+OK\r\n")]);
    hold(
        &mut owner,
        &[
            ("ACL SETUSER bob resetpass", "+OK\r\n"),
            (
                "ACL SETUSER bob <two",
                "-ERR Error in ACL SETUSER modifier '<': The password you are trying to remove from the user does not exist\r\n",
            ),
        ],
    );
    hold(&mut bob, &[("AUTH ada/bob two", WRONG)]);
    hold(&mut owner, &[(&format!("ACL SETUSER bob #{hash}"), "+OK\r\n")]);
    hold(&mut bob, &[("AUTH ada/bob one", "+OK\r\n")]);
    let shown = owner.say("ACL GETUSER bob");
    let digits = shown.lines().find(|line| line.len() == 64).expect("a password");
    hold(&mut owner, &[(&format!("ACL SETUSER bob !{digits}"), "+OK\r\n")]);
    hold(&mut bob, &[("AUTH ada/bob one", WRONG)]);
}

#[test]
fn the_user_that_the_tenant_is_cannot_be_changed() {
    let (_world, mut owner) = ada();
    for rule in ["off", "-get", "resetkeys", ">x", "nopass", "reset", "resetpass"] {
        let answer = owner.say(&format!("ACL SETUSER default {rule}"));
        assert!(answer.starts_with("-ERR the user 'default' is the tenant itself"), "{rule}: {answer}");
    }
    hold(
        &mut owner,
        &[
            ("ACL SETUSER default on ~* &* +@all", "+OK\r\n"),
            ("ACL DELUSER default", "-ERR The 'default' user cannot be removed\r\n"),
        ],
    );
}

#[test]
fn s7_a_change_counts_at_once_for_connections_that_are_open() {
    let (world, mut owner) = ada();
    hold(&mut owner, &[("ACL SETUSER bob on nopass ~* +@all", "+OK\r\n"), ("SET key v", "+OK\r\n")]);
    let mut bob = user(&world, "ada/bob", "x");
    hold(
        &mut bob,
        &[("GET key", "$1\r\nv\r\n"), ("MULTI", "+OK\r\n"), ("GET key", "+QUEUED\r\n"), ("DEL key", "+QUEUED\r\n")],
    );
    hold(&mut owner, &[("ACL SETUSER bob -get", "+OK\r\n")]);
    let told = bob.say("EXEC");
    assert!(told.starts_with("*2\r\n-NOPERM ACLs rules changed between") && told.ends_with(":1\r\n"), "{told}");
    hold(&mut bob, &[("GET key", NO_GET)]);
    // What stands behind a `SELECT` that is refused is done in the database that is still chosen.
    hold(&mut bob, &[("MULTI", "+OK\r\n"), ("SELECT 1", "+QUEUED\r\n"), ("APPEND where here", "+QUEUED\r\n")]);
    hold(&mut owner, &[("ACL SETUSER bob -select", "+OK\r\n")]);
    let told = bob.say("EXEC");
    assert!(told.starts_with("*2\r\n-NOPERM ACLs rules changed between") && told.ends_with(":4\r\n"), "{told}");
    hold(&mut owner, &[("GET where", "$4\r\nhere\r\n"), ("ACL SETUSER bob +select", "+OK\r\n")]);
    // A user who waits, and may not take what comes.
    bob.send(&encode(&["BLPOP", "list", "0"]));
    while !owner.say("CLIENT LIST").contains("flags=b") {}
    hold(&mut owner, &[("ACL SETUSER bob resetkeys ~other", "+OK\r\n"), ("RPUSH list x", ":1\r\n")]);
    assert_eq!(bob.reply(), NO_KEY.as_bytes());
    hold(&mut owner, &[("LLEN list", ":1\r\n")]);
    // A pipeline of writes that are run as one.
    bob.send(&[encode(&["INCR", "other"]), encode(&["INCR", "mine"]), encode(&["INCR", "other"])].concat());
    assert_eq!((bob.reply(), bob.reply(), bob.reply()), (b":1\r\n".to_vec(), NO_KEY.into(), b":2\r\n".to_vec()));
    hold(&mut owner, &[("EXISTS mine", ":0\r\n")]);
    // A deleted user is cut, whatever the connection is doing.
    hold(&mut owner, &[("ACL SETUSER bob ~other-list", "+OK\r\n")]);
    let mut other = user(&world, "ada/bob", "x");
    other.send(&encode(&["BLPOP", "other-list", "0"]));
    while !owner.say("CLIENT LIST").contains("flags=b") {}
    hold(&mut owner, &[("ACL DELUSER bob nobody bob", ":1\r\n")]);
    assert_eq!((bob.rest_or_pong(), other.rest_or_pong()), (Vec::new(), Vec::new()));
    hold(&mut owner, &[("PING", "+PONG\r\n")]);
}

#[test]
fn what_a_tenants_users_may_have_is_bounded() {
    let (_world, mut owner) = ada();
    let mut rules = vec!["ACL".to_owned(), "SETUSER".into(), "many".into()];
    rules.extend((0..2100).map(|number| format!("~{number}")));
    rules.truncate(2040);
    assert_eq!(owner.ask(&rules), b"+OK\r\n");
    let answer =
        owner.say(&format!("ACL SETUSER more {}", (0..20).map(|n| format!("~{n}")).collect::<Vec<_>>().join(" ")));
    assert!(answer.starts_with("-ERR the tenant's users have too many patterns"), "{answer}");
    let answer = owner.say(&format!("ACL SETUSER {} on", "x".repeat(70_000)));
    assert!(answer.starts_with("-ERR ACL SETUSER takes at most 65536 bytes"), "{answer}");
    hold(&mut owner, &[("ACL DELUSER many", ":1\r\n")]);
    for number in 0..256 {
        assert_eq!(owner.say(&format!("ACL SETUSER user-{number}")), "+OK\r\n");
    }
    let answer = owner.say("ACL SETUSER one-more");
    assert!(answer.starts_with("-ERR a tenant has at most 256 users"), "{answer}");
}

#[test]
fn s4_no_answer_and_no_log_shows_a_password() {
    let (_world, mut owner) = ada();
    owner.say("CONFIG SET slowlog-log-slower-than 0");
    for line in [
        "ACL SETUSER bob on >canary-one <canary-two",
        "ACL SETUSER bob on >canary-one foo",
        "AUTH ada/bob canary-three",
        "ACL SETUSER bob on >canary-one",
        "AUTH canary-four canary-five",
    ] {
        let answer = owner.say(line);
        assert!(!answer.contains("canary"), "{line}: {answer}");
    }
    for line in ["SLOWLOG GET 128", "ACL LIST", "ACL GETUSER bob", "ACL LOG", "INFO everything", "CLIENT LIST"] {
        let answer = owner.say(line);
        assert!(!answer.contains("canary"), "{line}: {answer}");
    }
}

/// Its owner must know where guesses come from, but the connection may be used by another tenant.
#[test]
fn s5_the_log_tells_of_a_login_from_another_tenant_only_where_it_came_from() {
    let (world, mut owner) = ada();
    let (mut own, mut bob) = (world.connect("ada"), world.tenant("bob", 1, 0));
    for client in [&mut own, &mut bob] {
        hold(client, &[("CLIENT SETNAME canary", "+OK\r\n"), ("SELECT 7", "+OK\r\n")]);
    }
    hold(&mut own, &[("AUTH ada/nobody wrong", WRONG)]);
    hold(&mut bob, &[("AUTH ada wrong", WRONG)]);
    let log = owner.say("ACL LOG");
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("id=")).collect();
    let [of_bob, of_own] = lines[..] else { panic!("two refusals: {log}") };
    let address = bob.stream.local_addr().expect("a socket");
    assert!(of_bob.contains(&format!(" addr={address} ")) && of_bob.contains(" name= "), "{of_bob}");
    assert!(of_bob.contains(" db=0 ") && of_bob.contains(" user= "), "{of_bob}");
    assert!(of_own.contains(" name=canary ") && of_own.contains(" db=7 "), "{of_own}");
    let fields =
        |line: &str| line.split(' ').map(|field| field.split('=').next().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(fields(of_bob), fields(of_own), "tools find all fields");
}

/// Rules can name every subcommand that `HELP` lists; others are refused to all users with limited rights.
#[test]
fn rules_can_name_every_subcommand() {
    let (_world, mut owner) = ada();
    for command in COMMANDS.iter().filter(|command| command.is_container) {
        for name in crate::support::table::subcommands(&mut owner, command.name) {
            // Some words of the help are arguments.
            if owner.say(&format!("{} {name}", command.name)).starts_with("-ERR unknown subcommand '") {
                continue;
            }
            let answer = owner.say(&format!("ACL SETUSER bob +{}|{}", command.name, name.to_lowercase()));
            assert_eq!(answer, "+OK\r\n", "{}|{name}", command.name);
        }
    }
}
