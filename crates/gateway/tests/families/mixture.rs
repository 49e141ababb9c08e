//! Random commands of all families, in pipelines, with expiry, transactions and scripts: a million in `./run test`, and
//! any number by command.
//!
//! They come in epochs of one family each, which begin with an empty tenant. If a reply differs, the epoch is repeated
//! with fewer and fewer commands as long as any reply differs, and what is left is reported.

use std::collections::BTreeSet;
use std::fmt::Write;

use weir_io::Rng;
use weir_node::EngineKind;

use super::{FAMILIES, Family, KEYS, one_of, random_of_keys, scripts, sorted};
use crate::differential::{Redis, is_close, setting};
use crate::support::random::random_command;
use crate::support::world::World;
use crate::support::{Client, encode};

/// Number of commands in an epoch.
const EPOCH: u64 = 1000;
/// A pipeline is sent when it has this many commands, or bytes. With more, replies would wait that nobody reads yet.
const PIPELINE: usize = 100;
const PIPELINE_BYTES: usize = 32 << 10;

/// Commands whose answers have parts that depend on the clock, or on data that Redis keeps in another way than Weir.
const NOT_QUEUED: [&str; 7] = ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "XINFO", "XPENDING", "OBJECT"];

/// A command, and how its answers are compared.
#[derive(Clone)]
struct Asked {
    words: Vec<String>,
    /// `None` for commands on strings, whose answers are compared as they are.
    family: Option<&'static Family>,
}

impl Asked {
    fn is(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name)
    }

    fn has_no_order(&self) -> bool {
        let of_families = FAMILIES.iter().any(|family| family.unordered.iter().any(|name| self.is(name)));
        of_families || ["EXEC", "KEYS", "SCAN"].iter().any(|name| self.is(name)) || self.is_sorted_as_text_by_others()
    }

    /// Whether this sorts as text by other keys. Then members of a set or a sorted set that are equal come in the order
    /// of Redis' hash table.
    fn is_sorted_as_text_by_others(&self) -> bool {
        let is_text = self.words.iter().any(|word| word.eq_ignore_ascii_case("ALPHA"));
        let by_others = self.words.windows(2).any(|two| two[0].eq_ignore_ascii_case("BY") && two[1].contains('*'));
        ["SORT", "SORT_RO"].iter().any(|name| self.is(name)) && is_text && by_others
    }

    /// Whether both answers are the same, as far as they have to be. Redis keeps the sorted sets in `converted` in
    /// another way.
    fn is_answered_alike(&self, theirs: &[u8], ours: &[u8], converted: &Converted) -> bool {
        if self.is("OBJECT") && converted.has(&self.words[2..]) {
            let kept = [&b"$8\r\nskiplist\r\n"[..], b"$8\r\nlistpack\r\n"];
            return theirs == ours || [theirs, ours] == kept;
        }
        if theirs == ours || (self.words.len() == 2 && is_close(&self.words[0], theirs, ours)) {
            return true;
        }
        let comparable = |reply: &[u8]| {
            let reply = if self.has_no_order() { sorted(reply) } else { reply.to_vec() };
            self.family.map_or(reply.clone(), |family| (family.masked)(&self.words[0], reply))
        };
        comparable(theirs) == comparable(ours)
    }
}

/// Keys that may hold a sorted set that `SORT` has looked at: from then on Redis keeps it as a large one, however small
/// it is.
#[derive(Default)]
struct Converted(BTreeSet<String>);

impl Converted {
    fn has(&self, keys: &[String]) -> bool {
        keys.iter().any(|key| self.0.contains(key))
    }

    /// To be called before `asked` is asked.
    fn note(&mut self, asked: &Asked) {
        let moves = asked.family.is_some_and(|family| family.name == scripts::FAMILY.name)
            || ["RENAME", "RENAMENX", "COPY"].iter().any(|name| asked.is(name));
        if moves && self.has(&asked.words) {
            self.0.extend(KEYS.map(str::to_owned));
        } else if ["SORT", "SORT_RO"].iter().any(|name| asked.is(name)) {
            self.0.extend(asked.words.get(1).cloned());
        }
    }
}

/// The error of a redis-server 7.0 for words that it cannot sort as numbers. It looks at `errno` after a conversion and
/// does not reset it before. So once a number was out of range, it gives this error for every word that is not a whole
/// number, until some system call fails.
const NO_SCORES: &[u8] = b"One or more scores can't be converted into double";

