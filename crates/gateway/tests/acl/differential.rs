//! Sends the same rules, logins and commands to Weir and to a redis-server. Texts are compared except for hashes of
//! passwords, and for the order of rules about single commands, which Redis draws at random.

use weir_command::table::redis_facts::is_in_redis_7_0;
use weir_command::table::subcommands::SUBCOMMANDS;
use weir_command::table::{COMMANDS, Command};
use weir_io::Rng;

use crate::differential::{Redis, setting};
use crate::support::Client;
use crate::support::world::World;

/// Whether Redis has the command or subcommand of this name only in a later version, or never.
fn is_newer(name: &str) -> bool {
    let is_named = COMMANDS.iter().any(|command| command.name == name)
        || SUBCOMMANDS.iter().any(|subcommand| subcommand.full_name() == name);
    is_named && !is_in_redis_7_0(name)
}

/// The lines of a reply without lengths, with rules about commands sorted.
fn told(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply).into_owned();
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.retain(|word| !is_newer(word.trim_start_matches(['+', '-'])));
        let command = |word: &&str| word.starts_with(['+', '-']).then(|| word.trim_end_matches(')').to_owned());
        // Up to the next selector.
        words.split_mut(|word| word.starts_with('(')).for_each(|words| words.sort_by_key(command));
        words.join(" ").replace(')', "")
    };
    text.lines().filter(|line| !line.starts_with('$')).map(line).collect()
}

struct Both {
    redis: Client,
    weir: Client,
}

impl Both {
    fn ask(&mut self, words: &[String]) {
        let (redis, weir) = (self.redis.ask(words), self.weir.ask(words));
        assert_eq!(told(&weir), told(&redis), "{words:?}");
    }

    fn say(&mut self, line: &str) {
        self.ask(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
}

fn both(redis: &Redis, world: &World) -> Both {
    Both { redis: redis.connect(), weir: world.stranger() }
}

/// Each line begins with the number of the connection that sends it.
#[test]
fn written_out_cases_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    let mut connections: Vec<Both> = (0..3).map(|_| both(&redis, &world)).collect();
    for line in include_str!("cases.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (number, words) = line.split_once(' ').expect("a connection and a line");
        connections[number.parse::<usize>().expect("a number")].say(words);
    }
}

fn one_of<'a>(rng: &mut Rng, words: &[&'a str]) -> &'a str {
    words[rng.below(words.len() as u64) as usize]
}

/// A random rule, right or wrong.
fn random_rule(rng: &mut Rng, known: &[&Command]) -> String {
    const CATEGORIES: [&str; 12] = [
        "read",
        "write",
        "string",
        "keyspace",
        "dangerous",
        "admin",
        "fast",
        "slow",
        "pubsub",
        "connection",
        "all",
        "none",
    ];
    let sign = one_of(rng, &["+", "-"]);
    match rng.below(14) {
        0..4 => format!("{sign}@{}", one_of(rng, &CATEGORIES)),
        4..7 => format!("{sign}{}", known[rng.below(known.len() as u64) as usize].name),
        7 => format!(
            "{sign}{}",
            one_of(rng, &["config|get", "CLIENT|ID", "xinfo|stream", "debug", "acl|list", "config|x"])
        ),
        8 => format!("+{}", one_of(rng, &["select|0", "get|a", "debug|object", "config|get|a", "|", "get|", ""])),
        9 => format!(
            "{}{}",
            one_of(rng, &["~", "%R~", "%W~", "%RW~", "%w~", "%X~"]),
            one_of(rng, &["a*", "b", "*", "[ab]", "a b", ""])
        ),
        10 => format!("&{}", one_of(rng, &["a*", "b", "*", "?"])),
        11 => one_of(rng, &["allkeys", "resetkeys", "ALLCHANNELS", "resetchannels", "allcommands", "nocommands"])
            .to_owned(),
        12 => one_of(
            rng,
            &[
                "on",
                "off",
                "nopass",
                "resetpass",
                "reset",
                "clearselectors",
                "sanitize-payload",
                "skip-sanitize-payload",
                "foo",
            ],
        )
        .to_owned(),
        _ => format!("({} {} {})", random_plain(rng), random_plain(rng), random_plain(rng)),
    }
}

fn random_plain(rng: &mut Rng) -> String {
    one_of(rng, &["+@read", "+@all", "-@write", "+set", "~a*", "%R~b*", "&a", "allkeys", "-config|set", "on", "+mget"])
        .to_owned()
}

