//! Sends the commands of each family to Weir, on both engines, and to a redis-server: the replies must be the same
//! bytes, except for the order of elements that have no order.
//!
//! Skipped, with a message, where no `redis-server` is installed.

mod chance;
mod events;
mod geo;
mod hashes;
mod hyperloglogs;
mod lists;
mod mixture;
mod pipelined;
mod scripts;
mod sets;
mod streams;
mod zsets;

use weir_io::Rng;
use weir_node::EngineKind;

use crate::differential::{Redis, setting};
use crate::support::Client;
use crate::support::world::World;

/// A family of commands.
struct Family {
    name: &'static str,
    random: fn(&mut Rng) -> Vec<String>,
    /// Commands whose answer has elements in no order, with the number of lines that belong together.
    unordered: &'static [&'static str],
    /// Commands that are asked of all keys now and then.
    reads: &'static [&'static str],
    /// Removes from a reply what depends on the clock or on how Redis keeps the row.
    masked: fn(&str, Vec<u8>) -> Vec<u8>,
    /// Written-out cases, line by line, for what is special about the family.
    cases: &'static str,
}

static FAMILIES: [Family; 8] = [
    geo::FAMILY,
    hashes::FAMILY,
    hyperloglogs::FAMILY,
    lists::FAMILY,
    scripts::FAMILY,
    sets::FAMILY,
    streams::FAMILY,
    zsets::FAMILY,
];

/// Nothing of a reply depends on the clock.
const ALL_OF_IT: fn(&str, Vec<u8>) -> Vec<u8> = |_, reply| reply;

/// The keys that random commands are about.
const KEYS: [&str; 4] = ["a", "b", "c", "another-key"];

/// One of `words`.
fn one_of(rng: &mut Rng, words: &[&str]) -> String {
    words[rng.below(words.len() as u64) as usize].to_owned()
}

/// Commands about keys of any type.
fn random_of_keys(rng: &mut Rng) -> Vec<String> {
    let key = |rng: &mut Rng| one_of(rng, &KEYS);
    match rng.below(12) {
        0 => vec!["DEL".into(), key(rng)],
        1 => vec!["TYPE".into(), key(rng)],
        2 => vec!["RENAME".into(), key(rng), key(rng)],
        3 => vec!["RENAMENX".into(), key(rng), key(rng)],
        4 => vec!["COPY".into(), key(rng), key(rng), "REPLACE".into()],
        5 => vec!["SET".into(), key(rng), "string".into()],
        6 => vec!["GET".into(), key(rng)],
        7 => vec!["PEXPIRE".into(), key(rng), one_of(rng, &["100000000", "-1"])],
        8 => vec!["PERSIST".into(), key(rng)],
        9 => vec!["OBJECT".into(), "ENCODING".into(), key(rng)],
        10 => vec!["UNLINK".into(), key(rng), key(rng)],
        _ => vec!["EXISTS".into(), key(rng)],
    }
}

/// Weir and Redis, side by side.
struct Pair {
    redis: Client,
    weir: Client,
    unordered: &'static [&'static str],
    masked: fn(&str, Vec<u8>) -> Vec<u8>,
    asked: Vec<Vec<String>>,
}

impl Pair {
    fn ask(&mut self, args: &[String]) {
        self.asked.push(args.to_vec());
        let (mut redis, mut weir) = (self.redis.ask(args), self.weir.ask(args));
        if self.unordered.iter().any(|name| name.eq_ignore_ascii_case(&args[0])) {
            (redis, weir) = (sorted(&redis), sorted(&weir));
        }
        (redis, weir) = ((self.masked)(&args[0], redis), (self.masked)(&args[0], weir));
        assert_eq!(
            weir.escape_ascii().to_string(),
            redis.escape_ascii().to_string(),
            "{:?} after {:#?}",
            args,
            &self.asked[self.asked.len().saturating_sub(12)..]
        );
    }