/// Whether a redis-server takes an old error for one of this command.
fn is_old_error(theirs: &[u8], ours: &[u8]) -> bool {
    let says = |reply: &[u8]| reply.windows(NO_SCORES.len()).any(|part| part == NO_SCORES);
    says(theirs) && !says(ours)
}

/// Times that are long ago or far away, so that nobody has to wait for them.
fn expiry(rng: &mut Rng) -> Vec<String> {
    let key = one_of(rng, &KEYS);
    match rng.below(5) {
        0 => vec!["PEXPIREAT".into(), key, one_of(rng, &["1", "1000000000000"])],
        1 => vec!["EXPIREAT".into(), key, one_of(rng, &["1", "99999999999"]), one_of(rng, &["NX", "XX", "GT", "LT"])],
        2 => vec!["PEXPIREAT".into(), key, "99999999999999".into()],
        3 => vec!["PERSIST".into(), key],
        _ => vec!["EXPIRE".into(), key, one_of(rng, &["-1", "0", "100000"])],
    }
}

/// Which of two spans of the same length ends later depends on the millisecond in which each of them was set.
fn compares_spans(words: &[String]) -> bool {
    let is = |word: &String, names: [&str; 2]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    is(&words[0], ["EXPIRE", "PEXPIRE"]) && words.iter().skip(3).any(|word| is(word, ["GT", "LT"]))
}

/// A random command of an epoch of `family`.
fn draw(rng: &mut Rng, family: Option<&'static Family>) -> Asked {
    let of_family = |rng: &mut Rng| {
        let words = match family {
            Some(family) => (family.random)(rng),
            None => std::iter::repeat_with(|| random_command(rng))
                .find(|words| !compares_spans(words))
                .expect("there are others"),
        };
        Asked { words, family }
    };
    match rng.below(100) {
        0..=9 => {
            let words = random_of_keys(rng);
            // Redis remembers how a string was made.
            let is_told = family.is_some() || words[0] != "OBJECT";
            if is_told { Asked { words, family } } else { of_family(rng) }
        }
        10..=14 => Asked { words: expiry(rng), family },
        15 => Asked { words: (scripts::FAMILY.random)(rng), family: Some(&scripts::FAMILY) },
        _ => of_family(rng),
    }
}

/// A transaction. Some are discarded, and in some there is a command that would otherwise wait.
fn transaction(rng: &mut Rng, family: Option<&'static Family>, all: &mut Vec<Asked>) {
    let plain = |words: &[&str]| Asked { words: words.iter().map(|word| (*word).to_owned()).collect(), family };
    if rng.chance(0.2) {
        all.push(Asked { words: vec!["WATCH".into(), one_of(rng, &KEYS)], family });
    }
    all.push(plain(&["MULTI"]));
    for _ in 0..rng.below(6) {
        let asked = if rng.chance(0.05) {
            // If `MULTI` is left out to see whether a difference stays, the command does wait, but not for ever.
            let name = one_of(rng, &["BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX"]);
            let words = vec![name, one_of(rng, &KEYS), "0.01".into()];
            Asked { words, family }
        } else {
            draw(rng, family)
        };
        if !NOT_QUEUED.iter().any(|name| asked.is(name)) {
            all.push(asked);
        }
    }
    all.push(plain(&[if rng.chance(0.1) { "DISCARD" } else { "EXEC" }]));
}

fn epoch(rng: &mut Rng) -> Vec<Asked> {
    let family = FAMILIES.get(rng.below(FAMILIES.len() as u64 + 1) as usize);
    let mut all = Vec::new();
    while (all.len() as u64) < EPOCH {
        if rng.chance(0.03) { transaction(rng, family, &mut all) } else { all.push(draw(rng, family)) }
    }
    all
}

/// Weir and Redis.
struct Sides {
    redis: Client,
    weir: Client,
}