/// A random command with keys and channels in every place.
fn random_question(rng: &mut Rng, known: &[&Command]) -> Vec<String> {
    let command = known[rng.below(known.len() as u64) as usize];
    let count =
        if command.arity < 0 { command.arity.unsigned_abs() as u64 + rng.below(4) } else { command.arity as u64 };
    let mut words = vec![command.name.to_owned()];
    words
        .extend((1..count).map(|_| one_of(rng, &["a", "ab", "b", "bc", "c", "", "1", "GET", "STORE", "0"]).to_owned()));
    if let Some(place) = command.counted
        && place + 1 < words.len()
    {
        words[place] = (1 + rng.below((words.len() - place - 1) as u64)).to_string();
    }
    if command.reads_streams {
        words = vec![command.name.into(), "STREAMS".into(), "a".into(), "b".into(), "0".into(), "0".into()];
        words.resize(words.len().max(command.arity.unsigned_abs() as usize), "0".into());
    }
    words
}

/// `WEIR_COMMANDS` of each (600) from `WEIR_SEED` (0) on.
#[test]
fn random_rules_allow_what_they_allow_in_redis() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    for protocol in ["2", "3"] {
        let mut both = both(&redis, &world);
        let mut rng = Rng::new(setting("WEIR_SEED", 0));
        let list = both.redis.say("COMMAND LIST");
        // The two disagree about what an incomplete `BITFIELD` would do; both refuse to run it. `SWAPDB` has cases of
        // its own.
        let is_asked = |name: &str| !["bitfield", "swapdb"].contains(&name);
        let is_known =
            |command: &&Command| is_asked(command.name) && list.contains(&format!("\r\n{}\r\n", command.name));
        let known: Vec<&Command> = COMMANDS.iter().filter(is_known).collect();
        both.redis.say(&format!("HELLO {protocol}"));
        both.weir.say(&format!("HELLO {protocol}"));
        for _ in 0..setting("WEIR_COMMANDS", 600) {
            let name = one_of(&mut rng, &["u", "v"]).to_owned();
            let mut change = vec!["ACL".to_owned(), "SETUSER".into(), name.clone()];
            change.extend((0..1 + rng.below(4)).map(|_| random_rule(&mut rng, &known)));
            both.ask(&change);
            both.say(&format!("ACL GETUSER {name}"));
            for _ in 0..4 {
                let mut question = vec!["ACL".to_owned(), "DRYRUN".into(), name.clone()];
                question.extend(random_question(&mut rng, &known));
                both.ask(&question);
            }
        }
        both.say("ACL LIST");
        both.say("ACL DELUSER u v");
    }
}

/// The commands of every category, as far as both servers have them.
#[test]
fn categories_have_the_same_commands_and_subcommands() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    let mut both = both(&redis, &world);
    both.say("ACL CAT");
    let named = |reply: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(reply).into_owned();
        let mut names: Vec<String> =
            text.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect();
        names.retain(|name| COMMANDS.iter().any(|command| Some(command.name) == name.split('|').next()));
        names.sort();
        names
    };
    // Commands that Redis has only in later versions.
    let mut all = named(&both.redis.ask(&["COMMAND", "LIST"]));
    all.dedup();
    for category in weir_command::table::Categories::NAMES {
        let (redis, weir) = (both.redis.ask(&["ACL", "CAT", category]), both.weir.ask(&["ACL", "CAT", category]));
        let mut ours = named(&weir);
        ours.retain(|name| all.contains(name));
        assert_eq!(ours, named(&redis), "{category}");
    }
}

/// Categories as `COMMAND INFO` shows them.
#[test]
fn commands_show_the_categories_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    let mut both = both(&redis, &world);
    for command in COMMANDS {
        let mut shown = [&mut both.redis, &mut both.weir].map(|client| {
            let reply = String::from_utf8_lossy(&client.ask(&["COMMAND", "INFO", command.name])).into_owned();
            // The categories of subcommands, which follow, are checked by the other test.
            let mut names: Vec<String> = reply
                .lines()
                .skip_while(|line| !line.starts_with("+@"))
                .take_while(|line| line.starts_with("+@"))
                .map(str::to_owned)
                .collect();
            names.sort();
            (names, reply.starts_with("*1\r\n*-1") || reply.starts_with("*1\r\n$-1"))
        });
        let is_newer = shown[0].1;
        shown[0].1 = shown[1].1;
        assert!(is_newer || shown[0] == shown[1], "{}: {shown:?}", command.name);
    }
}