    fn say(&mut self, line: &str) {
        self.ask(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }
}

/// Each side restores, as the key `moved`, what the other dumps of `key`; `false` if there is nothing.
fn exchange(pair: &mut Pair, key: &str) -> bool {
    let dump = |client: &mut Client| {
        let reply = client.ask(&["DUMP", key]);
        let start = reply.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        reply[start..reply.len().saturating_sub(2).max(start)].to_vec()
    };
    let (theirs, ours) = (dump(&mut pair.redis), dump(&mut pair.weir));
    assert_eq!(theirs.is_empty(), ours.is_empty(), "{key}");
    let is_there = !ours.is_empty();
    if is_there {
        for (client, payload) in [(&mut pair.redis, &ours), (&mut pair.weir, &theirs)] {
            let reply = client.ask(&[&b"RESTORE"[..], b"moved", b"0", payload, b"REPLACE"]);
            assert_eq!(reply, b"+OK\r\n", "{key}: {}", payload.escape_ascii());
        }
    }
    is_there
}

/// A reply with its lines sorted, so that replies with the same elements are the same.
fn sorted(reply: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = reply.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Sends `commands` random commands of a family, on `engine`, to both sides.
fn compare(redis: &Redis, world: &World, engine: EngineKind, family: &Family, seed: u64, commands: u64) {
    let mut rng = Rng::new(seed);
    let tenant = format!("{}-{engine}", family.name);
    let (theirs, ours) = (redis.connect(), world.connect(&tenant));
    let mut pair =
        Pair { redis: theirs, weir: ours, unordered: family.unordered, masked: family.masked, asked: Vec::new() };
    let hello = if seed.is_multiple_of(2) { "HELLO 2" } else { "HELLO 3" };
    pair.redis.ask(&hello.split(' ').collect::<Vec<_>>());
    pair.weir.ask(&hello.split(' ').collect::<Vec<_>>());
    pair.say("FLUSHALL");
    for case in family.cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // Words are separated by spaces, or by bars if they may contain spaces.
        match case.contains('|') {
            true => pair.ask(&case.split('|').map(|word| word.replace("\\n", "\n")).collect::<Vec<_>>()),
            false => pair.say(case),
        }
    }
    for count in 1..=commands {
        let command = if rng.chance(0.12) { random_of_keys(&mut rng) } else { (family.random)(&mut rng) };
        pair.ask(&command);
        if count % 500 == 0 {
            pair.asked.drain(..pair.asked.len().saturating_sub(12));
            for (name, key) in family.reads.iter().flat_map(|name| KEYS.map(|key| (*name, key))) {
                pair.say(&name.replace("KEY", key));
            }
            let key = one_of(&mut rng, &KEYS);
            if exchange(&mut pair, &key) {
                for read in family.reads.iter().chain(&["TYPE KEY"]) {
                    let line = read.replace("KEY", "moved");
                    let words: Vec<&str> = line.split(' ').collect();
                    let [theirs, ours] = [&mut pair.redis, &mut pair.weir]
                        .map(|client| sorted(&(family.masked)(words[0], client.ask(&words))));
                    let [theirs, ours] = [theirs, ours].map(|reply| String::from_utf8_lossy(&reply).into_owned());
                    assert_eq!(ours, theirs, "{line}, of {key}");
                }
            }
        }
    }
}

/// Runs `WEIR_COMMANDS` for each seed, engine and family (1,000), and `WEIR_SEEDS` seeds (2) from `WEIR_SEED` (0) on;
/// only the family `WEIR_FAMILY` if that is given. Seeds alternate the protocol.
#[test]
fn families_are_answered_alike_on_both_engines() {
    let Some(redis) = Redis::start() else { return };
    let world = World::new();
    let wanted = std::env::var("WEIR_FAMILY").ok();
    for family in FAMILIES.iter().filter(|family| wanted.as_deref().is_none_or(|wanted| wanted == family.name)) {
        for engine in EngineKind::ALL {
            drop(world.tenant_on(engine, &format!("{}-{engine}", family.name), 1, 0));
            let first = setting("WEIR_SEED", 0);
            for seed in first..first + setting("WEIR_SEEDS", 2) {
                compare(&redis, &world, engine, family, seed, setting("WEIR_COMMANDS", 1_000));
            }
        }
    }
}