impl Sides {
    /// Asks both sides everything. Returns the position of the first answer that differs, and both answers.
    fn ask_all(&mut self, all: &[Asked]) -> Option<(usize, Vec<u8>, Vec<u8>)> {
        for client in [&mut self.redis, &mut self.weir] {
            assert_eq!(client.say("FLUSHDB"), "+OK\r\n");
        }
        let (mut difference, mut converted, mut is_over) = (None, Converted::default(), false);
        let mut begin = 0;
        while begin < all.len() {
            let mut pipeline = Vec::new();
            let mut end = begin;
            while end < all.len() && end - begin < PIPELINE && (end == begin || pipeline.len() < PIPELINE_BYTES) {
                pipeline.extend(encode(&all[end].words));
                end += 1;
            }
            self.redis.send(&pipeline);
            self.weir.send(&pipeline);
            for (place, asked) in (begin..end).zip(&all[begin..end]) {
                let (theirs, ours) = (self.redis.reply(), self.weir.reply());
                converted.note(asked);
                // Later commands miss what this one did not store.
                is_over |= is_old_error(&theirs, &ours);
                if !is_over && difference.is_none() && !asked.is_answered_alike(&theirs, &ours, &converted) {
                    difference = Some((place, theirs, ours));
                }
            }
            if is_over || difference.is_some() {
                break;
            }
            begin = end;
        }
        // A transaction whose end was left out must not swallow the next commands.
        for client in [&mut self.redis, &mut self.weir] {
            client.say("DISCARD");
        }
        difference
    }

    /// As few of `all` as still make a difference.
    fn shrink(&mut self, mut all: Vec<Asked>) -> Vec<Asked> {
        let mut step = all.len() / 2;
        while step > 0 {
            let mut begin = 0;
            while begin < all.len() {
                let end = (begin + step).min(all.len());
                let fewer: Vec<Asked> = all[..begin].iter().chain(&all[end..]).cloned().collect();
                match self.ask_all(&fewer) {
                    Some((place, ..)) => all = fewer[..=place].to_vec(),
                    None => begin = end,
                }
            }
            step /= 2;
        }
        all
    }
}

/// What to type to see the difference.
fn script(all: &[Asked]) -> String {
    all.iter().fold(String::new(), |mut text, asked| {
        let words: Vec<String> = asked.words.iter().map(|word| format!("\"{}\"", word.escape_default())).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", words.join(" "));
        text
    })
}

/// Compares this many commands on one engine.
fn compare(redis: &Redis, world: &World, engine: EngineKind, seed: u64, commands: u64) {
    let mut sides = Sides { redis: redis.connect(), weir: world.connect(&format!("mixture-{engine}")) };
    let (mut rng, mut asked) = (Rng::new(seed), 0);
    while asked < commands {
        let hello = if rng.chance(0.5) { "HELLO 2" } else { "HELLO 3" };
        sides.redis.say(hello);
        sides.weir.say(hello);
        let all = epoch(&mut rng);
        asked += all.len() as u64;
        if let Some((place, theirs, ours)) = sides.ask_all(&all) {
            eprintln!(
                "seed {seed}, {engine}, {hello}, {asked} commands: {:?}\nweir:  {}\nredis: {}",
                all[place].words,
                ours.escape_ascii(),
                theirs.escape_ascii()
            );
            let few = sides.shrink(all[..=place].to_vec());
            panic!("seed {seed}, {engine}: not answered alike, after (FLUSHDB, and)\n{}", script(&few));
        }
    }
    eprintln!("{asked} commands on {engine} are answered alike");
}

/// Runs `WEIR_COMMANDS` on both engines together (a million), from `WEIR_SEED` (0); all of them on `WEIR_ENGINE` if
/// that is given, with this seed.
#[test]
fn mixtures_of_all_families_are_answered_alike() {
    let world = World::new();
    let asked = std::env::var("WEIR_ENGINE").ok();
    let is_asked = |engine: &EngineKind| asked.as_ref().is_none_or(|name| *name == engine.to_string());
    let engines: Vec<EngineKind> = EngineKind::ALL.into_iter().filter(is_asked).collect();
    let commands = setting("WEIR_COMMANDS", 1_000_000) / engines.len().max(1) as u64;
    let seed = setting("WEIR_SEED", 0);
    std::thread::scope(|scope| {
        for (engine, seed) in engines.into_iter().zip(seed..) {
            let Some(redis) = Redis::start() else { return };
            drop(world.tenant_on(engine, &format!("mixture-{engine}"), 1, 0));
            let world = &world;
            scope.spawn(move || compare(&redis, world, engine, seed, commands));
        }
    });
}
